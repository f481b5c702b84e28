"""From reasons to a decision: the heaviest reason decides.

fail: the candidate does not serve, a gated series is shown to be worse, or a known issue blocks. inconclusive:
anything that was to be shown could not be. pass: everything was shown. Absence of evidence never passes.
"""

from collections.abc import Sequence

from regress_gate.errors import ExitCode
from regress_gate.gate.issues import issue_out, would_block
from regress_gate.gate.waivers import WaiverBook
from regress_gate.model.finding import Applies, IssueFinding
from regress_gate.model.policy import Policy
from regress_gate.model.result import Decision, KnownIssueOut, Reason, ReasonCode, VersionSide
from regress_gate.model.version import Version

FAILING = (ReasonCode.SERVER_FAILED, ReasonCode.FLAG_REMOVED, ReasonCode.REGRESSION, ReasonCode.KNOWN_ISSUE)
PASSING = (ReasonCode.WAIVED, ReasonCode.ALL_WITHIN_MARGIN, ReasonCode.NO_BLOCKING_ISSUE)


def decision_of(reasons: Sequence[Reason]) -> Decision:
    codes = {reason.code for reason in reasons}
    if codes & set(FAILING):
        return Decision.FAIL
    # No reason at all would be absence of evidence, which never passes.
    return Decision.PASS if codes and codes <= set(PASSING) else Decision.INCONCLUSIVE


def ordered(reasons: Sequence[Reason]) -> list[Reason]:
    weight = list(ReasonCode)
    return sorted(reasons, key=lambda reason: weight.index(reason.code))


def exit_code(decision: Decision, policy: Policy, *, report_only: bool) -> int:
    """The process's exit code for a decision, after what a team that rolls the gate out has asked for."""
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
