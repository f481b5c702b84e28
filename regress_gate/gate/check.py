"""Decide on known issues alone, and recommend the newest release that passes.

Apart from `decide`, because it needs no statistics and must start fast: nothing here imports numpy or scipy.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from itertools import groupby

from packaging.version import Version as Pep440

from regress_gate import __version__
from regress_gate.gate.launch_line import LaunchTest
from regress_gate.gate.reasons import (
    PASSING_CODES,
    WaiverBook,
    advise_check,
    decision_of,
    exit_code,
    order_reasons,
    version_out,
    weigh_issues,
    would_block,
)
from regress_gate.known.records.coverage import move_of
from regress_gate.model.issue import Applies, IssueFinding
from regress_gate.model.policy import Policy, Waiver
from regress_gate.model.result import CoverageOut, Decision, Reason, ReasonCode, Result
from regress_gate.model.version import Version


def decide_check(
    baseline: Version | None,
    candidate: Version,
    *,
    policy: Policy,
    waivers: Sequence[Waiver],
    findings: Sequence[IssueFinding],
    coverage: CoverageOut,
    now: datetime,
    launch: LaunchTest | None = None,
    report_only: bool = False,
    unknown_accelerator: str = "",
) -> Result:
    """Decide on known issues and the launch line. A pass means that every release of the move was reviewed, no record
    blocks and the candidate takes the launch line; nothing was measured.

    `unknown_accelerator`: that the one which was named is not known, in words.
    """
    book, move = WaiverBook(waivers, now.date()), move_of(baseline, candidate)
    issues, reasons = weigh_issues(findings, policy, book, has_baseline=baseline is not None)
    by_id = {finding.issue.id: finding for finding in findings}
    for issue in issues:
        unsettled = issue.applies is Applies.UNKNOWN
        if unsettled and would_block(by_id[issue.id], policy, has_baseline=baseline is not None):
            if book.covers(issue.id, None):
                continue
            text = f"{issue.id} would block if it applies: {issue.why}"
            reasons.append(Reason(code=ReasonCode.UNDECIDED, text=text, issue=issue.id))
    if not coverage.covered:
        reasons.append(Reason(code=ReasonCode.NOT_COVERED, text=coverage.why))
    reasons += [] if launch is None else _launch_reasons(launch)
    if not any(reason.code not in PASSING_CODES for reason in reasons):
        text = "no known issue that applies to this deployment blocks the move"
        reasons.append(Reason(code=ReasonCode.NO_BLOCKING_ISSUE, text=text))
    reasons = order_reasons(reasons)
    decision = decision_of(reasons)
    return Result(
        tool_version=__version__,
        created=now,
        command="check",
        decision=decision,
        exit_code=exit_code(decision, policy, report_only=report_only),
        advice=advise_check(decision, reasons, coverage, baseline, candidate, move, unknown_accelerator),
        reasons=reasons,
        baseline=None if baseline is None else version_out(baseline),
        candidate=version_out(candidate),
        move=move,
        known_issues=issues,
        coverage=coverage,
        warnings=[] if launch is None else list(launch.notices),
        # A check measures no series, so unused waivers of series are left out.
        waivers=[waiver for waiver in book.outcome() if waiver.state != "unused" or "/" not in waiver.finding],
    )


def _launch_reasons(launch: LaunchTest) -> list[Reason]:
    reasons = [Reason(code=ReasonCode.LAUNCH_LINE, text=problem.text) for problem in launch.problems]
    return reasons + ([Reason(code=ReasonCode.UNDECIDED, text=launch.untested)] if launch.untested else [])


_MAX_NAMED_REASONS = 4


@dataclass(frozen=True, slots=True)
class Recommendation:
    version: Version | None
    """None when no release passes."""
    released: date | None
    passed_over: Sequence[tuple[str, str]]
    """Newer releases, the newest first, each with the reason in a few words."""


def recommend_release(
    releases: Mapping[Pep440, date],
    check: Callable[[Version], Result],
    *,
    baseline: Version | None,
    today: date,
    min_age_days: int,
) -> Recommendation:
    """The newest release that `check` lets pass, tried from the newest down to the baseline: it was reviewed, and no
    known issue blocks it.

    A release younger than `min_age_days` is passed over: its problems have had no time to be reported.
    """
    floor = None if baseline is None else baseline.order_key
    passed_over: list[tuple[str, str]] = []
    for release in sorted(releases, reverse=True):
        if floor is not None and release <= floor:
            break
        age = (today - releases[release]).days
        if age < min_age_days:
            passed_over.append((str(release), f"published {age} days ago"))
            continue
        version = Version.parse(str(release))
        result = check(version)
        if result.decision is Decision.PASS:
            return Recommendation(version, releases[release], passed_over)
        passed_over.append((str(release), _rejection_text(result)))
    return Recommendation(None, None, passed_over)


def recommendation_text(recommendation: Recommendation, baseline: Version | None) -> str:
    """One or two sentences for people."""
    over = _passed_over_text(recommendation.passed_over)
    if recommendation.version is None:
        stay = "No release can be recommended" if baseline is None else f"Stay on {baseline}: no newer release passes"
        return f"{stay}{f' ({over})' if over else ''}."
    newest = f"The recommended version is {recommendation.version}, published {recommendation.released}"
    which = "the newest that was reviewed and that no known issue of this deployment blocks"
    return f"{newest}: {which}{f'. Passed over: {over}' if over else ''}."


def _rejection_text(result: Result) -> str:
    """The issues that block it, by name, or that it was not reviewed."""
    blocking = [reason.issue for reason in result.reasons if reason.code is ReasonCode.KNOWN_ISSUE and reason.issue]
    if blocking:
        return f"{_named(blocking)} {'block' if len(blocking) > 1 else 'blocks'}"
    if any(reason.code is ReasonCode.LAUNCH_LINE for reason in result.reasons):
        return "does not take the launch line"
    coverage = result.coverage
    if coverage is not None and not coverage.covered:
        return "platform not known" if coverage.platform is None else f"not reviewed for {coverage.platform}"
    waiting = [reason.issue for reason in result.reasons if reason.issue is not None]
    return f"{_named(waiting)} may apply" if waiting else result.reasons[0].text


def _named(ids: Sequence[str]) -> str:
    return ", ".join(ids[:2]) + (f" and {len(ids) - 2} more" if len(ids) > 2 else "")


def _passed_over_text(passed_over: Sequence[tuple[str, str]]) -> str:
    """Neighbouring releases with the same reason share an entry: `0.33.0 to 0.30.0: not reviewed for cuda`."""
    groups = [(why, [version for version, _ in members]) for why, members in groupby(passed_over, lambda one: one[1])]
    shown = "; ".join(f"{_first_and_last(versions)}: {why}" for why, versions in groups[:_MAX_NAMED_REASONS])
    rest = sum(len(versions) for _, versions in groups[_MAX_NAMED_REASONS:])
    return shown + (f"; and {rest} older" if rest > 0 else "")


def _first_and_last(versions: Sequence[str]) -> str:
    match versions:
        case [only]:
            return only
        case [first, last]:
            return f"{first} and {last}"
    return f"{versions[0]} to {versions[-1]}"
