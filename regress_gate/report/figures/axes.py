"""Numbers to places: scales, and the round numbers that stand beside an axis."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from regress_gate.report.figures.canvas import text_width


@dataclass(frozen=True, slots=True)
class Scale:
    """Numbers from `low` to `high` become places from `start` to `stop`; numbers outside are put at the nearer end."""

    low: float
    high: float
    start: float
    stop: float

    def place(self, value: float) -> float:
        # Halves, so that a range of huge numbers of both signs does not overflow.
        share = (value / 2 - self.low / 2) / (self.high / 2 - self.low / 2)
        return self.start + (self.stop - self.start) * min(1.0, max(0.0, share))

    def holds(self, value: float) -> bool:
        return self.low <= value <= self.high


def fitting_ticks(scale: Scale, write: Callable[[float], str], size: float, most: int) -> list[float]:
    """Round numbers for an axis from left to right, so few that their texts do not touch."""
    for count in range(most, 0, -1):
        found = ticks(scale.low, scale.high, count)
        ends = [(scale.place(one), text_width(write(one), size) / 2 + 3) for one in found]
        if all(left + half <= right - other for (left, half), (right, other) in pairwise(ends)):
            return found
    return []


def ticks(low: float, high: float, most: int) -> list[float]:
    """At most some `most` round numbers from low to high: multiples of 1, 2 or 5 times a power of ten."""
    step = _round_step((high / 2 - low / 2) / most * 2)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [place * step for place in range(first, last + 1)]


def _round_step(least: float) -> float:
    power = 10.0 ** math.floor(math.log10(least))
    return next(power * digit for digit in (1, 2, 5, 10) if power * digit >= least * (1 - 1e-9))
