"""What the reports of a history have in common: its lines with their changes, and the words for both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

import numpy as np

from regress_gate.gate.history import HistoryLine, HistoryOrder, HistorySeries
from regress_gate.gate.history_changes import HistoryChange, HistoryChanges
from regress_gate.model.version import Channel
from regress_gate.report.views import units
from regress_gate.text import plural


@dataclass(frozen=True, slots=True)
class IssueEvent:
    """A known issue that a version brings, or resolves."""

    at: int
    """The version, as its place in the line."""
    id: str
    summary: str
    begins: bool
    metrics: tuple[str, ...]
    """Metrics, or families of them, that the record says it changes."""

    def concerns(self, name: str) -> bool:
        return any(name == one or name.startswith(f"{one}_") for one in self.metrics)


@dataclass(frozen=True, slots=True, eq=False)
class LineView:
    """The versions of one line with their changes."""

    line: HistoryLine
    changes: HistoryChanges | None
    """Those to report; None if changes were not asked for."""
    improvements: int = 0
    """Changes for the better that are left out."""
    issues: Sequence[IssueEvent] = ()
    """Known issues of this deployment that begin or end between two of the versions; those that claim a loss."""
    released: Sequence[date | None] = ()
    """Of each version the day on which it was released; None for a build that is no release. Empty: not looked up."""

    @property
    def reported(self) -> Sequence[HistoryChange]:
        return () if self.changes is None else self.changes.found


def line_change_text(line: HistoryLine, change: HistoryChange) -> str:
    """`step of +34.0% [+31.0, +37.1], worse, at 0.24.0, between 0.19.1 and 0.24.0`."""
    after, by = (str(line.versions[place]) for place in change.since)
    size = ""
    if change.loss is not None:
        size = f" of {units.change(change.natural_change, change.scale)} {units.interval(change.natural_interval)}"
        size += ", worse" if change.is_worse else ", better"
    between = f"from {after} to {by}" if change.kind == "ramp" else f"between {after} and {by}"
    sure = "" if change.probability is None else f"; probability {probability_text(change.probability)}"
    return f"{change_kind_text(change.kind)}{size}, at {line.versions[change.at]}, {between}{sure}"


def day_texts(view: LineView) -> tuple[str, ...]:
    """Of each version the day of its release; of other builds that of their first run; empty where no day is known."""
    times = view.line.first_runs
    days: list[date | None] = [None if time is None else time.date() for time in times]
    for place, day in enumerate(view.released):
        if _is_release(view, place):
            days[place] = day
    return tuple("" if day is None else day.isoformat() for day in days) if any(days) else ()


def days_note(views: Sequence[LineView]) -> str:
    """What the days in a picture of these lines are."""
    kinds = {
        bool(view.released) and _is_release(view, place)
        for view in views
        for place, day in enumerate(day_texts(view))
        if day
    }
    if kinds == {True, False}:
        return "with the day of a release, and of other builds that of their first run"
    return "" if not kinds else "with the day of their release" if True in kinds else "with the day of their first run"


def _is_release(view: LineView, place: int) -> bool:
    return view.line.versions[place].channel is Channel.RELEASE


def change_kind_text(kind: str) -> str:
    return "change of scatter" if kind == "variance" else kind


def probability_text(share: float) -> str:
    """`0.93`; above 0.995 `>0.99`, because two decimals would look like certainty."""
    return ">0.99" if share >= 0.995 else f"{share:.2f}"


def hidden_improvements_text(count: int) -> str:
    improvements = plural(count, "improvement is", "improvements are")
    return f"{improvements} not shown; --improvements shows {'it' if count == 1 else 'them'}"


def line_title(line: HistoryLine) -> str:
    """`12 versions`, `300 builds of variant cu129 by the day of the first run`."""
    of = f" of variant {line.variant}" if line.variant else ""
    if line.order is HistoryOrder.VERSION:
        return plural(len(line.sides), "version") + of
    return plural(len(line.sides), "build") + f"{of} by the day of the first run"


def largest_value(series: HistorySeries) -> float:
    known = series.values[~np.isnan(series.values)]
    return float(known.max()) if len(known) else 0.0


def value_text(series: HistorySeries, value: float | None) -> str:
    """In the unit of the largest value of the series."""
    return units.values((value, largest_value(series)), series.metric.unit, series.metric.name)[0]
