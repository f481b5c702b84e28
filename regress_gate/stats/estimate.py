"""The estimated loss of one series, its standard error and degrees of freedom, from run-level values.

Model: run-level values of a ratio metric are log-normal with their own variance on each side; of a difference
metric, normal with at least the spread that drawing the requests alone would give. Welch's t statistic (B. L. Welch
1947, doi 10.1093/biomet/34.1-2.28) with the degrees of freedom of the smaller side: the usual Satterthwaite
approximation gave up to 27 % false alarms in a gate of 20 series at 2 against 10 runs where 5 % are allowed; this one
stays below. Limits: a spread needs at least two runs a side, and with so few the interval is wide.

Variance-reduced percentiles are adjusted by what the same prompts did in the other runs.
The 99th percentile of 200 requests rests on three of them. But request i is the same prompt in every run of both sides,
and most of what makes a request slow is its prompt, which all runs together show. The remaining noise has one shape for
all runs of a side. Model, on logarithms: request = level of the run + slope of the side x prompt effect + noise of the
side. A side's percentile is taken over every pairing of a prompt with the noise of any request of the side, not only
over the pairings that happened. A prompt's effect is the mean of its requests in all runs, with those far from their
median bounded (one step of P. J. Huber 1964, doi 10.1214/aoms/1177703732): of ten requests with normal noise it errs by
a seventh less than their median, and by still less where a few take far longer.

That is one number a side. Each run's part in it is its jackknife pseudo-value (J. W. Tukey 1958, Ann. Math. Statist.
29:614): the difference between the side's percentile with and without the run. So the values scatter as the percentile
is uncertain, and used as run-level values they give the right standard error (tests/stats simulates it).

It finds a change of level, one that grows with the prompt, and one of the noise, tail included. It dilutes a change
that only affects what is slow already, so the percentile of the plain requests has to be checked beside it (see
`comparison`). Not for reporting: the percentile that is reported is that of the requests.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy.special import betaincinv, ndtri, stdtr, stdtrit

from regress_gate.model.metric import Direction, Metric, Scale
from regress_gate.stats.capacity import Capacity

Floats = npt.NDArray[np.float64]

MIN_TIMING_CV = 1e-3
"""The least coefficient of variation of times and rates between server starts: equal values are quantised ones."""
MIN_COUNT_CV = 1e-9
"""Sizes and token counts can be deterministic."""


def least_spread(known: Metric) -> float:
    """The least coefficient of variation that is assumed for a series of this metric."""
    return MIN_COUNT_CV if known.unit in ("bytes", "tokens") else MIN_TIMING_CV


@dataclass(frozen=True, slots=True, eq=False)
class SeriesData:
    """Run-level values of one series on both sides, each of shape (runs,); NaN where a run has none."""

    baseline: Floats
    candidate: Floats
    direction: Direction
    scale: Scale
    margin: float
    """Largest acceptable loss, on the scale of the change (0 to 1, exclusive)."""
    gated: bool = True
    min_cv: float = MIN_TIMING_CV
    baseline_requests: int = 0
    """Requests over all runs of the side; used by difference metrics only."""
    candidate_requests: int = 0
    scenario: str | None = None
    """Series of one scenario are tested as a group; None for what belongs to none, such as what a server does once."""
    metric: str | None = None
    """Series of one metric share their spread; None for one that stands alone."""
    variance_reduced: tuple[Floats, Floats] | None = None
    """Of a percentile, where the requests are known: logarithms of its variance-reduced form on both sides
    (`variance_reduced_percentiles`)."""
    capacities: tuple[Sequence[Capacity], Sequence[Capacity]] | None = None
    """Of a capacity, what the servers of both sides showed: entries of the same block where these are paired."""

    @property
    def sign(self) -> float:
        """Factor that turns logarithms into losses."""
        return 1.0 if self.direction is Direction.LOWER else -1.0

    @property
    def is_infinite(self) -> bool:
        """Whether a value is infinite: no store keeps one, but a mean may overflow."""
        return bool(np.isinf(self.baseline).any() or np.isinf(self.candidate).any())

    def without_gaps(self) -> "SeriesData":
        """Without the runs in which this series is missing (NaN)."""
        baseline, candidate = (side[~np.isnan(side)] for side in (self.baseline, self.candidate))
        return replace(self, baseline=baseline, candidate=candidate)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A loss on the analysis scale (difference of logs, or of values), positive for worse."""

    loss: float
    standard_error: float | None
    """None when a side has fewer than two runs: the spread is then unknown."""
    degrees_of_freedom: float
    run_sd: float | None
    """Standard deviation between runs, averaged over the sides that show one; for a difference metric at least that of
    drawing a run's requests."""

    def p_worse(self) -> float | None:
        """One-sided p-value of "no worse"."""
        if self.standard_error is None:
            return None
        return float(stdtr(self.degrees_of_freedom, -self.loss / self.standard_error))

    def p_better(self) -> float | None:
        worse = self.p_worse()
        return None if worse is None else 1.0 - worse

    def interval(self, confidence: float) -> tuple[float, float] | None:
        """Two-sided interval on the analysis scale."""
        if self.standard_error is None:
            return None
        half = float(stdtrit(self.degrees_of_freedom, 0.5 + confidence / 2)) * self.standard_error
        return self.loss - half, self.loss + half


def estimate(data: SeriesData) -> Estimate | None:
    """The loss of a series; None when a side has no value or an infinite one, or a ratio metric one that is not
    positive."""
    if not len(data.baseline) or not len(data.candidate) or data.is_infinite:
        return None
    sign = data.sign
    if data.scale is Scale.RATIO:
        if min(data.baseline.min(), data.candidate.min()) <= 0:
            return None
        sides = [np.log(data.baseline), np.log(data.candidate)]
        floors = [data.min_cv**2 / len(side) for side in sides]
    else:
        sides = [data.baseline, data.candidate]
        floors = [_binomial_variance(data.baseline, data.baseline_requests)]
        floors += [_binomial_variance(data.candidate, data.candidate_requests)]
    loss = sign * float(sides[1].mean() - sides[0].mean())
    spreads = [float(side.var(ddof=1)) for side in sides if len(side) > 1]
    run_sd = math.sqrt(sum(spreads) / len(spreads)) if spreads else None
    if data.scale is Scale.DIFFERENCE:
        requests = data.baseline_requests + data.candidate_requests
        per_run = requests / (len(data.baseline) + len(data.candidate))
        both = _binomial_variance(np.concatenate(sides), requests) * (requests + 2)
        run_sd = max(run_sd or 0.0, math.sqrt(both / per_run) if per_run else 0.0) or None
    if len(spreads) < 2:
        return Estimate(loss, None, 0.0, run_sd)
    parts = [max(spread / len(side), floor) for spread, side, floor in zip(spreads, sides, floors, strict=True)]
    return Estimate(loss, math.sqrt(sum(parts)), min(len(side) for side in sides) - 1, run_sd)


def _binomial_variance(values: Floats, requests: int) -> float:
    """Variance of a fraction from the drawing of its requests alone, shrunk off 0 and 1 (Agresti and Caffo 2000)."""
    if requests <= 0:
        return MIN_TIMING_CV**2
    shrunk = (float(values.mean()) * requests + 1) / (requests + 2)
    return shrunk * (1 - shrunk) / (requests + 2)


def to_change(loss: float, data: SeriesData) -> float:
    """From the analysis scale to the reported one: +0.05 is 5 % slower, or 5 % less throughput."""
    if data.scale is Scale.DIFFERENCE:
        return loss
    try:
        return data.sign * math.expm1(data.sign * loss)
    except OverflowError:
        return data.sign * math.inf


def margin_as_loss(data: SeriesData) -> float:
    """The margin on the analysis scale."""
    if data.scale is Scale.DIFFERENCE:
        return data.margin
    return math.log1p(data.margin) if data.direction is Direction.LOWER else -math.log1p(-data.margin)


# Variance-reduced percentiles

_FAR = 4.5
"""Times the median distance of a request from what is usual for its prompt: three standard deviations, if normal."""
_CLOSE = 1e-10
"""Tolerance of the bisection, in logarithms."""


def variance_reduced_percentiles(baseline: Floats, candidate: Floats, tail: float) -> tuple[Floats, Floats]:
    """Each of shape (runs,): the side's percentile with a share of `tail` beyond it, as pseudo-values of its runs.

    Both sides have shape (runs, requests): logarithms, the columns being the same prompts in every run. Their means
    are what is compared; a single one says nothing of its run.
    """
    logs = np.vstack([baseline, candidate])
    levels = logs.mean(axis=1)
    centred = logs - levels[:, None]
    prompts = _prompt_effects(centred)
    spread = float(prompts @ prompts)
    slopes = (centred @ prompts) / spread if spread > 0 else np.zeros(len(logs))
    count = len(baseline)
    sides = (slice(None, count), slice(count, None))
    left, right = (levels[side] + _pseudo_values(centred[side], slopes[side], prompts, tail) for side in sides)
    return left, right


def _prompt_effects(centred: Floats) -> Floats:
    """Shape (requests,), with a mean of zero."""
    usual = np.median(centred, axis=0)
    off = centred - usual
    far = _FAR * float(np.median(np.abs(off)))
    effects = usual + np.clip(off, -far, far).mean(axis=0)
    return np.asarray(effects - effects.mean())


def _pseudo_values(centred: Floats, slopes: Floats, prompts: Floats, tail: float) -> Floats:
    """Shape (runs,): of the percentile above a run's level."""
    runs = len(centred)
    whole = _percentile(centred, float(slopes.mean()), prompts, tail) if runs else 0.0
    if runs < 2:
        return np.full(runs, whole)
    without = [
        _percentile(np.delete(centred, run, axis=0), float(np.delete(slopes, run).mean()), prompts, tail)
        for run in range(runs)
    ]
    return runs * whole - (runs - 1) * np.array(without)


def _percentile(centred: Floats, slope: float, prompts: Floats, tail: float) -> float:
    """Of all sums of a prompt's effect and what is left of a request, by bisection, because there are very many."""
    effects = slope * prompts
    left = np.sort((centred - effects).ravel())
    beyond = int(tail * (len(effects) * len(left) - 1))
    low, high = float(effects.min() + left[0]), float(effects.max() + left[-1])
    while high - low > _CLOSE and low < (middle := (low + high) / 2) < high:
        above = len(effects) * len(left) - int(np.searchsorted(left, middle - effects, side="right").sum())
        low, high = (middle, high) if above > beyond else (low, middle)
    return high


# The level of one side

_MOST_BORROWED = 8.0
"""Degrees of freedom that other groups of runs may add: their spread need not be this group's."""
_USUAL_SPREAD = 0.02
"""Of fractions, between servers: with a share p of all requests, a variance of 0.02 p (1 - p). Counts as one degree of
freedom where all servers are perfect."""
_TELLING_MISSES = 5.0
"""Independent misses of all servers with which it counts half."""


@dataclass(frozen=True, slots=True)
class Level:
    """What fresh servers of one version give, in the metric's unit; bounds may be infinite."""

    value: float
    interval: tuple[float, float] | None
    """Two-sided. None: no spread is known."""
    runs: int


def estimate_level(
    values: Floats,
    *,
    confidence: float,
    alike: Sequence[Floats] = (),
    requests: float | None = None,
    min_cv: float = 0.0,
    hosts: Sequence[str] = (),
) -> Level:
    """The mean level over server starts with its interval, from run-level values of shape (runs,), at least one.

    The server start is the unit: requests of one server share its luck, and an interval that counts them is far too
    narrow. Positive values are analysed in logarithms with Student's t. Fractions (`requests`: what a run sent) have
    the interval of E. L. Korn and B. I. Graubard (1998, Survey Methodology 24:193) for clustered data: that of C. J.
    Clopper and E. S. Pearson (1934, doi 10.1093/biomet/26.4.404) for the number of independent requests that would
    scatter as much as the servers do. `alike`: groups of runs of other versions or days, whose spread within each group
    is pooled with that of these. `hosts`: of each value, where it was measured. With several, the level is that of such
    hosts in general, and the host is the unit (one-way random effects): each counts with its mean, and `alike` groups
    are of no use, because their hosts are the same. An infinite value is a server that never answered in time: with at
    least half of the servers infinite, and at least two, so is the level.
    """
    if len(names := sorted(set(hosts))) > 1:
        groups = [values[[host == name for host in hosts]] for name in names]
        means = [group.mean() if requests is not None else np.exp(np.log(group).mean()) for group in groups]
        each = None if requests is None else requests * len(values) / len(names)
        level = estimate_level(np.array(means), confidence=confidence, requests=each, min_cv=min_cv)
        return replace(level, runs=len(values))
    never = np.isinf(values)
    if never.any():
        most = never.sum() >= max(2, len(values) / 2)
        low = math.inf if most else 0.0
        return Level(math.inf if most else float(np.median(values)), (low, math.inf), len(values))
    if requests is not None:
        return _level_of_fractions(values, alike, max(requests, 1.0), confidence)
    logs = np.log(values)
    variance, freedom = _pooled(_spread(logs), [_spread(np.log(group)) for group in alike])
    centre = float(logs.mean())
    if freedom == 0:
        return Level(math.exp(centre), None, len(values))
    half = float(stdtrit(freedom, 0.5 + confidence / 2)) * max(math.sqrt(variance), min_cv) / math.sqrt(len(values))
    with np.errstate(over="ignore"):  # of two values far apart the interval may reach beyond what a number can hold
        low, high = np.exp([centre - half, centre + half])
    return Level(math.exp(centre), (float(low), float(high)), len(values))


def _level_of_fractions(values: Floats, alike: Sequence[Floats], requests: float, confidence: float) -> Level:
    value = min(max(float(values.mean()), 0.0), 1.0)
    ratio, freedom = _pooled(_relative_spread(values), [_relative_spread(group) for group in alike])
    if freedom == 0:
        return Level(value, None, len(values))
    ratio = max(ratio, _with_usual(ratio, freedom, len(values) * min(value, 1 - value) / max(ratio, 1 / requests)))
    independent = len(values) / max(ratio, 1 / requests)
    normal, student = float(ndtri(0.5 + confidence / 2)), float(stdtrit(freedom, 0.5 + confidence / 2))
    size = min(independent * (normal / student) ** 2, len(values) * requests)
    good, error = value * size, (1 - confidence) / 2
    low = float(betaincinv(good, size - good + 1, error)) if good > 0 else 0.0
    high = float(betaincinv(good + 1, size - good, 1 - error)) if good < size else 1.0
    return Level(value, (min(low, value), max(high, value)), len(values))


def _with_usual(ratio: float, freedom: float, misses: float) -> float:
    """A relative spread with the usual one mixed in, for as much as few misses say of it.

    Where most servers are nearly perfect, those that happen to have few misses also seem to scatter little. `misses`:
    requests on the rarer side, as many as would be independent.
    """
    weight = 1 / (1 + misses / _TELLING_MISSES)
    return (ratio * freedom + _USUAL_SPREAD * weight) / (freedom + weight)


def _spread(values: Floats) -> tuple[float, int]:
    """Variance and its degrees of freedom."""
    return (float(values.var(ddof=1)), len(values) - 1) if len(values) > 1 else (0.0, 0)


def _relative_spread(values: Floats) -> tuple[float, int]:
    """Of fractions: the variance as a share of the largest that their mean allows."""
    variance, freedom = _spread(values)
    mean = float(values.mean()) if len(values) else 0.0
    return (variance / (mean * (1 - mean)), freedom) if 0 < mean < 1 else (0.0, freedom)


def _pooled(own: tuple[float, int], others: Sequence[tuple[float, int]]) -> tuple[float, float]:
    """The variance within groups and its degrees of freedom: those of the others count up to `_MOST_BORROWED`."""
    borrowed = sum(freedom for _, freedom in others)
    weight = min(1.0, _MOST_BORROWED / borrowed) if borrowed else 0.0
    total = own[0] * own[1]
    total += weight * sum(variance * freedom for variance, freedom in others)
    freedom = own[1] + weight * borrowed
    return (total / freedom, freedom) if freedom else (0.0, 0.0)
