"""Is there a step between two neighbouring stretches? A robust test of one boundary.

Model: each side has its own level and spread (Welch); noise is symmetric with tails of any weight and autoregressive.
Levels are Huber's M-estimates. The t statistic is turned into the log likelihood ratio of a normal one with the same
tail probability (D. L. Wallace 1959, Annals of Mathematical Statistics 30, 1121). The same data are also fitted by a
smooth curve (a line, or a cubic where that is better): drift is not a step, so a step must fit better than the curve.
Windows are capped at a few times the shorter side: far points say little about the boundary, and may be another regime.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from regress_gate.stats.changepoints.noise import NoiseModel
from regress_gate.stats.changepoints.series import Floats, median, spread

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
