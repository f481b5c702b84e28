"""A series as a picture made of text: one line of blocks, or a small chart with the changes marked below it.

Takes numbers and a width, gives lines without colour; signs that the reader's encoding lacks are replaced by ASCII
ones of the same height. Drawn here because plotting libraries for terminals write colours and cursor control, which a
log or a pipe must not contain.
"""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from regress_gate.report.views.units import number

Floats = npt.NDArray[np.float64]

ROWS = 7
MOST_COLUMNS = 100
WIDEST_POINT = 4
"""Columns for one point of a short series."""

_BLOCKS, _ASCII_BLOCKS = "▁▂▃▄▅▆▇█", "_.-~=+*#"
_HALVES, _ASCII_HALVES = "▄▀", ".'"
_BAR, _ASCII_BAR = "█", "#"
_AXIS, _ASCII_AXIS = "│", "|"


def sparkline(values: Floats, width: int, encoding: str = "utf-8", *, least_span: float = 0.0) -> str:
    """One sign for each point; with more points than `width`, one for the median of each part.

    A missing value is a blank. The height of the signs stands for the range of the values, or for `least_span` if
    that is larger: else small noise would fill the whole height.
    """
    columns = _medians(values, width)
    signs = _signs(_BLOCKS, _ASCII_BLOCKS, encoding)
    return "".join(" " if level is None else signs[level] for level in _levels(columns, len(signs), least_span))


def bar(value: float, largest: float, width: int, encoding: str = "utf-8") -> str:
    """A bar from zero, so that lengths can be compared; empty unless the value is positive."""
    if not largest > 0 or not value > 0:
        return ""
    return _signs(_BAR, _ASCII_BAR, encoding) * max(1, round(width * value / largest))


def chart(
    values: Floats,
    marks: Sequence[int],
    ends: tuple[str, str],
    width: int,
    encoding: str = "utf-8",
    *,
    label: Callable[[float], str] = number,
) -> list[str]:
    """A chart of at most `width` columns, with the largest and smallest value beside it and `ends` below it.

    `marks` are indices of points; the first gets a `^1` under its column, and so on. `label` writes a value.
    """
    columns, margin = _columns_beside_labels(values, width, label)
    low, high = label(float(np.nanmin(columns))), label(float(np.nanmax(columns)))
    stretch = max(1, min(WIDEST_POINT, _room(width, margin) // len(columns)))
    halves = _signs(_HALVES, _ASCII_HALVES, encoding)
    axis = _signs(_AXIS, _ASCII_AXIS, encoding)
    levels = _levels(columns, 2 * ROWS)
    lines = []
    for row in range(ROWS - 1, -1, -1):
        cells = [halves[level % 2] if level is not None and level // 2 == row else " " for level in levels]
        beside = high if row == ROWS - 1 else low if row == 0 else ""
        lines.append(f"{beside:>{margin}} {axis}" + "".join(cell * stretch for cell in cells))
    drawn = len(columns) * stretch
    places = [min(drawn - 1, index * len(columns) // len(values) * stretch) for index in marks]
    indent = " " * (margin + 2)
    if places:
        lines.append(indent + _marked(places))
    below = _below(ends, drawn, width - len(indent), len(values), len(columns))
    lines += [indent[: max(0, width - len(line))] + line for line in below]
    return [line.rstrip() for line in lines]


def _columns_beside_labels(values: Floats, width: int, label: Callable[[float], str]) -> tuple[Floats, int]:
    """The drawn values, and the width of their labels, which depends on the drawn values."""
    margin = 0
    while True:
        columns = _medians(values, _room(width, margin))
        needed = max(len(label(float(end))) for end in (np.nanmin(columns), np.nanmax(columns))) + 1
        if needed <= margin:
            return columns, margin
        margin = needed


def _room(width: int, margin: int) -> int:
    return max(8, min(width - margin - 2, MOST_COLUMNS))


def _below(ends: tuple[str, str], drawn: int, room: int, points: int, columns: int) -> list[str]:
    """Both ends, and between them, if there is room, how many points a column stands for."""
    first, last = ends
    gap = drawn - len(first) - len(last)
    if gap < 1:
        text = f"{first} to {last}"
        return [text] if len(text) <= room else [f"{first} to", last]
    each = f"medians of {-(-points // columns)} points" if points > columns else ""
    return [first + (each if len(each) + 2 <= gap else "").center(gap) + last]


def _medians(values: Floats, width: int) -> Floats:
    if len(values) <= width:
        return values
    parts = np.array_split(values, width)
    return np.array([np.nan if np.isnan(part).all() else float(np.nanmedian(part)) for part in parts])


def _levels(values: Floats, count: int, least_span: float = 0.0) -> list[int | None]:
    """Heights from 0 to count - 1 between the smallest and the largest value; all in the middle if all are equal."""
    known = values[~np.isnan(values)]
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 0.0)
    if high / 2 - low / 2 < least_span / 2:
        middle = low / 2 + high / 2
        low, high = middle - least_span / 2, middle + least_span / 2
    if low == high:
        return [None if np.isnan(value) else (count - 1) // 2 for value in values]
    # Halves, so that the range of huge values of both signs does not overflow.
    shares = (values / 2 - low / 2) / (high / 2 - low / 2)
    return [None if np.isnan(share) else min(count - 1, int(share * count)) for share in shares]


def _marked(places: Sequence[int]) -> str:
    """`^1` under the first place, and so on; a mark that would overlap the one before is left out."""
    line = ""
    for number_, place in enumerate(places, 1):
        if place >= len(line) + (1 if line else 0):
            line = line.ljust(place) + f"^{number_}"
    return line


def _signs(signs: str, likeness: str, encoding: str) -> str:
    try:
        signs.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return likeness
    return signs
