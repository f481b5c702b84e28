"""The conditions of a measurement: CPU load of other processes, time that the host took, clocks and heat of GPUs.

Also waiting until other processes leave the machine idle. A neighbour that keeps half a core busy has made one vLLM
version 2.3 times slower and left another unchanged, so a run without this is no evidence. Cores are averages over a
window: 0.5 is one core busy half of the time. Not for judging the conditions: the suite has limits.
"""

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from regress_gate.accelerators.interface import DeviceSample, Watcher
from regress_gate.accelerators.registry import visible_devices, watch_devices
from regress_gate.model.run import Conditions

INTERVAL = 1.0
"""Seconds between samples."""
MAX_SHARE = 0.01
"""Of one core that sampling may cost; sampling that takes longer is done less often."""
_FIRST_NAMESPACE = "pid:[4026531836]"
"""Linux gives this number to the process namespace that sees all processes."""
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


class ConditionsWatch(AbstractContextManager["ConditionsWatch"]):
    """Samples while entered. `find_server_processes` returns the living processes of all servers of this tool.

    If it never returns one, the load of others cannot be separated from a server's and stays unknown. `gpus` are the
    numbers of the accelerators that the servers use; None: all that a server started from here may use.
    """

    def __init__(
        self,
        find_server_processes: FindServerProcesses,
        *,
        gpus: Sequence[int] | None = None,
        interval: float = INTERVAL,
    ) -> None:
        self._numbers = gpus
        self._interval = interval
        self._meter = CpuMeter(find_server_processes)
        self._watcher: Watcher | None = None
        self._open = ExitStack()
        self._lock = threading.Lock()
        self._cpu_samples: list[CpuReading] = []
        self._device_samples: list[DeviceSample] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="conditions-watch", daemon=True)

    def __enter__(self) -> Self:
        numbers = visible_devices(os.environ) if self._numbers is None else self._numbers
        self._watcher = self._open.enter_context(watch_devices(numbers)) if numbers else None
        self._sample()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        self._sample()
        self._open.close()

    def between(self, begin: float, end: float) -> Conditions:
        """The conditions in a window of the monotonic clock, for example a trial, as far as it was watched."""
        if self._thread.is_alive():
            self._sample_cpu()
        with self._lock:
            first, last = _counters_at(self._cpu_samples, begin), _counters_at(self._cpu_samples, end)
            watched = tuple(self._device_samples)
            ours = frozenset(self._meter.pids)
        window = [sample for sample in watched if begin <= sample.at <= end]
        others = other_processes(window, watched, ours, sees_all=sees_all_processes())
        seconds = last.at - first.at
        if seconds <= 0:
            return Conditions()
        steal = None if last.steal is None or first.steal is None else (last.steal - first.steal) / seconds
        return replace(
            gpu_conditions(window, others),
            outside_cpu_cores=outside_cpu_cores(first, last) if self._meter.saw_server else None,
            steal_cpu_cores=steal,
        )

    def conditions(self) -> Conditions:
        """The conditions over the whole time."""
        return self.between(float("-inf"), float("inf"))

    def _run(self) -> None:
        cost = 0.0
        while not self._stop.wait(max(self._interval, cost / MAX_SHARE)):
            begin = time.thread_time()
            self._sample()
            cost = time.thread_time() - begin

    def _sample(self) -> None:
        self._sample_cpu()
        if self._watcher is not None:
            sample = self._watcher.sample()
            with self._lock:
                self._device_samples.append(sample)

    def _sample_cpu(self) -> None:
        with self._lock:
            self._cpu_samples.append(self._meter.read())


def _counters_at(samples: Sequence[CpuReading], moment: float) -> CpuReading:
    """The counters at a moment, interpolated between two samples."""
    later = next((sample for sample in samples if sample.at >= moment), samples[-1])
    earlier = next((sample for sample in reversed(samples) if sample.at <= moment), samples[0])
    if later.at <= earlier.at:
        return later
    share = (moment - earlier.at) / (later.at - earlier.at)

    def interpolate(left: float, right: float) -> float:
        return left + share * (right - left)

    steal = None if earlier.steal is None or later.steal is None else interpolate(earlier.steal, later.steal)
    return CpuReading(moment, interpolate(earlier.busy, later.busy), interpolate(earlier.ours, later.ours), steal)


def gpu_conditions(samples: Sequence[DeviceSample], others: float | None) -> Conditions:
    """The samples of a window as conditions; a field is None if no sample has it. `others`: see `other_processes`."""
    throttled = [sample.throttled for sample in samples if sample.throttled is not None]
    clocks = [sample.clock_mhz for sample in samples if sample.clock_mhz is not None]
    watts = [sample.power_watts for sample in samples if sample.power_watts is not None]
    heat = [sample.temperature_celsius for sample in samples if sample.temperature_celsius is not None]
    return Conditions(
        gpu_throttled=_mean(throttled) if throttled else None,
        gpu_clock_mhz=_mean(clocks) if clocks else None,
        gpu_power_watts=_mean(watts) if watts else None,
        gpu_temperature_celsius=max(heat, default=None),
        gpu_other_processes=others,
    )


def other_processes(
    window: Sequence[DeviceSample], watched: Sequence[DeviceSample], ours: Collection[int], *, sees_all: bool
) -> float | None:
    """How many processes that are not `ours` were on the devices in the window, the most at once.

    In a container, drivers have listed the host's process ids, or only the processes of the container
    (https://github.com/NVIDIA/nvidia-docker/issues/1483). So a list counts only if a process of ours was seen in one of
    the `watched` samples, and an empty list only if this process sees all processes of the machine.
    """
    own = frozenset(ours)
    if not any(sample.processes & own for sample in watched if sample.processes):
        return None
    most = max((len(sample.processes - own) for sample in window if sample.processes is not None), default=None)
    return None if most is None or (most == 0 and not sees_all) else float(most)


def sees_all_processes() -> bool:
    """Whether this process is in the machine's first process namespace, and so in no container."""
    with suppress(OSError):
        return str(Path("/proc/self/ns/pid").readlink()) == _FIRST_NAMESPACE
    return False


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
