"""Strict reading of the files people write: YAML and TOML text in, a validated frozen model out.

Every complaint is one line with file and line: unknown keys name the nearest known one, repeated keys and aliases
are refused. YAML is read with the YAML 1.2 core types, so `on`, `no`, `12:30` and dates stay text.
"""

import re
import tomllib
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from regress_gate.errors import InputError
from regress_gate.model.nearest import did_you_mean

ModelT = TypeVar("ModelT", bound=BaseModel)
Location = tuple[str | int, ...]

MAX_DEPTH = 40


class StrictModel(BaseModel):
    """Base of all models read from files: immutable, no unknown keys, no silent conversion of text to numbers."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


@dataclass(frozen=True, slots=True)
class Document:
    """Parsed data, and for each key or item the line it stands on."""

    data: Any
    where: str | Path
    lines: dict[Location, int]

    def line(self, location: Location) -> int | None:
        """The line of the place, or of the nearest enclosing place that has one."""
        for end in range(len(location), -1, -1):
            if (found := self.lines.get(location[:end])) is not None:
                return found
        return None


class _CoreLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """libyaml's parser where it is there, with the scalar types of the YAML 1.2 core schema."""


_CoreLoader.yaml_implicit_resolvers = {}
for _tag, _pattern, _first in (
    ("null", r"null|Null|NULL|~|", ["n", "N", "~", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", list("-+0123456789")),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", list("-+.0123456789")),
):
    _CoreLoader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(rf"(?:{_pattern})$"), _first)


def parse_yaml(text: str, where: str | Path) -> Document:
    """Parse one YAML document. Raises InputError with the line for bad syntax, repeated keys, aliases and tags."""
    try:
        node = yaml.compose(text, Loader=_CoreLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        what = getattr(error, "problem", None) or "unreadable text"
        raise InputError(f"not valid YAML: {what}", where=where, line=mark.line + 1 if mark else None) from None
    except (RecursionError, ValueError) as error:
        raise InputError(f"not valid YAML: {type(error).__name__}", where=where) from None
    lines: dict[Location, int] = {}
    seen: set[int] = set()

    def build(node: yaml.Node, location: Location) -> Any:
        line = node.start_mark.line + 1
        lines.setdefault(location, line)
        if len(location) > MAX_DEPTH:
            raise InputError("nested too deeply", where=where, line=line)
        if isinstance(node, yaml.ScalarNode):
            return _scalar(node, where)
        if id(node) in seen:
            raise InputError("YAML aliases are not supported", where=where, line=line, todo="write the value out")
        seen.add(id(node))
        if isinstance(node, yaml.SequenceNode) and node.tag.endswith(":seq"):
            return [build(child, (*location, index)) for index, child in enumerate(node.value)]
        if not isinstance(node, yaml.MappingNode) or not node.tag.endswith(":map"):
            raise InputError(f"YAML tag {node.tag!r} is not supported", where=where, line=line)
        result: dict[Hashable, Any] = {}
        for key_node, value_node in node.value:
            key, at = _key(key_node, where), key_node.start_mark.line + 1
            if key in result:
                raise InputError(f"key {key!r} is given twice", where=where, line=at)
            lines[(*location, key)] = at
            result[key] = build(value_node, (*location, key))
        return result

    return Document(None if node is None else build(node, ()), where, lines)


def _key(node: yaml.Node, where: str | Path) -> str:
    if not isinstance(node, yaml.ScalarNode):
        raise InputError("a key must be plain text", where=where, line=node.start_mark.line + 1)
    return str(node.value)


def _scalar(node: yaml.ScalarNode, where: str | Path) -> Any:
    text = str(node.value)
    match node.tag.rpartition(":")[2]:
        case "null":
            return None
        case "bool":
            return text.lower() == "true"
        case "int" if len(text) < 400:
            return int(text, 8 if text.startswith("0o") else 16 if text.startswith("0x") else 10)
        case "float":
            return float(text)
        case "str":
            return text
    raise InputError(f"unsupported value {text[:40]!r}", where=where, line=node.start_mark.line + 1)


def parse_toml(text: str, where: str | Path) -> Document:
    """Parse a TOML document; lines of keys are found by looking for them, as the parser does not report them."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"line (\d+)", str(error))
        what = re.sub(r" \(at .*\)$", "", str(error))
        raise InputError(f"not valid TOML: {what}", where=where, line=int(found[1]) if found else None) from None
    return Document(data, where, dict(_toml_lines(text)))


def _toml_lines(text: str) -> Iterator[tuple[Location, int]]:
    table: Location = ()
    counts: dict[Location, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if header := re.match(r"\s*(\[\[?)([^\[\]]+)\]", line):
            table = tuple(part.strip().strip("\"'") for part in header[2].split("."))
            if header[1] == "[[":
                counts[table] = counts.get(table, -1) + 1
                table = (*table, counts[table])
            yield table, number
        elif key := re.match(r"\s*([A-Za-z0-9_\-\"'.]+)\s*=", line):
            yield (*table, *(part.strip("\"'") for part in key[1].split("."))), number


def validate(model: type[ModelT], document: Document, *, root: Location = ()) -> ModelT:
    """Check the document (or the part at `root` of a larger one, already cut out) against a model.

    Raises InputError for the first complaint, in the order of the file's lines.
    """
    if not isinstance(document.data, dict):
        what = "the file is empty" if document.data is None else "expected keys and values"
        raise InputError(what, where=document.where, line=document.line(root))
    try:
        return model.model_validate(document.data)
    except ValidationError as failure:
        complaints = []
        for error in failure.errors(include_url=False):
            location = (*root, *error["loc"])
            complaints.append((document.line(location) or 0, _complaint(model, error["type"], error["loc"], error)))
        line, what = min(complaints, key=lambda complaint: complaint[0])
        raise InputError(what, where=document.where, line=line or None) from None


def _complaint(model: type[BaseModel], kind: str, location: Location, error: Any) -> str:
    path = ".".join(str(part) for part in location)
    if kind == "extra_forbidden":
        parent = ".".join(str(part) for part in location[:-1])
        hint = did_you_mean(str(location[-1]), _fields_at(model, location[:-1]))
        return f"unknown key {str(location[-1])!r}{f' in {parent}' if parent else ''}{hint}"
    if kind == "missing":
        return f"key {path!r} is missing"
    message = str(error["msg"]).removeprefix("Value error, ")
    return f"{path}: {message}" if path else message


def _fields_at(model: type[BaseModel], location: Location) -> list[str]:
    """The keys that are known at a place, found by walking the models' annotations."""
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
