"""Compare every series of two sides, in four steps: gather, exclude, compare, conclude.

`gather_series` and `exclude_series` are in `series_inputs`. `compare_gathered` asks the statistics about all series
that take part, as one family. `conclude` makes of it the series of a result and what is missing among them. Not for the
decision (`decide`), nor for which runs count (`sides`).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from regress_gate.gate.host_effects import compare_hosts
from regress_gate.gate.replicates import (
    RunLevelValues,
    SeriesKey,
    SeriesValues,
    measurement_design,
    shared_trials,
)
from regress_gate.gate.series_inputs import (
    REQUEST_LATENCIES,
    SIDES,
    GatheredSeries,
    SeriesExclusions,
    exclude_series,
    gather_series,
    request_latencies,
    scenarios_without_failures,
    variance_reduced_percentile,
)
from regress_gate.gate.sides import ComparisonSide
from regress_gate.measurement.request_statistics import PERCENTILES, percentile
from regress_gate.model.metric import CAPACITY, Direction, Metric, Scale, metric
from regress_gate.model.policy import Policy
from regress_gate.model.result import DistributionOut, HostOut, QuantilesOut, SeriesResult, SideSummary, Verdict
from regress_gate.model.run import Run, Trial
from regress_gate.stats.capacity import is_cliff
from regress_gate.stats.comparison import Comparison, compare_series
from regress_gate.stats.estimate import SeriesData, least_spread
from regress_gate.stats.multiplicity import MeasurementDesign
from regress_gate.text import plural

_MAX_NAMED_SERIES = 5
_NOT_COMPARED = Comparison(None, None, None, None, Verdict.UNDECIDED, None)


@dataclass(frozen=True, slots=True)
class SeriesComparison:
    """The series of a result, and what a decision has to know beside them."""

    series: tuple[SeriesResult, ...]
    incomparable: Mapping[str, str]
    """Scenario → why the two sides did not do the same work."""
    one_sided: Mapping[str, str]
    """Gated series of which only one side has enough to be compared, and what is missing."""
    incomplete: Mapping[str, str]
    """Gated series that many of the candidate's runs lack and the baseline's have not: in how many runs they are."""
    unstated_failures: tuple[str, ...]
    """Scenarios of which neither side says how many requests failed."""
    unserved: tuple[str, ...]
    """Scenarios in which candidate runs completed nothing where all baseline runs served: what happened, in words."""
    unclear: tuple[str, ...]
    """The same where the baseline did not always serve either, or was not asked: nothing is shown of them."""
    warnings: tuple[str, ...]
    design: MeasurementDesign
    """How the runs were made, and what earlier ones show."""
    hosts: tuple[HostOut, ...] = ()
    """Of several hosts that were compared together."""


@dataclass(frozen=True, slots=True)
class ComparedSeries:
    """One series with what the statistics say of it."""

    key: SeriesKey
    data: SeriesData
    outcome: Comparison
    remarks: tuple[str, ...]
    """What a reader has to know of the values, before the notes of the statistics."""


def compare_all_series(
    baseline: ComparisonSide,
    candidate: ComparisonSide,
    policy: Policy,
    *,
    paired: bool = False,
    earlier: Sequence[Run] = (),
) -> SeriesComparison:
    """Compare every series that either side has; the order is by scenario, then as the metrics are catalogued.

    With `paired`, all runs are of blocks that both sides share. `earlier` runs, of any version, on the same suite and
    testbed say what spread is usual; they may hold those compared.
    """
    gathered = gather_series(baseline.counted, candidate.counted, paired=paired)
    exclusions = exclude_series(gathered, policy)
    compared, design = compare_gathered(gathered, exclusions, policy, earlier)
    alike = [one.data for one in compared if exclusions.takes_part(one.key)]
    hosts = compare_hosts(gathered.replicates, alike, policy)
    return replace(conclude(gathered, exclusions, compared, design, policy), hosts=tuple(hosts))


def compare_gathered(
    gathered: GatheredSeries, exclusions: SeriesExclusions, policy: Policy, earlier: Sequence[Run] = ()
) -> tuple[list[ComparedSeries], MeasurementDesign]:
    """All series in the order of `GatheredSeries.keys`, and the design that those which take part were compared by.

    A series that only one side has takes no part in the family: it is missing, not tested.
    """
    keys = gathered.keys
    inputs = {key: _series_data(key, gathered, exclusions, policy) for key in keys}
    members = [key for key in keys if exclusions.takes_part(key)]
    design = measurement_design(gathered.replicates, members, earlier, gathered.ordinals)
    outcomes = compare_series(
        [inputs[key] for key in members],
        false_alarm_budget=policy.false_alarm_budget,
        confidence=policy.confidence,
        expected_cv=policy.expected_cv,
        design=design,
    )
    known = dict(zip(members, outcomes, strict=True))
    return [
        ComparedSeries(key, data, known.get(key, _NOT_COMPARED), _remarks(key, gathered, exclusions))
        for key, data in inputs.items()
    ], design


def conclude(
    gathered: GatheredSeries,
    exclusions: SeriesExclusions,
    compared: Sequence[ComparedSeries],
    design: MeasurementDesign,
    policy: Policy,
) -> SeriesComparison:
    """The series as a result has them, with those that one side alone has set apart."""
    one_sided: dict[str, str] = {}
    ungated_on_candidate: list[str] = []
    for one in compared:
        name = f"{one.key[0]}/{one.key[1]}"
        if one.key in exclusions.unsupported and one.data.gated:
            one_sided[name] = exclusions.unsupported[one.key]
        elif not len(one.data.candidate) and one.data.gated:
            one_sided[name] = "was measured on the baseline only"
        elif not len(one.data.baseline) and one.data.gated and _baseline_has_scenario(one.key, gathered):
            one_sided[name] = "was measured on the candidate only"
        elif not len(one.data.baseline):
            ungated_on_candidate.append(name)
    warnings = list(exclusions.warnings)
    if ungated_on_candidate:
        warnings.append(f"measured on the candidate only, so not compared: {_some_names(ungated_on_candidate)}")
    unserved, unclear = _unserved_scenarios(*gathered.trials)
    return SeriesComparison(
        series=tuple(_series_result(one, gathered, policy) for one in compared),
        incomparable={**exclusions.incomparable, **exclusions.incomparable_answers},
        one_sided={**one_sided, **exclusions.one_sided_answers},
        incomplete={f"{key[0]}/{key[1]}": why for key, why in exclusions.incomplete.items()},
        unstated_failures=tuple(scenarios_without_failures(gathered)),
        unserved=unserved,
        unclear=unclear,
        warnings=tuple(warnings),
        design=design,
    )


def _baseline_has_scenario(key: SeriesKey, gathered: GatheredSeries) -> bool:
    return key[0] in gathered.trials[0] or metric(key[1]).per_run


def _series_data(key: SeriesKey, gathered: GatheredSeries, exclusions: SeriesExclusions, policy: Policy) -> SeriesData:
    """What the statistics are given: run-level values, of ratio metrics row by row."""
    known = metric(key[1])
    ours, theirs = (values.get(key, SeriesValues()) for values in gathered.values)
    data = SeriesData(
        baseline=np.asarray(ours.per_run, dtype=np.float64),
        candidate=np.asarray(theirs.per_run, dtype=np.float64),
        direction=known.direction,
        scale=known.scale,
        margin=policy.margin(known.name),
        gated=key in exclusions.gating,
        min_cv=least_spread(known),
        baseline_requests=ours.requests,
        candidate_requests=theirs.requests,
        scenario=None if known.per_run else key[0],
        metric=known.name,
    )
    if known.scale is not Scale.RATIO:
        return data
    baseline, candidate = gathered.table.values(key)
    if known.name == CAPACITY:
        servers = gathered.table.capacities(key, paired=gathered.replicates.paired)
        return replace(data, baseline=baseline, candidate=candidate, capacities=servers)
    reduced = variance_reduced_percentile(gathered.replicates, key, gathered.ordinals)
    return replace(data, baseline=baseline, candidate=candidate, variance_reduced=reduced)


def _remarks(key: SeriesKey, gathered: GatheredSeries, exclusions: SeriesExclusions) -> tuple[str, ...]:
    scenario, name = key
    remarks = list(gathered.answers[scenario].notes.get(name, ())) if scenario in gathered.answers else []
    if key in exclusions.unsupported:
        remarks.append(f"not compared: {exclusions.unsupported[key]}")
    if key in exclusions.ungated:
        remarks.append(f"does not gate: {exclusions.ungated[key]}")
    if key in exclusions.stand_ins:
        remarks.append("gates because nothing else of its kind was measured")
    if key in exclusions.incomplete:
        remarks.append(f"in {exclusions.incomplete[key]}")
    if scenario in gathered.shortened:
        remarks.append(f"runs have different numbers of trials: only {gathered.shortened[scenario]} compared")
    if scenario in exclusions.incomparable:
        remarks.append(f"not compared: {exclusions.incomparable[scenario]}")
    known = metric(name)
    if known.name == CAPACITY:
        return (*remarks, *_capacity_remarks(key, gathered))
    if known.scale is Scale.RATIO and not known.per_run:
        remarks += [
            f"{share:.1%} of the {side}'s requests failed: the survivors may look faster"
            for side, values in zip(SIDES, gathered.values, strict=True)
            if (share := _failed_share(values, scenario)) > 0
        ]
    return tuple(remarks)


def carried_text(change: float | None, interval: tuple[float | None, float | None] | None) -> str | None:
    """A loss of capacity in words: `at your promise the candidate carries 12 % [8, 15] fewer requests`."""
    if change is None:
        return None
    sign = 1 if change >= 0 else -1
    ends = [] if interval is None else [*interval][::sign]
    # A loss of everything is what the statistics give for a bound that they do not know.
    shown = ["no end" if end is None or end >= 1 else f"{100 * sign * end:.0f}" for end in ends]
    bounds = f" [{', '.join(shown)}]" if shown else ""
    word = "fewer" if change >= 0 else "more"
    return f"at your promise the candidate carries {100 * abs(change):.0f} %{bounds} {word} requests"


def _capacity_remarks(key: SeriesKey, gathered: GatheredSeries) -> list[str]:
    """Of the curves: cliffs, and servers whose curve does not cross the promise within the rates."""
    known = {side: values[key].capacities for side, values in zip(SIDES, gathered.values, strict=True) if key in values}
    steep = [f"the {side}" for side, capacities in known.items() if is_cliff(capacities)]
    remarks = []
    if steep:
        falls = "fall" if len(steep) > 1 else "falls"
        remarks.append(f"{' and '.join(steep)} {falls} off a cliff: just above it, most requests break the promise")
    for side, capacities in known.items():
        for bound, what in (("at_least", "at every rate"), ("below", "at no rate")):
            count = sum(each.bound == bound for each in capacities)
            if count:
                starts = f"{count} of {plural(len(capacities), 'start')} of the {side}"
                remarks.append(f"{starts} kept the promise {what}, so their capacity is only bounded")
    return remarks


def _failed_share(values: RunLevelValues, scenario: str) -> float:
    failed = values.get((scenario, "failed_requests"))
    return sum(failed.per_run) / len(failed.per_run) if failed is not None and failed.per_run else 0.0


def _unserved_scenarios(
    baseline: Mapping[str, Sequence[Trial]], candidate: Mapping[str, Sequence[Trial]]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """A candidate that serves nothing where the baseline serves has no latencies to compare, and needs none.

    Where the baseline did not always serve either, the scenario itself may be the cause: these are the second.
    """
    unserved, unclear = [], []
    for scenario, trials in sorted(candidate.items()):
        empty = sum(trial.completed == 0 for trial in trials)
        if not empty:
            continue
        text = f"{empty} of {len(trials)} trials of {scenario} completed no request on the candidate"
        others = baseline.get(scenario, [])
        if others and all(trial.completed != 0 for trial in others):
            unserved.append(f"{text}, where the baseline served")
        else:
            nothing = sum(trial.completed == 0 for trial in others)
            unclear.append(f"{text}, {nothing} of {len(others)} on the baseline")
    return tuple(unserved), tuple(unclear)


def _series_result(compared: ComparedSeries, gathered: GatheredSeries, policy: Policy) -> SeriesResult:
    key, data, outcome = compared.key, compared.data, compared.outcome
    known = metric(key[1])
    baseline, candidate = (_summary(values.get(key), known) for values in gathered.values)
    change = _finite(outcome.change)
    interval = None if outcome.interval is None else (_finite(outcome.interval[0]), _finite(outcome.interval[1]))
    carried = carried_text(change, interval) if known.name == CAPACITY else None
    return SeriesResult(
        scenario=key[0],
        metric=known.name,
        unit=known.unit,
        direction=Direction(known.direction),
        scale=known.scale,
        gated=data.gated,
        baseline=baseline,
        candidate=candidate,
        change=change,
        interval=interval,
        confidence=policy.confidence,
        p_worse=outcome.p_worse,
        q_worse=outcome.q_worse if data.gated else None,
        margin=data.margin,
        verdict=outcome.verdict,
        runs_needed=outcome.runs_needed,
        notes=[*([carried] if carried else []), *compared.remarks, *outcome.notes],
    )


def _summary(values: SeriesValues | None, known: Metric) -> SideSummary:
    if values is None or not values.per_run:
        return SideSummary(mean=None, runs=0)
    array = np.asarray(values.per_run)
    if not np.isfinite(array).all():
        return SideSummary(mean=None, runs=len(array), requests=values.requests or None)
    geometric = known.scale is Scale.RATIO and array.min() > 0
    mean = float(np.exp(np.log(array).mean()) if geometric else array.mean())
    cv = None
    if len(array) > 1:
        deviation = float(array.std(ddof=1))
        cv = 0.0 if deviation == 0 else deviation / abs(mean) if mean else None
    return SideSummary(mean=mean, runs=len(array), cv=cv, requests=values.requests or None)


def _finite(value: float | None) -> float | None:
    """JSON has no infinity: a bound without end is null."""
    return value if value is not None and math.isfinite(value) else None


def _some_names(names: Sequence[str]) -> str:
    rest = len(names) - _MAX_NAMED_SERIES
    return ", ".join(names[:_MAX_NAMED_SERIES]) + (f" and {rest} more" if rest > 0 else "")


# Distributions, for pictures

_MOST_SCENARIOS = 8
"""Scenarios of which a result holds the distributions."""
_LEVELS = (0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.975, 0.99)
_SUMMARY_LEVELS = {percent / 100: name for name, percent in PERCENTILES.items()}


def distributions(
    series: Sequence[SeriesResult], baseline: Sequence[Run], candidate: Sequence[Run]
) -> list[DistributionOut]:
    """Of the latencies of the scenarios that lost most, for those that gate in some way: percentiles of each run's
    requests, never of the requests of several runs. Takes the runs that count."""
    ordinals = shared_trials((*baseline, *candidate))
    out = []
    at_rates = {one.scenario for one in series if one.metric == CAPACITY}
    for scenario in [each for each in _scenarios_by_loss(series) if each not in at_rates][:_MOST_SCENARIOS]:
        for latency in REQUEST_LATENCIES:
            sides = [
                [trials for run in runs if (trials := _trials_that_count(run, scenario, ordinals))]
                for runs in (baseline, candidate)
            ]
            if all(sides) and (found := _distribution(scenario, latency, sides)) is not None:
                out.append(found)
    return out


def _scenarios_by_loss(series: Sequence[SeriesResult]) -> list[str]:
    worst: dict[str, float] = {}
    for one in series:
        if one.gated and one.change is not None:
            worst[one.scenario] = max(worst.get(one.scenario, -math.inf), one.change / one.margin)
    return sorted(worst, key=lambda scenario: -worst[scenario])


def _trials_that_count(run: Run, scenario: str, ordinals: Mapping[str, set[int]]) -> list[Trial]:
    return [trial for trial in run.trials if trial.scenario == scenario and trial.ordinal in ordinals[scenario]]


def _distribution(scenario: str, latency: str, sides: Sequence[Sequence[Sequence[Trial]]]) -> DistributionOut | None:
    """`sides`: the trials of each run. None where a run's requests or statistics are not stored."""
    trials = [trial for side in sides for run in side for trial in run]
    stored = {
        id(trial): values for trial in trials if (values := request_latencies(trial.samples, latency)) is not None
    }
    fewest = min((len(values) for values in stored.values()), default=0) if len(stored) == len(trials) else 0
    levels = [level for level in _LEVELS if round(min(level, 1 - level) * fewest, 9) >= 1]
    if from_samples := len(levels) > 1:
        per_trial = {id(trial): [percentile(stored[id(trial)], 100 * level) for level in levels] for trial in trials}
    else:
        names = {level: f"{latency}_{name}" for level, name in _SUMMARY_LEVELS.items()}
        levels = [level for level, name in names.items() if all(_supports_percentile(trial, name) for trial in trials)]
        per_trial = {id(trial): [trial.metrics[names[level]] for level in levels] for trial in trials}
    if len(levels) < 2:
        return None
    baseline, candidate = (
        quantiles_of_runs(np.array([np.mean([per_trial[id(trial)] for trial in run], axis=0) for run in side]))
        for side in sides
    )
    return DistributionOut(
        scenario=scenario,
        latency=latency,
        source="samples" if from_samples else "summary",
        levels=levels,
        baseline=baseline,
        candidate=candidate,
    )


def _supports_percentile(trial: Trial, name: str) -> bool:
    return name in trial.metrics and (trial.requests or 0) >= metric(name).min_requests


_QUANTILE_CONFIDENCE = 0.9
_LARGEST_LOG = 600.0
"""What two runs leave open may be more than a number holds."""


def quantiles_of_runs(per_run: npt.NDArray[np.float64]) -> QuantilesOut:
    """`per_run`: shape (runs, levels). The interval is Student's of the mean over runs, of logarithms where all values
    are above zero."""
    is_ratio, runs = (per_run > 0).all(axis=0), len(per_run)
    values = np.where(is_ratio, np.log(np.where(is_ratio, per_run, 1.0)), per_run)
    means = values.mean(axis=0)

    def numbers(each: npt.NDArray[np.float64]) -> list[float]:
        return [float(f"{value:.6g}") for value in each.tolist()]

    def shown(each: npt.NDArray[np.float64]) -> list[float]:
        return numbers(
            np.where(is_ratio, np.exp(np.where(is_ratio, np.clip(each, -_LARGEST_LOG, _LARGEST_LOG), 0.0)), each)
        )

    interval = list[list[float]]([[], []])
    if runs > 1:
        reach = float(stdtrit(runs - 1, 0.5 + _QUANTILE_CONFIDENCE / 2))
        half = reach * values.std(axis=0, ddof=1) / math.sqrt(runs)
        interval = [shown(means - half), shown(means + half)]
    return QuantilesOut(
        values=shown(means),
        lowest=numbers(per_run.min(axis=0)),
        highest=numbers(per_run.max(axis=0)),
        interval_low=interval[0],
        interval_high=interval[1],
        runs=runs,
    )
