"""Numbers to places: scales, and the round numbers that stand beside an axis."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from regress_gate.report.figures.canvas import SMALL, Canvas, text_width


@dataclass(frozen=True, slots=True)
class Scale:
    """Numbers from `low` to `high` become places from `start` to `stop`; numbers outside are put at the nearer end."""

    low: float
    high: float
    start: float
    stop: float
    factors: bool = False
    """Whether equal distances are equal factors; all numbers are above zero then."""

    def place(self, value: float) -> float:
        if self.factors:
            share = math.log(max(value, self.low) / self.low) / math.log(self.high / self.low)
            return self.start + (self.stop - self.start) * min(1.0, share)
        # Halves, so that a range of huge numbers of both signs does not overflow.
        share = (value / 2 - self.low / 2) / (self.high / 2 - self.low / 2)
        return self.start + (self.stop - self.start) * min(1.0, max(0.0, share))

    def holds(self, value: float) -> bool:
        return self.low <= value <= self.high


def span(values: Iterable[float], *, least_share: float, factors: bool = False) -> tuple[float, float]:
    """Ends of an axis that shows all values, with some room beyond. NaN is left out; from 0 to 1 without a value.

    It is at least as long as that share of the largest value: else small noise would fill the whole height.
    """
    known = [min(max(value, -_LARGEST), _LARGEST) for value in values if not math.isnan(value)]
    if not known:
        return 0.0, 1.0
    low, high = min(known), max(known)
    if factors:
        low, high = max(low, 1 / _LARGEST_FACTOR), min(max(high, 1 / _LARGEST_FACTOR), _LARGEST_FACTOR)
        room = max((high / low) ** 0.05, (1 + least_share) ** 0.5)
        return low / room, high * room
    least = least_share * max(abs(low), abs(high)) or 1.0
    room = max(0.08 * (high - low), (least - (high - low)) / 2)
    return low - room, high + room


_LARGEST, _LARGEST_FACTOR = 1e300, 1e150
"""What is further from zero, or nearer to it on an axis of factors, is drawn at the end of the axis."""


@dataclass(frozen=True, slots=True)
class Box:
    left: float
    top: float
    right: float
    bottom: float

    @property
    def width(self) -> float:
        return self.right - self.left


def draw_frame(
    canvas: Canvas,
    box: Box,
    title: str,
    unit: str,
    values: Iterable[float],
    *,
    least_share: float = 0.05,
    headroom: float = 0.0,
    factors: bool = False,
) -> Scale:
    """A panel with its title above, its unit, and an axis on its left. The scale that it returns is that of the axis.

    The numbers of the axis stand left of the box, the title above it: both need room there. `headroom` is kept free of
    values at the top of the box. `factors`: equal distances are equal factors, if all values are above zero.
    """
    values = [value for value in values if not math.isnan(value)]
    factors = factors and min(values, default=0.0) > 0
    scale = Scale(*span(values, least_share=least_share, factors=factors), box.bottom, box.top + headroom, factors)
    left = box.left - AXIS
    unit_width = text_width(unit, SMALL)
    canvas.text(left, box.top - 9, title, width=box.right - left - unit_width - 12, bold=True)
    canvas.text(box.right, box.top - 9, unit, width=unit_width + 1, size=SMALL, anchor="end", colour="muted")
    found = _enough_ticks(scale)
    write = tick_writer(found)
    canvas.lines([[(box.left, y), (box.right, y)] for y in (box.bottom, *map(scale.place, found))], "grid")
    for tick in found:
        y = scale.place(tick)
        canvas.text(box.left - 6, y + 4, write(tick), width=AXIS - 6, size=SMALL, anchor="end", colour="muted")
    return scale


def _enough_ticks(scale: Scale) -> list[float]:
    """At least three numbers, if so many are round: one alone says nothing of the size."""
    if scale.factors and len(found := factor_ticks(scale.low, scale.high, 7)) > 1:
        return found
    few, more, most = (ticks(scale.low, scale.high, count) for count in (4, 5, 6))
    return next((some for some in (few, more, most) if len(some) > 2), most)


AXIS = 52.0
"""Width of the numbers beside a vertical axis."""


def tick_writer(values: Sequence[float]) -> Callable[[float], str]:
    """Writes round numbers with as many decimals as their distance needs: `0.5`, `1.0`, and `2.5k`."""
    step = min((right - left for left, right in pairwise(values)), default=0.0)
    largest = max(map(abs, values), default=0.0)
    if not 1e-4 <= step <= largest < 1e9:
        return lambda value: minus(f"{value:.3g}")
    factor, suffix = next((each for each in ((1e6, "M"), (1e3, "k")) if largest >= 10 * each[0]), (1.0, ""))
    decimals = max(0, -math.floor(math.log10(step / factor) + 1e-9))
    return lambda value: minus(f"{value / factor:.{decimals}f}{suffix}") if value else "0"


def minus(text: str) -> str:
    return text.replace("-", "−", 1) if text.startswith("-") else text


def fitting_ticks(scale: Scale, write: Callable[[float], str], size: float, most: int) -> list[float]:
    """Round numbers for an axis from left to right, so few that their texts do not touch."""
    for count in range(most, 0, -1):
        found = factor_ticks(scale.low, scale.high, count) if scale.factors else []
        found = found if len(found) > 1 else ticks(scale.low, scale.high, count)
        ends = [(scale.place(one), text_width(write(one), size) / 2 + 3) for one in found]
        if all(left + half <= right - other for (left, half), (right, other) in pairwise(ends)):
            return found
    return []


def ticks(low: float, high: float, most: int) -> list[float]:
    """At most some `most` round numbers from low to high: multiples of 1, 2 or 5 times a power of ten."""
    step = _round_step((high / 2 - low / 2) / most * 2)
    if step is None:
        return []
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [place * step for place in range(first, last + 1)]


def factor_ticks(low: float, high: float, most: int) -> list[float]:
    """At most some `most` numbers for an axis of factors, both ends above zero: 1, 2, 5, 10…, else powers of ten."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    by_digits = ([digit * 10.0**power for power in powers for digit in digits] for digits in ((1, 2, 5), (1,)))
    many, few = ([one for one in found if low <= one <= high] for found in by_digits)
    return many if len(many) <= most else few[:: max(1, math.ceil(len(few) / most))]


def _round_step(least: float) -> float | None:
    """None where numbers are so large or small that steps between them cannot be calculated."""
    if not 1e-290 < least < 1e290:
        return None
    power = 10.0 ** math.floor(math.log10(least))
    return next(power * digit for digit in (1, 2, 5, 10) if power * digit >= least * (1 - 1e-9))
