"""What else the machine was doing while something was measured: cores kept busy by others, time the host took, GPUs.

A neighbour that keeps half a core busy has made one vLLM version 2.3 times slower than itself and left another alone,
so a run without this is no evidence. Cores are averages over a window: 0.5 is one core busy half of the time.
"""

import threading
import time
from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from regress_gate.accelerators.nvml import SM_CLOCK, nvml, query, visible_gpus
from regress_gate.bench.machine.cpu_load import CpuMeter, CpuReading, FindServerProcesses, outside_cpu_cores
from regress_gate.model.run import Conditions

# MERGED regress_gate.bench.machine.gpu: What the GPUs were doing while something was measured: slowed down, clock,
# power, heat, and who else was on them.  Not for judging it: the suite has limits.


HARMFUL_THROTTLE_REASONS = 0x08 | 0x20 | 0x40 | 0x80
"""Of the reasons for a clock below the highest (nvml.h): hardware slowdown, thermal slowdown by software and by
hardware, and the power supply's brake; each takes a GPU out of the state in which it would serve. The others belong to
that state: idle (0x01), clocks that an administrator set (0x02, on both sides alike), and the power cap (0x04), at
which a GPU under full load always runs. NVML may also report hardware slowdown while clocks change, so one sample with
it proves nothing; the share of the samples does."""
_REASONS = ("nvmlDeviceGetCurrentClocksThrottleReasons", "nvmlDeviceGetCurrentClocksEventReasons")
_TEMPERATURE = ("nvmlDeviceGetTemperatureV", "nvmlDeviceGetTemperature")
_SENSOR = 0
"""On the GPU itself."""
_FIRST_NAMESPACE = "pid:[4026531836]"
"""Linux gives this number to the process namespace that sees all processes."""


@dataclass(frozen=True, slots=True)
class DeviceSample:
    """One look at all GPUs of a server. None: not known of one of them."""

    at: float
    """On the monotonic clock."""
    slowed: bool | None
    """Whether at least one was, for a harmful reason."""
    clock_mhz: float | None
    """Mean over the GPUs, as the power is."""
    power_watts: float | None
    temperature_celsius: float | None
    """Of the hottest."""
    processes: frozenset[int] | None
    """Numbers of those that compute on them, in a namespace that need not be ours."""


class NvmlDevices:
    """Some of the GPUs of this machine, by their numbers in NVML."""

    def __init__(self, library: Any, numbers: Sequence[int]) -> None:
        self._library = library
        self._handles = [query(library, ("nvmlDeviceGetHandleByIndex",), number) for number in numbers]

    def __bool__(self) -> bool:
        return bool(self._handles) and None not in self._handles

    def sample(self) -> DeviceSample:
        reasons = self._all(*_REASONS)
        milliwatts = self._all("nvmlDeviceGetPowerUsage")
        lists = self._all("nvmlDeviceGetComputeRunningProcesses")
        clocks = self._all("nvmlDeviceGetClockInfo", argument=SM_CLOCK)
        heat = self._all(*_TEMPERATURE, argument=_SENSOR)
        return DeviceSample(
            at=time.monotonic(),
            slowed=None if reasons is None else any(each & HARMFUL_THROTTLE_REASONS for each in reasons),
            clock_mhz=None if clocks is None else _mean(clocks),
            power_watts=None if milliwatts is None else _mean(milliwatts) / 1000,
            temperature_celsius=None if heat is None else float(max(heat)),
            processes=None if lists is None else frozenset(int(process.pid) for each in lists for process in each),
        )

    def _all(self, *names: str, argument: int | None = None) -> list[Any] | None:
        extra = () if argument is None else (argument,)
        answers = [query(self._library, names, handle, *extra) for handle in self._handles]
        return None if None in answers else answers


def gpu_conditions(samples: Sequence[DeviceSample], others: float | None) -> Conditions:
    """Samples of a window in one; None where no sample knows. `others`: as `other_processes` says."""
    slowed = [sample.slowed for sample in samples if sample.slowed is not None]
    clocks = [sample.clock_mhz for sample in samples if sample.clock_mhz is not None]
    watts = [sample.power_watts for sample in samples if sample.power_watts is not None]
    heat = [sample.temperature_celsius for sample in samples if sample.temperature_celsius is not None]
    return Conditions(
        gpu_throttled=_mean(slowed) if slowed else None,
        gpu_clock_mhz=_mean(clocks) if clocks else None,
        gpu_power_watts=_mean(watts) if watts else None,
        gpu_temperature_celsius=max(heat, default=None),
        gpu_other_processes=others,
    )


def other_processes(
    window: Sequence[DeviceSample], watched: Sequence[DeviceSample], ours: Collection[int], *, sees_all: bool
) -> float | None:
    """How many processes that are not `ours` were on the GPUs in the window, the most at once.

    Drivers have given the host's numbers, or only the container's own processes, to those who ask in a container
    (https://github.com/NVIDIA/nvidia-docker/issues/1483). So a list counts only where one of ours was seen in a list
    while we `watched`, and finding nobody else counts only where we see all processes of the machine.
    """
    own = frozenset(ours)
    if not any(sample.processes & own for sample in watched if sample.processes):
        return None
    most = max((len(sample.processes - own) for sample in window if sample.processes is not None), default=None)
    return None if most is None or (most == 0 and not sees_all) else float(most)


def sees_all_processes() -> bool:
    """Whether we are in the machine's first process namespace, and so in no container."""
    with suppress(OSError):
        return str(Path("/proc/self/ns/pid").readlink()) == _FIRST_NAMESPACE
    return False


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


INTERVAL = 1.0
"""Seconds between samples; more often costs more than it tells."""
MAX_SHARE = 0.01
"""Of one core that sampling may cost; what takes longer is done less often."""


class ConditionsWatch(AbstractContextManager["ConditionsWatch"]):
    """Samples while entered. `find_server_processes` gives those of all servers that are ours, living now.

    When it gives none at any time, what others did cannot be told from what a server did, and is not known. `gpus` are
    the numbers of those that the servers use; None: all that one started from here may use.
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
        self._gpus: NvmlDevices | None = None
        self._open = ExitStack()
        self._lock = threading.Lock()
        self._cpu_samples: list[CpuReading] = []
        self._gpu_samples: list[DeviceSample] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="conditions-watch", daemon=True)

    def __enter__(self) -> Self:
        numbers = visible_gpus() if self._numbers is None else self._numbers
        library = self._open.enter_context(nvml()) if numbers else None
        self._gpus = NvmlDevices(library, numbers) if library is not None else None
        self._sample()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()
        self._sample()
        self._open.close()

    def between(self, begin: float, end: float) -> Conditions:
        """Over a window of the monotonic clock, as far as it was watched: a trial's, for example."""
        if self._thread.is_alive():
            self._sample_cpu()
        with self._lock:
            first, last = _counters_at(self._cpu_samples, begin), _counters_at(self._cpu_samples, end)
            watched = tuple(self._gpu_samples)
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
        """Over all the time that was watched."""
        return self.between(float("-inf"), float("inf"))

    def _run(self) -> None:
        cost = 0.0
        while not self._over.wait(max(self._interval, cost / MAX_SHARE)):
            begin = time.thread_time()
            self._sample()
            cost = time.thread_time() - begin

    def _sample(self) -> None:
        self._sample_cpu()
        if self._gpus:
            sample = self._gpus.sample()
            with self._lock:
                self._gpu_samples.append(sample)

    def _sample_cpu(self) -> None:
        with self._lock:
            self._cpu_samples.append(self._meter.read())


def _counters_at(samples: Sequence[CpuReading], moment: float) -> CpuReading:
    """The counters at a moment: between two samples, in proportion."""
    later = next((sample for sample in samples if sample.at >= moment), samples[-1])
    earlier = next((sample for sample in reversed(samples) if sample.at <= moment), samples[0])
    if later.at <= earlier.at:
        return later
    share = (moment - earlier.at) / (later.at - earlier.at)

    def mixed(left: float, right: float) -> float:
        return left + share * (right - left)

    steal = None if earlier.steal is None or later.steal is None else mixed(earlier.steal, later.steal)
    return CpuReading(moment, mixed(earlier.busy, later.busy), mixed(earlier.ours, later.ours), steal)
