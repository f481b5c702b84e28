"""The arguments and variables of a vLLM release, from the sources in its wheel. Nothing of it is imported or run.

Follows how vLLM makes its parser: `make_arg_parser` registers flags one by one or from the fields of a dataclass, whose
types decide about values and choices. The result has the form of an installed build's answer (`probe`), with the types
of values beside it. What the source does not determine has a marker in angle brackets in place of its value.
"""

import ast
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from regress_gate.bench.inspect.source_evaluator import Evaluator
from regress_gate.bench.inspect.source_model import (
    MISSING,
    UNREAD,
    ClassValue,
    EnumMember,
    External,
    FieldSpec,
    FunctionValue,
    Instance,
    InterpretedError,
    Module,
    Native,
    TooManyStepsError,
    TypeForm,
    Unknown,
    is_literal,
    is_union,
    last_name,
)
from regress_gate.vllm.build_config import Argument

GROUP = "<group>"
REQUIRED = "<required>"
MAX_TEXT = 400
_MAX_DEPTH = 3
_SERVE_MODULE = "vllm.entrypoints.cli.serve"
_PARSER_MODULES = ("vllm.entrypoints.launchers.cli_args", "vllm.entrypoints.openai.cli_args")
_ARGUMENTS_MODULE = "vllm.engine.arg_utils"
_PLATFORM_NAMES = ("vllm.platforms.current_platform",)
_BOOLEAN_OPTIONAL = External("argparse.BooleanOptionalAction")
_SUPPRESS = External("argparse.SUPPRESS")
_JSON, _SIZE, _SIZE_OR_AUTO, _ANY = (External(f"value.{name}") for name in ("json", "size", "size_or_auto", "any"))
_TYPES: dict[External, str] = {
    External("builtins.int"): "int",
    External("builtins.float"): "float",
    External("builtins.str"): "str",
    External("json.loads"): "json",
    _JSON: "json",
    _SIZE: "size",
    _SIZE_OR_AUTO: "size_or_auto",
}
_CONVERTERS = {
    "human_readable_int": _SIZE,
    "human_readable_int_or_auto": _SIZE_OR_AUTO,
    "optional_str": External("builtins.str"),
    "optional_int": External("builtins.int"),
    "optional_float": External("builtins.float"),
    "nullable_str": External("builtins.str"),
}
"""vLLM's own functions for values, by what they take."""
_VALUES_BY_FLAG = {
    "--quantization": (("vllm.model_executor.layers.quantization", "QuantizationMethods"),),
    "--load-format": (("vllm.model_executor.model_loader", "LoadFormats"),),
    "--tool-call-parser": (
        ("vllm.tool_parsers", "_TOOL_PARSERS_TO_REGISTER"),
        ("vllm.entrypoints.openai.tool_parsers", "_TOOL_PARSERS_TO_REGISTER"),
    ),
    "--reasoning-parser": (("vllm.reasoning", "_REASONING_PARSERS_TO_REGISTER"),),
}
"""Where vLLM lists the values of arguments to which plugins may add more."""
_DEPRECATED = re.compile(
    r"^deprecated\b|\b(is|are|been) (now )?deprecated|\(deprecated|deprecated:|been replaced by|will be removed", re.I
)
_KEY_DEPRECATED = re.compile(r"\[?deprecated\b|warning: this|(this )?\w+ is deprecated", re.I)
"""How the text about a key of a group begins if the key itself is deprecated, and not one of its values."""


@dataclass(frozen=True, slots=True)
class SourceTables:
    """What the sources of a release say."""

    arguments: Mapping[str, Argument]
    env: Mapping[str, Any]
    problems: tuple[str, ...]
    """What could not be followed, one line each; arguments may be missing then."""


def read_sources(read: Callable[[str], str | None]) -> SourceTables:
    """`read` gives the text of a file of the release by its path (`vllm/envs.py`), None if there is none."""
    problems: list[str] = []
    try:
        arguments = _read_arguments(read, problems)
    except (InterpretedError, TooManyStepsError, RecursionError) as error:
        problems.append(f"the arguments cannot be followed ({type(error).__name__} {error})")
        arguments = {}
    try:
        env = _read_env(read, problems)
    except (InterpretedError, TooManyStepsError, RecursionError) as error:
        problems.append(f"the variables cannot be followed ({type(error).__name__} {error})")
        env = {}
    return SourceTables(arguments, env, tuple(problems))


class _Parser(Native):
    """Records what vLLM registers in place of its parser."""

    methods = frozenset(
        {"add_argument", "add_argument_group", "add_mutually_exclusive_group", "add_parser", "set_defaults"}
    )

    def __init__(self) -> None:
        self.registered: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    def add_argument(self, *flags: Any, **options: Any) -> Any:
        self.registered.append((flags, options))
        return External("argparse.Action")

    def add_argument_group(self, *_: Any, **__: Any) -> "_Parser":
        return self

    add_mutually_exclusive_group = add_parser = add_argument_group

    def set_defaults(self, *_: Any, **__: Any) -> None:
        """Not recorded: vLLM sets no argument's default so."""


def _read_arguments(read: Callable[[str], str | None], problems: list[str]) -> dict[str, Argument]:
    rules = _Rules()
    evaluator = Evaluator("vllm", read, _hooks(rules), _PLATFORM_NAMES)
    engine = evaluator.module(_ARGUMENTS_MODULE)
    rules.learn(None if engine is None else engine.tree)
    parser = _Parser()
    if not _register(evaluator, parser):
        problems.append("it has no function that makes the parser of `vllm serve`")
        return {}
    problems += [f"not followed: {place}" for place in evaluator.skipped]
    hints = _engine_hints(evaluator)
    _name_values(evaluator, parser)
    arguments: dict[str, Argument] = {}
    for flags, options in parser.registered:
        _add(arguments, evaluator, flags, options, hints, problems)
    if not arguments:
        problems.append("it registers no arguments")
    return arguments


def _name_values(evaluator: Evaluator, parser: "_Parser") -> None:
    """Add the values that vLLM itself has for arguments that take any text."""
    for flags, options in parser.registered:
        places = _VALUES_BY_FLAG.get(flags[0], ()) if flags else ()
        if "choices" in options or "names" in options:
            continue
        for module, name in places:
            value = evaluator.get(module, name)
            values = value.args if isinstance(value, TypeForm) else evaluator.iterate(value)
            if values and all(isinstance(one, str) for one in values):
                options["names"] = list(values)
                break


def _register(evaluator: Evaluator, parser: "_Parser") -> bool:
    """Run what makes the parser of `vllm serve`; False if it is in none of the known places."""
    serve = evaluator.get(_SERVE_MODULE, "ServeSubcommand")
    if isinstance(serve, ClassValue):
        maker = evaluator.attribute(Instance(serve, {}), "subparser_init")
        if isinstance(maker, FunctionValue):
            evaluator.call(maker, [parser], {})
            return True
    for name in _PARSER_MODULES:
        maker = evaluator.get(name, "make_arg_parser")
        if isinstance(maker, FunctionValue):
            evaluator.call(maker, [parser], {})
            return True
    return False


def _add(
    arguments: dict[str, Argument],
    evaluator: Evaluator,
    flags: tuple[Any, ...],
    options: dict[str, Any],
    hints: Mapping[str, Any],
    problems: list[str],
) -> None:
    if "**" in options or not all(isinstance(flag, str) for flag in flags):
        problems.append(f"an argument is not known: {', '.join(flag for flag in flags if isinstance(flag, str))}")
        return
    if not flags or not flags[0].startswith("-"):
        return
    long = next((flag for flag in flags if flag.startswith("--")), flags[0])
    given = options.get("dest")
    name = given if isinstance(given, str) else long.lstrip("-").replace("-", "_")
    action = options.get("action")
    default = options.get("default", {"store_true": False, "store_false": True}.get(str(action)))
    names = [*flags]
    if action == _BOOLEAN_OPTIONAL:
        names = [one for flag in flags for one in (flag, f"--no-{flag[2:]}") if flag.startswith("--") or one == flag]
    kind, optional = _value_type(options, action)
    limited, suggested = _names(evaluator, options)
    group = _dataclass_in(evaluator, hints.get(name)) or (default.owner if isinstance(default, Instance) else None)
    made_later = _made_later(evaluator, name) if group is None else None
    arguments[name] = Argument(
        flags=tuple(dict.fromkeys([*(arguments[name].flags if name in arguments else ()), *names])),
        default=None if default == _SUPPRESS else plain(evaluator, default),
        choices=limited,
        names=suggested,
        values=_values(action, options),
        type=kind,
        optional=optional,
        ignores_unknown=_ignores_unknown(evaluator, group or made_later)
        and (made_later is None or _is_pydantic(evaluator, made_later)),
        deprecated=_deprecation(options),
    )
    # What such a class holds of other classes is vLLM's to fill in, so its keys are read one deep.
    keys = _group_keys(evaluator, group) if made_later is None else _group_keys(evaluator, made_later, _MAX_DEPTH - 1)
    for key, fields in keys.items():
        arguments[f"{name}.{key}"] = Argument(flags=(f"{long}.{key}",), **fields)


def _values(action: Any, options: Mapping[str, Any]) -> Any:
    nargs = options.get("nargs")
    if nargs == "?":
        return "optional"
    if action == _BOOLEAN_OPTIONAL or action in (
        "store_true",
        "store_false",
        "store_const",
        "count",
        "help",
        "version",
    ):
        return "none"
    return "many" if nargs in ("*", "+") or isinstance(nargs, int) or action in ("append", "extend") else "one"


def _value_type(options: Mapping[str, Any], action: Any) -> tuple[Any, bool]:
    """The type of one value, None where vLLM has a function of its own for it; and whether `None` is a value too."""
    if action == _BOOLEAN_OPTIONAL or (isinstance(action, str) and action.startswith("store_")):
        return None, False
    kind = options.get("type", External("builtins.str"))
    optional = isinstance(kind, TypeForm) and kind.origin == _ANY
    if isinstance(kind, TypeForm) and optional:
        kind = kind.args[0]
    if isinstance(kind, FunctionValue):
        optional = optional or kind.name.startswith(("optional_", "nullable_"))
        kind = _CONVERTERS.get(kind.name, _ANY)
    name = _TYPES.get(kind) if isinstance(kind, External) else None
    return name, optional and name is not None


def _names(evaluator: Evaluator, options: Mapping[str, Any]) -> tuple[tuple[str, ...] | None, tuple[str, ...] | None]:
    """The values to which the parser limits an argument, and those that vLLM names where it takes any text."""
    found: list[tuple[str, ...] | None] = []
    for key in ("choices", "names"):
        values = options.get(key)
        items = evaluator.iterate(values) if not isinstance(values, str) else None
        known = items and not any(isinstance(one, Unknown) for one in items)
        found.append(tuple(sorted({str(plain(evaluator, one)) for one in items or ()})) if known else None)
    return found[0], found[1]


def _deprecation(options: Mapping[str, Any]) -> str | None:
    """The sentences of the help about the deprecation; "deprecated" if only the parser marks it."""
    help_text = options.get("help")
    text = " ".join(help_text.split()).replace("%%", "%") if isinstance(help_text, str) else ""
    sentences = re.split(r"(?<=[.!])\s+(?=[A-Z`-])", text)
    matching = [number for number, sentence in enumerate(sentences) if _DEPRECATED.search(sentence)]
    if matching:
        return " ".join(sentences[matching[0] : matching[-1] + 2])[:MAX_TEXT]
    return "deprecated" if options.get("deprecated") is True else None


# From the fields of a dataclass to the arguments of argparse


@dataclass(slots=True)
class _Rules:
    """What differs between releases in how vLLM turns the type of a field into a flag."""

    sizes: frozenset[str] = frozenset()
    """Fields whose values may be written `32k`."""
    sizes_or_auto: frozenset[str] = frozenset()
    optional_switches: bool = False
    """Whether `bool | str | None` is a flag with an optional value."""
    known: dict[ClassValue, dict[str, Any]] = field(default_factory=dict)

    def learn(self, tree: ast.Module | None) -> None:
        """Read the rules from vLLM's own function, without running it."""
        functions = [
            node
            for node in ast.walk(tree or ast.Module([], []))
            if isinstance(node, ast.FunctionDef) and node.name in ("get_kwargs", "_compute_kwargs")
        ]
        for function in functions:
            assigned: dict[str, set[str]] = {}
            for node in ast.walk(function):
                if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                    assigned[node.targets[0].id] = _texts(node.value)
                if isinstance(node, ast.Constant) and node.value == "?":
                    self.optional_switches = True
            for node in ast.walk(function):
                if not isinstance(node, ast.If):
                    continue
                used = {one.id for statement in node.body for one in ast.walk(statement) if isinstance(one, ast.Name)}
                tested = _texts(node.test) | {
                    text
                    for one in ast.walk(node.test)
                    if isinstance(one, ast.Name)
                    for text in assigned.get(one.id, ())
                }
                # Only the innermost test names fields.
                if any(isinstance(one, ast.If) for statement in node.body for one in ast.walk(statement)):
                    continue
                if "human_readable_int_or_auto" in used:
                    self.sizes_or_auto |= tested
                elif "human_readable_int" in used:
                    self.sizes |= tested


def _texts(node: ast.AST) -> set[str]:
    return {one.value for one in ast.walk(node) if isinstance(one, ast.Constant) and isinstance(one.value, str)}


def _hooks(rules: _Rules) -> dict[str, Callable[..., Any]]:
    def get_kwargs(evaluator: Evaluator, cls: Any, *_: Any, **__: Any) -> Any:
        if not isinstance(cls, ClassValue):
            return Unknown(UNREAD)
        if cls not in rules.known:
            rules.known[cls] = {one.name: _field_options(evaluator, rules, one) for one in evaluator.fields(cls)}
        return {name: {key: _copy(value) for key, value in one.items()} for name, one in rules.known[cls].items()}

    def get_field(evaluator: Evaluator, cls: Any, name: Any) -> Any:
        fields = evaluator.fields(cls) if isinstance(cls, ClassValue) else []
        found = next((one for one in fields if one.name == name), None)
        return FieldSpec({"default": Unknown(UNREAD) if found is None else evaluator.default_of(found)})

    def wrapped(_: Evaluator, kind: Any = None, *__: Any) -> Any:
        return TypeForm(_ANY, (kind,))

    return {
        "get_kwargs": get_kwargs,
        "_compute_kwargs": get_kwargs,
        "get_field": get_field,
        "optional_type": wrapped,
        "parse_type": lambda _, kind=None, *__: kind,
    }


def _copy(value: Any) -> Any:
    return list(value) if isinstance(value, list) else value


def _field_options(evaluator: Evaluator, rules: _Rules, one: Any) -> dict[str, Any]:
    """The keywords with which vLLM registers the flag of a field."""
    default = evaluator.default_of(one)
    options: dict[str, Any] = {"default": None if default == MISSING else default, "help": one.doc.strip()}
    members = [_as_dict(evaluator, member) for member in _members(evaluator.field_type(one))]
    names = {member.name for member in members if isinstance(member, External)}
    if any(isinstance(member, Unknown) for member in members):
        options["type"] = Unknown(UNREAD)
        if "builtins.bool" in names:
            options["action"] = _BOOLEAN_OPTIONAL
        return options
    has_none = None in members
    origins = [member.origin for member in members if isinstance(member, TypeForm)]
    collection = next(
        (form for kind in ("tuple", "list", "set") for form in members if _is_kind(form, f"builtins.{kind}")), None
    )
    literal = next((member for member in members if is_literal(member)), None)
    if any(evaluator.is_dataclass(member) for member in members):
        options["type"] = _JSON
    elif rules.optional_switches and names == {"builtins.bool", "builtins.str"} and has_none:
        options |= {"type": External("builtins.str"), "nargs": "?", "const": True}
        return options
    elif "builtins.bool" in names:
        options["action"] = _BOOLEAN_OPTIONAL
        return options
    elif literal is not None:
        options |= _literal_options(literal, takes_any="builtins.str" in names)
    elif collection is not None:
        options |= _collection_options(collection)
    elif "builtins.int" in names:
        options["type"] = (
            _SIZE_OR_AUTO if one.name in rules.sizes_or_auto
            else _SIZE if one.name in rules.sizes
            else External("builtins.int")
        )  # fmt: skip
    elif "builtins.float" in names:
        options["type"] = External("builtins.float")
    elif External("builtins.dict") in (*members, *origins):
        plain_json = "builtins.str" not in names and all(
            member is None or _is_kind(member, "builtins.dict") for member in members
        )
        options["type"] = _JSON if plain_json else _ANY
    else:
        options["type"] = External("builtins.str")
        enum = next((m for m in members if isinstance(m, ClassValue) and evaluator.is_enum(m)), None)
        if enum is not None:
            texts = "builtins.str" in evaluator.external_bases(enum)
            values = [one.value if texts else one.name for one in evaluator.members(enum).values()]
            options |= {"names": values, "type": _ANY}
    if has_none:
        options["type"] = TypeForm(_ANY, (options["type"],))
        if options.get("choices"):
            options["choices"] = [*options["choices"], "None"]
    return options


def _members(kind: Any) -> list[Any]:
    return [member for one in kind.args for member in _members(one)] if is_union(kind) else [kind]


def _as_dict(evaluator: Evaluator, member: Any) -> Any:
    """A subclass of `dict` that is no typed dictionary is JSON as well."""
    if isinstance(member, ClassValue) and "builtins.dict" in evaluator.external_bases(member):
        return External("builtins.dict")
    return member


def _is_kind(member: Any, name: str) -> bool:
    return member == External(name) or (isinstance(member, TypeForm) and member.origin == External(name))


def _literal_options(literal: TypeForm, *, takes_any: bool) -> dict[str, Any]:
    values = list(literal.args)
    kind = External(f"builtins.{type(values[0]).__name__}") if values else External("builtins.str")
    try:
        values = sorted(values)
    except TypeError:
        kind = _ANY
    return {"type": kind, "names" if takes_any else "choices": values}


def _collection_options(form: Any) -> dict[str, Any]:
    args = form.args if isinstance(form, TypeForm) else ()
    sized = form.origin == External("builtins.tuple") and Ellipsis not in args if isinstance(form, TypeForm) else False
    options: dict[str, Any] = {"nargs": len(args) if sized else "+"}
    element = args[0] if args else External("builtins.str")
    if isinstance(element, TypeForm) and is_literal(element):
        return options | _literal_options(element, takes_any=False)
    kinds = {member.name for member in _members(element) if isinstance(member, External)}
    options["type"] = element if len(kinds) == 1 and isinstance(element, External) else External("builtins.str")
    return options


# Groups, defaults, variables


def _engine_hints(evaluator: Evaluator) -> dict[str, Any]:
    engine = evaluator.get(_ARGUMENTS_MODULE, "AsyncEngineArgs")
    if not isinstance(engine, ClassValue):
        engine = evaluator.get(_ARGUMENTS_MODULE, "EngineArgs")
    if not isinstance(engine, ClassValue):
        return {}
    return {one.name: evaluator.field_type(one) for one in evaluator.fields(engine)}


def _dataclass_in(evaluator: Evaluator, hint: Any) -> ClassValue | None:
    if isinstance(hint, ClassValue):
        return hint if evaluator.is_dataclass(hint) else None
    inner = hint.args if isinstance(hint, TypeForm) and not is_literal(hint) else ()
    return next((found for one in inner if (found := _dataclass_in(evaluator, one)) is not None), None)


def _made_later(evaluator: Evaluator, name: str) -> ClassValue | None:
    """The class that vLLM makes of an argument which its parser takes as any JSON."""
    made = evaluator.get("vllm.config", "SpeculativeConfig") if name == "speculative_config" else None
    return made if isinstance(made, ClassValue) else None


def _is_pydantic(evaluator: Evaluator, made: ClassValue) -> bool:
    """Whether pydantic makes the class, which leaves out what it does not know; one of Python's own refuses it."""
    decorators = [evaluator.evaluate(one, made.frame) for one in made.node.decorator_list]
    return External("pydantic.dataclasses.dataclass") in decorators


def _group_keys(evaluator: Evaluator, group: ClassValue | None, depth: int = 0) -> dict[str, dict[str, Any]]:
    """Each key of a group as the fields of its Argument, with dots for groups in groups."""
    keys: dict[str, dict[str, Any]] = {}
    for one in evaluator.fields(group) if group is not None and depth < _MAX_DEPTH else ():
        if isinstance(one.default, FieldSpec) and one.default.options.get("init") is False:
            continue
        try:
            value = evaluator.default_of(one)
        except InterpretedError:
            value = Unknown(UNREAD)
        inner = _dataclass_in(evaluator, evaluator.field_type(one))
        keys[one.name] = {
            "default": REQUIRED if value == MISSING else plain(evaluator, value),
            "ignores_unknown": _ignores_unknown(evaluator, inner),
            "deprecated": _deprecation({"help": one.doc}) if _KEY_DEPRECATED.match(one.doc.strip()) else None,
        }
        for key, fields in _group_keys(evaluator, inner, depth + 1).items():
            keys[f"{one.name}.{key}"] = fields
    return keys


def _ignores_unknown(evaluator: Evaluator, group: ClassValue | None) -> bool:
    """Whether a dataclass takes JSON with keys that it does not have: pydantic does, unless the class forbids it."""
    if group is None:
        return False
    decorators = group.node.decorator_list
    shared = evaluator.get("vllm.config.utils", "config")
    forbidding = [ast.unparse(one) for one in decorators]
    if isinstance(shared, FunctionValue) and any(last_name(one) == "config" for one in decorators):
        forbidding.append(ast.unparse(shared.node))
    return not any("forbid" in text for text in forbidding)


def plain(evaluator: Evaluator, value: Any, depth: int = 0) -> Any:
    """The value as JSON, as `probe` writes it: sets sorted, classes by name, groups as `<group>`."""
    match value:
        case Unknown(marker=marker):
            return marker
        case None | bool() | int():
            return value
        case float():
            return value if value == value and abs(value) != float("inf") else str(value)
        case str():
            return value[:MAX_TEXT]
        case EnumMember():
            return plain(evaluator, value.value if isinstance(value.value, (str, int)) else value.name, depth)
        case Instance() if "builtins.dict" in evaluator.external_bases(value.owner):
            return plain(evaluator, dict(value.options), depth)
        case Instance():
            return GROUP if evaluator.is_dataclass(value.owner) else f"<{value.owner.name}>"
        case FieldSpec():
            return plain(evaluator, value.options["default"], depth) if value.has_default else UNREAD
        case ClassValue():
            return value.name
        case External():
            return value.name.rpartition(".")[2]
    if depth > 4:
        return f"<{type(value).__name__}>"
    match value:
        case dict():
            return {str(plain(evaluator, key)): plain(evaluator, item, depth + 1) for key, item in value.items()}
        case set() | frozenset():
            return sorted((plain(evaluator, item, depth + 1) for item in value), key=str)
        case list() | tuple():
            return [plain(evaluator, item, depth + 1) for item in value]
        case FunctionValue():
            return "<function>"
        case Module():
            return UNREAD
    return UNREAD


def _read_env(read: Callable[[str], str | None], problems: list[str]) -> dict[str, Any]:
    evaluator = Evaluator("vllm", read, {}, _PLATFORM_NAMES)
    table = evaluator.get("vllm.envs", "environment_variables")
    if not isinstance(table, dict):
        problems.append("it has no table of variables")
        return {}
    values = {}
    for name, function in table.items():
        try:
            values[str(name)] = plain(evaluator, evaluator.call(function, (), {}))
        except InterpretedError:
            values[str(name)] = UNREAD
    return dict(sorted(values.items()))


def mentioned_variables(texts: Iterable[str]) -> set[str]:
    """Names of `VLLM_…` variables that stand as whole texts in the sources, wherever they are read."""
    pattern = re.compile(r"""["'](VLLM_[A-Z0-9_]+)["']""")
    return {name for text in texts for name in pattern.findall(text)}
