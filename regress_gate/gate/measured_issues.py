"""From compared series to evidence for or against known issues, and back into the result.

`known.joining` does the reasoning; this module converts between the gate's results and its units.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from math import inf
from statistics import NormalDist
from typing import Any

from pydantic import ValidationError

from regress_gate.gate.sides import ComparisonSide
from regress_gate.known.joining.attribution import Attribution, attribute_losses
from regress_gate.known.matching.findings import exclusion_reasons
from regress_gate.known.matching.signature import ObservedLoss, family_of, is_tail, log_loss
from regress_gate.model.issue import IssueFinding
from regress_gate.model.metric import Direction, Scale, metric
from regress_gate.model.result import CauseOut, ExplanationOut, KnownIssueOut, SeriesResult, Verdict
from regress_gate.model.suite import RecordedPrompts, Suite, Workload

_TRIAL_WORKLOAD_KEYS = {
    "request_rate": "request_rate",
    "max_concurrency": "concurrency",
    "mean_input_tokens": "input_len",
    "mean_output_tokens": "output_len",
}
"""Keys of a trial's workload → the names that a suite has for them."""


def join_issues(
    series: Sequence[SeriesResult],
    findings: Sequence[IssueFinding],
    issues: Sequence[KnownIssueOut],
    *,
    definition: Suite | None,
    side: ComparisonSide,
) -> tuple[list[KnownIssueOut], list[ExplanationOut]]:
    """The issues with what was measured of each, and the regressions with the issues that may have made them.

    `side` is the measured candidate. It gives the machine, and the workloads where the suite is not known.
    """
    workloads = _workloads(definition, side)
    testbed = side.runs[0].testbed if side.runs else None
    accelerator = (testbed.accelerator if testbed else None) or (definition.accelerator if definition else None)
    joined = attribute_losses(findings, _units(series, workloads), exclusion_reasons(definition, accelerator))
    return [_with_measurement(issue, joined) for issue in issues], [
        ExplanationOut(
            series=list(explanation.unit.regressions),
            issue=explanation.issue,
            causes=[CauseOut(issue=name, probability=share) for name, share in explanation.shares],
        )
        for explanation in joined.explanations
    ]


def _with_measurement(issue: KnownIssueOut, joined: Attribution) -> KnownIssueOut:
    standing = joined.standings.get(issue.id)
    if standing is None:
        return issue
    return issue.model_copy(
        update={
            "measured": standing.measured,
            "measured_why": standing.why,
            "matched_series": list(standing.series),
            "score": standing.score,
        }
    )


def _units(series: Sequence[SeriesResult], workloads: Mapping[str, Workload]) -> list[ObservedLoss]:
    """One for each scenario and family of metrics that has an interval."""
    groups: dict[tuple[str, str], list[SeriesResult]] = defaultdict(list)
    for one in series:
        if _bounds(one) is not None:
            at_rate = workloads.get(one.scenario, Workload()).is_open_loop
            groups[one.scenario, family_of(one.metric, at_rate=at_rate)].append(one)
    return [_unit(scenario, family, members, workloads) for (scenario, family), members in groups.items()]


def _unit(
    scenario: str, family: str, members: Sequence[SeriesResult], workloads: Mapping[str, Workload]
) -> ObservedLoss:
    """A regression represents its family, else a series that gates; the mean or median goes before the tail."""
    regressions = [one for one in members if one.verdict is Verdict.REGRESSION]
    chosen = min(regressions or members, key=lambda one: (is_tail(one.metric), not one.gated))
    low, high = _bounds(chosen) or (-inf, inf)
    width = 2 * NormalDist().inv_cdf((1 + chosen.confidence) / 2)
    return ObservedLoss(
        scenario=scenario,
        family=family,
        metric=chosen.metric,
        workload=workloads.get(scenario, Workload()),
        loss=_log_loss(chosen, chosen.change or 0.0),
        # The comparison's own quantile is wider than the normal one: the error is rather too large than too small.
        standard_error=(high - low) / width,
        bounds=(low, high),
        margin=_log_loss(chosen, chosen.margin),
        text=f"{chosen.name} {chosen.change_text}",
        regressions=tuple(one.name for one in regressions),
    )


def _bounds(one: SeriesResult) -> tuple[float, float] | None:
    """Of the loss, on the common scale; None without a bounded interval."""
    if one.change is None or one.interval is None:
        return None
    low, high = one.interval
    return None if low is None or high is None else (_log_loss(one, low), _log_loss(one, high))


def _log_loss(one: SeriesResult, change: float) -> float:
    """A difference of fractions counts relative to what the baseline had: the share served, or the share right."""
    if one.scale is Scale.DIFFERENCE:
        had = one.baseline.mean or 0.0
        had = had if metric(one.metric).direction is Direction.HIGHER else 1 - had
        change = change / had if had > 0 else 0.0
    return log_loss(one.metric, change)


def _workloads(definition: Suite | None, side: ComparisonSide) -> dict[str, Workload]:
    """By scenario; from the trials where the suite is not known."""
    measured: dict[str, Workload] = {}
    for run in side.counted:
        for trial in run.trials:
            if trial.scenario not in measured:
                measured[trial.scenario] = _trial_workload(trial.workload)
    if definition is None:
        return measured
    return {
        scenario.name: _with_lengths(scenario.workload, measured.get(scenario.name))
        for scenario in definition.scenarios
    }


def _with_lengths(workload: Workload, measured: Workload | None) -> Workload:
    """Recorded prompts, conversations, images and answers have the lengths that were measured; a trace its rate."""
    varies = isinstance(workload.dataset, RecordedPrompts) or workload.trace or workload.conversation or workload.images
    if measured is None or not varies:
        return workload
    found: dict[str, float | None] = {
        "input_len": measured.input_len,
        "output_len": workload.output_len or measured.output_len,
    }
    if workload.trace is not None:
        found["request_rate"] = measured.request_rate
    return workload.model_copy(update=found)


def _trial_workload(stated: Mapping[str, Any]) -> Workload:
    data = {ours: stated[theirs] for theirs, ours in _TRIAL_WORKLOAD_KEYS.items() if stated.get(theirs) is not None}
    for name in ("input_len", "output_len"):
        if name in data:
            data[name] = round(data[name])
    try:
        return Workload.model_validate(data)
    except ValidationError:  # written by another program: unknown then
        return Workload()
