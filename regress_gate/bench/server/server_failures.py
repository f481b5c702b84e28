"""How a server fails, and whether its environment is the cause: the model hub, a disk, memory, a device.

A version is not blamed for a model that could not be downloaded. Causes that a version may have itself are not
environment causes: running out of memory, a file missing in the hub, a driver too old for the build. Whether a failure
is the version's fault is decided by the gate, which knows the other side.
"""

import re
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

from regress_gate.errors import ExitCode, RegressGateError
from regress_gate.vllm.log_lines import decisive_lines, is_consequence, read_log_end


@dataclass(frozen=True, slots=True)
class _EnvironmentCause:
    pattern: str
    text: str
    only_starting: bool = False
    """Whether only a starting server depends on it."""


_ENVIRONMENT_CAUSES = (
    _EnvironmentCause(r"No space left on device|Disk quota exceeded|database or disk is full", "a disk is full"),
    _EnvironmentCause(
        # Errors of huggingface_hub and the messages of transformers for them.
        r"\b(HfHubHTTPError|LocalEntryNotFoundError|OfflineModeIsEnabled|GatedRepoError|RepositoryNotFoundError)\b"
        r"|couldn't connect to 'https?://|trying to access a gated repo|is not a valid model identifier"
        r"|\brequests\.exceptions\.(ConnectionError|HTTPError|ReadTimeout|ConnectTimeout)\b|\bMaxRetryError\b"
        r"|\bhttpx\.(Connect|Read|Write|Proxy)(Error|Timeout)\b|\bHTTPError: (401|403|429|5\d\d) ",
        "the model cannot be downloaded from its hub",
        only_starting=True,
    ),
    _EnvironmentCause(
        # A version that needs more memory than before prints the same; the two cannot be distinguished.
        r"(Free memory on device|Available memory on node)\b.* is less than desired",
        "other processes hold the memory it needs",
        only_starting=True,
    ),
    _EnvironmentCause(
        r"No CUDA GPUs are available|no CUDA-capable device is detected|Found no NVIDIA driver|CUDA unknown error"
        r"|CUDA-capable device\(s\) is/are busy or unavailable|Driver/library version mismatch|Driver Not Loaded"
        r"|uncorrectable (ECC|NVLink) error|fallen off the bus|GPU is lost|system not yet initialized",
        "the GPU or its driver does not work",
    ),
)


def environment_cause(lines: Sequence[str], *, ready: bool) -> str | None:
    """The environment cause in a server's decisive lines, in a few words; None if there is none.

    Every line counts except consequences: the first error is often reported as the cause of a vaguer one.
    """
    causes = [line for line in lines if not is_consequence(line)]
    for cause in _ENVIRONMENT_CAUSES:
        if not (ready and cause.only_starting) and any(re.search(cause.pattern, line) for line in causes):
            return cause.text
    return None


_PORT_TAKEN = re.compile(r"address (is )?already in use|port is already allocated|\[Errno (98|48)\]", re.IGNORECASE)
_KILL_STATUSES = (-signal.SIGKILL, 128 + signal.SIGKILL)
"""Of the process itself, and as a shell or a container engine reports it."""
_NOT_RUN_STATUSES = (126, 127)
"""Of a shell that found no such program, or may not run it: the launch line is at fault, and no version."""
_OUT_OF_MEMORY = "as when the kernel kills it because memory ran out"


class ServerFailureKind(StrEnum):
    NOT_STARTED = "not_started"
    """The command could not be run at all."""
    PORT_TAKEN = "port_taken"
    """Another program uses the port."""
    ENVIRONMENT = "environment"
    """Its environment failed: model hub, disk space, memory held by other processes, a broken device."""
    NOT_STOPPED = "not_stopped"
    """A part of it still exists after the stop."""
    DIED_AT_START = "died_at_start"
    NEVER_READY = "never_ready"
    """Alive, but not healthy in time."""
    DIED_UNDER_LOAD = "died_under_load"
    UNRESPONSIVE = "unresponsive"
    """Alive but unresponsive, after it was healthy."""

    @property
    def may_be_the_version(self) -> bool:
        """Whether the version can be the cause. If another version serves, it is evidence against this one."""
        return self in (
            ServerFailureKind.DIED_AT_START,
            ServerFailureKind.NEVER_READY,
            ServerFailureKind.DIED_UNDER_LOAD,
            ServerFailureKind.UNRESPONSIVE,
        )


@dataclass(frozen=True, slots=True)
class ServerFailure:
    kind: ServerFailureKind
    text: str
    """One line: what happened."""
    lines: tuple[str, ...]
    """Decisive lines of the log, the likeliest cause first. May be empty."""
    seconds: float
    """After the start."""
    log: Path | None
    exit_status: int | None = None
    """As in a shell, but negative for a signal; None while the process is alive."""

    def __str__(self) -> str:
        cause = f": {self.lines[0]}" if self.lines else ""
        return self.text + cause + (f" (log: {self.log})" if self.log else "")

    def as_document(self) -> dict[str, Any]:
        """Plain JSON values for the store. Without the log, which is deleted earlier."""
        return {
            "kind": str(self.kind),
            "text": self.text,
            "lines": list(self.lines),
            "seconds": self.seconds,
            "exit_status": self.exit_status,
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """The inverse of `as_document`. Raises KeyError or ValueError for other documents."""
        return cls(
            ServerFailureKind(document["kind"]),
            str(document["text"]),
            tuple(str(line) for line in document["lines"]),
            float(document["seconds"]),
            None,
            None if document["exit_status"] is None else int(document["exit_status"]),
        )


class ServerError(RegressGateError):
    """A run could not be measured because its server failed; `failure` says how."""

    exit_code = ExitCode.COULD_NOT_MEASURE

    def __init__(self, failure: ServerFailure):
        self.failure = failure
        super().__init__(str(failure))


def describe_death(
    exit_status: int | None,
    seconds: float,
    log: Path,
    *,
    ready: bool,
    secrets: tuple[str, ...] = (),
    memory_short: bool = False,
) -> ServerFailure:
    """The failure of a server that ended by itself, or (without an exit status) whose engine did.

    `memory_short`: whether the machine ran short of memory while other processes held more of it than the server.
    """
    text = read_log_end(log)
    lines = decisive_lines(text, secrets)
    kind = ServerFailureKind.DIED_UNDER_LOAD if ready else ServerFailureKind.DIED_AT_START
    who = "the server" if exit_status is not None else "the server's engine"
    what = f"{who} ended {seconds:.1f} s after its start" + ("" if ready else ", before it was ready")
    how = "its API server still runs" if exit_status is None else exit_text(exit_status)
    if exit_status == 0 and not ready:
        how += "; the command must stay in the foreground"
    lost_process = bool(lines) and is_consequence(lines[0])
    if lost_process and exit_status != -signal.SIGKILL:
        how += f"; one of its processes ended without a message, {_OUT_OF_MEMORY}"
    cause = environment_cause(lines, ready=ready)
    if memory_short and (lost_process or exit_status in _KILL_STATUSES):
        cause = "the machine ran short of memory, and other processes held most of it"
    if not ready and _PORT_TAKEN.search(text[-20_000:]):
        kind = ServerFailureKind.PORT_TAKEN
    elif not ready and exit_status in _NOT_RUN_STATUSES:
        kind, what = ServerFailureKind.NOT_STARTED, "the launch line's program could not be run"
    elif cause is not None:
        kind, what = ServerFailureKind.ENVIRONMENT, f"{cause}: {what}"
    return ServerFailure(kind, f"{what} ({how})", lines, seconds, log, exit_status)


def exit_text(status: int) -> str:
    if status >= 0:
        return f"exit status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    return f"{name}, {_OUT_OF_MEMORY}" if name == "SIGKILL" else name
