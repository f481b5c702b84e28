"""Run-level values, the runs that belong together, and the rows that the statistics compare.

`run_level_values` gives what one server start measured of every metric of every scenario. `pair_runs` keeps the runs
that were made side by side, where there are any: conditions drift between days, so two versions measured months apart
differ by more than the version. `make_replicates` makes rows of them. A row is a block where the sides were measured in
blocks, so that row i of one side belongs to row i of the other; else it is a run. Earlier runs of the same suite on the
same testbed, of any version, become the sessions that show the usual spread (`measurement_design`); a caller gives the
newest ones (`store_interface.choose_recent`). Not for which runs
count (`sides`), nor for what follows from the rows (`stats`).
"""

import math
from collections import defaultdict
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from regress_gate.measurement.request_statistics import trial_attainment
from regress_gate.model.metric import CAPACITY, PROMISE_KEY, Scale, metric
from regress_gate.model.run import Run, Trial
from regress_gate.stats.capacity import Capacity, find_capacity
from regress_gate.stats.design import InterimStage
from regress_gate.stats.multiplicity import MeasurementDesign

SERVER_GROUP = "server"
"""Scenario name of metrics that are measured once per server start."""


@dataclass(slots=True)
class SeriesValues:
    """One metric of one scenario on one side."""

    per_run: list[float] = field(default_factory=list)
    requests: int = 0
    smallest_trial: int | None = None
    """Requests sent in the smallest trial, failed ones included. 0 if a trial does not say how many it sent; None for
    what is not measured per trial."""
    capacities: list[Capacity] = field(default_factory=list)
    """Of a capacity, those whose loads are `per_run`."""


RunLevelValues = dict[tuple[str, str], SeriesValues]


def server_group(run: Run) -> str:
    """The server of the suite that the run started; a suite mostly has one."""
    return SERVER_GROUP if run.place is None else run.place.group


def trial_metrics(trial: Trial) -> Mapping[str, float]:
    """Its metrics, with the share of all requests that met the scenario's objectives, where the goodput says it.

    None of a trial at one of the rates around a capacity: each rate is another work, and some are too much.
    """
    if PROMISE_KEY in trial.workload:
        return {}
    attainment = None if "slo_attainment" in trial.metrics else trial_attainment(trial)
    return trial.metrics if attainment is None else {**trial.metrics, "slo_attainment": attainment}


def _capacity(trials: Sequence[Trial]) -> Capacity | None:
    """Of one server start, from its trials at the rates of a scenario; None where one of them does not say enough."""
    sent: dict[float, list[tuple[int, float]]] = defaultdict(list)
    promise = trials[0].workload[PROMISE_KEY]
    for trial in trials:
        rate, attainment = trial.workload.get("request_rate"), trial_attainment(trial)
        if not isinstance(rate, int | float) or rate <= 0 or attainment is None or not trial.requests:
            return None
        if trial.workload[PROMISE_KEY] != promise or not isinstance(promise, float) or not 0 < promise < 1:
            return None
        sent[float(rate)].append((trial.requests, attainment))
    requests = [sum(count for count, _ in passes) for passes in sent.values()]
    kept = [sum(count * share for count, share in passes) for passes in sent.values()]
    shares = [min(good / count, 1.0) for good, count in zip(kept, requests, strict=True)]
    return find_capacity(list(sent), shares, requests, promise)


def run_level_values(runs: Iterable[Run], ordinals: Mapping[str, set[int]] | None = None) -> RunLevelValues:
    """A run's value of a metric is the mean over its trials: trials share the run's luck.

    `ordinals` names, by scenario, the trials that count; a scenario that it does not name counts in full.
    """
    values: RunLevelValues = defaultdict(SeriesValues)
    for run in runs:
        by_series: dict[tuple[str, str], list[float]] = defaultdict(list)
        at_rates: dict[str, list[Trial]] = defaultdict(list)
        for trial in run.trials:
            if ordinals and trial.ordinal not in ordinals.get(trial.scenario, {trial.ordinal}):
                continue
            if PROMISE_KEY in trial.workload:
                at_rates[trial.scenario].append(trial)
            for name, value in trial_metrics(trial).items():
                key = (trial.scenario, name)
                by_series[key].append(value)
                entry = values[key]
                requests = trial.requests or 0
                entry.requests += requests
                if entry.smallest_trial is None or requests < entry.smallest_trial:
                    entry.smallest_trial = requests
        for scenario, trials in at_rates.items():
            if (capacity := _capacity(trials)) is not None:
                by_series[scenario, CAPACITY].append(capacity.load)
                values[scenario, CAPACITY].capacities.append(capacity)
                values[scenario, CAPACITY].requests += sum(trial.requests or 0 for trial in trials)
        for name, value in run.metrics.items():
            by_series[server_group(run), name].append(value)
        for key, samples in by_series.items():
            values[key].per_run.append(sum(samples) / len(samples))
    return values


def trial_sets(runs: Iterable[Run]) -> dict[str, list[set[int]]]:
    """By scenario the ordinals of the trials that each run of it has."""
    sets: dict[str, list[set[int]]] = defaultdict(list)
    for run in runs:
        by_scenario: dict[str, set[int]] = defaultdict(set)
        for trial in run.trials:
            by_scenario[trial.scenario].add(trial.ordinal)
        for scenario, ordinals in by_scenario.items():
            sets[scenario].append(ordinals)
    return sets


def shared_trials(runs: Iterable[Run]) -> dict[str, set[int]]:
    """By scenario the trials that every run of it has, which may be none.

    The first trial of a server is often its slowest: one run's first must not be compared with another's first three.
    """
    return {scenario: set.intersection(*sets) for scenario, sets in trial_sets(runs).items()}


BlockKey = tuple[str, int, str, str]
"""Experiment, block, server group and testbed: a block is never split over hosts."""


@dataclass(frozen=True, slots=True)
class Pairing:
    baseline: tuple[Run, ...]
    candidate: tuple[Run, ...]
    blocks: int
    """Whole blocks in which both sides count; with several server groups, of the group that has the fewest."""
    left_out: int
    """Runs that count, but were not made side by side with the other version."""

    @property
    def is_side_by_side(self) -> bool:
        return self.blocks > 0


def pair_runs(baseline: Sequence[Run], candidate: Sequence[Run]) -> Pairing:
    """The runs of whole blocks, where both versions share any; else all, with no block. Takes runs that count."""
    blocks = _block_keys(baseline) & _block_keys(candidate)
    if not blocks:
        return Pairing(tuple(baseline), tuple(candidate), 0, 0)
    kept = [tuple(run for run in side if _block_key(run) in blocks) for side in (baseline, candidate)]
    groups = {group for _, _, group, _ in blocks}
    fewest = min(sum(group == block[2] for block in blocks) for group in groups)
    left_out = len(baseline) + len(candidate) - len(kept[0]) - len(kept[1])
    return Pairing(kept[0], kept[1], fewest, left_out)


def open_blocks(runs: Iterable[Run], unfinished: Mapping[str, Collection[str]]) -> set[BlockKey]:
    """Blocks in which a side has no run yet, not even one that failed: their experiment still runs or was interrupted.

    `unfinished`: the sides of each such experiment; `runs` are all that are stored of them.
    """
    made: dict[BlockKey, set[str]] = defaultdict(set)
    for run in runs:
        if run.place is not None and run.place.experiment in unfinished:
            made[run.place.experiment, run.place.block, run.place.group, run.testbed.name].add(run.place.side)
    return {block for block, sides in made.items() if set(unfinished[block[0]]) - sides}


def is_in_block(run: Run, blocks: Container[BlockKey]) -> bool:
    return _block_key(run) in blocks


def _block_keys(runs: Sequence[Run]) -> set[BlockKey]:
    return {block for run in runs if (block := _block_key(run)) is not None}


def _block_key(run: Run) -> BlockKey | None:
    place = run.place
    return None if place is None else (place.experiment, place.block, place.group, run.testbed.name)


Floats = npt.NDArray[np.float64]
SeriesKey = tuple[str, str]
"""Scenario and metric."""
RowKey = tuple[str, int, str]
"""Experiment, block and testbed; of runs without blocks only their number."""


@dataclass(frozen=True, slots=True)
class Replicates:
    """Both sides' runs as rows, the same for every series."""

    baseline: Mapping[RowKey, tuple[Run, ...]]
    candidate: Mapping[RowKey, tuple[Run, ...]]
    paired: bool

    @property
    def apart(self) -> bool:
        """Whether the sides have no known session in common."""
        left, right = ({run.session for runs in side.values() for run in runs} for side in self._sides)
        return not left & right

    @property
    def interim(self) -> InterimStage | None:
        """The interim analysis of an experiment that is analysed after every block; None if it is analysed once."""
        allowed = [run.place.most_blocks for side in self._sides for runs in side.values() for run in runs if run.place]
        most = [blocks for blocks in allowed if blocks is not None]
        return InterimStage(len(self.baseline), max(*most, len(self.baseline))) if self.paired and most else None

    @property
    def _sides(self) -> tuple[Mapping[RowKey, tuple[Run, ...]], ...]:
        return self.baseline, self.candidate


def make_replicates(baseline: Sequence[Run], candidate: Sequence[Run], *, paired: bool) -> Replicates:
    """With `paired`, all runs are of blocks in which both sides have some, as `pair_runs` leaves them."""
    return Replicates(dict(_rows(baseline, paired)), dict(_rows(candidate, paired)), paired)


def _rows(runs: Sequence[Run], paired: bool) -> Iterable[tuple[RowKey, tuple[Run, ...]]]:
    """In blocks, all servers of a block are one row; else the first run of every server of a suite, the second…"""
    rows: dict[RowKey, list[Run]] = defaultdict(list)
    seen: dict[str, int] = defaultdict(int)
    for run in runs:
        group = server_group(run)
        if paired and run.place is not None:
            rows[run.place.experiment, run.place.block, run.testbed.name].append(run)
        else:
            rows["", seen[group], ""].append(run)
            seen[group] += 1
    return [(row, tuple(rows[row])) for row in sorted(rows)]


@dataclass(frozen=True, slots=True, eq=False)
class ReplicateTable:
    """Run-level values of both sides, row by row."""

    baseline: tuple[RunLevelValues, ...]
    candidate: tuple[RunLevelValues, ...]

    def values(self, key: SeriesKey) -> tuple[Floats, Floats]:
        """One a row, NaN where a row has none; of a row with several runs, their mean. Empty where a side has none."""
        return _column(self.baseline, key), _column(self.candidate, key)

    def capacities(self, key: SeriesKey, *, paired: bool) -> tuple[list[Capacity], list[Capacity]]:
        """Of both sides' servers; with `paired`, of the rows in which both have one, in the same order."""
        sides = [[_first_capacity(row.get(key)) for row in side] for side in (self.baseline, self.candidate)]
        if paired:
            whole = [None not in pair for pair in zip(*sides, strict=True)]
            sides = [[each for each, kept in zip(side, whole, strict=True) if kept] for side in sides]
        left, right = ([each for each in side if each is not None] for side in sides)
        return left, right


def _first_capacity(values: SeriesValues | None) -> Capacity | None:
    """Of a row: one run of it has the scenario."""
    return values.capacities[0] if values is not None and values.capacities else None


def _column(rows: Sequence[RunLevelValues], key: SeriesKey) -> Floats:
    values = np.array([_mean(row.get(key)) for row in rows], dtype=np.float64)
    return values if not np.isnan(values).all() else values[:0]


def tabulate(replicates: Replicates, ordinals: Mapping[str, set[int]]) -> ReplicateTable:
    """`ordinals` as for `run_level_values`."""
    rows = sorted({*replicates.baseline, *replicates.candidate}) if replicates.paired else None
    sides = [
        tuple(run_level_values(side.get(row, ()), ordinals) for row in rows or side)
        for side in (replicates.baseline, replicates.candidate)
    ]
    return ReplicateTable(*sides)


def measurement_design(
    replicates: Replicates, keys: Sequence[SeriesKey], earlier: Sequence[Run], ordinals: Mapping[str, set[int]]
) -> MeasurementDesign:
    """How the runs were made, with what earlier runs show of `keys`. `earlier` may contain the runs compared.

    `ordinals` are the trials that count of the runs compared, by scenario. Only those count of earlier ones, and of a
    run that lacks some, none: means over fewer trials scatter more.
    """
    compared = {
        run.key for side in (replicates.baseline, replicates.candidate) for runs in side.values() for run in runs
    }
    others = [run for run in earlier if run.key not in compared]
    of_runs = _block_sessions if replicates.paired else _version_sessions
    sessions = of_runs(others, keys, ordinals)
    return MeasurementDesign(replicates.paired, replicates.apart, sessions, replicates.interim)


def _version_sessions(
    runs: Sequence[Run], keys: Sequence[SeriesKey], ordinals: Mapping[str, set[int]]
) -> tuple[tuple[Floats, ...], ...]:
    """Runs of one version that were made together, on one host: hosts differ by more than runs do."""
    sessions: dict[object, list[Run]] = defaultdict(list)
    for run in runs:
        if (session := run.session) is not None:
            sessions[session, run.version, run.testbed.name].append(run)
    tables = [
        _matrix([_means_of_common_trials(row, ordinals) for _, row in _rows(members, paired=False)], keys)
        for members in sessions.values()
    ]
    return tuple(tuple(table.T) for table in tables if len(table) > 1)


def _block_sessions(
    runs: Sequence[Run], keys: Sequence[SeriesKey], ordinals: Mapping[str, set[int]]
) -> tuple[tuple[Floats, ...], ...]:
    """Logarithms of the ratio of the two sides of earlier blocks."""
    blocks: dict[str, dict[tuple[int, str], dict[str, list[Run]]]]
    blocks = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for run in runs:
        if run.place is not None:
            blocks[run.place.experiment][run.place.block, run.testbed.name][run.place.side].append(run)
    sessions = []
    for experiment in blocks.values():
        pairs = [sides for sides in experiment.values() if {"baseline", "candidate"} <= set(sides)]
        if len(pairs) < 2:
            continue
        left, right = (
            _matrix([_means_of_common_trials(sides[side], ordinals) for sides in pairs], keys)
            for side in ("baseline", "candidate")
        )
        sessions.append(tuple(_log_ratios(left, right, keys).T))
    return tuple(sessions)


def _means_of_common_trials(row: Sequence[Run], ordinals: Mapping[str, set[int]]) -> dict[SeriesKey, float]:
    """The mean over the runs of a row, each over its trials that count, without scenarios of which a run lacks one.

    As `run_level_values`, for many runs of which only the means are wanted.
    """
    made = [{(trial.scenario, trial.ordinal) for trial in run.trials} for run in row]
    lacking = {
        scenario
        for scenario, wanted in ordinals.items()
        for trials in made
        if any((scenario, ordinal) not in trials for ordinal in wanted) and any(each == scenario for each, _ in trials)
    }
    per_run: dict[SeriesKey, list[float]] = {}
    for run in row:
        trials = [
            trial
            for trial in run.trials
            if trial.scenario not in lacking
            and (not ordinals or trial.ordinal in ordinals.get(trial.scenario, (trial.ordinal,)))
        ]
        group = SERVER_GROUP if run.place is None else run.place.group
        parts = [(trial.scenario, trial.metrics) for trial in trials if PROMISE_KEY not in trial.workload]
        if group not in lacking:
            parts.append((group, run.metrics))
        for key, value in _means(parts).items():
            per_run.setdefault(key, []).append(value)
    return {key: sum(values) / len(values) for key, values in per_run.items()}


def _means(parts: Sequence[tuple[str, Mapping[str, float]]]) -> dict[SeriesKey, float]:
    """The mean of each series over the metrics of some scenarios."""
    if len({scenario for scenario, _ in parts}) == len(parts):  # the usual case: one trial a scenario
        return {(scenario, name): value for scenario, metrics in parts for name, value in metrics.items()}
    samples: dict[SeriesKey, list[float]] = {}
    for scenario, metrics in parts:
        for name, value in metrics.items():
            samples.setdefault((scenario, name), []).append(value)
    return {key: sum(values) / len(values) for key, values in samples.items()}


def _matrix(rows: Sequence[Mapping[SeriesKey, float]], keys: Sequence[SeriesKey]) -> Floats:
    """Shape (rows, keys); NaN where a row has none."""
    return np.array([[row.get(key, math.nan) for key in keys] for row in rows]).reshape(len(rows), len(keys))


def _log_ratios(left: Floats, right: Floats, keys: Sequence[SeriesKey]) -> Floats:
    """Of ratio metrics; NaN for others, and where a value is not positive."""
    usable = (left > 0) & (right > 0) & np.array([metric(name).scale is Scale.RATIO for _, name in keys], dtype=bool)
    return np.where(usable, np.log(np.where(usable, right, 1.0) / np.where(usable, left, 1.0)), math.nan)


def _mean(values: SeriesValues | None) -> float:
    return sum(values.per_run) / len(values.per_run) if values is not None and values.per_run else math.nan
