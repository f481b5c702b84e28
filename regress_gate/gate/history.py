"""The history of a suite on a testbed: every version that has runs, in order, and each series' value on it.

Releases and release candidates are ordered by version. Nightlies and commits, whose names have no order, are ordered by
the day of their first run. The two are never mixed in one line, nor are builds of different variants. Not for changes
(`history_changes`), nor for where a regression came from (`regression_origin`).
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from fnmatch import fnmatchcase

import numpy as np
import numpy.typing as npt

from regress_gate.errors import InputError
from regress_gate.gate.replicates import RunLevelValues, run_level_values, shared_trials
from regress_gate.gate.sides import ComparisonSide, make_side
from regress_gate.model.metric import METRICS, Metric, Scale, metric
from regress_gate.model.policy import Policy
from regress_gate.model.run import Run
from regress_gate.model.suite import ConditionLimits
from regress_gate.model.version import Version
from regress_gate.stats.changepoints.series import pool_points
from regress_gate.text import did_you_mean, natural_key

Floats = npt.NDArray[np.float64]
_EARLIEST = datetime.min.replace(tzinfo=UTC)


class HistoryOrder(StrEnum):
    VERSION = "version"
    DATE = "date"


@dataclass(frozen=True, slots=True, eq=False)
class HistorySeries:
    scenario: str
    metric: Metric
    per_version: tuple[tuple[float, ...], ...]
    """Run-level values on each version of the line; empty where it has none."""
    values: Floats
    """(versions,) their means; NaN where a version has none."""
    variances: Floats | None
    """(versions,) of those means, relative for a ratio metric; None where no version has two runs."""

    @property
    def name(self) -> str:
        return f"{self.scenario}/{self.metric.name}"

    def value(self, place: int) -> float | None:
        """The value on the version at that position; None if it has none."""
        return None if np.isnan(self.values[place]) else float(self.values[place])

    def spread(self, place: int) -> float | None:
        """Coefficient of variation between the runs of a version; None for one run, or unequal ones around zero."""
        runs = np.asarray(self.per_version[place])
        if len(runs) < 2:
            return None
        deviation, mean = float(runs.std(ddof=1)), abs(float(runs.mean()))
        if not deviation:
            return 0.0
        return deviation / mean if mean else None


@dataclass(frozen=True, slots=True, eq=False)
class HistoryLine:
    """Versions that have an order, and the series that were measured on them."""

    order: HistoryOrder
    variant: str | None
    sides: tuple[ComparisonSide, ...]
    series: tuple[HistorySeries, ...]

    @property
    def versions(self) -> tuple[Version, ...]:
        return tuple(side.version for side in self.sides)


@dataclass(frozen=True, slots=True)
class HistoryFilter:
    """Which series are shown, by names or globs. Without any: those that gate, in all scenarios."""

    metrics: Sequence[str] = ()
    scenarios: Sequence[str] = ()


def sides_by_version(runs: Iterable[Run], limits: ConditionLimits) -> list[ComparisonSide]:
    """The runs of one suite on one testbed by version; which of them count is decided as in a comparison."""
    by_version: dict[Version, list[Run]] = defaultdict(list)
    for run in runs:
        by_version[run.version].append(run)
    return [make_side(version, same, limits) for version, same in by_version.items()]


def order_sides(sides: Iterable[ComparisonSide]) -> dict[tuple[HistoryOrder, str | None], list[ComparisonSide]]:
    """The sides of each line, in its order: by version where versions have one, by date where not."""
    groups: dict[tuple[HistoryOrder, str | None], list[ComparisonSide]] = defaultdict(list)
    for side in sides:
        order = HistoryOrder.DATE if side.version.order_key is None else HistoryOrder.VERSION
        groups[order, side.version.variant].append(side)
    return {
        (order, variant): sorted(groups[order, variant], key=_by_version if order is HistoryOrder.VERSION else _by_date)
        for order, variant in sorted(groups, key=lambda key: (key[0] is HistoryOrder.DATE, key[1] or ""))
    }


def first_run_time(side: ComparisonSide) -> datetime | None:
    """Start of the first of its runs; None if no time was recorded."""
    times = [run.started or next((trial.started for trial in run.trials), None) for run in side.runs]
    return min((time for time in times if time is not None), default=None)


def _by_version(side: ComparisonSide) -> tuple[object, str]:
    return side.version.order_key, str(side.version)


def _by_date(side: ComparisonSide) -> tuple[datetime, str]:
    time = first_run_time(side) or _EARLIEST
    return time if time.tzinfo else time.replace(tzinfo=UTC), str(side.version)


def history_lines(sides: Iterable[ComparisonSide], policy: Policy, wanted: HistoryFilter) -> list[HistoryLine]:
    """The history as lines. Raises InputError for a metric or scenario that no run has."""
    groups = order_sides(sides)
    series_values = {key: _values(members) for key, members in groups.items()}
    names = {name for values in series_values.values() for name in values}
    _check_patterns(wanted.metrics, {name for _, name in names}, "metric", "--metric")
    _check_patterns(wanted.scenarios, {scenario for scenario, _ in names}, "scenario", "--scenario")
    lines = []
    for (order, variant), members in groups.items():
        kept = {key: each for key, each in series_values[order, variant].items() if _is_wanted(*key, wanted, policy)}
        series = [_series(key, each) for key, each in sorted(kept.items(), key=_catalogue_order)]
        lines.append(HistoryLine(order, variant, tuple(members), tuple(series)))
    return lines


def _values(sides: Sequence[ComparisonSide]) -> dict[tuple[str, str], list[Sequence[float]]]:
    """Run-level values by series, one entry a side."""
    ordinals = shared_trials(run for side in sides for run in side.counted)
    by_side: list[RunLevelValues] = [run_level_values(side.counted, ordinals) for side in sides]
    keys = dict.fromkeys(key for values in by_side for key in values)
    return {key: [values[key].per_run if key in values else () for values in by_side] for key in keys}


def _series(key: tuple[str, str], per_version: Sequence[Sequence[float]]) -> HistorySeries:
    padded = [tuple(values) or (float("nan"),) for values in per_version]
    lengths = [len(values) for values in padded]
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype(np.int64)
    known = metric(key[1])
    points = pool_points(np.concatenate(padded), starts, relative=known.scale is Scale.RATIO)
    return HistorySeries(key[0], known, tuple(tuple(values) for values in per_version), points.values, points.variances)


def _is_wanted(scenario: str, name: str, wanted: HistoryFilter, policy: Policy) -> bool:
    if wanted.scenarios and not any(fnmatchcase(scenario, pattern) for pattern in wanted.scenarios):
        return False
    if wanted.metrics:
        return any(fnmatchcase(name, pattern) for pattern in wanted.metrics)
    return policy.gates(name)


def _check_patterns(patterns: Sequence[str], names: set[str], what: str, flag: str) -> None:
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise InputError(
                f"no stored run has the {what} {pattern!r}" + did_you_mean(pattern, sorted(names)), where=flag
            )


def _catalogue_order(item: tuple[tuple[str, str], object]) -> tuple[object, ...]:
    scenario, name = item[0]
    place = _CATALOGUE_POSITIONS.get(name, len(_CATALOGUE_POSITIONS))
    return metric(name).per_run, natural_key(scenario), place, name


_CATALOGUE_POSITIONS: Mapping[str, int] = {name: place for place, name in enumerate(METRICS)}
