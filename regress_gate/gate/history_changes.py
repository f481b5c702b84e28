"""Which versions of a history changed a series, and by how much.

With enough versions, every series is searched for change points. Each version is one point with the variance that its
runs give it. The newest version is also compared with the one before it, because a single point is never a step. With
fewer versions, a change cannot be distinguished from the scatter of the points, but each version has runs: neighbouring
versions are then compared as `compare` would, all steps of all series as one family (the false-alarm budget is shared
between the steps, and within a step between the series). Changes smaller than half the margin of their metric are not
reported. Not for deciding whether to move.

Limits: versions measured on different days also differ by the day; a comparison of neighbours only shows a change from
one version to the next, so a slow drift may not be seen. The result says both.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from itertools import pairwise

import numpy as np

from regress_gate.gate.history import HistoryLine, HistorySeries
from regress_gate.gate.replicates import Pairing, pair_runs
from regress_gate.gate.series_comparison import compare_all_series
from regress_gate.gate.sides import ComparisonSide, compare_sides
from regress_gate.gate.table_changes import MIN_POINTS
from regress_gate.model.metric import Direction, Interval, Scale, metric, natural_change, natural_interval
from regress_gate.model.policy import Policy
from regress_gate.model.result import SeriesResult, Verdict
from regress_gate.model.run import Run
from regress_gate.model.suite import ConditionLimits
from regress_gate.model.version import Version
from regress_gate.stats.changepoints import ChangePoint, detect
from regress_gate.store.store_interface import choose_recent_runs
from regress_gate.text import plural

_CONFIDENCE = 0.95


class ChangeMethod(StrEnum):
    """How changes were searched for."""

    CHANGE_POINTS = "change_points"
    NEIGHBOURS = "neighbours"


@dataclass(frozen=True, slots=True)
class HistoryChange:
    scenario: str
    metric: str
    scale: Scale
    kind: str
    """`step`, `ramp` or `variance`."""
    at: int
    """The first version after the change, as its place in the line."""
    since: tuple[int, int]
    """The change came after the first and at the latest with the second of these positions."""
    loss: float | None
    """Positive is worse, for every metric; relative for a ratio metric, else a difference. None for `variance`."""
    interval: tuple[float | None, float | None] | None
    """95 % interval of the loss, as that of a change point is."""
    probability: float | None
    """That there is a change; None where neighbours were compared."""

    @property
    def name(self) -> str:
        return f"{self.scenario}/{self.metric}"

    @property
    def natural_change(self) -> float | None:
        """What happened, with its own sign."""
        return None if self.loss is None else natural_change(self.loss, metric(self.metric).direction)

    @property
    def natural_interval(self) -> Interval | None:
        return None if self.interval is None else natural_interval(self.interval, metric(self.metric).direction)

    @property
    def is_worse(self) -> bool | None:
        return None if self.loss is None else self.loss > 0


@dataclass(frozen=True, slots=True)
class HistoryChanges:
    """What was searched, and what was found."""

    way: ChangeMethod
    series: int
    """Series that were searched."""
    steps: int
    """Steps between neighbouring versions that were compared; with change points, only the newest."""
    found: tuple[HistoryChange, ...]
    """By place, then by series."""
    notes: tuple[str, ...]
    """What could not be searched, and what to keep in mind."""


def find_line_changes(line: HistoryLine, policy: Policy, limits: ConditionLimits) -> HistoryChanges:
    """All changes of the line's series, those for the better too."""
    pairs = list(pairwise(place for place, side in enumerate(line.sides) if side.counted))
    if len(pairs) + 1 < MIN_POINTS:
        return _compare_neighbours(line, pairs, policy, limits)
    searched = _change_points(line, policy)
    # Users ask about the newest version, and a single point is a spike as often as a step.
    newest = _compare_neighbours(line, pairs[-1:], policy, limits)
    known = {change.name for change in searched.found if max(change.since[1], change.at + 1) >= pairs[-1][1]}
    changes = [*searched.found, *(change for change in newest.found if change.name not in known)]
    notes = (*searched.notes, *_incomparable_notes(line, pairs[:-1], limits), *newest.notes)
    return replace(searched, steps=newest.steps, found=_sort_changes(changes), notes=notes)


def _change_points(line: HistoryLine, policy: Policy) -> HistoryChanges:
    changes, short, unfit = list[HistoryChange](), 0, 0
    for series in line.series:
        values = series.values
        if int((~np.isnan(values)).sum()) < MIN_POINTS:
            short += 1
            continue
        if series.metric.scale is Scale.DIFFERENCE:
            values = values - np.nanmean(values)  # differences are wanted here, though all fractions may be positive
        elif float(np.nanmin(values)) <= 0:
            unfit += 1
            continue
        least = policy.margin(series.metric.name) / 2
        points = detect(values, variances=series.variances, min_change=least)
        changes += [_from_point(series, point) for point in points]
    notes = (
        [f"{plural(short, 'series has', 'series have')} fewer than {MIN_POINTS} versions, too few for change points"]
        if short
        else []
    )
    notes += (
        [f"{plural(unfit, 'series has', 'series have')} a value that is zero or negative: no ratio can be formed"]
        if unfit
        else []
    )
    return HistoryChanges(
        ChangeMethod.CHANGE_POINTS, len(line.series) - short - unfit, 0, _sort_changes(changes), tuple(notes)
    )


def _from_point(series: HistorySeries, point: ChangePoint) -> HistoryChange:
    sign = 1.0 if series.metric.direction is Direction.LOWER else -1.0
    interval: tuple[float | None, float | None] | None = None
    if point.change_interval is not None:
        low, high = sorted(sign * bound for bound in point.change_interval)
        interval = (low, high)
    return HistoryChange(
        scenario=series.scenario,
        metric=series.metric.name,
        scale=series.metric.scale,
        kind=point.kind,
        at=point.index,
        since=(max(0, point.interval[0] - 1), point.interval[1]),
        loss=None if point.change is None else sign * point.change,
        interval=interval,
        probability=point.probability,
    )


def _incomparable_notes(line: HistoryLine, pairs: Sequence[tuple[int, int]], limits: ConditionLimits) -> list[str]:
    """Neighbours that are not comparable: a change there may come from the machine or the suite."""
    notes = []
    for before, after in pairs:
        if why := _blocking_differences(line.sides[before], line.sides[after], limits):
            notes.append(f"{line.versions[before]} and {line.versions[after]} are not comparable: {why}")
    return notes


def _blocking_differences(old: ComparisonSide, new: ComparisonSide, limits: ConditionLimits) -> str:
    """Why the two may not be compared; empty if they may."""
    return "; ".join(str(difference) for difference in compare_sides(old, new, limits).differences if difference.blocks)


def _compare_neighbours(
    line: HistoryLine, pairs: Sequence[tuple[int, int]], policy: Policy, limits: ConditionLimits
) -> HistoryChanges:
    """`pairs`: positions of versions with runs that count. A version without is skipped, and its neighbours are
    compared."""
    wanted = {series.name for series in line.series}
    names = tuple(dict.fromkeys(series.metric.name for series in line.series))
    scenarios = {series.scenario for series in line.series}
    budget = policy.false_alarm_budget / max(1, len(pairs))
    shared = policy.model_copy(update={"metrics": names, "false_alarm_budget": budget, "confidence": _CONFIDENCE})
    full_side = cache(line.full_side)
    changes, notes, steps, few, apart = [], list[str](), 0, dict[str, None](), list[str]()
    for before, after in pairs:
        old, new = (full_side(line.versions[place]) for place in (before, after))
        pairing = pair_runs(old.counted, new.counted)
        old, new = (
            _restrict_to_scenarios(old, pairing.baseline, scenarios),
            _restrict_to_scenarios(new, pairing.candidate, scenarios),
        )
        if why := _blocking_differences(old, new, limits):
            notes.append(f"{old.version} and {new.version} are not comparable, so not compared: {why}")
            continue
        steps += 1
        apart += [] if pairing.is_side_by_side else [f"{old.version} → {new.version}"]
        few |= {str(side.version): None for side in (old, new) if len(side.counted) < 2}
        earlier = [
            run
            for side, runs in _recent(line, pairing, full_side)
            for run in _restrict_to_scenarios(side, runs, scenarios).counted
        ]
        comparison = compare_all_series(old, new, shared, paired=pairing.is_side_by_side, earlier=earlier)
        shown = [series for series in comparison.series if series.name in wanted and _is_shown(series)]
        changes += [_from_series(series, before, after) for series in shown]
    if few:
        notes.append(f"one run shows nothing, and these versions have only one: {', '.join(few)}")
    if apart:
        notes.append(f"not measured side by side, so conditions may differ: {', '.join(apart)}")
    return HistoryChanges(ChangeMethod.NEIGHBOURS, len(line.series), steps, _sort_changes(changes), tuple(notes))


def _recent(
    line: HistoryLine, pairing: Pairing, full_side: Callable[[Version], ComparisonSide]
) -> Iterator[tuple[ComparisonSide, list[Run]]]:
    """The newest other runs of the line, as a comparison takes them. They show the usual spread between runs, also of
    versions on neither side of a step."""
    compared = {run.key for run in (*pairing.baseline, *pairing.candidate)}
    others = [run for side in line.sides for run in side.counted if run.key not in compared]
    keys = {run.key for run in choose_recent_runs(others, paired=pairing.is_side_by_side)}
    for version in dict.fromkeys(run.version for run in others if run.key in keys):
        side = full_side(version)
        yield side, [run for run in side.counted if run.key in keys]


def _restrict_to_scenarios(side: ComparisonSide, counted: Sequence[Run], scenarios: set[str]) -> ComparisonSide:
    """The side with the trials of these scenarios only: other series are not in the family."""
    kept = [replace(run, trials=tuple(trial for trial in run.trials if trial.scenario in scenarios)) for run in counted]
    return replace(side, counted=tuple(kept))


def _is_shown(series: SeriesResult) -> bool:
    """Whether the change is shown over the whole family, and large enough to matter."""
    shown = series.verdict in (Verdict.REGRESSION, Verdict.IMPROVEMENT)
    return shown and series.change is not None and abs(series.change) >= series.margin / 2


def _from_series(series: SeriesResult, before: int, after: int) -> HistoryChange:
    return HistoryChange(
        scenario=series.scenario,
        metric=series.metric,
        scale=metric(series.metric).scale,
        kind="step",
        at=after,
        since=(before, after),
        loss=series.change,
        interval=series.interval,
        probability=None,
    )


def _sort_changes(changes: Sequence[HistoryChange]) -> tuple[HistoryChange, ...]:
    return tuple(sorted(changes, key=lambda change: (change.at, change.scenario, change.metric)))


def without_improvements(changes: HistoryChanges) -> tuple[HistoryChanges, int]:
    """The changes without improvements, and how many those were."""
    kept = tuple(change for change in changes.found if change.is_worse is not False)
    return replace(changes, found=kept), len(changes.found) - len(kept)
