"""Change points in the series of a table, and which of them are reported.

The table says nothing about its numbers, so the caller says which direction is better and from which size on a change
matters. Not for the history of versions, which knows both (`history`), and not for the detection itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from regress_gate.errors import InputError
from regress_gate.ingest.table_series import Layout, TableSeries
from regress_gate.model.metric import Direction
from regress_gate.stats.changepoints import ChangePoint, detect

MIN_POINTS = 8
"""Least number of values of a series that is searched for change points."""


@dataclass(frozen=True, slots=True)
class SmallestChange:
    """The smallest change that is reported."""

    size: float = 0.0
    is_share: bool = True
    """Of the level (0.02 is 2 %); else in the unit of the values."""


@dataclass(frozen=True, slots=True)
class DetectionRequest:
    direction: Direction | None = None
    """Which direction is better; None if unknown, and every change is then reported."""
    improvements: bool = False
    """Whether improvements are reported too."""
    least: SmallestChange = SmallestChange()


@dataclass(frozen=True, slots=True, eq=False)
class DetectedChanges:
    series: TableSeries
    changes: tuple[ChangePoint, ...]
    """Those that are reported, by position."""
    improvements: int
    """Improvements that are not reported."""

    @property
    def is_too_short(self) -> bool:
        return int((~np.isnan(self.series.values)).sum()) < MIN_POINTS


@dataclass(frozen=True, slots=True, eq=False)
class DetectionReport:
    """The request and the result of `detect`: all that its formats write."""

    source: str
    layout: Layout
    asked: DetectionRequest
    series: Sequence[DetectedChanges]


def find_changes(series: TableSeries, request: DetectionRequest) -> DetectedChanges:
    """The change points of one series, without those that were not asked for.

    Raises InputError if a percentage is asked for and a value is not positive.
    """
    least = request.least
    has_shares = bool(np.nanmin(series.values, initial=np.inf) > 0)
    if least.size and least.is_share and not has_shares:
        raise InputError(
            "a value is zero or negative, so that a change has no percentage",
            where="--min-change",
            todo="give the smallest change in the unit of the values, without %",
        )
    if least.is_share or not has_shares:
        points = detect(series.values, variances=series.variances, min_change=least.size)
    else:
        points = [
            change
            for change in detect(series.values, variances=series.variances)
            if change.change is None or abs(change.change) * _level_before(series, change) >= least.size
        ]
    reported = [change for change in points if request.improvements or is_worse(change, request.direction) is not False]
    return DetectedChanges(series, tuple(reported), len(points) - len(reported))


def is_worse(change: ChangePoint, direction: Direction | None) -> bool | None:
    """None if unknown: without a direction, and for a change of the spread."""
    if direction is None or change.change is None:
        return None
    return (change.change > 0) is (direction is Direction.LOWER)


def _level_before(series: TableSeries, change: ChangePoint) -> float:
    """What a relative change is relative to; 1 for a plain difference."""
    return float(np.nanmedian(series.values[: change.index])) if change.relative else 1.0
