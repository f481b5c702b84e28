"""The conditions of a measurement: CPU load of other processes, time that the host took, clocks and heat of GPUs.

A neighbour that keeps half a core busy has made one vLLM version 2.3 times slower and left another unchanged, so a run
without this is no evidence. Cores are averages over a window: 0.5 is one core busy half of the time. Not for judging
the conditions: the suite has limits.
"""

import os
import threading
import time
from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from regress_gate.accelerators.host import visible_devices, watch_devices
from regress_gate.accelerators.interface import DeviceSample, Watcher
from regress_gate.bench.machine.cpu_load import CpuMeter, CpuReading, FindServerProcesses, outside_cpu_cores
from regress_gate.model.run import Conditions

INTERVAL = 1.0
"""Seconds between samples."""
MAX_SHARE = 0.01
"""Of one core that sampling may cost; sampling that takes longer is done less often."""
_FIRST_NAMESPACE = "pid:[4026531836]"
"""Linux gives this number to the process namespace that sees all processes."""


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
