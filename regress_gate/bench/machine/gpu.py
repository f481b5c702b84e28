"""What the GPUs were doing while something was measured: slowed down, clock, power, heat, and who else was on them.

Not for judging it: the suite has limits.
"""

import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regress_gate.bench.machine.nvml import SM_CLOCK, told
from regress_gate.model.run import Conditions

HARMFUL = 0x08 | 0x20 | 0x40 | 0x80
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
class GpuSample:
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


class Gpus:
    """Some of the GPUs of this machine, by their numbers in NVML."""

    def __init__(self, library: Any, numbers: Sequence[int]) -> None:
        self._library = library
        self._handles = [told(library, ("nvmlDeviceGetHandleByIndex",), number) for number in numbers]

    def __bool__(self) -> bool:
        return bool(self._handles) and None not in self._handles

    def sample(self) -> GpuSample:
        reasons = self._all(*_REASONS)
        milliwatts = self._all("nvmlDeviceGetPowerUsage")
        lists = self._all("nvmlDeviceGetComputeRunningProcesses")
        clocks = self._all("nvmlDeviceGetClockInfo", argument=SM_CLOCK)
        heat = self._all(*_TEMPERATURE, argument=_SENSOR)
        return GpuSample(
            at=time.monotonic(),
            slowed=None if reasons is None else any(each & HARMFUL for each in reasons),
            clock_mhz=None if clocks is None else _mean(clocks),
            power_watts=None if milliwatts is None else _mean(milliwatts) / 1000,
            temperature_celsius=None if heat is None else float(max(heat)),
            processes=None if lists is None else frozenset(int(process.pid) for each in lists for process in each),
        )

    def _all(self, *names: str, argument: int | None = None) -> list[Any] | None:
        extra = () if argument is None else (argument,)
        answers = [told(self._library, names, handle, *extra) for handle in self._handles]
        return None if None in answers else answers


def gpu_conditions(samples: Sequence[GpuSample], others: float | None) -> Conditions:
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
    window: Sequence[GpuSample], watched: Sequence[GpuSample], ours: Collection[int], *, sees_all: bool
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
