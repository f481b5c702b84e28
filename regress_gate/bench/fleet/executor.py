"""What the loop over a fleet needs of an engine: its hosts, a task on one of them, what became of it, its end.

An engine never makes a task again by itself: the loop counts the attempts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from regress_gate.errors import ExitCode, RegressGateError


class FleetError(RegressGateError):
    """The engine, or all of its hosts, cannot be used: no statement about any version."""

    exit_code = ExitCode.COULD_NOT_MEASURE


@dataclass(frozen=True, slots=True)
class FleetHost:
    id: str
    """The engine's own name of it. A host that was lost and came back may have another."""
    testbed: str | None = None
    """Its name as a testbed, where the engine knows one; None: the host names itself."""


class TaskState(StrEnum):
    WAITING = "waiting"
    """For its host, on which something else of the engine may run."""
    RUNNING = "running"
    DONE = "done"
    LOST = "lost"
    """Ended without a result: the process, the host or the job is gone."""


@dataclass(frozen=True, slots=True)
class TaskReport:
    state: TaskState
    lines: Sequence[Sequence[Any]] = ()
    """What the worker has said since the last report, in the form of `worker_files.WorkerProgress`."""
    text: str = ""
    """DONE: the result document. LOST: why."""


class FleetExecutor(Protocol):
    """Raises FleetError if the engine does not answer."""

    def hosts(self) -> list[FleetHost]:
        """Those that are up and may be used now."""

    def submit(self, host: FleetHost, task: str, name: str, *, alone: bool, seconds: float | None) -> Any:
        """Begin a task on a host, and return the handle for the other calls. `alone`: nothing else of the engine runs
        beside it; else it takes no resources, because it only looks. `seconds` is what it is expected to take, without
        the installation; None: not known."""

    def look(self, handle: Any) -> TaskReport:
        """What became of it. Does not wait."""

    def cancel(self, handle: Any) -> None:
        """Have a task end, with its servers; nothing, if it has ended. Neither waits nor raises."""

    def close(self) -> None:
        """Wait until the tasks that were cancelled have ended, and give everything back. Does not raise."""
