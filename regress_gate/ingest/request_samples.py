"""Per-request arrays of a vLLM client's result to samples and statistics. Not for the file's own statistics.

Definitions are vLLM's: percentiles interpolate linearly; TPOT of a request = (end-to-end latency − TTFT) / (output
tokens − 1), where requests with at most one output token are left out; ITL pools the gaps of all requests. Only
requests that succeeded count; failed ones keep their place in the samples.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate, chain
from operator import not_
from typing import Any

import numpy as np

from regress_gate.ingest.interface import RefusalError
from regress_gate.ingest.text import shown
from regress_gate.model.samples import Floats, Ints, Samples


@dataclass(frozen=True, slots=True, eq=False)
class Requests:
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


def read_requests(data: Mapping[str, Any], completed: int) -> Requests:
    """Samples from the arrays of a result with `completed` successful requests. Raises RefusalError."""
    ttft = _floats(data["ttfts"], "ttfts")
    n = len(ttft)
    itls = data["itls"]
    if not set(map(type, itls)) <= {list}:
        raise RefusalError("itls is not a list of lists, one for each request")
    output_tokens = _counts(data["output_lens"], "output_lens")
    input_lens = data.get("input_lens")
    input_tokens = _counts(input_lens, "input_lens") if isinstance(input_lens, list) else np.zeros(n, dtype=np.int64)
    errors = data.get("errors")
    lengths = {"ttfts": n, "itls": len(itls), "output_lens": len(output_tokens), "input_lens": len(input_tokens)}
    if isinstance(errors, list):
        lengths["errors"] = len(errors)
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{key} {length}" for key, length in lengths.items())
        raise RefusalError(f"the arrays have different lengths ({told}): the file was cut or edited")
    itl_start = np.fromiter(accumulate(map(len, itls), initial=0), dtype=np.int64, count=n + 1)
    itl = _floats(chain.from_iterable(itls), "itls", int(itl_start[-1]), kinds=chain.from_iterable(itls))
    ok = _succeeded(errors, ttft, output_tokens, completed)
    latency = _latencies(data, ttft, itl, itl_start)
    samples = Samples(ttft, itl, itl_start, input_tokens, output_tokens, ok, _starts(data, n))
    return requests_of(samples, latency)


def requests_of(samples: Samples, latency: Floats) -> Requests:
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
    return Requests(samples, values)


def _succeeded(
    errors: object, ttft: Floats, output_tokens: Ints, completed: int
) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Which requests succeeded. Old clients leave the error of some failed requests empty."""
    if isinstance(errors, list):
        if not set(map(type, errors)) <= {str, type(None)}:
            raise RefusalError("errors is not a list of texts")
        without_error = np.fromiter(map(not_, errors), dtype=np.bool_, count=len(errors))
        if np.count_nonzero(without_error) == completed:
            return without_error
    else:
        without_error = np.ones(len(ttft), dtype=np.bool_)
    answered = without_error & ((ttft > 0) | (output_tokens > 0))
    if answered.sum() != completed:
        raise RefusalError(
            f"completed says {completed}, the arrays hold {int(answered.sum())} successful requests: "
            "the file was cut or edited"
        )
    return answered


def _latencies(data: Mapping[str, Any], ttft: Floats, itl: Floats, itl_start: Ints) -> Floats:
    """End-to-end latency of each request: as recorded (0.30 and later), else TTFT plus all gaps."""
    recorded = data.get("latencies")
    if not isinstance(recorded, list):
        request_of_gap = np.arange(len(ttft)).repeat(itl_start[1:] - itl_start[:-1])
        summed: Floats = ttft + np.bincount(request_of_gap, weights=itl, minlength=len(ttft))
        return summed
    latency = _floats(recorded, "latencies")
    if len(latency) != len(ttft):
        raise RefusalError(f"the arrays have different lengths (ttfts {len(ttft)}, latencies {len(latency)})")
    return latency


def _check_times(samples: Samples, latency: Floats) -> None:
    ttft, itl, ok = samples.ttft, samples.itl, samples.ok
    if len(bad := (ok & (ttft <= 0)).nonzero()[0]):
        raise RefusalError(f"request {bad[0] + 1} succeeded but its time to first token is {ttft[bad[0]]} s")
    if len(bad := (ok & (latency < ttft * (1 - 1e-6) - 1e-6)).nonzero()[0]):
        raise RefusalError(f"request {bad[0] + 1} ended before its first token: the arrays do not belong together")
    if len(itl) and itl.min() < 0:
        request = int(np.searchsorted(samples.itl_start[1:], int(itl.argmin()), side="right")) + 1
        raise RefusalError(f"request {request} has a negative gap between tokens ({float(itl.min())} s)")


def _starts(data: Mapping[str, Any], n: int) -> Floats | None:
    """Send times relative to the first; the file's clock has an arbitrary zero."""
    recorded = data.get("start_times")
    if not isinstance(recorded, list) or len(recorded) != n or not n:
        return None
    starts = _floats(recorded, "start_times")
    relative: Floats = starts - starts.min()
    return relative


def _floats(values: Iterable[Any], name: str, length: int = -1, kinds: Iterable[Any] | None = None) -> Floats:
    """Numbers to an array. `kinds` is a second pass over the same values where `values` can be read only once."""
    found = set(map(type, values if kinds is None else kinds))
    if not found <= {float, int}:
        raise RefusalError(f"{name} holds {_named(found - {float, int})}, not only numbers")
    try:
        array = np.fromiter(values, dtype=np.float64, count=length)
    except OverflowError:
        raise RefusalError(f"{name} holds a number that is too large") from None
    if not np.isfinite(array).all():
        raise RefusalError(f"{name} holds a number that is not finite")
    return array


def _counts(values: list[Any], name: str) -> Ints:
    if not set(map(type, values)) <= {int}:
        raise RefusalError(f"{name} holds {_named(set(map(type, values)) - {int})}, not only whole numbers")
    try:
        array = np.fromiter(values, dtype=np.int64, count=len(values))
    except OverflowError:
        raise RefusalError(f"{name} holds a number that is too large") from None
    if len(array) and array.min() < 0:
        raise RefusalError(f"{name} holds {shown(int(array.min()))}, which is no count")
    return array


def _named(kinds: set[type]) -> str:
    names = {"NoneType": "null", "str": "text", "bool": "true or false", "list": "lists", "dict": "objects"}
    return " and ".join(sorted(names.get(kind.__name__, kind.__name__) for kind in kinds))
