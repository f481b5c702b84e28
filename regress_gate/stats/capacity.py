"""Capacity: the highest load at which a server keeps a promised attainment, and the loss of it between two versions.

Each server start is measured at a few loads. Attainment can only fall with load, so its curve is fitted by isotonic
regression, weighted by requests. The capacity is where the curve crosses the promise, interpolated between the two
neighbouring loads: the logarithm of the load against the logit of the attainment, which is nearly straight where a
queue fills up. A curve that does not cross within the loads says only "at least" its last load or "below" its first;
nothing is extrapolated.

The server start is the unit: requests of one server share its luck, and attainments of one server its capacity. Losses
are differences of logarithms of capacities, by blocks where the sides were measured in blocks. A server without a
crossing bounds its block's loss on one side only. Where few bounds are missing, as many values are trimmed from both
ends (K. K. Yuen 1974, doi 10.1093/biomet/61.1.165), which asks of a trimmed value only that it is the largest or the
smallest; where many are missing, that end of the interval is infinite.

A cliff is a curve that loses half of its requests or more from one load to the next. There the crossing may lie
anywhere between the two. Over servers that scatter by much less than the step, that does not average out, so it widens
the interval: by the variance of a value that is uniform over the step, less what the scatter evens out (B. Widrow,
I. Kollar, M.-C. Liu 1996, doi 10.1109/19.492748). Not for choosing loads.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.special import stdtr, stdtrit

Floats = npt.NDArray[np.float64]

CLIFF = 0.5
"""Share of all requests that a curve loses from one load to the next, on average over servers, to be called a cliff."""
_MOST_TRIMMED = 0.25
"""Share of the values that may be trimmed from either end."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """Of one server start."""

    load: float
    """Where its curve crosses the promise; without a crossing, the last or the first load."""
    bound: Literal["crossing", "at_least", "below"] = "crossing"
    """`at_least`: the promise was kept at every load. `below`: at none."""
    fall: float = 0.0
    """Attainment lost between the two loads around the crossing, 0 to 1."""
    step: float = 0.0
    """Logarithm of the ratio of these two loads."""

    @property
    def lowest(self) -> float:
        return 0.0 if self.bound == "below" else self.load

    @property
    def highest(self) -> float:
        return math.inf if self.bound == "at_least" else self.load


@dataclass(frozen=True, slots=True)
class CapacityLoss:
    """Of the candidate against the baseline, as difference of logarithms: positive is worse."""

    least: float
    """The loss if every server without a crossing is taken at its best for the candidate; -inf if that is unbounded."""
    most: float
    """The same at its worst; inf if that is unbounded. Equal to `least` where all servers have a crossing."""
    interval: tuple[float, float] | None
    """Two-sided, of everything between the two. None: too few servers to know a spread."""
    p_worse: float | None
    """One-sided p-value of "no worse"."""
    p_better: float | None
    """One-sided p-value of "no better"."""


def find_capacity(
    loads: Sequence[float], attainment: Sequence[float], requests: Sequence[int], promise: float
) -> Capacity:
    """The capacity of one server start from its attainment at some loads, in any order, and the requests sent at each.

    `promise` is the attainment to be kept, between 0 and 1 exclusive. Raises ValueError without a load, for loads that
    are repeated or not positive, for requests below 1, and for attainments that are no fractions.
    """
    order = np.argsort(loads)
    load, share, sent = (np.asarray(each, dtype=np.float64)[order] for each in (loads, attainment, requests))
    if not len(load) or load[0] <= 0 or (np.diff(load) <= 0).any() or (sent < 1).any():
        raise ValueError("a capacity needs positive loads, each once, with requests at each")
    if not ((share >= 0) & (share <= 1)).all() or not 0 < promise < 1:
        raise ValueError("attainment and promise are fractions")
    # Imported here, because a `compare` without capacities starts faster without scipy.optimize.
    from scipy.optimize import isotonic_regression

    curve = isotonic_regression(share, weights=sent, increasing=False).x
    kept = int((curve >= promise).sum())
    if kept == 0:
        return Capacity(float(load[0]), "below")
    if kept == len(load):
        return Capacity(float(load[-1]), "at_least")
    above, below = float(curve[kept - 1]), float(curve[kept])
    few = float(sent[kept - 1 : kept + 1].min())
    start, end = _logit(above, few), _logit(below, few)
    part = min(max((start - math.log(promise / (1 - promise))) / (start - end), 0.0), 1.0)
    step = math.log(load[kept] / load[kept - 1])
    return Capacity(float(load[kept - 1]) * math.exp(part * step), "crossing", above - below, step)


def is_cliff(capacities: Sequence[Capacity]) -> bool:
    """Whether most requests break the promise just above the capacity of these servers of one version."""
    falls = [each.fall for each in capacities if each.bound == "crossing"]
    return bool(falls) and float(np.mean(falls)) >= CLIFF


def capacity_loss(
    baseline: Sequence[Capacity], candidate: Sequence[Capacity], *, paired: bool, confidence: float, min_cv: float
) -> CapacityLoss:
    """The loss of the mean capacity over server starts. With `paired`, entry i of both sides is of the same block.

    `min_cv` is the least coefficient of variation between starts that is assumed. Raises ValueError where a side has no
    server, or paired sides differ in their number.
    """
    if not baseline or not candidate or (paired and len(baseline) != len(candidate)):
        raise ValueError("both sides need servers, as many of each where they are paired")
    ends = [_losses(baseline, candidate, paired, at_best=at_best) for at_best in (True, False)]
    missing = [max(int(np.isinf(values).sum()) for values in samples) for samples in ends]
    allowed = [min(int(_MOST_TRIMMED * len(values)) for values in samples) for samples in ends]
    cut = max((count for count, most in zip(missing, allowed, strict=True) if count <= most), default=0)
    coarse = _step_variance(baseline) + _step_variance(candidate)
    least, most = (
        _mean_of(samples, cut, coarse, min_cv) if count <= limit else _Mean(unbounded, 0.0, 0.0)
        for samples, count, limit, unbounded in zip(ends, missing, allowed, (-math.inf, math.inf), strict=True)
    )
    if max(least.freedom, most.freedom) == 0:
        return CapacityLoss(least.value, most.value, None, None, None)
    quantile = 0.5 + confidence / 2
    interval = (least.value - least.reach(quantile), most.value + most.reach(quantile))
    return CapacityLoss(least.value, most.value, interval, least.chance_below_zero(), 1 - most.chance_below_zero())


@dataclass(frozen=True, slots=True)
class _Mean:
    value: float
    error: float
    """Standard error."""
    freedom: float
    """Degrees of freedom; 0 for an infinite value, or where no spread is known."""

    def reach(self, quantile: float) -> float:
        return float(stdtrit(self.freedom, quantile)) * self.error if self.freedom else 0.0

    def chance_below_zero(self) -> float:
        if math.isinf(self.value):
            return float(self.value < 0)
        return float(stdtr(self.freedom, -self.value / self.error))


def _losses(
    baseline: Sequence[Capacity], candidate: Sequence[Capacity], paired: bool, *, at_best: bool
) -> tuple[Floats, ...]:
    """Samples whose means add up to the loss: one of blocks, or one a side. `at_best` for the candidate."""
    with np.errstate(divide="ignore"):
        ours = np.log([each.lowest if at_best else each.highest for each in baseline])
        theirs = np.log([each.highest if at_best else each.lowest for each in candidate])
    return (ours - theirs,) if paired else (ours, -theirs)


def _mean_of(samples: Sequence[Floats], cut: int, coarse: float, min_cv: float) -> _Mean:
    """The sum of the samples' means with Welch's standard error, and the degrees of freedom of the smallest.

    `coarse`: variance that more servers would not reduce.
    """
    parts = [_trimmed(values, cut, min_cv) for values in samples]
    value = sum(mean for mean, _, _ in parts)
    freedom = min(freedom for _, _, freedom in parts)
    return _Mean(value, math.sqrt(sum(variance for _, variance, _ in parts) + coarse), freedom)


def _trimmed(values: Floats, cut: int, min_cv: float) -> tuple[float, float, int]:
    """The mean without the `cut` smallest and largest values, its variance by Yuen's formula, degrees of freedom."""
    count, kept = len(values), len(values) - 2 * cut
    ordered = np.sort(values)[cut : count - cut]
    if kept < 2:
        return float(ordered.mean()), 0.0, 0
    winsorised = np.concatenate([np.full(cut, ordered[0]), ordered, np.full(cut, ordered[-1])])
    variance = float(winsorised.var(ddof=1)) * (count - 1) / (kept * (kept - 1))
    return float(ordered.mean()), max(variance, min_cv**2 / count), kept - 1


def _step_variance(capacities: Sequence[Capacity]) -> float:
    """Of the mean logarithm of these servers' capacities, from crossings that may lie anywhere within a step."""
    steep = [each for each in capacities if each.fall >= CLIFF]
    if not steep:
        return 0.0
    step = float(np.mean([each.step for each in steep]))
    scatter = float(np.var(np.log([each.load for each in capacities]), ddof=1)) if len(capacities) > 1 else 0.0
    share = len(steep) / len(capacities)
    return share**2 * step**2 / 12 * math.exp(-((2 * math.pi) ** 2) * scatter / step**2)


def _logit(share: float, requests: float) -> float:
    """Kept off 0 and 1 by half a request."""
    return math.log((share * requests + 0.5) / ((1 - share) * requests + 0.5))
