"""Where a series might have changed: proposed starts, the best division by them, and the exact place of a step.

`propose_starts` takes the differences of means left and right of every point, over windows from 2 points to half the
series, with equal and with unequal sides (a moving sum, as in P. Eichinger and C. Kirch 2018, doi 10.3150/16-BEJ887, on
a geometric grid of bandwidths, so in O(n log n)). Local extremes that exceed the noise are proposed. The threshold is
low, and most proposals are wrong.

`partition_series` is optimal partitioning (B. Jackson et al. 2005, doi 10.1109/LSP.2001.838216) of the sum of squares
with a penalty a change, over the proposals only, pruned as in PELT (R. Killick et al. 2012, doi
10.1080/01621459.2012.737745): exact on the proposals and about linear in their number. It expects values with bounded
spikes. The penalty is low; `elimination` tests what comes out.

`locate_step` gives each place between two known levels a likelihood: points before it are scored by the left level,
points after it by the right one. Scores are those of Student's t with four degrees of freedom, so a point that fits
neither level counts little. The normalised likelihood (a flat prior) gives the interval, and dependence between points
flattens it. The likeliest place is reported (D. V. Hinkley 1970, doi 10.1093/biomet/57.1.1, for known levels). Limits:
levels count as known, which makes the interval of a weak step somewhat short.
"""

from dataclasses import dataclass

import numpy as np
from scipy.ndimage import maximum_filter1d

from regress_gate.stats.changepoints.series import Floats, Ints

_LOWEST = 2.5
_LEFT, _RIGHT = np.array([[1], [1], [4]]), np.array([[1], [4], [1]])


def propose_starts(values: Floats, noise: float, narrowest: int = 2) -> Ints:
    """Indices at which a new segment may start.

    `noise` is the standard deviation that a mean of many has to bear, `narrowest` the points of the shortest window.
    """
    size = len(values)
    sums = np.concatenate(([0.0], np.cumsum(values - values.mean())))
    at = np.arange(1, size)
    is_start = np.zeros(size, dtype=bool)
    for width in _widths(size, narrowest):
        start, stop = np.maximum(at - _LEFT * width, 0), np.minimum(at + _RIGHT * width, size)
        before, after = at - start, stop - at
        gap = (sums[stop] - sums[at]) / after - (sums[at] - sums[start]) / before
        height = np.abs(gap) / (noise * np.sqrt(1.0 / before + 1.0 / after))
        height[:, 0] = 0.0
        peak = maximum_filter1d(height, 2 * (width // 2) + 1, mode="constant")
        is_start[1:] |= ((height >= _LOWEST) & (height == peak)).any(axis=0)
    return np.flatnonzero(is_start).astype(np.int64)


def _widths(size: int, narrowest: int) -> list[int]:
    widths, width = [], float(narrowest)
    while width <= max(narrowest, size // 2):
        widths.append(int(width))
        width *= 1.6
    return widths


def partition_series(values: Floats, places: Ints, noise: float, penalty: float, shortest: int = 2) -> list[int]:
    """Starts of the second and later stretches, a subset of `places`."""
    size = len(values)
    centred = (values - values.mean()) / noise
    edges = np.concatenate(([0], places, [size]))
    sums = np.concatenate(([0.0], np.cumsum(centred)))[edges]
    best = np.empty(len(edges))
    best[0] = -penalty
    back = np.zeros(len(edges), dtype=np.int64)
    alive = np.array([0])
    for stop in range(1, len(edges)):
        length = edges[stop] - edges[alive]
        gain = sums[stop] - sums[alive]
        without = best[alive] - gain * gain / length
        total = np.where(length >= shortest, without + penalty, np.inf)
        choice = int(total.argmin())
        best[stop], back[stop] = total[choice], alive[choice]
        alive = np.append(alive[(without <= best[stop]) | (length < shortest)], stop)
    chosen, edge = [], int(back[-1])
    while edge > 0:
        chosen.append(int(edges[edge]))
        edge = int(back[edge])
    return chosen[::-1]


_FREEDOM = 4.0


@dataclass(frozen=True, slots=True)
class Position:
    index: int
    interval: tuple[int, int]


def locate_step(
    values: Floats, offset: int, left: float, right: float, scale: float, inflation: float, shortest: int
) -> Position:
    """`values` are those of both stretches, the first at index `offset`; `shortest` points stay on each side."""
    before = np.log1p(((values - left) / scale) ** 2 / _FREEDOM)
    after = np.log1p(((values - right) / scale) ** 2 / _FREEDOM)
    lead = 0.5 * (_FREEDOM + 1.0) * np.cumsum(after - before)[:-1] / inflation  # of a step after point i
    first = max(1, min(shortest, len(values) - 1))
    last = max(first, len(values) - shortest)
    lead = lead[first - 1 : last]
    best = int(lead.argmax())
    weights = np.exp(lead - lead[best])
    weights /= weights.sum()
    total = np.cumsum(weights)
    low, high = int(np.searchsorted(total, 0.025)), int(np.searchsorted(total, 0.975))
    place = offset + first
    return Position(place + best, (place + min(low, best), place + min(len(weights) - 1, max(high, best))))
