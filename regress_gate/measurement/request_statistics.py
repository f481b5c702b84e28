"""Per-request arrays of a vLLM client's result to samples and statistics. Not for the file's own statistics.

Definitions are vLLM's: percentiles interpolate linearly; TPOT of a request = (end-to-end latency − TTFT) / (output
tokens − 1), where requests with at most one output token are left out; ITL pools the gaps of all requests. Only
requests that succeeded count; failed ones keep their place in the samples.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from regress_gate.measurement.plausibility import RefusalError
from regress_gate.model.samples import Floats, Samples


@dataclass(frozen=True, slots=True, eq=False)
class RequestStatistics:
    """The samples, and for each family the values of the requests that succeeded, in seconds."""

    samples: Samples
    values: Mapping[str, Floats]
    _ascending: dict[str, Floats] = field(default_factory=dict, repr=False)

    def statistic(self, family: str, percent: float | None) -> float | None:
        """Mean (`percent` None) or percentile of a family; None where no request has a value."""
        values = self.values[family]
        if not len(values):
            return None
        if percent is None:
            return float(values.sum()) / len(values)  # what values.mean() is, in a third of its time
        return percentile(self._sorted(family), percent)

    def statistics(self, family: str, percents: Iterable[float]) -> list[float]:
        """Several percentiles; empty where no request has a value."""
        ascending = self._sorted(family)
        return [percentile(ascending, percent) for percent in percents] if len(ascending) else []

    def _sorted(self, family: str) -> Floats:
        if family not in self._ascending:
            self._ascending[family] = np.sort(self.values[family])
        return self._ascending[family]


def percentile(ascending: Floats, percent: float) -> float:
    """That of `numpy.percentile`, to the last digit, in a tenth of its time: a result of few requests has a dozen.

    `ascending` has shape (n,), n at least 1.
    """
    place = (len(ascending) - 1) * (percent / 100)
    below = int(place)
    low, high = float(ascending[below]), float(ascending[min(below + 1, len(ascending) - 1)])
    share = place - below
    return low + (high - low) * share if share < 0.5 else high - (high - low) * (1 - share)


def agrees(stated: float, measured: float, *, relative: float, absolute: float) -> bool:
    return abs(stated - measured) <= absolute + relative * abs(measured)


def compute_request_statistics(samples: Samples, latency: Floats) -> RequestStatistics:
    """What the samples say of each family. `latency`: end-to-end, seconds, shape (n,).

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


def _check_times(samples: Samples, latency: Floats) -> None:
    ttft, itl, ok = samples.ttft, samples.itl, samples.ok
    if len(bad := (ok & (ttft <= 0)).nonzero()[0]):
        raise RefusalError(f"request {bad[0] + 1} succeeded but its time to first token is {ttft[bad[0]]} s")
    if len(bad := (ok & (latency < ttft * (1 - 1e-6) - 1e-6)).nonzero()[0]):
        raise RefusalError(f"request {bad[0] + 1} ended before its first token: the arrays do not belong together")
    if len(itl) and itl.min() < 0:
        request = int(np.searchsorted(samples.itl_start[1:], int(itl.argmin()), side="right")) + 1
        raise RefusalError(f"request {request} has a negative gap between tokens ({float(itl.min())} s)")
