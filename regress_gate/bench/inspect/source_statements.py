"""Follow the statements of a Python package's source text; source_evaluator.py gives the values of expressions.

Of an `if` whose test is not known both ways are gone, and names on which they do not agree are unknown after it. What
cannot be followed is skipped and noted, and the names that it would bind are unknown.
"""

import ast
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from regress_gate.bench.inspect.source_model import (
    MAX_ITEMS,
    MAX_STEPS,
    NOT_READ,
    BreakSignal,
    ClassValue,
    ContinueSignal,
    Frame,
    FunctionValue,
    InterpretedError,
    Native,
    ReturnSignal,
    Sources,
    TooManyStepsError,
    Unknown,
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
