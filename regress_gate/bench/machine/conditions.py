"""What else the machine was doing while something was measured: cores kept busy by others, and time the host took.

A neighbour that keeps half a core busy has made one vLLM version 2.3 times slower than itself and left another alone,
so a run without this is no evidence. Cores are averages over a window: 0.5 is one core busy half of the time.
"""

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import psutil

from regress_gate.model.run import Conditions

INTERVAL = 1.0
"""Seconds between samples. A process of ours that ends takes the time since its last sample with it, which then counts
as others'; more often costs more than it tells."""
MAX_SHARE = 0.01
"""Of one core that sampling may cost."""
_BUSY = ("user", "nice", "system", "irq", "softirq")
"""Of /proc/stat; a guest's time is in user, waiting for disks is idle, stolen time is the host's."""


@dataclass(frozen=True, slots=True)
class MachineConditions:
    """Averages over a window; None: not known."""

    outside_cpu_cores: float | None
    """Cores kept busy by processes other than server and client, of those that we may run on."""
    steal_cores: float | None
    """Cores' worth of time that the host gave to other machines."""
    seconds: float

    def as_conditions(self) -> Conditions:
        return Conditions(outside_cpu_cores=self.outside_cpu_cores)


@dataclass(frozen=True, slots=True)
class _Sample:
    at: float
    busy: float
    ours: float
    steal: float | None


class ConditionsWatch(AbstractContextManager["ConditionsWatch"]):
    """Samples while entered. `ours` gives the processes of server and client, but for this one, which counts as client.

    When `ours` gives none at any time, what others did cannot be told from what the server did, and is not known.
    """

    def __init__(self, ours: Callable[[], Sequence[psutil.Process]], interval: float = INTERVAL) -> None:
        self._find = ours
        self._interval = interval
        self._this = psutil.Process()
        self._cores = _cores(self._this)
        self._lock = threading.Lock()
        self._first: dict[psutil.Process, float] = {}
        self._last: dict[psutil.Process, float] = {}
        self._seen_server = False
        self._samples: list[_Sample] = []
        self._began = time.time()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="conditions-watch", daemon=True)

    def __enter__(self) -> Self:
        self._sample()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()
        self._sample()

    def between(self, begin: float, end: float) -> MachineConditions:
        """Over a window of the monotonic clock, as far as it was watched: a trial's, for example."""
        if self._thread.is_alive():
            self._sample()
        with self._lock:
            first, last = self._at(begin), self._at(end)
        seconds = last.at - first.at
        if seconds <= 0:
            return MachineConditions(None, None, 0.0)
        outside = (last.busy - first.busy) - (last.ours - first.ours)
        return MachineConditions(
            max(0.0, outside) / seconds if self._seen_server else None,
            (last.steal - first.steal) / seconds if last.steal is not None and first.steal is not None else None,
            seconds,
        )

    def conditions(self) -> MachineConditions:
        """Over all the time that was watched."""
        return self.between(self._samples[0].at, time.monotonic())

    def _run(self) -> None:
        took = 0.0
        while not self._over.wait(max(self._interval, took / MAX_SHARE)):
            begin = time.monotonic()
            self._sample()
            took = time.monotonic() - begin

    def _sample(self) -> None:
        with self._lock:
            ours = self._ours()
            times = [each for index, each in enumerate(psutil.cpu_times(percpu=True)) if index in self._cores]
            busy = sum(getattr(each, name, 0.0) for each in times for name in _BUSY)
            steal = sum(each.steal for each in times) if times and hasattr(times[0], "steal") else None
            self._samples.append(_Sample(time.monotonic(), busy, ours, steal))

    def _ours(self) -> float:
        """Seconds of processor time since the beginning, of all that were seen, also of those that have ended."""
        server = self._find()
        self._seen_server = self._seen_server or bool(server)
        for process in (self._this, *server):
            try:
                used = process.cpu_times()
                # One that is older than the watch has used time before it.
                self._first.setdefault(process, used.user + used.system if process.create_time() < self._began else 0.0)
            except psutil.Error:
                continue
            self._last[process] = used.user + used.system
        return sum(last - self._first[process] for process, last in self._last.items())

    def _at(self, moment: float) -> _Sample:
        """The counters at a moment: between two samples, in proportion."""
        later = next((sample for sample in self._samples if sample.at >= moment), self._samples[-1])
        earlier = next((sample for sample in reversed(self._samples) if sample.at <= moment), self._samples[0])
        if later.at <= earlier.at:
            return later
        share = (moment - earlier.at) / (later.at - earlier.at)

        def mixed(left: float, right: float) -> float:
            return left + share * (right - left)

        steal = None if earlier.steal is None or later.steal is None else mixed(earlier.steal, later.steal)
        return _Sample(moment, mixed(earlier.busy, later.busy), mixed(earlier.ours, later.ours), steal)


def _cores(process: psutil.Process) -> frozenset[int]:
    """The logical cores that we, and so what we start, may run on: on others a neighbour does no harm."""
    try:
        return frozenset(process.cpu_affinity() or ())
    except AttributeError:  # not on this system
        return frozenset(range(psutil.cpu_count() or 1))
