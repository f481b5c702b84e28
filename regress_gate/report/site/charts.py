"""Numbers of the dashboard's small charts, and of the long histories that a script zooms into."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from regress_gate.gate.history import HistorySeries
from regress_gate.gate.history_changes import HistoryChange
from regress_gate.report.figures.timeline import shape_points
from regress_gate.report.views import units

_WIDTH, _HEIGHT, _EDGE = 264, 64, 10
_PARTS = 12
_LEAST_SPAN = 0.1
"""Share of its level that the height of a chart stands for at least: small changes look small."""


@dataclass(frozen=True, slots=True)
class SmallChart:
    """A series in a box of 264 × 64; whole numbers keep a page of hundreds small."""

    path: str
    dots: tuple[tuple[int, int], ...]
    """Points without a neighbour."""
    marks: tuple[tuple[int, int, bool], ...]
    """Changes, and whether each is for the worse."""


def small_chart(series: HistorySeries, changes: Sequence[HistoryChange]) -> SmallChart:
    values = series.values
    known = values[~np.isnan(values)]
    if not len(known):
        return SmallChart("", (), ())
    low, high = float(known.min()), float(known.max())
    span = max(high - low, _LEAST_SPAN * abs(float(known.mean()))) or 1.0
    base = (low + high - span) / 2
    step = (_WIDTH - 2 * _EDGE) / max(len(values) - 1, 1)

    def place(index: int) -> tuple[int, int]:
        share = (float(values[index]) - base) / span
        return round(_EDGE + index * step), round(_HEIGHT - _EDGE - share * (_HEIGHT - 2 * _EDGE))

    runs: list[list[tuple[int, int]]] = [[]]
    at = [change.at for change in changes]
    for index in shape_points(values.tolist(), at, parts=_PARTS):
        if np.isnan(values[index]):
            runs.append([])
        else:
            runs[-1].append(place(index))
    path = "".join("M" + "L".join(f"{x} {y}" for x, y in run) for run in runs if len(run) > 1)
    marks = tuple(
        (*place(change.at), change.is_worse is not False) for change in changes if not np.isnan(values[change.at])
    )
    return SmallChart(path, tuple(run[0] for run in runs if len(run) == 1), marks)


def value_text(series: HistorySeries, value: float) -> str:
    """In the unit of the largest value of the series."""
    return units.values((value, largest(series)), series.metric.unit, series.metric.name)[0]


def largest(series: HistorySeries) -> float:
    known = series.values[~np.isnan(series.values)]
    return float(np.abs(known).max()) if len(known) else 0.0


def change_style(change: HistoryChange) -> str:
    return "bad" if change.is_worse is not False else "good"
