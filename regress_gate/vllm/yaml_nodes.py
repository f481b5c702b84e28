"""YAML as other tools write and read it: several documents, anchors, merge keys, with the line of every key and item.

Every scalar stays the text that is written, or None: `0.90` is an argument's value, `yes` a variable's. Stricter files,
which people write for this program, are read by `model.documents`.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeGuard

from regress_gate.errors import InputError
from regress_gate.model.documents import yaml_problem

MAX_NODES = 200_000
"""Values of a file, each alias counted with all that it stands for: more than any list of manifests has, and few
enough to be read in seconds."""
_MAX_DEPTH = 60
_MAX_KEY = 500
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1


def _end_line(event: Any) -> int:
    """A block ends at the beginning of the line behind it."""
    mark = event.end_mark
    return int(mark.line) + (0 if mark.column == 0 and mark.line > event.start_mark.line else 1)


class YamlText(str):
    """A scalar as it is written, with the lines that it begins and ends on. An alias has those of its anchor."""

    __slots__ = ("end_line", "line")
    line: int
    end_line: int


class YamlMap(dict[str, Any]):
    """A mapping, with the line that it begins on and the lines of its keys."""

    line: int = 0
    lines: dict[str, int]

    def line_of(self, key: str) -> int:
        return self.lines.get(key, self.line)


class YamlList(list[Any]):
    """A sequence, with the line that it begins on and the lines of its items."""

    line: int = 0
    lines: list[int]


def is_map(value: Any) -> TypeGuard[YamlMap]:
    return isinstance(value, YamlMap)


def child(value: Any, *path: str) -> Any:
    """The value at a path of keys; None where there is none."""
    for key in path:
        value = value.get(key) if isinstance(value, YamlMap) else None
    return value


def items(value: Any) -> list[tuple[Any, int]]:
    """The items of a list with their lines; empty for anything else."""
    return list(zip(value, value.lines, strict=True)) if isinstance(value, YamlList) else []


def text_of(value: Any) -> str | None:
    """A scalar's text; None for null, mappings and sequences."""
    return value if isinstance(value, str) else None


def read_yaml_documents(text: str, where: str | Path) -> list[Any]:
    """The documents of a file, without empty ones. Raises InputError with the line for bad syntax, repeated keys,
    aliases that grow without bounds and nesting without end."""
    import yaml  # only files in YAML need it

    # libyaml's parser, if it is installed.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        events: Iterator[Any] = iter(loader(text).get_event, None)
        return _Reader(events, where).documents()
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        line = mark.line + 1 if mark else None
        if mark is not None and re.match(r" *\t", text.split("\n")[min(mark.line, text.count("\n"))]):
            raise InputError("not valid YAML: a tab indents", where=where, line=line, todo="write spaces") from None
        raise InputError(yaml_problem(error), where=where, line=line) from None
    except UnicodeError:
        raise InputError("not valid YAML: unreadable text", where=where) from None


class _Reader:
    def __init__(self, events: Iterator[Any], where: str | Path):
        self._events = events
        self._where = where
        self._anchors: dict[str, tuple[Any, int]] = {}
        """Values, with the number of nodes that each stands for."""
        self._nodes = 0

    def documents(self) -> list[Any]:
        import yaml  # only files of deployments need it

        found = []
        while not isinstance(event := next(self._events), yaml.StreamEndEvent):
            if isinstance(event, yaml.DocumentStartEvent):
                self._anchors = {}
                value = self._build(next(self._events), 0)
                if value is not None:
                    found.append(value)
        return found

    def _refuse(self, what: str, event: Any, todo: str | None = None) -> InputError:
        return InputError(what, where=self._where, line=_line(event), todo=todo)

    def _count(self, nodes: int, event: Any) -> None:
        self._nodes += nodes
        if self._nodes > MAX_NODES:
            raise self._refuse(f"holds more than {MAX_NODES} values", event, "give the part with the server")

    def _build(self, event: Any, depth: int) -> Any:
        import yaml  # only files of deployments need it

        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in self._anchors:
                raise self._refuse("an alias without its anchor", event)
            value, nodes = self._anchors[event.anchor]
            self._count(nodes, event)
            return value
        if depth > _MAX_DEPTH:
            raise self._refuse("nested too deeply", event)
        before = self._nodes
        self._count(1, event)
        value = self._value(event, depth)
        if event.anchor is not None:
            self._anchors[event.anchor] = value, self._nodes - before
        return value

    def _value(self, event: Any, depth: int) -> Any:
        import yaml  # only files of deployments need it

        if isinstance(event, yaml.ScalarEvent):
            is_null = event.implicit[0] and event.value in _NULLS
            if is_null or event.tag == "!reset":  # how Compose takes a value back
                return None
            text = YamlText(event.value)
            text.line, text.end_line = _line(event), _end_line(event)
            return text
        if isinstance(event, yaml.SequenceStartEvent):
            sequence = YamlList()
            sequence.line, sequence.lines = _line(event), []
            while not isinstance(inner := next(self._events), yaml.SequenceEndEvent):
                sequence.lines.append(_line(inner))
                sequence.append(self._build(inner, depth + 1))
            return sequence
        return self._mapping(event, depth)

    def _mapping(self, event: Any, depth: int) -> YamlMap:
        import yaml  # only files of deployments need it

        mapping, merged = YamlMap(), []
        mapping.line, mapping.lines = _line(event), {}
        while not isinstance(key_event := next(self._events), yaml.MappingEndEvent):
            if not isinstance(key_event, yaml.ScalarEvent):
                raise self._refuse("a key must be plain text", key_event)
            key = str(key_event.value)[:_MAX_KEY]
            value = self._build(next(self._events), depth + 1)
            if key == "<<" and key_event.implicit[0]:
                merged += [value] if isinstance(value, YamlMap) else [one for one, _ in items(value)]
            elif key in mapping:
                raise self._refuse(f"the key {key[:60]!r} is given twice", key_event)
            else:
                mapping[key] = value
                mapping.lines[key] = _line(key_event)
        for other in merged:
            if not isinstance(other, YamlMap):
                raise self._refuse("<< merges mappings only", event)
            self._count(len(other), event)
            for key, value in other.items():
                if key not in mapping:
                    mapping[key], mapping.lines[key] = value, other.line_of(key)
        return mapping
