"""How a server fails to serve. Whether that is the version's doing is for the gate, which knows the other side."""

import re
import signal
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from regress_gate.bench.server.log_lines import decisive_lines, read_log
from regress_gate.errors import ExitCode, RegressGateError

_PORT_TAKEN = re.compile(r"address (is )?already in use|\[Errno (98|48)\]", re.IGNORECASE)


class FailureKind(StrEnum):
    NOT_STARTED = "not_started"
    """The command could not be run at all."""
    PORT_TAKEN = "port_taken"
    """Something else has the port."""
    DIED_AT_START = "died_at_start"
    NEVER_READY = "never_ready"
    """It lived and did not become healthy in time."""
    DIED_UNDER_LOAD = "died_under_load"
    UNRESPONSIVE = "unresponsive"
    """It lives, was healthy, and is no more."""

    @property
    def may_be_the_version(self) -> bool:
        """Whether a version can be the cause. Where it can, and another version serves, that is evidence against it."""
        return self not in (FailureKind.NOT_STARTED, FailureKind.PORT_TAKEN)


@dataclass(frozen=True, slots=True)
class Failure:
    kind: FailureKind
    text: str
    """One line: what happened."""
    lines: tuple[str, ...]
    """Why, in the server's own words: the first is the likeliest cause. May be empty."""
    seconds: float
    """After the start."""
    log: Path | None
    exit_status: int | None = None
    """As a shell has it, but negative for a signal; None while the process lives."""

    def __str__(self) -> str:
        cause = f": {self.lines[0]}" if self.lines else ""
        return self.text + cause + (f" (log: {self.log})" if self.log else "")


class ServerError(RegressGateError):
    """A run could not be measured because its server failed; `failure` says how."""

    exit_code = ExitCode.COULD_NOT_MEASURE

    def __init__(self, failure: Failure):
        self.failure = failure
        super().__init__(str(failure))


def death(exit_status: int, seconds: float, log: Path, *, ready: bool) -> Failure:
    """What is known of a server that has ended by itself."""
    text = read_log(log)
    kind = FailureKind.DIED_UNDER_LOAD if ready else FailureKind.DIED_AT_START
    if not ready and _PORT_TAKEN.search(text[-20_000:]):
        kind = FailureKind.PORT_TAKEN
    what = f"the server ended {seconds:.1f} s after its start" + ("" if ready else ", before it was ready")
    return Failure(kind, f"{what} ({describe_exit(exit_status)})", decisive_lines(text), seconds, log, exit_status)


def describe_exit(status: int) -> str:
    if status >= 0:
        return f"exit status {status}" + ("; the command must stay in the foreground" if status == 0 else "")
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    return f"{name}; the kernel ends processes so when memory runs out" if name == "SIGKILL" else name
