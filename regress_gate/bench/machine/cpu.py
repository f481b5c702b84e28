"""The machine's processor time: how much of it was used, by us, and how much the host took away. Counters only."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import psutil

from regress_gate.bench.machine.family import FamilyTime

Find = Callable[[], Sequence[psutil.Process]]
"""Gives the processes of all our servers that live now."""
_BUSY = ("user", "nice", "system", "irq", "softirq")
"""Of /proc/stat; a guest's time is in user, waiting for disks is idle, stolen time is the host's."""


@dataclass(frozen=True, slots=True)
class CpuReading:
    """Seconds since some beginning; only differences mean something."""

    at: float
    """On the monotonic clock."""
    busy: float
    """Of the cores that we may run on, by anybody."""
    ours: float
    """By the servers, this process and its descendants."""
    steal: float | None
    """Taken by the host while we wanted it; None where the system does not say."""


class CpuMeter:
    """Reads the counters. This process, which counts as client, is ours too, and so is what it started."""

    def __init__(self, find: Find) -> None:
        self._find = find
        self._this = psutil.Process()
        self._cores = _cores(self._this)
        self._family = FamilyTime()
        self.pids: set[int] = {self._this.pid}
        """Of all processes that were ever ours."""
        self.saw_server = False

    def read(self) -> CpuReading:
        try:
            servers = self._find()
        except psutil.Error:
            servers = ()
        self.saw_server = self.saw_server or bool(servers)
        self.pids.update(process.pid for process in servers)
        client = self._this.cpu_times()
        family = {process.pid: process for process in (*servers, *self._this.children(recursive=True))}
        ours = self._family.used(list(family.values())) + client.user + client.system
        times = [each for index, each in enumerate(psutil.cpu_times(percpu=True)) if index in self._cores]
        busy = sum(getattr(each, name, 0.0) for each in times for name in _BUSY)
        steal = sum(each.steal for each in times) if times and hasattr(times[0], "steal") else None
        return CpuReading(time.monotonic(), busy, ours, steal)


def cores_of_others(first: CpuReading, last: CpuReading) -> float:
    """Cores that were kept busy by neither servers nor client between two readings."""
    outside = (last.busy - first.busy) - (last.ours - first.ours)
    return max(0.0, outside) / (last.at - first.at)


def _cores(process: psutil.Process) -> frozenset[int]:
    """The logical cores that we, and so what we start, may run on: on others a neighbour does no harm."""
    try:
        return frozenset(process.cpu_affinity() or ())
    except AttributeError:  # not on this system
        return frozenset(range(psutil.cpu_count() or 1))
