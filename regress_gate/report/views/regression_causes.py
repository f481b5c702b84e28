"""Which known issue made which regression, and what the measurements say of each issue, in a line each."""

from regress_gate.model.issue import Applies
from regress_gate.model.result import ExplanationOut, IssueObservation, KnownIssueOut, Result

TITLE = "Causes of the regressions"
_SURE = 0.99
_LIKELY = 0.5
_NAMED = 0.02
"""Probability below which a number says no more than that the issue is not the cause."""
_MOST_SERIES = 3


def lines(result: Result) -> list[str]:
    """One line for each issue that explains something, then one for all that has the same nearest issues."""
    groups: dict[tuple[str | None, tuple[str, ...]], list[ExplanationOut]] = {}
    for one in sorted(result.explanations, key=lambda each: each.issue is None):
        near = () if one.issue else tuple(cause.issue for cause in one.causes)
        groups.setdefault((one.issue, near), []).append(one)
    return [_line(issue, members) for (issue, _), members in groups.items()]


def measured(issue: KnownIssueOut) -> str | None:
    """What came of the issue's claims; None where nothing did, or where it may not even apply."""
    match issue.measured:
        case IssueObservation.EXPLAINS:
            told = "" if issue.score is None else f" (probability {_share(issue.score)})"
            return f"explains {_some(issue.matched_series)}{told}"
        case IssueObservation.NOT_OBSERVED:
            return f"predicted but not observed: {issue.measured_why}"
        case IssueObservation.NOT_TESTABLE if issue.applies is Applies.YES:
            return f"not testable with this suite: {issue.measured_why}"
        case IssueObservation.UNCLEAR if issue.applies is Applies.YES:
            told = f" (probability {_share(issue.score)})" if issue.score is not None and issue.score >= _NAMED else ""
            return f"unclear{told}: {issue.measured_why}"
    return None


def _line(issue: str | None, members: list[ExplanationOut]) -> str:
    series = _some([name for one in members for name in one.series])
    causes = [
        f"{name} {_share(max(share for cause, share in _shares(members) if cause == name))}"
        for name in dict.fromkeys(cause for cause, _ in _shares(members))
    ]
    if issue is not None:
        least = min(one.causes[0].probability for one in members)
        return f"{series}: explained by {issue}, probability {_share(least)}"
    if not causes:
        return f"{series}: unexplained; no known issue comes near"
    together = min(sum(cause.probability for cause in one.causes) for one in members)
    return f"{series}: {'made by one of' if together >= _LIKELY else 'unexplained; nearest'} {', '.join(causes)}"


def _shares(members: list[ExplanationOut]) -> list[tuple[str, float]]:
    return [(cause.issue, cause.probability) for one in members for cause in one.causes]


def _share(probability: float) -> str:
    """The model's own doubt is not in the number, so it is never shown as certain."""
    return f"above {_SURE}" if probability > _SURE else f"{probability:.2f}"


def _some(names: list[str]) -> str:
    more = len(names) - _MOST_SERIES
    return ", ".join(names[:_MOST_SERIES]) + (f" and {more} more" if more > 0 else "")
