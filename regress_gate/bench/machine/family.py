"""Processor time of processes that come and go, of which only those that live can be asked."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import psutil

_TICK = 0.02
"""Seconds; moments of creation are rounded down to a hundredth."""


@dataclass(slots=True)
class _Known:
    parent: int
    own_before: float
    reaped_before: float
    """Of the children that it had seen off before the first look."""
    own: float
    reaped: float


class FamilyTime:
    """Sums the processor time of processes and of their children that lived and died between two looks.

    The system adds a dead child's time to its parent's account of children. What exceeds the time that was seen while
    they lived is that of their last moments, and of children too short-lived to be seen.
    """

    def __init__(self) -> None:
        self._began = _now() - _TICK
        self._looked = False
        self._known: dict[psutil.Process, _Known] = {}
        self._used = 0.0

    def used(self, living: Sequence[psutil.Process]) -> float:
        """Seconds since the first look, by all that were ever given. It never falls."""
        alive = {process for process in living if self._look(process)}
        self._looked = True
        ended: dict[int, float] = {}
        for process, known in self._known.items():
            if process not in alive:
                ended[known.parent] = ended.get(known.parent, 0.0) + known.own + known.reaped
        used = 0.0
        for process, known in self._known.items():
            used += known.own - known.own_before
            used += max(0.0, known.reaped - known.reaped_before - ended.get(process.pid, 0.0))
        # A child that has ended and was not seen off yet is missing on its parent's account for a moment.
        self._used = max(self._used, used)
        return self._used

    def _look(self, process: psutil.Process) -> bool:
        try:
            with process.oneshot():
                times = process.cpu_times()
                own, reaped = times.user + times.system, times.children_user + times.children_system
                known = self._known.get(process)
                if known is None:
                    # One that is older than the first look has used time before it.
                    older = not self._looked or process.create_time() < self._began
                    before = (own, reaped) if older else (0.0, 0.0)
                    self._known[process] = _Known(process.ppid(), *before, own, reaped)
                else:
                    known.own, known.reaped = own, reaped
        except psutil.Error:
            return False
        return True


def _now() -> float:
    """On the clock of create_time, which Linux counts from a boot that is known to the second only."""
    try:
        return psutil.boot_time() + time.clock_gettime(time.CLOCK_BOOTTIME)
    except AttributeError:  # not on this system
        return time.time()
