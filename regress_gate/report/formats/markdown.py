"""The view for a pull-request comment or a job summary on GitHub: what decides is open, what reassures is folded.

A document that would be too large is told again with less detail until it fits, and says what it left out.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from regress_gate.model.finding import Effect
from regress_gate.model.result import Result
from regress_gate.report.render import markdown_escape
from regress_gate.report.render.render_options import RenderOptions
from regress_gate.report.views import issues_view, regression_causes, result_view, wording
from regress_gate.report.views.issues_view import IssueGroup, IssueLine, IssueView
from regress_gate.report.views.result_view import SeriesFilter
from regress_gate.text import clip, plural


@dataclass(frozen=True, slots=True)
class _Detail:
    """How much is told. Limits are counts of entries, and of characters in one text."""

    quiet_series: bool = True
    """The series that are no worse, or do not gate."""
    quiet_issues: bool = True
    """Carried and resolved issues that do not block."""
    rows: int = 10_000
    issues: int = 10_000
    lines: int = 10_000
    """Facts, waivers, warnings."""
    reasons: int = 10_000
    text: int = 10_000


_LADDER = (
    _Detail(),
    _Detail(quiet_series=False),
    _Detail(quiet_series=False, quiet_issues=False),
    _Detail(quiet_series=False, quiet_issues=False, rows=60, issues=20, lines=40, reasons=60, text=1000),
    _Detail(quiet_series=False, quiet_issues=False, rows=25, issues=5, lines=10, reasons=25, text=300),
    # The least: at most some 35 kB even if every character needs the longest reference.
    _Detail(quiet_series=False, quiet_issues=False, rows=0, issues=0, lines=0, reasons=20, text=200),
)


def render(result: Result, options: RenderOptions) -> str:
    """The fullest document within `options.max_bytes`; never less than decision, reasons and advice."""
    documents = (_document(result, detail, verbose=options.verbose) for detail in _LADDER)
    fitting = (document for document in documents if len(document.encode()) <= options.max_bytes)
    return next(fitting, None) or _document(result, _LADDER[-1], verbose=options.verbose)


def _document(result: Result, detail: _Detail, *, verbose: bool) -> str:
    worrying, quiet = result_view.split_series(result.series, SeriesFilter.WORRYING)
    quiet_gated, others = result_view.split_series(quiet, SeriesFilter.GATED)
    issues = issues_view.issues(result, verbose=verbose)
    loud, folded = _by_loudness(issues.groups)
    shown = _first_issues(loud, detail.issues)
    facts, waivers, explained = result_view.facts(result), result_view.waivers(result), regression_causes.lines(result)
    reasons = wording.reasons(result, verbose=verbose)
    left_out = [
        *_more(worrying, detail.rows, "worse or undecided series", "worse or undecided series"),
        *(
            [plural(len(quiet), "series that is no worse or does not gate", "series that are no worse or do not gate")]
            if quiet and not detail.quiet_series
            else []
        ),
        *_more(_all_of(loud), detail.issues, "known issue"),
        *_more(
            _all_of(issues.undecided),
            detail.issues,
            "known issue that cannot be told",
            "known issues that cannot be told",
        ),
        *([plural(len(_all_of(folded)), "carried or resolved issue")] if folded and not detail.quiet_issues else []),
        *_more(facts, detail.lines, "fact about the runs", "facts about the runs"),
        *_more(explained, detail.lines, "explanation of regressions", "explanations of regressions"),
        *_more(waivers, detail.lines, "waiver"),
        *_more(result.warnings, detail.lines, "warning"),
        *_more(reasons, detail.reasons, "reason"),
    ]
    text = (
        _environment(detail.text)
        .get_template("markdown.md.j2")
        .render(
            result=result,
            decision=wording.decision(result),
            versions=wording.versions(result),
            facts=facts[: detail.lines],
            reasons=reasons[: detail.reasons],
            left_out=", ".join(left_out),
            tally=result_view.tally(result.series),
            worrying=result_view.series_view(worrying[: detail.rows]),
            quiet_gated=result_view.series_view(quiet_gated if detail.quiet_series else []),
            others=result_view.series_view(others if detail.quiet_series else []),
            causes_title=regression_causes.TITLE,
            causes=explained[: detail.lines],
            issue_tally=issues_view.issue_tally(result),
            issue_groups=shown,
            undecided_groups=_first_issues(issues.undecided, detail.issues),
            issues_more=issues.more,
            folded_groups=folded if detail.quiet_issues else [],
            waivers=waivers[: detail.lines],
            warnings=result.warnings[: detail.lines],
        )
    )
    # What a template leaves out leaves its blank lines; a text from outside holds none.
    return re.sub(r"\n{3,}", "\n\n", text).strip("\n") + "\n"


def _by_loudness(groups: list[IssueGroup]) -> tuple[list[IssueGroup], list[IssueGroup]]:
    """Groups to be read, and groups to be folded: what is not new and blocks nothing."""
    loud = [group for group in groups if group.effect is Effect.NEW or any(issue.blocks for issue in group.issues)]
    return loud, [group for group in groups if group not in loud]


def _first_issues(groups: list[IssueGroup], limit: int) -> list[IssueGroup]:
    kept = {id(issue) for issue in _all_of(groups)[:limit]}
    cut = [
        IssueGroup(
            group.effect,
            group.title,
            [issue for issue in group.issues if id(issue) in kept],
            [line for line in group.lines if id(line) in kept],
        )
        for group in groups
    ]
    return [group for group in cut if group.issues or group.lines]


def _all_of(groups: list[IssueGroup]) -> list[IssueView | IssueLine]:
    entries: list[IssueView | IssueLine] = []
    for group in groups:
        entries += [*group.issues, *group.lines]
    return entries


def _more(entries: list[Any], limit: int, noun: str, nouns: str | None = None) -> list[str]:
    left = len(entries) - limit
    return [plural(left, noun, nouns)] if left > 0 else []


@lru_cache(maxsize=len(_LADDER))
def _environment(longest_text: int) -> Environment:
    """Every value that a template writes is escaped, without being asked to; texts longer than that are cut."""

    def shortened(write: Callable[[str], Markup]) -> Callable[[object], Markup]:
        return lambda value: value if isinstance(value, Markup) else write(clip(str(value), longest_text))

    environment = Environment(
        loader=PackageLoader("regress_gate.report.formats", "."),
        autoescape=True,
        finalize=shortened(markdown_escape.escape),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"code": shortened(markdown_escape.code), "thread": shortened(markdown_escape.thread)}
    return environment
