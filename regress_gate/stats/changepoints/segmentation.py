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

`weigh_step` is a robust test of one boundary: is there a step between two neighbouring stretches?
Each side has its own level and spread (Welch); noise is symmetric with tails of any weight and autoregressive.
Levels are Huber's M-estimates. The t statistic is turned into the log likelihood ratio of a normal one with the same
tail probability (D. L. Wallace 1959, Annals of Mathematical Statistics 30, 1121). The same data are also fitted by a
smooth curve (a line, or a cubic where that is better): drift is not a step, so a step must fit better than the curve.
Windows are capped at a few times the shorter side: far points say little about the boundary, and may be another regime.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.ndimage import maximum_filter1d
from scipy.special import stdtrit

from regress_gate.stats.changepoints.noise import NoiseModel
from regress_gate.stats.changepoints.series import Floats, Ints, median, spread

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


# A test of one boundary

_HUBER = 1.5
_REACH = 6
"""Windows reach so many times the shorter side."""
_LEAST_REACH = 24
_NEAR, _DOUBT = 40, 0.8
_PRIOR_POINTS = 40.0
"""A side's spread is shrunk towards that of the whole series with the weight of so many points."""


@dataclass(frozen=True, slots=True)
class StepEvidence:
    size: float
    half_width: float
    """Of the 95 % interval of the size."""
    against_none: float
    """Log likelihood ratio of a step against a constant level."""
    against_smooth: float
    """Of a step against a line or cubic; each extra coefficient costs half the log of the number of points."""


@dataclass(frozen=True, slots=True)
class Level:
    mean: float
    scale: float
    variance: float
    bounded: Floats


def window_around(start: int, at: int, stop: int) -> tuple[int, int]:
    """The part of [start, stop) that is used to test a step at `at`."""
    reach = max(_LEAST_REACH, _REACH * min(at - start, stop - at))
    return max(start, at - reach), min(stop, at + reach)


def estimate_level(values: Floats, noise: float) -> Level:
    """Huber's M-estimate, and the values with their deviations bounded (Winsorised about it)."""
    size = len(values)
    middle = median(values)
    own = spread(values - middle) ** 2 * size / max(1, size - 1)
    scale = math.sqrt((_PRIOR_POINTS * noise * noise + size * own) / (_PRIOR_POINTS + size))
    for _ in range(2):
        bounded = np.minimum(np.maximum((values - middle) / scale, -_HUBER), _HUBER)
        inside = max(0.3, int(np.count_nonzero(np.abs(bounded) < _HUBER)) / size)
        middle += scale * float(bounded.sum()) / size / inside
    bounded = np.minimum(np.maximum((values - middle) / scale, -_HUBER), _HUBER) / inside
    # the prior's points are normal: their bounded mean square is known
    square = (float((bounded * bounded).sum()) + _PRIOR_POINTS * 1.037) / (_PRIOR_POINTS + size)
    return Level(middle, scale, scale * scale * square, middle + scale * bounded)


def weigh_step(values: Floats, start: int, at: int, stop: int, noise: NoiseModel) -> StepEvidence:
    low, high = window_around(start, at, stop)
    usual = _usual(values[max(low, at - _NEAR) : min(high, at + _NEAR)], noise)
    left, right = estimate_level(values[low:at], usual), estimate_level(values[at:high], usual)
    before, after = at - low, high - at
    part_left = left.variance * noise.inflation(before) / before
    part_right = right.variance * noise.inflation(after) / after
    error = math.sqrt(part_left + part_right)
    weight = part_left / (part_left + part_right)
    shrink = (1.0 - noise.rho) / (1.0 + noise.rho)
    free_left, free_right = max(1.0, before * shrink - 1 + _PRIOR_POINTS), max(1.0, after * shrink - 1 + _PRIOR_POINTS)
    freedom = 1.0 / (weight**2 / free_left + (1.0 - weight) ** 2 / free_right)
    size = right.mean - left.mean
    ratio = as_normal(size / error, freedom)
    wander = noise.wander_at(min(before, after))
    return StepEvidence(
        size,
        float(stdtrit(freedom, 0.975)) * error * math.sqrt(wander),
        0.5 * ratio * ratio / wander,
        _against_smooth(left, right, noise.rho) / wander,
    )


def _usual(around: Floats, noise: NoiseModel) -> float:
    """The noise that a side is drawn towards: that of the series, unless it is clearly larger hereabouts."""
    here = spread(around[1:] - around[:-1]) / math.sqrt(2.0 * (1.0 - noise.rho))
    return max(noise.sd, _DOUBT * here)


def as_normal(t: float, freedom: float) -> float:
    """The normal deviate of about the tail probability of a t statistic."""
    return math.sqrt(freedom * math.log1p(t * t / freedom)) * (8.0 * freedom + 1.0) / (8.0 * freedom + 3.0)


def _against_smooth(left: Level, right: Level, rho: float) -> float:
    both = np.concatenate((left.bounded, right.bounded))
    size = len(both)
    x = np.linspace(-1.0, 1.0, size)
    weights = np.concatenate(
        (np.full(len(left.bounded), 1 / left.variance), np.full(len(right.bounded), 1 / right.variance))
    )
    root = np.sqrt(weights)
    steps = np.concatenate((left.bounded - left.bounded.mean(), right.bounded - right.bounded.mean()))
    about_step = float((weights * steps * steps).sum())
    basis = np.stack((np.ones(size), x, x * x, x * x * x), axis=1) * root[:, None]
    target = both * root
    q, _ = np.linalg.qr(basis)
    parts = q.T @ target
    total = float(target @ target)
    line = total - float(parts[:2] @ parts[:2])
    cubic = line - float(parts[2:] @ parts[2:])
    long_run = (1.0 + rho) / (1.0 - rho)
    return 0.5 * min(line, cubic + 2.0 * math.log(size)) / long_run - 0.5 * about_step / long_run
