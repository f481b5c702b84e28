"""The noise of a measurement: how much each series scatters between server starts, and what it can show."""

from __future__ import annotations

from regress_gate.report.figures.axes import Scale, factor_ticks, span
from regress_gate.report.figures.canvas import EDGE, SMALL, WIDTH, Canvas, Sign
from regress_gate.report.plots import NoisePlot, NoiseRow

_ROW = 19.0
_PLOT = (300.0, WIDTH - 50)
_LABEL = _PLOT[0] - EDGE - 20
_SPREAD, _DETECTABLE, _MARGIN = Sign("circle", "baseline"), Sign("square", "candidate"), Sign("bar", "ink")
_LEAST, _MOST = 1e-4, 10.0
"""Ends that the axis never exceeds: from 0.01 % to 1000 %."""


def draw_noise(canvas: Canvas, plot: NoisePlot) -> None:
    if not plot.rows:
        canvas.paragraph(EDGE, "No series has two runs: the noise is not known.", width=WIDTH - 2 * EDGE)
        return
    canvas.legend(
        [(_SPREAD, "spread between server starts"), (_DETECTABLE, plot.detectable), (_MARGIN, "margin of the gate")]
    )
    scale = _scale(plot)
    canvas.y += 6
    _axis(canvas, scale, canvas.y + len(plot.rows) * _ROW)
    for row in plot.rows:
        _row(canvas, scale, row)
    canvas.y += 32
    if plot.note:
        canvas.paragraph(EDGE, plot.note, width=WIDTH - 2 * EDGE)


def _scale(plot: NoisePlot) -> Scale:
    sizes = [size for row in plot.rows for size in (row.spread, row.detectable, row.margin) if size is not None]
    known = [min(max(size, _LEAST), _MOST) for size in sizes if size > 0] or [0.01]
    return Scale(*span(known, least_share=2.0, factors=True), *_PLOT, factors=True)


def _axis(canvas: Canvas, scale: Scale, bottom: float) -> None:
    shown = factor_ticks(scale.low, scale.high, 14)
    canvas.lines([[(x, canvas.y), (x, bottom)] for x in map(scale.place, shown)], "grid")
    for tick in shown:
        x = scale.place(tick)
        canvas.text(x, bottom + 15, f"{100 * tick:.4g}%", width=60, size=SMALL, anchor="middle", colour="muted")
    middle, title = sum(_PLOT) / 2, "relative size (each step is a factor)"
    canvas.text(middle, bottom + 31, title, width=400, size=SMALL, anchor="middle", colour="muted")


def _row(canvas: Canvas, scale: Scale, row: NoiseRow) -> None:
    middle = canvas.y + _ROW / 2
    canvas.y += _ROW
    canvas.text(EDGE, middle + 4, row.label, width=_LABEL)
    ends = [scale.place(size) for size in (row.spread, row.detectable) if size is not None and size > 0]
    if len(ends) == 2:
        canvas.lines([[(end, middle) for end in ends]], "muted")
    if row.margin > 0:
        canvas.mark(scale.place(row.margin), middle, _MARGIN)
    for size, sign in ((row.detectable, _DETECTABLE), (row.spread, _SPREAD)):
        if size is not None and size > 0:
            canvas.mark(scale.place(size), middle, sign)
    if row.spread == 0:
        canvas.text(_PLOT[0] + 2, middle + 4, "no spread", width=80, size=SMALL, colour="muted")
    if row.detectable is None:
        canvas.text(_PLOT[1] + 6, middle + 4, "none", width=40, size=SMALL, colour="muted")
