"""From per-request arrays to statistics and metrics. Not for reading files, and not for statistics that files state.

The definitions are vLLM's: percentiles interpolate linearly; the TPOT of a request is (end-to-end latency − TTFT) /
(output tokens − 1), and requests with at most one output token have none; ITL pools the gaps of all requests. Only
requests that succeeded count; failed ones keep their place in the samples.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from regress_gate.measurement import plausibility
from regress_gate.measurement.plausibility import RefusalError
from regress_gate.measurement.totals import LoadTotals, MeasuredRequest
from regress_gate.model.metric import DEFINITIONS_KEY, LATENCIES, counts_goodput_as_vllm
from regress_gate.model.run import Trial
from regress_gate.model.samples import Floats, Samples

PERCENTILES: Mapping[str, float] = {"median": 50, "p90": 90, "p95": 95, "p99": 99}
"""In percent, by the names of the catalogue."""


@dataclass(frozen=True, slots=True, eq=False)
class RequestStatistics:
    """The samples, and for each latency family the values of the requests that succeeded, in seconds."""

    samples: Samples
    values: Mapping[str, Floats]
    _ascending: dict[str, Floats] = field(default_factory=dict, repr=False)

    def statistic(self, family: str, percent: float | None) -> float | None:
        """Mean (`percent` is None) or percentile of a family; None if no request has a value."""
        values = self.values[family]
        if not len(values):
            return None
        if percent is None:
            return float(values.sum()) / len(values)  # equals values.mean(), in a third of its time
        return percentile(self._sorted(family), percent)

    def statistics(self, family: str, percents: Iterable[float]) -> list[float]:
        """Several percentiles; empty if no request has a value."""
        ascending = self._sorted(family)
        return [percentile(ascending, percent) for percent in percents] if len(ascending) else []

    def _sorted(self, family: str) -> Floats:
        if family not in self._ascending:
            self._ascending[family] = np.sort(self.values[family])
        return self._ascending[family]


def percentile(ascending: Floats, percent: float) -> float:
    """The same as `numpy.percentile`, to the last digit, in a tenth of its time: results of few requests need a dozen.

    `ascending` has shape (n,), n at least 1.
    """
    place = (len(ascending) - 1) * (percent / 100)
    below = int(place)
    low, high = float(ascending[below]), float(ascending[min(below + 1, len(ascending) - 1)])
    share = place - below
    return low + (high - low) * share if share < 0.5 else high - (high - low) * (1 - share)


def agrees(stated: float, measured: float, *, relative: float, absolute: float) -> bool:
    """Whether a stated statistic is the measured one, within the tolerances."""
    return abs(stated - measured) <= absolute + relative * abs(measured)


def compute_request_statistics(samples: Samples, latency: Floats) -> RequestStatistics:
    """The values of each latency family. `latency`: end-to-end, seconds, shape (n,).

    Raises RefusalError for times that no request can have.
    """
    ttft, itl, ok, output_tokens = samples.ttft, samples.itl, samples.ok, samples.output_tokens
    _check_times(samples, latency)
    several = ok & (output_tokens > 1)
    values = {
        "ttft": ttft[ok],
        "tpot": (latency[several] - ttft[several]) / (output_tokens[several] - 1),
        "itl": itl if ok.all() else itl[ok.repeat(samples.itl_start[1:] - samples.itl_start[:-1])],
        "e2el": latency[ok],
    }
    return RequestStatistics(samples, values)


MAX_FAILED = 1_000_000
"""Failed requests that are kept beside the others. A file may state any number without holding one of them."""


def check_failed(failed: int) -> None:
    """Refuse more failed requests than are kept: each needs some memory, whatever the size of the file."""
    if failed > MAX_FAILED:
        raise RefusalError(f"{failed:,} failed requests are stated, more than {MAX_FAILED:,}: edited, or not one run")


def statistics_of_requests(requests: Sequence[MeasuredRequest], failed: int) -> RequestStatistics:
    """The same from single requests, at least one; they are put in the order of their start.

    The `failed` requests come last and have zeros. Raises RefusalError for times that no request can have.
    """
    check_failed(failed)
    requests = sorted(requests, key=lambda request: request.start)
    zeros, no_tokens = np.zeros(failed), np.zeros(failed, dtype=np.int64)
    start = np.array([request.start for request in requests])
    itl = np.array([gap for request in requests for gap in request.gaps], dtype=np.float64)
    gap_counts = [len(request.gaps) for request in requests] + [0] * failed
    ttft = np.array([request.ttft for request in requests])
    latency = np.array([request.e2el for request in requests])
    if not all(np.isfinite(times).all() for times in (start, itl, ttft, latency)):
        raise RefusalError("a time of a request is not a finite number")
    samples = Samples(
        ttft=np.concatenate((ttft, zeros)),
        itl=itl,
        itl_start=np.concatenate(([0], np.cumsum(gap_counts))),
        input_tokens=np.concatenate((np.array([request.input_tokens for request in requests]), no_tokens)),
        output_tokens=np.concatenate((np.array([request.output_tokens for request in requests]), no_tokens)),
        ok=np.arange(len(requests) + failed) < len(requests),
        start=np.concatenate((start - start.min(), zeros)),
    )
    return compute_request_statistics(samples, np.concatenate((latency, zeros)))


def latency_statistics(statistics: RequestStatistics, *, is_streamed: bool = True) -> dict[str, dict[str, float]]:
    """Seconds by family and statistic of the catalogue; families without a value are left out.

    An answer that came in one piece (not `is_streamed`) has an end-to-end latency, and no times of tokens.
    """
    latencies: dict[str, dict[str, float]] = {}
    for family in LATENCIES if is_streamed else ("e2el",):
        mean = statistics.statistic(family, None)
        if mean is not None:
            percentiles = statistics.statistics(family, PERCENTILES.values())
            latencies[family] = {"mean": mean, **dict(zip(PERCENTILES, percentiles, strict=True))}
    return latencies


def pass_metrics(
    statistics: RequestStatistics, totals: LoadTotals, *, is_streamed: bool = True
) -> tuple[dict[str, float], list[str]]:
    """Metrics by catalogue name, and notes, of a pass whose single requests are known.

    Raises RefusalError for what cannot be true.
    """
    latencies = latency_statistics(statistics, is_streamed=is_streamed)
    notes = plausibility.check_latencies(latencies, totals)
    return plausibility.metrics_by_name(latencies) | plausibility.throughput_metrics(totals), notes


def trial_attainment(trial: Trial) -> float | None:
    """The share of all requests that were sent and met the workload's objectives; None if the goodput does not say it.

    Requests that failed are counted: a server that drops its slowest requests serves nobody better. The goodput of a
    client that counts unlike vLLM's says something else (`OTHER_ATTAINMENTS`).
    """
    if not trial.requests or trial.completed is None:
        return None
    if not trial.failed and "failed_requests" not in trial.metrics:
        return None  # how many failed is not stated
    definitions = trial.workload.get(DEFINITIONS_KEY)
    if not counts_goodput_as_vllm(None if definitions is None else str(definitions)):
        return None
    if not trial.completed:
        return 0.0 if trial.workload.get("slo") else None
    goodput, rate = trial.metrics.get("goodput"), trial.metrics.get("request_throughput")
    return None if goodput is None or not rate else min(goodput / rate, 1.0) * trial.completed / trial.requests


def _check_times(samples: Samples, latency: Floats) -> None:
    ttft, itl, ok = samples.ttft, samples.itl, samples.ok
    if len(bad := (ok & (ttft <= 0)).nonzero()[0]):
        raise RefusalError(f"request {bad[0] + 1} succeeded but its time to first token is {ttft[bad[0]]} s")
    if len(bad := (ok & (latency < ttft * (1 - 1e-6) - 1e-6)).nonzero()[0]):
        raise RefusalError(f"request {bad[0] + 1} ended before its first token: the arrays do not belong together")
    if len(itl) and itl.min() < 0:
        request = int(np.searchsorted(samples.itl_start[1:], int(itl.argmin()), side="right")) + 1
        raise RefusalError(f"request {request} has a negative gap between tokens ({float(itl.min())} s)")
