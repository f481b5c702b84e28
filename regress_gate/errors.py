"""Every way the tool can stop, with its exit code; and the exit codes of the three decisions.

An error's message is one line: where it happened, what is wrong, what to do. Nothing here is a verdict on a
version: a tool failure is never a pass and never a regression.
"""

from enum import IntEnum
from pathlib import Path


class ExitCode(IntEnum):
    """What the process returns. 0, 1 and 3 are decisions; the rest say why there is none."""

    PASS = 0
    FAIL = 1
    USAGE = 2
    INCONCLUSIVE = 3
    COULD_NOT_MEASURE = 4
    NO_DATA = 5
    INTERRUPTED = 130


class RegressGateError(Exception):
    """Base of all errors that a user may see. `str()` of it is the line to print."""

    exit_code = ExitCode.USAGE


class InputError(RegressGateError):
    """Something that was typed or written (flag, file, configuration) cannot be used as it is.

    `where` is a path (with `line` where it is known), a flag or an environment variable; `todo` is the way out.
    """

    def __init__(self, what: str, *, where: str | Path | None = None, line: int | None = None, todo: str | None = None):
        self.what, self.where, self.line, self.todo = what, where, line, todo
        place = "" if where is None else f"{where}:{line}: " if line is not None else f"{where}: "
        super().__init__(place + what + (f"; {todo}" if todo else ""))


class NoDataError(RegressGateError):
    """A version that was asked for has no stored runs."""

    exit_code = ExitCode.NO_DATA


class StoreError(RegressGateError):
    """The store cannot be read or written (corrupt, read-only, full disk, locked): an environment failure."""

    exit_code = ExitCode.COULD_NOT_MEASURE


class StoreVersionError(RegressGateError):
    """The store was written by a newer regress-gate, whose schema this one does not know."""

    exit_code = ExitCode.USAGE
