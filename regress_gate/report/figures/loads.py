"""Throughput against latency of both sides: a curve each, from the smallest load to the largest."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

from regress_gate.report.figures.axes import AXIS, Box, Scale, draw_frame, fitting_ticks, span
from regress_gate.report.figures.canvas import EDGE, SMALL, WIDTH, Canvas, Sign, fit, text_width
from regress_gate.report.plots import LoadPanel, LoadPlot, LoadPoint, Side

_HEIGHT = 200.0
_GAP = 26.0
_COLUMNS = 2
_SIGNS = {Side.BASELINE: Sign("circle", "baseline"), Side.CANDIDATE: Sign("square", "candidate")}
_MOST_TICKS = 6
_CLEAR = 9.0
"""From the middle of a mark to its number."""

_SAME_PLACE = 24.0
"""Up to this distance, one number is enough for the marks of both sides."""

_Area = tuple[float, float, float, float]
_Line = list[tuple[float, float]]
"""Left, top, right, bottom."""


def draw_loads(canvas: Canvas, plot: LoadPlot) -> None:
    if not plot.panels:
        canvas.paragraph(EDGE, "Nothing was sent at several loads: there is nothing to show.", width=WIDTH - 2 * EDGE)
        return
    items: list[tuple[Sign | str, str]] = [(_SIGNS[side], name) for side, name in zip(Side, plot.sides, strict=True)]
    canvas.legend([*items, ("", f"bars: {plot.confidence} interval between server starts")])
    width = (WIDTH - 2 * EDGE - (_COLUMNS - 1) * _GAP) / _COLUMNS
    for start in range(0, len(plot.panels), _COLUMNS):
        top = canvas.y + 30
        for place, panel in enumerate(plot.panels[start : start + _COLUMNS]):
            left = EDGE + place * (width + _GAP)
            _panel(canvas, panel, Box(left + AXIS, top, left + width, top + _HEIGHT))
        canvas.y = top + _HEIGHT + 38
    text = "Further right and further down is better. Equal distances are equal factors."
    canvas.paragraph(EDGE, f"{text} {plot.note}", width=WIDTH - 2 * EDGE)


def _panel(canvas: Canvas, panel: LoadPanel, box: Box) -> None:
    sides = ((Side.BASELINE, panel.baseline), (Side.CANDIDATE, panel.candidate))
    points = [point for _, side in sides for point in side if _is_placed(point)]
    limit = [] if panel.limit is None else [panel.limit]
    values = [value for point in points for value in (point.latency, *point.latency_interval)]
    unit = fit(panel.latency_unit, box.width / 2, SMALL)
    up = draw_frame(canvas, box, panel.title, unit, [*values, *limit], factors=True, least_share=0.2)
    across = _across(canvas, panel.throughput_unit, points, box)
    canvas.text(box.left, box.bottom + 31, f"numbers: {panel.load}", width=box.width / 2, size=SMALL, colour="muted")
    taken = []
    if panel.limit is not None:
        taken.append(_limit(canvas, panel.limit_text, up.place(panel.limit), box))
    places = {id(point): (across.place(point.throughput), up.place(point.latency)) for point in points}
    for side, line in sides:
        shown = [point for point in line if _is_placed(point)]
        for bar in _bars(canvas, shown, across, up, _SIGNS[side].colour):
            taken += _along(bar)
        curve = [places[id(point)] for point in shown]
        if len(curve) > 1:
            canvas.lines([curve], _SIGNS[side].colour, width=1.8)
            taken += _along(curve)
    taken += [(x - 6, y - 6, x + 6, y + 6) for x, y in places.values()]
    for side, line in sides:
        for point in line:
            if _is_placed(point):
                canvas.mark(*places[id(point)], _SIGNS[side], point.label)
    labelled: list[tuple[str, tuple[float, float]]] = []
    for point in points:
        place = places[id(point)]
        is_said = any(text == point.label and math.dist(place, other) < _SAME_PLACE for text, other in labelled)
        if not is_said and _label(canvas, point.label, place, box, taken):
            labelled.append((point.label, place))


def _is_placed(point: LoadPoint) -> bool:
    return not (math.isnan(point.throughput) or math.isnan(point.latency))


def _across(canvas: Canvas, unit: str, points: Sequence[LoadPoint], box: Box) -> Scale:
    """The axis below the box."""
    values = [value for point in points for value in (point.throughput, *point.throughput_interval)]
    known = [value for value in values if not math.isnan(value)]
    factors = min(known, default=0.0) > 0
    ends = span(known, least_share=0.2, factors=factors)
    scale = Scale(*ends, box.left + 12, box.right - 34, factors)
    wanted = fitting_ticks(scale, _rate, SMALL, _MOST_TICKS)
    canvas.lines([[(scale.place(tick), box.bottom), (scale.place(tick), box.bottom + 4)] for tick in wanted], "muted")
    for tick in wanted:
        x = scale.place(tick)
        half = text_width(_rate(tick), SMALL) / 2
        if x + half <= box.right:
            canvas.text(
                x, box.bottom + 16, _rate(tick), width=2 * half + 1, size=SMALL, anchor="middle", colour="muted"
            )
    canvas.text(box.right, box.bottom + 31, unit, width=box.width / 2 - 8, size=SMALL, anchor="end", colour="muted")
    return scale


def _rate(value: float) -> str:
    return f"{value / 1000:.4g}k" if abs(value) >= 10_000 else f"{value:.4g}"


def _limit(canvas: Canvas, text: str, y: float, box: Box) -> _Area:
    """The promise as a line; where its text stands."""
    canvas.lines([[(box.left, y), (box.right, y)]], "ink", dashes="5 4")
    base = y - 5 if y - 5 - SMALL > box.top else y + SMALL + 3
    width = min(text_width(text, SMALL), box.width - 8)
    canvas.text(box.left + 4, base, text, width=width + 1, size=SMALL, colour="muted")
    return box.left + 4, base - SMALL, box.left + 4 + width, base + 3


def _bars(canvas: Canvas, points: Sequence[LoadPoint], across: Scale, up: Scale, colour: str) -> list[_Line]:
    """The intervals, and the lines that were drawn for them: no number stands on one."""
    lines: list[_Line] = []
    for point in points:
        x, y = across.place(point.throughput), up.place(point.latency)
        left, right = (across.place(end) for end in _known(point.throughput_interval, point.throughput))
        bottom, top = (up.place(end) for end in _known(point.latency_interval, point.latency))
        if left < right:
            lines += [[(left, y), (right, y)], *([(end, y - 3), (end, y + 3)] for end in (left, right))]
        if top < bottom:
            lines += [[(x, bottom), (x, top)], *([(x - 3, end), (x + 3, end)] for end in (bottom, top))]
    canvas.lines(lines, colour)
    return lines


def _known(interval: tuple[float, float], value: float) -> tuple[float, ...]:
    """An end that is not known is not drawn."""
    return tuple(value if math.isnan(end) else end for end in interval)


def _label(canvas: Canvas, text: str, place: tuple[float, float], box: Box, taken: list[_Area]) -> bool:
    """The load beside its mark, where there is room; else only below a pointer. Whether there was."""
    x, y = place
    width = text_width(text, SMALL)
    across = (x - width / 2, x + _CLEAR, x - _CLEAR - width)
    up = (y + 4, y - _CLEAR, y + _CLEAR + 9)
    for row, column in _ORDER:
        left, base = across[column], up[row]
        area = (left, base - SMALL + 1, left + width, base + 2)
        inside = box.left <= left and left + width <= box.right and box.top <= area[1] and area[3] <= box.bottom
        if inside and not any(_overlap(area, other) for other in taken):
            taken.append(area)
            canvas.text(left, base, text, width=width + 1, size=SMALL, colour="muted")
            return True
    return False


_ORDER = ((1, 0), (2, 0), (0, 1), (0, 2), (2, 1), (1, 2), (1, 1), (2, 2))
"""Places of a number around its mark, the best first: row (beside, above, below) and column (centred, right, left)."""


def _along(curve: Sequence[tuple[float, float]]) -> Iterator[_Area]:
    """What a line covers, in small pieces."""
    for (x, y), (to_x, to_y) in pairwise(curve):
        pieces = math.ceil(math.hypot(to_x - x, to_y - y) / 4)
        for piece in range(pieces + 1):
            share = piece / max(1, pieces)
            at_x, at_y = x + share * (to_x - x), y + share * (to_y - y)
            yield at_x - 1, at_y - 1, at_x + 1, at_y + 1


def _overlap(one: _Area, other: _Area) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
