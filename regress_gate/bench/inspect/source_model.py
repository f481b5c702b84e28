"""The modules, classes and values of a Python package as its source text declares them.

`Sources` finds what a name means: through imports, conditions and inheritance, and a dataclass's fields with their
defaults. Evaluating expressions is left to `source_evaluator`, which builds on it.
"""

import ast
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

COMPUTED = "<computed>"
PLATFORM = "<platform>"
UNREAD = "<unknown>"
MAX_STEPS = 200_000
"""Expressions and statements. All arguments of a release take a fifteenth of it."""
MAX_DEPTH = 50
MAX_ITEMS = 20_000
_MAX_SOURCE = 4 << 20


@dataclass(frozen=True, eq=False)
class Unknown:
    """A value that the source alone does not determine."""

    marker: str
    """COMPUTED: the machine decides (a path, a host name); PLATFORM: the accelerator does; else UNREAD."""


MACHINE, BY_PLATFORM, NOT_READ = Unknown(COMPUTED), Unknown(PLATFORM), Unknown(UNREAD)


@dataclass(frozen=True)
class External:
    """Something outside the package, by its dotted name: `argparse.BooleanOptionalAction`, `builtins.int`."""

    name: str


@dataclass(frozen=True, eq=False)
class TypeForm:
    """`Literal["a"]`, `list[int]`; a union has the origin `typing.Union` and flat members."""

    origin: Any
    args: tuple[Any, ...]


@dataclass(frozen=True, eq=False)
class Frame:
    """Local names of a function or a class body."""

    module: "Module"
    names: dict[str, Any] = field(default_factory=dict)
    outer: "Frame | None" = None


@dataclass(frozen=True, eq=False)
class ClassValue:
    node: ast.ClassDef
    frame: Frame

    @property
    def name(self) -> str:
        return self.node.name


@dataclass(frozen=True, eq=False)
class FunctionValue:
    node: ast.FunctionDef | ast.Lambda
    frame: Frame
    bound: tuple[Any, ...] = ()
    """The object or class that it is a method of, as its first argument."""
    owner: ClassValue | None = None

    @property
    def name(self) -> str:
        return self.node.name if isinstance(self.node, ast.FunctionDef) else "<lambda>"


@dataclass(frozen=True, eq=False)
class EnumMember:
    owner: ClassValue
    name: str
    value: Any


@dataclass(frozen=True, eq=False)
class FieldSpec:
    """`field(…)` and `Field(…)`: the keywords that were given."""

    options: Mapping[str, Any]

    @property
    def has_default(self) -> bool:
        return "default" in self.options and self.options["default"] is not Ellipsis


@dataclass(frozen=True, eq=False)
class Instance:
    """An object of a class of the package, with the keywords it was made with."""

    owner: ClassValue
    options: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Method:
    """A method of a value that the interpreter made itself."""

    of: Any
    name: str


@dataclass(frozen=True, eq=False)
class DataclassField:
    name: str
    annotation: ast.expr
    default: Any
    """The class's value: a FieldSpec, a plain value, or MISSING."""
    frame: Frame
    doc: str


MISSING = External("dataclasses.MISSING")


class Native:
    """A value with Python methods that interpreted code may call: those in `methods`."""

    methods: frozenset[str] = frozenset()


class InterpretedError(Exception):
    """The interpreted code raises."""


class ReturnSignal(Exception):  # noqa: N818 - control flow, no error
    def __init__(self, value: Any):
        self.value = value


class BreakSignal(Exception):  # noqa: N818 - control flow, no error
    pass


class ContinueSignal(Exception):  # noqa: N818 - control flow, no error
    pass


class TooManyStepsError(Exception):
    """The source does not come to an end within MAX_STEPS."""


@dataclass(eq=False)
class Module:
    """A module of the package: where each name is bound, and what has been evaluated."""

    name: str
    is_package: bool
    bindings: dict[str, list["Binding"]]
    stars: list[str]
    values: dict[str, Any] = field(default_factory=dict)
    tree: ast.Module | None = None


@dataclass(frozen=True, eq=False)
class Binding:
    node: ast.stmt
    guards: tuple[tuple[ast.expr, bool], ...]
    alias: ast.alias | None = None
    fallback: bool = False
    """In `except`: taken if nothing else binds the name."""


CONSTANTS: dict[str, Any] = {
    "sys.maxsize": 2**63 - 1,
    "sys.platform": "linux",
    "sys.version_info": (3, 12, 0),
    "os.name": "posix",
    "os.sep": "/",
    "typing.TYPE_CHECKING": False,
    "ssl.CERT_NONE": 0,
    "ssl.CERT_OPTIONAL": 1,
    "ssl.CERT_REQUIRED": 2,
    "logging.DEBUG": 10,
    "logging.INFO": 20,
    "logging.WARNING": 30,
    "logging.ERROR": 40,
    "dataclasses.MISSING": MISSING,
}


class Sources(ABC):
    """Looks up names in the modules of one package."""

    def __init__(self, root: str, read: Callable[[str], str | None], platform_names: Iterable[str] = ()):
        """`read` gives the text of a file of the package by its path, None if there is none. `platform_names` are
        dotted names whose values depend on the accelerator."""
        self._root, self._read = root, read
        self._platform_names = frozenset(platform_names)
        self._modules: dict[str, Module | None] = {}

    @abstractmethod
    def evaluate(self, node: ast.expr, frame: Frame) -> Any:
        """The value of an expression."""

    @abstractmethod
    def call(self, function: Any, args: Sequence[Any], options: Mapping[str, Any]) -> Any:
        """What a call gives; Unknown if that cannot be followed. Raises InterpretedError."""

    @abstractmethod
    def assign(self, target: ast.expr, value: Any, frame: Frame) -> None:
        """Bind the names of a target."""

    def module(self, name: str) -> Module | None:
        """A module of the package by its dotted name; None if it has no source in the package."""
        if name not in self._modules:
            self._modules[name] = self._load(name)
        return self._modules[name]

    def _load(self, name: str) -> Module | None:
        if name.partition(".")[0] != self._root:
            return None
        base = name.replace(".", "/")
        for path, is_package in ((f"{base}.py", False), (f"{base}/__init__.py", True)):
            text = self._read(path)
            if text is None or len(text) > _MAX_SOURCE:
                continue
            try:
                tree = ast.parse(text)
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                return None
            module = Module(name, is_package, {}, [], tree=tree)
            self._bind(module, tree.body, (), fallback=False)
            return module
        return None

    def _bind(
        self, module: Module, body: Sequence[ast.stmt], guards: tuple[tuple[ast.expr, bool], ...], *, fallback: bool
    ) -> None:
        def add(name: str, node: ast.stmt, alias: ast.alias | None = None) -> None:
            module.bindings.setdefault(name, []).append(Binding(node, guards, alias, fallback))

        for node in body:
            match node:
                case ast.Import():
                    for alias in node.names:
                        add(alias.asname or alias.name.partition(".")[0], node, alias)
                case ast.ImportFrom():
                    for alias in node.names:
                        if alias.name == "*":
                            module.stars.append(self._absolute(module, node))
                        else:
                            add(alias.asname or alias.name, node, alias)
                case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                    add(node.name, node)
                case ast.Assign():
                    for target in node.targets:
                        for name in names_in(target):
                            add(name, node)
                case ast.AnnAssign(target=ast.Name(id=name), value=value) if value is not None:
                    add(name, node)
                case ast.If():
                    if last_name(node.test) == "TYPE_CHECKING":  # not bound where the package runs
                        self._bind(module, node.orelse, guards, fallback=fallback)
                        continue
                    self._bind(module, node.body, (*guards, (node.test, True)), fallback=fallback)
                    self._bind(module, node.orelse, (*guards, (node.test, False)), fallback=fallback)
                case ast.Try():
                    self._bind(module, [*node.body, *node.orelse, *node.finalbody], guards, fallback=fallback)
                    for handler in node.handlers:
                        self._bind(module, handler.body, guards, fallback=True)
                case ast.With():
                    self._bind(module, node.body, guards, fallback=fallback)

    def _absolute(self, module: Module, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        parts = module.name.split(".")
        parts = parts[: len(parts) - node.level + (1 if module.is_package else 0)]
        return ".".join([*parts, *([node.module] if node.module else [])])

    def get(self, module: str, name: str) -> Any:
        """The value of a name of a module; Unknown if the module or the name is not in the sources."""
        found = self.module(module)
        return NOT_READ if found is None else self.member(found, name)

    def member(self, module: Module, name: str) -> Any:
        if name in module.values:
            return module.values[name]
        module.values[name] = NOT_READ  # names that refer to each other end here
        module.values[name] = value = self._find_member(module, name)
        return value

    def _find_member(self, module: Module, name: str) -> Any:
        if f"{module.name}.{name}" in self._platform_names:
            return BY_PLATFORM
        if "environment_variables" in module.bindings and name != "environment_variables":
            table = self.member(module, "environment_variables")
            if isinstance(table, dict) and name in table:
                return self.call(table[name], (), {})
        bindings = module.bindings.get(name, ())
        for fallback in (False, True):
            for binding in reversed(bindings):
                if binding.fallback is fallback and self._holds(module, binding):
                    return self._bound_value(module, binding, name)
        for star in module.stars:
            source = self.module(star)
            if source is not None and not isinstance(value := self.member(source, name), Unknown):
                return value
        submodule = self.module(f"{module.name}.{name}") if module.is_package else None
        return submodule or NOT_READ

    def _holds(self, module: Module, binding: Binding) -> bool:
        frame = Frame(module)
        return all(truth(self.evaluate(test, frame)) in (wanted, None) for test, wanted in binding.guards)

    def _bound_value(self, module: Module, binding: Binding, name: str) -> Any:
        frame = Frame(module)
        match binding.node:
            case ast.Import() | ast.ImportFrom():
                return self.imported(module, binding.node, binding.alias)
            case ast.ClassDef() as node:
                return ClassValue(node, frame)
            case ast.FunctionDef() as node:
                return FunctionValue(node, frame)
            case ast.Assign() as node:
                value = self.evaluate(node.value, frame)
                for target in node.targets:
                    if isinstance(target, ast.Name) and target.id == name:
                        # An empty table at the top of a module is filled elsewhere.
                        return NOT_READ if isinstance(value, (dict, list, set)) and not value else value
                names: dict[str, Any] = {}
                self.assign(node.targets[0], value, Frame(module, names))
                return names.get(name, NOT_READ)
            case ast.AnnAssign(value=expression) if expression is not None:
                value = self.evaluate(expression, frame)
                return NOT_READ if isinstance(value, (dict, list, set)) and not value else value
        return NOT_READ

    def imported(self, module: Module, node: ast.stmt, alias: ast.alias | None) -> Any:
        assert alias is not None  # noqa: S101 - imports are bound with one
        if isinstance(node, ast.Import):
            name = alias.name if alias.asname else alias.name.partition(".")[0]
            return self.module(name) or External(name)
        assert isinstance(node, ast.ImportFrom)  # noqa: S101 - the only other one
        source = self._absolute(module, node)
        dotted = f"{source}.{alias.name}"
        if dotted in self._platform_names:
            return BY_PLATFORM
        if source.partition(".")[0] != self._root:
            return CONSTANTS.get(dotted, External(dotted))
        found = self.module(source)
        if found is not None:
            return self.member(found, alias.name)
        return self.module(dotted) or NOT_READ

    # Classes

    def bases(self, cls: ClassValue) -> list[Any]:
        return [self.evaluate(base, cls.frame) for base in cls.node.bases]

    def lineage(self, cls: ClassValue) -> list[ClassValue]:
        """The class and the classes of the package that it inherits from, the nearest first."""
        found = [cls]
        for base in self.bases(cls):
            found += [one for one in self.lineage(base) if one not in found] if isinstance(base, ClassValue) else []
        return found[:MAX_DEPTH]

    def external_bases(self, cls: ClassValue) -> set[str]:
        bases = [base for one in self.lineage(cls) for base in self.bases(one)]
        origins = [base.origin if isinstance(base, TypeForm) else base for base in bases]
        return {origin.name for origin in origins if isinstance(origin, External)}

    def is_enum(self, cls: ClassValue) -> bool:
        return any(
            name.rpartition(".")[2] in ("Enum", "IntEnum", "StrEnum", "Flag") for name in self.external_bases(cls)
        )

    def is_dataclass(self, cls: Any) -> bool:
        """Whether the class is a dataclass, of the standard library or of pydantic."""
        if not isinstance(cls, ClassValue):
            return False
        names = {last_name(one) for one in cls.node.decorator_list}
        return bool(names & {"dataclass", "config", "pydantic_dataclass", "pydantic_config"}) or any(
            self.is_dataclass(base) for base in self.bases(cls)
        )

    def fields(self, cls: ClassValue) -> list[DataclassField]:
        """The fields of a dataclass in the order of their definition, without class variables."""
        found: dict[str, DataclassField] = {}
        for one in reversed(self.lineage(cls)):
            body, frame = one.node.body, self.class_frame(one)
            for place, node in enumerate(body):
                if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
                    continue
                if last_name(node.annotation) in ("ClassVar", "InitVar"):
                    continue
                following = body[place + 1] if place + 1 < len(body) else None
                default = MISSING if node.value is None else self.evaluate(node.value, frame)
                name = node.target.id
                found[name] = DataclassField(name, node.annotation, default, frame, docstring(following))
        return list(found.values())

    def class_frame(self, cls: ClassValue) -> Frame:
        """The names of a class's body that its fields may refer to: constants, by their upper case."""
        frame = Frame(cls.frame.module, {}, cls.frame)
        for node in cls.node.body:
            match node:
                case (
                    ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
                    | ast.Assign(targets=[ast.Name(id=name)], value=value)
                ) if name.isupper():
                    frame.names[name] = self.evaluate(value, frame)
        return frame

    def field_type(self, one: DataclassField) -> Any:
        return self.annotation(one.annotation, one.frame)

    def annotation(self, node: ast.expr, frame: Frame) -> Any:
        """A type; one in quotes is parsed."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            try:
                node = ast.parse(node.value, mode="eval").body
            except (SyntaxError, ValueError, RecursionError):
                return NOT_READ
        return self.evaluate(node, frame)

    def default_of(self, one: DataclassField) -> Any:
        """The value of a field if it is not given; MISSING if it must be."""
        if not isinstance(one.default, FieldSpec):
            return one.default
        if "default_factory" in one.default.options and one.default.options["default_factory"] is not None:
            return self.call(one.default.options["default_factory"], (), {})
        return one.default.options["default"] if one.default.has_default else MISSING

    def members(self, cls: ClassValue) -> dict[str, EnumMember]:
        """The members of an enumeration, by name."""
        found: dict[str, EnumMember] = {}
        names: dict[str, Any] = {}
        frame = Frame(cls.frame.module, names, cls.frame)
        for node in cls.node.body:
            if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                name = node.targets[0].id
                value = self.evaluate(node.value, frame)
                if value == External("enum.auto()"):
                    value = len(found) + 1
                names[name] = value
                if not name.startswith("_"):
                    found[name] = EnumMember(cls, name, value)
        return found

    def class_attribute(self, cls: ClassValue, name: str) -> Any:
        if name in ("__name__", "__qualname__"):
            return cls.name
        if name == "__doc__":
            return ast.get_docstring(cls.node)
        if self.is_enum(cls):
            members = self.members(cls)
            if name == "__members__":
                return dict(members)
            if name in members:
                return members[name]
        for one in self.lineage(cls):
            for node in reversed(one.node.body):
                match node:
                    case ast.FunctionDef() if node.name == name:
                        return self._method(node, one, cls)
                    case ast.ClassDef() if node.name == name:
                        return ClassValue(node, one.frame)
                    case ast.AnnAssign(target=ast.Name(id=target), value=value) if target == name and value is not None:
                        return self._class_value(value, one)
                    case ast.Assign(targets=[ast.Name(id=target)], value=value) if target == name:
                        return self._class_value(value, one)
        return NOT_READ

    def _class_value(self, node: ast.expr, cls: ClassValue) -> Any:
        value = self.evaluate(node, self.class_frame(cls))
        if isinstance(value, FieldSpec):
            if value.has_default:
                return value.options["default"]
            factory = value.options.get("default_factory")
            return NOT_READ if factory is None else self.call(factory, (), {})
        return NOT_READ if isinstance(value, (dict, list, set)) and not value else value

    def _method(self, node: ast.FunctionDef, owner: ClassValue, bound: Any) -> Any:
        kinds = {last_name(one) for one in node.decorator_list}
        if "property" in kinds or "cached_property" in kinds:
            return NOT_READ
        if "staticmethod" in kinds:
            return FunctionValue(node, owner.frame, (), owner)
        if "classmethod" in kinds:
            return FunctionValue(node, owner.frame, (bound,), owner)
        return FunctionValue(node, owner.frame, (), owner)


def truth(value: Any) -> bool | None:
    """Whether a value counts as true; None if that is not known."""
    if isinstance(value, Unknown):
        return None
    if isinstance(value, (bool, int, float, str, bytes, list, tuple, dict, set, frozenset, type(None))):
        return bool(value)
    return True


def union(*members: Any) -> TypeForm:
    """A union of types, flat."""
    flat: list[Any] = []
    for one in members:
        flat += one.args if is_union(one) else [one]
    return TypeForm(External("typing.Union"), tuple(flat))


def is_union(value: Any) -> bool:
    return isinstance(value, TypeForm) and value.origin == External("typing.Union")


def is_literal(value: Any) -> bool:
    return isinstance(value, TypeForm) and value.origin == External("typing.Literal")


def is_type(value: Any) -> bool:
    return isinstance(value, (External, TypeForm, ClassValue)) or value is None


def is_same(first: Any, second: Any) -> bool:
    try:
        return first is second or (type(first) is type(second) and bool(first == second))
    except Exception:  # values of the interpreted code may not be comparable
        return False


def as_set(values: Iterable[Any] = ()) -> Any:
    try:
        return set(values)
    except TypeError:
        return NOT_READ


def copied(value: Any) -> Any:
    """A deep copy of containers; what is in them is never changed."""
    if isinstance(value, dict):
        return {key: copied(item) for key, item in value.items()}
    return [copied(item) for item in value] if isinstance(value, list) else value


def is_plain(values: Iterable[Any]) -> bool:
    """Whether the values are known through and through, so that an error is one of the interpreted code."""
    waiting = list(values)
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            waiting += [*item.keys(), *item.values()]
        elif isinstance(item, (list, tuple, set, frozenset)):
            waiting += item
        elif item is not None and not isinstance(item, (str, int, float, bytes)):
            return False
    return True


def first_unknown(values: Iterable[Any]) -> Unknown:
    return next((one for one in values if isinstance(one, Unknown)), NOT_READ)


def names_in(target: ast.expr) -> Iterator[str]:
    if isinstance(target, ast.Name):
        yield target.id
    elif isinstance(target, (ast.Tuple, ast.List)):
        for inner in target.elts:
            yield from names_in(inner)


def stored_names(node: ast.AST) -> set[str]:
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}


def last_name(node: ast.expr) -> str:
    """`config` for `config`, `vllm.config.config`, `config(…)` and `config[…]`."""
    match node:
        case ast.Call(func=inner) | ast.Subscript(value=inner):
            return last_name(inner)
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
    return ""


def docstring(node: ast.stmt | None) -> str:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        return node.value.value
    return ""
