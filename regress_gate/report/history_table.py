"""A history as a table for a terminal, as JSON and as Markdown. Decides nothing.

A few series get a row for each version, many get one line each. What came from outside (names of versions, scenarios,
testbeds) is cleaned or escaped here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from regress_gate.gate.history import HistorySeries, Line, Order, begun
from regress_gate.gate.history_changes import Change, Changes, Way
from regress_gate.gate.sides import Side
from regress_gate.report import units
from regress_gate.report.canvas import GAP, Canvas
from regress_gate.report.history_chart import bar, chart, sparkline
from regress_gate.report.history_wording import BETTER, improvements_not_told, probability
from regress_gate.report.interface import Options
from regress_gate.report.markdown_text import escape
from regress_gate.report.wording import count

DETAILED = 3
"""Series up to which each version of each is told."""
MOST_ROWS = 24
"""Versions of which each gets a row; of more, a chart is drawn and the versions are only counted."""
_LEAST_NAME = 16
_SPARK = 12
_LEAST_SPAN = 0.1
"""Share of its level that the height of a series' shape stands for at least."""
_BAR = 24


@dataclass(frozen=True, slots=True, eq=False)
class LineView:
    line: Line
    changes: Changes | None
    """Those that are told; None where nobody asked for any."""
    improvements: int = 0
    """Changes for the better that are not told."""


@dataclass(frozen=True, slots=True, eq=False)
class HistoryView:
    suite: str
    testbed: str
    lines: Sequence[LineView]


def history_document(found: HistoryView) -> dict[str, Any]:
    """`change` of a change point is signed as in `compare`: positive is worse, for every metric; `interval` is that of
    the change, as there, and `between` the versions between which it came. `probability` is null where neighbouring
    versions were compared: there a change is shown at the family's error rate, or not told."""
    return {
        "schema_version": "1",
        "suite": found.suite,
        "testbed": found.testbed,
        "lines": [_line_document(view) for view in found.lines],
        "change_points": [
            _change_document(view.line, change) for view in found.lines for change in (_told(view.changes))
        ],
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
                "first": None if (time := begun(side)) is None else time.isoformat(),
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


def _change_document(line: Line, change: Change) -> dict[str, Any]:
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


def history_table(found: HistoryView, options: Options) -> str:
    """For a terminal: the versions, the series, and the changes where they were asked for."""
    canvas = Canvas(options)
    canvas.line(f"{found.suite} on {found.testbed}", "bold")
    for view in found.lines:
        line = view.line
        canvas.heading(_title(line))
        canvas.pairs(_version_facts(line))
        canvas.gap()
        if len(line.series) <= DETAILED:
            for number, series in enumerate(line.series):
                if number:
                    canvas.gap()
                _paint_series(canvas, line, series, _told(view.changes), options)
        else:
            _paint_overview(canvas, line, options)
        if view.changes is not None:
            canvas.heading("Changes [95% interval]" if view.changes.found else "Changes")
            canvas.pairs((change.name, sentence(line, change)) for change in view.changes.found)
            for text in _looked_at(view):
                canvas.line(text, indent=2)
    return canvas.finish()


def _paint_overview(canvas: Canvas, line: Line, options: Options) -> None:
    """A line a series: its shape, and its first and its last value with what the runs scatter."""
    rows = [("series", "", "first", "last")]
    rows += [(series.name, _shape(series, options.encoding), *_ends(series)) for series in line.series]
    shown = [[canvas.text(cell, "" if number else "dim") for cell in row] for number, row in enumerate(rows)]
    name, shape, first, last = (max(row[cell].cell_len for row in shown) for cell in range(4))
    room = canvas.width - 2 - shape - last - 2 * GAP
    if room - first - GAP >= _LEAST_NAME:
        canvas.columns(shown, [min(name, room - first - GAP), shape, first, None], indent=2)
    else:  # a narrow terminal: what is now matters more than what was
        widths = [min(name, max(room, _LEAST_NAME)), shape, None]
        canvas.columns([[row[0], row[1], row[3]] for row in shown], widths, indent=2)


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
    canvas: Canvas, line: Line, series: HistorySeries, changes: Sequence[Change], options: Options
) -> None:
    canvas.line(f"{series.name}, {BETTER[series.metric.direction]}", "bold", indent=2)
    if len(line.sides) > MOST_ROWS:
        marks = [change.at for change in changes if change.name == series.name]
        ends = canvas.plain(str(line.versions[0])), canvas.plain(str(line.versions[-1]))
        for text in chart(series.values, marks, ends, canvas.width - 2, options.encoding):
            canvas.put(canvas.lines(f"  {text}"))
        return
    known = series.values[~np.isnan(series.values)]
    largest = float(known.max()) if len(known) else 0.0
    rows = []
    for place, version in enumerate(line.versions):
        value = series.value(place)
        text, _ = units.values((value, largest), series.metric.unit, series.metric.name)
        cells = [str(version), text, ""]
        if value is not None:
            cells[2] = units.spread(series.spread(place), len(series.per_version[place]))
        rows.append([*map(canvas.text, cells), canvas.text(bar(value or 0.0, largest, _BAR, options.encoding))])
    widths = [min(max(row[cell].cell_len for row in rows), canvas.width // 3) for cell in range(3)]
    canvas.columns(rows, [*widths, None], indent=4)


def history_markdown(found: HistoryView, options: Options) -> str:  # noqa: ARG001 - the same for every reader
    """For a comment or a summary."""
    lines = [f"## {escape(f'{found.suite} on {found.testbed}')}", ""]
    for view in found.lines:
        line = view.line
        lines += [f"### {escape(_title(line))}", ""]
        if len(line.sides) <= MOST_ROWS:
            lines += ["| version | runs |", "| --- | --- |"]
            lines += [f"| {escape(name)} | {escape(text)} |" for name, text in _version_facts(line)]
            lines.append("")
        lines += ["| series | shape | first | last |", "| --- | --- | --- | --- |"]
        for series in line.series:
            cells = (series.name, _shape(series), *_ends(series))
            lines.append(f"| {' | '.join(str(escape(cell)) for cell in cells)} |")
        lines.append("")
        if view.changes is not None:
            lines += [f"- {escape(change.name)}: {escape(sentence(line, change))}" for change in view.changes.found]
            lines += [""] if view.changes.found else []
            lines += [f"{escape(text)}\n" for text in _looked_at(view)]
    return "\n".join(lines).rstrip("\n") + "\n"


def sentence(line: Line, change: Change) -> str:
    """`step of +34.0% [+31.0, +37.1], worse, at 0.24.0, between 0.19.1 and 0.24.0`."""
    after, by = (str(line.versions[place]) for place in change.since)
    size = ""
    if change.loss is not None:
        size = f" of {units.change(change.loss, change.scale)} {units.interval(change.interval)}"
        size += ", worse" if change.is_worse else ", better"
    between = f"from {after} to {by}" if change.kind == "ramp" else f"between {after} and {by}"
    sure = "" if change.probability is None else f"; probability {probability(change.probability)}"
    return f"{change.kind}{size}, at {line.versions[change.at]}, {between}{sure}"


def _title(line: Line) -> str:
    of = f" of variant {line.variant}" if line.variant else ""
    if line.order is Order.VERSION:
        return count(len(line.sides), "version") + of
    return count(len(line.sides), "build") + f"{of} by the day of the first run"


def _version_facts(line: Line) -> list[tuple[str, str]]:
    sides = line.sides
    if len(sides) > MOST_ROWS:
        first, last = (str(sides[place].version) for place in (0, -1))
        return [(f"{first} to {last}", count(sum(len(side.counted) for side in sides), "run"))]
    return [(str(side.version), _runs(side)) for side in sides]


def _runs(side: Side) -> str:
    text = count(len(side.counted), "run")
    text += "" if (time := begun(side)) is None else f" from {time.date().isoformat()}"
    others = [f"{len(group)} {word}" for group, word in ((side.void, "void"), (side.failed, "failed")) if group]
    return text + (f"; not counted: {', '.join(others)}" if others else "")


def _told(changes: Changes | None) -> Sequence[Change]:
    return () if changes is None else changes.found


def _looked_at(view: LineView) -> list[str]:
    """How much was asked, so that finding nothing means something."""
    changes = view.changes
    if changes is None:
        return []
    if changes.way is Way.CHANGE_POINTS:
        text = f"looked for change points in {changes.series} series over {len(view.line.sides)} versions"
        text += "; the newest was also compared with the one before it" if changes.steps else ""
    elif not changes.steps:
        text = "nothing to look at: changes need two versions with runs that can be compared"
    else:
        steps = count(changes.steps, "step")
        text = f"looked at {changes.series} series on {steps} between neighbouring versions, as one family"
        text += " (too few versions for change points)"
    lines = [text] if changes.found or not changes.series else [f"none found: {text}"]
    if view.improvements:
        lines.append(improvements_not_told(view.improvements))
    return [*lines, *changes.notes]
