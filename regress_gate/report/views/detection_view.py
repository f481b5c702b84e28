"""What `detect` found, as a table for a terminal, as JSON and as Markdown. Decides nothing.

All names and times come from the table and are cleaned or escaped here.
"""

from typing import Any

import numpy as np

from regress_gate.gate.table_changes import MIN_POINTS, DetectedChanges, DetectionReport, is_worse
from regress_gate.model.metric import Direction, Scale
from regress_gate.report.render.markdown_escape import code, escape
from regress_gate.report.render.render_options import RenderOptions
from regress_gate.report.render.terminal_canvas import Canvas
from regress_gate.report.render.text_chart import chart, sparkline
from regress_gate.report.views import units
from regress_gate.report.views.history_view import (
    DIRECTION_TEXT,
    change_kind_text,
    hidden_improvements_text,
    probability_text,
)
from regress_gate.stats.changepoints import ChangePoint
from regress_gate.text import clip, plural

MAX_CHARTS = 6
"""Series with changes for which a chart is drawn; of more, each gets a line."""
_LINE = 60
"""Columns of a picture that is one line."""
_LONGEST = 40
"""Characters of a time or a group's value."""


def detection_document(found: DetectionReport) -> dict[str, Any]:
    """`change_points`: of all series, in their order, each with `group` where there are groups.

    `index` counts the points of its series from 0 and is the first after the change; `interval` is the 95 % interval of
    the index; `time` is that point's, null without a time column. `change` is a share of the level before where
    `relative`, else a difference; positive for larger values; null for `variance`. `worse` is null where no direction
    was given. `series` says what was looked at.
    """
    return {
        "schema_version": "1",
        "value": found.layout.value,
        "time": found.layout.time,
        "groups": list(found.layout.groups),
        "direction": found.asked.direction,
        "change_points": [_change_document(found, one, change) for one in found.series for change in one.changes],
        "series": [
            {
                "group": dict(zip(found.layout.groups, one.series.group, strict=True)),
                "points": len(one.series.values),
                "missing": int(np.isnan(one.series.values).sum()),
                "replicates": one.series.replicates,
                "too_short": one.is_too_short,
                "improvements_not_told": one.improvements,
            }
            for one in found.series
        ],
    }


def _change_document(found: DetectionReport, one: DetectedChanges, change: ChangePoint) -> dict[str, Any]:
    times = one.series.times
    group = {"group": dict(zip(found.layout.groups, one.series.group, strict=True))} if found.layout.groups else {}
    return {
        **group,
        "index": change.index,
        "time": None if times is None else times[change.index],
        "change": change.change,
        "change_interval": None if change.change_interval is None else list(change.change_interval),
        "relative": change.relative,
        "interval": list(change.interval),
        "kind": change.kind,
        "probability": change.probability,
        "worse": is_worse(change, found.asked.direction),
    }


def detection_table(found: DetectionReport, options: RenderOptions) -> str:
    """For a terminal: what was looked at, then each series with changes as a chart with a line for each change."""
    canvas = Canvas(options)
    canvas.line(_head(found), "bold")
    changed = [one for one in found.series if one.changes]
    for one in changed:
        canvas.gap()
        if found.layout.groups:
            canvas.line(f"{_group(found, one)}: {plural(len(one.series.values), 'point')}", "bold")
        if len(changed) <= MAX_CHARTS:
            _paint_chart(canvas, one, options)
        else:
            canvas.line(sparkline(one.series.values, min(_LINE, canvas.width - 2), options.encoding), indent=2)
        canvas.pairs(
            (str(number), change_point_text(one, change, found.asked.direction))
            for number, change in enumerate(one.changes, 1)
        )
    canvas.gap()
    for line in _tail(found):
        canvas.line(line)
    return canvas.finish()


def _paint_chart(canvas: Canvas, one: DetectedChanges, options: RenderOptions) -> None:
    last = len(one.series.values) - 1
    ends = canvas.plain(point_name(one, 0)), canvas.plain(point_name(one, last))
    marks = [change.index for change in one.changes]
    for line in chart(one.series.values, marks, ends, canvas.width - 2, options.encoding):
        canvas.put(canvas.lines(f"  {line}"))


def detection_markdown(found: DetectionReport, options: RenderOptions) -> str:  # noqa: ARG001 - the same for every reader
    """For a comment or a summary: a line of blocks for each series with changes, and a list of them."""
    lines = [f"## {escape(_head(found))}", ""]
    for one in found.series:
        if not one.changes:
            continue
        if found.layout.groups:
            lines += [f"### {escape(_group(found, one))}", ""]
        lines += [code(sparkline(one.series.values, _LINE)), ""]
        told = [escape(change_point_text(one, change, found.asked.direction)) for change in one.changes]
        lines += [*(f"{number}. {text}" for number, text in enumerate(told, 1)), ""]
    lines += [f"{escape(line)}\n" for line in _tail(found)]
    return "\n".join(lines).rstrip("\n") + "\n"


def change_point_text(one: DetectedChanges, change: ChangePoint, direction: Direction | None) -> str:
    """`step of +34.1% [+31.0, +37.5], worse, at 2026-05-12, between 2026-05-10 and 2026-05-13; probability 0.99`."""
    low, high = change.interval
    worse = is_worse(change, direction)
    parts = [
        f"{change_kind_text(change.kind)}{_size(change)}",
        *([] if worse is None else ["worse" if worse else "better"]),
    ]
    parts.append(f"at {point_name(one, change.index)}")
    between = "from {} to {}" if change.kind == "ramp" else "between {} and {}"
    parts.append(between.format(point_name(one, max(0, low - 1)), point_name(one, high)))
    return ", ".join(parts) + f"; probability {probability_text(change.probability)}"


def _size(change: ChangePoint) -> str:
    if change.change is None:
        return ""
    if change.relative:
        bounds = units.interval(change.change_interval)
        return f" of {units.change(change.change, Scale.RATIO)} {bounds}"
    bounds = ", ".join(f"{bound:+.4g}" for bound in change.change_interval or ())
    return f" of {change.change:+.4g}" + (f" [{bounds}]" if bounds else "")


def point_name(one: DetectedChanges, index: int) -> str:
    """The time of a point, or its number from 0."""
    return f"#{index}" if one.series.times is None else clip(str(one.series.times[index]), _LONGEST)


def _group(found: DetectionReport, one: DetectedChanges) -> str:
    pairs = zip(found.layout.groups, one.series.group, strict=True)
    return ", ".join(f"{name}={clip(value, _LONGEST)}" for name, value in pairs)


def _head(found: DetectionReport) -> str:
    points = sum(len(one.series.values) for one in found.series)
    by = f" by {found.layout.time}" if found.layout.time else ""
    of = f" in {len(found.series)} series" if found.layout.groups else ""
    better = f"; {DIRECTION_TEXT[found.asked.direction]}" if found.asked.direction else ""
    return f"{found.source}: {plural(points, 'point')} of {clip(found.layout.value, _LONGEST)}{by}{of}{better}"


def _tail(found: DetectionReport) -> list[str]:
    """What was found in all, and what was not looked at or not told."""
    changes = sum(len(one.changes) for one in found.series)
    changed = sum(bool(one.changes) for one in found.series)
    asked = found.asked
    for_worse = " for the worse" if asked.direction is not None and not asked.improvements else ""
    lines = [plural(changes, "change point") if changes else f"no change points{for_worse}"]
    if found.layout.groups and changes:
        lines[0] += f" in {changed} of {len(found.series)} series"
    lines[0] += "; [95% intervals]" if changes else ""
    if short := sum(one.is_too_short for one in found.series):
        of = f" in {short} of {len(found.series)} series" if len(found.series) > 1 else ""
        lines.append(f"fewer than {MIN_POINTS} values{of}: too few to be asked for change points")
    if hidden := sum(one.improvements for one in found.series):
        lines.append(hidden_improvements_text(hidden))
    if replicates := max((one.series.replicates for one in found.series), default=1) - 1:
        lines.append(f"up to {replicates + 1} rows of one time were taken together as replicates")
    if missing := sum(int(np.isnan(one.series.values).sum()) for one in found.series):
        lines.append(plural(missing, "missing value") + " passed over")
    return lines
