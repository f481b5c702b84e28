"""Collects requests one by one in flat arrays, so that a file of any length fits in memory.

Gives samples and statistics by vLLM's definitions. Gaps that are too many to be kept are counted in a histogram. Not
for knowing any file format.
"""

from array import array
from collections.abc import Mapping, Sequence

import numpy as np

from regress_gate.measurement.plausibility import RefusalError
from regress_gate.measurement.request_statistics import (
    PERCENTILES,
    RequestStatistics,
    agrees,
    check_failed,
    compute_request_statistics,
    latency_statistics,
)
from regress_gate.model.samples import Floats, Ints, Samples

PRECISION = 1e-4
"""Relative width of a bin; a percentile is off by no more than half of it, and a bin's count."""
_LOWEST, _HIGHEST = 1e-12, 1e9
_AT_ONCE = 1 << 20
_BINS = int(np.ceil(np.log(_HIGHEST / _LOWEST) / PRECISION))


class Histogram:
    """Mean, and percentiles to one part in ten thousand, of more values than should be kept.

    Values are counted in bins of equal width on the log scale: the error is relative, and the memory does not grow
    with their number. Values outside 1e-12 to 1e9 count as the nearer end; zeros stay zeros.
    """

    def __init__(self) -> None:
        self._counts = np.zeros(_BINS + 1, dtype=np.int64)
        self._sum = 0.0

    def add(self, values: Floats) -> None:
        """Raises RefusalError for values that are negative or not finite."""
        for begin in range(0, len(values), _AT_ONCE):  # so that no copy is as large as all of them
            self._add(values[begin : begin + _AT_ONCE])

    def _add(self, values: Floats) -> None:
        if not np.isfinite(values).all() or values.min() < 0:
            raise RefusalError("a gap between chunks is negative or not a finite number")
        self._sum += float(values.sum())
        positive = np.clip(values[values > 0], _LOWEST, _HIGHEST * (1 - PRECISION))
        places = 1 + (np.log(positive / _LOWEST) / PRECISION).astype(np.int64)
        self._counts[0] += len(values) - len(positive)
        self._counts += np.bincount(places, minlength=_BINS + 1)

    @property
    def mean(self) -> float:
        return self._sum / int(self._counts.sum())

    def percentile(self, percent: float) -> float:
        """The middle of the bin that holds it."""
        rank = percent / 100 * (int(self._counts.sum()) - 1)
        place = int(np.searchsorted(np.cumsum(self._counts), rank, side="right"))
        return 0.0 if place == 0 else float(_LOWEST * np.exp((place - 0.5) * PRECISION))


_TOLERANCE = 0.02
"""Largest relative difference between a stated statistic and the one made from the requests."""
_SLACK = 2e-6
"""Seconds by which they may differ as well: some tools round to microseconds."""
MAX_KEPT_GAPS = 8_000_000
"""Gaps between chunks that are kept, 64 MB. If there are more, a histogram counts them, and no requests are kept."""


class RequestCollector:
    """Requests that succeeded, and how many failed. Times in seconds.

    A request takes seven numbers of eight bytes. The gaps between chunks, most of a file, are bounded.
    """

    def __init__(self) -> None:
        self.start, self.ttft, self.e2el, self.itl = array("d"), array("d"), array("d"), array("d")
        self.gaps, self.input_tokens, self.output_tokens = array("q"), array("q"), array("q")
        self._gap_unit: float | None = None
        self.failed = 0
        self.is_streamed = True
        """Whether all requests state when their first token came."""
        self.gap_histogram: Histogram | None = None
        """In seconds; None as long as all gaps are kept."""

    def __len__(self) -> int:
        return len(self.e2el)

    def add(
        self,
        *,
        e2el: float,
        ttft: float | None,
        gaps: Sequence[float] = (),
        gap_unit: float = 1.0,
        start: float = 0.0,
        input_tokens: int = 0,
        output_tokens: int = 0,
    ) -> None:
        """Add one request that succeeded. `gap_unit`: seconds in the unit of the gaps.

        Raises RefusalError if the gaps are not all numbers.
        """
        self.input_tokens.append(input_tokens)
        self.output_tokens.append(output_tokens)
        self.e2el.append(e2el)
        self.start.append(start)
        self.is_streamed &= ttft is not None
        self.ttft.append(e2el if ttft is None else ttft)
        if gaps:
            self._gap_unit = gap_unit if self._gap_unit is None else self._gap_unit
            try:
                if gap_unit != self._gap_unit:
                    gaps = [gap * (gap_unit / self._gap_unit) for gap in gaps]
                self.itl.extend(gaps)
            except (TypeError, OverflowError):
                raise RefusalError("the gaps between chunks are not all numbers") from None
        self.gaps.append(len(gaps))
        if len(self.itl) > (MAX_KEPT_GAPS if self.gap_histogram is None else MAX_KEPT_GAPS // 8):
            self._move_gaps_to_histogram()

    def _move_gaps_to_histogram(self) -> None:
        self.gap_histogram = self.gap_histogram or Histogram()
        gaps = _float_array(self.itl)
        gaps *= self._gap_unit or 1.0
        self.gap_histogram.add(gaps)
        self.itl = array("d")

    @property
    def notes(self) -> tuple[str, ...]:
        if self.gap_histogram is None:
            return ()
        return (
            f"more than {MAX_KEPT_GAPS:,} gaps between chunks: requests are not kept, itl is exact to {PRECISION:.2%}",
        )

    def statistics(self) -> RequestStatistics:
        """Samples in the order of adding, with the failed requests at the end, and the values of each family.

        With a gap histogram the samples have no gaps and must not be stored. Raises RefusalError for times that no
        request can have.
        """
        check_failed(self.failed)
        if self.gap_histogram is not None:
            self._move_gaps_to_histogram()
            self.gaps = array("q", bytes(8 * len(self)))
        n, failed = len(self), np.zeros(self.failed)
        start = _float_array(self.start)
        itl = _float_array(self.itl)
        if self._gap_unit is not None:
            itl *= self._gap_unit  # in place: there may be millions
            self._gap_unit = 1.0
        no_tokens = np.zeros(self.failed, dtype=np.int64)
        gaps = np.concatenate((_int_array(self.gaps), no_tokens))
        samples = Samples(
            ttft=np.concatenate((_float_array(self.ttft), failed)),
            itl=itl,
            itl_start=np.concatenate(([0], np.cumsum(gaps))),
            input_tokens=np.concatenate((_int_array(self.input_tokens), no_tokens)),
            output_tokens=np.concatenate((_int_array(self.output_tokens), no_tokens)),
            ok=np.arange(n + self.failed) < n,
            start=np.concatenate((start - start.min(), failed)) if start.any() else None,
        )
        return compute_request_statistics(samples, np.concatenate((_float_array(self.e2el), failed)))

    def latencies(self, statistics: RequestStatistics) -> dict[str, dict[str, float]]:
        """Seconds by family and statistic of the catalogue; the gaps from the histogram if there is one."""
        latencies = latency_statistics(statistics, is_streamed=self.is_streamed)
        gaps = self.gap_histogram
        if gaps is not None and self.is_streamed:
            latencies["itl"] = {"mean": gaps.mean} | {name: gaps.percentile(at) for name, at in PERCENTILES.items()}
        return latencies


def check_agreement(stated: Mapping[str, Mapping[str, float]], measured: Mapping[str, Mapping[str, float]]) -> None:
    """Refuse a file whose own statistics are not those of its requests. Both: seconds, by family and statistic."""
    for family, statistics in stated.items():
        for name, value in statistics.items():
            of_requests = measured.get(family, {}).get(name)
            if of_requests is not None and not agrees(value, of_requests, relative=_TOLERANCE, absolute=_SLACK):
                raise RefusalError(
                    f"{name} {family} says {value:g} s, its own requests say {of_requests:g} s: "
                    "wrong unit, or the file was edited"
                )


def _float_array(values: "array[float]") -> Floats:
    seconds: Floats = np.frombuffer(values, dtype=np.float64) if values else np.zeros(0)
    if not np.isfinite(seconds).all():
        raise RefusalError("a time of a request is not a finite number")
    return seconds


def _int_array(values: "array[int]") -> Ints:
    counts: Ints = np.frombuffer(values, dtype=np.int64) if values else np.zeros(0, dtype=np.int64)
    return counts
