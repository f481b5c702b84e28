"""Requests of another tool's result, gathered one by one into flat arrays, so that a file of any length fits.

Makes of them what vLLM's own arrays become: samples, and statistics by vLLM's definitions. Not for knowing any format.
"""

from array import array
from collections.abc import Mapping, Sequence

import numpy as np

from regress_gate.measurement.plausibility import RefusalError
from regress_gate.measurement.request_statistics import RequestStatistics, agrees, compute_request_statistics
from regress_gate.model.metric import LATENCIES
from regress_gate.model.samples import Floats, Ints, Samples

# MERGED regress_gate.ingest.histogram: Statistics of more values than should be kept: their mean, and percentiles
# to one part in ten thousand.  Values are counted in bins of equal width on the log scale, so that the error is
# relative and the memory does not grow with their number. Not for few values: those are kept, and their percentiles
# are exact.


PRECISION = 1e-4
"""Relative width of a bin; a percentile is off by no more than half of it, and a bin's count."""
_LOWEST, _HIGHEST = 1e-12, 1e9
_AT_ONCE = 1 << 20
_BINS = int(np.ceil(np.log(_HIGHEST / _LOWEST) / PRECISION))


class Histogram:
    """Counts of values from 0. What lies outside 1e-12 to 1e9 counts as the nearer end; zeros stay zeros."""

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


Statistics = Mapping[str, Mapping[str, float]]
"""Seconds, by family and statistic of the catalogue."""

_PERCENTS: Mapping[str, float] = {"median": 50, "p90": 90, "p95": 95, "p99": 99}
_TOLERANCE = 0.02
"""Relative difference between a stated statistic and the one of its own requests beyond which the file is refused."""
MAX_KEPT_GAPS = 8_000_000
"""Gaps between chunks that are kept, 64 MB of them; of more only a histogram is, and no single requests."""
_SLACK = 2e-6
"""Seconds by which they may differ where somebody rounded to microseconds."""


class RequestCollector:
    """Requests that succeeded, and how many failed; times in seconds.

    Eight bytes a number, seven numbers a request. The gaps between chunks, which are most of a file, are bounded.
    """

    def __init__(self) -> None:
        self.start, self.ttft, self.e2el, self.itl = array("d"), array("d"), array("d"), array("d")
        self.gaps, self.input_tokens, self.output_tokens = array("q"), array("q"), array("q")
        self._gap_unit: float | None = None
        self.failed = 0
        self.is_streamed = True
        """Whether all say when their first token came."""
        self.folded: Histogram | None = None
        """Of the gaps, in seconds, where they are too many to be kept."""

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
        """One request that succeeded. `gap_unit`: seconds in the unit of the gaps.

        Raises RefusalError where the gaps are not all numbers.
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
        if len(self.itl) > (MAX_KEPT_GAPS if self.folded is None else MAX_KEPT_GAPS // 8):
            self._fold()

    def _fold(self) -> None:
        self.folded = self.folded or Histogram()
        gaps = _float_array(self.itl)
        gaps *= self._gap_unit or 1.0
        self.folded.add(gaps)
        self.itl = array("d")

    @property
    def notes(self) -> tuple[str, ...]:
        if self.folded is None:
            return ()
        return (
            f"more than {MAX_KEPT_GAPS:,} gaps between chunks: requests are not kept, itl is exact to {PRECISION:.2%}",
        )

    def requests(self) -> RequestStatistics:
        """Samples, in the order of adding with the failed ones at the end, and the values of each family.

        Without gaps where they are folded: then the samples are not to be stored. Raises RefusalError for times that
        no request can have.
        """
        if self.folded is not None:
            self._fold()
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


def latency_statistics(
    requests: RequestStatistics, *, is_streamed: bool = True, folded: Histogram | None = None
) -> dict[str, dict[str, float]]:
    """Seconds by family and statistic of the catalogue; families without a value are left out.

    An answer that came in one piece (not `is_streamed`) has an end, and no times of tokens. `folded`: the gaps, where
    they are too many to be kept.
    """
    found: dict[str, dict[str, float]] = {}
    for family in LATENCIES if is_streamed else ("e2el",):
        mean = requests.statistic(family, None)
        if mean is not None:
            percentiles = requests.statistics(family, list(_PERCENTS.values()))
            found[family] = {"mean": mean, **dict(zip(_PERCENTS, percentiles, strict=True))}
    if folded is not None and is_streamed:
        found["itl"] = {"mean": folded.mean} | {name: folded.percentile(at) for name, at in _PERCENTS.items()}
    return found


def check_agreement(stated: Statistics, found: Statistics) -> None:
    """Refuse requests that are not those of which the file's own statistics were made."""
    for family, own in stated.items():
        for name, value in own.items():
            mine = found.get(family, {}).get(name)
            if mine is not None and not agrees(value, mine, relative=_TOLERANCE, absolute=_SLACK):
                raise RefusalError(
                    f"{name} {family} says {value:g} s, its own requests say {mine:g} s: "
                    "wrong unit, or the file was edited"
                )


def _float_array(values: "array[float]") -> Floats:
    found: Floats = np.frombuffer(values, dtype=np.float64) if values else np.zeros(0)
    if not np.isfinite(found).all():
        raise RefusalError("a time of a request is not a finite number")
    return found


def _int_array(values: "array[int]") -> Ints:
    found: Ints = np.frombuffer(values, dtype=np.int64) if values else np.zeros(0, dtype=np.int64)
    return found
