"""Ending processes: ask, wait, force, and look whether anything is left. Not for choosing which."""

import socket
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import psutil

POLL = 0.05
FORCED_WAIT = 5.0
"""Seconds that a killed process is given to be gone; one that waits for a device may take that."""

SILENT_WITHIN = 5.0
"""Seconds after the end of its processes within which a server's port must have fallen silent."""


@dataclass(frozen=True, slots=True)
class StopReport:
    seconds: float
    forced: bool
    """Whether something did not end when asked and was killed."""
    left: tuple[int, ...]
    """Processes that are still there; empty is what is meant to be."""
    trouble: str | None = None
    """What went wrong with ending what is out of our reach, in one line."""

    @property
    def remains(self) -> str | None:
        """What is still there, in one line; None when nothing is."""
        pids = ", ".join(map(str, self.left))
        processes = f"processes {pids} of the server could not be ended" if pids else None
        return "; ".join(each for each in (processes, self.trouble) if each) or None


def end_processes(
    find: Callable[[], list[psutil.Process]], grace: float, *, already_asked: Iterable[int] = ()
) -> StopReport:
    """End what `find` finds, looking again until it finds nothing: what is asked to end may start others first.

    Each process is asked once (SIGTERM; vLLM takes a second one as haste) unless it has been already, and killed when
    it is there after `grace` seconds.
    """
    begin = time.monotonic()
    asked = set(already_asked)
    remaining = find()
    while remaining and time.monotonic() - begin < grace:
        _signal([process for process in remaining if process.pid not in asked], psutil.Process.terminate)
        asked |= {process.pid for process in remaining}
        time.sleep(POLL)
        remaining = find()
    forced = bool(remaining)
    deadline = time.monotonic() + FORCED_WAIT
    while remaining and time.monotonic() < deadline:
        _signal(remaining, psutil.Process.kill)
        time.sleep(POLL)
        remaining = find()
    return StopReport(time.monotonic() - begin, forced, tuple(process.pid for process in remaining))


def falls_silent(port: int) -> bool:
    """Whether soon nothing takes connections at a loopback port any more: what left our reach may serve on."""
    deadline = time.monotonic() + SILENT_WITHIN
    while True:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.settimeout(SILENT_WITHIN)
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return True
        if time.monotonic() >= deadline:
            return False
        time.sleep(POLL)


def _signal(processes: list[psutil.Process], send: Callable[[psutil.Process], None]) -> None:
    for process in processes:
        try:
            send(process)  # psutil looks first whether the number is still the same process
        except psutil.Error:
            continue
