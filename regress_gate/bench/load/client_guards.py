"""Whether the client was the bottleneck. Then the numbers are the client's, and the trial is void.

Three signs, each with a named limit. Delays are compared with the measured latencies: 20 ms falsify a token of 50 ms,
but not one of 500 ms. Not for other load on the machine, which is a condition of the run.
"""

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import count
from types import TracebackType
from typing import Self

import numpy as np

from regress_gate.bench.load.sending import PreciseTimer

LAG_INTERVAL = 0.01
"""Seconds between samples of the loop's lag."""
LAG_FLOOR = 0.005
"""Seconds of p99 lag that are always accepted: one time slice of the scheduler on a shared core."""
LAG_SHARE = 0.25
"""p99 lag above this share of the median TPOT (of the median TTFT for responses of one token) voids the trial: one
chunk in a hundred is stamped late by that much, which decides the p99."""
MEDIAN_LAG_FLOOR = 0.0005
MEDIAN_LAG_SHARE = 0.05
"""The same for the median lag, which is part of every mean and median."""
MAX_CPU_SHARE = 0.8
"""Processor time of the client over wall time. The client works in one thread; near 1 it is saturated."""
LATENESS_FLOOR = 0.005
LATENESS_SHARE = 0.10
"""p99 lateness of open-loop sends above the floor (seconds) and above this share of the median TTFT voids the trial. It
is part of the TTFT, which counts from the scheduled time, but not caused by the server."""


@dataclass(frozen=True, slots=True)
class Guards:
    """The state of the client during the measured part of a trial; seconds."""

    loop_lag_median: float
    loop_lag_p99: float
    cpu_share: float
    lateness_p99: float
    """Delay of sends after they were due and allowed; 0 in a closed loop, which has no schedule."""
    client_limited: str | None
    """Why the trial is void; None if it is valid."""


@dataclass(frozen=True, slots=True)
class ClientLoad:
    """Lag samples, processor time and wall time, all in seconds."""

    lags: Sequence[float]
    cpu_seconds: float
    wall_seconds: float


class ClientWatch(AbstractContextManager["ClientWatch"]):
    """A context manager that samples the lag of the running loop and the processor time of this process."""

    def __init__(self) -> None:
        self._lags: list[float] = []
        self._wall = time.monotonic()
        self._cpu = time.process_time()
        self._alarm = PreciseTimer((self._wall + tick * LAG_INTERVAL for tick in count(1)), self._sample)

    def __enter__(self) -> Self:
        self._alarm.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._alarm.__exit__(kind, error, trace)

    def load(self) -> ClientLoad:
        """The measurements so far."""
        return ClientLoad(tuple(self._lags), time.process_time() - self._cpu, time.monotonic() - self._wall)

    def _sample(self, due: float) -> None:
        self._lags.append(time.monotonic() - due)


def check_client(load: ClientLoad, lateness: Sequence[float], ttft: float | None, tpot: float | None) -> Guards:
    """Compare the client's delays with the measured medians (None: not measured)."""
    lag_median, lag = _percentiles(load.lags, (50, 99))
    (late,) = _percentiles(lateness, (99,))
    cpu_share = load.cpu_seconds / load.wall_seconds
    gap = tpot or ttft or 0.0
    lag_limit = max(LAG_FLOOR, LAG_SHARE * gap)
    median_lag_limit = max(MEDIAN_LAG_FLOOR, MEDIAN_LAG_SHARE * gap)
    late_limit = max(LATENESS_FLOOR, LATENESS_SHARE * (ttft or 0.0))
    reasons = []
    if lag > lag_limit:
        reasons.append(f"its event loop lagged {_ms(lag)} (p99, limit {_ms(lag_limit)})")
    if lag_median > median_lag_limit:
        reasons.append(f"its event loop lagged {_ms(lag_median)} (median, limit {_ms(median_lag_limit)})")
    if cpu_share > MAX_CPU_SHARE:
        reasons.append(f"it used {cpu_share:.0%} of a core (limit {MAX_CPU_SHARE:.0%})")
    if late > late_limit:
        reasons.append(f"it sent {_ms(late)} after schedule (p99, limit {_ms(late_limit)})")
    limited = "the client was the bottleneck: " + "; ".join(reasons) if reasons else None
    return Guards(lag_median, lag, cpu_share, late, limited)


def _percentiles(values: Sequence[float], percents: Sequence[float]) -> list[float]:
    return [float(value) for value in np.percentile(values, percents)] if values else [0.0] * len(percents)


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms"
