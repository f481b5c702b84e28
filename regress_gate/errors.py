"""The errors that a user can see, and the exit codes of errors and decisions.

The message of an error is one line: where it happened, what is wrong, what to do. No error is a verdict on a version:
a failure of the tool is never a pass and never a regression. Secrets are masked when an error is made.
"""

from enum import IntEnum
from pathlib import Path

from regress_gate.redaction import redact


class ExitCode(IntEnum):
    """Exit code of the process. 0, 1 and 3 are decisions; the others are reasons for having none."""

    PASS = 0
    FAIL = 1
    USAGE = 2
    INCONCLUSIVE = 3
    COULD_NOT_MEASURE = 4
    NO_DATA = 5
    INTERRUPTED = 130


class RegressGateError(Exception):
    """Base of all errors that a user can see. `str()` is the line to print, without secrets."""

    exit_code = ExitCode.USAGE

    def __init__(self, message: str = ""):
        super().__init__(redact(message))


class InputError(RegressGateError):
    """An input (flag, file, configuration) that cannot be used.

    `where` is a path (with its `line`, if known), a flag or an environment variable; `todo` says what to do.
    """

    def __init__(self, what: str, *, where: str | Path | None = None, line: int | None = None, todo: str | None = None):
        self.what, self.where, self.line, self.todo = redact(what), where, line, todo
        place = "" if where is None else f"{where}:{line}: " if line is not None else f"{where}: "
        super().__init__(place + what + (f"; {todo}" if todo else ""))


class NoDataError(RegressGateError):
    """A requested version has no stored runs."""

    exit_code = ExitCode.NO_DATA


class StoreError(RegressGateError):
    """The store cannot be read or written (corrupt, read-only, full disk, locked): an environment failure."""

    exit_code = ExitCode.COULD_NOT_MEASURE


class StoreAwayError(StoreError):
    """The server of the store does not answer, as while it is started again: the same may work a little later."""


class StoreVersionError(RegressGateError):
    """A newer regress-gate wrote the store, with a schema that this one does not know."""

    exit_code = ExitCode.USAGE
