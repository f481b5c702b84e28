"""What `compare` and `check` say to test reports, alerts and annotations.

A case is a series, a known issue, a server that failed, or another reason of the decision; one more is the decision
itself, so that no report without an answer reads as passed. A finding is what somebody should act on.
"""

import math
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

from regress_gate.errors import ExitCode
from regress_gate.gate.reasons import reported_issues
from regress_gate.known.threads import published_kind, shown_address
from regress_gate.model.issue import Applies, Effect, Severity
from regress_gate.model.result import (
    Decision,
    FailedRun,
    KnownIssueOut,
    Reason,
    ReasonCode,
    Result,
    SeriesResult,
    Verdict,
)
from regress_gate.report.findings import (
    Case,
    Finding,
    Findings,
    Level,
    Location,
    Outcome,
    Rule,
    Suppression,
    at_most,
    deployment_key,
    place_in_deployment,
    severity_level,
    worst_first,
)
from regress_gate.report.views import units, wording
from regress_gate.report.views.issues_view import observation_text

DECISION_GROUP = "regress-gate"
ISSUES_GROUP = "known issues"
SERVERS_GROUP = "servers"

_TITLES = {
    ReasonCode.SERVER_FAILED: "The candidate's server failed where the baseline's served",
    ReasonCode.FLAG_REMOVED: "The candidate does not take an argument",
    ReasonCode.LAUNCH_LINE: "The candidate refuses the launch line",
    ReasonCode.REGRESSION: "A series is worse",
    ReasonCode.SLO_BROKEN: "The candidate does not keep an objective",
    ReasonCode.COPIED_RUNS: "Runs of both versions hold the same measurement",
    ReasonCode.INCOMPARABLE: "The two sides are not comparable",
    ReasonCode.NO_GATED_SERIES: "No gated metric was measured on both sides",
    ReasonCode.MISSING_SERIES: "A gated series is missing",
    ReasonCode.OTHER_PLATFORM: "The deployment's platform was not measured",
    ReasonCode.NOT_COVERED: "The known-issue records do not reach this far",
    ReasonCode.SLO_UNCLEAR: "It is not shown that an objective is kept",
    ReasonCode.UNDECIDED: "The evidence decides neither",
    ReasonCode.SLO_CARRIED: "Both versions break an objective",
}
"""Of the reasons that do not pass and are no known issue: the title of the rule."""
_FAILING = (
    ReasonCode.SERVER_FAILED,
    ReasonCode.FLAG_REMOVED,
    ReasonCode.LAUNCH_LINE,
    ReasonCode.REGRESSION,
    ReasonCode.SLO_BROKEN,
)
_PASSING = (ReasonCode.ALL_WITHIN_MARGIN, ReasonCode.NO_BLOCKING_ISSUE)
_HELP = {
    ReasonCode.REGRESSION: "The loss is shown, over all gated series together, and is at least half of the margin. "
    "Stay on the baseline, find the cause (regress-gate bisect, known issues), or waive it with an owner and a date.",
    ReasonCode.SLO_BROKEN: "The level over fresh servers is shown to be beyond the limit of [gate.slo], over all "
    "objectives together. Lower the load, change the limit, or waive slo:SERIES with an owner and a date.",
    ReasonCode.LAUNCH_LINE: "Change the launch line before you move: regress-gate diff-config shows what changed.",
    ReasonCode.FLAG_REMOVED: "Change the launch line before you move: regress-gate diff-config shows what changed.",
    ReasonCode.NOT_COVERED: "The absence of a record means nothing here: measure, or check again with newer records.",
    ReasonCode.UNDECIDED: "Make more runs, quieten the machine, or give the facts that are missing.",
}


def result_findings(result: Result) -> Findings:
    decision = wording.decision(result)
    return Findings(
        name=f"{result.command}: {wording.versions(result)}",
        headline=decision,
        advice=result.advice,
        level=_decision_level(result),
        cases=tuple(_cases(result, decision)),
        findings=worst_first(_findings(result)),
        created=result.created,
        category=result.command,
        tool_version=result.tool_version,
    )


def _decision_level(result: Result) -> Level:
    levels = {Decision.FAIL: Level.ERROR, Decision.INCONCLUSIVE: Level.WARNING, Decision.PASS: Level.NOTE}
    return levels[result.decision]


def _waiver(result: Result, name: str) -> Suppression | None:
    for waiver in result.waivers:
        if waiver.state == "used" and fnmatchcase(name, waiver.finding):
            return Suppression(waiver.owner, waiver.until, waiver.reason)
    return None


# Cases


def _cases(result: Result, decision: str) -> Iterator[Case]:
    yield _decision_case(result, decision)
    by_series = {reason.series: reason for reason in reversed(result.reasons) if reason.series}
    for series in result.series:
        yield _series_case(result, series, by_series.get(series.name))
    measured = {series.name for series in result.series}
    for name, reason in by_series.items():
        if name not in measured:
            scenario, _, metric = name.rpartition("/")
            yield Case(scenario, metric, *_reason_outcome(reason), message=reason.text)
    deciding = {reason.issue: reason for reason in reversed(result.reasons) if reason.issue}
    for issue in reported_issues(result.known_issues):
        # Hundreds of records that do not apply were no tests, and would look like passed ones.
        if issue.applies is not Applies.NO:
            yield _issue_case(result, issue, deciding.get(issue.id))
    yield from _server_cases(result)
    for reason in result.reasons:
        is_told = reason.series or reason.issue or reason.code in _PASSING
        if not is_told and not (reason.code is ReasonCode.SERVER_FAILED and result.failed_runs):
            yield Case(DECISION_GROUP, reason.code, *_reason_outcome(reason), message=reason.text)


def _decision_case(result: Result, decision: str) -> Case:
    """Inconclusive is a failure like any other exit code that is not 0: tools take a report of skipped cases alone for
    passed. It is skipped where the team lets it pass (`--on-inconclusive pass`, `--report-only`)."""
    outcome = {
        Decision.PASS: Outcome.PASSED,
        Decision.FAIL: Outcome.FAILURE,
        Decision.INCONCLUSIVE: Outcome.SKIPPED if result.exit_code == ExitCode.PASS else Outcome.FAILURE,
    }[result.decision]
    details = (*wording.reasons(result.reasons, verbose=True), *result.policy_notices, *result.warnings)
    message = f"{decision}. {result.advice}"
    return Case(DECISION_GROUP, "decision", outcome, result.decision, message, details=details)


def _reason_outcome(reason: Reason) -> tuple[Outcome, str]:
    return Outcome.FAILURE if reason.code in _FAILING else Outcome.SKIPPED, reason.code.value


def _series_case(result: Result, series: SeriesResult, reason: Reason | None) -> Case:
    outcome, kind, message = Outcome.PASSED, "", f"{series.change_text}; margin {_margin(series)}"
    if reason is not None and reason.code is ReasonCode.WAIVED:
        waiver = _waiver(result, series.name)
        message = f"{message}; {'waived' if waiver is None else waiver.text}"
        outcome, kind = Outcome.SKIPPED, "waived"
    elif reason is not None:
        outcome, kind = _reason_outcome(reason)
        message = reason.text
    elif series.verdict is Verdict.REGRESSION:
        # The gate named it as a reason if it decides; a series that does not gate fails nobody's build.
        outcome, kind, message = Outcome.SKIPPED, "regression", f"{message}; worse, but it does not gate"
    elif series.verdict is Verdict.UNDECIDED:
        outcome, kind = Outcome.SKIPPED, "undecided"
        message += f"; undecided{_needs(series)}" + ("" if series.gated else ", and does not gate")
    return Case(
        series.scenario,
        series.metric,
        outcome,
        kind,
        message,
        details=tuple(series.notes),
        numbers=tuple(_series_numbers(series)),
    )


def _margin(series: SeriesResult) -> str:
    return units.margin(series.margin, series.scale)


def _needs(series: SeriesResult) -> str:
    return "" if series.runs_needed is None else f": about {series.runs_needed} runs a side would decide it"


def _series_numbers(series: SeriesResult) -> Iterator[tuple[str, float | int | str]]:
    low, high = series.interval or (None, None)
    numbers: dict[str, float | int | str | None] = {
        "verdict": series.verdict.value,
        "gated": "true" if series.gated else "false",
        "unit": series.unit,
        "baseline.mean": series.baseline.mean,
        "baseline.runs": series.baseline.runs,
        "baseline.cv": series.baseline.cv,
        "candidate.mean": series.candidate.mean,
        "candidate.runs": series.candidate.runs,
        "candidate.cv": series.candidate.cv,
        "change": series.change,
        "interval.low": low,
        "interval.high": high,
        "confidence": series.confidence,
        "margin": series.margin,
        "q_worse": series.q_worse,
        "runs_needed": series.runs_needed,
    }
    yield from ((name, value) for name, value in numbers.items() if value is not None)


def _issue_case(result: Result, issue: KnownIssueOut, reason: Reason | None) -> Case:
    message = f"{wording.APPLIES[issue.applies]}: {issue.why}"
    outcome, kind = Outcome.PASSED, ""
    if issue.blocks:
        outcome, kind = Outcome.FAILURE, "known_issue"
        message = f"{issue.severity} {issue.kind}: {issue.summary}"
    elif reason is not None and reason.code is ReasonCode.WAIVED:
        waiver = _waiver(result, issue.id)
        outcome, kind = Outcome.SKIPPED, "waived"
        message = issue.summary if waiver is None else f"{waiver.text} ({issue.summary})"
    elif issue.applies is Applies.UNKNOWN and issue.effect is not Effect.RESOLVED:
        would_block = reason is not None and reason.code is ReasonCode.UNDECIDED
        outcome, kind = Outcome.SKIPPED, "undecided"
        message = f"may apply{', and would block' if would_block else ''}: {issue.why} ({issue.summary})"
    elif issue.applies is Applies.YES and issue.effect is not Effect.RESOLVED:
        message = f"applies and does not block: {issue.severity} {issue.kind}: {issue.summary}"
    elif issue.effect is Effect.RESOLVED:
        message = f"not in the candidate: {issue.summary}"
    return Case(ISSUES_GROUP, issue.id, outcome, kind, message, details=tuple(_issue_details(issue)))


def _issue_details(issue: KnownIssueOut) -> Iterator[str]:
    yield f"applies: {wording.APPLIES[issue.applies]}: {issue.why}"
    yield f"status: {wording.STATUS.get(issue.status, issue.status.value)}: {issue.status_why}".removesuffix(": ")
    yield f"effect: {issue.effect}: {issue.effect_why}".removesuffix(": ")
    if measured := observation_text(issue):
        yield f"measured: {measured}"
    for workaround in issue.workarounds:
        flags = " ".join(wording.flags(workaround.engine_args, workaround.env))
        yield f"workaround: {workaround.text}" + (f" [{flags}]" if flags else "")
    yield _address_line(issue)


def _server_cases(result: Result) -> Iterator[Case]:
    is_failure = any(reason.code is ReasonCode.SERVER_FAILED for reason in result.reasons)
    for failed in result.failed_runs:
        # A crash of the candidate is its fault only where the baseline served; the gate's reasons say so.
        is_worse = is_failure and failed.side == "candidate"
        yield Case(
            SERVERS_GROUP,
            f"{failed.side} {failed.run}",
            Outcome.FAILURE if is_worse else Outcome.SKIPPED,
            failed.kind,
            failed.text + ("" if is_worse else "; not held against the candidate"),
            details=tuple(failed.lines),
        )
    for void in result.void_runs:
        yield Case(SERVERS_GROUP, f"{void.side} {void.run}", Outcome.SKIPPED, "void", f"void: {void.reason}")


# Findings


def _findings(result: Result) -> Iterator[Finding]:
    location, place = place_in_deployment(result.deployment), deployment_key(result.deployment)
    issues = {issue.id: issue for issue in result.known_issues}
    series = {one.name: one for one in result.series}
    weight = list(ReasonCode)
    # Of thousands of regressions the largest come first: a list of annotations has ten places.
    for reason in sorted(
        result.reasons, key=lambda one: (weight.index(one.code), -_loss(series.get(one.series or "")))
    ):
        if reason.issue in issues or reason.code in _PASSING:
            continue  # below, with all that is known of it
        is_of_line = reason.code in (ReasonCode.LAUNCH_LINE, ReasonCode.FLAG_REMOVED)
        where = place_in_deployment(result.deployment, reason.text) if is_of_line else location
        yield _reason_finding(result, reason, series.get(reason.series or ""), where, place)
    named = {reason.series for reason in result.reasons}
    for one in sorted(result.series, key=lambda one: -_loss(one)):
        if one.verdict is Verdict.REGRESSION and one.name not in named:
            yield _quiet_regression(one, location, place)
    by_issue = {reason.issue: reason for reason in reversed(result.reasons) if reason.issue}
    for issue in sorted(reported_issues(result.known_issues), key=lambda one: (not one.blocks, -one.severity.rank)):
        if issue.applies in (Applies.YES, Applies.UNKNOWN) and issue.effect is not Effect.RESOLVED:
            yield _issue_finding(result, issue, by_issue.get(issue.id), location, place)


def _loss(series: SeriesResult | None) -> float:
    """As a share of the margin; one that could not be estimated, and what is no series, is the largest."""
    return math.inf if series is None or series.change is None else series.change / series.margin


def _reason_rule(code: ReasonCode) -> Rule:
    level = Level.ERROR if code in _FAILING else Level.WARNING
    tags = ("vllm", "measurement" if code in (ReasonCode.REGRESSION, ReasonCode.SERVER_FAILED) else "gate")
    return Rule(code.value, _TITLES.get(code, code.replace("_", " ")), level, _HELP.get(code, ""), tags=tags)


def _reason_finding(
    result: Result, reason: Reason, series: SeriesResult | None, location: Location | None, place: tuple[str, ...]
) -> Finding:
    is_waived = reason.code is ReasonCode.WAIVED
    code = ReasonCode.REGRESSION if is_waived else reason.code
    subject = reason.series or reason.issue or ""
    rule = _reason_rule(code)
    # The text of these has no numbers that change from day to day: it says which flag, or which scenario.
    is_stable = code in (ReasonCode.LAUNCH_LINE, ReasonCode.FLAG_REMOVED) and not subject
    return Finding(
        rule,
        rule.level,
        f"{rule.title}: {subject}" if subject else rule.title,
        reason.text,
        details=_reason_details(result, reason, series),
        subject=subject,
        location=location,
        fingerprint=(rule.id, subject or (reason.text if is_stable else ""), *place),
        suppression=_waiver(result, subject) if is_waived else None,
    )


def _reason_details(result: Result, reason: Reason, series: SeriesResult | None) -> tuple[str, ...]:
    if reason.code is ReasonCode.SERVER_FAILED:
        return tuple(_failure_text(failed) for failed in result.failed_runs if failed.side == "candidate")
    return () if series is None else tuple(series.notes)


def _failure_text(failed: FailedRun) -> str:
    return f"{failed.run}: {failed.text}" + "".join(f" | {line}" for line in failed.lines[:3])


def _quiet_regression(series: SeriesResult, location: Location | None, place: tuple[str, ...]) -> Finding:
    rule = _reason_rule(ReasonCode.REGRESSION)
    return Finding(
        rule,
        Level.WARNING,
        f"{rule.title}: {series.name}",
        f"{series.name} {series.change_text}, against a margin of {_margin(series)}; it does not gate",
        details=tuple(series.notes),
        subject=series.name,
        location=location,
        fingerprint=(rule.id, series.name, *place),
    )


def _issue_level(issue: KnownIssueOut, reason: Reason | None) -> Level:
    """By severity; milder where it does not block, and a note where it only may apply and decides nothing."""
    if issue.blocks or (reason is not None and reason.code is ReasonCode.WAIVED):
        return Level.ERROR
    if issue.applies is Applies.UNKNOWN:
        return Level.WARNING if reason is not None else Level.NOTE
    return at_most(severity_level(issue.severity), Level.WARNING)


def _issue_finding(
    result: Result, issue: KnownIssueOut, reason: Reason | None, location: Location | None, place: tuple[str, ...]
) -> Finding:
    is_waived = reason is not None and reason.code is ReasonCode.WAIVED
    may = "may apply" if issue.applies is Applies.UNKNOWN else "blocks" if issue.blocks else "applies"
    return Finding(
        Rule(
            issue.id,
            issue.summary,
            severity_level(issue.severity),
            "\n".join([issue.summary, *_rule_details(issue)]),
            issue.url,
            ("vllm", "known-issue", issue.kind.value, _severity_tag(issue.severity)),
        ),
        _issue_level(issue, reason),
        f"{issue.id} {may}",
        f"{issue.id} ({issue.severity} {issue.kind}) {may}: {issue.summary}",
        details=tuple(_issue_details(issue)),
        subject=issue.id,
        location=location,
        fingerprint=(issue.id, *place),
        suppression=_waiver(result, issue.id) if is_waived else None,
    )


def _rule_details(issue: KnownIssueOut) -> Sequence[str]:
    return [*(line for line in _issue_details(issue) if line.startswith("workaround")), _address_line(issue)]


def _address_line(issue: KnownIssueOut) -> str:
    return f"{published_kind(issue.url) or 'thread'}: {shown_address(issue.url)}"


def _severity_tag(severity: Severity) -> str:
    return f"severity-{severity.value}"
