"""Words that `detect` and `history` share. Numbers of other kinds are told by `units`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from regress_gate.gate.history import HistoryLine, HistoryOrder, HistorySeries, first_run_time
from regress_gate.gate.history_changes import ChangeMethod, HistoryChange, HistoryChanges
from regress_gate.gate.sides import ComparisonSide
from regress_gate.model.metric import Direction
from regress_gate.report.render.markdown_escape import escape
from regress_gate.report.render.render_options import RenderOptions
from regress_gate.report.render.terminal_canvas import GAP, Canvas
from regress_gate.report.render.text_chart import bar, chart, sparkline
from regress_gate.report.views import units
from regress_gate.text import plural

DIRECTION_TEXT = {Direction.LOWER: "lower is better", Direction.HIGHER: "higher is better"}


def change_kind_text(of: str) -> str:
    """Of a change point, in words."""
    return "change of scatter" if of == "variance" else of


def probability_text(share: float) -> str:
    """`0.93`, and never a certainty that two decimals would only seem to show."""
    return ">0.99" if share >= 0.995 else f"{share:.2f}"


def hidden_improvements_text(count: int) -> str:
    hidden = plural(count, "change for the better is", "changes for the better are")
    return f"{hidden} not told; --improvements tells"


# MERGED regress_gate.report.history_view: What every format of a history is given: its lines, and the changes that
# are told.


@dataclass(frozen=True, slots=True, eq=False)
class LineView:
    line: HistoryLine
    changes: HistoryChanges | None
    """Those that are told; None where nobody asked for any."""
    improvements: int = 0
    """Changes for the better that are not told."""

    @property
    def told(self) -> Sequence[HistoryChange]:
        return () if self.changes is None else self.changes.found


@dataclass(frozen=True, slots=True, eq=False)
class HistoryView:
    suite: str
    testbed: str
    lines: Sequence[LineView]


# MERGED regress_gate.report.history_document: A history as a value that serialises to JSON. Decides nothing.


def history_document(found: HistoryView) -> dict[str, Any]:
    """`change` of a change point is signed as in `compare`: positive is worse, for every metric; `interval` is that of
    the change, as there, and `between` the versions between which it came. `probability` is null where neighbouring
    versions were compared: there a change is shown at the family's error rate, or not told."""
    return {
        "schema_version": "1",
        "suite": found.suite,
        "testbed": found.testbed,
        "lines": [_line_document(view) for view in found.lines],
        "change_points": [_change_point_document(view.line, change) for view in found.lines for change in view.told],
    }


def _line_document(view: LineView) -> dict[str, Any]:
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
            }
            for side in line.sides
        ],
        "series": [
            {
                "scenario": series.scenario,
                "metric": series.metric.name,
                "unit": series.metric.unit,
                "direction": series.metric.direction,
                "points": [
                    {"version": str(version), "value": series.value(place), "runs": len(series.per_version[place]),
                     "cv": series.spread(place)}
                    for place, version in enumerate(line.versions)
                ],
            }
            for series in line.series
        ],
        "looked_at": looked_at,
    }  # fmt: skip


def _change_point_document(line: HistoryLine, change: HistoryChange) -> dict[str, Any]:
    return {
        "scenario": change.scenario,
        "metric": change.metric,
        "kind": change.kind,
        "version": str(line.versions[change.at]),
        "index": change.at,
        "between": [str(line.versions[place]) for place in change.since],
        "change": change.loss,
        "interval": None if change.interval is None else list(change.interval),
        "probability": change.probability,
        "worse": change.is_worse,
    }


# MERGED regress_gate.report.history_table: A history as a table for a terminal and as Markdown. Decides nothing.  A
# few series get a row for each version, many get one line each. What came from outside (names of versions,
# scenarios, testbeds) is cleaned or escaped here.


MAX_DETAILED_SERIES = 3
"""Series up to which each version of each is told."""
MAX_VERSION_ROWS = 24
"""Versions of which each gets a row; of more, a chart is drawn and the versions are only counted."""
_SPARK = 12
_LEAST_SPAN = 0.1
"""Share of its level that the height of a series' shape stands for at least."""
_BAR = 24


def history_table(found: HistoryView, options: RenderOptions) -> str:
    """For a terminal: the versions, the series, and the changes where they were asked for."""
    canvas = Canvas(options)
    canvas.line(f"{found.suite} on {found.testbed}", "bold")
    for view in found.lines:
        line = view.line
        canvas.heading(_line_title(line))
        canvas.pairs(_version_facts(line))
        canvas.gap()
        if len(line.series) <= MAX_DETAILED_SERIES:
            for number, series in enumerate(line.series):
                if number:
                    canvas.gap()
                _paint_series(canvas, line, series, view.told, options)
        else:
            _paint_overview(canvas, line, options)
        if view.changes is not None:
            canvas.heading("Changes [95% interval]" if view.changes.found else "Changes")
            _paint_changes(canvas, line, view.changes.found)
            for text in _search_summary(view):
                canvas.line(text, indent=2)
    return canvas.finish()


def _paint_overview(canvas: Canvas, line: HistoryLine, options: RenderOptions) -> None:
    """A line a series: its shape, and its first and its last value with what the runs scatter."""
    rows = [("series", "", "first", "last")]
    rows += [(series.name, _shape(series, options.encoding), *_ends(series)) for series in line.series]
    shown = [[canvas.text(cell, "" if number else "dim") for cell in row] for number, row in enumerate(rows)]
    name, shape, first, last = (max(row[cell].cell_len for row in shown) for cell in range(4))
    room = canvas.width - 2 - shape - last - 2 * GAP
    if name + first + GAP <= room:
        canvas.columns(shown, [name, shape, first, None], indent=2)
    elif name <= room:  # a narrow terminal: what is now matters more than what was
        canvas.columns([[row[0], row[1], row[3]] for row in shown], [name, shape, None], indent=2)
    else:
        for row in shown:
            canvas.put(row[0], indent=2)
            canvas.columns([[row[1], row[3]]], [shape, None], indent=4)


def _shape(series: HistorySeries, encoding: str = "utf-8") -> str:
    level = abs(float(np.nanmean(series.values))) if not np.isnan(series.values).all() else 0.0
    return sparkline(series.values, _SPARK, encoding, least_span=_LEAST_SPAN * level)


def _ends(series: HistorySeries) -> tuple[str, str]:
    known = np.flatnonzero(~np.isnan(series.values))
    if not len(known):
        return units.UNKNOWN, units.UNKNOWN
    first, last = int(known[0]), int(known[-1])
    texts = units.values((series.value(first), series.value(last)), series.metric.unit, series.metric.name)
    left, right = (
        f"{text} {units.spread(series.spread(place), len(series.per_version[place]))}"
        for text, place in zip(texts, (first, last), strict=True)
    )
    return left, right


def _paint_series(
    canvas: Canvas, line: HistoryLine, series: HistorySeries, changes: Sequence[HistoryChange], options: RenderOptions
) -> None:
    canvas.line(f"{series.name}, {DIRECTION_TEXT[series.metric.direction]}", "bold", indent=2)
    known = series.values[~np.isnan(series.values)]
    largest = float(known.max()) if len(known) else 0.0

    def write(value: float | None) -> str:
        return units.values((value, largest), series.metric.unit, series.metric.name)[0]

    if len(line.sides) > MAX_VERSION_ROWS:
        marks = [change.at for change in changes if change.name == series.name]
        ends = canvas.plain(str(line.versions[0])), canvas.plain(str(line.versions[-1]))
        drawn = chart(series.values, marks, ends, canvas.width - 2, options.encoding, label=write) if len(known) else []
        for text in drawn:
            canvas.put(canvas.lines(f"  {text}"))
        return
    rows = []
    for place, version in enumerate(line.versions):
        value = series.value(place)
        cells = [str(version), write(value), ""]
        if value is not None:
            cells[2] = units.spread(series.spread(place), len(series.per_version[place]))
        rows.append([*map(canvas.text, cells), canvas.text(bar(value or 0.0, largest, _BAR, options.encoding))])
    widths = [min(max(row[cell].cell_len for row in rows), canvas.width // 3) for cell in range(3)]
    canvas.columns(rows, [*widths, None], indent=4)


def _paint_changes(canvas: Canvas, line: HistoryLine, changes: Sequence[HistoryChange]) -> None:
    """The series beside its change where names leave room for it, above it where not."""
    if all(canvas.text(change.name).cell_len <= canvas.width // 3 for change in changes):
        canvas.pairs((change.name, line_change_text(line, change)) for change in changes)
        return
    for change in changes:
        canvas.line(change.name, indent=2)
        canvas.line(line_change_text(line, change), indent=4)


def history_markdown(found: HistoryView, options: RenderOptions) -> str:  # noqa: ARG001 - the same for every reader
    """For a comment or a summary."""
    lines = [f"## {escape(f'{found.suite} on {found.testbed}')}", ""]
    for view in found.lines:
        line = view.line
        lines += [f"### {escape(_line_title(line))}", ""]
        if len(line.sides) <= MAX_VERSION_ROWS:
            lines += ["| version | runs |", "| --- | --- |"]
            lines += [f"| {escape(name)} | {escape(text)} |" for name, text in _version_facts(line)]
            lines.append("")
        lines += ["| series | shape | first | last |", "| --- | --- | --- | --- |"]
        for series in line.series:
            cells = (series.name, _shape(series), *_ends(series))
            lines.append(f"| {' | '.join(str(escape(cell)) for cell in cells)} |")
        lines.append("")
        if view.changes is not None:
            lines += [
                f"- {escape(change.name)}: {escape(line_change_text(line, change))}" for change in view.changes.found
            ]
            lines += [""] if view.changes.found else []
            lines += [f"{escape(text)}\n" for text in _search_summary(view)]
    return "\n".join(lines).rstrip("\n") + "\n"


def line_change_text(line: HistoryLine, change: HistoryChange) -> str:
    """`step of +34.0% [+31.0, +37.1], worse, at 0.24.0, between 0.19.1 and 0.24.0`."""
    after, by = (str(line.versions[place]) for place in change.since)
    size = ""
    if change.loss is not None:
        size = f" of {units.change(change.loss, change.scale)} {units.interval(change.interval)}"
        size += ", worse" if change.is_worse else ", better"
    between = f"from {after} to {by}" if change.kind == "ramp" else f"between {after} and {by}"
    sure = "" if change.probability is None else f"; probability {probability_text(change.probability)}"
    return f"{change_kind_text(change.kind)}{size}, at {line.versions[change.at]}, {between}{sure}"


def _line_title(line: HistoryLine) -> str:
    of = f" of variant {line.variant}" if line.variant else ""
    if line.order is HistoryOrder.VERSION:
        return plural(len(line.sides), "version") + of
    return plural(len(line.sides), "build") + f"{of} by the day of the first run"


def _version_facts(line: HistoryLine) -> list[tuple[str, str]]:
    sides = line.sides
    if len(sides) > MAX_VERSION_ROWS:
        first, last = (str(sides[place].version) for place in (0, -1))
        return [(f"{first} to {last}", plural(sum(len(side.counted) for side in sides), "run"))]
    return [(str(side.version), _run_counts(side)) for side in sides]


def _run_counts(side: ComparisonSide) -> str:
    text = plural(len(side.counted), "run")
    text += "" if (time := first_run_time(side)) is None else f" from {time.date().isoformat()}"
    others = [f"{len(group)} {word}" for group, word in ((side.void, "void"), (side.failed, "failed")) if group]
    return text + (f"; not counted: {', '.join(others)}" if others else "")


def _search_summary(view: LineView) -> list[str]:
    """How much was asked, so that finding nothing means something."""
    changes = view.changes
    if changes is None:
        return []
    if changes.way is ChangeMethod.CHANGE_POINTS:
        text = f"looked for change points in {changes.series} series over {plural(len(view.line.sides), 'version')}"
        text += "; the newest was also compared with the one before it" if changes.steps else ""
    elif not changes.steps:
        text = "nothing to look at: changes need two versions with runs that can be compared"
    else:
        steps = plural(changes.steps, "step")
        text = (
            f"looked at {changes.series} series on {steps} between neighbouring versions, with one false-alarm budget"
        )
        text += " (too few versions for change points)"
    lines = [text] if changes.found or not changes.series else [f"none found: {text}"]
    if view.improvements:
        lines.append(hidden_improvements_text(view.improvements))
    return [*lines, *changes.notes]
