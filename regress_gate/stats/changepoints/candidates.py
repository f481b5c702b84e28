"""Where a series might have changed: places proposed generously, for `segments` to choose from.

Differences of means left and right of every point, over windows from 2 points to half the series, with equal and with
unequal sides (a moving sum, as in P. Eichinger and C. Kirch 2018, doi 10.3150/16-BEJ887, on a geometric grid of
bandwidths, and so in O(n log n)). The local extremes that stand out of the noise are the candidates. This decides
nothing: its threshold is low, and what it proposes is wrong most of the time.
"""

import numpy as np
from scipy.ndimage import maximum_filter1d

from regress_gate.stats.changepoints.types import Floats, Ints

_LOWEST = 2.5
_LEFT, _RIGHT = np.array([[1], [1], [4]]), np.array([[1], [4], [1]])


def candidates(values: Floats, noise: float, narrowest: int = 2) -> Ints:
    """Indices at which a new segment may start.

    `noise` is the standard deviation that a mean of many has to bear, `narrowest` the points of the shortest window.
    """
    size = len(values)
    sums = np.concatenate(([0.0], np.cumsum(values - values.mean())))
    at = np.arange(1, size)
    found = np.zeros(size, dtype=bool)
    for width in _widths(size, narrowest):
        start, stop = np.maximum(at - _LEFT * width, 0), np.minimum(at + _RIGHT * width, size)
        before, after = at - start, stop - at
        gap = (sums[stop] - sums[at]) / after - (sums[at] - sums[start]) / before
        height = np.abs(gap) / (noise * np.sqrt(1.0 / before + 1.0 / after))
        height[:, 0] = 0.0
        peak = maximum_filter1d(height, 2 * (width // 2) + 1, mode="constant")
        found[1:] |= ((height >= _LOWEST) & (height == peak)).any(axis=0)
    return np.flatnonzero(found).astype(np.int64)


def _widths(size: int, narrowest: int) -> list[int]:
    widths, width = [], float(narrowest)
    while width <= max(narrowest, size // 2):
        widths.append(int(width))
        width *= 1.6
    return widths
