"""The known issues of a result as a person is shown them: in full what counts, in a line what may count.

What applies, and what the move brings or blocks, is told in full. What the baseline has too gets a line. What cannot be
told gets a line while there are few of them, and is counted from there on: a report that nobody reads protects nobody.
All texts are still raw: a format cleans and escapes whatever it writes.
"""

from collections import Counter
from dataclasses import dataclass, field
from itertools import chain

from regress_gate.model.finding import Applies, Effect
from regress_gate.model.issue import IssueKind
from regress_gate.model.result import IssueObservation, KnownIssueOut, Result
from regress_gate.report.views import regression_causes, wording
from regress_gate.text import plural

MAX_UNDECIDED = {"check": 10, "compare": 5}
"""Lines of issues that cannot be told; in a comparison the measurements come first."""
_MOST_FACTS = 3
_APPLIES_ORDER = [Applies.YES, Applies.UNKNOWN, Applies.MITIGATED]
_EFFECT_ORDER = list(Effect)


@dataclass(frozen=True, slots=True)
class Workaround:
    text: str
    flags: list[str]
    cost: str | None


@dataclass(frozen=True, slots=True)
class IssueView:
    """An issue in full."""

    id: str
    label: str
    """Severity and kind."""
    blocks: bool
    applies: Applies
    summary: str
    facts: list[tuple[str, str]]
    """Label and text: on what the match, the status and the effect rest."""
    workarounds: list[Workaround]
    url: str


@dataclass(frozen=True, slots=True)
class IssueLine:
    """An issue in a line."""

    id: str
    label: str
    applies: Applies
    summary: str
    remarks: list[str]
    """What else to know: the flags that would tell whether it applies; that it is mitigated."""


@dataclass(frozen=True, slots=True)
class IssueGroup:
    effect: Effect
    title: str
    issues: list[IssueView] = field(default_factory=list)
    lines: list[IssueLine] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class IssuesView:
    groups: list[IssueGroup]
    """Of those that apply: new, carried, resolved."""
    undecided: list[IssueGroup]
    """Of those of which a fact is missing; with lines only."""
    more: str
    """How many have no line, how to see more, which facts would settle most; empty where all is told in full."""


def reported_issues(result: Result) -> list[KnownIssueOut]:
    """The issues that are news: what was no bug is none, unless it applies or the measurements look like it."""
    return [
        one
        for one in result.known_issues
        if one.kind is not IssueKind.NOT_A_BUG or one.applies is not Applies.UNKNOWN or _matches(one)
    ]


def issues(result: Result, *, verbose: bool = False) -> IssuesView:
    """What applies, then what cannot be told; `verbose` tells both together and in full.

    Issues that do not apply are only counted, which is the matter of `issue_tally`.
    """
    groups = _groups(result, verbose=verbose)
    waiting = [
        one for one in reported_issues(result) if not verbose and one.applies is Applies.UNKNOWN and not _matches(one)
    ]
    # What lacks one fact is likelier to apply than what lacks three.
    waiting.sort(key=lambda one: (_EFFECT_ORDER.index(one.effect), -one.severity.rank, len(one.missing), one.id))
    shown = waiting[: MAX_UNDECIDED[result.command]]
    undecided = [
        IssueGroup(effect, wording.may(effect, with_baseline=result.baseline is not None), lines=lines)
        for effect in Effect
        if (lines := [_line(one) for one in shown if one.effect is effect])
    ]
    more = []
    if left := len(waiting) - len(shown):
        more.append(f"and {left} more: -v shows them")
    elif any(group.lines for group in (*groups, *undecided)):
        more.append("-v tells all that is known of each")
    if result.command == "compare":  # the advice of a check ends with them
        more += _settling(waiting)
    return IssuesView(groups, undecided, "; ".join(more))


def _groups(result: Result, *, verbose: bool) -> list[IssueGroup]:
    """By effect; within each what blocks, then what applies, then the most severe first."""
    groups = []
    decided = [one for one in reported_issues(result) if one.applies is not Applies.UNKNOWN or verbose or _matches(one)]
    for effect in Effect:
        members = [one for one in decided if one.effect is effect and one.applies is not Applies.NO]
        members.sort(key=lambda one: (not one.blocks, _APPLIES_ORDER.index(one.applies), -one.severity.rank, one.id))
        if members:
            title = wording.effect(effect, with_baseline=result.baseline is not None)
            full = [_issue(one) for one in members if verbose or not _is_old(one, result)]
            lines = [_line(one) for one in members if not verbose and _is_old(one, result)]
            groups.append(IssueGroup(effect, title, full, lines))
    return groups


def issue_tally(result: Result) -> str:
    """`1 applies, 2 may apply, 30 do not apply`; empty without any issue."""
    counts = Counter(one.applies for one in reported_issues(result))
    words = {
        Applies.YES: ("applies", "apply"),
        Applies.UNKNOWN: ("may apply", "may apply"),
        Applies.MITIGATED: ("is mitigated", "are mitigated"),
        Applies.NO: ("does not apply", "do not apply"),
    }
    return ", ".join(plural(counts[key], *words[key]) for key in words if counts[key])


def _matches(one: KnownIssueOut) -> bool:
    return bool(one.matched_series) or one.measured is IssueObservation.EXPLAINS


def _is_old(one: KnownIssueOut, result: Result) -> bool:
    return result.baseline is not None and one.effect is Effect.CARRIED and not one.blocks and not _matches(one)


def _settling(waiting: list[KnownIssueOut]) -> list[str]:
    counts = Counter(chain.from_iterable(set(one.missing) for one in waiting if one.effect is not Effect.RESOLVED))
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:_MOST_FACTS]
    facts = ", ".join(f"{flag} ({count})" for flag, count in ranked if count > 1)
    return [f"the facts that would settle most: {facts}"] if facts else []


def _line(one: KnownIssueOut) -> IssueLine:
    remarks = []
    if one.applies is Applies.UNKNOWN:
        remarks = list(dict.fromkeys(one.missing)) or [one.why]
    elif one.applies is Applies.MITIGATED:
        remarks = ["mitigated"]
    if not one.version_regression and one.applies is not Applies.UNKNOWN:
        remarks.append("no version is free of it")
    return IssueLine(one.id, f"{one.severity} {one.kind}", one.applies, one.summary, remarks)


def _issue(one: KnownIssueOut) -> IssueView:
    lines = [
        ("applies", f"{wording.APPLIES[one.applies]}: {one.why}"),
        ("status", wording.STATUS[one.status] + (f": {one.status_why}" if one.status_why else "")),
    ]
    if one.effect_why:
        lines.append(("effect", one.effect_why))
    if not one.version_regression:
        lines.append(("note", "a shortcoming that no earlier version is known to be free of; not brought by the move"))
    if measured := regression_causes.measured(one):
        lines.append(("measured", measured))
    # What the move leaves behind needs no workaround.
    workarounds = [] if one.effect is Effect.RESOLVED else one.workarounds
    return IssueView(
        id=one.id,
        label=f"{one.severity} {one.kind}",
        blocks=one.blocks,
        applies=one.applies,
        summary=one.summary,
        facts=lines,
        workarounds=[
            Workaround(each.text, wording.flags(each.engine_args, each.env), each.cost) for each in workarounds
        ],
        url=one.url,
    )
