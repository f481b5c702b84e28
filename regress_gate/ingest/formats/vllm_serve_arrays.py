"""The per-request arrays of a `vllm bench serve` result, and the file's own statistics checked by them.

Apart from vllm_serve.py because it needs numpy, and a file without details does not.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, chain
from operator import not_
from typing import Any

import numpy as np

from regress_gate.ingest.fields import is_list
from regress_gate.measurement.plausibility import RefusalError
from regress_gate.measurement.request_statistics import (
    RequestStatistics,
    agrees,
    compute_request_statistics,
    latency_statistics,
)
from regress_gate.model.samples import Floats, Ints, Samples
from regress_gate.text import quoted

_TOLERANCE = 0.02
"""Largest relative difference between a stated statistic and the one made from the samples."""
_ROUNDING = 2e-6
"""Seconds by which they may differ as well: some files have samples rounded to microseconds."""


def read_request_arrays(data: Mapping[str, Any], completed: int) -> RequestStatistics:
    """Samples from the arrays of a result with `completed` successful requests. Raises RefusalError."""
    ttft = _floats(data["ttfts"], "ttfts")
    n = len(ttft)
    itls = data["itls"]
    if not set(map(type, itls)) <= {list}:
        raise RefusalError("itls is not a list of lists, one for each request")
    output_tokens = _counts(data["output_lens"], "output_lens")
    input_lens = data.get("input_lens")
    input_tokens = _counts(input_lens, "input_lens") if is_list(input_lens) else np.zeros(n, dtype=np.int64)
    errors = data.get("errors")
    lengths = {"ttfts": n, "itls": len(itls), "output_lens": len(output_tokens), "input_lens": len(input_tokens)}
    if is_list(errors):
        lengths["errors"] = len(errors)
    if len(set(lengths.values())) > 1:
        counts = ", ".join(f"{key} {length}" for key, length in lengths.items())
        raise RefusalError(f"the arrays have different lengths ({counts}): the file was cut or edited")
    itl_start = np.fromiter(accumulate(map(len, itls), initial=0), dtype=np.int64, count=n + 1)
    itl = _floats(chain.from_iterable(itls), "itls", int(itl_start[-1]), kinds=chain.from_iterable(itls))
    ok = _succeeded(errors, ttft, output_tokens, completed)
    latency = _latencies(data, ttft, itl, itl_start)
    samples = Samples(ttft, itl, itl_start, input_tokens, output_tokens, ok, _starts(data, n))
    return compute_request_statistics(samples, latency)


def checked_latencies(
    statistics: RequestStatistics, stated: Mapping[str, Mapping[str, float]], *, may_be_swapped: bool
) -> dict[str, dict[str, float]]:
    """The catalogue's statistics, made from the samples: seconds, by family and statistic.

    Refuses a file whose own statistics (`stated`, with the file's names) are not those of its samples.
    `may_be_swapped`: the file has the keys of a client that writes mean and median e2el swapped; `stated` has them
    swapped back, which is wrong for a later client that kept the keys.
    """
    latencies = latency_statistics(statistics)
    for family, values in stated.items():
        known = latencies.get(family, {})
        for name, value in values.items():
            percent = None if name == "mean" else 50.0 if name == "median" else float(name[1:])
            if percent is not None and percent > 100:
                raise RefusalError(f"{name}_{family}_ms is no percentile")
            measured = known[name] if name in known else statistics.statistic(family, percent)
            if measured is None or agrees(value, measured, relative=_TOLERANCE, absolute=_ROUNDING):
                continue
            other = values.get("median" if name == "mean" else "mean", value)
            if may_be_swapped and family == "e2el" and agrees(other, measured, relative=_TOLERANCE, absolute=_ROUNDING):
                continue
            raise RefusalError(
                f"{name}_{family}_ms says {value * 1000:g}, its own samples say {measured * 1000:g}: "
                "wrong unit, or the file was edited"
            )
    return latencies


def _succeeded(
    errors: object, ttft: Floats, output_tokens: Ints, completed: int
) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Which requests succeeded. Old clients leave the error text of some failed requests empty."""
    if is_list(errors):
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
    if not is_list(recorded):
        request_of_gap = np.arange(len(ttft)).repeat(itl_start[1:] - itl_start[:-1])
        summed: Floats = ttft + np.bincount(request_of_gap, weights=itl, minlength=len(ttft))
        return summed
    latency = _floats(recorded, "latencies")
    if len(latency) != len(ttft):
        raise RefusalError(f"the arrays have different lengths (ttfts {len(ttft)}, latencies {len(latency)})")
    return latency


def _starts(data: Mapping[str, Any], n: int) -> Floats | None:
    """Send times relative to the first; the file's clock has an arbitrary zero."""
    recorded = data.get("start_times")
    if not is_list(recorded) or len(recorded) != n or not n:
        return None
    starts = _floats(recorded, "start_times")
    relative: Floats = starts - starts.min()
    return relative


def _floats(values: Iterable[Any], name: str, length: int = -1, kinds: Iterable[Any] | None = None) -> Floats:
    """An array of numbers. `kinds`: the same values again, if `values` can be iterated only once."""
    types = set(map(type, values if kinds is None else kinds))
    if not types <= {float, int}:
        raise RefusalError(f"{name} holds {_type_names(types - {float, int})}, not only numbers")
    try:
        array = np.fromiter(values, dtype=np.float64, count=length)
    except OverflowError:
        raise RefusalError(f"{name} holds a number that is too large") from None
    if not np.isfinite(array).all():
        raise RefusalError(f"{name} holds a number that is not finite")
    return array


def _counts(values: Sequence[Any], name: str) -> Ints:
    if not set(map(type, values)) <= {int}:
        raise RefusalError(f"{name} holds {_type_names(set(map(type, values)) - {int})}, not only whole numbers")
    try:
        array = np.fromiter(values, dtype=np.int64, count=len(values))
    except OverflowError:
        raise RefusalError(f"{name} holds a number that is too large") from None
    if len(array) and array.min() < 0:
        raise RefusalError(f"{name} holds {quoted(int(array.min()))}, which is no count")
    return array


def _type_names(kinds: set[type]) -> str:
    names = {"NoneType": "null", "str": "text", "bool": "true or false", "list": "lists", "dict": "objects"}
    return " and ".join(sorted(names.get(kind.__name__, kind.__name__) for kind in kinds))
