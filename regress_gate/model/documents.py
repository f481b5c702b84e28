"""Strict reading of files that people write: YAML and TOML text in, a validated frozen model out.

Every error is one line with file and line number: unknown keys name the nearest known one, repeated keys and aliases
are refused. YAML is read with the YAML 1.2 core types, so `on`, `no`, `12:30` and dates stay text.
"""

import json
import re
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf, isfinite
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Strict, ValidationError

from regress_gate.errors import InputError
from regress_gate.text import did_you_mean

ModelT = TypeVar("ModelT", bound=BaseModel)
KeyPath = tuple[str | int, ...]

MAX_DEPTH = 40

StrictInt = Annotated[int, Strict()]
"""A number without a fraction; neither text nor a truth value."""
StrictFloat = Annotated[float, Strict()]
"""A number; neither text nor a truth value."""


class StrictModel(BaseModel):
    """Base of all models read from files: immutable, no unknown keys. `Whole` and `Real` take no text for a number."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


@dataclass(frozen=True, slots=True)
class Document:
    """Parsed data, and the line of each key and item."""

    data: Any
    where: str | Path
    lines: dict[KeyPath, int]

    def line(self, location: KeyPath) -> int | None:
        """The line of a key or item, or of the nearest enclosing one that has a line."""
        for end in range(len(location), -1, -1):
            if (line := self.lines.get(location[:end])) is not None:
                return line
        return None


_CORE_TYPES: tuple[tuple[re.Pattern[str], Callable[[str], Any]], ...] = tuple(
    (re.compile(pattern, re.ASCII), read)
    for pattern, read in (
        (r"null|Null|NULL|~|", lambda _: None),
        (r"true|True|TRUE|false|False|FALSE", lambda text: text.lower() == "true"),
        (r"[-+]?[0-9]+", int),
        (r"0o[0-7]+", lambda text: int(text, 8)),
        (r"0x[0-9a-fA-F]+", lambda text: int(text, 16)),
        (r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", float),
    )
)
"""Plain scalars of the YAML 1.2 core schema, without infinities and NaN; anything else is text."""

_FIRST_CHARACTERS = frozenset(["", *"nN~tTfF+-.0123456789"])
"""First characters of those scalars. Most scalars begin with others and skip the patterns: a fifth of the time."""

MAX_DIGITS = 400
"""Limit for a number: more digits than any useful one has, and fewer than Python refuses to print."""


def parse_yaml(text: str, where: str | Path) -> Document:
    """Parse one YAML document. Raises InputError with the line for bad syntax, repeated keys, aliases and tags.

    Only the parser's events are used: types are chosen here, and depth is bounded.
    """

    lines: dict[KeyPath, int] = {}
    with _yaml_events(text, where) as events:
        return Document(_build_document(events, lines, where), where, lines)


def yaml_as_json(text: str, where: str | Path) -> bytearray:
    """One YAML document, with the same rules, as the JSON text of its value: for files whose values are too many.

    The memory is that of the JSON, and twice that of the text for the parser.
    """
    with _yaml_events(text, where) as events:
        return _write_json(events, where)


@contextmanager
def _yaml_events(text: str, where: str | Path) -> Iterator[Iterator[Any]]:
    """The events of one document, one at a time. Raises InputError for what YAML's parser refuses in the block."""
    import yaml  # not needed by a check of an installed program

    # libyaml's parser, if it is installed.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        # One call for each event: `yaml.parse` asks the parser twice.
        yield iter(loader(text).get_event, None)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        raise InputError(yaml_problem(error), where=where, line=mark.line + 1 if mark else None) from None
    except UnicodeError:
        raise InputError("not valid YAML: unreadable text", where=where) from None


def yaml_problem(error: Exception) -> str:
    """What is wrong, in one clause, from an error of YAML's parser. Newer ones have a bound of their own on nesting."""
    what = getattr(error, "problem", None) or "unreadable text"
    return "nested too deeply" if "nesting depth" in what else f"not valid YAML: {what}"


def _build_document(events: Iterator[Any], lines: dict[KeyPath, int], where: str | Path) -> Any:
    """Build the data from the parser's events, one at a time, so too deep nesting is refused before it is read."""
    import yaml  # as above

    def build(event: Any, location: KeyPath) -> Any:
        lines.setdefault(location, event.start_mark.line + 1)
        _check_event(event, len(location), where)
        if isinstance(event, yaml.ScalarEvent):
            return _scalar_of(event, where)
        if isinstance(event, yaml.SequenceStartEvent):
            items: list[Any] = []
            while not isinstance(child := next(events), yaml.SequenceEndEvent):
                items.append(build(child, (*location, len(items))))
            return items
        result: dict[str, Any] = {}
        while not isinstance(key_event := next(events), yaml.MappingEndEvent):
            key = _key_of(key_event, result, where)
            lines[(*location, key)] = key_event.start_mark.line + 1
            result[key] = build(next(events), (*location, key))
        return result

    return _only_document(events, lambda first: build(first, ()), where)


def _write_json(events: Iterator[Any], where: str | Path) -> bytearray:
    import yaml  # as above

    written = bytearray()

    def write(event: Any, depth: int) -> None:
        _check_event(event, depth, where)
        if isinstance(event, yaml.ScalarEvent):
            written.extend(json.dumps(_scalar_of(event, where), ensure_ascii=False).encode(errors="replace"))
        elif isinstance(event, yaml.SequenceStartEvent):
            written.extend(b"[")
            while not isinstance(child := next(events), yaml.SequenceEndEvent):
                write(child, depth + 1)
                written.extend(b",")
            _close(written, b"]")
        else:
            written.extend(b"{")
            keys: set[str] = set()
            while not isinstance(key_event := next(events), yaml.MappingEndEvent):
                keys.add(key := _key_of(key_event, keys, where))
                written.extend(json.dumps(key, ensure_ascii=False).encode(errors="replace") + b":")
                write(next(events), depth + 1)
                written.extend(b",")
            _close(written, b"}")

    _only_document(events, lambda first: write(first, 0), where)
    return written or bytearray(b"null")


def _close(written: bytearray, bracket: bytes) -> None:
    if written.endswith(b","):
        written.pop()
    written.extend(bracket)


def _only_document(events: Iterator[Any], read: Callable[[Any], Any], where: str | Path) -> Any:
    """What `read` makes of the first event of the document; None if there is none."""
    import yaml  # as above

    next(events)  # the stream begins
    if isinstance(next(events), yaml.StreamEndEvent):
        return None
    data = read(next(events))
    next(events)  # the document ends
    if isinstance(following := next(events), yaml.DocumentStartEvent):
        line = None if following.start_mark is None else following.start_mark.line + 1
        raise InputError("a second YAML document begins", where=where, line=line, todo="write one document")
    return data


def _check_event(event: Any, depth: int, where: str | Path) -> None:
    """Refuse aliases, tags and deep nesting."""
    import yaml  # as above

    line = event.start_mark.line + 1
    if isinstance(event, yaml.AliasEvent):
        raise InputError("YAML aliases are not supported", where=where, line=line, todo="write the value out")
    if event.tag is not None:
        raise InputError(f"YAML tag {event.tag!r} is not supported", where=where, line=line)
    if depth > MAX_DEPTH:
        raise InputError("nested too deeply", where=where, line=line)


def _scalar_of(event: Any, where: str | Path) -> Any:
    try:
        return _scalar(event.value) if event.implicit[0] else event.value
    except ValueError as error:
        raise InputError(str(error), where=where, line=event.start_mark.line + 1) from None


def _key_of(event: Any, known: Container[str], where: str | Path) -> str:
    import yaml  # as above

    line = event.start_mark.line + 1
    if not isinstance(event, yaml.ScalarEvent) or event.tag is not None:
        raise InputError("a key must be plain text", where=where, line=line)
    if (key := str(event.value)) in known:
        raise InputError(f"key {key!r} is given twice", where=where, line=line)
    return key


def _scalar(text: str) -> Any:
    """The value of a plain scalar. Raises ValueError for a number out of range."""
    if text[:1] not in _FIRST_CHARACTERS:
        return text
    for pattern, read in _CORE_TYPES:
        if pattern.fullmatch(text):
            value = read(text) if len(text) <= MAX_DIGITS else inf
            if isinstance(value, float) and not isfinite(value):
                raise ValueError(f"the number {text[:20]}{'…' if len(text) > 20 else ''} is out of range")
            return value
    return text


def parse_toml(text: str, where: str | Path) -> Document:
    """Parse a TOML document. The parser reports no lines of keys, so these are searched in the text."""
    import tomllib  # only needed for a configuration file

    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        match = re.search(r"line (\d+)", str(error))
        what = re.sub(r" \(at .*\)$", "", str(error))
        line = int(match[1]) if match else text.rstrip().count("\n") + 1  # "at end of document"
        raise InputError(f"not valid TOML: {what}", where=where, line=line) from None
    except RecursionError:
        raise InputError("nested too deeply", where=where) from None
    except ValueError:  # Python's limit for the digits of a number
        raise InputError("not valid TOML: a number has too many digits", where=where) from None
    document = Document(data, where, _toml_lines(text))
    _check_bounds(document)
    return document


def _check_bounds(document: Document) -> None:
    """Refuse valid TOML that is never meant: numbers of hundreds of digits, tables nested without end."""
    waiting: list[tuple[Any, KeyPath]] = [(document.data, ())]
    while waiting:
        value, location = waiting.pop()
        if len(location) > MAX_DEPTH:
            raise InputError("nested too deeply", where=document.where, line=document.line(location))
        if isinstance(value, int) and value.bit_length() > 4 * MAX_DIGITS:
            raise InputError("a number is out of range", where=document.where, line=document.line(location))
        if isinstance(value, dict):
            waiting += [(item, (*location, key)) for key, item in value.items()]
        elif isinstance(value, list):
            waiting += [(item, (*location, index)) for index, item in enumerate(value)]


_TOML_PART = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\]|\\.)*"|'[^']*')"""
_TOML_KEY = rf"{_TOML_PART}(?:[ \t]*\.[ \t]*{_TOML_PART})*"
_TOML_LINE = re.compile(
    rf"[ \t]*(?:(?P<header>\[\[?)[ \t]*(?P<table>{_TOML_KEY})[ \t]*\]|(?P<key>{_TOML_KEY})[ \t]*=[ \t]*(?P<value>.*))"
)


def _toml_lines(text: str) -> dict[KeyPath, int]:
    lines: dict[KeyPath, int] = {}
    table: KeyPath = ()
    counts: dict[KeyPath, int] = {}
    closing: str | None = None  # of the multi-line string that the line is in
    for number, line in enumerate(text.split("\n"), 1):
        if closing is not None:
            closing = None if closing in line else closing
            continue
        match = _TOML_LINE.match(line)
        if match is None:
            continue
        if match["header"]:
            table = _toml_location(match["table"], counts)
            if match["header"] == "[[":
                counts[table] = counts.get(table, -1) + 1
                table = (*table, counts[table])
            lines[table] = number
            location = table
        else:
            location = (*table, *_toml_parts(match["key"]))
            quotes = match["value"][:3]
            closing = quotes if quotes in ('"""', "'''") and quotes not in match["value"][3:] else None
        for end in range(1, min(len(location), MAX_DEPTH) + 1):
            lines.setdefault(location[:end], number)
    return lines


def _toml_location(key: str, counts: dict[KeyPath, int]) -> KeyPath:
    """The key path of a table; a table below an array of tables belongs to the last item of the array."""
    location: KeyPath = ()
    parts = _toml_parts(key)
    for place, part in enumerate(parts, 1):
        location = (*location, part)
        if location in counts and place < len(parts):
            location = (*location, counts[location])
    return location


def _toml_parts(key: str) -> list[str]:
    return [part.strip("\"'") for part in re.findall(_TOML_PART, key)]


def validate(model: type[ModelT], document: Document, *, root: KeyPath = ()) -> ModelT:
    """Check a document (or the part at `root` of a larger one, already cut out) against a model.

    Raises InputError for the first error in the order of the file's lines. A missing key comes after wrong keys, one of
    which may be that key misspelt.
    """
    if not isinstance(document.data, dict):
        what = "the file is empty" if document.data is None else "expected keys and values"
        raise InputError(what, where=document.where, line=document.line(root))
    try:
        return model.model_validate(document.data)
    except ValidationError as failure:
        _, line, what = min(
            validation_messages(model, document, failure, root=root), key=lambda complaint: complaint[:2]
        )
        raise InputError(what, where=document.where, line=line or None) from None


def validation_messages(
    model: type[BaseModel], document: Document, failure: ValidationError, *, root: KeyPath = ()
) -> list[tuple[bool, int, str]]:
    """The errors of a failed validation: whether a key is missing, the line (0: unknown), what is wrong."""
    messages = []
    for error in failure.errors(include_url=False):
        what = _message_text(model, document.data, error["type"], error["loc"], error)
        messages.append((error["type"] == "missing", document.line((*root, *error["loc"])) or 0, what))
    return messages


def _message_text(model: type[BaseModel], data: Any, kind: str, location: KeyPath, error: Any) -> str:
    path = _path_text(data, location)
    if kind == "extra_forbidden":
        parent = _path_text(data, location[:-1])
        hint = did_you_mean(str(location[-1]), _fields_at(model, location[:-1]))
        return f"unknown key {str(location[-1])!r}{f' in {parent}' if parent else ''}{hint}"
    if kind == "missing":
        return f"key {'.'.join(filter(None, (_path_text(data, location[:-1]), str(location[-1]))))!r} is missing"
    if kind == "model_type":
        return f"{path}: expected keys and values"
    message = str(error["msg"]).removeprefix("Value error, ")
    return f"{path}: {message}" if path else message


def _path_text(data: Any, location: KeyPath) -> str:
    """The part of a validator's location that is in the document, without the names of alternatives it tried."""
    parts = []
    for step in location:
        if isinstance(data, dict | list) and step in (data if isinstance(data, dict) else range(len(data))):
            data = data[step]  # type: ignore[index]
            parts.append(str(step))
    return ".".join(parts)


def _fields_at(model: type[BaseModel], location: KeyPath) -> list[str]:
    """The keys that are known at a key path, found in the models' annotations."""
    current: list[Any] = [model]
    for step in location:
        following: list[Any] = []
        for owner in current:
            if isinstance(owner, type) and issubclass(owner, BaseModel):
                for name, field in owner.model_fields.items():
                    if step in (name, field.alias):
                        following.extend(_unwrap(field.annotation))
            else:
                following.extend(inner for argument in get_args(owner) for inner in _unwrap(argument))
        current = following or current
    models = [owner for owner in current if isinstance(owner, type) and issubclass(owner, BaseModel)]
    return [field.alias or name for owner in models for name, field in owner.model_fields.items()]


def _unwrap(annotation: Any) -> list[Any]:
    if get_origin(annotation) in (Union, UnionType):
        return [inner for argument in get_args(annotation) for inner in _unwrap(argument)]
    if get_origin(annotation) is Annotated:
        return _unwrap(get_args(annotation)[0])
    return [annotation]


LintLevel = Literal["error", "warning"]
LocatedMessage = tuple[KeyPath, str, LintLevel]
"""Where in the document, what is wrong, how severe."""


@dataclass(frozen=True, slots=True)
class LintMessage:
    """One finding of a linter in a file that people write. Not for errors that stop a command."""

    file: Path
    line: int | None
    what: str
    severity: LintLevel

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.line is not None else str(self.file)
        return f"{where}: {self.severity}: {self.what}"
