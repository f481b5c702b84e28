"""The pages of the dashboard: the first page, those of a place, and lists of comparisons. Not those of series."""

import shlex
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import numpy as np

from regress_gate import __version__
from regress_gate.gate.history import HistorySeries
from regress_gate.gate.history_changes import HistoryChange
from regress_gate.model.issue import Applies, Effect, Severity
from regress_gate.model.result import KnownIssueOut
from regress_gate.report.site.charts import change_style, small_chart, value_text
from regress_gate.report.site.content import Place, PlaceSummary, VersionChanges, unmeasured_text
from regress_gate.report.site.feed import FeedEntry
from regress_gate.report.site.templates import TITLE, render_page
from regress_gate.report.site.watch_page import WatchedPlace, watch_rows
from regress_gate.report.views import units
from regress_gate.report.views.history_view import search_summary
from regress_gate.report.views.history_words import LineView, line_change_text, line_title
from regress_gate.report.views.wording import DIRECTION_TEXT
from regress_gate.store.store_interface import StoredComparison
from regress_gate.text import plural

MOST_CELLS = 240
"""Small charts on a page; more stand on further pages."""
MOST_ISSUES = 12
"""Known issues on the page of a place; their own page has all."""
_SHOWN_VERSIONS, _SHOWN_CHANGES = 5, 5
"""Versions with changes for the worse on the page of a place, and changes of each."""
_MOST_VERSIONS, _MOST_CHANGES, _MOST_CHANGE_ROWS = 100, 20, 600
"""The same on the page of all changes, whose rows stay below the last number."""
MOST_COMPARISONS = 20
"""Newest comparisons on the page of a place; a page of their own lists all."""
COMPARISONS_A_PAGE = 500
ISSUES_PAGE, CHANGES_PAGE = "known-issues.html", "changes.html"
_FINDINGS = 15


def index_page(
    places: Sequence[PlaceSummary], findings: Sequence[FeedEntry], watched: Sequence[WatchedPlace], built: datetime
) -> str:
    newest = sorted(findings, key=lambda entry: (entry.time, entry.key), reverse=True)[:_FINDINGS]
    return render_page(
        "index.html",
        root="",
        trail=(),
        heading="vLLM on your testbeds",
        subtitle=f"{plural(len(places), 'suite')} with stored runs",
        places=[place.values for place in places],
        findings=newest,
        watch=watch_rows(watched),
        built=f"{built:%Y-%m-%d %H:%M} UTC",
        tool_version=__version__,
    )


def place_pages(place: Place) -> Iterator[tuple[str, str]]:
    """Names and texts: the page of the place, and further pages of series where it has many."""
    grids = list(_grids(place))
    names = ["index.html", *(f"series-{number}.html" for number in range(2, len(grids) + 1))]
    for number, grid in reversed(list(enumerate(grids))):
        pages = [
            (name, "Overview" if not index else f"Series {index + 1}", index == number)
            for index, name in enumerate(names)
        ]
        first = _overview(place) if not number else {}
        yield (
            f"{place.folder}/{names[number]}",
            render_page(
                "place.html",
                root="../../",
                trail=[("../../index.html", TITLE), *([("index.html", place.title)] if number else [])],
                heading=place.title if not number else f"{place.title}: series {number + 1}",
                subtitle="Shipped with regress-gate" if place.is_shipped else "",
                facts=_facts(place) if not number else [],
                pages=pages,
                is_first=not number,
                grids=grid,
                data=f"../../{place.data_page}",
                **first,
            ),
        )


def comparison_list_pages(place: Place) -> Iterator[tuple[str, str]]:
    """The pages that list all comparisons, where the page of the place has only the newest."""
    if len(place.comparisons) <= MOST_COMPARISONS:
        return
    rows = [_comparison_row(place, one) for one in place.comparisons]
    parts = [rows[at : at + COMPARISONS_A_PAGE] for at in range(0, len(rows), COMPARISONS_A_PAGE)]
    names = ["comparisons.html", *(f"comparisons-{number}.html" for number in range(2, len(parts) + 1))]
    for number, part in enumerate(parts):
        yield (
            f"{place.folder}/{names[number]}",
            render_page(
                "comparisons.html",
                root="../../",
                trail=[("../../index.html", TITLE), ("index.html", place.title)],
                heading="Comparisons",
                subtitle=place.title,
                rows=part,
                pages=[(name, str(index + 1), index == number) for index, name in enumerate(names)],
            ),
        )


def changes_page(place: Place) -> Iterator[tuple[str, str]]:
    """The page of all changes; none where there is no change."""
    worse, better = (place.changes(worse=each)[:_MOST_VERSIONS] for each in (True, False))
    if worse or better:
        most = max(1, min(_MOST_CHANGES, _MOST_CHANGE_ROWS // (len(worse) + len(better))))
        yield (
            f"{place.folder}/{CHANGES_PAGE}",
            render_page(
                "changes.html",
                root="../../",
                trail=[("../../index.html", TITLE), ("index.html", place.title)],
                heading="Changes in the history",
                subtitle=place.title,
                worse=_change_groups(place, worse, most),
                better=_change_groups(place, better, most),
                data=f"../../{place.data_page}",
            ),
        )


def _facts(place: Place) -> list[tuple[str, str]]:
    held = place.holdings
    versions = {one.version for one in held}
    times = [one.last for one in held if one.last is not None]
    facts = [
        ("measured", f"{plural(len(versions), 'version')}, {plural(sum(one.runs for one in held), 'run')}"),
        *([("last", max(times).date().isoformat())] if times else []),
        *([("released since", unmeasured_text(place.unmeasured))] if place.unmeasured else []),
    ]
    return [*facts, *place.facts]


def _overview(place: Place) -> dict[str, Any]:
    worse, better = place.changes(worse=True), place.changes(worse=False)
    count = sum(len(each.changes) for each in better)
    shown = place.comparisons[:MOST_COMPARISONS]
    notes = [
        f"{line_title(view.line)}: {text}" if len(place.lines) > 1 else text
        for view in place.lines
        for text in search_summary(view)
    ]
    return {
        "shown_comparisons": [_comparison_row(place, one) for one in shown],
        "more_comparisons": len(place.comparisons) if len(place.comparisons) > len(shown) else 0,
        "suggestion": _suggestion(place),
        "worse": _change_groups(place, worse[:_SHOWN_VERSIONS], _SHOWN_CHANGES),
        "better_title": plural(count, "change for the better", "changes for the better") if count else "",
        "all_changes": CHANGES_PAGE if worse or better else "",
        "search_notes": notes,
        "issues": _issues(place),
    }


def _change_groups(place: Place, groups: Sequence[VersionChanges], most: int) -> list[dict[str, Any]]:
    """The largest changes of each version."""
    return [
        {
            "id": group.id,
            "title": group.title,
            "time": group.view.line.first_runs[group.at],
            "rows": [_change_row(place, group.view, change) for change in group.changes[:most]],
            "more": f"and {len(group.changes) - most} more" if len(group.changes) > most else "",
        }
        for group in groups
    ]


def _change_row(place: Place, view: LineView, change: HistoryChange) -> dict[str, str]:
    return {
        "series": change.name,
        "page": f"{place.series_page(change.scenario, change.metric)}#{place.change_id(view, change)}",
        "text": line_change_text(view.line, change),
        "style": change_style(change),
    }


def _suggestion(place: Place) -> str:
    """A command that compares the two newest versions; names with blanks are quoted for a shell."""
    line = next((view.line for view in place.lines if len(view.line.versions) > 1), None)
    if line is None:
        return ""
    before, after = line.versions[-2:]
    return shlex.join(
        ["regress-gate", "compare", str(before), str(after), "--testbed", place.testbed, "--suite", str(place.suite)]
    )


def _comparison_row(place: Place, comparison: StoredComparison) -> dict[str, Any]:
    return {
        "page": place.comparison_page(comparison),
        "baseline": str(comparison.baseline),
        "candidate": str(comparison.candidate),
        "decision": comparison.decision,
        "created": comparison.created,
    }


def _issues(place: Place) -> dict[str, Any]:
    result = place.issues
    if result is None:
        return {"page": "", "versions": "", "rows": [], "note": place.issues_note}
    versions = result.candidate.version
    if result.baseline is not None:
        versions = f"{result.baseline.version} → {versions}"
    concerning = [issue for issue in result.known_issues if issue.applies is not Applies.NO]
    more, rest = len(concerning) - MOST_ISSUES, len(result.known_issues) - len(concerning)
    notes = [f"{more} more apply or may apply"] * (more > 0) + [f"{rest} do not apply here"] * (rest > 0)
    return {
        "page": ISSUES_PAGE,
        "versions": versions,
        "decision": result.decision.value,
        "advice": result.advice,
        "rows": [_issue_row(issue) for issue in sorted(concerning, key=_issue_order)[:MOST_ISSUES]],
        "note": f"{', '.join(notes)}." if notes else "",
    }


def _issue_order(issue: KnownIssueOut) -> tuple[bool, bool, int]:
    """What applies before what may apply, and the severe first."""
    return not issue.blocks, issue.applies is Applies.UNKNOWN, -list(Severity).index(issue.severity)


_MOVES = {
    Effect.NEW: ("brings it", "may bring it"),
    Effect.CARRIED: ("carries it over", "may carry it over"),
    Effect.RESOLVED: ("resolves it", "may resolve it"),
}
"""What the move does with an issue that applies, and with one of which that is not known."""


def _issue_row(issue: KnownIssueOut) -> dict[str, str]:
    return {
        "id": issue.id,
        "url": issue.url if issue.url.startswith("https://") else "",
        "summary": issue.summary,
        "severity": issue.severity.value,
        "applies": issue.applies.value,
        "effect": _MOVES[issue.effect][issue.applies is Applies.UNKNOWN],
        "status": issue.status.value.replace("_", " "),
    }


def _grids(place: Place) -> Iterator[list[dict[str, Any]]]:
    """The tables of small charts, in pages of at most `MOST_CELLS`."""
    page: list[dict[str, Any]] = []
    free = MOST_CELLS
    for view in place.lines:
        metrics = list(dict.fromkeys(one.metric.name for one in view.line.series))
        rows: dict[str, dict[str, HistorySeries]] = {}
        for one in view.line.series:
            rows.setdefault(one.scenario, {})[one.metric.name] = one
        changes: dict[str, list[HistoryChange]] = {}
        for change in view.reported:
            changes.setdefault(change.name, []).append(change)
        heads = [
            (name, DIRECTION_TEXT[next(r[name] for r in rows.values() if name in r).metric.direction])
            for name in metrics
        ]
        grid = _grid(view, heads)
        for scenario, row in rows.items():
            if len(row) > free and (page or grid["rows"]):
                yield [*page, *([grid] if grid["rows"] else [])]
                page, free, grid = [], MOST_CELLS, _grid(view, heads)
            free -= len(row)
            cells = [
                _cell(place, row[name], changes.get(row[name].name, [])) if name in row else None for name in metrics
            ]
            grid["rows"].append((scenario, cells))
        if grid["rows"]:
            page.append(grid)
    yield page


def _grid(view: LineView, heads: list[tuple[str, str]]) -> dict[str, Any]:
    return {"title": line_title(view.line), "metrics": heads, "rows": []}


def _cell(place: Place, series: HistorySeries, changes: Sequence[HistoryChange]) -> dict[str, Any]:
    known = np.flatnonzero(~np.isnan(series.values))
    value = units.UNKNOWN if not len(known) else value_text(series, float(series.values[known[-1]]))
    worse = sum(change.is_worse is not False for change in changes)
    found = [f"{worse} worse"] * bool(worse) + [f"{len(changes) - worse} better"] * (len(changes) > worse)
    return {
        "metric": series.metric.name,
        "page": place.series_page(series.scenario, series.metric.name),
        "label": f"{value}, {series.name}{': ' if found else ''}{', '.join(found)}",
        "chart": small_chart(series, changes),
        "value": value,
    }
