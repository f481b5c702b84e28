"""Weigh what was found on two sides: the reasons that decide, and the warnings beside them.

Known issues are weighed in `reasons`. A server of the candidate that fails where the baseline serves is worse, whatever
its speed while it runs; there is no size to cap, so no waiver covers it. Not for the decision, which `reasons` makes of
all reasons together.
"""

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from regress_gate.accelerators.registry import identify
from regress_gate.gate.config_changes import ChangeRelevance, ConfigChange
from regress_gate.gate.reasons import PASSING_CODES, WaiverBook
from regress_gate.gate.replicates import SERVER_GROUP, Pairing, server_group
from regress_gate.gate.series_comparison import SeriesComparison, carried_text
from regress_gate.gate.sides import ComparisonSide, run_name
from regress_gate.model.issue import Applies
from regress_gate.model.metric import CAPACITY, Scale
from regress_gate.model.result import CoverageOut, FailedRun, KnownIssueOut, Reason, ReasonCode, SeriesResult, Verdict
from regress_gate.model.run import IMPORTED_SUITE, Run, SuiteRef
from regress_gate.model.suite import Suite
from regress_gate.text import plural

MOST_WARNINGS = 3
"""Issues that may apply are named one by one up to this number, each with what is missing; beyond it, together."""


def weigh_config(changes: Sequence[ConfigChange]) -> list[Reason]:
    return [
        Reason(code=ReasonCode.FLAG_REMOVED, text=change.why or f"the candidate does not accept {change.name}")
        for change in changes
        if change.matters is ChangeRelevance.BLOCKS
    ]


def issue_warnings(issues: Sequence[KnownIssueOut], coverage: CoverageOut | None = None) -> list[str]:
    unsettled = [issue for issue in issues if issue.applies is Applies.UNKNOWN and issue.effect == "new"]
    if len(unsettled) > MOST_WARNINGS and coverage is not None and coverage.platform is None:
        return ["most known issues may apply: name the accelerator (--accelerator)"]
    if len(unsettled) <= MOST_WARNINGS:
        return [f"{issue.id} may apply: {issue.why}" for issue in unsettled]
    named = ", ".join(issue.id for issue in unsettled[:MOST_WARNINGS])
    return [f"{named} and {len(unsettled) - MOST_WARNINGS} more may apply: give more facts about the deployment"]


def suite_warnings(suite: SuiteRef, definition: Suite | None) -> list[str]:
    if definition is not None or suite == IMPORTED_SUITE:
        return []
    return [f"suite {suite} is not known here: default margins, and no limits on conditions; give its file to --suite"]


def pairing_warnings(pairing: Pairing) -> list[str]:
    if pairing.left_out:
        runs = plural(pairing.left_out, "run that was", "runs that were")
        return [f"{runs} not made beside the other version left out: conditions drift between days"]
    if pairing.is_side_by_side or not (pairing.baseline and pairing.candidate):
        return []
    if all(run.place is not None for run in (*pairing.baseline, *pairing.candidate)):
        return [
            "never measured side by side: the versions may differ by the days they were measured on (see --measure)"
        ]
    return []


def weigh_missing_scenarios(
    comparison: SeriesComparison, definition: Suite | None, baseline: ComparisonSide, candidate: ComparisonSide
) -> list[Reason]:
    """Scenarios of the suite that the baseline never served, so that nothing can be compared.

    A scenario is left out if a gated series of it already says so.
    """
    served = [
        {trial.scenario for run in side.counted for trial in run.trials if trial.completed != 0}
        for side in (baseline, candidate)
    ]
    explained = served[0] | {series.scenario for series in comparison.series if series.name in comparison.one_sided}
    missing = [s.name for s in definition.scenarios if s.name not in explained] if definition else []
    where = {name: "the candidate only" if name in served[1] else "neither side" for name in missing}
    return [
        Reason(code=ReasonCode.MISSING_SERIES, text=f"scenario {name} of the suite was measured on {where[name]}")
        for name in missing
    ]


def weigh_platform(deployed: str | None, sides: Sequence[ComparisonSide]) -> list[Reason]:
    """Whether all runs are of another platform than the deployment's. A build for CPUs runs on no other."""
    measured = {
        "cpu" if side.version.variant == "cpu" else identify(run.testbed.accelerator or "").platform
        for side in sides
        for run in side.counted
    }
    if deployed is None or None in measured or deployed in measured:
        return []
    names = " and ".join(sorted(filter(None, measured)))
    text = f"your deployment runs on {deployed}, and this was measured on {names}: it shows nothing of {deployed}"
    return [Reason(code=ReasonCode.OTHER_PLATFORM, text=text)]


def weigh_series(comparison: SeriesComparison, book: WaiverBook) -> list[Reason]:
    reasons = [
        Reason(code=ReasonCode.INCOMPARABLE, text=f"scenario {scenario}: {why}")
        for scenario, why in comparison.incomparable.items()
    ]
    reasons += [Reason(code=ReasonCode.REGRESSION, text=text) for text in comparison.unserved]
    reasons += [Reason(code=ReasonCode.MISSING_SERIES, text=text) for text in comparison.unclear]
    reasons += [
        Reason(code=ReasonCode.MISSING_SERIES, text=f"{name} gates but {why}", series=name)
        for name, why in comparison.one_sided.items()
    ]
    reasons += _incomplete_reasons(comparison.incomplete)
    gated = [series for series in comparison.series if series.gated and series.name not in comparison.one_sided]
    tested = [series for series in gated if series.scenario not in comparison.incomparable and series.baseline.runs]
    undecided, shown = [], 0
    for series in tested:
        if series.verdict in (Verdict.WITHIN_MARGIN, Verdict.IMPROVEMENT):
            shown += 1
            continue
        # A waiver caps what may have been lost, not the estimate: like a margin, it has to be shown to hold.
        upper = series.interval[1] if series.interval else None
        if upper is not None and book.covers(series.name, upper):
            reasons.append(Reason(code=ReasonCode.WAIVED, text=_loss_text(series), series=series.name))
        elif series.verdict is Verdict.REGRESSION:
            reasons.append(Reason(code=ReasonCode.REGRESSION, text=_loss_text(series), series=series.name))
        else:
            undecided.append(series)
    if undecided:
        reasons.append(Reason(code=ReasonCode.UNDECIDED, text=_undecided_text(undecided, len(tested))))
    if not tested and not comparison.incomparable and not comparison.one_sided:
        text = "no gated metric was measured on both sides, so nothing could be shown"
        reasons.append(Reason(code=ReasonCode.NO_GATED_SERIES, text=text))
    if shown and not any(reason.code not in PASSING_CODES for reason in reasons):
        others = " other" if shown < len(tested) else ""
        text = f"all {shown}{others} gated series are shown to be within their margins"
        if shown == 1:
            text = f"the only{others} gated series is shown to be within its margin"
        if comparison.unstated_failures:
            text += "; how many requests failed was not stated"
        reasons.append(Reason(code=ReasonCode.ALL_WITHIN_MARGIN, text=text))
    return reasons


def _incomplete_reasons(incomplete: Mapping[str, str]) -> list[Reason]:
    """Series of one scenario that the same runs lack have one reason."""
    alike: dict[tuple[str, str], list[str]] = {}
    for name, why in incomplete.items():
        alike.setdefault((name.rpartition("/")[0], why), []).append(name)
    return [
        Reason(
            code=ReasonCode.MISSING_SERIES,
            text=f"{plural(len(names), 'gated series', 'gated series')} of {scenario} ({_some(names)}) "
            f"{'is' if len(names) == 1 else 'are'} in {why}: survivors alone decide nothing",
            series=names[0] if len(names) == 1 else None,
        )
        for (scenario, why), names in alike.items()
    ]


def _some(names: Sequence[str]) -> str:
    metrics = [name.rpartition("/")[2] for name in sorted(names)]
    return ", ".join(metrics[:MOST_WARNINGS]) + (", …" if len(metrics) > MOST_WARNINGS else "")


def weigh_named_metrics(
    comparison: SeriesComparison, named: Mapping[str, bool], baseline: ComparisonSide, candidate: ComparisonSide
) -> tuple[list[Reason], list[str]]:
    """Metrics that were named to gate and that neither side has: nothing is shown of them.

    `named`: pattern → whether the user named it, and not the suite. A suite cannot know who starts its servers: what
    only the tool's own servers have is a remark where it started none.
    """
    measured = {series.metric for series in comparison.series}
    started = any(run.place is not None for side in (baseline, candidate) for run in side.counted)
    reasons, remarks = [], []
    for pattern, is_users in named.items():
        if any(fnmatchcase(name, pattern) for name in measured):
            continue
        if not is_users and not started and pattern in _OF_OWN_SERVERS:
            remarks.append(f"{pattern} does not gate: it is measured only of servers that this tool starts")
            continue
        text = f"{pattern} gates, and neither side has it: measure it, or leave it out of the metrics that gate"
        reasons.append(Reason(code=ReasonCode.MISSING_SERIES, text=text))
    return reasons, remarks


_OF_OWN_SERVERS = ("startup_time", "peak_memory", "kv_cache_tokens")


def _loss_text(series: SeriesResult) -> str:
    if series.metric == CAPACITY and (carried := carried_text(series.change, series.interval)) is not None:
        return f"{series.name}: {carried}"
    if series.change is None or series.interval is None or None in series.interval:
        return f"{series.name} {series.change_text}"
    margin = f"{series.margin:.1%}" if series.scale is Scale.RATIO else f"{100 * series.margin:.1f} pp"
    runs = f"n {series.baseline.runs} and {series.candidate.runs} runs"
    return f"{series.name} {series.change_text}, against a margin of {margin} ({runs})"


def _undecided_text(undecided: Sequence[SeriesResult], tested: int) -> str:
    text = f"{plural(len(undecided), f'of {tested} gated series is', f'of {tested} gated series are')} undecided"
    needed = [series.runs_needed for series in undecided if series.runs_needed is not None]
    if needed:
        have = min(min(series.baseline.runs, series.candidate.runs) for series in undecided)
        text += f"; about {max(needed)} runs a side would decide those in reach (now {have})"
    if len(needed) < len(undecided):
        text += f"; {len(undecided) - len(needed)} cannot be decided by more runs alone"
    return text


def nothing_counts_text(side: ComparisonSide, name: str) -> str:
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


def copied_runs_text(baseline: ComparisonSide, candidate: ComparisonSide, copies: Sequence[tuple[Run, Run]]) -> str:
    """What is a copy of what, and how to get rid of it."""
    copied = len({id(run) for _, run in copies})
    named = ", ".join(f"{run_name(copy)} = {run_name(original)}" for original, copy in copies[:_MAX_NAMED_COPIES])
    more = len(copies) - _MAX_NAMED_COPIES
    return (
        f"{plural(copied, 'run')} of {candidate.version} {'has' if copied == 1 else 'have'} the numbers of "
        f"{baseline.version}'s to the last digit ({named}{f' and {more} more' if more > 0 else ''}): a copy is no "
        f"measurement, so neither counts; delete the misplaced ones with `regress-gate baseline prune` and import or "
        "measure what is missing"
    )


_MAX_NAMED_COPIES = 3
_MAX_LOG_LINES = 3
"""Log lines that a reason quotes; the result has all that were kept."""


def failed_runs(baseline: ComparisonSide, candidate: ComparisonSide) -> list[FailedRun]:
    return [
        FailedRun(
            side=name,
            run=run_name(run),
            kind=run.failure.kind,
            text=run.failure.text,
            lines=list(run.failure.lines),
        )
        for side, name in ((baseline, "baseline"), (candidate, "candidate"))
        for run in side.failed
        if run.failure is not None
    ]


def weigh_server_failures(
    baseline: ComparisonSide, candidate: ComparisonSide, *, comparable: bool
) -> tuple[list[Reason], list[str]]:
    """The reasons and the remarks that failed servers give, for each server of the suite.

    A failure of the candidate comes from the version only if every start of the baseline served. If the baseline failed
    too, or ran on another machine, that may be the cause as well; then a candidate that failed more often is not shown
    to be no worse.
    """
    reasons, remarks = [], list[str]()
    for group in sorted({server_group(run) for run in (*baseline.failed, *candidate.failed)}):
        ours, theirs = _starts(baseline, group), _starts(candidate, group)
        failed, theirs_failed = _failed(ours), _failed(theirs)
        which = "" if group == SERVER_GROUP else f" ({group})"
        theirs_text = f"{len(theirs_failed)} of {len(theirs)} server starts of {candidate.version}{which} failed"
        ours_text = f"{len(failed)} of {len(ours)} server starts of {baseline.version}{which} failed"
        counted = any(server_group(run) == group for run in baseline.counted)
        if not theirs_failed:
            remarks.append(f"{ours_text} (baseline): {_last_failure_text(failed)}")
        elif failed:
            remarks += [
                f"{ours_text} (baseline): {_last_failure_text(failed)}",
                f"{theirs_text} (candidate): {_last_failure_text(theirs_failed)}",
            ]
            if len(theirs_failed) * len(ours) > len(failed) * len(theirs):
                text = f"{theirs_text}, and {ours_text}: a failure on both sides may not come from the version"
                reasons.append(Reason(code=ReasonCode.INCOMPARABLE, text=text))
        elif not counted or not comparable:
            remarks.append(
                f"{theirs_text} (candidate), with no baseline to compare that with: {_last_failure_text(theirs_failed)}"
            )
        else:
            served = "the only one" if len(ours) == 1 else f"all {len(ours)}"
            text = f"{theirs_text}, where {served} of {baseline.version} served: {_last_failure_text(theirs_failed)}"
            reasons.append(Reason(code=ReasonCode.SERVER_FAILED, text=text))
    return reasons, remarks


def _starts(side: ComparisonSide, group: str) -> list[Run]:
    return [run for run in side.runs if server_group(run) == group]


def _failed(runs: Sequence[Run]) -> list[Run]:
    return [run for run in runs if run.failure is not None]


def _last_failure_text(failed: Sequence[Run]) -> str:
    """The last failure, with the server's own log lines."""
    failure = failed[-1].failure
    if failure is None:
        return ""
    lines = " | ".join(failure.lines[:_MAX_LOG_LINES])
    return failure.text + (f": {lines}" if lines else "")
