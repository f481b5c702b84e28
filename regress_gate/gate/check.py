"""The decision on known issues alone. Apart from decide.py because it needs no statistics, and must be quick."""

from collections.abc import Sequence
from datetime import datetime

from regress_gate import __version__
from regress_gate.gate.advice import advise_check
from regress_gate.gate.issues import would_block
from regress_gate.gate.reasons import PASSING, decision_of, exit_code, ordered, version_out, weigh_issues
from regress_gate.gate.waivers import WaiverBook
from regress_gate.model.finding import Applies, IssueFinding
from regress_gate.model.policy import Policy
from regress_gate.model.result import Reason, ReasonCode, Result
from regress_gate.model.version import Version
from regress_gate.model.waiver import Waiver


def decide_check(
    baseline: Version | None,
    candidate: Version,
    *,
    policy: Policy,
    waivers: Sequence[Waiver],
    findings: Sequence[IssueFinding],
    now: datetime,
    report_only: bool = False,
) -> Result:
    """Known issues only; nothing is measured. A pass here says that no record blocks, and the advice says no more."""
    book = WaiverBook(waivers, now.date())
    issues, reasons = weigh_issues(findings, policy, book, has_baseline=baseline is not None)
    by_id = {finding.issue.id: finding for finding in findings}
    for issue in issues:
        unsettled = issue.applies is Applies.UNKNOWN
        if unsettled and would_block(by_id[issue.id], policy, has_baseline=baseline is not None):
            if book.covers(issue.id, None):
                continue
            text = f"{issue.id} would block if it applies: {issue.why}"
            reasons.append(Reason(code=ReasonCode.UNDECIDED, text=text, issue=issue.id))
    if not any(reason.code not in PASSING for reason in reasons):
        text = "no known issue that applies to this deployment blocks the move"
        reasons.append(Reason(code=ReasonCode.NO_BLOCKING_ISSUE, text=text))
    reasons = ordered(reasons)
    decision = decision_of(reasons)
    return Result(
        tool_version=__version__,
        created=now,
        command="check",
        decision=decision,
        exit_code=exit_code(decision, policy, report_only=report_only),
        advice=advise_check(decision, reasons, str(candidate)),
        reasons=reasons,
        baseline=None if baseline is None else version_out(baseline),
        candidate=version_out(candidate),
        known_issues=issues,
        # Waivers of series are no matter of a check, which measures none.
        waivers=[waiver for waiver in book.outcome() if waiver.state != "unused" or "/" not in waiver.finding],
    )
