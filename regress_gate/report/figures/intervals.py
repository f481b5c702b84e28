"""The interval plot: each series' change with its interval, against its own margin."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from regress_gate.model.result import Verdict
from regress_gate.report.figures.axes import Scale, fitting_ticks, minus
from regress_gate.report.figures.canvas import EDGE, NARROW, SMALL, WIDTH, Canvas, Sign, text_width
from regress_gate.report.plots import IntervalPlot, IntervalRow

_GROUP = 25.0
_MARGIN = 56.0


@dataclass(frozen=True, slots=True)
class _Layout:
    """Where what stands: beside the axis, or in a narrow picture above the interval."""

    start: float
    """Where the axis begins."""
    stop: float
    row: float
    """Height of a series."""
    text: float
    """Where the change begins."""
    is_narrow: bool = False

    @property
    def label(self) -> float:
        """Width of a name."""
        return self.stop - EDGE if self.is_narrow else self.start - EDGE - 22

    @property
    def title(self) -> float:
        """Width of a group's title."""
        return self.label if self.is_narrow else self.start - EDGE


_WIDE = _Layout(184.0, 504.0, 19.0, 514.0)
_NARROW = _Layout(EDGE + 4, NARROW - EDGE - 4, 49.0, EDGE + 10, is_narrow=True)
_LEAST = 1.5
"""Margins that the axis shows at least on both sides."""
_SHOWN_WHOLE = 0.8
"""Share of the intervals of which the axis is twice as long; others may end in an arrow with a number."""
_REACHED = 4.0
"""Margins up to which every interval is shown as a whole, wherever the others are."""
_MOST_TICKS = 7
_SIGNS = {
    Verdict.REGRESSION: (Sign("square", "regression"), "regression"),
    Verdict.UNDECIDED: (Sign("diamond", "undecided", is_hollow=True), "undecided"),
    Verdict.WITHIN_MARGIN: (Sign("circle", "within_margin"), "within its margin"),
    Verdict.IMPROVEMENT: (Sign("triangle", "improvement"), "improvement"),
}


def draw_intervals(canvas: Canvas, plot: IntervalPlot) -> None:
    rows = [row for group in plot.groups for row in group.rows]
    if not rows:
        canvas.paragraph(EDGE, "No series gates: there is nothing to show.", width=canvas.width - 2 * EDGE)
        return
    layout = _WIDE if canvas.width > NARROW else _NARROW
    scale = Scale(*_reach(rows), layout.start, layout.stop)
    present = {row.verdict for row in rows}
    signs = [item for verdict, item in _SIGNS.items() if verdict in present]
    canvas.legend([*signs, ("", f"line: {plot.confidence} interval")])
    _heads(canvas, scale, layout)
    _axis(canvas, scale, _bands(canvas.y, plot, layout))
    for group in plot.groups:
        canvas.y += _GROUP
        canvas.text(EDGE, canvas.y - 8, group.title, width=layout.title, bold=True)
        for row in group.rows:
            _row(canvas, scale, row, layout)
    canvas.y += 32
    if plot.note:
        canvas.paragraph(EDGE, plot.note, width=canvas.width - 2 * EDGE)


def _bands(top: float, plot: IntervalPlot, layout: _Layout) -> list[tuple[float, float]]:
    """From where to where the lines of the axis go: past all rows, or between the texts of a narrow picture."""
    bottom = top + sum(_GROUP + len(group.rows) * layout.row for group in plot.groups)
    if not layout.is_narrow:
        return [(top, bottom)]
    bands, y = [], top
    for group in plot.groups:
        y += _GROUP
        for _ in group.rows:
            y += layout.row
            bands.append((y - _WIDE.row, y))
    return bands


def _heads(canvas: Canvas, scale: Scale, layout: _Layout) -> None:
    """Titles above the columns, and what left and right mean."""
    canvas.y += 14
    left, right = "← better", "beyond the margin →"
    if not layout.is_narrow:
        canvas.text(EDGE, canvas.y, "series", width=layout.label, size=SMALL, colour="muted")
    if text_width(left, SMALL) < scale.place(0) - layout.start:
        canvas.text(layout.start, canvas.y, left, width=layout.label, size=SMALL, colour="muted")
    canvas.text(layout.stop, canvas.y, right, width=layout.stop, size=SMALL, colour="muted", anchor="end")
    if not layout.is_narrow:
        edge = WIDTH - EDGE
        change = edge - _MARGIN - layout.text
        canvas.text(layout.text, canvas.y, "change [interval]", width=change, size=SMALL, colour="muted")
        canvas.text(edge, canvas.y, "margin", width=_MARGIN, size=SMALL, colour="muted", anchor="end")
    canvas.y += 6


def _reach(rows: Sequence[IntervalRow]) -> tuple[float, float]:
    """The ends of the axis, in margins."""
    ends = [[-one for one in _ends(row)] for row in rows], [_ends(row) for row in rows]
    low, high = (_far_enough([max(each) for each in side if each]) for side in ends)
    return -low, high


def _ends(row: IntervalRow) -> list[float]:
    return [one for one in (row.estimate, *(row.interval or ())) if one is not None]


def _far_enough(ends: Sequence[float]) -> float:
    """Every end if the furthest is not far beyond most of them: one wide interval must not flatten the others."""
    ordered = sorted(max(end, _LEAST) for end in ends) or [_LEAST]
    most = ordered[min(len(ordered) - 1, math.ceil(_SHOWN_WHOLE * len(ordered)) - 1)]
    return 1.06 * min(ordered[-1], max(2 * most, _REACHED))


def _row(canvas: Canvas, scale: Scale, row: IntervalRow, layout: _Layout) -> None:
    canvas.y += layout.row
    middle = canvas.y - _WIDE.row / 2
    base = middle + 4
    edge = canvas.width - EDGE
    if layout.is_narrow:
        canvas.text(layout.text, base - 28, row.label, width=edge - layout.text)
        change = f"{row.change}; margin {row.margin}"
        canvas.text(layout.text, base - 14, change, width=edge - layout.text, size=SMALL, colour="muted")
    else:
        canvas.text(EDGE + 10, base, row.label, width=layout.label)
        canvas.text(layout.text, base, row.change, width=edge - _MARGIN - layout.text)
        canvas.text(edge, base, row.margin, width=_MARGIN, anchor="end", colour="muted")
    if row.estimate is None:
        canvas.text(scale.place(0) + 6, base, "not estimated", width=120, size=SMALL, colour="muted")
        return
    low, high = row.interval or (row.estimate, row.estimate)
    sign, _ = _SIGNS[row.verdict]
    if low is not None and low > scale.high:
        tip, arrow = _arrow(canvas, scale.stop, -1, middle, _multiples(low, high))
        canvas.lines([arrow], sign.colour, width=2)
        canvas.mark(tip - 12, middle, sign)
        return
    if high is not None and high < scale.low:
        tip, arrow = _arrow(canvas, scale.start, 1, middle, _multiples(low, high))
        canvas.lines([arrow], sign.colour, width=2)
        canvas.mark(tip + 12, middle, sign)
        return
    if row.interval is not None:
        left, left_end = _end(canvas, scale, low, middle, is_left=True)
        right, right_end = _end(canvas, scale, high, middle, is_left=False)
        bar = [[(left, middle), (right, middle)]] if left < right else []
        canvas.lines([left_end, *bar, right_end], sign.colour, width=2)
    if scale.holds(row.estimate):
        canvas.mark(scale.place(row.estimate), middle, sign)


_Line = list[tuple[float, float]]


def _end(canvas: Canvas, scale: Scale, end: float | None, y: float, *, is_left: bool) -> tuple[float, _Line]:
    """Where the line of an interval stops, and what is drawn there: its end, or an arrow if that is beyond the axis."""
    if end is not None and scale.holds(end):
        x = scale.place(end)
        return x, [(x, y - 4), (x, y + 4)]
    edge, towards = (scale.start, 1) if is_left else (scale.stop, -1)
    return _arrow(canvas, edge, towards, y, _bound(end))


def _arrow(canvas: Canvas, edge: float, towards: int, y: float, text: str) -> tuple[float, _Line]:
    """An arrow to the edge of the axis and, between the two, how far it goes on. Where its tip is."""
    tip = edge + towards * (text_width(text, SMALL) + 3)
    canvas.text(edge, y + 4, text, width=200, size=SMALL, anchor="start" if towards > 0 else "end")
    return tip, [(tip + towards * 5, y - 4), (tip, y), (tip + towards * 5, y + 4)]


def _bound(end: float | None) -> str:
    return "∞" if end is None else multiple(end)


def _multiples(low: float | None, high: float | None) -> str:
    return multiple(low) if low is not None and low == high else f"{_bound(low)} to {_bound(high)}"


def _axis(canvas: Canvas, scale: Scale, bands: Sequence[tuple[float, float]]) -> None:
    """What lies behind the rows, and the numbers below them."""
    margin, bottom = scale.place(1), bands[-1][1]
    for top, end in bands:
        canvas.area(margin, top, scale.stop - margin, end - top, "beyond")
    shown = fitting_ticks(scale, multiple, SMALL, _MOST_TICKS)
    canvas.lines([[(x, top), (x, end)] for x in map(scale.place, shown) for top, end in bands], "grid")
    for tick in shown:
        x = scale.place(tick)
        canvas.text(x, bottom + 15, multiple(tick), width=80, size=SMALL, anchor="middle", colour="muted")
    canvas.lines([[(scale.place(0), top), (scale.place(0), end)] for top, end in bands], "ink")
    canvas.lines([[(margin, top), (margin, end)] for top, end in bands], "regression", dashes="4 3")
    middle, title = (scale.start + scale.stop) / 2, "loss, in multiples of the series' own margin"
    canvas.text(middle, bottom + 31, title, width=600, size=SMALL, anchor="middle", colour="muted")


def multiple(value: float) -> str:
    """`2.5×`, and `0`."""
    return minus(f"{value:.3g}×") if value else "0"
