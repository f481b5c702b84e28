"""What else the machine was doing while something was measured: cores kept busy by others, time the host took, GPUs.

A neighbour that keeps half a core busy has made one vLLM version 2.3 times slower than itself and left another alone,
so a run without this is no evidence. Cores are averages over a window: 0.5 is one core busy half of the time.
"""

import threading
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from types import TracebackType
from typing import Self

from regress_gate.bench.machine.cpu import CpuMeter, CpuReading, Find, cores_of_others
from regress_gate.bench.machine.gpu import Gpus, GpuSample, gpu_conditions, other_processes, sees_all_processes
from regress_gate.bench.machine.nvml import nvml, visible_gpus
from regress_gate.model.run import Conditions

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
        self, find_server_processes: Find, *, gpus: Sequence[int] | None = None, interval: float = INTERVAL
    ) -> None:
        self._numbers = gpus
        self._interval = interval
        self._meter = CpuMeter(find_server_processes)
        self._gpus: Gpus | None = None
        self._open = ExitStack()
        self._lock = threading.Lock()
        self._cpu_samples: list[CpuReading] = []
        self._gpu_samples: list[GpuSample] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="conditions-watch", daemon=True)

    def __enter__(self) -> Self:
        numbers = visible_gpus() if self._numbers is None else self._numbers
        library = self._open.enter_context(nvml()) if numbers else None
        self._gpus = Gpus(library, numbers) if library is not None else None
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
            first, last = _at(self._cpu_samples, begin), _at(self._cpu_samples, end)
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
            outside_cpu_cores=cores_of_others(first, last) if self._meter.saw_server else None,
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


def _at(samples: Sequence[CpuReading], moment: float) -> CpuReading:
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
