"""Design of an experiment: what a number of runs can show, and when it may be analysed.

`pooled_noise` takes the spread between server starts from earlier runs, pooled within versions: what differs between
versions is not noise. `detectable_change` and `shown_within` say what a plan can show; tests/stats/test_power.py
simulates that `comparison.compare_series` does it with probability POWER. `runs_to_resolve` is the short formula for a
series that is undecided. Not for deciding about two versions.

Interim analysis: test after every block, and keep the error rate that was asked for.
A test at 5 % after each of eight blocks gives three times as many false alarms as one test. Here the level of the k-th
analysis is such that the chance of ever crossing one, when nothing changed, is at most the level that was asked for,
however many of the planned analyses are made. The levels are those of a constant boundary for the test statistic (S. J.
Pocock 1977, doi 10.1093/biomet/64.2.191), which stops early when there is a change. They are spent by the function of
K. K. G. Lan and D. L. DeMets (1983, doi 10.1093/biomet/70.3.659), so that analyses may begin late or be skipped. They
are found by numerical integration of the joint density of a normal statistic with independent increments; the p-value
of a t statistic is compared with the same level (usual practice; tests/stats simulates it).

The same levels give repeated confidence intervals (C. Jennison and B. W. Turnbull 1989, doi
10.1111/j.2517-6161.1989.tb01433.x): they are valid whenever the experiment stopped, for whatever reason.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import numpy.typing as npt
from scipy.special import chdtri, ndtr, ndtri, stdtrit

from regress_gate.model.metric import Direction, Scale
from regress_gate.stats.estimate import MIN_TIMING_CV, SeriesData, estimate, margin_as_loss, to_change

POWER = 0.8
"""Probability that the returned number of runs decides the series, if the estimate and the spread are true. The formula
of `runs_to_resolve` keeps it from ten runs on; for three to five runs, simulations gave 0.52 to 0.78."""
MAX_RUNS = 200
"""Largest number of runs a side that is ever recommended."""


def runs_to_resolve(gap: float, run_sd: float, error: float) -> int | None:
    """Runs a side that distinguish a loss from a bound that lies `gap` away, one-sided at `error`.

    Both numbers are on the analysis scale. The usual two-sample size formula, 2 s² (t_error + t_power)² / gap²,
    solved for the runs because t depends on them. None when `gap` is not positive or more than MAX_RUNS are needed.
    """
    if gap <= 0:
        return None

    def suffice(runs: int) -> bool:
        freedom = runs - 1
        reach = float(stdtrit(freedom, 1 - error)) + float(stdtrit(freedom, POWER))
        return runs >= 2 * (run_sd * reach / gap) ** 2

    # The required number falls as the degrees of freedom grow, so the smallest sufficient one can be bisected.
    needed = bisect_left(range(2, MAX_RUNS + 1), True, key=suffice) + 2
    return needed if needed <= MAX_RUNS else None


Floats = npt.NDArray[np.float64]
_GRID = 24
"""Quantiles of each side's variance. The 576 pairs give probabilities within a percentage point."""
_LARGEST_LOSS = 20.0
"""Upper end of the search for a loss, in logarithms."""


@dataclass(frozen=True, slots=True)
class PooledNoise:
    """Of one series, on the analysis scale: logarithms of a ratio metric, plain values of a difference metric."""

    run_sd: float
    """Standard deviation between runs of one version."""
    degrees_of_freedom: int
    """Runs behind it, less one a version: with 4 the true one lies within 0.6 and 2.9 times this, at 95 %."""
    runs: int
    """Of the versions that have at least two."""


def pooled_noise(groups: Sequence[Floats], scale: Scale) -> PooledNoise | None:
    """From run-level values, one array a version. None without two runs of one version, or without a logarithm."""
    sums, freedom, runs = 0.0, 0, 0
    for values in groups:
        if len(values) < 2:
            continue
        if scale is Scale.RATIO:
            if values.min() <= 0:
                continue
            values = np.log(values)
        sums += float(values.var(ddof=1)) * (len(values) - 1)
        freedom += len(values) - 1
        runs += len(values)
    return PooledNoise(math.sqrt(sums / freedom), freedom, runs) if freedom else None


@dataclass(frozen=True, slots=True)
class ExpectedSeries:
    """What is expected of a series' runs on either side."""

    direction: Direction
    scale: Scale
    margin: float
    run_sd: float
    """On the analysis scale."""
    min_cv: float = MIN_TIMING_CV
    level: float = 0.0
    """Of a difference metric: the usual fraction."""
    requests: float = 0.0
    """Of a run; only a difference metric's drawing of requests asks for it."""


def detectable_change(expected: ExpectedSeries, runs: int, *, error: float, confidence: float) -> float:
    """The smallest change that is called a regression with a probability of POWER, at `error` one-sided.

    That takes all that the verdict asks for: shown to be worse, at least half the margin, and an interval that does
    not end below it. So it stays near the margin where many runs could show less: what is surely smaller is
    within the margin. Infinite for a single run, and where no loss is large enough.
    """
    if runs < 2:
        return math.inf
    half, margin = (_as_loss(share, expected) for share in (expected.margin / 2, expected.margin))

    def lack(loss: float) -> float:
        true, estimated, freedom = _standard_errors(expected, runs, loss)
        reach, end = stdtrit(freedom, 1 - error), stdtrit(freedom, 0.5 + confidence / 2)
        least = np.maximum(np.maximum(reach * estimated, half), margin - end * estimated)
        return float(ndtr((loss - least) / true).mean()) - POWER

    return _solve_for_change(lack, expected)


def shown_within(expected: ExpectedSeries, runs: int, *, confidence: float) -> float:
    """The smallest margin that an unchanged version is shown to keep with a probability of POWER, as a change."""
    if runs < 2:
        return math.inf
    true, estimated, freedom = _standard_errors(expected, runs, 0.0)
    end = stdtrit(freedom, 0.5 + confidence / 2)
    return _solve_for_change(lambda margin: float(ndtr((margin - end * estimated) / true).mean()) - POWER, expected)


def _standard_errors(expected: ExpectedSeries, runs: int, loss: float) -> tuple[float, Floats, float]:
    """The true one of the estimated loss, and those that the comparison may find, each equally likely, with their
    degrees of freedom.

    A spread found with few runs is often much too small or too large, and the verdict feels it: the common formula with
    two quantiles of t promises 80 % where 3 to 5 runs a side give 52 to 78 %. So each side's variance is taken at the
    quantiles of its chi-squared distribution.
    """
    floors = _floors(expected, runs, loss)
    trues = [max(expected.run_sd**2 / runs, floor) for floor in floors]
    sides = [np.maximum(true * _quantiles(runs - 1), floor) for true, floor in zip(trues, floors, strict=True)]
    left, right = (each.ravel() for each in np.meshgrid(*sides))
    # As `evidence` has it where many series say that neither side scatters more.
    freedom = 2 * (runs - 1) if expected.scale is Scale.RATIO else runs - 1
    return math.sqrt(sum(trues)), np.sqrt(left + right), float(freedom)


@cache
def _quantiles(freedom: int) -> Floats:
    """Of a variance that is found, where the true one is 1."""
    tails = (np.arange(_GRID) + 0.5) / _GRID
    return np.asarray(chdtri(freedom, tails) / freedom)


def _floors(expected: ExpectedSeries, runs: int, loss: float) -> tuple[float, float]:
    """The least variance of each side in a comparison, found by estimating runs that do not scatter."""
    both, baseline = (_variance_of(_constant_series(expected, runs, each)) for each in (loss, 0.0))
    return baseline / 2, both - baseline / 2


def _variance_of(data: SeriesData) -> float:
    estimated = estimate(data)
    if estimated is None or estimated.standard_error is None:
        raise ValueError("two runs a side are the least that have a spread")
    return estimated.standard_error**2


def _constant_series(expected: ExpectedSeries, runs: int, loss: float) -> SeriesData:
    level, after = 1.0, 1.0
    if expected.scale is Scale.DIFFERENCE:  # of which alone the floor depends on the level
        level = expected.level
        after = min(1.0, max(0.0, level + (loss if expected.direction is Direction.LOWER else -loss)))
    requests = round(runs * expected.requests)
    return SeriesData(
        baseline=np.full(runs, level),
        candidate=np.full(runs, after),
        direction=expected.direction,
        scale=expected.scale,
        margin=expected.margin,
        min_cv=expected.min_cv,
        baseline_requests=requests,
        candidate_requests=requests,
    )


def _as_loss(change: float, expected: ExpectedSeries) -> float:
    return margin_as_loss(replace(_constant_series(expected, 2, 0.0), margin=change))


def _solve_for_change(lack: Callable[[float], float], expected: ExpectedSeries) -> float:
    """The change at which `lack`, which grows, is zero; infinite if there is none."""
    # Imported here, because `compare` needs scipy.optimize for nothing else and starts faster without it.
    from scipy.optimize import brentq

    top = _LARGEST_LOSS
    if expected.scale is Scale.DIFFERENCE:  # a fraction cannot lose more than it has
        top = 1.0 - expected.level if expected.direction is Direction.LOWER else expected.level
    if lack(top) < 0:
        return math.inf
    return to_change(float(brentq(lack, 0.0, top, xtol=1e-9)), _constant_series(expected, 2, 0.0))


# Interim analysis

FIRST_ANALYSIS = 2
"""Blocks needed before the spread can be estimated."""
_POINTS = 801
_REACH = 8.0


@dataclass(frozen=True, slots=True)
class InterimStage:
    """Which of the planned analyses this is. One is made after every block from the second on."""

    blocks: int
    """Made so far."""
    most_blocks: int
    """The largest number of blocks. Any beyond it are tested at the level of the last analysis."""


def nominal_level(level: float, interim: InterimStage | None) -> float:
    """The one-sided level to be used now, so that over all analyses it is `level`. None: this analysis is the only
    one."""
    if interim is None or interim.most_blocks <= FIRST_ANALYSIS:
        return level
    levels = _nominal_levels(round(level, 12), interim.most_blocks)
    at = min(max(interim.blocks, FIRST_ANALYSIS), interim.most_blocks)
    return levels[at - FIRST_ANALYSIS]


@cache
def _nominal_levels(level: float, most: int) -> tuple[float, ...]:
    """Nominal one-sided levels of the analyses after blocks FIRST_LOOK … most."""
    information = np.arange(FIRST_ANALYSIS, most + 1) / most
    spent = level * np.log1p((math.e - 1) * information)
    steps = np.diff(spent, prepend=0.0)
    # The score process has variance equal to its information; `density` is that of not having crossed so far.
    boundary = -float(ndtri(steps[0]))
    levels = [float(steps[0])]
    grid = _grid(boundary, float(information[0]))
    density = np.exp(-(grid**2) / (2 * information[0])) / math.sqrt(2 * math.pi * information[0])
    for before, now, step in zip(information[:-1], information[1:], steps[1:], strict=True):
        mass = density * (grid[1] - grid[0])
        mass[[0, -1]] /= 2
        boundary = _boundary(grid, mass, math.sqrt(now), math.sqrt(now - before), float(step))
        levels.append(float(ndtr(-boundary)))
        nodes = _grid(boundary, float(now))
        moves = (nodes[:, None] - grid[None, :]) / math.sqrt(now - before)
        density = np.exp(-(moves**2) / 2) @ mass / math.sqrt(2 * math.pi * (now - before))
        grid = nodes
    return tuple(levels)


def _grid(boundary: float, information: float) -> Floats:
    """Points at which the density below a boundary is tabulated."""
    return np.linspace(-_REACH, boundary, _POINTS) * math.sqrt(information)


def _boundary(grid: Floats, mass: Floats, scale: float, spread: float, step: float) -> float:
    """The boundary that the next analysis crosses with a probability of `step`."""
    # Imported here, because a `compare` without interim analyses starts faster without scipy.optimize.
    from scipy.optimize import brentq

    def excess(bound: float) -> float:
        return float(mass @ ndtr((grid - bound * scale) / spread)) - step

    return float(brentq(excess, -1.0, _REACH))
