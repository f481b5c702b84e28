"""The known issues of a result: in full what counts, in one line the rest; and the causes of regressions.

What blocks, decides, is severe or matches the measurements is shown in full and comes first. The rest that applies gets
a line, low severity last. An issue of which a fact about the deployment is missing gets a line too, up to a number; the
others are only counted, because a report of hundreds of lines is not read.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from regress_gate.gate.reasons import issue_tally, matches_measurements, reported_issues
from regress_gate.known.matching.findings import (
    LAUNCH_LINE,
    needs_environment_alone,
    rank_missing_facts,
    waits_for_launch_line,
)
from regress_gate.known.threads import published_kind, shown_address
from regress_gate.model.issue import Applies, Effect, Severity
from regress_gate.model.result import Decision, ExplanationOut, IssueObservation, KnownIssueOut, ReasonCode, Result
from regress_gate.report.document import (
    Block,
    Code,
    Detail,
    Entry,
    EntryList,
    Inline,
    Line,
    Link,
    Pair,
    Paragraph,
    Section,
    Style,
    Styled,
)
from regress_gate.report.views import wording
from regress_gate.text import clip

CAUSES_TITLE = "Causes of the regressions"
_SURE = 0.99
_LIKELY = 0.5
_NAMED = 0.02
"""A smaller probability is not shown: the issue is not the cause."""
_MOST_SERIES = 3


def cause_lines(result: Result) -> list[str]:
    """One line for each issue that explains something, then one for all that has the same nearest issues.

    What a counter-test explains is said with the causes in the servers, and so is that none of them is known.
    """
    groups: dict[tuple[str | None, tuple[str, ...]], list[ExplanationOut]] = {}
    shown = [
        one
        for one in result.explanations
        if one.issue is not None or not (one.measured or (one.observed and not one.causes))
    ]
    for one in sorted(shown, key=lambda each: each.issue is None):
        near = () if one.issue else tuple(cause.issue for cause in one.causes)
        groups.setdefault((one.issue, near), []).append(one)
    return [_cause_line(issue, members) for (issue, _), members in groups.items()]


def observation_text(issue: KnownIssueOut) -> str | None:
    """What the measurements say of the issue's claims; None if nothing, or if it may not apply."""
    probability = "" if issue.score is None else f" (probability {_share(issue.score)})"
    match issue.measured:
        case IssueObservation.EXPLAINS:
            return f"explains {_some(issue.matched_series)}{probability}"
        case IssueObservation.NOT_OBSERVED:
            return f"predicted but not observed: {issue.measured_why}"
        case IssueObservation.NOT_TESTABLE if issue.applies is Applies.YES:
            return f"not testable with this suite: {issue.measured_why}"
        case IssueObservation.UNCLEAR if issue.applies is Applies.YES:
            is_named = issue.score is not None and issue.score >= _NAMED
            return f"unclear{probability if is_named else ''}: {issue.measured_why}"
    return None


def _cause_line(issue: str | None, members: list[ExplanationOut]) -> str:
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


MAX_UNDECIDED = {"check": 10, "compare": 5}
"""Lines of issues of which a fact is missing; in a comparison the measurements come first."""
MOST_SHORT = 2
"""Lines of issues that need not stand in full, of a comparison on a terminal."""
_MOST_FACTS = 3
_MOST_IN_FULL = 3
"""Issues on which the decision depends, up to which each is shown in full though a fact is missing."""
_FEWEST_TOGETHER = 2
"""Issues that one source of facts would settle, from which on a check counts them in one line."""
_LONGEST_NOTE = 40
"""The name of an engine argument; a longer one loses its middle."""
_APPLIES_ORDER = [Applies.YES, Applies.UNKNOWN, Applies.MITIGATED]
_SETTLED = (Applies.YES, Applies.MITIGATED)
_EFFECT_ORDER = list(Effect)
_APPLIES_STYLE = {
    Applies.YES: Style.STRONG,
    Applies.UNKNOWN: Style.WARNING,
    Applies.MITIGATED: Style.MUTED,
    Applies.NO: Style.MUTED,
}


@dataclass(frozen=True, slots=True)
class IssueGroup:
    title: str
    full: Sequence[KnownIssueOut]
    short: Sequence[KnownIssueOut]
    is_quiet: bool = False
    """Nothing in it is new, and nothing blocks."""

    def __len__(self) -> int:
        return len(self.full) + len(self.short)


@dataclass(frozen=True, slots=True)
class IssueSelection:
    groups: list[IssueGroup]
    """Of those that apply: new, carried, resolved."""
    undecided: list[IssueGroup]
    """Of those of which a fact is missing."""
    minor: list[IssueGroup]
    """At most one: of those that apply and are of low severity, with short entries only."""
    rest: Sequence[KnownIssueOut]
    """Of which a fact is missing too, and which have no entry."""
    more: str
    """How many have no entry, how to see more, which facts would settle most; empty if all are shown in full."""


def issues_section(result: Result, detail: Detail) -> Section:
    blocks: list[Block] = []
    if result.coverage is not None:
        text = wording.coverage(result.coverage, with_baseline=result.baseline is not None)
        blocks.append(Paragraph(text if result.coverage.covered else Styled(text, Style.WARNING)))
    if not result.known_issues:
        text = "None is recorded for these versions. That is not proof that there are none."
        return Section("Known issues", (*blocks, Paragraph(text)))
    chosen = select_issues(result, verbose=detail.verbose, is_full=detail.is_full)
    if result.command == "compare" and not (detail.is_page or detail.verbose):
        return Section("Known issues", tuple(_one_screen(result, chosen)))
    together = issues_counted_together(result)
    apart = {one.id for members in together.values() for one in members}
    words = [issue_tally([one for one in result.known_issues if one.id not in apart])]
    for what, members in together.items():
        more = " more" if any(words) else ""
        words.append(f"{len(members)}{more} {what}{_resolved_text(members)}")
    blocks.append(Paragraph(f"{'; '.join(filter(None, words))}."))
    parts = (chosen.groups, chosen.undecided, chosen.minor)
    is_folding = detail.is_page
    loud = [[group for group in part if not (is_folding and group.is_quiet)] for part in parts]
    quiet = [group for part in parts for group in part if is_folding and group.is_quiet and detail.quiet_issues]
    if detail.is_full and chosen.rest:
        shown = chosen.rest[: detail.issues]
        title = "More that may apply" + (f", of {len(chosen.rest)}" if len(shown) < len(chosen.rest) else "")
        quiet.append(IssueGroup(title, [], shown, is_quiet=True))
    for group in (*chain.from_iterable(_limited(part, detail.issues) for part in loud), *quiet):
        is_folded = group.is_quiet and is_folding
        entries = [issue_entry(one) for one in group.full]
        entries += [_short_entry(one, is_page=detail.is_page, is_full=detail.is_full) for one in group.short]
        title = f"{group.title}: {len(group)}" if is_folded else group.title
        blocks.append(Section(title, (EntryList(tuple(entries)),), is_folded=is_folded))
    if chosen.more:
        blocks.append(Paragraph(f"{chosen.more}."))
    return Section("Known issues", tuple(blocks))


def _resolved_text(issues: Sequence[KnownIssueOut]) -> str:
    resolved = sum(one.effect is Effect.RESOLVED for one in issues)
    return f" ({resolved} resolved)" if resolved else ""


def _one_screen(result: Result, chosen: IssueSelection) -> Iterator[Block]:
    """For a terminal, where the measurements need the room: in full what must never be cut, a few lines of the rest."""
    groups = (*chosen.groups, *chosen.undecided, *chosen.minor)
    short = [one for group in groups for one in group.short]
    short.sort(key=lambda one: (not _is_brought(one), _EFFECT_ORDER.index(one.effect), _is_minor(one)))
    shown = short[: max(MOST_SHORT, sum(map(_is_brought, short)))]
    waiting = [
        one
        for one in reported_issues(result.known_issues)
        if one.applies is Applies.UNKNOWN and not matches_measurements(one)
    ]
    hidden = len(short) - len(shown) + len(waiting) - sum(map(len, chosen.undecided))
    words = [issue_tally(result.known_issues), *([f"-v shows {hidden} more"] if hidden else [])]
    if result.decision is not Decision.PASS:
        words += _most_useful_facts(result, waiting)
    line: list[Inline] = ["; ".join(words) + "."]
    if (coverage := result.coverage) is not None:
        text = wording.coverage(coverage, with_baseline=result.baseline is not None, is_brief=True)
        line = [Styled(text, Style.PLAIN if coverage.covered else Style.WARNING), f" {line[0]}"]
    yield Paragraph(tuple(line))
    for group in groups:
        if group.full:
            yield Section(group.title, (EntryList(tuple(map(issue_entry, group.full))),))
    if shown:
        yield EntryList(tuple(_short_entry(one, is_page=False, with_effect=True) for one in shown))
    elif waiting:
        yield Paragraph(f"{chosen.more}.")


def _is_brought(one: KnownIssueOut) -> bool:
    """Whether the move brings it for sure, and it is more than low."""
    return one.applies is Applies.YES and one.effect is Effect.NEW and one.severity is not Severity.LOW


def _limited(groups: Sequence[IssueGroup], limit: int) -> Iterator[IssueGroup]:
    """The first entries of all groups together."""
    for group in groups:
        full = group.full[: max(limit, 0)]
        short = group.short[: max(limit - len(full), 0)]
        limit -= len(group)
        if full or short:
            yield replace(group, full=full, short=short)


def left_out(result: Result, detail: Detail) -> list[tuple[int, str, str]]:
    """What a page with these limits does not show: number, singular, plural."""
    chosen = select_issues(result, verbose=detail.verbose, is_full=detail.is_full)
    rest = len(chosen.rest) if detail.is_full else 0  # elsewhere `more` counts them
    loud = sum(len(group) for group in chosen.groups if not group.is_quiet)
    folded = [group for group in (*chosen.groups, *chosen.minor) if group.is_quiet]
    quiet = 0 if detail.quiet_issues else sum(map(len, folded))
    undecided = sum(map(len, chosen.undecided))
    minor = sum(len(group) for group in chosen.minor if not group.is_quiet)
    return [
        (loud - detail.issues, "known issue", "known issues"),
        (undecided - detail.issues, "known issue that needs more facts", "known issues that need more facts"),
        (minor - detail.issues, "known issue of low severity", "known issues of low severity"),
        (rest - detail.issues, "known issue that may apply", "known issues that may apply"),
        (quiet, "carried or resolved issue", "carried or resolved issues"),
    ]


def select_issues(result: Result, *, verbose: bool = False, is_full: bool = False) -> IssueSelection:
    """What applies, then what needs more facts; `verbose` gives both together and in full, `is_full` has `rest` shown.

    Issues that do not apply are only counted.
    """
    reported, groups = reported_issues(result.known_issues), _groups(result, verbose=verbose)
    waiting = [
        one for one in reported if not verbose and one.applies is Applies.UNKNOWN and not matches_measurements(one)
    ]
    deciding = _deciding(result)
    # An issue that lacks one fact is likelier to apply than one that lacks three.
    waiting.sort(
        key=lambda one: (
            one.id not in deciding,
            _EFFECT_ORDER.index(one.effect),
            -one.severity.rank,
            len(one.missing),
            one.id,
        )
    )
    limit = MAX_UNDECIDED[result.command]
    if result.coverage is None or result.coverage.platform is not None:
        limit = max(limit, len(deciding))
    elif result.command == "compare":
        limit = 0  # without the accelerator most records may apply: that one fact comes first
    together = {} if verbose else issues_counted_together(result)
    counted = {one.id for members in together.values() for one in members}
    listed = [one for one in waiting if one.id not in counted]
    shown = listed[:limit]
    in_full = deciding if len(deciding) <= _MOST_IN_FULL else set()
    undecided = [
        IssueGroup(
            wording.possible_effect(effect, result),
            [one for one in members if one.id in in_full],
            [one for one in members if one.id not in in_full],
        )
        for effect in Effect
        if (members := [one for one in shown if one.effect is effect])
    ]
    minor = [] if verbose else [group for group in [_minor_group(result)] if len(group)]
    more = _more(result, listed, shown, () if is_full else (*groups, *undecided, *minor), is_full=is_full)
    if together and not (is_full or more):
        more.append("-v shows all of them")
    rest = [*listed[limit:], *chain.from_iterable(together.values())]
    return IssueSelection(groups, undecided, minor, rest, "; ".join(more))


def _deciding(result: Result) -> set[str]:
    """Issues on which the decision depends."""
    return {reason.issue for reason in result.reasons if reason.code is ReasonCode.UNDECIDED and reason.issue}


def issues_counted_together(result: Result) -> dict[str, list[KnownIssueOut]]:
    """Issues below high severity that a check counts in one line, by the source that is likeliest to settle them."""
    if result.command != "check":
        return {}
    deciding = _deciding(result)
    minor = [
        one
        for one in reported_issues(result.known_issues)
        if one.applies is Applies.UNKNOWN and one.severity.rank < Severity.HIGH.rank and one.id not in deciding
    ]
    together = {
        f"wait for {LAUNCH_LINE}": [
            one for one in minor if not result.launch_line_is_complete and waits_for_launch_line(one.missing)
        ],
        "depend on the driver, Python or libraries, which --collect-env gives": [
            one for one in minor if needs_environment_alone(one.missing)
        ],
    }
    return {what: members for what, members in together.items() if len(members) >= _FEWEST_TOGETHER}


def _more(
    result: Result,
    waiting: Sequence[KnownIssueOut],
    shown: Sequence[KnownIssueOut],
    groups: Sequence[IssueGroup],
    *,
    is_full: bool,
) -> list[str]:
    """How many have no entry, and how to see or settle more."""
    if waiting and not shown:
        why = "the accelerator of this deployment is not known, so most records may apply: name it with --accelerator"
        return [why if is_full else f"{why}; -v shows all"]
    more = []
    if (left := len(waiting) - len(shown)) and not is_full:
        more.append(f"and {left} more: -v shows them")
    elif any(group.short for group in groups):
        more.append("-v shows all that is known of each")
    if result.command == "compare":  # the advice of a check ends with them
        more += _most_useful_facts(result, waiting)
    return more


def _groups(result: Result, *, verbose: bool) -> list[IssueGroup]:
    """By effect; within each what blocks, then what applies, then the most severe first."""
    groups = []
    decided = [
        one
        for one in reported_issues(result.known_issues)
        if one.applies is not Applies.UNKNOWN or verbose or matches_measurements(one)
    ]
    for effect in Effect:
        members = [one for one in decided if one.effect is effect and one.applies is not Applies.NO]
        members = [one for one in members if verbose or not _is_minor(one)]
        members.sort(key=lambda one: (not one.blocks, _APPLIES_ORDER.index(one.applies), -one.severity.rank, one.id))
        if members:
            full = [one for one in members if verbose or _is_loud(one) or matches_measurements(one)]
            shown = {id(one) for one in full}
            groups.append(
                IssueGroup(
                    wording.effect(effect, result),
                    full,
                    [one for one in members if id(one) not in shown],
                    is_quiet=effect is not Effect.NEW and not any(_is_loud(one) for one in full),
                )
            )
    return groups


def _minor_group(result: Result) -> IssueGroup:
    members = [one for one in reported_issues(result.known_issues) if _is_minor(one)]
    members.sort(key=lambda one: (_EFFECT_ORDER.index(one.effect), _APPLIES_ORDER.index(one.applies), one.id))
    is_quiet = result.baseline is not None and not any(one.effect is Effect.NEW for one in members)
    return IssueGroup("Of low severity", (), members, is_quiet=is_quiet)


def _is_minor(one: KnownIssueOut) -> bool:
    return one.severity is Severity.LOW and not one.blocks and not matches_measurements(one) and one.applies in _SETTLED


def _is_loud(one: KnownIssueOut) -> bool:
    """Whether it stands in full and is never folded away: it blocks, or it is severe and the candidate has it."""
    is_there = one.applies is Applies.YES and one.effect is not Effect.RESOLVED
    return one.blocks or (is_there and one.severity.rank >= Severity.HIGH.rank)


def _most_useful_facts(result: Result, waiting: Sequence[KnownIssueOut]) -> list[str]:
    missing = [(one.missing, False) for one in waiting if one.effect is not Effect.RESOLVED]
    ranked = rank_missing_facts(missing, complete=result.launch_line_is_complete)[:_MOST_FACTS]
    facts = ", ".join(f"{flag} ({count})" for flag, count in ranked if count > 1)
    return [f"the facts that would settle most: {facts}"] if facts else []


def _short_entry(one: KnownIssueOut, *, is_page: bool, is_full: bool = False, with_effect: bool = False) -> Entry:
    """A terminal gets the first of the flags that would settle whether the issue applies, a page all of them."""
    notes: list[str] = []
    if one.applies is Applies.UNKNOWN:
        notes = list(dict.fromkeys(one.missing)) or [one.why]
    elif one.applies is Applies.MITIGATED:
        notes = ["mitigated"]
    if not one.version_regression and one.applies is not Applies.UNKNOWN:
        notes.append("no version is free of it")
    note = ", ".join(notes) if is_page else _short_note(notes)
    effect = f", {'may be ' if one.applies is Applies.UNKNOWN else ''}{one.effect}" if with_effect else ""
    return Entry((*_head(one), effect), one.summary, note, _pairs(one) if is_full else (), is_short=True)


def _short_note(notes: Sequence[str]) -> str:
    if not notes or not notes[0].startswith("--"):
        return clip(", ".join(notes), _LONGEST_NOTE)
    # `--engine-arg async_scheduling` is known by its last word.
    first = clip(notes[0].rpartition(" ")[2], _LONGEST_NOTE)
    return f"{first} +{len(notes) - 1}" if len(notes) > 1 else first


def _head(one: KnownIssueOut) -> tuple[Inline, ...]:
    return Styled(one.id, _APPLIES_STYLE[one.applies]), f", {one.severity} {one.kind}"


def issue_entry(one: KnownIssueOut) -> Entry:
    blocks = (", ", Styled("BLOCKS", Style.BAD)) if one.blocks else ()
    return Entry((*_head(one), *blocks), one.summary, pairs=_pairs(one))


def _pairs(one: KnownIssueOut) -> tuple[Pair, ...]:
    pairs = [
        Pair("applies", f"{wording.APPLIES[one.applies]}: {one.why}"),
        Pair("status", wording.STATUS[one.status] + (f": {one.status_why}" if one.status_why else "")),
    ]
    if one.effect_why:
        pairs.append(Pair("effect", one.effect_why))
    if not one.version_regression:
        text = "a shortcoming that no earlier version is known to be free of; the move does not bring it"
        pairs.append(Pair("note", text))
    if measured := observation_text(one):
        pairs.append(Pair("measured", measured))
    # What the move leaves behind needs no workaround.
    for workaround in [] if one.effect is Effect.RESOLVED else one.workarounds:
        more: list[Line] = [Code(flag) for flag in wording.flags(workaround.engine_args, workaround.env)]
        more += [f"costs: {workaround.cost}"] if workaround.cost else []
        pairs.append(Pair("workaround", workaround.text, tuple(more)))
    pairs.append(Pair(published_kind(one.url) or "thread", Link(shown_address(one.url))))
    return tuple(pairs)
