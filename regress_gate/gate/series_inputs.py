"""Gather the series of both sides, and exclude what cannot be compared.

The first two steps of `series_comparison`: run-level values of every metric of every scenario, then the reasons why
some of them are not compared with each other. Variance-reduced percentiles need all runs to have sent the same requests
and to have recorded each of them; the percentile that is reported is that of a run's own requests. Not for the
comparison itself, and not for which runs count (`sides`).
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from regress_gate.gate.accuracy import OUTPUTS_SCENARIO, SCORES, OutputComparison, compare_outputs
from regress_gate.gate.replicates import (
    SERVER_GROUP,
    Replicates,
    ReplicateTable,
    RunLevelValues,
    SeriesKey,
    SeriesValues,
    make_replicates,
    run_level_values,
    server_group,
    tabulate,
    trial_sets,
)
from regress_gate.gate.sides import unknown_client_doubt, workload_difference
from regress_gate.model.metric import GOODPUT_METRICS, LATENCIES, METRICS, Metric, metric
from regress_gate.model.policy import Policy
from regress_gate.model.run import Run, Trial
from regress_gate.model.samples import Samples
from regress_gate.stats.estimate import variance_reduced_percentiles
from regress_gate.text import natural_key

SIDES = ("baseline", "candidate")


@dataclass(frozen=True, slots=True, eq=False)
class GatheredSeries:
    """What the runs of both sides measured. Pairs are (baseline, candidate)."""

    values: tuple[RunLevelValues, RunLevelValues]
    """Run-level values, with those of the answers to the fixed prompts."""
    trials: tuple[Mapping[str, Sequence[Trial]], Mapping[str, Sequence[Trial]]]
    """By scenario."""
    replicates: Replicates
    table: ReplicateTable
    """The values of metrics, row by row."""
    ordinals: Mapping[str, set[int]]
    """By scenario the trials that every run of it has. Only these are compared; there may be none."""
    shortened: Mapping[str, str]
    """Scenarios of which some runs have more trials than others: which trials are compared, in words."""
    answers: Mapping[str, OutputComparison] = field(default_factory=dict)

    @property
    def keys(self) -> list[SeriesKey]:
        """By scenario (c4 before c16), then as the metrics are catalogued; what a server does once comes last."""
        return sorted({*self.values[0], *self.values[1]}, key=_series_order)

    @property
    def shared_scenarios(self) -> list[str]:
        return sorted(set(self.trials[0]) & set(self.trials[1]))


@dataclass(frozen=True, slots=True)
class SeriesExclusions:
    """Why scenarios and series take no part in the comparison, or not in the gate."""

    incomparable: Mapping[str, str] = field(default_factory=dict)
    """Scenario → why the two sides did not do the same work."""
    incomparable_answers: Mapping[str, str] = field(default_factory=dict)
    """The same of answers that gate."""
    unsupported: Mapping[SeriesKey, str] = field(default_factory=dict)
    """Percentiles that gate and that one side alone has too few requests for; what other objectives counted."""
    ungated: Mapping[SeriesKey, str] = field(default_factory=dict)
    """Percentiles that no side has enough requests for, so that they do not gate."""
    gating: frozenset[SeriesKey] = frozenset()
    """The series that gate."""
    stand_ins: frozenset[SeriesKey] = frozenset()
    """Those of them that gate because nothing else of their kind was measured."""
    incomplete: Mapping[SeriesKey, str] = field(default_factory=dict)
    """Gated series that many of the candidate's runs lack, although the baseline has them: those that are left may be
    the survivors."""
    one_sided_answers: Mapping[str, str] = field(default_factory=dict)
    """Series of answers that gate and that one side alone has."""
    warnings: tuple[str, ...] = ()

    def takes_part(self, key: SeriesKey) -> bool:
        return key[0] not in self.incomparable and key not in self.unsupported


def gather_series(baseline: Sequence[Run], candidate: Sequence[Run], *, paired: bool = False) -> GatheredSeries:
    """The values of every series that either side has, from the runs that count.

    With `paired`, all runs are of blocks that both sides share.
    """
    sets = trial_sets((*baseline, *candidate))
    ordinals = {scenario: set.intersection(*ordinal_sets) for scenario, ordinal_sets in sets.items()}
    left, right = (run_level_values(runs, ordinals) for runs in (baseline, candidate))
    answers = compare_outputs(baseline, candidate)
    for scenario, outputs in answers.items():
        left.update({(scenario, name): SeriesValues(per_run) for name, per_run in outputs.baseline.items()})
        right.update({(scenario, name): SeriesValues(per_run) for name, per_run in outputs.candidate.items()})
    made = make_replicates(baseline, candidate, paired=paired)
    return GatheredSeries(
        values=(left, right),
        trials=(_trials_by_scenario(baseline), _trials_by_scenario(candidate)),
        replicates=made,
        table=tabulate(made, ordinals),
        ordinals=ordinals,
        shortened={
            scenario: _trials_text(ordinals[scenario])
            for scenario, ordinal_sets in sets.items()
            if ordinals[scenario] and any(ordinals[scenario] != each for each in ordinal_sets)
        },
        answers=answers,
    )


def exclude_series(gathered: GatheredSeries, policy: Policy) -> SeriesExclusions:
    """Scenarios whose work differs, percentiles without enough requests, and answers that one side lacks."""
    different = _different_work(gathered)
    doubts = [
        f"{scenario}: {doubt}"
        for scenario in gathered.shared_scenarios
        if scenario not in different
        and (doubt := unknown_client_doubt(*(trials[scenario] for trials in gathered.trials)))
    ]
    no_common_trial = [scenario for scenario, common in gathered.ordinals.items() if not common]
    unsupported, ungated = _without_enough_requests(gathered, policy)
    unsupported |= _by_other_objectives(gathered)
    gating = _gating_series(gathered.keys, ungated, policy)
    incomparable_answers, one_sided_answers, warnings = _excluded_answers(gathered.answers, policy)
    if unstated := scenarios_without_failures(gathered):
        doubts.append(
            f"no side states how many requests failed in {', '.join(unstated)}: failures do not gate there, and "
            "survivors may look faster"
        )
    return SeriesExclusions(
        gating=gating,
        stand_ins=frozenset(key for key in gating if not policy.gates(key[1])),
        incomplete=_incomplete_series(gathered, gating),
        incomparable=different | dict.fromkeys(no_common_trial, "its runs have no trial in common"),
        incomparable_answers=incomparable_answers,
        unsupported=unsupported,
        ungated=ungated,
        one_sided_answers=one_sided_answers,
        warnings=(*doubts, *warnings),
    )


def _different_work(gathered: GatheredSeries) -> dict[str, str]:
    """Scenario → why the two sides did not do the same work."""
    return {
        scenario: difference
        for scenario in gathered.shared_scenarios
        if (difference := workload_difference(*(trials[scenario] for trials in gathered.trials)))
    }


def _by_other_objectives(gathered: GatheredSeries) -> dict[SeriesKey, str]:
    """What the two sides counted by different objectives: an import may state any."""
    found: dict[SeriesKey, str] = {}
    for scenario in gathered.shared_scenarios:
        sides = [
            {json.dumps(slo, sort_keys=True) for one in trials[scenario] if (slo := one.workload.get("slo"))}
            for trials in gathered.trials
        ]
        if all(sides) and sides[0] != sides[1]:
            why = f"was counted by other objectives: {' or '.join(sorted(sides[0]))} → {' or '.join(sorted(sides[1]))}"
            found |= {(scenario, name): why for name in GOODPUT_METRICS if (scenario, name) in gathered.keys}
    return found


def _without_enough_requests(
    gathered: GatheredSeries, policy: Policy
) -> tuple[dict[SeriesKey, str], dict[SeriesKey, str]]:
    """Gated percentiles that a trial is too small for: on one side only, and on all sides that have them.

    What neither side can show is no question of this suite; what one side can show and the other cannot is one.
    """
    unsupported: dict[SeriesKey, str] = {}
    ungated: dict[SeriesKey, str] = {}
    for key in gathered.keys:
        known = metric(key[1])
        pair = [values.get(key, SeriesValues()) for values in gathered.values]
        too_small = {
            side: values.smallest_trial
            for side, values in zip(SIDES, pair, strict=True)
            if values.smallest_trial is not None and not _supports(known, values.smallest_trial)
        }
        if not too_small or not policy.gates(known.name):
            continue
        fewest = min(too_small.values()) or "an unknown number of"
        why = f"a trial of {fewest} requests cannot support it ({known.min_requests} can)"
        if len(too_small) == len(SIDES) or not all(values.per_run for values in pair):
            ungated[key] = why
        else:
            unsupported[key] = f"on the {next(iter(too_small))} {why}"
    return unsupported, ungated


def _gating_series(keys: Iterable[SeriesKey], ungated: Mapping[SeriesKey, str], policy: Policy) -> frozenset[SeriesKey]:
    measured: dict[str, list[str]] = defaultdict(list)
    for scenario, name in keys:
        measured[scenario].append(name)
    unsupported = {scenario: {name for each, name in ungated if each == scenario} for scenario in measured}
    return frozenset(
        (scenario, name)
        for scenario, names in measured.items()
        for name in policy.gating_metrics(names, unsupported[scenario])
    )


LARGEST_GAP = 0.25
"""Difference between the shares of the baseline's and the candidate's runs that have a series, beyond which the
candidate's runs that have it say nothing of the others."""


def _incomplete_series(gathered: GatheredSeries, gating: Iterable[SeriesKey]) -> dict[SeriesKey, str]:
    made = gathered.replicates
    sides = [[run for row in side.values() for run in row] for side in (made.baseline, made.candidate)]
    incomplete: dict[SeriesKey, str] = {}
    for key in gating:
        have = [len(values[key].per_run) if key in values else 0 for values in gathered.values]
        starts = [_starts_that_could_have(key, runs, sides) for runs in sides]
        if not all(have) or not all(starts):
            continue  # measured on one side only, which is said elsewhere
        if have[0] / starts[0] - have[1] / starts[1] > LARGEST_GAP:
            incomplete[key] = (
                f"only {have[1]} of {starts[1]} runs of the candidate, where {have[0]} of {starts[0]} of the baseline "
                "have it"
            )
    return incomplete


def _starts_that_could_have(key: SeriesKey, runs: Sequence[Run], sides: Sequence[Sequence[Run]]) -> int:
    """How many of the runs are of a server that measures the series: a suite may have several."""
    scenario, name = key
    if name == "startup_time":  # a cold start is another metric
        runs = [run for run in runs if run.place is None or not run.place.cold]
    if metric(name).per_run:
        groups = {scenario, SERVER_GROUP + scenario.removeprefix(OUTPUTS_SCENARIO)}
    else:
        groups = {
            server_group(run) for side in sides for run in side if any(t.scenario == scenario for t in run.trials)
        }
    return sum(server_group(run) in groups for run in runs)


def scenarios_without_failures(gathered: GatheredSeries) -> list[str]:
    """Scenarios with requests of which neither side says how many failed."""
    requests = {key[0] for key in gathered.keys if not metric(key[1]).per_run and key[1].startswith(_OF_REQUESTS)}
    stated = {scenario for values in gathered.values for scenario, name in values if name == "failed_requests"}
    return sorted(requests - stated)


_OF_REQUESTS = (*LATENCIES, "request_throughput", "output_throughput", "goodput")


def _supports(known: Metric, requests: int) -> bool:
    return known.tail is None or requests >= known.min_requests


def _excluded_answers(
    answers: Mapping[str, OutputComparison], policy: Policy
) -> tuple[dict[str, str], dict[str, str], list[str]]:
    """By scenario those that are not comparable, by series those of one side, and warnings where answers do not
    gate."""
    gated = [name for name in SCORES if policy.gates(name)]
    incomparable: dict[str, str] = {}
    one_sided: dict[str, str] = {}
    warnings: list[str] = []
    for scenario, outputs in answers.items():
        if outputs.only and gated:
            one_sided |= {f"{scenario}/{name}": f"was collected on the {outputs.only} only" for name in gated}
        elif outputs.only:
            warnings.append(f"{scenario}: answers were collected on the {outputs.only} only, so they are not compared")
        elif outputs.incomparable and gated:
            incomparable[scenario] = outputs.incomparable
        elif outputs.incomparable:
            warnings.append(f"{scenario}: answers are not compared: {outputs.incomparable}")
    return incomparable, one_sided, warnings


def _trials_by_scenario(runs: Iterable[Run]) -> dict[str, list[Trial]]:
    trials: dict[str, list[Trial]] = defaultdict(list)
    for run in runs:
        for trial in run.trials:
            trials[trial.scenario].append(trial)
    return trials


def _trials_text(ordinals: set[int]) -> str:
    listed = ", ".join(map(str, sorted(ordinals)))
    return f"trials {listed} are" if len(ordinals) > 1 else f"trial {listed} is"


def _series_order(key: SeriesKey) -> tuple[bool, tuple[Any, ...], int, str]:
    names = list(METRICS)
    place = names.index(key[1]) if key[1] in METRICS else len(names)
    return metric(key[1]).per_run, natural_key(key[0]), place, key[1]


Floats = npt.NDArray[np.float64]


def _decoding_seconds(samples: Samples) -> Floats:
    """Shape (n,): seconds from the first token to the last."""
    total = np.concatenate([[0.0], np.cumsum(samples.itl)])
    return np.asarray(total[samples.itl_start[1:]] - total[samples.itl_start[:-1]])


def _end_to_end_seconds(samples: Samples) -> Floats:
    """Shape (n,): seconds to the last token; 0 where the client kept no gaps, so that it is not known."""
    known = (np.diff(samples.itl_start) > 0) | (samples.output_tokens <= 1)
    return np.where(known, samples.ttft + _decoding_seconds(samples), 0.0)


REQUEST_LATENCIES: dict[str, Callable[[Samples], Floats]] = {
    "ttft": lambda samples: samples.ttft,
    "tpot": lambda samples: _decoding_seconds(samples) / np.maximum(samples.output_tokens - 1, 1),
    "e2el": _end_to_end_seconds,
}
"""Latencies that every request has."""


def request_latencies(samples: Samples | None, latency: str) -> Floats | None:
    """Seconds of every request that succeeded and has this latency, ascending; None without stored requests."""
    if samples is None:
        return None
    values = REQUEST_LATENCIES[latency](samples)
    return np.sort(values[samples.ok & np.isfinite(values) & (values > 0)])


def needs_samples(names: Sequence[str]) -> bool:
    """Whether a percentile among these metrics has a variance-reduced form."""
    return any(metric(name).tail is not None and name.rpartition("_")[0] in REQUEST_LATENCIES for name in names)


def variance_reduced_percentile(
    made: Replicates, key: tuple[str, str], ordinals: Mapping[str, set[int]]
) -> tuple[Floats, Floats] | None:
    """The percentile in logarithms, as values of the rows of both sides; None where the requests do not allow it.

    Every run must have recorded the same number of requests, with the same prompt lengths in the same order.
    """
    scenario, name = key
    known, measure = metric(name), REQUEST_LATENCIES.get(name.rpartition("_")[0])
    rows = [runs for side in (made.baseline, made.candidate) for runs in side.values()]
    if known.tail is None or measure is None or any(len(runs) != 1 for runs in rows):
        return None
    percentiles = []
    for ordinal in sorted(ordinals.get(scenario, ())):
        samples = [_samples(runs[0], scenario, ordinal) for runs in rows]
        logs = _same_requests([each for each in samples if each is not None], measure)
        if logs is None or len(logs) != len(rows) or logs.shape[1] < known.min_requests:
            return None
        count = len(made.baseline)
        percentiles.append(np.concatenate(variance_reduced_percentiles(logs[:count], logs[count:], known.tail)))
    if not percentiles:
        return None
    values = np.mean(percentiles, axis=0)
    return values[: len(made.baseline)], values[len(made.baseline) :]


def _samples(run: Run, scenario: str, ordinal: int) -> Samples | None:
    trials = (trial for trial in run.trials if trial.scenario == scenario and trial.ordinal == ordinal)
    return next((trial.samples for trial in trials), None)


def _same_requests(samples: Sequence[Samples], measure: Callable[[Samples], Floats]) -> Floats | None:
    """Shape (runs, requests): logarithms of those that all runs answered; None where prompts differ."""
    if not samples or any(len(each) != len(samples[0]) for each in samples):
        return None
    if any((each.input_tokens != samples[0].input_tokens).any() for each in samples):
        return None
    values = np.vstack([measure(each) for each in samples])
    usable = np.all([each.ok for each in samples], axis=0) & (values > 0).all(axis=0)
    return np.log(values[:, usable])
