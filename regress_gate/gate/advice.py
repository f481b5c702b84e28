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
    *,
    comparable: bool,
) -> str:
    heaviest = reasons[0]
    if decision is Decision.FAIL:
        if heaviest.code is ReasonCode.SERVER_FAILED:
            return f"Stay on {baseline}: {candidate} does not serve this reliably; read its log lines above."
        if heaviest.code is ReasonCode.FLAG_REMOVED:
            return f"Stay on {baseline} until the launch line is changed: {heaviest.text}."
        named = [reason for reason in reasons if reason.code in (ReasonCode.REGRESSION, ReasonCode.KNOWN_ISSUE)]
        return f"Stay on {baseline}: {_named(named)}{_way_out(issues)}."
    if decision is Decision.PASS:
        return f"You may move to {candidate}{_asides(reasons, issues)}{'' if comparable else _NOT_ONE_MACHINE}."
    match heaviest.code:
        case ReasonCode.INCOMPARABLE:
            return f"Nothing can be said before both sides are comparable: {heaviest.text}."
        case ReasonCode.MISSING_SERIES:
            return f"Measure what is missing, then compare again: {heaviest.text}."
        case ReasonCode.NO_GATED_SERIES:
            return (
                "Measure a gated metric on both sides, with enough requests, or name others in [gate], and try again."
            )
    undecided = [s for s in series if s.gated and s.verdict is Verdict.INCONCLUSIVE and s.baseline.runs]
    needed = [s.runs_needed for s in undecided if s.runs_needed is not None]
    if not needed:
        return f"Do not move to {candidate} on this evidence: measure on a quieter machine, or with wider margins."
    more = max(needed) - min(min(s.baseline.runs, s.candidate.runs) for s in undecided)
    rest = len(undecided) - len(needed)
    beyond = f"; {rest} series need a quieter machine or wider margins all the same" if rest else ""
    return f"Do not move to {candidate} on this evidence: add about {more} runs a side, then compare again{beyond}."


_NOT_ONE_MACHINE = ", if you believe a comparison of two sides that are not comparable"


def _asides(reasons: Sequence[Reason], issues: Sequence[KnownIssueOut]) -> str:
    """What a pass leaves to be read."""
    waived = sum(reason.code is ReasonCode.WAIVED for reason in reasons)
    carried = sum(issue.applies is Applies.YES and issue.effect is not Effect.RESOLVED for issue in issues)
    unsettled = sum(issue.applies is Applies.UNKNOWN and issue.effect is not Effect.RESOLVED for issue in issues)
    parts = [
        f"{count} {what}"
        for count, what in (
            (waived, "waived finding" + "s" * (waived != 1)),
            (carried, "known issue" + ("s that apply" if carried != 1 else " that applies")),
            (unsettled, "known issue" + "s" * (unsettled != 1) + " that may apply"),
        )
        if count
    ]
    shown = ": every gated series was shown to be within its margin" if not waived else ""
    return shown + (f"; read the {' and the '.join(parts)}" if parts else "")


def advise_check(decision: Decision, reasons: Sequence[Reason], candidate: str) -> str:
    if decision is Decision.FAIL:
        named = [reason for reason in reasons if reason.code is ReasonCode.KNOWN_ISSUE]
        return f"Do not move to {candidate} as it is: {_named(named)}."
    if decision is Decision.INCONCLUSIVE:
        return "Say more about the deployment, and check again."
    return f"No known issue stops a move to {candidate}; nothing was measured, so compare it before you move."


def _named(reasons: Sequence[Reason]) -> str:
    names = [reason.issue or reason.series or reason.text for reason in reasons]
    listed = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return f"{listed} {'speaks' if len(names) == 1 else 'speak'} against it"


def _way_out(issues: Sequence[KnownIssueOut]) -> str:
    ready = [issue.id for issue in issues if issue.blocks and issue.workarounds]
    return f"; a workaround is known for {', '.join(ready)}" if ready else ""
