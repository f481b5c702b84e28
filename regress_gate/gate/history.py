"""The history of a suite on a testbed: every version that has runs, in order, and each series' value on it.

Releases and release candidates are ordered by version. Nightlies and commits, whose names have no order, are ordered by
the day of their first run. The two are never mixed in one line, nor are builds of different variants. Not for changes
(`history_changes`), nor for where a regression came from (`regression_origin`).
"""

from array import array
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import cached_property

import numpy as np
import numpy.typing as npt

from regress_gate.errors import InputError
from regress_gate.gate.replicates import SeriesKey, run_level_values, trial_sets
from regress_gate.gate.sides import ComparisonSide, run_start
from regress_gate.model.metric import METRICS, Metric, Scale, metric
from regress_gate.model.policy import Policy
from regress_gate.model.run import Conditions, Run
from regress_gate.model.version import Version
from regress_gate.stats.changepoints.series import pool_points
from regress_gate.text import did_you_mean, natural_key

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
_EARLIEST = datetime.min.replace(tzinfo=UTC)


class HistoryOrder(StrEnum):
    VERSION = "version"
    DATE = "date"


@dataclass(frozen=True, slots=True, eq=False)
class HistorySeries:
    scenario: str
    metric: Metric
    replicates: Floats
    """Run-level values, version by version."""
    counts: Ints
    """(versions,) how many of them each version of the line has."""
    values: Floats
    """(versions,) their means; NaN where a version has none."""
    variances: Floats | None
    """(versions,) of those means, relative for a ratio metric; None where no version has two runs."""

    @property
    def name(self) -> str:
        return f"{self.scenario}/{self.metric.name}"

    @property
    def per_version(self) -> tuple[tuple[float, ...], ...]:
        """Run-level values on each version of the line; empty where it has none."""
        return tuple(tuple(part.tolist()) for part in np.split(self.replicates, np.cumsum(self.counts)[:-1]))

    def value(self, place: int) -> float | None:
        """The value on the version at that position; None if it has none."""
        return None if np.isnan(self.values[place]) else float(self.values[place])

    def spread(self, place: int) -> float | None:
        """Coefficient of variation between the runs of a version; None for one run, or unequal ones around zero."""
        start = int(self.counts[:place].sum())
        runs = self.replicates[start : start + int(self.counts[place])]
        if len(runs) < 2:
            return None
        deviation, mean = float(runs.std(ddof=1)), abs(float(runs.mean()))
        if not deviation:
            return 0.0
        return deviation / mean if mean else None


@dataclass(frozen=True, slots=True)
class HistoryReader:
    """Reads sides that together may not fit into memory."""

    sides: Callable[[], Iterable[ComparisonSide]]
    """One a version, with at least the metrics that are wanted; called again where the trials of versions differ."""
    full_side: Callable[[Version], ComparisonSide]
    """A version's side with everything that is stored of its runs."""


@dataclass(frozen=True, eq=False)
class HistoryLine:
    """Versions that have an order, and the series that were measured on them."""

    order: HistoryOrder
    variant: str | None
    sides: tuple[ComparisonSide, ...]
    """In a long history without most trials of their runs; see `full_side`."""
    series: tuple[HistorySeries, ...]
    full_side: Callable[[Version], ComparisonSide]

    @cached_property
    def versions(self) -> tuple[Version, ...]:
        return tuple(side.version for side in self.sides)

    @cached_property
    def first_runs(self) -> tuple[datetime | None, ...]:
        """Of each version the start of its first run; None if no time was recorded."""
        return tuple(first_run_time(side) for side in self.sides)


@dataclass(frozen=True, slots=True)
class HistoryFilter:
    """Which series are shown, by names or globs. Without any: those that gate, in all scenarios."""

    metrics: Sequence[str] = ()
    scenarios: Sequence[str] = ()


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
    return min((time for run in side.runs if (time := run_start(run)) is not None), default=None)


def _by_version(side: ComparisonSide) -> tuple[object, str]:
    return side.version.order_key, str(side.version)


def _by_date(side: ComparisonSide) -> tuple[datetime, str]:
    return first_run_time(side) or _EARLIEST, str(side.version)


class WantedMetrics:
    """The metrics whose values are needed for a history, as `name in wanted`."""

    def __init__(self, wanted: HistoryFilter, policy: Policy):
        self._known: dict[str, bool] = {}
        self._wanted, self._policy = wanted, policy

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str):
            return False
        if name not in self._known:
            self._known[name] = _is_wanted_metric(name, self._wanted, self._policy)
        return self._known[name]


def history_lines(
    sides: Sequence[ComparisonSide] | HistoryReader, policy: Policy, wanted: HistoryFilter
) -> list[HistoryLine]:
    """The history as lines. Raises InputError for a metric or scenario that no run has.

    Of the sides of a reader, only the numbers are kept, and of their runs the trials that `compare_sides` looks at.
    """
    is_read = isinstance(sides, HistoryReader)
    reader = sides if isinstance(sides, HistoryReader) else _reader_of(sides)
    numbers, kept = _Numbers(WantedMetrics(wanted, policy)), list[ComparisonSide]()
    for side in reader.sides():
        numbers.add(side)
        kept.append(_without_most_trials(side) if is_read else side)
    _check_patterns(wanted.metrics, numbers.metrics, (*numbers.metrics, *METRICS), "metric", "--metric")
    _check_patterns(wanted.scenarios, numbers.scenarios, numbers.scenarios, "scenario", "--scenario")
    groups = order_sides(kept)
    numbers.keep_shared_trials([[side.version for side in members] for members in groups.values()], reader)
    lines = []
    for (order, variant), members in groups.items():
        found = numbers.of_versions([side.version for side in members])
        keys = sorted((key for key in found if _is_wanted_scenario(key[0], wanted)), key=_catalogue_order)
        series = tuple(_series(key, *found[key]) for key in keys)
        lines.append(HistoryLine(order, variant, tuple(members), series, reader.full_side))
    return lines


def _reader_of(sides: Sequence[ComparisonSide]) -> HistoryReader:
    return HistoryReader(lambda: sides, {side.version: side for side in sides}.__getitem__)


_TrialSets = tuple[tuple[str, frozenset[int], frozenset[int]], ...]
"""By scenario the ordinals that all runs of a version have, and those that any has."""


class _Numbers:
    """Run-level values of all versions, in arrays: 8 bytes a value."""

    def __init__(self, wanted: Container[str]):
        self.metrics: set[str] = set()
        self.scenarios: set[str] = set()
        self._wanted = wanted
        self._values: dict[SeriesKey, array[float]] = {}
        self._owners: dict[SeriesKey, array[int]] = {}
        """Of each value the number of its version, ascending."""
        self._versions: dict[Version, tuple[int, _TrialSets]] = {}
        self._sets: dict[_TrialSets, _TrialSets] = {}
        self._again: dict[int, dict[SeriesKey, list[float]]] = {}
        """Of versions, by their number, that have more trials than they share with the others."""

    def add(self, side: ComparisonSide) -> None:
        sets = tuple(
            (scenario, frozenset.intersection(*each), frozenset.union(*each))
            for scenario, ordinals in sorted(trial_sets(side.counted).items())
            for each in [{frozenset(one) for one in ordinals}]
        )
        number = len(self._versions)
        self._versions[side.version] = number, self._sets.setdefault(sets, sets)
        self.scenarios |= {scenario for scenario, *_ in sets}
        for key, values in self._read(side, None).items():
            self._values.setdefault(key, array("d")).extend(values)
            self._owners.setdefault(key, array("q")).extend([number] * len(values))

    def _read(self, side: ComparisonSide, ordinals: Mapping[str, set[int]] | None) -> dict[SeriesKey, list[float]]:
        read = run_level_values(side.counted, ordinals)
        self.metrics |= {name for _, name in read}
        self.scenarios |= {scenario for scenario, _ in read}
        return {key: values.per_run for key, values in read.items() if key[1] in self._wanted}

    def keep_shared_trials(self, lines: Iterable[Sequence[Version]], reader: HistoryReader) -> None:
        """Average only the trials that all runs of a line have: the first trial of a server is often its slowest."""
        ordinals: dict[Version, dict[str, set[int]]] = {}
        for versions in lines:
            shared: dict[str, frozenset[int]] = {}
            for version in versions:
                for scenario, common, _ in self._versions[version][1]:
                    shared[scenario] = shared.get(scenario, common) & common
            counted = {scenario: set(each) for scenario, each in shared.items()}
            for version in versions:
                if any(some != shared[scenario] for scenario, _, some in self._versions[version][1]):
                    ordinals[version] = counted
        if ordinals:
            for side in reader.sides():
                if side.version in ordinals:
                    self._again[self._versions[side.version][0]] = self._read(side, ordinals[side.version])

    def of_versions(self, versions: Sequence[Version]) -> dict[SeriesKey, tuple[Floats, Ints]]:
        """Values and their counts, version by version, of every series that one of them has."""
        numbers = [self._versions[version][0] for version in versions]
        found: dict[SeriesKey, tuple[Floats, Ints]] = {}
        for key, stored in self._values.items():
            values, owners = np.asarray(stored), np.asarray(self._owners[key])
            starts, stops = (np.searchsorted(owners, numbers, side=side) for side in ("left", "right"))
            parts = [
                np.asarray(again.get(key, ()), dtype=np.float64)
                if (again := self._again.get(number)) is not None
                else values[start:stop]
                for number, start, stop in zip(numbers, starts, stops, strict=True)
            ]
            counts = np.array([len(part) for part in parts], dtype=np.int64)
            if counts.any():
                found[key] = np.concatenate(parts), counts
        return found


def _without_most_trials(side: ComparisonSide) -> ComparisonSide:
    """The side with only those trials of each run that show its time, its clients and its worst conditions."""
    kept = {id(run): _without_numbers(run) for run in side.runs}
    return replace(
        side,
        runs=tuple(kept.values()),
        counted=tuple(kept[id(run)] for run in side.counted),
        void=tuple(replace(each, run=kept[id(each.run)]) for each in side.void),
        failed=tuple(kept[id(run)] for run in side.failed),
    )


def _without_numbers(run: Run) -> Run:
    telling = dict.fromkeys([0]) if run.trials else {}
    for position, trial in enumerate(run.trials):
        first = (at for at in telling if run.trials[at].source.client_version == trial.source.client_version)
        if next(first, None) is None:
            telling[position] = None
    for condition in fields(Conditions):
        recorded = [
            (value, position)
            for position, trial in enumerate(run.trials)
            if (value := getattr(trial.conditions, condition.name)) is not None
        ]
        if recorded:
            telling[max(recorded)[1]] = None
    trials = tuple(replace(run.trials[position], metrics={}) for position in sorted(telling))
    return replace(run, trials=trials, metrics={})


def _series(key: SeriesKey, replicates: Floats, counts: Ints) -> HistorySeries:
    known = metric(key[1])
    some = np.maximum(counts, 1)
    padded = np.full(int(some.sum()), np.nan)
    padded[np.repeat(counts > 0, some)] = replicates
    starts = np.concatenate([[0], np.cumsum(some)[:-1]]).astype(np.int64)
    points = pool_points(padded, starts, relative=known.scale is Scale.RATIO)
    return HistorySeries(key[0], known, replicates, counts, points.values, points.variances)


def _is_wanted_scenario(scenario: str, wanted: HistoryFilter) -> bool:
    return not wanted.scenarios or any(fnmatchcase(scenario, pattern) for pattern in wanted.scenarios)


def _is_wanted_metric(name: str, wanted: HistoryFilter, policy: Policy) -> bool:
    if wanted.metrics:
        return any(fnmatchcase(name, pattern) for pattern in wanted.metrics)
    return policy.gates(name)


def _check_patterns(patterns: Sequence[str], names: set[str], known: Iterable[str], what: str, flag: str) -> None:
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise InputError(
                f"no stored run has the {what} {pattern!r}" + did_you_mean(pattern, sorted(known)), where=flag
            )


def _catalogue_order(key: SeriesKey) -> tuple[object, ...]:
    scenario, name = key
    place = _CATALOGUE_POSITIONS.get(name, len(_CATALOGUE_POSITIONS))
    return metric(name).per_run, natural_key(scenario), place, name


_CATALOGUE_POSITIONS: Mapping[str, int] = {name: place for place, name in enumerate(METRICS)}
