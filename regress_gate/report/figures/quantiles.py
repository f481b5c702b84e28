"""Distributions of both sides: the value at each percentile of the requests, with a band between servers."""

from __future__ import annotations

import math
from statistics import NormalDist

from regress_gate.report.figures.axes import AXIS, Box, Scale, draw_frame
from regress_gate.report.figures.canvas import EDGE, SMALL, WIDTH, Canvas, Sign, text_width
from regress_gate.report.plots import QuantileLine, QuantilePanel, QuantilePlot, Side

_HEIGHT = 150.0
_GAP = 22.0
_COLUMNS = 3
_SIGNS = {Side.BASELINE: Sign("circle", "baseline"), Side.CANDIDATE: Sign("square", "candidate")}
_AXES = "Across: percentiles of the requests of a run. Up: equal distances are equal factors."
_FEW = 6
"""Levels up to which each has a mark; more are a line alone."""
_LABELLED = (0.5, 0.99, 0.9, 0.01, 0.1, 0.75, 0.25, 0.95, 0.05)
"""Levels that have a number below the axis, the most important first, as far as there is room."""


def draw_quantiles(canvas: Canvas, plot: QuantilePlot) -> None:
    if not plot.panels:
        canvas.paragraph(EDGE, "No percentiles are stored: there is nothing to show.", width=WIDTH - 2 * EDGE)
        return
    items: list[tuple[Sign | str, str]] = [(_SIGNS[side], name) for side, name in zip(Side, plot.sides, strict=True)]
    canvas.legend([*items, ("", f"band: {plot.band}")])
    width = (WIDTH - 2 * EDGE - (_COLUMNS - 1) * _GAP) / _COLUMNS
    for start in range(0, len(plot.panels), _COLUMNS):
        top = canvas.y + 30
        for place, panel in enumerate(plot.panels[start : start + _COLUMNS]):
            left = EDGE + place * (width + _GAP)
            _panel(canvas, panel, Box(left + AXIS, top, left + width, top + _HEIGHT))
        canvas.y = top + _HEIGHT + 20
    canvas.paragraph(EDGE, f"{_AXES} {plot.note}", width=WIDTH - 2 * EDGE)


def _panel(canvas: Canvas, panel: QuantilePanel, box: Box) -> None:
    # As on normal probability paper: the tails, which users feel, get room.
    scores = [NormalDist().inv_cdf(level) for level in panel.levels]
    across = Scale(min(scores), max(max(scores), min(scores) + 0.1), box.left + 8, box.right - 8)
    places = [across.place(score) for score in scores]
    lines = ((Side.BASELINE, panel.baseline), (Side.CANDIDATE, panel.candidate))
    values = [value for _, line in lines for value in (*line.values, *line.low, *line.high)]
    up = draw_frame(canvas, box, panel.title, panel.unit, values, factors=True)
    for side, line in lines:
        _band(canvas, places, line, up, _SIGNS[side].colour)
    for side, line in lines:
        points = [(x, up.place(value)) for x, value in zip(places, line.values, strict=True) if not math.isnan(value)]
        if len(points) > 1:
            canvas.lines([points], _SIGNS[side].colour, width=1.8)
        for x, y in points if len(points) <= _FEW else points[:: max(1, len(points) // _FEW)]:
            canvas.mark(x, y, _SIGNS[side])
    _labels(canvas, panel.levels, places, box)


def _band(canvas: Canvas, places: list[float], line: QuantileLine, up: Scale, colour: str) -> None:
    known = [
        (x, up.place(low), up.place(high))
        for x, low, high in zip(places, line.low, line.high, strict=True)
        if not (math.isnan(low) or math.isnan(high))
    ]
    if len(known) > 1:
        canvas.band([(x, high) for x, _, high in known] + [(x, low) for x, low, _ in reversed(known)], colour)


def _labels(canvas: Canvas, levels: tuple[float, ...], places: list[float], box: Box) -> None:
    taken: list[tuple[float, float]] = []
    by_level = dict(zip(levels, places, strict=True))
    for level in (level for level in _LABELLED if level in by_level):
        text = f"p{level * 100:g}"
        half = text_width(text, SMALL) / 2
        x = min(by_level[level], box.right - half)
        if all(x + half + 4 <= left or x - half - 4 >= right for left, right in taken):
            taken.append((x - half, x + half))
            canvas.text(x, box.bottom + 14, text, width=2 * half + 1, size=SMALL, anchor="middle", colour="muted")
