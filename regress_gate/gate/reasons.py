"""From reasons to a decision, with known issues and waivers weighed, and one sentence of advice.

The heaviest reason decides. fail: the candidate does not serve, a gated series is shown to be worse, or a known issue
blocks. inconclusive: something that had to be shown could not be. pass: everything was shown. Absence of evidence never
passes. Imports neither numpy nor scipy, because `check` has to start fast.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Literal

from regress_gate.errors import ExitCode
from regress_gate.model.issue import Applies, Effect, IssueFinding, IssueKind, Severity, Status
from regress_gate.model.policy import Policy, Waiver
from regress_gate.model.result import (
    CoverageOut,
    Decision,
    IssueObservation,
    KnownIssueOut,
    Move,
    Reason,
    ReasonCode,
    SeriesResult,
    Verdict,
    VersionSide,
    WaiverOut,
    WorkaroundOut,
)
from regress_gate.model.version import Version
from regress_gate.text import plural

FIXED_STATUSES = (Status.FIX_IN_CANDIDATE, Status.MEASURED_FIXED, Status.ABSENT_IN_CODE)


def would_block(finding: IssueFinding, policy: Policy, *, has_baseline: bool) -> bool:
    """Whether the issue blocks if it applies.

    With a baseline, only an issue that the move brings can block: one that is there already is no reason to stay.
    Without a baseline, every issue of the candidate counts.
    """
    if (
        policy.block_severity == "never"
        or finding.status in FIXED_STATUSES
        or finding.issue.kind is IssueKind.NOT_A_BUG
    ):
        return False
    if finding.effect is Effect.RESOLVED or (has_baseline and finding.effect is not Effect.NEW):
        return False
    return finding.issue.severity.rank >= Severity(policy.block_severity).rank


def issue_out(finding: IssueFinding, *, blocks: bool) -> KnownIssueOut:
    issue = finding.issue
    return KnownIssueOut(
        id=issue.id,
        summary=issue.summary,
        kind=issue.kind,
        severity=issue.severity,
        version_regression=issue.version_regression,
        url=issue.tracker.url,
        applies=finding.applies,
        why=finding.why,
        missing=list(finding.missing),
        status=finding.status,
        status_why=finding.status_why,
        effect=finding.effect,
        effect_why=finding.effect_why,
        blocks=blocks and finding.applies is Applies.YES,
        workarounds=[
            WorkaroundOut(text=fix.text, engine_args=fix.engine_args or {}, env=fix.env or {}, cost=fix.cost)
            for fix in issue.workarounds
        ],
    )


WaiverState = Literal["used", "expired", "exceeded", "unused"]


@dataclass(slots=True)
class WaiverBook:
    """The waivers of one decision, and how each was used. One that is expired or exceeded does not hold."""

    waivers: Sequence[Waiver]
    today: date
    _states: dict[int, tuple[WaiverState, str]] = field(default_factory=dict)

    def covers(self, finding: str, change: float | None) -> bool:
        """Whether a waiver holds for this finding. `change` is the largest loss it may be; None for a known issue."""
        held = False
        for index, waiver in enumerate(self.waivers):
            if not waiver.covers(finding):
                continue
            if waiver.is_expired(self.today):
                self._note(index, "expired", f"ended on {waiver.until}; {finding} counts again")
            elif change is not None and change > waiver.max_change:
                self._note(
                    index,
                    "exceeded",
                    f"{finding} may have lost {change:.1%}, more than the {waiver.max_change:.1%} waived",
                )
            else:
                self._note(index, "used", f"covers {finding}")
                held = True
        return held

    def _note(self, index: int, state: WaiverState, detail: str) -> None:
        # What needs action outranks what worked: one exceeded finding makes the whole waiver exceeded.
        rank = {"unused": 0, "used": 1, "exceeded": 2, "expired": 2}
        known = self._states.get(index)
        if known is None or rank[state] > rank[known[0]]:
            self._states[index] = state, detail
        elif known[0] == state:
            self._states[index] = state, f"{known[1]}; {detail}"

    def outcome(self) -> list[WaiverOut]:
        results = []
        for index, waiver in enumerate(self.waivers):
            unused = "expired on {0}, and nothing needs it" if waiver.is_expired(self.today) else "nothing needs it"
            state, detail = self._states.get(index, ("unused", unused.format(waiver.until)))
            results.append(WaiverOut(**waiver.model_dump(), state=state, detail=detail))
        return results


FAILING_CODES = (
    ReasonCode.SERVER_FAILED,
    ReasonCode.FLAG_REMOVED,
    ReasonCode.LAUNCH_LINE,
    ReasonCode.REGRESSION,
    ReasonCode.SLO_BROKEN,
    ReasonCode.KNOWN_ISSUE,
)
PASSING_CODES = (ReasonCode.SLO_CARRIED, ReasonCode.WAIVED, ReasonCode.ALL_WITHIN_MARGIN, ReasonCode.NO_BLOCKING_ISSUE)


def decision_of(reasons: Sequence[Reason]) -> Decision:
    codes = {reason.code for reason in reasons}
    if codes & set(FAILING_CODES):
        return Decision.FAIL
    # No reason at all would be absence of evidence, which never passes.
    return Decision.PASS if codes and codes <= set(PASSING_CODES) else Decision.INCONCLUSIVE


def order_reasons(reasons: Sequence[Reason]) -> list[Reason]:
    weight = list(ReasonCode)
    return sorted(reasons, key=lambda reason: weight.index(reason.code))


def exit_code(decision: Decision, policy: Policy, *, report_only: bool) -> int:
    """The exit code for a decision, under the options of a team that is rolling the gate out."""
    if report_only:
        return ExitCode.PASS
    if decision is Decision.INCONCLUSIVE and policy.on_inconclusive is not None:
        return ExitCode.PASS if policy.on_inconclusive == "pass" else ExitCode.FAIL
    return {
        Decision.PASS: ExitCode.PASS,
        Decision.FAIL: ExitCode.FAIL,
        Decision.INCONCLUSIVE: ExitCode.INCONCLUSIVE,
    }[decision]


def weigh_issues(
    findings: Sequence[IssueFinding], policy: Policy, book: WaiverBook, *, has_baseline: bool
) -> tuple[list[KnownIssueOut], list[Reason]]:
    issues, reasons = [], []
    for finding in findings:
        blocks = finding.applies is Applies.YES and would_block(finding, policy, has_baseline=has_baseline)
        if blocks:
            waived = book.covers(finding.issue.id, None)
            code = ReasonCode.WAIVED if waived else ReasonCode.KNOWN_ISSUE
            text = f"{finding.issue.id} ({finding.issue.severity}): {finding.issue.summary}"
            reasons.append(Reason(code=code, text=text, issue=finding.issue.id))
            blocks = not waived
        issues.append(issue_out(finding, blocks=blocks))
    return issues, reasons


def version_out(version: Version) -> VersionSide:
    return VersionSide(version=version.number or str(version), commit=version.commit, variant=version.variant)


def advise_compare(
    decision: Decision,
    reasons: Sequence[Reason],
    series: Sequence[SeriesResult],
    issues: Sequence[KnownIssueOut],
    baseline: str,
    candidate: str,
    *,
    comparable: bool,
    coverage: CoverageOut | None = None,
) -> str:
    heaviest = reasons[0]
    if decision is Decision.FAIL:
        if heaviest.code is ReasonCode.SERVER_FAILED:
            return f"Stay on {baseline}: {candidate} does not serve this reliably; read its log lines above."
        if heaviest.code is ReasonCode.FLAG_REMOVED:
            return f"Stay on {baseline} until the launch line is changed: {heaviest.text}."
        blocking = (ReasonCode.REGRESSION, ReasonCode.SLO_BROKEN, ReasonCode.KNOWN_ISSUE)
        named = [reason for reason in reasons if reason.code in blocking]
        return f"Stay on {baseline}: {_blockers_text(named)}{_workaround_text(issues)}."
    if decision is Decision.PASS:
        caveat = "" if comparable else _INCOMPARABLE_CAVEAT
        return f"You may move to {candidate}{_remaining_findings(reasons, issues, coverage)}{caveat}."
    match heaviest.code:
        case ReasonCode.COPIED_RUNS:
            return f"No decision is possible on copies: {heaviest.text}."
        case ReasonCode.INCOMPARABLE:
            return f"No decision is possible until both sides are comparable: {heaviest.text}."
        case ReasonCode.OTHER_PLATFORM:
            return f"Measure both versions on the machine that serves, with a suite made for it: {heaviest.text}."
        case ReasonCode.MISSING_SERIES:
            return f"Measure what is missing, then compare again: {heaviest.text}."
        case ReasonCode.SLO_UNCLEAR:
            return f"Do not move to {candidate} on this evidence: add runs, then compare again: {heaviest.text}."
        case ReasonCode.NO_GATED_SERIES:
            return (
                "Measure a gated metric on both sides, with enough requests, or name others in [gate], and try again."
            )
    undecided = [s for s in series if s.gated and s.verdict is Verdict.UNDECIDED and s.baseline.runs]
    needed = [s.runs_needed for s in undecided if s.runs_needed is not None]
    if not needed:
        return f"Do not move to {candidate} on this evidence: measure on a quieter machine, or with wider margins."
    more = max(needed) - min(min(s.baseline.runs, s.candidate.runs) for s in undecided)
    rest = len(undecided) - len(needed)
    beyond = (
        f"; {plural(rest, 'series needs', 'series need')} a quieter machine or wider margins as well" if rest else ""
    )
    runs = plural(more, "run")
    return f"Do not move to {candidate} on this evidence: add about {runs} a side, then compare again{beyond}."


_INCOMPARABLE_CAVEAT = ", if you accept a comparison of sides that are not comparable"


def reported_issues(issues: Sequence[KnownIssueOut]) -> list[KnownIssueOut]:
    """Without those that are no bugs, unless they apply or match the measurements."""
    return [
        one
        for one in issues
        if one.kind is not IssueKind.NOT_A_BUG or one.applies is not Applies.UNKNOWN or matches_measurements(one)
    ]


def matches_measurements(issue: KnownIssueOut) -> bool:
    return bool(issue.matched_series) or issue.measured is IssueObservation.EXPLAINS


_TALLY = {
    Applies.YES: ("applies", "apply"),
    Applies.UNKNOWN: ("may apply", "may apply"),
    Applies.MITIGATED: ("is mitigated", "are mitigated"),
    Applies.NO: ("does not apply", "do not apply"),
}


def issue_tally(issues: Sequence[KnownIssueOut], counted: Sequence[Applies] = tuple(_TALLY)) -> str:
    """`1 applies, 13 may apply (6 resolved), 30 do not apply`; empty without any issue.

    The only place that counts issues for people, so that one report has one number of them.
    """
    words = []
    for answer in counted:
        alike = [one for one in reported_issues(issues) if one.applies is answer]
        resolved = 0 if answer is Applies.NO else sum(one.effect is Effect.RESOLVED for one in alike)
        which = f" ({resolved} resolved)" if resolved else ""
        if alike:
            words.append(plural(len(alike), *_TALLY[answer]) + (which if len(alike) > resolved else " (resolved)"))
    return ", ".join(words)


def _remaining_findings(
    reasons: Sequence[Reason], issues: Sequence[KnownIssueOut], coverage: CoverageOut | None
) -> str:
    """What the user should still read after a pass."""
    waived = sum(reason.code is ReasonCode.WAIVED for reason in reasons)
    is_unknown = coverage is not None and coverage.platform is None
    counted = (Applies.YES,) if is_unknown else (Applies.YES, Applies.UNKNOWN)
    present = any(one.effect is not Effect.RESOLVED for one in reported_issues(issues) if one.applies in counted)
    parts = [f"the {plural(waived, 'waived finding')}"] if waived else []
    parts += [f"the known issues ({issue_tally(issues, counted)})"] if present else []
    shown = ": every gated series was shown to be within its margin" if not waived else ""
    shown += f"; read {' and '.join(parts)}" if parts else ""
    return shown + ("; name the accelerator (--accelerator) to see which known issues apply" if is_unknown else "")


def advise_check(
    decision: Decision,
    reasons: Sequence[Reason],
    coverage: CoverageOut,
    baseline: Version | None,
    candidate: Version,
    move: Move | None,
    unknown_accelerator: str = "",
) -> str:
    going = f"downgrade to {candidate}" if move is Move.DOWNGRADE else f"move to {candidate}"
    codes = {reason.code for reason in reasons}
    if decision is Decision.FAIL:
        named = [reason for reason in reasons if reason.code is ReasonCode.KNOWN_ISSUE]
        changes = sum(reason.code is ReasonCode.LAUNCH_LINE for reason in reasons)
        parts = [f"your launch line needs {plural(changes, 'change')}"] if changes else []
        parts += [_blockers_text(named)] if named else []
        return f"Do not {going} as it is: {'; '.join(parts)}."
    if decision is Decision.PASS:
        return f"No known issue stops a {going}; nothing was measured, so compare it before you move."
    undecided = [reason for reason in reasons if reason.code is ReasonCode.UNDECIDED]
    asked = "Give more facts about the deployment, then check again." if any(one.issue for one in undecided) else ""
    untried = "Start it once with your launch line." if any(one.issue is None for one in undecided) else ""
    todo = ""
    if ReasonCode.NOT_COVERED in codes:
        todo = _coverage_todo(coverage, baseline, candidate, unknown_accelerator)
    return " ".join(filter(None, (todo, asked, untried)))


def _coverage_todo(
    coverage: CoverageOut, baseline: Version | None, candidate: Version, unknown_accelerator: str
) -> str:
    """What to do where no review reaches."""
    if coverage.platform is None and unknown_accelerator:
        return f"A{unknown_accelerator[1:]}: correct it or name the platform (--platform), then check again."
    if coverage.platform is None:
        return "Name the accelerator (--accelerator) or the platform (--platform), then check again."
    if coverage.nearest_release is not None:
        return f"There is no release {candidate}: check {coverage.nearest_release}, the nearest."
    newer = "check again with newer records (a newer vllm-regress-gate)"
    if coverage.too_new is not None and coverage.too_new != str(candidate):
        return f"If {coverage.too_new} is a slip, name the version that runs now; if it was released since, {newer}."
    sides = f"{'BASE' if baseline is None else baseline} {candidate}"
    # The default suite runs on CPUs alone and shows nothing of another platform.
    suite = "" if coverage.platform == "cpu" else " --suite NAME, of `regress-gate suite list`"
    return (
        f"The records do not say whether {candidate} is good: measure it (regress-gate compare {sides} "
        f"--measure{suite}), or {newer}."
    )


def _blockers_text(reasons: Sequence[Reason]) -> str:
    named = {reason.issue or reason.series for reason in reasons}
    # An objective begins with its series, which may be named already because it is worse, too.
    told = [reason for reason in reasons if reason.issue or reason.series or reason.text.split()[0] not in named]
    names = [reason.issue or reason.series or reason.text for reason in told]
    listed = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return f"blocked by {listed}"


def _workaround_text(issues: Sequence[KnownIssueOut]) -> str:
    ready = [issue.id for issue in issues if issue.blocks and issue.workarounds]
    return f"; a workaround is known for {', '.join(ready)}" if ready else ""
