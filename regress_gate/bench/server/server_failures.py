"""How a server fails to serve. Whether that is the version's doing is for the gate, which knows the other side."""

import re
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

from regress_gate.errors import ExitCode, RegressGateError
from regress_gate.vllm.log_lines import decisive_lines, is_consequence, read_log_end

# MERGED regress_gate.bench.server.surroundings: Whether a server that failed speaks of its surroundings and not of
# its version: the hub, the disk, the devices.  Nothing can be held against a version that could not get its model.
# What a version may bring about itself is left out: memory that runs out, a file that the hub does not have, a
# driver that is too old for it.


@dataclass(frozen=True, slots=True)
class _EnvironmentCause:
    signs: str
    what: str
    only_starting: bool = False
    """Whether a server that was ready has no more need of it."""


_ENVIRONMENT_CAUSES = (
    _EnvironmentCause(r"No space left on device|Disk quota exceeded|database or disk is full", "a disk is full"),
    _EnvironmentCause(
        # Names of huggingface_hub.errors, and what transformers says in their place.
        r"\b(HfHubHTTPError|LocalEntryNotFoundError|OfflineModeIsEnabled|GatedRepoError|RepositoryNotFoundError)\b"
        r"|couldn't connect to 'https?://|trying to access a gated repo|is not a valid model identifier"
        r"|\brequests\.exceptions\.(ConnectionError|HTTPError|ReadTimeout|ConnectTimeout)\b|\bMaxRetryError\b"
        r"|\bhttpx\.(Connect|Read|Write|Proxy)(Error|Timeout)\b|\bHTTPError: (401|403|429|5\d\d) ",
        "the model cannot be had from its hub",
        only_starting=True,
    ),
    _EnvironmentCause(
        # A version that wants more than it did says the same; where others hold memory, that cannot be told apart.
        r"(Free memory on device|Available memory on node)\b.* is less than desired",
        "others hold the memory that it is to have",
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
    """What of its surroundings a server's decisive lines speak of, in a few words; None where they do not.

    All causes count, because what failed first is often told as the cause of something vaguer.
    """
    causes = [line for line in lines if not is_consequence(line)]
    for cause in _ENVIRONMENT_CAUSES:
        if not (ready and cause.only_starting) and any(re.search(cause.signs, line) for line in causes):
            return cause.what
    return None


_PORT_TAKEN = re.compile(r"address (is )?already in use|port is already allocated|\[Errno (98|48)\]", re.IGNORECASE)
_KILL_STATUSES = (-signal.SIGKILL, 128 + signal.SIGKILL)
"""Also as a shell or a container's engine tells it."""
_OUT_OF_MEMORY = "as when the kernel kills it because memory ran out"


class ServerFailureKind(StrEnum):
    NOT_STARTED = "not_started"
    """The command could not be run at all."""
    PORT_TAKEN = "port_taken"
    """Something else has the port."""
    ENVIRONMENT = "environment"
    """What it needs was not there: its model's hub, room on a disk, memory that others held, a device that works."""
    NOT_STOPPED = "not_stopped"
    """Something of it was still there after it was stopped."""
    DIED_AT_START = "died_at_start"
    NEVER_READY = "never_ready"
    """It lived and did not become healthy in time."""
    DIED_UNDER_LOAD = "died_under_load"
    UNRESPONSIVE = "unresponsive"
    """It lives, was healthy, and is no more."""

    @property
    def may_be_the_version(self) -> bool:
        """Whether a version can be the cause. Where it can, and another version serves, that is evidence against it."""
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
    """Why, in the server's own words: the first is the likeliest cause. May be empty."""
    seconds: float
    """After the start."""
    log: Path | None
    exit_status: int | None = None
    """As a shell has it, but negative for a signal; None while the process lives."""

    def __str__(self) -> str:
        cause = f": {self.lines[0]}" if self.lines else ""
        return self.text + cause + (f" (log: {self.log})" if self.log else "")

    def as_document(self) -> dict[str, Any]:
        """Plain JSON values, to be kept. Without the log, which is not kept as long."""
        return {
            "kind": str(self.kind),
            "text": self.text,
            "lines": list(self.lines),
            "seconds": self.seconds,
            "exit_status": self.exit_status,
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """What `as_document` made. Raises KeyError or ValueError for anything else."""
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
    squeezed: bool = False,
) -> ServerFailure:
    """What is known of a server that has ended by itself, or (without an exit status) whose engine has.

    `squeezed`: whether the machine was short of memory of which others held more than the server.
    """
    text = read_log_end(log)
    lines = decisive_lines(text, secrets)
    kind = ServerFailureKind.DIED_UNDER_LOAD if ready else ServerFailureKind.DIED_AT_START
    who = "the server" if exit_status is not None else "the server's engine"
    what = f"{who} ended {seconds:.1f} s after its start" + ("" if ready else ", before it was ready")
    how = "its API server lives on" if exit_status is None else exit_text(exit_status)
    if exit_status == 0 and not ready:
        how += "; the command must stay in the foreground"
    lost_one = bool(lines) and is_consequence(lines[0])
    if lost_one and exit_status != -signal.SIGKILL:
        how += f"; one of its processes ended without a word, {_OUT_OF_MEMORY}"
    fault = environment_cause(lines, ready=ready)
    if squeezed and (lost_one or exit_status in _KILL_STATUSES):
        fault = "the machine was short of memory, and others held most of it"
    if not ready and _PORT_TAKEN.search(text[-20_000:]):
        kind = ServerFailureKind.PORT_TAKEN
    elif fault is not None:
        kind, what = ServerFailureKind.ENVIRONMENT, f"{fault}: {what}"
    return ServerFailure(kind, f"{what} ({how})", lines, seconds, log, exit_status)


def exit_text(status: int) -> str:
    if status >= 0:
        return f"exit status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    return f"{name}, {_OUT_OF_MEMORY}" if name == "SIGKILL" else name
