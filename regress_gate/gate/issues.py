"""Which known issues block the move, and how findings enter the result."""

from regress_gate.model.finding import Applies, Effect, IssueFinding, Status
from regress_gate.model.issue import IssueKind, Severity
from regress_gate.model.policy import Policy
from regress_gate.model.result import KnownIssueOut, WorkaroundOut

FIXED = (Status.FIX_IN_CANDIDATE, Status.MEASURED_FIXED)


def would_block(finding: IssueFinding, policy: Policy, *, has_baseline: bool) -> bool:
    """Whether the issue is one that blocks where it applies.

    With a baseline, only what the move brings can block: what is there already is no reason to stay. Without one the
    question is whether the version is fit at all, and everything the candidate has counts.
    """
    if policy.block_severity == "never" or finding.status in FIXED or finding.issue.kind is IssueKind.NOT_A_BUG:
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
