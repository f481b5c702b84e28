"""Change points of one series, from the array to the list: the modules of this package in their order.

1. `series`: the usable points on the scale of the analysis, with equal noise where replicates say how noisy each is.
2. `noise`, `segmentation`: a first noise, many proposed boundaries, the best division by them.
3. `elimination`: backward elimination under a noise that includes how the level wanders by itself. Steps of more than
   two noises are not wander, nor is what the last round accepted; rounds go on until one changes nothing.
4. The last points, ramps (`shape`), changes of the spread, and the probability (`elimination`).

Deterministic, and O(n log n) in the number of points. See docs/history.md for what it finds and what it misses.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from regress_gate.stats.changepoints import elimination
from regress_gate.stats.changepoints import noise as noises
from regress_gate.stats.changepoints.elimination import (
    DEFAULT_PROBABILITY,
    SHORTEST_STRETCH,
    BackwardElimination,
    extra_evidence,
    probability_of_margin,
)
from regress_gate.stats.changepoints.noise import NoiseModel
from regress_gate.stats.changepoints.segmentation import (
    Position,
    as_normal,
    estimate_level,
    partition_series,
    propose_starts,
)
from regress_gate.stats.changepoints.series import (
    ChangePoint,
    Floats,
    Series,
    hold_spikes,
    median,
    prepare_series,
    spread,
)

LEAST_POINTS = 8
_PENALTY = 2.5
_NO_WANDER = 2.0
_ROUNDS = 6
_SHORTEST_SPREAD = 20
_SPREAD_EVIDENCE = -1.0
_FEWEST_RECENT = 2
_RECENT_REACH = 60
_LEAST_BEFORE = 12
_RECENT_EVIDENCE = 6.5


def detect(
    values: Floats,
    *,
    variances: Floats | None = None,
    min_change: float = 0.0,
    probability: float = DEFAULT_PROBABILITY,
) -> list[ChangePoint]:
    """The change points of a series, ascending by index.

    `values` has shape (n,), oldest first; NaN is skipped, and indices count it. `variances`, of the same shape, are
    those of each value's mean as its replicates show them (relative ones, for a series that is positive throughout);
    NaN where unknown. Steps and ramps smaller than `min_change` are left out, on the scale of `ChangePoint.change`.
    `probability` is the least that is reported; `elimination` says what it means. Fewer than 8 points: nothing.
    """
    series, ask = prepare_series(values, variances), extra_evidence(probability)
    if len(series.values) < LEAST_POINTS or not series.values.any():
        return []
    search = _Search(series, ask)
    points = [*search.steps_and_ramps(), *search.last_points(), *search.spreads()]
    kept = [point for point in points if point.change is None or abs(point.change) >= min_change]
    return sorted(kept, key=lambda point: point.index)


@dataclass(frozen=True, slots=True)
class _Elimination:
    starts: list[int]
    judge: BackwardElimination
    noise: NoiseModel


class _Search:
    def __init__(self, series: Series, ask: float):
        self._series, self._ask = series, ask
        values = series.values
        floor = noises.RESOLUTION
        self._held = hold_spikes(values, max(floor, spread(values[1:] - values[:-1]) / np.sqrt(2.0)))
        first = noises.noise_of_differences(values, self._held, floor)
        rough = first.long_run_sd
        proposed = propose_starts(self._held, rough)
        starts = partition_series(self._held, proposed, rough, _PENALTY * float(np.log(len(values))))
        self._found = self._elimination(starts, noises.noise_of_residuals(self._held, starts, floor))
        self._changes = self._shapes()

    def _elimination(self, starts: list[int], noise: NoiseModel) -> _Elimination:
        judge = BackwardElimination(self._series.values, self._held, noise, self._ask)
        kept = judge.prune(starts)
        large = {
            at for at, size in zip(kept, self._sizes(kept, judge), strict=True) if abs(size) >= _NO_WANDER * noise.sd
        }
        believed = large
        for _ in range(_ROUNDS):
            wandering = noises.add_wander(noise, self._held, sorted(believed))
            judge = BackwardElimination(self._series.values, self._held, wandering, self._ask)
            kept = judge.settle(starts)
            if large | set(kept) == believed:
                break
            believed = large | set(kept)
        return _Elimination(kept, judge, wandering)

    def _sizes(self, starts: Sequence[int], judge: BackwardElimination) -> list[float]:
        edges = [0, *starts, len(self._series.values)]
        return [judge.step(*edges[i : i + 3]).size for i in range(len(starts))]

    def _shapes(self) -> list[tuple[list[int], tuple[int, int] | None]]:
        """Groups of starts, as positions among them, each with the ramp that takes their place, if one does."""
        starts, judge = self._found.starts, self._found.judge
        edges = [0, *starts, len(self._held)]
        groups = elimination.runs_of_steps(starts, self._sizes(starts, judge))
        shapes, taken = list[tuple[list[int], tuple[int, int] | None]](), 0
        for group in groups:
            before, after = max(taken, edges[group[0]]), edges[group[-1] + 2]
            slope = elimination.find_ramp(self._held, before, [starts[i] for i in group], after, self._found.noise)
            taken = slope[1] if slope else 0
            shapes.append((group, slope))
        return shapes

    def steps_and_ramps(self) -> list[ChangePoint]:
        starts, judge = self._found.starts, self._found.judge
        edges, points = [0, *starts, len(self._held)], list[ChangePoint]()
        for group, slope in self._changes:
            if slope is None:
                points += [self._step(*edges[i : i + 3]) for i in group]
                continue
            middle = (slope[0] + slope[1] + 1) // 2
            step = judge.step(edges[group[0]], middle, edges[group[-1] + 2])
            sure = max(judge.margin(*edges[i : i + 3]) for i in group)
            points.append(self._point(Position(middle, slope), "ramp", sure, step.size, step.half_width))
        return points

    def _step(self, start: int, at: int, stop: int) -> ChangePoint:
        judge = self._found.judge
        step = judge.step(start, at, stop)
        return self._point(
            judge.place(start, at, stop), "step", judge.margin(start, at, stop), step.size, step.half_width
        )

    def last_points(self) -> list[ChangePoint]:
        start = self._found.starts[-1] if self._found.starts else 0
        new = _recent_shift(self._series.values, start, self._found.noise, self._ask)
        if new is None:
            return []
        at, size, half, margin = new
        earliest = max(1, at - 1)
        return [self._point(Position(at, (earliest, at)), "step", margin, size, half)]

    def _levels(self) -> Floats:
        """The found level at every point: the median of each stretch, and the line where a ramp joins two."""
        size, starts = len(self._held), self._found.starts
        begins, ends = [0], list[int]()
        for group, slope in self._changes:
            begins += [starts[i] for i in group] if slope is None else [slope[1]]
            ends += [starts[i] for i in group] if slope is None else [slope[0] + 1]
        flat, level = np.zeros(size, dtype=bool), np.empty(size)
        for begin, end in zip(begins, [*ends, size], strict=True):
            flat[begin:end], level[begin:end] = True, median(self._held[begin:end])
        return np.interp(np.arange(size), np.flatnonzero(flat), level[flat])

    def spreads(self) -> list[ChangePoint]:
        levels = self._levels()
        changed = _spread_changes(self._series.values - levels, self._found.noise.rho, self._ask)
        return [self._point(place, "variance", margin, None, None) for place, margin in changed]

    def _point(self, place: Position, kind: str, margin: float, size: float | None, half: float | None) -> ChangePoint:
        series = self._series
        interval = (max(1, series.index(place.interval[0])), series.index(place.interval[1]))
        change = None if size is None else series.change(size)
        limits = None if size is None or half is None else (series.change(size - half), series.change(size + half))
        sure = probability_of_margin(margin + self._ask)
        return ChangePoint(series.index(place.index), interval, kind, change, limits, sure, series.relative)


def _recent_shift(
    values: Floats, start: int, noise: NoiseModel, ask: float = 0.0
) -> tuple[int, float, float, float] | None:
    """(index, size, half width of its 95 % interval, margin) of the best supported shift at the end of [start, n).

    Two to four points at the end are too few for a two-sample test, and a spike must never be a step. So all of them
    must lie on the same side, each counts for no more than one noise beyond the nearest of them, and together they must
    lie further from the level than any earlier window of the same length in the stretch: that last condition needs no
    model of tails or dependence. One point alone is never reported. The log likelihood ratio must reach 6.5 plus the
    log of the number of points, more than for an older step, because a growing series is tested again at each point.
    """
    best = None
    for count in range(_FEWEST_RECENT, SHORTEST_STRETCH):
        at = len(values) - count
        before = values[max(start, at - _RECENT_REACH) : at]
        if len(before) < _LEAST_BEFORE:
            continue
        known = estimate_level(before, noise.sd)
        scale = math.sqrt(known.variance)
        off = (values[at:] - known.mean) / scale
        side = math.copysign(1.0, float(off.sum()))
        off = side * off
        nearest = float(off.min())
        deviations = (before - known.mean) / scale
        windows = np.lib.stride_tricks.sliding_window_view(deviations, count)
        if nearest <= max(float(windows.min(axis=1).max()), -float(windows.max(axis=1).min()), 0.0):
            continue
        shift = float(np.minimum(off, nearest + 1.0).mean())
        error = math.sqrt(noise.inflation(count) / count + noise.inflation(len(before)) / len(before))
        ratio = as_normal(shift / error, max(4.0, len(before) / noise.inflation(math.inf) + 7.0))
        margin = 0.5 * ratio * ratio - _RECENT_EVIDENCE - math.log(len(values)) - ask
        if margin >= 0.0 and (best is None or margin > best[3]):
            best = (at, side * shift * scale, 2.0 * error * scale, margin)
    return best


def _spread_changes(residuals: Floats, rho: float, ask: float) -> list[tuple[Position, float]]:
    """(place, margin) of every change of the spread; `ask` is added to the evidence that is required.

    The square roots of the absolute residuals about the levels are roughly normal, and their mean follows the spread.
    So they are searched with the same proposals, partition and test as levels are (a test of spread on absolute
    deviations is the idea of H. Levene, 1960). More evidence is required than for a step, and a stretch has at least 20
    points, because spread needs many points to estimate and its change is less urgent.
    """
    size = len(residuals)
    roots = np.sqrt(np.abs(residuals))
    noise = spread(roots - np.median(roots))
    if size < 2 * _SHORTEST_SPREAD or noise <= 0.0:
        return []
    held = hold_spikes(roots, noise)
    model = NoiseModel(noise, rho / 2.0)
    starts = partition_series(
        held, propose_starts(held, noise, _SHORTEST_SPREAD // 2), noise, 3.0 * float(np.log(size)), _SHORTEST_SPREAD
    )
    judge = BackwardElimination(held, held, model, _SPREAD_EVIDENCE + ask, _SHORTEST_SPREAD)
    kept = judge.settle(starts)
    edges = [0, *kept, size]
    return [(place, judge.margin(*edges[i : i + 3])) for i, place in enumerate(judge.places(kept))]
