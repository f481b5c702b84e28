"""From runs to series: the run-level values of every metric of every scenario, on both sides."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from regress_gate.gate.accuracy import SCORES, compare_outputs
from regress_gate.gate.replicates import (
    RunLevelValues,
    SeriesValues,
    make_replicates,
    measurement_design,
    run_level_values,
    tabulate,
)
from regress_gate.gate.sides import ComparisonSide, unknown_client_doubt, workload_difference
from regress_gate.gate.variance_reduction import variance_reduced_percentile
from regress_gate.model.metric import METRICS, Direction, Metric, Scale, metric
from regress_gate.model.policy import Policy
from regress_gate.model.result import SeriesResult, SideSummary, Verdict
from regress_gate.model.run import Run, Trial
from regress_gate.stats.comparison import Comparison, compare_series
from regress_gate.stats.estimate import SeriesData, least_spread
from regress_gate.stats.membership import MeasurementDesign


@dataclass(frozen=True, slots=True)
class SeriesComparison:
    series: tuple[SeriesResult, ...]
    incomparable: Mapping[str, str]
    """Scenario → why the two sides did not do the same work."""
    one_sided: Mapping[str, str]
    """Gated series of which only one side has enough to be compared, and what is missing."""
    dead: tuple[str, ...]
    """Scenarios in which candidate runs completed nothing where all baseline runs served: what happened, in words."""
    silent: tuple[str, ...]
    """The same where the baseline did not always serve either, or was not asked: nothing is shown of them."""
    warnings: tuple[str, ...]
    circumstances: MeasurementDesign
    """How the runs were made, and what earlier ones show."""


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
    ordinals, uneven = _common_ordinals((*baseline.counted, *candidate.counted))
    left, right = (run_level_values(side.counted, ordinals) for side in (baseline, candidate))
    made = make_replicates(baseline.counted, candidate.counted, paired=paired)
    table = tabulate(made, ordinals)
    trials = [_by_scenario(side.counted) for side in (baseline, candidate)]
    incomparable = {
        scenario: difference
        for scenario in sorted(set(trials[0]) & set(trials[1]))
        if (difference := workload_difference(trials[0][scenario], trials[1][scenario]))
    }
    doubts = {
        scenario: doubt
        for scenario in sorted((set(trials[0]) & set(trials[1])) - set(incomparable))
        if (doubt := unknown_client_doubt(trials[0][scenario], trials[1][scenario]))
    }
    incomparable |= {
        scenario: "its runs have no trial in common" for scenario, common in ordinals.items() if not common
    }
    answers = compare_outputs(baseline.counted, candidate.counted)
    for scenario, found in answers.items():
        left.update({(scenario, name): SeriesValues(per_run) for name, per_run in found.baseline.items()})
        right.update({(scenario, name): SeriesValues(per_run) for name, per_run in found.candidate.items()})
    failing = [_failed_shares(values) for values in (left, right)]
    keys = sorted(set(left) | set(right), key=_series_order)
    inputs, notes = [], []
    lacking: dict[tuple[str, str], str] = {}
    for key in keys:
        known = metric(key[1])
        ours, theirs = left.get(key, SeriesValues()), right.get(key, SeriesValues())
        gated = policy.gates(known.name)
        remarks = list(answers[key[0]].notes.get(key[1], ())) if key[0] in answers else []
        unsupported = {
            name: values.smallest_trial
            for name, values in (("baseline", ours), ("candidate", theirs))
            if known.tail is not None
            and values.smallest_trial is not None
            and values.smallest_trial < known.min_requests
        }
        if gated and unsupported:
            fewest = min(unsupported.values()) or "an unknown number of"
            why = f"a trial of {fewest} requests cannot support it ({known.min_requests} can)"
            # What neither side can show is no question of this suite; what one side can and the other not is one.
            if len(unsupported) == 2 or not (ours.per_run and theirs.per_run):
                gated = False
                remarks.append(f"does not gate: {why}")
            else:
                lacking[key] = f"on the {next(iter(unsupported))} {why}"
        if key[0] in uneven:
            remarks.append(f"runs have different numbers of trials: only {uneven[key[0]]} compared")
        if key[0] in incomparable:
            remarks.append(f"not compared: {incomparable[key[0]]}")
        if known.scale is Scale.RATIO and not known.per_run:
            remarks += [
                f"{share:.1%} of the {side}'s requests failed: the survivors may look faster"
                for side, shares in zip(("baseline", "candidate"), failing, strict=True)
                if (share := shares.get(key[0], 0.0)) > 0
            ]
        data = _series_data(key, ours, theirs, policy.margin(known.name), gated)
        if known.scale is Scale.RATIO:
            values = table.values(key)
            data = replace(
                data, baseline=values[0], candidate=values[1], steadied=variance_reduced_percentile(made, key, ordinals)
            )
        inputs.append(data)
        notes.append(remarks)
    judged = [key[0] not in incomparable and key not in lacking for key in keys]
    tested = [(key, data) for key, data, counts in zip(keys, inputs, judged, strict=True) if counts]
    known_of_runs = measurement_design(made, [key for key, _ in tested], earlier, ordinals)
    outcomes = iter(_compare([data for _, data in tested], policy, known_of_runs))
    series, only_candidate = [], []
    one_sided: dict[str, str] = {}
    for key, data, remarks, counts in zip(keys, inputs, notes, judged, strict=True):
        outcome = next(outcomes) if counts else _NOT_COMPARED
        result = _series_result(key, data, outcome, remarks, policy, left.get(key), right.get(key))
        series.append(result)
        if key in lacking:
            one_sided[result.name] = lacking[key]
        elif not len(data.candidate) and data.gated:
            one_sided[result.name] = "was measured on the baseline only"
        elif not len(data.baseline) and data.gated and (key[0] in trials[0] or metric(key[1]).per_run):
            one_sided[result.name] = "was measured on the candidate only"
        elif not len(data.baseline):
            only_candidate.append(result.name)
    warnings = [f"{scenario}: {doubt}" for scenario, doubt in doubts.items()]
    gated_scores = [name for name in SCORES if policy.gates(name)]
    for scenario, found in answers.items():
        if found.only and gated_scores:
            why = f"was collected on the {found.only} only"
            one_sided.update({f"{scenario}/{name}": why for name in gated_scores})
        elif found.only:
            warnings.append(f"{scenario}: answers were collected on the {found.only} only, so they are not compared")
        elif found.incomparable and gated_scores:
            incomparable[scenario] = found.incomparable
        elif found.incomparable:
            warnings.append(f"{scenario}: answers are not compared: {found.incomparable}")
    if only_candidate:
        warnings.append(f"measured on the candidate only, so not compared: {_some_names(only_candidate)}")
    return SeriesComparison(
        tuple(series), incomparable, one_sided, *_unserved_scenarios(*trials), tuple(warnings), known_of_runs
    )


_NOT_COMPARED = Comparison(None, None, None, None, Verdict.INCONCLUSIVE, None)


def _compare(inputs: list[SeriesData], policy: Policy, known_of_runs: MeasurementDesign) -> list[Comparison]:
    # A series that only one side has takes no part in the family: it is missing, not tested.
    return compare_series(
        inputs,
        false_alarm_budget=policy.false_alarm_budget,
        confidence=policy.confidence,
        expected_cv=policy.expected_cv,
        circumstances=known_of_runs,
    )


def _common_ordinals(runs: Iterable[Run]) -> tuple[dict[str, set[int]], dict[str, str]]:
    """By scenario the trials that every run of it has, which may be none, and where that leaves some out, which they
    are, in words.

    The first trial of a server is often its slowest: one run's first must not be held against another's first three.
    """
    found: dict[str, list[set[int]]] = defaultdict(list)
    for run in runs:
        by_scenario: dict[str, set[int]] = defaultdict(set)
        for trial in run.trials:
            by_scenario[trial.scenario].add(trial.ordinal)
        for scenario, ordinals in by_scenario.items():
            found[scenario].append(ordinals)
    common = {scenario: set.intersection(*sets) for scenario, sets in found.items()}
    uneven = {
        scenario: f"trial{'s' if len(ordinals) > 1 else ''} {', '.join(map(str, sorted(ordinals)))}"
        f" {'are' if len(ordinals) > 1 else 'is'}"
        for scenario, ordinals in common.items()
        if ordinals and any(ordinals != each for each in found[scenario])
    }
    return common, uneven


def _unserved_scenarios(
    baseline: Mapping[str, list[Trial]], candidate: Mapping[str, list[Trial]]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """A candidate that serves nothing where the baseline serves has no latencies to compare, and needs none.

    Where the baseline did not always serve either it may be the scenario's doing: these are the second.
    """
    dead, silent = [], []
    for scenario, trials in sorted(candidate.items()):
        empty = sum(trial.completed == 0 for trial in trials)
        if not empty:
            continue
        what = f"{empty} of {len(trials)} trials of {scenario} completed no request on the candidate"
        others = baseline.get(scenario, [])
        if others and all(trial.completed != 0 for trial in others):
            dead.append(f"{what}, where the baseline served")
        else:
            nothing = sum(trial.completed == 0 for trial in others)
            silent.append(f"{what}, {nothing} of {len(others)} on the baseline")
    return tuple(dead), tuple(silent)


def _by_scenario(runs: Iterable[Run]) -> dict[str, list[Trial]]:
    found: dict[str, list[Trial]] = defaultdict(list)
    for run in runs:
        for trial in run.trials:
            found[trial.scenario].append(trial)
    return found


def _failed_shares(values: RunLevelValues) -> dict[str, float]:
    return {
        scenario: sum(entry.per_run) / len(entry.per_run)
        for (scenario, name), entry in values.items()
        if name == "failed_requests" and entry.per_run
    }


def _series_order(key: tuple[str, str]) -> tuple[bool, str, int, str]:
    names = list(METRICS)
    place = names.index(key[1]) if key[1] in METRICS else len(names)
    return metric(key[1]).per_run, key[0], place, key[1]


def _series_data(
    key: tuple[str, str], ours: SeriesValues, theirs: SeriesValues, margin: float, gated: bool
) -> SeriesData:
    known = metric(key[1])
    return SeriesData(
        baseline=np.asarray(ours.per_run, dtype=np.float64),
        candidate=np.asarray(theirs.per_run, dtype=np.float64),
        direction=known.direction,
        scale=known.scale,
        margin=margin,
        gated=gated,
        min_cv=least_spread(known),
        baseline_requests=ours.requests,
        candidate_requests=theirs.requests,
        scenario=None if known.per_run else key[0],
        metric=known.name,
    )


def _series_result(
    key: tuple[str, str],
    data: SeriesData,
    outcome: Comparison,
    remarks: list[str],
    policy: Policy,
    ours: SeriesValues | None,
    theirs: SeriesValues | None,
) -> SeriesResult:
    known = metric(key[1])
    return SeriesResult(
        scenario=key[0],
        metric=known.name,
        unit=known.unit,
        direction=Direction(known.direction),
        scale=known.scale,
        gated=data.gated,
        baseline=_summary(ours, known),
        candidate=_summary(theirs, known),
        change=_finite(outcome.change),
        interval=None if outcome.interval is None else (_finite(outcome.interval[0]), _finite(outcome.interval[1])),
        confidence=policy.confidence,
        p_worse=outcome.p_worse,
        q_worse=outcome.q_worse if data.gated else None,
        margin=data.margin,
        verdict=outcome.verdict,
        runs_needed=outcome.runs_needed,
        notes=[*remarks, *outcome.notes],
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


def _some_names(names: list[str], limit: int = 5) -> str:
    return ", ".join(names[:limit]) + (f" and {len(names) - limit} more" if len(names) > limit else "")
