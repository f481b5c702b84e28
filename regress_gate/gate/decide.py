"""The decision on measured runs: series, comparability, known issues and waivers become reasons, and those decide."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from regress_gate import __version__
from regress_gate.gate.config_changes import ChangeRelevance, ConfigChange
from regress_gate.gate.failed_servers import failed_runs, weigh_server_failures
from regress_gate.gate.measured_issues import join_issues
from regress_gate.gate.reasons import (
    PASSING_CODES,
    WaiverBook,
    advise_compare,
    decision_of,
    exit_code,
    order_reasons,
    version_out,
    weigh_issues,
)
from regress_gate.gate.replicates import Pairing, pair_runs
from regress_gate.gate.series_comparison import SeriesComparison, compare_all_series
from regress_gate.gate.sides import ComparisonSide, compare_sides, conditions_unrecorded
from regress_gate.model.finding import Applies, IssueFinding
from regress_gate.model.policy import Policy, Waiver
from regress_gate.model.result import (
    DifferenceOut,
    ExplanationOut,
    InterimOut,
    KnownIssueOut,
    PlanOut,
    Reason,
    ReasonCode,
    Result,
    SeriesResult,
    SuiteOut,
    TestbedOut,
    Verdict,
    VersionSide,
    VoidRun,
)
from regress_gate.model.run import IMPORTED_SUITE, Run, SuiteRef
from regress_gate.model.suite import ConditionLimits, Suite
from regress_gate.model.testbed import Comparability
from regress_gate.stats.membership import MeasurementDesign

MOST_WARNINGS = 3
"""Of issues that may apply, each with what is missing; from there on they are named together."""


def decide_compare(
    baseline: ComparisonSide,
    candidate: ComparisonSide,
    *,
    suite: SuiteRef,
    definition: Suite | None,
    policy: Policy,
    waivers: Sequence[Waiver],
    findings: Sequence[IssueFinding],
    now: datetime,
    config_changes: Sequence[ConfigChange] = (),
    earlier: Sequence[Run] = (),
    allow_incomparable: bool = False,
    report_only: bool = False,
) -> Result:
    """The gate on stored runs of two versions.

    `definition` is what is known of the suite: its scenarios, limits and notice; None for one that is not known.
    `earlier` runs that count, of any version on this suite and testbed, say what spread is usual.
    `now` is when; its date decides which waivers have expired.
    """
    limits = definition.conditions if definition else ConditionLimits()
    book = WaiverBook(waivers, now.date())
    issues, reasons = weigh_issues(findings, policy, book, has_baseline=True)
    pairing = pair_runs(baseline.counted, candidate.counted)
    baseline, candidate = replace(baseline, counted=pairing.baseline), replace(candidate, counted=pairing.candidate)
    comparability = compare_sides(baseline, candidate, limits)
    warnings = [*_issue_warnings(issues), *_suite_warnings(suite, definition), *_pairing_warnings(pairing)]
    if conditions_unrecorded((baseline, candidate), limits):
        warnings.append("nobody recorded what else the machine was doing: nothing shows that it was quiet")
    judged: SeriesComparison | None = None
    reasons += _weigh_config(config_changes)
    can_compare = comparability.comparable or allow_incomparable
    failing, remarks = weigh_server_failures(baseline, candidate, comparable=can_compare)
    crashed = any(reason.code is ReasonCode.SERVER_FAILED for reason in failing)
    reasons += failing
    warnings += remarks
    reasons += [
        Reason(code=ReasonCode.INCOMPARABLE, text=_nothing_counts(side, name))
        for side, name in ((baseline, "baseline"), (candidate, "candidate"))
        if not side.counted and not (crashed and side is candidate)
    ]
    if not can_compare:
        differences = "; ".join(str(difference) for difference in comparability.differences if difference.blocks)
        reasons.append(Reason(code=ReasonCode.INCOMPARABLE, text=f"the two sides are not comparable: {differences}"))
    elif baseline.counted and candidate.counted:
        judged = compare_all_series(baseline, candidate, policy, paired=pairing.is_side_by_side, earlier=earlier)
        reasons += [*_missing_scenarios(judged, definition, baseline, candidate), *_weigh_series(judged, book)]
        warnings += judged.warnings
        if not comparability.comparable:
            warnings.append("compared although the sides are not comparable (--allow-incomparable)")
    warnings += [
        f"the waiver for {w.finding} ({w.owner}) is unused: {w.detail}" for w in book.outcome() if w.state == "unused"
    ]
    reasons = order_reasons(reasons)
    decision = decision_of(reasons)
    series = list(judged.series) if judged else []
    explanations: list[ExplanationOut] = []
    if judged:
        issues, explanations = join_issues(series, findings, issues, definition=definition, side=candidate)
    return Result(
        tool_version=__version__,
        created=now,
        command="compare",
        decision=decision,
        exit_code=exit_code(decision, policy, report_only=report_only),
        advice=advise_compare(
            decision,
            reasons,
            series,
            issues,
            str(baseline.version),
            str(candidate.version),
            comparable=comparability.comparable,
        ),
        reasons=reasons,
        baseline=_side_out(baseline),
        candidate=_side_out(candidate),
        suite=SuiteOut(name=suite.name, version=suite.version, notice=definition.notice if definition else None),
        testbed=_testbed_out(candidate, comparability),
        series=series,
        void_runs=[
            VoidRun(side=name, run=_run_name(void.run.id, void.run.label), reason=void.reason)
            for side, name in ((baseline, "baseline"), (candidate, "candidate"))
            for void in side.void
        ],
        failed_runs=failed_runs(baseline, candidate),
        known_issues=issues,
        explanations=explanations,
        waivers=book.outcome(),
        plan=_plan_out(judged.circumstances) if judged else None,
        config_changes=[change.as_document() for change in config_changes],
        warnings=warnings,
    )


def _weigh_config(changes: Sequence[ConfigChange]) -> list[Reason]:
    return [
        Reason(code=ReasonCode.FLAG_REMOVED, text=change.why or f"the candidate does not take {change.name}")
        for change in changes
        if change.matters is ChangeRelevance.BLOCKS
    ]


def _issue_warnings(issues: Sequence[KnownIssueOut]) -> list[str]:
    unsettled = [issue for issue in issues if issue.applies is Applies.UNKNOWN and issue.effect == "new"]
    if len(unsettled) <= MOST_WARNINGS:
        return [f"{issue.id} may apply: {issue.why}" for issue in unsettled]
    named = ", ".join(issue.id for issue in unsettled[:MOST_WARNINGS])
    return [f"{named} and {len(unsettled) - MOST_WARNINGS} more may apply: tell more of the deployment"]


def _suite_warnings(suite: SuiteRef, definition: Suite | None) -> list[str]:
    if definition is not None or suite == IMPORTED_SUITE:
        return []
    return [f"suite {suite} is not known here: default margins, and no limits on conditions; give its file to --suite"]


def _pairing_warnings(pairing: Pairing) -> list[str]:
    if pairing.left_out:
        runs = "run that was" if pairing.left_out == 1 else "runs that were"
        return [f"{pairing.left_out} {runs} not made beside the other version left out: days differ too"]
    if pairing.is_side_by_side or not (pairing.baseline and pairing.candidate):
        return []
    if all(run.place is not None for run in (*pairing.baseline, *pairing.candidate)):
        return ["never measured side by side: what differed between the days looks like the version (see --measure)"]
    return []


def _missing_scenarios(
    judged: SeriesComparison, definition: Suite | None, baseline: ComparisonSide, candidate: ComparisonSide
) -> list[Reason]:
    """Of the suite: those that the baseline never served, so that nothing is held against anything.

    A scenario of which a gated series says so itself is told by that.
    """
    served = [
        {trial.scenario for run in side.counted for trial in run.trials if trial.completed != 0}
        for side in (baseline, candidate)
    ]
    told = served[0] | {series.scenario for series in judged.series if series.name in judged.one_sided}
    missing = [s.name for s in definition.scenarios if s.name not in told] if definition else []
    where = {name: "the candidate only" if name in served[1] else "neither side" for name in missing}
    return [
        Reason(code=ReasonCode.MISSING_SERIES, text=f"scenario {name} of the suite was measured on {where[name]}")
        for name in missing
    ]


def _weigh_series(judged: SeriesComparison, book: WaiverBook) -> list[Reason]:
    reasons = [
        Reason(code=ReasonCode.INCOMPARABLE, text=f"scenario {scenario}: {why}")
        for scenario, why in judged.incomparable.items()
    ]
    reasons += [Reason(code=ReasonCode.REGRESSION, text=text) for text in judged.dead]
    reasons += [Reason(code=ReasonCode.MISSING_SERIES, text=text) for text in judged.silent]
    reasons += [
        Reason(code=ReasonCode.MISSING_SERIES, text=f"{name} gates but {why}", series=name)
        for name, why in judged.one_sided.items()
    ]
    gated = [series for series in judged.series if series.gated and series.name not in judged.one_sided]
    tested = [series for series in gated if series.scenario not in judged.incomparable and series.baseline.runs]
    undecided, shown = [], 0
    for series in tested:
        if series.verdict in (Verdict.EQUIVALENT, Verdict.IMPROVEMENT):
            shown += 1
            continue
        # What a waiver caps is what may have been lost: like a margin, it has to be shown to hold.
        upper = series.interval[1] if series.interval else None
        if upper is not None and book.covers(series.name, upper):
            reasons.append(Reason(code=ReasonCode.WAIVED, text=_loss(series), series=series.name))
        elif series.verdict is Verdict.REGRESSION:
            reasons.append(Reason(code=ReasonCode.REGRESSION, text=_loss(series), series=series.name))
        else:
            undecided.append(series)
    if undecided:
        reasons.append(Reason(code=ReasonCode.UNDECIDED, text=_undecided(undecided, len(tested))))
    if not tested and not judged.incomparable and not judged.one_sided:
        text = "no gated metric was measured on both sides, so nothing could be shown"
        reasons.append(Reason(code=ReasonCode.NO_GATED_SERIES, text=text))
    if shown and not any(reason.code not in PASSING_CODES for reason in reasons):
        others = " other" if shown < len(tested) else ""
        text = f"all {shown}{others} gated series are shown to be within their margins"
        if shown == 1:
            text = f"the only{others} gated series is shown to be within its margin"
        reasons.append(Reason(code=ReasonCode.ALL_WITHIN_MARGIN, text=text))
    return reasons


def _loss(series: SeriesResult) -> str:
    if series.change is None or series.interval is None or None in series.interval:
        return f"{series.name} changed by an amount that could not be estimated"
    low, high = series.interval
    return (
        f"{series.name} {'lost' if series.change >= 0 else 'gained'} {abs(series.change):.1%} "
        f"[{low:+.1%}, {high:+.1%}] against a margin of {series.margin:.1%} "
        f"(n {series.baseline.runs} and {series.candidate.runs} runs)"
    )


def _undecided(undecided: Sequence[SeriesResult], tested: int) -> str:
    text = f"{len(undecided)} of {tested} gated series {'is' if len(undecided) == 1 else 'are'} undecided"
    needed = [series.runs_needed for series in undecided if series.runs_needed is not None]
    if needed:
        have = min(min(series.baseline.runs, series.candidate.runs) for series in undecided)
        text += f"; about {max(needed)} runs a side would decide those in reach (now {have})"
    if len(needed) < len(undecided):
        text += f"; {len(undecided) - len(needed)} cannot be decided by more runs alone"
    return text


def _side_out(side: ComparisonSide) -> VersionSide:
    return version_out(side.version).model_copy(update={"runs": len(side.counted), "origin": side.origin})


def _plan_out(found: MeasurementDesign) -> PlanOut:
    return PlanOut(
        paired=found.paired,
        apart=found.apart,
        earlier_runs=sum(len(session[0]) for session in found.earlier if session),
        earlier_sessions=len(found.earlier),
        looks=InterimOut(blocks=found.looks.blocks, most_blocks=found.looks.most_blocks) if found.looks else None,
    )


def _testbed_out(side: ComparisonSide, comparability: Comparability) -> TestbedOut | None:
    if not side.runs:
        return None
    return TestbedOut(
        name=side.runs[0].testbed.name,
        comparable=comparability.comparable,
        differences=[
            DifferenceOut(what=d.what, baseline=d.baseline, candidate=d.candidate, blocks=d.blocks)
            for d in comparability.differences
        ],
    )


def _nothing_counts(side: ComparisonSide, name: str) -> str:
    who = f"{side.version} ({name})"
    if not side.runs:
        return f"{who} has no runs"
    if not side.void:
        return f"all {len(side.runs)} server starts of {who} failed"
    if side.failed:
        return (
            f"none of {len(side.runs)} runs of {who} counts: {len(side.failed)} failed, "
            f"{len(side.void)} void ({side.void[0].reason})"
        )
    runs = "the only run" if len(side.runs) == 1 else f"all {len(side.runs)} runs"
    return f"{runs} of {who} {'is' if len(side.runs) == 1 else 'are'} void: {side.void[0].reason}"


def _run_name(number: int | None, label: str) -> str:
    return label if number is None else f"run:{number} ({label})"
