"""Series over versions or times: their points, what changed, and between which points it came."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from regress_gate.report.figures.axes import AXIS, Box, Scale, draw_frame
from regress_gate.report.figures.canvas import EDGE, SMALL, WIDTH, Canvas, Sign, fit, text_width
from regress_gate.report.plots import PointState, TimelineChange, TimelinePanel, TimelinePlot
from regress_gate.text import one_line, plural

_HEIGHT = 120.0
_MOST_MARKS = 100
"""Points up to which each has a mark; more are a line alone."""
_COLUMNS = 350
"""Parts of a long line of which each keeps its ends and its extremes: two pixels each."""
_LEAST_SHARE = 0.1
_MOST_CHANGES = 9
_LONGEST_LABEL = 150.0
_STATES = {
    PointState.PLAIN: (Sign("circle", "within_margin"), "value"),
    PointState.BEFORE: (Sign("circle", "within_margin"), "without the change"),
    PointState.UNKNOWN: (Sign("diamond", "undecided", is_hollow=True), "not shown on which side"),
    PointState.AFTER: (Sign("square", "regression"), "with the change"),
}
_FLAG = Sign("triangle", "issue")
_CHANGES = {
    True: ("regression", "beyond", "change for the worse"),
    False: ("improvement", "gain", "change for the better"),
    None: ("muted", "changed", "change"),
}
"""By `is_worse`: the colours of its line and its area, and what they mean."""


def draw_timeline(canvas: Canvas, plot: TimelinePlot) -> None:
    if not plot.panels:
        if not plot.note:
            canvas.paragraph(EDGE, "No series has values: there is nothing to show.", width=WIDTH - 2 * EDGE)
    else:
        canvas.legend(_legend(plot))
    for panel in plot.panels:
        _panel(canvas, panel)
    across = f"Across: {plot.across}." if plot.panels else ""
    canvas.paragraph(EDGE, f"{across} {plot.note}", width=WIDTH - 2 * EDGE)


def _legend(plot: TimelinePlot) -> Iterator[tuple[Sign | str, str]]:
    states = {state for panel in plot.panels for state in panel.states}
    yield from (item for state, item in _STATES.items() if state in states)
    if any(panel.ranges for panel in plot.panels):
        yield "", "upright line: from the lowest run to the highest"
    worse = {change.is_worse for panel in plot.panels for change in panel.changes}
    for known, (_, area, text) in _CHANGES.items():
        if known in worse:
            yield area, f"{text} came here"
    if any(panel.flags for panel in plot.panels):
        yield _FLAG, "known issue"


def _panel(canvas: Canvas, panel: TimelinePanel) -> None:
    top = canvas.y + 30
    box = Box(EDGE + AXIS, top, WIDTH - EDGE, top + _HEIGHT)
    across = Scale(0, max(1, len(panel.values) - 1), box.left + 12, box.right - 12)
    for change in panel.changes:
        left, right = across.place(change.after), across.place(change.by)
        canvas.area(left, box.top, max(2.0, right - left), _HEIGHT, _CHANGES[change.is_worse][1])
    ranges = [end for pair in panel.ranges for end in pair]
    values = [*panel.values, *ranges]
    headroom = 16.0 if panel.changes else 0.0
    up = draw_frame(canvas, box, panel.title, panel.unit, values, least_share=_LEAST_SHARE, headroom=headroom)
    _changes(canvas, panel.changes, across, box)
    _line(canvas, panel, across, up)
    canvas.y = box.bottom
    if panel.flags:
        _flags(canvas, panel, across)
    _labels(canvas, panel, across)
    for number, change in enumerate(panel.changes[:_MOST_CHANGES], 1):
        canvas.paragraph(box.left, f"{number}: {change.text}", width=box.width, colour="ink")
    if (more := len(panel.changes) - _MOST_CHANGES) > 0:
        canvas.paragraph(box.left, f"and {plural(more, 'more change')}", width=box.width)


def _changes(canvas: Canvas, changes: Sequence[TimelineChange], across: Scale, box: Box) -> None:
    """A numbered line at each change, between the last point before it and the first after it."""
    free = box.left
    for number, change in enumerate(changes, 1):
        x = across.place(change.at - 0.5)
        canvas.lines([[(x, box.top), (x, box.bottom)]], _CHANGES[change.is_worse][0], width=1.5, dashes="5 3")
        width = text_width(str(number), SMALL, bold=True)
        if x + 4 >= free and x + 4 + width <= box.right:
            canvas.text(x + 4, box.top + 11, str(number), width=width, size=SMALL, bold=True)
            free = x + 4 + width + 4


def _line(canvas: Canvas, panel: TimelinePanel, across: Scale, up: Scale) -> None:
    """The points joined, with a gap where one is missing; of many points, those that show the shape."""
    is_long = len(panel.values) > _MOST_MARKS
    kept = shape_points(panel.values, [change.at for change in panel.changes])
    joined: list[list[tuple[float, float]]] = [[]]
    for at in kept:
        if math.isnan(panel.values[at]):
            joined.append([])
        else:
            joined[-1].append((across.place(at), up.place(panel.values[at])))
    canvas.lines([points for points in joined if len(points) > 1], "within_margin", width=1.2)
    if is_long:
        return
    ranges = [(across.place(at), low, high) for at, (low, high) in enumerate(panel.ranges) if low < high]
    canvas.lines([[(x, up.place(low)), (x, up.place(high))] for x, low, high in ranges], "within_margin")
    for at, value in enumerate(panel.values):
        if math.isnan(value):
            continue
        x = across.place(at)
        state = panel.states[at] if panel.states else PointState.PLAIN
        canvas.mark(x, up.place(value), _STATES[state][0], panel.labels[at])


def shape_points(values: Sequence[float], keep: Iterable[int] = (), *, parts: int = _COLUMNS) -> list[int]:
    """Indices of the points that show the shape of a long series: all of a short one.

    Of each of equally long parts the first, the last, the smallest and the largest point are kept, so that the line
    through them covers the same pixels as the line through all (Jugel et al., "M4: A Visualization-Oriented Time Series
    Data Aggregation", VLDB 2014). `keep`: points that stay, with those before them, whatever they are.
    """
    count = len(values)
    if count <= 4 * parts:
        return list(range(count))
    kept = {at for each in keep for at in (each - 1, each) if 0 <= at < count}
    for part in range(parts):
        start, stop = part * count // parts, (part + 1) * count // parts
        known = [at for at in range(start, stop) if not math.isnan(values[at])]
        missing = [at for at in range(start, stop) if math.isnan(values[at])]
        kept.update(missing[:1])
        if known:
            kept.update((known[0], known[-1], min(known, key=values.__getitem__), max(known, key=values.__getitem__)))
    return sorted(kept)


def _flags(canvas: Canvas, panel: TimelinePanel, across: Scale) -> None:
    """Below the axis: a mark for each, with its text where there is room. One mark stands for those of one point."""
    by_point: dict[int, list[str]] = {}
    for flag in panel.flags:
        by_point.setdefault(flag.at, []).append(f"{flag.text} {flag.detail}".strip())
    texts: dict[int, str] = {}
    for flag in panel.flags:
        texts[flag.at] = f"{texts[flag.at]}, {flag.text}" if flag.at in texts else flag.text
    canvas.y += 14
    free = 0.0
    for at, text in sorted(texts.items()):
        x = across.place(at)
        canvas.mark(x, canvas.y - 4, _FLAG, "; ".join(by_point[at]))
        width = text_width(text, SMALL)
        if x + 8 >= free and x + 8 + width <= WIDTH - EDGE:
            canvas.text(x + 8, canvas.y, text, width=width, size=SMALL, colour="muted")
            free = x + 8 + width + 12
        elif x - 8 - width >= free:
            canvas.text(x - 8, canvas.y, text, width=width, size=SMALL, anchor="end", colour="muted")
            free = x + 12


def _labels(canvas: Canvas, panel: TimelinePanel, across: Scale) -> None:
    """Names and days of as many points as there is room for: the ends and the changes first."""
    count = len(panel.labels)
    if not count:
        return
    # Where the ninth part of the way has no room beside an end or a change, a point near it may have.
    evenly = [place * (count - 1) // parts for parts in (8, 32) for place in range(parts + 1)]
    taken: list[tuple[float, float]] = []
    for at in dict.fromkeys([count - 1, 0, *(change.at for change in panel.changes), *evenly]):
        if not 0 <= at < count:
            continue
        texts = fit(one_line(panel.labels[at]), _LONGEST_LABEL, SMALL), panel.days[at] if panel.days else ""
        half = max(text_width(text, SMALL) for text in texts) / 2
        x = min(max(across.place(at), EDGE + half), WIDTH - EDGE - half)
        if all(x + half + 8 <= left or x - half - 8 >= right for left, right in taken):
            taken.append((x - half, x + half))
            for line, text in enumerate(texts, 1):
                y, width = canvas.y + 2 + 13 * line, 2 * half + 1
                canvas.text(x, y, text, width=width, size=SMALL, anchor="middle", colour="muted")
    canvas.y += 15 + (13 if panel.days else 0)
