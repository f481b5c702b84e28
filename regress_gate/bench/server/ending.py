"""Ending processes: ask, wait, force, and look whether anything is left. Not for choosing which."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import psutil

POLL = 0.05
FORCED_WAIT = 5.0
"""Seconds that a killed process is given to be gone; one that waits for a device may take that."""


@dataclass(frozen=True, slots=True)
class StopReport:
    seconds: float
    forced: bool
    """Whether something did not end when asked and was killed."""
    left: tuple[int, ...]
    """Processes that are still there; empty is what is meant to be."""
    trouble: str | None = None
    """What went wrong with ending what is out of our reach, in one line."""


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


def _signal(processes: list[psutil.Process], send: Callable[[psutil.Process], None]) -> None:
    for process in processes:
        try:
            send(process)  # psutil looks first whether the number is still the same process
        except psutil.Error:
            continue
