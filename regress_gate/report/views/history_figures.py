"""The picture of a history: a panel for each series that changed, with its changes and known issues."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from regress_gate.gate.history import HistorySeries
from regress_gate.report.document import Column, Figure, Row, RowGroup, Table
from regress_gate.report.figures.timeline import shape_points
from regress_gate.report.plots import TimelineChange, TimelineFlag, TimelinePanel, TimelinePlot
from regress_gate.report.render.output_formats import HISTORY_FIGURES
from regress_gate.report.views import units
from regress_gate.report.views.history_words import (
    LineView,
    day_texts,
    days_note,
    line_change_text,
    line_title,
    value_text,
)
from regress_gate.report.views.wording import DIRECTION_TEXT
from regress_gate.text import plural

_MOST_PANELS = 12
_MOST_RANGES = 100
"""Points up to which a picture has the runs of each."""
_PARTS = 10
"""Parts of a long history of which the table has the first, the last, the smallest and the largest value."""


def history_figure(views: Sequence[LineView]) -> Figure:
    """The series that changed, of every line, those that got worse first; without any, the first series."""
    every = [(view, series) for view in views for series in view.line.series]
    named = {(id(view), change.name) for view in views for change in view.reported}
    worse = {(id(view), change.name) for view in views for change in view.reported if change.is_worse is not False}
    changed = [(view, series) for view, series in every if (id(view), series.name) in named]
    changed.sort(key=lambda one: (id(one[0]), one[1].name) not in worse)
    drawable = changed or every
    shown = drawable[:_MOST_PANELS]
    what = "series that changed" if changed else "series"
    note = f"{len(shown)} of {len(drawable)} {what}." if len(drawable) > len(shown) else ""
    texts = [f"{series.name}: {change.text}." for view, series in shown for change in _own_changes(view, series)]
    return Figure(
        name="history",
        title=HISTORY_FIGURES["history"],
        description=" ".join([*(texts or ["No change was found or looked for."]), note]).strip(),
        plot=TimelinePlot(
            tuple(_line_panel(view, series, len(views) > 1) for view, series in shown), _across(views), note
        ),
        table=Table(
            (Column("version"), Column("released"), Column("first run"), Column("mean", is_right=True), Column("runs")),
            tuple(RowGroup(series.name, tuple(_point_rows(view, series))) for view, series in shown),
            "series",
        ),
    )


def _across(views: Sequence[LineView]) -> str:
    return ", ".join(filter(None, ["versions", days_note(views)]))


def _line_panel(view: LineView, series: HistorySeries, has_other_lines: bool) -> TimelinePanel:
    title = f"{series.name}, {line_title(view.line)}" if has_other_lines else series.name
    return replace(_series_panel(view, series), title=title)


def _point_rows(view: LineView, series: HistorySeries) -> Iterator[Row]:
    """A row for each version; of a long history, those that show its shape."""
    line = view.line
    times, released = line.first_runs, view.released or [None] * len(line.versions)
    for at in shape_points(series.values.tolist(), parts=_PARTS):
        time, day, value = times[at], released[at], value_text(series, series.value(at))
        days = "" if day is None else day.isoformat(), "" if time is None else time.date().isoformat()
        yield Row((str(line.versions[at]), *days, value, str(series.counts[at])))


def series_figure(view: LineView, series: HistorySeries) -> Figure:
    """One series over the versions of a line, with the changes and the known issues that are its own."""
    line, panel = view.line, _series_panel(view, series)
    found = plural(len(panel.changes), "change") if panel.changes else "no change"
    rows = [
        Row((str(version), units.values((series.value(place), None), series.metric.unit, series.metric.name)[0]))
        for place, version in enumerate(line.versions)
    ]
    return Figure(
        name="history",
        title=f"{series.name}, {DIRECTION_TEXT[series.metric.direction]}",
        description=f"{series.name} over {line_title(line)}, with {found}. "
        + " ".join(f"{change.text}." for change in panel.changes),
        plot=TimelinePlot((panel,), _across([view])),
        table=Table.of((Column("version"), Column("mean", is_right=True)), tuple(rows)),
    )


def _series_panel(view: LineView, series: HistorySeries) -> TimelinePanel:
    line = view.line
    known = series.values[~np.isnan(series.values)].tolist()
    factor, unit = units.axis_unit(known, series.metric.unit, series.metric.name)
    ranges: tuple[tuple[float, float], ...] = ()
    if len(line.sides) <= _MOST_RANGES:
        ranges = tuple(
            (factor * min(runs), factor * max(runs)) if runs else (np.nan, np.nan) for runs in series.per_version
        )
    return TimelinePanel(
        title=series.name,
        unit=f"{unit}, {DIRECTION_TEXT[series.metric.direction]}",
        values=tuple((factor * series.values).tolist()),
        labels=tuple(map(str, line.versions)),
        days=day_texts(view),
        ranges=ranges,
        changes=_own_changes(view, series),
        flags=tuple(
            TimelineFlag(event.at, f"{event.id} {'begins' if event.begins else 'ends'}", event.summary)
            for event in view.issues
            if event.concerns(series.metric.name)
        ),
    )


def _own_changes(view: LineView, series: HistorySeries) -> tuple[TimelineChange, ...]:
    return tuple(
        TimelineChange(change.at, *change.since, line_change_text(view.line, change), change.is_worse)
        for change in view.reported
        if change.name == series.name
    )
