"""Follow statements and calls in a Python package's source text; source_evaluator.py gives the values of expressions.

Of an `if` whose test is not known both ways are gone, and names on which they do not agree are unknown after it. What
cannot be followed is skipped and noted, and the names that it would bind are unknown. No code of the package runs: its
functions are interpreted, and of others only those that are listed here are called, on values that the interpreter made
itself.
"""

import ast
import itertools
import json
import posixpath
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from regress_gate.bench.inspect.source_model import (
    BY_PLATFORM,
    MACHINE,
    MAX_DEPTH,
    MAX_ITEMS,
    MAX_STEPS,
    NOT_READ,
    PLATFORM,
    BreakSignal,
    ClassValue,
    ContinueSignal,
    EnumMember,
    External,
    FieldSpec,
    Frame,
    FunctionValue,
    Instance,
    InterpretedError,
    Method,
    Native,
    ReturnSignal,
    Sources,
    TooManyStepsError,
    TypeForm,
    Unknown,
    as_set,
    copied,
    first_unknown,
    is_plain,
    is_same,
    stored_names,
    truth,
)


class Statements(Sources):
    """Executes statements. Counts the steps of statements and expressions."""

    def __init__(self, root: str, read: Callable[[str], str | None], platform_names: Iterable[str] = ()):
        super().__init__(root, read, platform_names)
        self._steps = 0
        self.skipped: list[str] = []
        """Statements that could not be followed, as `module:line`."""

    @abstractmethod
    def iterate(self, value: Any) -> list[Any] | None:
        """The items of a value; None if they are not known."""

    def execute(self, body: Sequence[ast.stmt], frame: Frame) -> None:
        for node in body:
            self._step()
            self._execute_one(node, frame)

    def _step(self) -> None:
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise TooManyStepsError

    def _execute_one(self, node: ast.stmt, frame: Frame) -> None:
        match node:
            case ast.Expr():
                self.evaluate(node.value, frame)
            case ast.Assign():
                value = self.evaluate(node.value, frame)
                for target in node.targets:
                    self.assign(target, value, frame)
            case ast.AnnAssign():
                if node.value is not None:
                    self.assign(node.target, self.evaluate(node.value, frame), frame)
            case ast.AugAssign():
                self.assign(node.target, self.evaluate(ast.BinOp(node.target, node.op, node.value), frame), frame)
            case ast.Return():
                raise ReturnSignal(None if node.value is None else self.evaluate(node.value, frame))
            case ast.If():
                self._if(node, frame)
            case ast.For():
                self._for(node, frame)
            case ast.Try():
                self._try(node, frame)
            case ast.With():
                for item in node.items:
                    if item.optional_vars is not None:
                        self.assign(item.optional_vars, self.evaluate(item.context_expr, frame), frame)
                self.execute(node.body, frame)
            case ast.FunctionDef():
                frame.names[node.name] = FunctionValue(node, frame)
            case ast.ClassDef():
                frame.names[node.name] = ClassValue(node, frame)
            case ast.Import() | ast.ImportFrom():
                for alias in node.names:
                    name = alias.asname or (
                        alias.name.partition(".")[0] if isinstance(node, ast.Import) else alias.name
                    )
                    frame.names[name] = self.imported(frame.module, node, alias)
            case ast.Delete():
                for target in node.targets:
                    self._delete(target, frame)
            case ast.Raise():
                raise InterpretedError("raise")
            case ast.Break():
                raise BreakSignal
            case ast.Continue():
                raise ContinueSignal
            case ast.Pass() | ast.Assert() | ast.Global() | ast.Nonlocal():
                pass
            case _:
                self.skipped.append(f"{frame.module.name}:{node.lineno}")
                for name in stored_names(node):
                    frame.names[name] = NOT_READ

    def assign(self, target: ast.expr, value: Any, frame: Frame) -> None:
        match target:
            case ast.Name():
                frame.names[target.id] = value
            case ast.Tuple() | ast.List():
                values = self.iterate(value)
                if values is None or len(values) != len(target.elts):
                    values = [value if isinstance(value, Unknown) else NOT_READ] * len(target.elts)
                for inner, one in zip(target.elts, values, strict=True):
                    self.assign(inner, one, frame)
            case ast.Subscript():
                container = self.evaluate(target.value, frame)
                key = self.evaluate(target.slice, frame) if not isinstance(target.slice, ast.Slice) else NOT_READ
                if isinstance(container, (dict, list)) and not isinstance(key, Unknown):
                    try:
                        container[key] = value
                    except (TypeError, IndexError):
                        raise InterpretedError("IndexError") from None

    def _delete(self, target: ast.expr, frame: Frame) -> None:
        if isinstance(target, ast.Subscript):
            container, key = self.evaluate(target.value, frame), self.evaluate(target.slice, frame)
            if isinstance(container, dict) and isinstance(key, str):
                if key not in container:
                    raise InterpretedError("KeyError")
                del container[key]
        elif isinstance(target, ast.Name):
            frame.names.pop(target.id, None)

    def _if(self, node: ast.If, frame: Frame) -> None:
        test = self.evaluate(node.test, frame)
        known = truth(test)
        if known is not None:
            self.execute(node.body if known else node.orelse, frame)
            return
        # Both ways are gone, and names on which they do not agree are unknown after them.
        unknown = test if isinstance(test, Unknown) else NOT_READ
        before, returned, ends = dict(frame.names), False, []
        for body in (node.body, node.orelse):
            frame.names.clear()
            frame.names.update(before)
            try:
                self.execute(body, frame)
            except ReturnSignal:
                returned = True
            except (InterpretedError, BreakSignal, ContinueSignal):
                continue
            else:
                ends.append(dict(frame.names))
        if returned:
            raise ReturnSignal(unknown)
        frame.names.clear()
        for name in {key for end in ends for key in end}:
            values = [end.get(name, unknown) for end in ends]
            frame.names[name] = values[0] if all(is_same(values[0], one) for one in values) else unknown

    def _for(self, node: ast.For, frame: Frame) -> None:
        values = self.iterate(self.evaluate(node.iter, frame))
        if values is None:
            recording = {name for one in frame.names.values() if isinstance(one, Native) for name in one.methods}
            if any(isinstance(one, ast.Attribute) and one.attr in recording for one in ast.walk(node)):
                self.skipped.append(f"{frame.module.name}:{node.lineno}")
            for name in stored_names(node):
                frame.names[name] = NOT_READ
            return
        for value in values[:MAX_ITEMS]:
            self.assign(node.target, value, frame)
            try:
                self.execute(node.body, frame)
            except ContinueSignal:
                continue
            except BreakSignal:
                return
        self.execute(node.orelse, frame)

    def _try(self, node: ast.Try, frame: Frame) -> None:
        try:
            self.execute(node.body, frame)
            self.execute(node.orelse, frame)
        except InterpretedError:
            if not node.handlers:
                raise
            handler = node.handlers[0]
            if handler.name:
                frame.names[handler.name] = NOT_READ
            self.execute(handler.body, frame)
        finally:
            self.execute(node.finalbody, frame)


_MUTATING = frozenset(["append", "extend", "remove", "pop", "insert", "update", "add", "setdefault", "discard"])
_FIELD_MAKERS = frozenset(
    {"dataclasses.field", "pydantic.Field", "pydantic.fields.Field", "pydantic.field", "msgspec.field"}
)
_MACHINE_CALLS = (
    "tempfile.", "uuid.", "os.cpu_count", "os.getcwd", "os.path.expanduser", "os.path.abspath", "socket.", "time.",
    "os.getpid", "os.path.dirname", "pathlib.", "multiprocessing.", "psutil.", "random.", "secrets.", "getpass.",
)  # fmt: skip


class Calls(Statements):
    """Calls values.

    `hooks` replace functions of the package by name: they get the interpreter, the positional arguments, the keywords.
    """

    def __init__(
        self,
        root: str,
        read: Callable[[str], str | None],
        hooks: Mapping[str, Callable[..., Any]] | None = None,
        platform_names: Iterable[str] = (),
    ):
        super().__init__(root, read, platform_names)
        self._hooks = dict(hooks or {})
        self._depth = 0
        """Of expressions that are being evaluated within each other."""

    @abstractmethod
    def attribute(self, value: Any, name: str) -> Any:
        """What `value.name` gives."""

    def call(self, function: Any, args: Sequence[Any], options: Mapping[str, Any]) -> Any:
        """What a call gives; Unknown if that cannot be followed. Raises InterpretedError."""
        match function:
            case Unknown():
                if function.marker != PLATFORM:  # a platform's package may register flags of its own
                    self._note_lost(args, options, "a call")
                return function
            case FunctionValue():
                if function.name in self._hooks:
                    return self._hooks[function.name](self, *function.bound, *args, **options)
                return self._run(function, args, options)
            case Method():
                return self._call_method(function, args, options)
            case ClassValue():
                return self._make(function, args, options)
            case External():
                return self._call_external(function.name, list(args), dict(options))
        return NOT_READ

    def _note_lost(self, args: Sequence[Any], options: Mapping[str, Any], what: str) -> None:
        """A recorder that is given to something that cannot be followed loses what that would have added."""
        if any(isinstance(one, Native) for one in (*args, *options.values())):
            self.skipped.append(what)

    def _make(self, cls: ClassValue, args: Sequence[Any], options: Mapping[str, Any]) -> Any:
        if self.is_enum(cls):
            value = args[0] if args else NOT_READ
            return next((one for one in self.members(cls).values() if one.value == value), NOT_READ)
        return Instance(cls, options)

    def _call_method(self, method: Method, args: Sequence[Any], options: Mapping[str, Any]) -> Any:
        if isinstance(method.of, Native):
            return getattr(method.of, method.name)(*args, **options)
        for one in (*args, *options.values()):
            if isinstance(one, Unknown) and method.name not in _MUTATING and method.name != "get":
                return one
        if isinstance(method.of, (list, dict, set)) and len(method.of) > MAX_ITEMS:
            return NOT_READ
        try:
            result = getattr(method.of, method.name)(*args, **options)
        except Exception as error:  # whatever the interpreted code would meet there
            if not is_plain([method.of, *args, *options.values()]):
                return NOT_READ
            raise InterpretedError(type(error).__name__) from None
        return list(result) if method.name in ("items", "keys", "values") else result

    def _call_external(self, name: str, args: list[Any], options: dict[str, Any]) -> Any:
        last = name.rpartition(".")[2]
        if name in ("os.getenv", "os.environ.get"):
            return args[1] if len(args) > 1 else options.get("default")
        if name in _FIELD_MAKERS:
            return FieldSpec(options | ({"default": args[0]} if args else {}))
        if last in ("cast", "assert_type") and len(args) == 2:
            return args[1]
        if last in ("get_args",) and len(args) == 1:
            return args[0].args if isinstance(args[0], TypeForm) else NOT_READ if isinstance(args[0], Unknown) else ()
        if name == "enum.auto":
            return External("enum.auto()")
        if last in ("deepcopy", "copy") and name.startswith("copy."):
            return copied(args[0])
        if name == "dataclasses.fields" and args and isinstance(args[0], ClassValue):
            return NOT_READ
        if name == "os.path.join":
            return posixpath.join(*args) if args and all(isinstance(one, str) for one in args) else first_unknown(args)
        if name == "itertools.permutations" and 0 < len(items := self.iterate(args[0]) or []) <= 8:
            return list(itertools.permutations(items, options.get("r")))
        if name.startswith(_MACHINE_CALLS):
            return MACHINE
        if name.partition(".")[0] == "torch" or name.startswith("platform."):
            return BY_PLATFORM
        if name == "json.loads":
            try:
                return json.loads(args[0])
            except (ValueError, TypeError, RecursionError):
                return first_unknown(args)
        if name.startswith("builtins."):
            return self._call_builtin(last, args, options)
        self._note_lost(args, options, name)
        return first_unknown([*args, *options.values()])

    def _call_builtin(self, name: str, args: list[Any], options: dict[str, Any]) -> Any:
        if name == "isinstance" or name == "issubclass" or name == "hasattr":
            return first_unknown(args)
        if name == "getattr" and len(args) >= 2 and isinstance(args[1], str):
            value = self.attribute(args[0], args[1])
            return value if not isinstance(value, Unknown) or len(args) < 3 else NOT_READ
        if name in ("any", "all") and len(args) == 1:
            values = [truth(one) for one in self.iterate(args[0]) or [NOT_READ]]
            decisive = name == "any"
            return decisive if decisive in values else NOT_READ if None in values else not decisive
        for one in (*args, *options.values()):
            if isinstance(one, Unknown):
                return one
        converted = [self.iterate(one) if isinstance(one, ClassValue) else one for one in args]
        functions: dict[str, Callable[..., Any]] = {
            "int": int, "str": str, "float": float, "bool": bool, "list": list, "tuple": tuple, "dict": dict,
            "len": len, "min": min, "max": max, "sum": sum, "abs": abs, "round": round,
            "zip": lambda *many: list(zip(*many, strict=False)), "enumerate": lambda one: list(enumerate(one)),
            "reversed": lambda one: list(reversed(one)), "set": as_set, "frozenset": as_set,
            "range": lambda *bounds: list(range(*bounds)) if all(abs(one) < MAX_ITEMS for one in bounds) else NOT_READ,
        }  # fmt: skip
        if name == "sorted" and not options:
            items = self.iterate(converted[0])
            return NOT_READ if items is None else sorted(items, key=lambda one: (isinstance(one, str), one))
        if name == "bool" and len(converted) == 1:
            known = truth(converted[0])
            return NOT_READ if known is None else known
        if name == "str" and converted and isinstance(converted[0], EnumMember):
            return NOT_READ
        if name not in functions:
            return NOT_READ
        if not all(
            isinstance(one, (str, int, float, list, tuple, dict, set, frozenset, type(None))) for one in converted
        ):
            return NOT_READ
        try:
            return functions[name](*converted, **options)
        except (ValueError, TypeError, KeyError, OverflowError) as error:
            if not is_plain([*converted, *options.values()]):
                return NOT_READ
            raise InterpretedError(type(error).__name__) from None

    # Functions

    def _run(self, function: FunctionValue, args: Sequence[Any], options: Mapping[str, Any]) -> Any:
        if self._depth > 2 * MAX_DEPTH:
            return NOT_READ
        names = self._arguments(function, [*function.bound, *args], dict(options))
        if names is None:
            return NOT_READ
        if function.owner is not None:
            names["__class__"] = function.owner
            names["__bound__"] = function.bound[0] if function.bound else None
        frame = Frame(function.frame.module, names, function.frame)
        if isinstance(function.node, ast.Lambda):
            return self.evaluate(function.node.body, frame)
        try:
            self.execute(function.node.body, frame)
        except ReturnSignal as result:
            return result.value
        except (BreakSignal, ContinueSignal):
            return NOT_READ
        return None

    def _arguments(self, function: FunctionValue, args: list[Any], options: dict[str, Any]) -> dict[str, Any] | None:
        spec = function.node.args
        if "**" in options:
            return None
        positional = [*spec.posonlyargs, *spec.args]
        names = {one.arg: value for one, value in zip(positional, args, strict=False)}
        if spec.vararg is not None:
            names[spec.vararg.arg] = tuple(args[len(positional) :])
        for one, default in zip(positional[len(positional) - len(spec.defaults) :], spec.defaults, strict=True):
            if one.arg not in names and one.arg not in options:
                names[one.arg] = self.evaluate(default, function.frame)
        for one, keyword_default in zip(spec.kwonlyargs, spec.kw_defaults, strict=True):
            if one.arg not in options and keyword_default is not None:
                names[one.arg] = self.evaluate(keyword_default, function.frame)
        known = {one.arg for one in (*positional, *spec.kwonlyargs)}
        names.update({key: value for key, value in options.items() if key in known})
        if spec.kwarg is not None:
            names[spec.kwarg.arg] = {key: value for key, value in options.items() if key not in known}
        for one in (*positional, *spec.kwonlyargs):
            names.setdefault(one.arg, NOT_READ)
        return names


class SuperValue(Native):
    """`super()`: the methods of the classes after the one that calls it."""

    def __init__(self, calls: Calls, classes: Sequence[ClassValue], bound: Any):
        self._calls, self._classes, self._bound = calls, classes, bound
        self.methods = frozenset(
            node.name for one in classes for node in one.node.body if isinstance(node, ast.FunctionDef)
        )

    def __getattr__(self, name: str) -> Callable[..., Any]:
        for one in self._classes:
            for node in one.node.body:
                if isinstance(node, ast.FunctionDef) and node.name == name:
                    function = FunctionValue(node, one.frame, (self._bound,), one)
                    return lambda *args, **options: self._calls.call(function, args, options)
        raise AttributeError(name)
