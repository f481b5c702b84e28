"""The report of `history`: the versions, the series, and which versions changed something.

A few series get a row for each version, many get one line each.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from regress_gate import __version__
from regress_gate.gate.history import HistoryLine, HistorySeries, first_run_time
from regress_gate.gate.history_changes import ChangeMethod, HistoryChange, HistoryChanges
from regress_gate.gate.sides import ComparisonSide
from regress_gate.gate.table_changes import MIN_POINTS
from regress_gate.report.document import (
    Bar,
    Block,
    Cell,
    Chart,
    Column,
    Detail,
    Document,
    Pair,
    Pairs,
    Paragraph,
    Row,
    Section,
    Sparkline,
    Style,
    Styled,
    Table,
    View,
)
from regress_gate.report.findings import (
    Case,
    Finding,
    Findings,
    Level,
    Outcome,
    Rule,
    worst_first,
    worst_level,
)
from regress_gate.report.render.output_formats import HISTORY_FIGURES
from regress_gate.report.views import units
from regress_gate.report.views.history_figures import history_figure
from regress_gate.report.views.history_words import (
    LineView,
    hidden_improvements_text,
    largest_value,
    line_change_text,
    line_title,
    value_text,
)
from regress_gate.report.views.wording import DIRECTION_TEXT, what_to_do
from regress_gate.text import plural

MAX_DETAILED_SERIES = 3
"""Series up to which each version of each gets a row."""
MAX_VERSION_ROWS = 24
"""Versions up to which each gets a row; of more, a chart is drawn and the versions are only counted."""
_SPARKLINE_WIDTH = 12
_LEAST_SPAN = 0.1
"""Share of its level that the height of a series' shape stands for at least."""
_BAR_WIDTH = 24


@dataclass(frozen=True, slots=True, eq=False)
class HistoryView(View):
    """The history of a suite on a testbed."""

    suite: str
    testbed: str
    lines: Sequence[LineView]
    tool_version: str = __version__
    """Of the regress-gate that searched."""

    @property
    def figure_titles(self) -> Mapping[str, str]:
        return HISTORY_FIGURES

    def document(self, detail: Detail) -> Document:
        blocks: list[Block] = [history_figure(self.lines)] if detail.figures else []
        for view in self.lines:
            content = _versions(view.line, is_page=detail.is_page) + _series(view, is_page=detail.is_page)
            blocks.append(Section(line_title(view.line), tuple(content)))
            if view.changes is not None:
                title = "Changes [95% interval]" if view.changes.found else "Changes"
                blocks.append(Section(title, tuple(_changes(view))))
        place = f"{self.suite} on {self.testbed}"
        if not detail.is_page:
            return Document(place, tuple(blocks), name="History")
        headline = Styled(_sentence(self._headline()), self._style())
        return Document(headline, (what_to_do(self._advice()), *blocks), subtitle=place, name="History")

    @property
    def _searched(self) -> bool:
        return any(view.changes is not None and view.changes.series for view in self.lines)

    def _worse(self) -> list[tuple[LineView, HistoryChange]]:
        """The largest first; those of scatter, which have no size, last."""
        found = [(view, change) for view in self.lines for change in view.reported if change.is_worse is not False]
        return sorted(found, key=lambda one: -abs(one[1].loss or 0.0))

    def _headline(self) -> str:
        if all(view.changes is None for view in self.lines):
            return "not searched for changes"
        if not self._searched:
            return "nothing to compare"
        worse = len(self._worse())
        return f"{plural(worse, 'change')} for the worse" if worse else "no change for the worse"

    def _style(self) -> Style:
        return Style.PLAIN if not self._searched else Style.WARNING if self._worse() else Style.GOOD

    def _advice(self) -> str:
        if all(view.changes is None for view in self.lines):
            return "Give --detect to search these series for changes."
        if not self._searched:
            return "Measure a second version: changes need two with comparable runs."
        if not (worse := self._worse()):
            return "Nothing is to be done."
        view, change = worse[0]
        return f"Look at {change.name} first: {line_change_text(view.line, change)}."

    def findings(self) -> Findings:
        found = worst_first(_finding(self, view, change) for view in self.lines for change in view.reported)
        return Findings(
            name=f"history: {self.suite} on {self.testbed}",
            headline=self._headline(),
            advice=self._advice(),
            level=worst_level(one.level for one in found),
            cases=tuple(_case(view, series) for view in self.lines for series in view.line.series),
            findings=found,
            category="history",
            tool_version=self.tool_version,
        )

    def data(self) -> dict[str, Any]:
        """`change` of a change point is signed as in `compare`: positive is worse, for every metric; `interval` is that
        of the change, as there, and `between` the versions between which it came. `probability` is null if neighbouring
        versions were compared: then a change is reported at the error rate of the family, or not at all."""
        return {
            "schema_version": "1",
            "tool_version": self.tool_version,
            "suite": self.suite,
            "testbed": self.testbed,
            "lines": [_line_data(view) for view in self.lines],
            "change_points": [
                {**change_data(view.line, change), "line": number}
                for number, view in enumerate(self.lines)
                for change in view.reported
            ],
        }


# For people


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _versions(line: HistoryLine, *, is_page: bool) -> list[Block]:
    sides = line.sides
    if len(sides) <= MAX_VERSION_ROWS:
        return [Pairs(tuple(Pair(str(side.version), _run_counts(side)) for side in sides))]
    if is_page:
        return []
    runs = plural(sum(len(side.counted) for side in sides), "run")
    return [Pairs((Pair(f"{sides[0].version} to {sides[-1].version}", runs),))]


def _series(view: LineView, *, is_page: bool) -> list[Block]:
    line = view.line
    if is_page or len(line.series) > MAX_DETAILED_SERIES:
        return [_overview(line)]
    return [
        Section(
            f"{series.name}, {DIRECTION_TEXT[series.metric.direction]}",
            (_chart(line, series, view.reported) if len(line.sides) > MAX_VERSION_ROWS else _rows(line, series),),
        )
        for series in line.series
    ]


def _overview(line: HistoryLine) -> Table:
    """A row for each series: its shape, and its first and its last value with the spread of their runs."""
    columns = Column("series"), Column(" "), Column("first", is_optional=True), Column("last")
    return Table.of(columns, tuple(Row((series.name, _shape(series), *_ends(series))) for series in line.series))


def _shape(series: HistorySeries) -> Sparkline:
    level = abs(float(np.nanmean(series.values))) if not np.isnan(series.values).all() else 0.0
    return Sparkline(tuple(series.values.tolist()), _SPARKLINE_WIDTH, _LEAST_SPAN * level)


def _ends(series: HistorySeries) -> tuple[Cell, Cell]:
    known = np.flatnonzero(~np.isnan(series.values))
    if not len(known):
        return Cell(units.UNKNOWN), Cell(units.UNKNOWN)
    places = int(known[0]), int(known[-1])
    texts = units.values((series.value(places[0]), series.value(places[1])), series.metric.unit, series.metric.name)
    first, last = (Cell(f"{text} {_spread(series, place)}") for text, place in zip(texts, places, strict=True))
    return first, last


def _spread(series: HistorySeries, place: int) -> str:
    return units.spread(series.spread(place), int(series.counts[place]))


def _rows(line: HistoryLine, series: HistorySeries) -> Table:
    rows = []
    for place, version in enumerate(line.versions):
        value = series.value(place)
        rows.append(
            Row(
                (
                    str(version),
                    value_text(series, value),
                    "" if value is None else _spread(series, place),
                    Bar(value or 0.0, largest_value(series), _BAR_WIDTH),
                )
            )
        )
    return Table.of((Column(), Column(), Column(), Column(is_optional=True)), tuple(rows))


def _chart(line: HistoryLine, series: HistorySeries, changes: Sequence[HistoryChange]) -> Chart:
    return Chart(
        values=tuple(series.values.tolist()),
        first=str(line.versions[0]),
        last=str(line.versions[-1]),
        marks=tuple(change.at for change in changes if change.name == series.name),
        write=lambda value: value_text(series, value),
    )


def _changes(view: LineView) -> list[Block]:
    pairs = tuple(Pair(change.name, line_change_text(view.line, change)) for change in view.reported)
    return [*([Pairs(pairs)] if pairs else []), *(Paragraph(text) for text in search_summary(view))]


def _run_counts(side: ComparisonSide) -> str:
    text = plural(len(side.counted), "run")
    text += "" if (time := first_run_time(side)) is None else f" from {time.date().isoformat()}"
    others = [f"{len(side.void)} void ({side.void[0].reason})"] if side.void else []
    others += [f"{len(side.failed)} failed"] if side.failed else []
    return text + (f"; not counted: {', '.join(others)}" if others else "")


def search_summary(view: LineView) -> list[str]:
    """How much was searched, so that finding nothing means something."""
    changes = view.changes
    if changes is None:
        return []
    if changes.way is ChangeMethod.CHANGE_POINTS:
        text = f"searched {changes.series} series over {plural(len(view.line.sides), 'version')} for change points"
        text += "; the newest version was also compared with the one before it" if changes.steps else ""
    elif not changes.steps:
        text = "nothing to compare: changes need two versions with comparable runs"
    else:
        steps = plural(changes.steps, "step")
        text = f"compared {changes.series} series on {steps} between neighbouring versions, with one false-alarm budget"
        text += " (too few versions for change points)"
    is_searched = changes.way is ChangeMethod.CHANGE_POINTS or changes.steps
    lines = [f"none found: {text}" if is_searched and not changes.found and changes.series else text]
    if view.improvements:
        lines.append(hidden_improvements_text(view.improvements))
    return [*lines, *changes.notes]


# For test reports and annotations

_CHANGE_RULE = Rule(
    "change_point",
    "A version changed a series",
    Level.WARNING,
    "The values before and after this version differ by more than the runs of one version do.",
    tags=("vllm", "measurement"),
)


def _case(view: LineView, series: HistorySeries) -> Case:
    """A series that nobody searched, or that has too few values, did not pass."""
    changes = [change for change in view.reported if change.name == series.name]
    worse = [change for change in changes if change.is_worse]
    texts = tuple(line_change_text(view.line, change) for change in changes)
    known = [value for value in map(series.value, range(len(view.line.versions))) if value is not None]
    numbers = (("versions", len(known)), *([("last", known[-1])] if known else []))
    outcome, kind, message = Outcome.PASSED, "", "no change for the worse"
    if view.changes is None:
        outcome, kind, message = Outcome.SKIPPED, "not_searched", "not searched for changes: give --detect"
    elif worse:
        outcome, kind, message = Outcome.FAILURE, "change_point", line_change_text(view.line, worse[-1])
    elif not _is_searched(view.changes, len(known)):
        outcome, kind, message = Outcome.SKIPPED, "too_short", "too few versions to be searched for changes"
    return Case(series.scenario, series.metric.name, outcome, kind, message, details=texts, numbers=numbers)


def _is_searched(changes: HistoryChanges, points: int) -> bool:
    if changes.way is ChangeMethod.CHANGE_POINTS:
        return points >= MIN_POINTS
    return changes.steps > 0 and points >= 2


def _finding(history: HistoryView, view: LineView, change: HistoryChange) -> Finding:
    version = str(view.line.versions[change.at])
    return Finding(
        _CHANGE_RULE,
        Level.WARNING if change.is_worse is not False else Level.NOTE,
        f"{change.name} changed at {version}",
        f"{change.name}: {line_change_text(view.line, change)}",
        subject=change.name,
        fingerprint=(_CHANGE_RULE.id, history.suite, history.testbed, change.name, version),
    )


# For programs


def _line_data(view: LineView) -> dict[str, Any]:
    line, changes = view.line, view.changes
    looked_at = None
    if changes is not None:
        looked_at = {
            "way": changes.way,
            "series": changes.series,
            "steps": changes.steps,
            "improvements_not_told": view.improvements,
            "notes": list(changes.notes),
        }
    return {
        "order": line.order,
        "variant": line.variant,
        "versions": [
            {
                "version": str(side.version),
                "runs": len(side.counted),
                "void_runs": len(side.void),
                "failed_runs": len(side.failed),
                "first": None if (time := first_run_time(side)) is None else time.isoformat(),
                "released": None if day is None else day.isoformat(),
                "void_reason": side.void[0].reason if side.void else None,
            }
            for side, day in zip(line.sides, view.released or [None] * len(line.sides), strict=True)
        ],
        "series": [
            {
                "scenario": series.scenario,
                "metric": series.metric.name,
                "unit": series.metric.unit,
                "direction": series.metric.direction,
                "points": [
                    {"version": str(version), "value": series.value(place), "runs": int(series.counts[place]),
                     "cv": series.spread(place), "values": list(values)}
                    for place, (version, values) in enumerate(zip(line.versions, series.per_version, strict=True))
                ],
            }
            for series in line.series
        ],
        "issues": [
            {"version": str(line.versions[event.at]), "index": event.at, "id": event.id, "summary": event.summary,
             "begins": event.begins, "metrics": list(event.metrics)}
            for event in view.issues
        ],
        "looked_at": looked_at,
    }  # fmt: skip


def change_data(line: HistoryLine, change: HistoryChange) -> dict[str, Any]:
    """As `history --format json` prints it."""
    return {
        "scenario": change.scenario,
        "metric": change.metric,
        "kind": change.kind,
        "version": str(line.versions[change.at]),
        "index": change.at,
        "between": [str(line.versions[place]) for place in change.since],
        "change": change.loss,
        "natural_change": change.natural_change,
        "interval": None if change.interval is None else list(change.interval),
        "probability": change.probability,
        "worse": change.is_worse,
    }
