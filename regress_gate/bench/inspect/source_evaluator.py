"""Evaluate the declarations of a Python package from its source text, without importing it.

An interpreter for the part of Python with which a package declares constants, types, dataclasses and command-line
arguments. What it cannot evaluate is `Unknown` and says why; it never guesses. It runs no code of the package: only the
methods that are listed here and the functions in source_statements.py are called, on values that it made itself, and
the number of steps is limited.
"""

import ast
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from regress_gate.bench.inspect.source_model import (
    CONSTANTS,
    MAX_DEPTH,
    MAX_ITEMS,
    NOT_READ,
    ClassValue,
    EnumMember,
    External,
    FieldSpec,
    Frame,
    FunctionValue,
    Instance,
    InterpretedError,
    Method,
    Module,
    Native,
    TypeForm,
    Unknown,
    as_set,
    is_literal,
    is_type,
    truth,
    union,
)
from regress_gate.bench.inspect.source_statements import Calls, SuperValue

_BUILTINS = frozenset(
    [
        "int",
        "str",
        "float",
        "bool",
        "bytes",
        "dict",
        "list",
        "tuple",
        "set",
        "frozenset",
        "type",
        "object",
        "len",
        "sorted",
        "min",
        "max",
        "any",
        "all",
        "isinstance",
        "issubclass",
        "hasattr",
        "getattr",
        "next",
        "zip",
        "enumerate",
        "range",
        "map",
        "filter",
        "callable",
        "super",
        "print",
        "repr",
        "sum",
        "abs",
        "round",
        "reversed",
        "ValueError",
        "TypeError",
        "KeyError",
        "ImportError",
        "AttributeError",
        "RuntimeError",
        "Exception",
        "NotImplementedError",
        "property",
        "staticmethod",
        "classmethod",
        "iter",
        "vars",
        "id",
        "hash",
    ]
)
_METHODS: dict[type, frozenset[str]] = {
    str: frozenset(
        [
            "lower",
            "upper",
            "strip",
            "lstrip",
            "rstrip",
            "split",
            "rsplit",
            "splitlines",
            "replace",
            "join",
            "startswith",
            "endswith",
            "removeprefix",
            "removesuffix",
            "partition",
            "rpartition",
            "title",
            "capitalize",
            "isdigit",
            "count",
            "find",
        ]
    ),
    dict: frozenset(["items", "keys", "values", "get", "pop", "update", "copy", "setdefault"]),
    list: frozenset(["append", "extend", "remove", "copy", "pop", "index", "insert", "sort", "count"]),
    tuple: frozenset({"index", "count"}),
    set: frozenset(["add", "update", "discard", "remove", "union", "difference", "intersection", "copy"]),
    frozenset: frozenset(["union", "difference", "intersection"]),
}
_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.BitOr: operator.or_,
    ast.BitAnd: operator.and_,
}
_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_TRANSPARENT = frozenset(
    {"typing.Annotated", "pydantic.SkipValidation", "dataclasses.InitVar", "typing.Final", "typing.Required",
     "typing_extensions.Annotated", "typing.NotRequired"}
)  # fmt: skip


class Evaluator(Calls):
    """Evaluates names of the modules of one package."""

    def evaluate(self, node: ast.expr, frame: Frame) -> Any:
        self._step()
        self._depth += 1
        try:
            if self._depth > 3 * MAX_DEPTH:
                return NOT_READ
            handler = getattr(self, f"_{type(node).__name__.lower()}", None)
            return NOT_READ if handler is None else handler(node, frame)
        finally:
            self._depth -= 1

    def _constant(self, node: ast.Constant, frame: Frame) -> Any:  # noqa: ARG002
        return node.value

    def _name(self, node: ast.Name, frame: Frame) -> Any:
        inner: Frame | None = frame
        while inner is not None:
            if node.id in inner.names:
                return inner.names[node.id]
            inner = inner.outer
        module = frame.module
        if node.id in module.bindings or module.stars:
            value = self.member(module, node.id)
            if not isinstance(value, Unknown) or node.id in module.bindings:
                return value
        if node.id == "__name__":
            return module.name
        return External(f"builtins.{node.id}") if node.id in _BUILTINS else NOT_READ

    def _attribute(self, node: ast.Attribute, frame: Frame) -> Any:
        return self.attribute(self.evaluate(node.value, frame), node.attr)

    def attribute(self, value: Any, name: str) -> Any:
        match value:
            case Unknown():
                return value
            case Module():
                return self.member(value, name)
            case External():
                dotted = f"{value.name}.{name}"
                return CONSTANTS.get(dotted, External(dotted))
            case ClassValue():
                return self.class_attribute(value, name)
            case EnumMember():
                return {"name": value.name, "value": value.value}.get(name, NOT_READ)
            case FieldSpec():
                return value.options.get(name)
            case Instance():
                if name in value.options:
                    return value.options[name]
                found = self.class_attribute(value.owner, name)
                if isinstance(found, FunctionValue) and not found.bound:
                    return FunctionValue(found.node, found.frame, (value,), found.owner)
                return found
            case Native():
                return Method(value, name) if name in value.methods else NOT_READ
            case TypeForm():
                return {"__args__": value.args, "__origin__": value.origin}.get(name, NOT_READ)
            case FunctionValue():
                return {"__name__": value.name}.get(name, NOT_READ)
        return Method(value, name) if name in _METHODS.get(type(value), ()) else NOT_READ

    def _subscript(self, node: ast.Subscript, frame: Frame) -> Any:
        value = self.evaluate(node.value, frame)
        if isinstance(value, Unknown):
            return value
        if isinstance(value, (External, ClassValue)):
            return self._parametrised(value, node.slice, frame)
        if isinstance(node.slice, ast.Slice):
            parts = [
                None if one is None else self.evaluate(one, frame)
                for one in (node.slice.lower, node.slice.upper, node.slice.step)
            ]
            whole = isinstance(value, (str, list, tuple)) and all(one is None or type(one) is int for one in parts)
            return value[slice(*parts)] if whole else NOT_READ
        key = self.evaluate(node.slice, frame)
        if isinstance(key, Unknown):
            return key
        if isinstance(value, (dict, list, tuple, str)):
            try:
                return value[key]
            except (KeyError, IndexError, TypeError) as error:
                raise InterpretedError(type(error).__name__) from None
        return NOT_READ

    def _parametrised(self, origin: Any, node: ast.expr, frame: Frame) -> Any:
        if isinstance(origin, ClassValue) and self.is_enum(origin):
            name = self.evaluate(node, frame)
            return self.members(origin).get(name, NOT_READ) if isinstance(name, str) else NOT_READ
        name = origin.name if isinstance(origin, External) else ""
        if name == "os.environ":
            raise InterpretedError("KeyError")
        if name == "sys.modules":
            return self.module(str(self.evaluate(node, frame))) or NOT_READ
        nodes = node.elts if isinstance(node, ast.Tuple) else [node]
        if name.endswith(".Literal"):
            args: list[Any] = []
            for one in nodes:
                starred = isinstance(one, ast.Starred)
                value = self.evaluate(one.value if isinstance(one, ast.Starred) else one, frame)
                inner = value.args if isinstance(value, TypeForm) and is_literal(value) else None
                args += (
                    inner if inner is not None else value if starred and isinstance(value, (list, tuple)) else [value]
                )
            return TypeForm(External("typing.Literal"), tuple(args))
        if name in _TRANSPARENT:
            return self.annotation(nodes[0], frame)
        args = [self.annotation(one, frame) for one in nodes]
        if name in ("typing.Optional", "typing.Union"):
            return union(*args, *([None] if name == "typing.Optional" else []))
        return TypeForm(origin, tuple(args))

    def _binop(self, node: ast.BinOp, frame: Frame) -> Any:
        left, right = self.evaluate(node.left, frame), self.evaluate(node.right, frame)
        if isinstance(node.op, ast.BitOr) and (is_type(left) or is_type(right)):
            return union(left, right)
        if isinstance(left, Unknown) or isinstance(right, Unknown):
            return left if isinstance(left, Unknown) else right
        numbers = isinstance(left, (int, float)) and isinstance(right, (int, float))
        if numbers and isinstance(node.op, (ast.Pow, ast.LShift)):
            small = isinstance(right, int) and 0 <= right <= 64 and abs(left) <= 2**64
            return (left**right if isinstance(node.op, ast.Pow) else left << right) if small else NOT_READ
        same = type(left) is type(right) and isinstance(left, (str, list, tuple, set, dict, frozenset))
        combines = isinstance(node.op, (ast.Add, ast.BitOr, ast.Sub, ast.BitAnd))
        if not numbers and not (same and combines and len(left) + len(right) <= MAX_ITEMS):
            return NOT_READ
        try:
            return _BINARY[type(node.op)](left, right)
        except (KeyError, TypeError, ArithmeticError):
            return NOT_READ

    def _boolop(self, node: ast.BoolOp, frame: Frame) -> Any:
        value: Any = None
        for one in node.values:
            value = self.evaluate(one, frame)
            known = truth(value)
            if known is None or known is isinstance(node.op, ast.Or):
                return value
        return value

    def _unaryop(self, node: ast.UnaryOp, frame: Frame) -> Any:
        value = self.evaluate(node.operand, frame)
        if isinstance(value, Unknown):
            return value
        if isinstance(node.op, ast.Not):
            known = truth(value)
            return NOT_READ if known is None else not known
        if isinstance(value, (int, float)) and isinstance(node.op, (ast.USub, ast.UAdd)):
            return -value if isinstance(node.op, ast.USub) else value
        return NOT_READ

    def _compare(self, node: ast.Compare, frame: Frame) -> Any:
        left = self.evaluate(node.left, frame)
        for op, comparator in zip(node.ops, node.comparators, strict=True):
            right = self.evaluate(comparator, frame)
            result = self._compared(op, left, right)
            if result is not True:
                return result
            left = right
        return True

    def _compared(self, op: ast.cmpop, left: Any, right: Any) -> Any:
        if isinstance(op, (ast.In, ast.NotIn)) and right == External("os.environ"):
            return isinstance(op, ast.NotIn)
        for one in (left, right):
            if isinstance(one, Unknown):
                return one
        if isinstance(op, (ast.Is, ast.IsNot, ast.Eq, ast.NotEq)):
            identity = isinstance(op, (ast.Is, ast.IsNot))
            equal = (left is right or (isinstance(left, External) and left == right)) if identity else left == right
            if identity and isinstance(left, (int, str)) and isinstance(right, (int, str)):
                equal = left == right
            return equal is isinstance(op, (ast.Is, ast.Eq))
        if isinstance(op, (ast.In, ast.NotIn)):
            if not isinstance(right, (str, list, tuple, set, dict, frozenset)):
                return NOT_READ
            if not isinstance(right, str) and any(isinstance(one, Unknown) for one in right):
                return NOT_READ
            try:
                return (left in right) is isinstance(op, ast.In)
            except TypeError:
                return NOT_READ
        try:
            return bool(_COMPARISONS[type(op)](left, right))
        except TypeError:
            return NOT_READ

    def _ifexp(self, node: ast.IfExp, frame: Frame) -> Any:
        test = self.evaluate(node.test, frame)
        known = truth(test)
        if known is None:
            return test if isinstance(test, Unknown) else NOT_READ
        return self.evaluate(node.body if known else node.orelse, frame)

    def _lambda(self, node: ast.Lambda, frame: Frame) -> Any:
        return FunctionValue(node, frame)

    def _namedexpr(self, node: ast.NamedExpr, frame: Frame) -> Any:
        value = self.evaluate(node.value, frame)
        frame.names[node.target.id] = value
        return value

    def _joinedstr(self, node: ast.JoinedStr, frame: Frame) -> Any:
        text = ""
        for part in node.values:
            value = self.evaluate(part.value if isinstance(part, ast.FormattedValue) else part, frame)
            if isinstance(value, Unknown):
                return value
            if isinstance(part, ast.FormattedValue) and (part.conversion != -1 or part.format_spec is not None):
                return NOT_READ
            if not isinstance(value, (str, int, float)):
                return NOT_READ
            text += str(value)
        return text

    def _elements(self, nodes: Iterable[ast.expr], frame: Frame) -> list[Any]:
        found: list[Any] = []
        for node in nodes:
            if isinstance(node, ast.Starred):
                values = self.iterate(self.evaluate(node.value, frame))
                found += [NOT_READ] if values is None else values
            else:
                found.append(self.evaluate(node, frame))
        return found

    def _list(self, node: ast.List, frame: Frame) -> Any:
        return self._elements(node.elts, frame)

    def _tuple(self, node: ast.Tuple, frame: Frame) -> Any:
        return tuple(self._elements(node.elts, frame))

    def _set(self, node: ast.Set, frame: Frame) -> Any:
        return as_set(self._elements(node.elts, frame))

    def _dict(self, node: ast.Dict, frame: Frame) -> Any:
        found: dict[Any, Any] = {}
        for key_node, value_node in zip(node.keys, node.values, strict=True):
            value = self.evaluate(value_node, frame)
            if key_node is None:
                if not isinstance(value, dict):
                    return NOT_READ
                found.update(value)
                continue
            key = self.evaluate(key_node, frame)
            try:
                found[key] = value
            except TypeError:
                return NOT_READ
        return found

    def _comprehended(self, node: Any, frame: Frame, generators: Sequence[ast.comprehension]) -> Iterator[Frame | None]:
        """A frame for each round; None if what is iterated is not known."""
        first, *rest = generators
        values = self.iterate(self.evaluate(first.iter, frame))
        if values is None:
            yield None
            return
        for value in values[:MAX_ITEMS]:
            inner = Frame(frame.module, {}, frame)
            self.assign(first.target, value, inner)
            tests = [truth(self.evaluate(test, inner)) for test in first.ifs]
            if None in tests:
                yield None
                return
            if all(tests):
                yield from self._comprehended(node, inner, rest) if rest else [inner]

    def _listcomp(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp, frame: Frame) -> Any:
        found = []
        for inner in self._comprehended(node, frame, node.generators):
            if inner is None:
                return NOT_READ
            found.append(self.evaluate(node.elt, inner))
        return found

    _generatorexp = _listcomp

    def _setcomp(self, node: ast.SetComp, frame: Frame) -> Any:
        values = self._listcomp(node, frame)
        return values if isinstance(values, Unknown) else as_set(values)

    def _dictcomp(self, node: ast.DictComp, frame: Frame) -> Any:
        found = {}
        for inner in self._comprehended(node, frame, node.generators):
            if inner is None:
                return NOT_READ
            key = self.evaluate(node.key, inner)
            try:
                found[key] = self.evaluate(node.value, inner)
            except TypeError:
                return NOT_READ
        return found

    def iterate(self, value: Any) -> list[Any] | None:
        """The items of a value; None if they are not known."""
        if isinstance(value, (list, tuple, str, dict)):
            return list(value)
        if isinstance(value, (set, frozenset)):
            return sorted(value, key=str)
        if isinstance(value, ClassValue) and self.is_enum(value):
            return list(self.members(value).values())
        return None

    # Calls

    def _call(self, node: ast.Call, frame: Frame) -> Any:
        if isinstance(node.func, ast.Name) and node.func.id == "super" and not node.args:
            return self._super(frame)
        function = self.evaluate(node.func, frame)
        args = self._elements(node.args, frame)
        options: dict[str, Any] = {}
        for keyword in node.keywords:
            value = self.evaluate(keyword.value, frame)
            if keyword.arg is not None:
                options[keyword.arg] = value
            elif isinstance(value, dict):
                options.update({str(key): one for key, one in value.items()})
            else:
                options["**"] = value if isinstance(value, Unknown) else NOT_READ
        return self.call(function, args, options)

    def _super(self, frame: Frame) -> Any:
        inner: Frame | None = frame
        while inner is not None and "__class__" not in inner.names:
            inner = inner.outer
        if inner is None:
            return NOT_READ
        owner, bound = inner.names["__class__"], inner.names.get("__bound__")
        start = bound if isinstance(bound, ClassValue) else owner
        lineage = self.lineage(start)
        after = lineage[lineage.index(owner) + 1 :] if owner in lineage else []
        return SuperValue(self, after, bound)
