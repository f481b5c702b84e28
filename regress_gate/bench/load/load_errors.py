"""Errors of a measurement, and failures of single requests. A failed request is data, not an error."""

from dataclasses import dataclass
from enum import StrEnum

from regress_gate.errors import ExitCode, RegressGateError


class LoadError(RegressGateError):
    """Nothing could be measured, for example because no request reached a server."""

    exit_code = ExitCode.COULD_NOT_MEASURE


class RequestFailureKind(StrEnum):
    REFUSED = "refused"
    """No connection to the server."""
    RESET = "reset"
    """The connection broke before the response began."""
    CUT = "cut"
    """The response began and did not end properly."""
    TIMEOUT = "timeout"
    STATUS = "status"
    """An HTTP status other than 200."""
    SERVER_ERROR = "server_error"
    """An error event within the stream."""
    GARBAGE = "garbage"
    """Bytes that are not HTTP, not server-sent events, or not a completion."""
    DISORDER = "disorder"
    """Tokens after the end of the response."""
    WRONG_LENGTH = "wrong_length"
    """A complete response with another number of tokens than requested."""
    NO_USAGE = "no_usage"
    """No token counts, although the server sends them for other requests."""
    CUT_SHORT = "cut_short"
    """The trial's deadline passed before the end of the response."""
    UNSENT = "unsent"
    """The trial's deadline passed before its turn."""
    ABANDONED = "abandoned"
    """A turn that was not sent, because an earlier one of its conversation failed."""
    NOT_NEEDED = "not_needed"
    """Not sent, because another workload of its mix had begun its last request. It is no part of the results."""


@dataclass(frozen=True, slots=True)
class RequestFailure:
    kind: RequestFailureKind
    text: str
    """One short line without control characters."""


class RequestError(Exception):
    """Raised when a request fails in transport."""

    def __init__(self, kind: RequestFailureKind, text: str) -> None:
        super().__init__(text)
        self.failure = RequestFailure(kind, text)
