"""Every run of both sides in the order of time, a panel for each series: drift, effects of order, and outliers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby

from regress_gate.report.figures.axes import AXIS, Box, Scale, draw_frame
from regress_gate.report.figures.canvas import EDGE, SMALL, WIDTH, Canvas, Sign, text_width
from regress_gate.report.plots import RunMark, RunPanel, RunPlot, RunState, Side

_HEIGHT = 96.0
_GAP = 26.0
_COLUMNS = 2
_SIGNS = {Side.BASELINE: ("circle", "baseline"), Side.CANDIDATE: ("square", "candidate")}
_FAILED = "failed: no value"


def draw_runs(canvas: Canvas, plot: RunPlot) -> None:
    if not plot.panels:
        canvas.paragraph(EDGE, "No run has values: there is nothing to show.", width=WIDTH - 2 * EDGE)
        return
    items: list[tuple[Sign | str, str]] = [
        (Sign(*_SIGNS[side]), name) for side, name in zip(Side, plot.sides, strict=True)
    ]
    states = {run.state for run in plot.runs}
    items += [(Sign("circle", "muted", is_hollow=True), "does not count")] if RunState.VOID in states else []
    items += [(Sign("cross", "muted"), _FAILED)] if RunState.FAILED in states else []
    blocks = [run.block for run in plot.runs if run.block is not None and run.state is RunState.COUNTED]
    items += [("", "joined: one block")] if len(set(blocks)) < len(blocks) else []
    canvas.legend(items)
    width = (WIDTH - 2 * EDGE - (_COLUMNS - 1) * _GAP) / _COLUMNS
    for start in range(0, len(plot.panels), _COLUMNS):
        top = canvas.y + 30
        for place, panel in enumerate(plot.panels[start : start + _COLUMNS]):
            left = EDGE + place * (width + _GAP)
            _panel(canvas, plot.runs, panel, Box(left + AXIS, top, left + width, top + _HEIGHT))
        canvas.y = top + _HEIGHT + 18
    canvas.paragraph(EDGE, f"Runs from left to right in the order of time. {plot.note}", width=WIDTH - 2 * EDGE)


def _panel(canvas: Canvas, runs: Sequence[RunMark], panel: RunPanel, box: Box) -> None:
    across = Scale(0, max(1, len(runs) - 1), box.left + 10, box.right - 10)
    up = draw_frame(canvas, box, panel.title, panel.unit, panel.values)
    places = [across.place(at) for at in range(len(runs))]
    blocks: dict[int, list[tuple[float, float]]] = {}
    for run, x, value in zip(runs, places, panel.values, strict=True):
        if run.block is not None and run.state is RunState.COUNTED and not math.isnan(value):
            blocks.setdefault(run.block, []).append((x, up.place(value)))
    canvas.lines([points for points in blocks.values() if len(points) > 1], "muted")
    for run, x, value in zip(runs, places, panel.values, strict=True):
        shape, colour = _SIGNS[run.side]
        if run.state is RunState.FAILED:
            canvas.mark(x, box.bottom - 6, Sign("cross", colour), run.name)
        elif not math.isnan(value):
            canvas.mark(x, up.place(value), Sign(shape, colour, is_hollow=run.state is RunState.VOID), run.name)
    _days(canvas, runs, places, box)


def _days(canvas: Canvas, runs: Sequence[RunMark], places: Sequence[float], box: Box) -> None:
    """Where each day begins, as far as there is room."""
    free = box.left - AXIS
    for day, members in groupby(enumerate(runs), key=lambda each: each[1].day):
        first = next(members)[0]
        width = text_width(day, SMALL)
        x = min(places[first] - 4, box.right - width)
        if day and x >= free:
            canvas.text(x, box.bottom + 13, day, width=width, size=SMALL, colour="muted")
            free = x + width + 8
