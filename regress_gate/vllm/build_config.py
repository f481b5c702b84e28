"""The configuration of a vLLM build: its arguments and environment variables with their defaults, and its dependencies.

It is the same on every machine, so it is stored once per build, and shipped. Not for what a server resolved it to: that
is in the start log.
"""

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, JsonValue, PlainSerializer, PlainValidator, StringConstraints

from regress_gate.errors import InputError
from regress_gate.model.documents import Document, StrictModel, validate
from regress_gate.model.version import Version

COMPUTED = "<computed>"
"""In place of a default that depends on the machine: a directory, a host name, a number of processors."""
PLATFORM = "<platform>"
"""In place of a default that depends on the accelerator."""
UNREAD = "<unknown>"
"""In place of a default that could not be read."""
_MAX_ENTRIES = 5000
_MAX_DEPTH = 8
_TOO_SHORT_FOR_PREFIX = 2
"""Letters. Such short names (`-tp`) are flags of their own and no abbreviations."""

_Text = Annotated[str, StringConstraints(max_length=2000)]
_Key = Annotated[str, StringConstraints(min_length=1, max_length=200)]


def _version(value: Any) -> Version:
    if isinstance(value, Version):
        return value
    if not isinstance(value, str):
        raise ValueError("expected a version")
    try:
        return Version.parse(value)
    except InputError as error:
        raise ValueError(str(error)) from None


def _bounded(value: Any) -> Any:
    """Reject values that no build has, and values that JSON would change."""
    waiting: list[tuple[Any, int]] = [(value, 0)]
    while waiting:
        item, depth = waiting.pop()
        if depth > _MAX_DEPTH:
            raise ValueError("nested too deeply")
        if isinstance(item, str) and len(item) > 20_000:
            raise ValueError("the text is too long")
        if isinstance(item, float) and item - item != 0:
            raise ValueError("the number is out of range")
        if isinstance(item, dict):
            waiting += [(inner, depth + 1) for inner in item.values()]
        elif isinstance(item, list):
            waiting += [(inner, depth + 1) for inner in item]
        elif item is not None and not isinstance(item, (str, int, float)):
            raise ValueError("expected a JSON value")
    return value


_Default = Annotated[JsonValue, PlainValidator(_bounded)]
ValueType = Literal["str", "int", "float", "json", "size", "size_or_auto"]
"""What the parser takes for one value; a size is an integer that may be written `32k`."""


class Argument(StrictModel):
    """One argument of `vllm serve`, or one key of a group of them (`compilation_config.mode`)."""

    flags: tuple[_Key, ...] = Field(min_length=1, max_length=50)
    """As typed, the main one first; including `--no-x` if it exists."""
    default: _Default = None
    """As JSON; text in angle brackets stands for values that JSON cannot express."""
    choices: tuple[_Text, ...] | None = Field(default=None, max_length=2000)
    """None: the parser does not limit the values."""
    names: tuple[_Text, ...] | None = Field(default=None, max_length=2000)
    """Values that vLLM names where the parser takes any text, because plugins may add some."""
    values: Literal["none", "one", "optional", "many"] = "one"
    """The number of values it takes; a switch takes none."""
    type: ValueType | None = None
    """None: not known, or a function of vLLM's own."""
    optional: bool = False
    """Whether `None` and an empty text are values too."""
    ignores_unknown: bool = False
    """Of a group of settings: whether keys that it does not have are ignored; else the parser refuses them."""
    deprecated: _Text | None = None
    """vLLM's own text about its deprecation."""


class BuildConfig(StrictModel):
    """The configuration of one build."""

    schema_version: Literal["1"] = "1"
    version: Annotated[Version, PlainValidator(_version), PlainSerializer(str)]
    arguments: Mapping[_Key, Argument] = Field(max_length=_MAX_ENTRIES)
    """By name with underscores: `max_model_len`; a key of a group has an entry of its own, `compilation_config.mode`.
    Empty if they could not be read."""
    env: Mapping[_Key, _Default] = Field(max_length=_MAX_ENTRIES)
    """The value of each variable if it is not set. Empty if they could not be read."""
    packages: Mapping[_Key, _Text] = Field(max_length=_MAX_ENTRIES)
    """Versions of the distributions that are installed with it, by normalised name."""
    requirements: Mapping[_Key, _Text] = Field(default_factory=dict, max_length=_MAX_ENTRIES)
    """What its published package demands, by normalised name: `==2.10.0`. Empty if not known."""
    mentioned: frozenset[_Key] = Field(default=frozenset(), max_length=_MAX_ENTRIES)
    """Variables that its sources read outside of the table `env`."""
    unread: tuple[_Text, ...] = Field(default=(), max_length=100)
    """What could not be read from its sources: arguments and variables may be missing."""

    def as_document(self) -> dict[str, Any]:
        """Plain JSON, always equal for the same build; fields with their default value are left out."""
        return {
            "schema_version": self.schema_version,
            "version": str(self.version),
            "arguments": {
                name: _argument_document(argument) for name, argument in sorted(self.arguments.items(), key=_by_name)
            },
            "env": {name: _canonical(value) for name, value in sorted(self.env.items(), key=_by_name)},
            "packages": dict(sorted(self.packages.items())),
            **({"requirements": dict(sorted(self.requirements.items()))} if self.requirements else {}),
            **({"mentioned": sorted(self.mentioned)} if self.mentioned else {}),
            **({"unread": list(self.unread)} if self.unread else {}),
        }

    @classmethod
    def from_document(cls, document: Any, where: str | Path = "the build's configuration") -> Self:
        """The inverse of `as_document`. Raises InputError for other documents."""
        return validate(cls, Document(document, where, {}))


def _by_name(item: tuple[str, Any]) -> str:
    return item[0]


def _argument_document(argument: Argument) -> dict[str, Any]:
    document: dict[str, Any] = {"flags": list(argument.flags), "default": _canonical(argument.default)}
    if argument.choices is not None:
        document["choices"] = sorted(argument.choices)
    if argument.names is not None:
        document["names"] = sorted(argument.names)
    if argument.values != "one":
        document["values"] = argument.values
    if argument.type is not None:
        document["type"] = argument.type
    if argument.optional:
        document["optional"] = True
    if argument.ignores_unknown:
        document["ignores_unknown"] = True
    if argument.deprecated is not None:
        document["deprecated"] = argument.deprecated
    return document


def _canonical(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _canonical(value[key]) for key in sorted(value)}
    return [_canonical(item) for item in value] if isinstance(value, list) else value


def is_fixed(value: Any) -> bool:
    """Whether a default is the same on every platform, so that two builds can be compared by it."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if item in (PLATFORM, UNREAD):
            return False
        waiting += item.values() if isinstance(item, dict) else item if isinstance(item, list) else ()
    return True


def argument_key(flag: str) -> str:
    """`max_model_len` for `--max-model-len` and for itself; of `group.key` only the group is spelled both ways."""
    group, dot, inner = flag.lstrip("-").partition(".")
    return group.replace("-", "_") + dot + inner


def argument_groups(arguments: Iterable[str]) -> set[str]:
    """The names of the groups whose keys are among the arguments, including groups in groups."""
    return {parent for name in arguments if (parent := name.rpartition(".")[0])}


class ArgumentIndex:
    """Finds the argument of a flag or a key as the parser does, also by an unambiguous prefix."""

    def __init__(self, arguments: Mapping[str, Argument]):
        self._arguments = arguments
        self._names: dict[str, str] = {}
        for name, argument in arguments.items():
            for flag in argument.flags:
                self._names.setdefault(argument_key(flag), name)
        self._groups = argument_groups(arguments)

    @property
    def keys(self) -> Collection[str]:
        """All accepted spellings, in the form of `argument_key`."""
        return self._names.keys()

    def find(self, key: str) -> str | None:
        """The name of the argument; None if no or several arguments match."""
        if key in self._names:
            return self._names[key]
        group, dot, inner = key.partition(".")
        if dot:
            return self._find_in_group(self._names.get(group), inner)
        meant = {name for known, name in self._names.items() if known.startswith(key) and "." not in known}
        return meant.pop() if len(meant) == 1 and len(key) > _TOO_SHORT_FOR_PREFIX else None

    def _find_in_group(self, group: str | None, inner: str) -> str | None:
        """A key of a group, as deep as keys are known. A group with unknown keys accepts any key."""
        name = group
        for part in inner.removesuffix("+").split("."):
            if name is None or name not in self._groups:
                break
            name = f"{name}.{part}" if f"{name}.{part}" in self._arguments else None
        return name
