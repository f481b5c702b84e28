"""A history as a table for a terminal and as Markdown. Decides nothing.

A few series get a row for each version, many get one line each. What came from outside (names of versions, scenarios,
testbeds) is cleaned or escaped here.
"""

from collections.abc import Sequence

import numpy as np

from regress_gate.gate.history import HistorySeries, Line, Order, begun
from regress_gate.gate.history_changes import Change, Way
from regress_gate.gate.sides import Side
from regress_gate.report import units
from regress_gate.report.canvas import GAP, Canvas
from regress_gate.report.history_chart import bar, chart, sparkline
from regress_gate.report.history_view import HistoryView, LineView
from regress_gate.report.history_wording import BETTER, improvements_not_told, kind, probability
from regress_gate.report.interface import Options
from regress_gate.report.markdown_text import escape
from regress_gate.report.wording import count

DETAILED = 3
"""Series up to which each version of each is told."""
MOST_ROWS = 24
"""Versions of which each gets a row; of more, a chart is drawn and the versions are only counted."""
_SPARK = 12
_LEAST_SPAN = 0.1
"""Share of its level that the height of a series' shape stands for at least."""
_BAR = 24


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
                _paint_series(canvas, line, series, view.told, options)
        else:
            _paint_overview(canvas, line, options)
        if view.changes is not None:
            canvas.heading("Changes [95% interval]" if view.changes.found else "Changes")
            _paint_changes(canvas, line, view.changes.found)
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
    canvas: Canvas, line: Line, series: HistorySeries, changes: Sequence[Change], options: Options
) -> None:
    canvas.line(f"{series.name}, {BETTER[series.metric.direction]}", "bold", indent=2)
    known = series.values[~np.isnan(series.values)]
    largest = float(known.max()) if len(known) else 0.0

    def write(value: float | None) -> str:
        return units.values((value, largest), series.metric.unit, series.metric.name)[0]

    if len(line.sides) > MOST_ROWS:
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


def _paint_changes(canvas: Canvas, line: Line, changes: Sequence[Change]) -> None:
    """The series beside its change where names leave room for it, above it where not."""
    if all(canvas.text(change.name).cell_len <= canvas.width // 3 for change in changes):
        canvas.pairs((change.name, sentence(line, change)) for change in changes)
        return
    for change in changes:
        canvas.line(change.name, indent=2)
        canvas.line(sentence(line, change), indent=4)


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
    return f"{kind(change.kind)}{size}, at {line.versions[change.at]}, {between}{sure}"


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
        text = (
            f"looked at {changes.series} series on {steps} between neighbouring versions, with one false-alarm budget"
        )
        text += " (too few versions for change points)"
    lines = [text] if changes.found or not changes.series else [f"none found: {text}"]
    if view.improvements:
        lines.append(improvements_not_told(view.improvements))
    return [*lines, *changes.notes]
