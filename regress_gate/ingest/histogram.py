"""Statistics of more values than should be kept: their mean, and percentiles to one part in ten thousand.

Values are counted in bins of equal width on the log scale, so that the error is relative and the memory does not grow
with their number. Not for few values: those are kept, and their percentiles are exact.
"""

import numpy as np

from regress_gate.ingest.interface import RefusalError
from regress_gate.model.samples import Floats

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
