"""Locate one step in a row of versions from few, noisy runs: where it is, and which run to make next.

The versions lie in a row, from the good end (position 0) to the bad end (position n - 1). The change index c says that
the step lies between position c and c + 1. Model: a run's value is the level of its side, plus what its block has in
common (the machine's state at that time), plus noise of the run; both are normal. The two levels are unknown (flat
priors), and so is the noise: its prior is a scaled inverse chi-squared with `VariancePrior.freedom` degrees of freedom,
from earlier runs. With levels and noise integrated out (the usual conjugate normal linear model, A. Gelman et al.,
Bayesian Data Analysis, 3rd ed., chapter 14), the likelihood of c for N runs is

    -1/2 log det(X' V X) - (freedom + N - 2)/2 log(freedom variance + RSS),

X having one column a side, and V being the inverse covariance between runs in units of the noise. Without block effects
det(X' V X) is the product of the two numbers of runs. The ratio of the blocks' variance to the noise is unknown, too:
the likelihood is averaged over a few ratios, `_BLOCK_RATIOS`.

The run to make next is where the cumulative posterior is nearest to one half: for two levels with equal noise that run
tells most (M. Ben-Or and A. Hassidim 2008, doi 10.1109/FOCS.2008.58; H. Henderson et al., ICST 2023). Two levels known
from four runs each are the weak point, so that an end is measured again ("pinned") when the sure sides have less than
half of the runs of the uncertain window, and at the beginning of each block. A block is at most `BLOCK_RUNS` runs.

Not for several steps, or for levels that creep: `find_two_steps` tests for them. Not for pass/fail either, but for
`locate_failure`: servers that crash or hang are nearly certain evidence, once repeated.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt
from scipy.special import stdtr

Floats = npt.NDArray[np.float64]
Booleans = npt.NDArray[np.bool_]

SURE = 0.95
"""Posterior probability at which the search stops."""
BLOCK_RUNS = 12
"""Runs of a block: one of an end, then probes beside it."""
CONFIRMING_RUNS = 2
"""Runs that each neighbour of the step must have at the end."""
LEAST_END_RUNS = 2
"""Runs that each end must have before the first probe."""
MOST_END_RUNS = 8
"""Runs of each end without a difference shown, after which there is none to be found."""
_ALIKE = 0.03
"""One-sided p-value below which the ends are taken to differ."""
_SECOND = 0.002
"""P-value, corrected for the number of places, below which one step does not explain the runs."""
_COMPARABLE = 0.25
"""Share of the larger step from which on a second one makes the answer "two steps"."""
_SECOND_EVERY = 4
"""Runs after which it is tested; always before a conclusion."""
_PIN_SHARE = 0.5
_WINDOW = (0.1, 0.9)
_BLOCK_RATIOS = np.array([0.0, 0.3, 1.5, 10.0, 100.0])
_BLOCK_PRIOR = np.array([0.85, 0.06, 0.045, 0.03, 0.015])
_QUANTILE_GRID = np.sinh(np.linspace(-7.0, 7.0, 201))
"""Standard errors."""
_RESOLUTION = 1e-4
"""Least noise, on the analysis scale: values that repeat exactly are not known better."""
_FALSE_FAILURE, _FALSE_SERVICE = 0.01, 0.02
"""Probability that a good version fails, and that a bad one serves, by chance."""


@dataclass(frozen=True, slots=True)
class Observation:
    """The value of one run: one fresh server."""

    position: int
    """Of its version, from the good end."""
    value: float
    """On the analysis scale: larger is worse."""
    block: int
    """Runs with the same number were made next to each other in time."""


@dataclass(frozen=True, slots=True)
class VariancePrior:
    """What earlier runs say about the noise."""

    variance: float = 0.0
    """Between runs of one version."""
    freedom: float = 0.0
    """Degrees of freedom behind it; 0: nothing is known."""


NOTHING_KNOWN = VariancePrior()


@dataclass(frozen=True, slots=True, eq=False)
class StepPosterior:
    """Where the step lies."""

    probabilities: Floats
    """Shape (n - 1,): of a step between position i and i + 1."""
    step: float
    """Posterior mean of the bad level less the good one."""
    noise: float
    """Standard deviation between runs, at the most likely place."""

    @property
    def cumulative(self) -> Floats:
        """Shape (n - 1,): probability that position i + 1 is bad."""
        return np.cumsum(self.probabilities)

    def window(self, share: float = SURE) -> tuple[int, int]:
        """The shortest row of positions that holds the step with at least this probability: the last that is good for
        sure, and the first that is bad for sure."""
        total = np.concatenate([[0.0], self.cumulative])
        ends = np.searchsorted(total, np.minimum(total + share, 1.0) - 1e-12)
        usable = total + share <= 1.0 + 1e-9
        widths = np.where(usable, ends - np.arange(len(total)), len(total) + 1)
        low = int(np.argmin(widths))
        return low, int(ends[low])


class Goal(StrEnum):
    """Why a run is to be made."""

    ENDS = "ends"
    """To see whether the ends differ."""
    PIN = "pin"
    """To know the level of an end better."""
    PROBE = "probe"
    """To narrow the range."""
    CONFIRM = "confirm"
    """To see the neighbours of the step once more."""
    SURVEY = "survey"
    """To see whether the range holds two steps that cancel."""


class Conclusion(StrEnum):
    """Why no run is to be made."""

    FOUND = "found"
    NO_STEP = "no_step"
    TWO_STEPS = "two_steps"


@dataclass(frozen=True, slots=True)
class NextRun:
    """The run that tells most."""

    position: int
    goal: Goal


@dataclass(frozen=True, slots=True)
class EndDifference:
    """What the runs of the two ends say by themselves."""

    difference: float
    """Of the levels; positive: the bad end is worse."""
    interval: tuple[float, float]
    """Two-sided, 90 %."""
    p_value: float
    """One-sided, of "the bad end is not worse"."""
    runs: tuple[int, int]


def locate_step(
    observations: Sequence[Observation],
    count: int,
    *,
    prior: VariancePrior = NOTHING_KNOWN,
    log_prior: Floats | None = None,
) -> StepPosterior:
    """The posterior over the places of the step among `count` versions, of which both ends must be among the
    observations. `log_prior` has shape (count - 1,); None: every place is as likely."""
    positions, values, blocks = _arrays(observations)
    places = np.unique(positions)
    if places[0] != 0 or places[-1] != count - 1:
        raise ValueError("both ends must have been measured")
    likelihood, steps, noise = _likelihoods(positions, values, blocks, places[:-1], prior)
    # Between two measured positions all places are as likely.
    held = np.searchsorted(places[1:], np.arange(1, count), side="left")
    logs = likelihood[held] + (0.0 if log_prior is None else log_prior)
    weights = np.exp(logs - logs.max())
    probabilities = weights / weights.sum()
    return StepPosterior(probabilities, float(steps[held] @ probabilities), float(noise[held[np.argmax(logs)]]))


def locate_failure(outcomes: Sequence[tuple[int, bool]], count: int) -> StepPosterior:
    """The same from outcomes of runs, (position, whether the server failed): crash and hang are nearly certain."""
    places = np.arange(count - 1)
    logs = np.zeros(count - 1)
    for position, failed in outcomes:
        bad = places < position
        wrong, right = (_FALSE_SERVICE, 1 - _FALSE_FAILURE) if not failed else (1 - _FALSE_SERVICE, _FALSE_FAILURE)
        logs += np.log(np.where(bad, wrong, right))
    weights = np.exp(logs - logs.max())
    return StepPosterior(weights / weights.sum(), 1.0, 0.0)


def compare_ends(
    observations: Sequence[Observation], count: int, prior: VariancePrior = NOTHING_KNOWN
) -> EndDifference | None:
    """Whether the ends differ, from their runs alone; None while an end has no run.

    Where several blocks hold both ends, their effect is taken off.
    """
    ends = [entry for entry in observations if entry.position in (0, count - 1)]
    good = sum(entry.position == 0 for entry in ends)
    if not good or good == len(ends):
        return None
    positions, values, blocks = _arrays(ends)
    counts = (good, len(ends) - good)
    freedom = prior.freedom + len(ends) - 2
    logs, steps, _, errors = (part[:, 0] for part in _by_ratio(positions, values, blocks, np.zeros(1, int), prior))
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    difference = float(weights @ steps)
    if freedom <= 0:
        return EndDifference(difference, (-np.inf, np.inf), 0.5, counts)

    grid = difference + float(errors.max()) * _QUANTILE_GRID
    below = stdtr(freedom, (grid[:, None] - steps) / errors) @ weights
    low, high = np.interp((0.05, 0.95), below, grid)
    p_value = float(weights @ stdtr(freedom, -steps / errors))
    return EndDifference(difference, (float(low), float(high)), p_value, counts)


@dataclass(frozen=True, slots=True)
class TwoSteps:
    """What explains the runs where one step does not."""

    places: tuple[int, int]
    """The last measured position before each step."""
    changes: tuple[float, float]
    """Of the level at each, on the analysis scale."""

    @property
    def smaller(self) -> int:
        """Which of the two is the smaller one: 0 or 1."""
        return int(abs(self.changes[1]) < abs(self.changes[0]))

    @property
    def are_comparable(self) -> bool:
        """Whether the smaller one is too large to be left out of the answer."""
        small, large = sorted(map(abs, self.changes))
        return small >= _COMPARABLE * large


def find_two_steps(observations: Sequence[Observation], prior: VariancePrior = NOTHING_KNOWN) -> TwoSteps | None:
    """Two steps that explain the runs where one does not; None: one does.

    An F test of the best three levels against the best two, corrected for the number of pairs of places (Bonferroni).
    Where a level repeats very exactly the test shows steps of any size: `are_comparable` says whether both matter.
    """
    positions, values, blocks = _arrays(observations)
    places = np.unique(positions)
    freedom = prior.freedom + len(values) - 3
    if len(places) < 3 or freedom < 2:
        return None
    ratio = _likely_ratio(positions, values, blocks, places[:-1], prior)
    pairs = [(int(low), int(high)) for index, low in enumerate(places[:-1]) for high in places[index + 1 : -1]]
    edges = np.array(pairs)
    segments = (positions[None, :] > edges[:, :1]).astype(int) + (positions[None, :] > edges[:, 1:])
    residuals, levels = _fit(np.eye(3)[segments], values, blocks, ratio)
    best = int(np.argmin(residuals))
    two = float(residuals[best])
    halves = np.eye(2)[(positions[None, :] > places[:-1, None]).astype(int)]
    one = float(_fit(halves, values, blocks, ratio)[0].min())
    left = prior.freedom * prior.variance + two + _RESOLUTION**2 * freedom
    statistic = (one - two) / (left / freedom)
    p_value = 2 * float(stdtr(freedom, -np.sqrt(max(statistic, 0.0)))) * len(pairs)
    first, second = np.diff(levels[best])
    return TwoSteps(pairs[best], (float(first), float(second))) if p_value < _SECOND else None


def choose_run(
    observations: Sequence[Observation],
    count: int,
    *,
    prior: VariancePrior = NOTHING_KNOWN,
    testable: Callable[[int], bool] = lambda _: True,
    log_prior: Floats | None = None,
    block_open: bool = True,
) -> NextRun | Conclusion:
    """The next run, or why there is none.

    `testable` says whether a version can be measured; those that cannot are merged with their neighbours. With
    `block_open` false, too much time has passed for another run beside the last one.
    """
    last = count - 1
    runs = np.bincount([entry.position for entry in observations], minlength=count)
    if min(runs[0], runs[last]) < LEAST_END_RUNS:
        return NextRun(0 if runs[0] <= runs[last] else last, Goal.ENDS)
    if (end := _end_to_link(observations, runs)) is not None:
        return NextRun(end, Goal.ENDS)
    ends = compare_ends(observations, count, prior)
    assert ends is not None  # noqa: S101 - both ends have runs  # nosec B101
    if ends.p_value > _ALIKE:
        choice = _without_difference(runs, ends, testable)
    else:
        posterior = locate_step(observations, count, prior=prior, log_prior=log_prior)
        edges = [place for place in range(count) if place in (0, last) or runs[place] or testable(place)]
        choice = _search(posterior, observations, np.array(edges), runs, block_open)
    due = isinstance(choice, Conclusion) or len(observations) % _SECOND_EVERY == 0
    found = find_two_steps(observations, prior) if due else None
    return Conclusion.TWO_STEPS if found is not None and found.are_comparable else choice


def _end_to_link(observations: Sequence[Observation], runs: npt.NDArray[np.int_]) -> int | None:
    """The end to be measured next so that a block holds both; None: one does, or no block stays open for it.

    Without that the machine's state, which a block's runs share, may be all that the ends differ by, or may hide that
    they do not: a row that is as good at its end as at its beginning then looks like one step.
    """
    last = len(runs) - 1
    ends: dict[int, set[int]] = {}
    for entry in observations:
        ends.setdefault(entry.block, set()).update({entry.position} & {0, last})
    if min(runs[0], runs[last]) >= MOST_END_RUNS or any(len(held) == 2 for held in ends.values()):
        return None
    newest = ends[max(ends)]
    if newest:
        return last if 0 in newest else 0
    return 0 if runs[0] <= runs[last] else last


def next_block(observations: Sequence[Observation], position: int, count: int) -> int:
    """The block of the run that is made next: an end begins a new one, unless it follows the other end alone."""
    if not observations:
        return 1
    newest = max(entry.block for entry in observations)
    held = [entry.position for entry in observations if entry.block == newest]
    ends = (0, count - 1)
    if position in ends and not (len(held) == 1 and held[0] in ends and held[0] != position):
        return newest + 1
    return newest


def choose_failing_run(
    outcomes: Sequence[tuple[int, bool]], count: int, testable: Callable[[int], bool] = lambda _: True
) -> NextRun | Conclusion:
    """The same for servers that fail: one repetition of each failure, then halving."""
    last = count - 1
    failures = np.bincount([position for position, failed in outcomes if failed], minlength=count)
    served = np.bincount([position for position, failed in outcomes if not failed], minlength=count)
    if not served[0] or failures[0]:
        return Conclusion.NO_STEP if failures[0] > 1 + served[0] else _another_end(0, served + failures)
    if failures[last] < CONFIRMING_RUNS or served[last]:
        return Conclusion.NO_STEP if served[last] > 1 + failures[last] else _another_end(last, served + failures)
    once = np.flatnonzero((failures == 1) & (served == 0))
    if len(once):
        return NextRun(int(once[0]), Goal.CONFIRM)
    posterior = locate_failure(outcomes, count)
    runs = served + failures
    edges = np.array([place for place in range(count) if place in (0, last) or runs[place] or testable(place)])
    low, high, mass = most_likely_pair(posterior, edges)
    if mass >= SURE:
        for place in (low, high):
            if runs[place] < CONFIRMING_RUNS:
                return NextRun(place, Goal.CONFIRM)
        return Conclusion.FOUND
    return NextRun(_median_position(posterior, edges), Goal.PROBE)


def _another_end(position: int, runs: npt.NDArray[np.int_]) -> NextRun | Conclusion:
    return Conclusion.NO_STEP if runs[position] >= MOST_END_RUNS else NextRun(position, Goal.ENDS)


def most_likely_pair(posterior: StepPosterior, edges: npt.NDArray[np.int_]) -> tuple[int, int, float]:
    """The neighbours among `edges` (positions that can be measured) between which the step most likely lies, and the
    probability that it does."""
    total = np.concatenate([[0.0], posterior.cumulative])
    masses = total[edges[1:]] - total[edges[:-1]]
    index = int(np.argmax(masses))
    return int(edges[index]), int(edges[index + 1]), float(masses[index])


def _search(
    posterior: StepPosterior,
    observations: Sequence[Observation],
    edges: npt.NDArray[np.int_],
    runs: npt.NDArray[np.int_],
    block_open: bool,
) -> NextRun | Conclusion:
    last = len(runs) - 1
    low, high, mass = most_likely_pair(posterior, edges)
    fewer = 0 if runs[0] <= runs[last] else last
    if mass >= SURE:
        few = [place for place in (low, high) if runs[place] < CONFIRMING_RUNS]
        return NextRun(few[0], Goal.CONFIRM) if few else Conclusion.FOUND
    # Position i is bad with the probability that the step lies before it.
    bad = np.concatenate([[0.0], posterior.cumulative])
    sure_good, sure_bad = int(runs[bad <= _WINDOW[0]].sum()), int(runs[bad >= _WINDOW[1]].sum())
    between = int(runs.sum()) - sure_good - sure_bad
    if min(sure_good, sure_bad) < _PIN_SHARE * between:
        return NextRun(0 if sure_good <= sure_bad else last, Goal.PIN)
    if not block_open or _block_is_full(observations):
        return NextRun(fewer, Goal.PIN)
    return NextRun(_median_position(posterior, edges), Goal.PROBE)


def _block_is_full(observations: Sequence[Observation]) -> bool:
    newest = max(entry.block for entry in observations)
    return sum(entry.block == newest for entry in observations) >= BLOCK_RUNS


def _median_position(posterior: StepPosterior, edges: npt.NDArray[np.int_]) -> int:
    """An inner edge if there is one: a run at an end says nothing about the place."""
    inner = edges[1:-1]
    bad = np.concatenate([[0.0], posterior.cumulative])
    return int(inner[np.argmin(np.abs(bad[inner] - 0.5))])


def _without_difference(
    runs: npt.NDArray[np.int_], ends: EndDifference, testable: Callable[[int], bool]
) -> NextRun | Conclusion:
    """Both ends alike: measure them again, and look at the thirds of the range for two steps that cancel."""
    last = len(runs) - 1
    if min(ends.runs) < MOST_END_RUNS:
        return NextRun(0 if runs[0] <= runs[last] else last, Goal.ENDS)
    inner = [place for place in range(1, last) if runs[place] or testable(place)]
    for share in (1 / 3, 2 / 3):
        if inner:
            place = min(inner, key=lambda candidate: abs(candidate - share * last))
            if runs[place] < 2:
                return NextRun(place, Goal.SURVEY)
    return Conclusion.NO_STEP


def _arrays(observations: Sequence[Observation]) -> tuple[npt.NDArray[np.int_], Floats, npt.NDArray[np.int_]]:
    """Positions, values around their mean, and blocks."""
    values = np.array([entry.value for entry in observations], dtype=float)
    return (
        np.array([entry.position for entry in observations]),
        values - values.mean(),
        np.array([entry.block for entry in observations]),
    )


def _sufficient(
    bad: Floats, values: Floats, blocks: npt.NDArray[np.int_], ratio: float
) -> tuple[Floats, Floats, float, float]:
    """For each of k columns of `bad` (N, k; 1 where a run is on the bad side): X'VX (k, 2, 2), X'Vy (k, 2); then y'Vy,
    and the logarithm of the determinant of the inverse of V. V is the inverse of I + ratio within blocks."""
    numbers, index = np.unique(blocks, return_inverse=True)
    member = np.eye(len(numbers))[index]
    sizes = member.sum(axis=0)
    shrink = ratio / (1 + ratio * sizes)
    sums = member.T @ values
    bads = member.T @ bad
    goods = sizes[:, None] - bads
    bad_values = member.T @ (bad * values[:, None])
    good_values = sums[:, None] - bad_values
    information = np.empty((bad.shape[1], 2, 2))
    information[:, 0, 0] = goods.sum(axis=0) - shrink @ goods**2
    information[:, 1, 1] = bads.sum(axis=0) - shrink @ bads**2
    information[:, 0, 1] = information[:, 1, 0] = -(shrink @ (goods * bads))
    scores = np.empty((bad.shape[1], 2))
    scores[:, 0] = good_values.sum(axis=0) - (shrink * sums) @ goods
    scores[:, 1] = bad_values.sum(axis=0) - (shrink * sums) @ bads
    total = float(values @ values - shrink @ sums**2)
    return information, scores, total, float(np.log1p(ratio * sizes).sum())


def _fit(columns: Floats, values: Floats, blocks: npt.NDArray[np.int_], ratio: float) -> tuple[Floats, Floats]:
    """Of each of k designs, (k, N, p): the residual sum of squares, shape (k,), and the levels, shape (k, p)."""
    numbers, index = np.unique(blocks, return_inverse=True)
    member = np.eye(len(numbers))[index]
    shrink = ratio / (1 + ratio * member.sum(axis=0))
    inner, sums = member.T @ columns, member.T @ values
    information = np.swapaxes(columns, 1, 2) @ columns - np.swapaxes(inner * shrink[:, None], 1, 2) @ inner
    scores = values @ columns - (shrink * sums) @ inner
    total = float(values @ values - shrink @ sums**2)
    levels = np.linalg.solve(information, scores[:, :, None])[:, :, 0]
    return np.maximum(0.0, total - (scores * levels).sum(axis=1)), levels


def _likelihoods(
    positions: npt.NDArray[np.int_],
    values: Floats,
    blocks: npt.NDArray[np.int_],
    places: npt.NDArray[np.int_],
    prior: VariancePrior,
) -> tuple[Floats, Floats, Floats]:
    """Log likelihood of a step after each place, averaged over the ratios; the step's size and the noise there."""
    by_ratio, steps, noises, _ = _by_ratio(positions, values, blocks, places, prior)
    high = by_ratio.max()
    shares = np.exp(by_ratio - high)
    weights = shares.sum(axis=0)
    relative = shares / np.maximum(weights, 1e-300)
    return (
        np.log(np.maximum(weights, 1e-300)) + high,
        (relative * steps).sum(axis=0),
        (relative * noises).sum(axis=0),
    )


def _by_ratio(
    positions: npt.NDArray[np.int_],
    values: Floats,
    blocks: npt.NDArray[np.int_],
    places: npt.NDArray[np.int_],
    prior: VariancePrior,
) -> tuple[Floats, Floats, Floats, Floats]:
    """Log likelihoods, steps, noises and standard errors of the steps, each of shape (ratios, places)."""
    bad = (positions[:, None] > places[None, :]).astype(float)
    freedom = prior.freedom + len(values) - 2
    logs, steps, noises, errors = (np.empty((len(_BLOCK_RATIOS), len(places))) for _ in range(4))
    for row, (ratio, chance) in enumerate(zip(_BLOCK_RATIOS, _BLOCK_PRIOR, strict=True)):
        information, scores, total, spread = _sufficient(bad, values, blocks, float(ratio))
        a, b, d = information[:, 0, 0], information[:, 0, 1], information[:, 1, 1]
        determinant = a * d - b * b
        good_level = (d * scores[:, 0] - b * scores[:, 1]) / determinant
        bad_level = (a * scores[:, 1] - b * scores[:, 0]) / determinant
        residual = np.maximum(0.0, total - good_level * scores[:, 0] - bad_level * scores[:, 1])
        pooled = prior.freedom * prior.variance + residual + _RESOLUTION**2 * max(freedom, 1.0)
        logs[row] = np.log(chance) - 0.5 * spread - 0.5 * np.log(determinant) - freedom / 2 * np.log(pooled)
        steps[row] = bad_level - good_level
        noises[row] = np.sqrt(pooled / max(freedom, 1.0))
        errors[row] = noises[row] * np.sqrt((a + d + 2 * b) / determinant)
    return logs, steps, noises, errors


def _likely_ratio(
    positions: npt.NDArray[np.int_],
    values: Floats,
    blocks: npt.NDArray[np.int_],
    places: npt.NDArray[np.int_],
    prior: VariancePrior,
) -> float:
    logs, _, _, _ = _by_ratio(positions, values, blocks, places, prior)
    return float(_BLOCK_RATIOS[np.argmax(logs.max(axis=1))])
