"""One sentence that says what to do now."""

from collections.abc import Sequence

from regress_gate.model.finding import Applies, Effect
from regress_gate.model.result import Decision, KnownIssueOut, Reason, ReasonCode, SeriesResult, Verdict


def advise_compare(
    decision: Decision,
    reasons: Sequence[Reason],
    series: Sequence[SeriesResult],
    issues: Sequence[KnownIssueOut],
    baseline: str,
    candidate: str,
) -> str:
    codes = {reason.code for reason in reasons}
    if decision is Decision.FAIL:
        named = [reason for reason in reasons if reason.code in (ReasonCode.REGRESSION, ReasonCode.KNOWN_ISSUE)]
        return f"Stay on {baseline}: {_named(named)}{_way_out(issues)}."
    if decision is Decision.PASS:
        carried = sum(issue.applies is Applies.YES and issue.effect is not Effect.RESOLVED for issue in issues)
        if ReasonCode.WAIVED in codes:
            return f"You may move to {candidate}, with what was waived in mind."
        aside = f", but read the {carried} known issue{'s' if carried > 1 else ''} that apply" if carried else ""
        return f"You may move to {candidate}: every gated series was shown to be within its margin{aside}."
    if ReasonCode.INCOMPARABLE in codes:
        return "Nothing can be said: measure both versions on one testbed, with one suite, while the machine is quiet."
    if ReasonCode.MISSING_SERIES in codes or ReasonCode.NO_GATED_SERIES in codes:
        return (
            f"Nothing can be said yet: measure the gated metrics that are missing on {candidate}, then compare again."
        )
    undecided = [s for s in series if s.gated and s.verdict is Verdict.INCONCLUSIVE and s.baseline.runs]
    needed = [s.runs_needed for s in undecided if s.runs_needed is not None]
    if needed:
        more = max(needed) - min(min(s.baseline.runs, s.candidate.runs) for s in undecided)
        return (
            f"Do not move to {candidate} on this evidence: add about {more} more runs a side, "
            "or accept wider margins, then compare again."
        )
    return (
        f"Do not move to {candidate} on this evidence: quieten the machine or accept wider margins, then measure again."
    )


def advise_check(decision: Decision, reasons: Sequence[Reason], candidate: str) -> str:
    if decision is Decision.FAIL:
        named = [reason for reason in reasons if reason.code is ReasonCode.KNOWN_ISSUE]
        return f"Do not move to {candidate} as it is: {_named(named)}."
    if decision is Decision.INCONCLUSIVE:
        return "Say more about the deployment, as the reasons above ask, and check again."
    return f"No known issue stops a move to {candidate}; nothing was measured, so compare it before you move."


def _named(reasons: Sequence[Reason]) -> str:
    names = [reason.issue or reason.series or reason.text for reason in reasons]
    listed = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return f"{listed} {'speaks' if len(names) == 1 else 'speak'} against it"


def _way_out(issues: Sequence[KnownIssueOut]) -> str:
    ready = [issue.id for issue in issues if issue.blocks and issue.workarounds]
    return f"; a workaround is known for {', '.join(ready)}" if ready else ""
