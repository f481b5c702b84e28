"""What a picture shows, as frozen values: numbers in the unit of their axis, texts raw. `figures/` draws it.

A view makes plots (`views/`), a `Figure` of a document holds one, and `figures.draw_svg` draws it. NaN is a missing
number; a plot may be empty.
"""

from __future__ import annotations

from dataclasses import dataclass

from regress_gate.model.metric import Interval
from regress_gate.model.result import Verdict


@dataclass(frozen=True, slots=True)
class IntervalRow:
    """One series. Its numbers are losses in multiples of its own margin: 1 is a loss of exactly the margin."""

    label: str
    estimate: float | None
    """None: not estimated."""
    interval: Interval | None
    """An end that is None has no bound; None: no interval."""
    verdict: Verdict
    change: str
    """The change in words, in its own unit."""
    margin: str
    """The margin in words."""


@dataclass(frozen=True, slots=True)
class IntervalGroup:
    title: str
    rows: tuple[IntervalRow, ...]


@dataclass(frozen=True, slots=True)
class IntervalPlot:
    """Changes with their intervals, each against its own margin.

    Series with margins of 5 % and of 30 %, relative changes and percentage points share this axis, because its unit
    is the margin of each series: what decides is where an interval lies beside its margin.
    """

    groups: tuple[IntervalGroup, ...]
    confidence: str
    """Level of the intervals: `90%`."""
    note: str = ""
    """What is left out."""


Plot = IntervalPlot
