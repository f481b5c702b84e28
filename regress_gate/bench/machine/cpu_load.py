"""Processor time: how much servers and client used, how much other processes used, how much the host took away.

Also waiting until other processes leave the machine idle. Conditions during a measurement are in `conditions`.
"""

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import psutil

_TICK = 0.02
"""Seconds. Creation times are rounded down to a hundredth."""
FindServerProcesses = Callable[[], Sequence[psutil.Process]]
"""Returns the living processes of all servers of this tool."""
_BUSY_TIMES = ("user", "nice", "system", "irq", "softirq")
"""Fields of /proc/stat. A guest's time is part of user; waiting for disks counts as idle, stolen time as the host's."""

QUIET_WINDOW = 3.0
"""Seconds over which the mean load must be below its limit."""
CHECK_INTERVAL = 0.5
"""Seconds between readings."""

WaitProgress = Callable[[float, float], None]
"""Called with the cores that other processes keep busy now, and the seconds waited so far."""


@dataclass(slots=True)
class _ProcessTimes:
    parent: int
    own_before: float
    reaped_before: float
    """CPU time of the children that had ended before the first reading."""
    own: float
    reaped: float


class ProcessTreeCpuTime:
    """CPU time of processes and of their children, including children that started and ended between two readings.

    The system adds the time of an ended child to a counter of its parent. What this counter has beyond the last
    readings of the children is their time after these readings, and the time of children that were never read.
    """

    def __init__(self) -> None:
        self._began = _creation_clock() - _TICK
        self._has_read = False
        self._known: dict[psutil.Process, _ProcessTimes] = {}
        self._used = 0.0

    def used(self, living: Sequence[psutil.Process]) -> float:
        """Seconds since the first call, of all processes that were ever passed. Never decreases."""
        alive = {process for process in living if self._read(process)}
        self._has_read = True
        ended: dict[int, float] = {}
        for process, known in self._known.items():
            if process not in alive:
                ended[known.parent] = ended.get(known.parent, 0.0) + known.own + known.reaped
        used = 0.0
        for process, known in self._known.items():
            used += known.own - known.own_before
            used += max(0.0, known.reaped - known.reaped_before - ended.get(process.pid, 0.0))
        # The time of a child that has ended is missing until its parent has waited for it.
        self._used = max(self._used, used)
        return self._used

    def _read(self, process: psutil.Process) -> bool:
        try:
            with process.oneshot():
                times = process.cpu_times()
                own, reaped = times.user + times.system, times.children_user + times.children_system
                known = self._known.get(process)
                if known is None:
                    # A process older than the first reading has used time before it.
                    older = not self._has_read or process.create_time() < self._began
                    before = (own, reaped) if older else (0.0, 0.0)
                    self._known[process] = _ProcessTimes(process.ppid(), *before, own, reaped)
                else:
                    known.own, known.reaped = own, reaped
        except psutil.Error:
            return False
        return True


def _creation_clock() -> float:
    """Now, on the clock of `create_time`, which Linux counts from a boot time in whole seconds."""
    try:
        return psutil.boot_time() + time.clock_gettime(time.CLOCK_BOOTTIME)
    except AttributeError:  # not available on this system
        return time.time()


@dataclass(frozen=True, slots=True)
class CpuReading:
    """Counters in seconds; only differences have a meaning."""

    at: float
    """On the monotonic clock."""
    busy: float
    """Busy time of the cores that this process may run on, by all processes."""
    ours: float
    """Time used by the servers, this process and its descendants."""
    steal: float | None
    """Time that the host took away; None if the system does not report it."""


class CpuMeter:
    """Reads the counters. This process, which is the client, and its descendants count as ours, as the servers do."""

    def __init__(self, find: FindServerProcesses) -> None:
        self._find = find
        self._this = psutil.Process()
        self._cores = _allowed_cores(self._this)
        self._tree_time = ProcessTreeCpuTime()
        self.pids: set[int] = {self._this.pid}
        """Ids of all processes that were ever ours."""
        self.saw_server = False

    def read(self) -> CpuReading:
        try:
            servers = self._find()
        except psutil.Error:
            servers = ()
        self.saw_server = self.saw_server or bool(servers)
        self.pids.update(process.pid for process in servers)
        client = self._this.cpu_times()
        processes = {process.pid: process for process in (*servers, *self._this.children(recursive=True))}
        ours = self._tree_time.used(list(processes.values())) + client.user + client.system
        times = [each for index, each in enumerate(psutil.cpu_times(percpu=True)) if index in self._cores]
        busy = sum(getattr(each, name, 0.0) for each in times for name in _BUSY_TIMES)
        steal = sum(each.steal for each in times) if times and hasattr(times[0], "steal") else None
        return CpuReading(time.monotonic(), busy, ours, steal)


def outside_cpu_cores(first: CpuReading, last: CpuReading) -> float:
    """Cores that other processes than servers and client kept busy between two readings, on average."""
    outside = (last.busy - first.busy) - (last.ours - first.ours)
    return max(0.0, outside) / (last.at - first.at)


def _allowed_cores(process: psutil.Process) -> frozenset[int]:
    """The logical cores that this process and its children may run on; load on other cores does no harm."""
    try:
        return frozenset(process.cpu_affinity() or ())
    except AttributeError:  # not available on this system
        return frozenset(range(psutil.cpu_count() or 1))


@dataclass(frozen=True, slots=True)
class QuietResult:
    """The load before a start."""

    quiet: bool
    """Whether the load of other processes was below the limit at the end."""
    outside_cpu_cores: float
    """Cores that other processes kept busy in the last seconds."""
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

    Takes at least `over` seconds. The servers that `find_server_processes` returns do not count as other processes.
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
