"""How a measurement stops, and how a single request fails. The second is data; only the first is an error."""

from dataclasses import dataclass
from enum import StrEnum

from regress_gate.errors import ExitCode, RegressGateError


class LoadError(RegressGateError):
    """Nothing could be measured: no request reached a server."""

    exit_code = ExitCode.COULD_NOT_MEASURE


class RequestFailureKind(StrEnum):
    REFUSED = "refused"
    """No connection to the server."""
    RESET = "reset"
    """The connection broke before the answer began."""
    CUT = "cut"
    """The answer began and did not end as one."""
    TIMEOUT = "timeout"
    STATUS = "status"
    """An HTTP status other than 200."""
    SERVER_ERROR = "server_error"
    """An error event within the stream."""
    GARBAGE = "garbage"
    """Bytes that are not HTTP, not server-sent events, or not a completion."""
    DISORDER = "disorder"
    """Tokens after the end of the answer."""
    WRONG_LENGTH = "wrong_length"
    """A clean answer with other than the asked number of tokens."""
    NO_USAGE = "no_usage"
    """No token counts, from a server that sends them with other requests."""
    CUT_SHORT = "cut_short"
    """The trial's deadline passed before its answer had come."""
    UNSENT = "unsent"
    """The trial's deadline passed before its turn."""


@dataclass(frozen=True, slots=True)
class RequestFailure:
    kind: RequestFailureKind
    text: str
    """One short line without control characters."""


class RequestError(Exception):
    """A request failed while its answer was on the way."""

    def __init__(self, kind: RequestFailureKind, text: str) -> None:
        super().__init__(text)
        self.failure = RequestFailure(kind, text)
