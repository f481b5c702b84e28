"""The machine's processor time: how much of it was used, by us, and how much the host took away. Counters only."""

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import psutil

# MERGED regress_gate.bench.machine.family: Processor time of processes that come and go, of which only those that
# live can be asked.


_TICK = 0.02
"""Seconds; moments of creation are rounded down to a hundredth."""


@dataclass(slots=True)
class _ProcessTimes:
    parent: int
    own_before: float
    reaped_before: float
    """Of the children that it had seen off before the first look."""
    own: float
    reaped: float


class ProcessTreeCpuTime:
    """Sums the processor time of processes and of their children that lived and died between two looks.

    The system adds a dead child's time to its parent's account of children. What exceeds the time that was seen while
    they lived is that of their last moments, and of children too short-lived to be seen.
    """

    def __init__(self) -> None:
        self._began = _creation_clock() - _TICK
        self._looked = False
        self._known: dict[psutil.Process, _ProcessTimes] = {}
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
                    self._known[process] = _ProcessTimes(process.ppid(), *before, own, reaped)
                else:
                    known.own, known.reaped = own, reaped
        except psutil.Error:
            return False
        return True


def _creation_clock() -> float:
    """On the clock of create_time, which Linux counts from a boot that is known to the second only."""
    try:
        return psutil.boot_time() + time.clock_gettime(time.CLOCK_BOOTTIME)
    except AttributeError:  # not on this system
        return time.time()


FindServerProcesses = Callable[[], Sequence[psutil.Process]]
"""Gives the processes of all our servers that live now."""
_BUSY_TIMES = ("user", "nice", "system", "irq", "softirq")
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

    def __init__(self, find: FindServerProcesses) -> None:
        self._find = find
        self._this = psutil.Process()
        self._cores = _allowed_cores(self._this)
        self._family = ProcessTreeCpuTime()
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
        busy = sum(getattr(each, name, 0.0) for each in times for name in _BUSY_TIMES)
        steal = sum(each.steal for each in times) if times and hasattr(times[0], "steal") else None
        return CpuReading(time.monotonic(), busy, ours, steal)


def outside_cpu_cores(first: CpuReading, last: CpuReading) -> float:
    """Cores that were kept busy by neither servers nor client between two readings."""
    outside = (last.busy - first.busy) - (last.ours - first.ours)
    return max(0.0, outside) / (last.at - first.at)


def _allowed_cores(process: psutil.Process) -> frozenset[int]:
    """The logical cores that we, and so what we start, may run on: on others a neighbour does no harm."""
    try:
        return frozenset(process.cpu_affinity() or ())
    except AttributeError:  # not on this system
        return frozenset(range(psutil.cpu_count() or 1))


# MERGED regress_gate.bench.machine.quiet: Wait until others leave the machine alone, before something is measured
# on it. Not for what happens during it.


QUIET_WINDOW = 3.0
"""Seconds that the load must stay below its limit on average."""
CHECK_INTERVAL = 0.5
"""Seconds between looks."""

WaitProgress = Callable[[float, float], None]
"""Called with the cores that others keep busy now and the seconds that were waited."""


@dataclass(frozen=True, slots=True)
class QuietResult:
    """What was seen before a start."""

    quiet: bool
    """Whether others stayed below the limit in the end."""
    outside_cpu_cores: float
    """Cores kept busy by others, over the last seconds."""
    waited: float
    """Seconds."""


def wait_until_quiet(
    limit_cores: float,
    within: float,
    progress: WaitProgress | None = None,
    *,
    find_server_processes: FindServerProcesses = tuple,
    over: float = QUIET_WINDOW,
    step: float = CHECK_INTERVAL,
) -> QuietResult:
    """Wait until other processes use at most `limit_cores` over `over` seconds; give up after `within` seconds.

    It takes `over` seconds at least. Servers of ours that are up already are no others where they are given.
    """
    meter = CpuMeter(find_server_processes)
    readings: deque[CpuReading] = deque([meter.read()])
    begin = readings[0].at
    while True:
        time.sleep(step)
        readings.append(meter.read())
        while len(readings) > 2 and readings[-1].at - readings[1].at >= over:
            readings.popleft()
        now = readings[-1].at
        cores, waited = outside_cpu_cores(readings[0], readings[-1]), now - begin
        full = now - readings[0].at >= over
        if full and (cores <= limit_cores or waited >= within):
            return QuietResult(cores <= limit_cores, cores, waited)
        if progress is not None:
            progress(cores, waited)
