"""Which of the proposed boundaries stay: the weakest goes first, until all that are left are supported.

A boundary's margin is how far its evidence exceeds what is required. Required are:
- against a constant level: a log likelihood ratio of 1.5 times the log of the number of points, which is the cost of a
  change in the modified BIC of N. R. Zhang and D. O. Siegmund 2007, doi 10.1111/j.1541-0420.2006.00662.x. A series of
  fewer than 80 points pays as for 80, because its autocorrelation is hardly known and looks like steps;
- against a smooth curve: the more, the smaller the step is relative to the noise, because drift makes small
  differences. A difference of three noises or more may be a ramp, which is neither a step nor drift: then the better of
  step and ramp is compared with the curve;
- against both, up to 3 more while the new level is younger than 30 points, because a growing series is tested again at
  each point; and against the curve up to 20 more for a small step while the new level is younger than 120 points,
  because a drift looks like a new level until it comes back.
Where the whole of both stretches is not enough, the 20 points on either side may be: a level that later drifts back
began with a step all the same. Such a second test requires 1 more, and 3 more at the last level, which is tested again
at each new point.

Removing one boundary changes the stretches of its neighbours, which are then tested again (backward elimination).
Places are located again once the wrong neighbours are gone, in the points that gave the evidence.

The probability that a change is real *and* within five points of the index was found to follow a logistic curve in the
margin: fitted to 2,421 reported steps on 2,920 simulated series (levels, steps, several steps and changes of spread
under log-normal, heavy-tailed, spiky, autoregressive and drifting noise of 0.5 to 8 %), a quarter of which did not
change. Limits: it holds for such a mixture. Where hardly any series changes, or the noise is of another kind, it is too
high. Ramps, changes of spread and the last two to four points use the curve of steps.

Steps and ramps are separated at the end. Neighbouring steps of the same direction, or one step, are compared with a
ramp that spans them: level, straight line, level, with begin and end of the line searched on a grid. Both are least
squares fits of the values with spikes bounded. The ramp is chosen when its log likelihood is ahead by 3, after each
step has paid the log of the number of points for its two parameters and the ramp for its three. A ramp has at least
four points; anything shorter is a step.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from regress_gate.errors import InputError
from regress_gate.stats.changepoints.noise import NoiseModel
from regress_gate.stats.changepoints.segmentation import (
    Position,
    StepEvidence,
    estimate_level,
    locate_step,
    weigh_step,
    window_around,
)
from regress_gate.stats.changepoints.series import Floats

# Ramps

_SIDE = 60
_GRID = 30
_LEAST_WIDTH = 4
_AHEAD = 3.0
_APART = 40


def runs_of_steps(starts: Sequence[int], sizes: Sequence[float]) -> list[list[int]]:
    """Neighbouring starts, as positions in `starts`, whose steps go the same way and that one ramp could explain."""
    groups: list[list[int]] = []
    for i, (start, size) in enumerate(zip(starts, sizes, strict=True)):
        if groups and size * sizes[i - 1] > 0.0 and start - starts[i - 1] <= _APART:
            groups[-1].append(i)
        else:
            groups.append([i])
    return groups


@dataclass(frozen=True, slots=True)
class Ramp:
    begin: int
    """Last point of the old level."""
    end: int
    """First point of the new one."""
    squares: float
    """Sum of squares about the fit."""


def fit_ramp(values: Floats, steps: Sequence[int] = ()) -> Ramp | None:
    """The best ramp through the values that spans the `steps`; None when there is none."""
    size = len(values)
    grid = np.unique(np.linspace(2, size - 3, min(_GRID, max(2, size - 4))).round().astype(np.int64))
    begin, end = (axis.ravel() for axis in np.meshgrid(grid, grid, indexing="ij"))
    wide = end - begin >= _LEAST_WIDTH
    if steps:
        wide &= (begin < steps[0]) & (end >= steps[-1])
    begin, end = begin[wide], end[wide]
    if len(begin) == 0:
        return None
    line = np.clip((np.arange(size) - begin[:, None]) / (end - begin)[:, None], 0.0, 1.0)
    line -= line.mean(axis=1, keepdims=True)
    centred = values - values.mean()
    explained = (line @ centred) ** 2 / (line * line).sum(axis=1)
    best = int(explained.argmax())
    return Ramp(int(begin[best]), int(end[best]), float(centred @ centred) - float(explained[best]))


def find_ramp(held: Floats, before: int, steps: Sequence[int], after: int, noise: NoiseModel) -> tuple[int, int] | None:
    """(last point of the old level, first point of the new) of a ramp in place of `steps`, between the neighbouring
    changes `before` and `after`; None where steps explain the values as well."""
    low, high = max(before, steps[0] - _SIDE), min(after, steps[-1] + _SIDE)
    values = held[low:high]
    within = [step - low for step in steps]
    ramp = fit_ramp(values, within)
    if ramp is None:
        return None
    edges = [0, *within, len(values)]
    about_steps = sum(float(((values[a:b] - values[a:b].mean()) ** 2).sum()) for a, b in pairwise(edges))
    ahead = (about_steps - ramp.squares) / (2.0 * noise.sd**2 * noise.inflation(math.inf))
    if ahead + (2 * len(steps) - 3) * math.log(len(values)) / 2.0 < _AHEAD:
        return None
    return low + ramp.begin, low + ramp.end


def ramp_against_smooth(values: Floats, noise: NoiseModel) -> float:
    """Log likelihood ratio of the best ramp against the best line or cubic, costs of their coefficients included."""
    ramp = fit_ramp(values)
    if ramp is None:
        return -math.inf
    size = len(values)
    basis, _ = np.linalg.qr(np.vander(np.linspace(-1.0, 1.0, size), 4, increasing=True))
    parts = basis.T @ values
    line = float(values @ values) - float(parts[:2] @ parts[:2])
    cubic = line - float(parts[2:] @ parts[2:])
    cost = 2.0 * math.log(size) * noise.sd**2
    return (min(line, cubic + cost) - ramp.squares - cost) / (2.0 * noise.sd**2 * noise.inflation(math.inf))


SHORTEST_STRETCH = 5
"""Points of the shortest stretch that is compared; the last 2 to 4 points of a series have a rule of their own."""
_PER_LOG, _LEAST_SIZE = 1.5, 80
_YOUNG_POINTS, _YOUNG_COST = 30, 3.0
_SMOOTH_COST, _SMOOTH_UP_TO = 7.0, 2.0
_DRIFT_POINTS, _DRIFT_COST, _DRIFT_UP_TO = 120, 20.0, 2.2
_MAY_BE_RAMP = 3.0
_CLOSE, _CLOSE_COST, _CLOSE_LAST_COST = 20, 1.0, 3.0


@dataclass(frozen=True, slots=True)
class _Assessment:
    margin: float
    step: StepEvidence | None
    window: tuple[int, int]
    """The points that the margin is of."""


class BackwardElimination:
    """Tests the boundaries of one series under one noise model; `ask` is added to the evidence that is required."""

    def __init__(
        self, values: Floats, held: Floats, noise: NoiseModel, ask: float = 0.0, shortest: int = SHORTEST_STRETCH
    ):
        self._values, self._held, self._noise, self._ask, self._shortest = values, held, noise, ask, shortest
        self._known: dict[tuple[int, int, int], _Assessment] = {}

    def margin(self, start: int, at: int, stop: int) -> float:
        return self._judged(start, at, stop).margin

    def step(self, start: int, at: int, stop: int) -> StepEvidence:
        evidence = self._judged(start, at, stop).step
        return evidence or weigh_step(self._values, start, at, stop, self._noise)

    def _judged(self, start: int, at: int, stop: int) -> _Assessment:
        key = (start, at, stop)
        if key not in self._known:
            self._known[key] = self._looked_at(start, at, stop)
        return self._known[key]

    def _looked_at(self, start: int, at: int, stop: int) -> _Assessment:
        whole = window_around(start, at, stop)
        if min(at - start, stop - at) < self._shortest:
            return _Assessment(-math.inf, None, whole)
        evidence = weigh_step(self._values, start, at, stop, self._noise)
        margin = self._margin(evidence, start, at, stop)
        low, high = near = max(start, at - _CLOSE), min(stop, at + _CLOSE)
        if margin >= 0.0 or near == whole:
            return _Assessment(margin, evidence, whole)
        close = weigh_step(self._values, low, at, high, self._noise)
        cost = _CLOSE_LAST_COST if stop == len(self._values) else _CLOSE_COST
        close_margin = self._margin(close, low, at, high) - cost
        return _Assessment(close_margin, close, near) if close_margin > margin else _Assessment(margin, evidence, whole)

    def _margin(self, evidence: StepEvidence, start: int, at: int, stop: int) -> float:
        penalty = _PER_LOG * math.log(max(_LEAST_SIZE, len(self._values)))
        is_last = stop == len(self._values)
        young = _YOUNG_COST * max(0.0, 1.0 - (stop - at) / _YOUNG_POINTS) if is_last else 0.0
        drift = _DRIFT_COST * max(0.0, 1.0 - (stop - at) / _DRIFT_POINTS) if is_last else 0.0
        height = abs(evidence.size) / self._noise.sd
        of_smooth = _SMOOTH_COST * max(0.0, 1.0 - height / _SMOOTH_UP_TO)
        of_smooth += drift * max(0.0, 1.0 - height / _DRIFT_UP_TO)
        smooth = evidence.against_smooth - of_smooth
        if smooth < 0.0 and height >= _MAY_BE_RAMP:
            low, high = window_around(start, at, stop)
            smooth = max(smooth, ramp_against_smooth(self._held[low:high], self._noise))
        return min(evidence.against_none - penalty, smooth) - young - self._ask

    def prune(self, starts: Sequence[int]) -> list[int]:
        """The starts that stay."""
        edges = [0, *starts, len(self._values)]
        margins = [self.margin(*edges[i : i + 3]) for i in range(len(edges) - 2)]
        while margins:
            worst = min(range(len(margins)), key=margins.__getitem__)
            if margins[worst] >= 0.0:
                break
            del edges[worst + 1], margins[worst]
            for i in (worst - 1, worst):
                if 0 <= i < len(margins):
                    margins[i] = self.margin(*edges[i : i + 3])
        return edges[1:-1]

    def settle(self, starts: Sequence[int]) -> list[int]:
        """Prune, find the places of what is left again, and prune once more where that moved any."""
        kept = self.prune(starts)
        for _ in range(2):
            moved = sorted({place.index for place in self.places(kept)})
            if moved == kept:
                break
            kept = self.prune(moved)
        return kept

    def places(self, starts: Sequence[int]) -> list[Position]:
        edges = [0, *starts, len(self._values)]
        return [self.place(*edges[i : i + 3]) for i in range(len(starts))]

    def place(self, start: int, at: int, stop: int) -> Position:
        low, high = self._judged(start, at, stop).window
        left, right = (
            estimate_level(self._values[low:at], self._noise.sd),
            estimate_level(self._values[at:high], self._noise.sd),
        )
        scale = math.sqrt((left.scale**2 + right.scale**2) / 2.0)
        shortest = min(self._shortest, at - low, high - at)
        inflation = self._noise.inflation(math.inf)
        return locate_step(self._values[low:high], low, left.mean, right.mean, scale, inflation, shortest)


_AT_ZERO = 0.754
_SLOPE = 0.308
_HIGHEST = 30.0
DEFAULT_PROBABILITY = 0.68
"""The curve at margin 0, required by default. A lower one gives more false alarms, a higher one misses more changes."""


def probability_of_margin(margin: float) -> float:
    return 1.0 / (1.0 + math.exp(-(_AT_ZERO + _SLOPE * min(_HIGHEST, margin))))


def extra_evidence(probability: float) -> float:
    """What to add to the required evidence so that nothing below `probability` is reported."""
    if not 0.0 < probability < 1.0:
        raise InputError(f"the least probability to report is {probability}", todo="choose one between 0 and 1")
    return (
        math.log(probability / (1.0 - probability)) - math.log(DEFAULT_PROBABILITY / (1.0 - DEFAULT_PROBABILITY))
    ) / _SLOPE
