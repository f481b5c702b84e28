"""The noise of a series: its standard deviation, its autocorrelation, and how far its level wanders at each time scale.

Model: noise is autoregressive of order one on a level that may wander. The coefficient first comes from differences
over one and two points, whose mean squares have the ratio 1 + rho whatever slow movement or rare steps the level makes
(the idea of S. Chakar et al. 2017, doi 10.3150/15-BEJ782, with bounded squares in place of medians), and then from the
residuals of a segmentation. Both are shrunk towards a fifth, more so in a short series, where autocorrelation cannot be
distinguished from a step.

Real benchmark histories also wander: means of neighbouring windows differ by more than the noise explains, and more so
for longer windows. A step counts only if it is large relative to that. For windows of 4, 8, 16, … points the median
square difference of neighbouring means is compared with what the noise predicts (D. W. Allan's variance, 1966, doi
10.1109/PROC.1966.4634). Windows that contain an accepted step are left out.

Limits: a time scale with fewer than ten windows in the series uses the longest scale that has them; negative
autocorrelation counts as none.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from regress_gate.stats.changepoints.series import Floats, median, spread

_MAX_RHO = 0.9
_RHO_PRIOR = 0.2
_RHO_PRIOR_POINTS = 45.0
_LEAST_WINDOWS = 10
_WANDER_PRIOR_WINDOWS = 6.0
_NORMAL_MEDIAN_SQUARE = 0.4549
RESOLUTION = 1e-9
"""The least noise that is assumed, as a share of the level or of the largest value."""


@dataclass(frozen=True, slots=True)
class NoiseModel:
    sd: float
    rho: float
    wander: tuple[tuple[float, float], ...] = ((2.0, 1.0), (4.0, 1.0))
    """(window in points, variance of a difference of means over what sd and rho predict), windows ascending."""

    @property
    def long_run_sd(self) -> float:
        return self.sd * math.sqrt(self.inflation(math.inf))

    def inflation(self, length: float) -> float:
        """Variance of the mean of `length` points over that of independent ones (memory, not wander)."""
        if self.rho <= 0.0:
            return 1.0
        rest = 1.0 - self.rho
        lost = 0.0 if math.isinf(length) else 2.0 * self.rho * (1.0 - self.rho**length) / (length * rest * rest)
        return max(1.0, (1.0 + self.rho) / rest - lost)

    def wander_at(self, length: float) -> float:
        """What wander multiplies the variance of a difference of means of `length` points by."""
        widths, factors = zip(*self.wander, strict=True)
        return float(np.exp(np.interp(math.log(length), np.log(widths), np.log(factors))))


def noise_of_differences(values: Floats, held: Floats, floor: float) -> NoiseModel:
    """Before anything is known of the level; `held` are the values with bounded spikes."""
    one, two = spread(held[1:] - held[:-1]) ** 2, spread(held[2:] - held[:-2]) ** 2
    rho = _shrink_memory(two / one - 1.0, len(held)) if one > 0.0 else 0.0
    sd = spread(values[1:] - values[:-1]) / math.sqrt(2.0 * (1.0 - rho))
    return NoiseModel(max(sd, floor), rho)


def noise_of_residuals(held: Floats, starts: Sequence[int], floor: float) -> NoiseModel:
    """From residuals about the means of stretches; the bias of estimated means is taken out."""
    size, stretches = len(held), len(starts) + 1
    edges = [0, *starts, size]
    lengths = np.diff(edges)
    residuals = held - np.repeat(np.add.reduceat(held, edges[:-1]) / lengths, lengths)
    sd = spread(residuals) * math.sqrt(size / max(1, size - stretches))
    power = float((residuals * residuals).sum())
    rho = 0.0
    if power > 0.0 and size > 3 * stretches + 3:
        raw = float((residuals[1:] * residuals[:-1]).sum()) / power
        rho = _shrink_memory((raw + stretches / size) / (1.0 - 3.0 * stretches / size), size)
    return NoiseModel(max(sd, floor), rho)


def _shrink_memory(rho: float, size: int) -> float:
    certain = max(0.0, min(_MAX_RHO, rho) - 0.5 / math.sqrt(size))
    return (certain * size + _RHO_PRIOR * _RHO_PRIOR_POINTS) / (size + _RHO_PRIOR_POINTS)


def add_wander(noise: NoiseModel, held: Floats, believed: Sequence[int]) -> NoiseModel:
    """The noise with the wander of the level, apart from the accepted steps."""
    size = len(held)
    sums = np.concatenate(([0.0], np.cumsum(held - held.mean())))
    walls = np.zeros(size + 1, dtype=np.int64)
    walls[list(believed)] = 1
    passed = np.cumsum(walls)
    curve, width = [(2.0, 1.0)], 4
    while size // width >= _LEAST_WINDOWS:
        stride = max(1, width // 4)
        at = np.arange(width, size - width + 1, stride)
        at = at[passed[at + width - 1] == passed[at - width]]
        windows = len(at) * stride / width
        if windows < _LEAST_WINDOWS / 2:
            break
        gaps = (sums[at + width] - 2.0 * sums[at] + sums[at - width]) / width
        seen = median(np.abs(gaps)) ** 2 / _NORMAL_MEDIAN_SQUARE
        predicted = 2.0 * noise.sd**2 * noise.inflation(width) / width
        trust = windows / (windows + _WANDER_PRIOR_WINDOWS)
        curve.append((float(width), max(1.0, (seen / predicted) ** trust)))
        width *= 2
    if len(curve) == 1:
        curve.append((4.0, 1.0))
    return NoiseModel(noise.sd, noise.rho, tuple(curve))
