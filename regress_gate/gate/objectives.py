"""Service-level objectives: whether the candidate keeps limits that do not depend on the baseline.

An objective is kept when the whole interval of the candidate's level over fresh servers lies within the limit. It is
broken when the level is shown to be beyond it; in between nothing is shown. What the baseline is shown to break as well
is carried over: no reason to stay. Requests that failed count as never answered: leaving them out would make a server
that drops its slowest requests look fast. Not for losses against the baseline, which are `series_comparison`'s matter.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

import numpy as np

from regress_gate.gate.reasons import WaiverBook
from regress_gate.gate.replicates import server_group, trial_metrics
from regress_gate.gate.series_inputs import REQUEST_LATENCIES, request_latencies
from regress_gate.measurement.request_statistics import percentile
from regress_gate.model.metric import Direction, Metric, metric
from regress_gate.model.policy import Policy, objective_limit
from regress_gate.model.result import ObjectiveOut, ObjectiveSide, Reason, ReasonCode
from regress_gate.model.run import Run, Trial
from regress_gate.model.version import Version
from regress_gate.stats.design import InterimStage, nominal_level
from regress_gate.stats.estimate import Level, estimate_level, least_spread
from regress_gate.text import natural_key, plural

State = Literal["kept", "broken", "carried", "unclear"]
WAIVER_PREFIX = "slo:"
"""Before the name of the series, in the finding of a waiver."""
_NOTHING_STATED = "how many requests failed is not stated"


@dataclass(frozen=True, slots=True)
class _SideLevels:
    """One series on one side."""

    shown: Level | None
    """At the confidence of the report. None: there is no value that counts."""
    sure: Level | None
    """At the level that shows an objective to be broken, over all of them together."""
    unknown: str
    """Why there is none."""


@dataclass(frozen=True, slots=True)
class _Confidences:
    """Of two-sided intervals."""

    shown: float
    sure: float


def judge_objectives(
    baseline: Sequence[Run],
    candidate: Sequence[Run],
    policy: Policy,
    *,
    earlier: Sequence[Run] = (),
    interim: InterimStage | None = None,
) -> list[ObjectiveOut]:
    """Every objective of every scenario that has its metric on either side. Takes the runs that count; `earlier` runs,
    of any version on the same suite and testbed, help to know the spread between servers."""
    wanted = _wanted([*baseline, *candidate], policy)
    if not wanted:
        return []
    confidences = _Confidences(
        1 - 2 * nominal_level((1 - policy.confidence) / 2, interim),
        1 - 2 * nominal_level(policy.false_alarm_budget / len(wanted), interim),
    )
    compared = {run.key for run in (*baseline, *candidate)}
    others = [run for run in earlier if run.key not in compared and run.failure is None]
    judged = []
    for (scenario, name), limit in wanted.items():
        known = metric(name)
        groups = _by_version(others, scenario, known)
        levels = []
        for own, other in ((baseline, candidate), (candidate, baseline)):
            levels.append(_levels(own, [*groups, _known(other, scenario, known)], scenario, known, confidences))
        judged.append(_judge(scenario, known, limit, levels[0], levels[1]))
    return judged


def weigh_objectives(objectives: Sequence[ObjectiveOut], policy: Policy, book: WaiverBook) -> list[Reason]:
    """The reasons that they give, and one for each that no scenario has measured. A waiver covers `slo:SERIES`, up to
    the share of the limit by which it may be missed."""
    codes = {
        "broken": ReasonCode.SLO_BROKEN,
        "carried": ReasonCode.SLO_CARRIED,
        "unclear": ReasonCode.SLO_UNCLEAR,
    }
    reasons = []
    for one in objectives:
        if one.state == "kept":
            continue
        is_waived = one.state != "carried" and book.covers(f"{WAIVER_PREFIX}{one.name}", _overshoot(one))
        is_missing = one.state == "unclear" and not one.candidate.runs  # more runs of the same would show nothing
        code = ReasonCode.MISSING_SERIES if is_missing else codes[one.state]
        reasons.append(Reason(code=ReasonCode.WAIVED if is_waived else code, text=one.text))
    for key in policy.slo:
        if not any(is_meant(key, one.scenario, one.metric) for one in objectives):
            text = f"the objective {key} has no series: no scenario measured it, with enough requests for it"
            reasons.append(Reason(code=ReasonCode.MISSING_SERIES, text=text))
    return reasons


def _overshoot(one: ObjectiveOut) -> float:
    """By how much of the limit the candidate may miss it."""
    low, high = one.candidate.interval or (None, None)
    worst = high if one.direction is Direction.LOWER else low
    if worst is None:
        return math.inf
    return worst / one.limit - 1 if one.direction is Direction.LOWER else 1 - worst / one.limit


def is_meant(key: str, scenario: str, name: str) -> bool:
    """Whether a key of `[gate.slo]` is about this series."""
    pattern, slash, wanted = key.rpartition("/")
    return wanted == name and (not slash or fnmatchcase(scenario, pattern))


def unjudged_objectives(runs: Sequence[Run], policy: Policy) -> list[str]:
    """Scenarios that are left out of an objective although its key may be thought to hold for them, in words: for a
    key without scenarios those with too few requests, for one with a pattern those that do not measure its metric."""
    series = _series(runs)
    left_out: dict[tuple[str, str], list[str]] = defaultdict(list)
    for one, key in _holding_keys(series, policy).items():
        if not _is_judged(one, series[one], policy):
            sent_most = max(trial.requests or 0 for trial in series[one])
            why = f"a {_statistic(one[1])} needs {metric(one[1]).min_requests}"
            left_out[key, why].append(f"{one[0]} ({plural(sent_most, 'request')})")
    sent = {trial.scenario for run in runs for trial in run.trials}
    for key in policy.slo:
        pattern, slash, name = key.rpartition("/")
        missing = [one for one in sent if slash and fnmatchcase(one, pattern) and (one, name) not in series]
        if missing and len(missing) < len(sent) and not metric(name).per_run:
            left_out[key, "it is not measured there"] += missing
    return [
        f"the objective {key} is not judged in {', '.join(sorted(names, key=natural_key))}: {why}"
        for (key, why), names in left_out.items()
    ]


def _wanted(runs: Iterable[Run], policy: Policy) -> dict[tuple[str, str], float]:
    """Series to limit; of several keys that mean a series the last one holds."""
    if not policy.slo:
        return {}
    series = _series(runs)
    keys = _holding_keys(series, policy)
    return {
        one: objective_limit(key, policy.slo[key]) for one, key in keys.items() if _is_judged(one, series[one], policy)
    }


def _series(runs: Iterable[Run]) -> dict[tuple[str, str], list[Trial]]:
    """With the trials that measure it; none for what is measured once per server start."""
    series: dict[tuple[str, str], list[Trial]] = defaultdict(list)
    for run in runs:
        for trial in run.trials:
            for name in trial_metrics(trial):
                series[trial.scenario, name].append(trial)
        series |= {(server_group(run), name): [] for name in run.metrics}
    return series


def _holding_keys(series: Iterable[tuple[str, str]], policy: Policy) -> dict[tuple[str, str], str]:
    return {one: key for key in policy.slo for one in series if is_meant(key, *one)}


def _is_judged(one: tuple[str, str], trials: Sequence[Trial], policy: Policy) -> bool:
    """Whether a series can show its statistic, or a key names its scenario: then too few requests show nothing."""
    is_named = any("/" in key and is_meant(key, *one) for key in policy.slo)
    return is_named or not trials or any(supports_statistic(trial, one[1]) for trial in trials)


def _statistic(name: str) -> str:
    return name.rpartition("_")[2]


def supports_statistic(trial: Trial, name: str) -> bool:
    """Whether a trial has enough requests for a percentile: of fewer it is only the slowest of them."""
    return trial.requests is None or trial.requests >= metric(name).min_requests


# Values


def _known(runs: Iterable[Run], scenario: str, known: Metric) -> list[float]:
    values = (_run_value(run, scenario, known)[0] for run in runs)
    return [value for value in values if value is not None]


def _by_version(runs: Iterable[Run], scenario: str, known: Metric) -> list[list[float]]:
    groups: dict[Version, list[Run]] = defaultdict(list)
    for run in runs:
        groups[run.version].append(run)
    return [_known(group, scenario, known) for group in groups.values()]


def _run_value(run: Run, scenario: str, known: Metric) -> tuple[float | None, str]:
    """What one server start gave: the mean over its trials. None with the reason, or without one where it is not of
    this scenario."""
    if known.per_run:
        return (run.metrics.get(known.name) if server_group(run) == scenario else None), ""
    trials = [trial for trial in run.trials if trial.scenario == scenario]
    if few := [trial.requests for trial in trials if not supports_statistic(trial, known.name)]:
        need = f"a {_statistic(known.name)} needs {known.min_requests}: send more, or let the key name other scenarios"
        return None, f"{plural(few[0] or 0, 'request')} a trial are too few, {need}"
    values = [value_of_all_requests(trial, trial_metrics(trial), known) for trial in trials]
    unknown = next((why for value, why in values if value is None), "")
    if not values or any(value is None for value, _ in values):
        return None, unknown
    return float(np.mean([value for value, _ in values if value is not None])), ""


def value_of_all_requests(trial: Trial, metrics: Mapping[str, float], known: Metric) -> tuple[float | None, str]:
    """A metric of a trial in which requests that failed count as never answered. None with the reason."""
    value = metrics.get(known.name)
    family, _, statistic = known.name.rpartition("_")
    if known.unit != "s" or statistic not in ("median", "p90", "p95", "p99"):
        return value, "" if value is not None else "a trial has no value"
    if trial.requests is None:
        return None, _NOTHING_STATED
    beyond = 0.5 if known.tail is None else known.tail
    if trial.requests == 0 or trial.failed / trial.requests >= beyond:
        return math.inf, ""
    if trial.failed == 0 or family == "itl":  # which is of gaps, and requests that failed have none
        return value, "" if value is not None else "a trial has no value"
    answered = request_latencies(trial.samples, family) if family in REQUEST_LATENCIES else None
    if answered is None:
        return None, f"{trial.failed} of {trial.requests} requests failed, and single requests are not stored"
    every = np.concatenate([answered, np.full(trial.failed, math.inf)])
    if math.isinf(every[math.ceil((len(every) - 1) * (1 - beyond))]):
        return math.inf, ""
    return percentile(every, 100 * (1 - beyond)), ""


def _levels(
    runs: Sequence[Run], alike: Sequence[Sequence[float]], scenario: str, known: Metric, confidences: _Confidences
) -> _SideLevels:
    found = [_run_value(run, scenario, known) for run in runs]
    hosts = [run.testbed.name for run, (value, _) in zip(runs, found, strict=True) if value is not None]
    values = np.array([value for value, _ in found if value is not None])
    unknown = next((why for value, why in found if value is None and why), "")
    if unknown or not len(values):
        return _SideLevels(None, None, unknown or "it was not measured")
    is_fraction = known.unit == "fraction"
    if not is_fraction and (values <= 0).any():
        return _SideLevels(None, None, "it has values that are not positive")
    trials = [trial for run in runs for trial in run.trials if trial.scenario == scenario]
    requests = sum(trial.requests or 0 for trial in trials) / len(values) if is_fraction else None
    others = [np.array([value for value in group if 0 < value < math.inf or is_fraction]) for group in alike]
    shown, sure = (
        estimate_level(
            values, confidence=each, alike=others, requests=requests, min_cv=least_spread(known), hosts=hosts
        )
        for each in (confidences.shown, confidences.sure)
    )
    return _SideLevels(shown, sure, "")


# Answers


def _judge(scenario: str, known: Metric, limit: float, baseline: _SideLevels, candidate: _SideLevels) -> ObjectiveOut:
    state: State = "unclear"
    if _is_within(candidate.shown, limit, known):
        state = "kept"
    elif _is_beyond(baseline.sure, limit, known):
        state = "carried"
    elif _is_beyond(candidate.sure, limit, known):
        state = "broken"
    return ObjectiveOut(
        scenario=scenario,
        metric=known.name,
        unit=known.unit,
        direction=known.direction,
        limit=limit,
        baseline=level_out(baseline.shown),
        candidate=level_out(candidate.shown),
        state=state,
        text=_text(f"{scenario}/{known.name}", known, limit, state, baseline, candidate),
    )


def _is_within(level: Level | None, limit: float, known: Metric) -> bool:
    if level is None or level.interval is None:
        return False
    low, high = level.interval
    return high <= limit if known.direction is Direction.LOWER else low >= limit


def _is_beyond(level: Level | None, limit: float, known: Metric) -> bool:
    if level is None or level.interval is None:
        return False
    low, high = level.interval
    return low > limit if known.direction is Direction.LOWER else high < limit


def level_out(level: Level | None) -> ObjectiveSide:
    """None: not known."""
    if level is None:
        return ObjectiveSide(level=None, interval=None, runs=0)
    bounds = level.interval and tuple(bound if math.isfinite(bound) else None for bound in level.interval)
    value = level.value if math.isfinite(level.value) else None
    return ObjectiveSide(level=value, interval=bounds, runs=level.runs)


def _text(name: str, known: Metric, limit: float, state: State, baseline: _SideLevels, candidate: _SideLevels) -> str:
    kind = "at most" if known.direction is Direction.LOWER else "at least"
    objective = f"the objective is {kind} {_amount(limit, known)}"
    level = candidate.shown
    if level is None:
        return f"{name}: {candidate.unknown}; {objective}"
    runs = plural(level.runs, "server start")
    if level.interval is None:
        return f"{name} is {_amount(level.value, known)} with the candidate, and {runs} show no spread; {objective}"
    low, high = (_amount(bound, known) for bound in level.interval)
    bounds = "" if low == high else f" [{low}, {high}]"
    value = f"{name} is {_amount(level.value, known)}{bounds} with the candidate ({runs})"
    if state == "kept":
        return f"{value}; {objective}"
    before = "" if baseline.shown is None else f", and was {_amount(baseline.shown.value, known)} with the baseline"
    if state == "carried":
        return f"{value}{before}, which breaks it as well; {objective}"
    return f"{value}{before}; {objective}{'' if state == 'broken' else ': neither kept nor broken is shown'}"


def _amount(value: float, known: Metric) -> str:
    if math.isinf(value):
        return "without end"
    if known.unit == "s":
        return f"{value:.4g} s" if value >= 10 else f"{1e3 * value:.4g} ms"
    if known.unit == "bytes":
        return f"{value / 2**30:.4g} GiB"
    if known.unit == "fraction":
        return f"{100 * value:.4g}%"
    return f"{value:.4g}"
