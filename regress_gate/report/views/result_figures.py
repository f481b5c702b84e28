"""The pictures of a comparison: which series they show, and their numbers as tables."""

import math
from collections.abc import Sequence

from regress_gate.model.result import Result, SeriesResult
from regress_gate.report.document import Block, Cell, Column, Figure, Row, RowGroup, Table
from regress_gate.report.plots import IntervalGroup, IntervalPlot, IntervalRow
from regress_gate.report.views import units
from regress_gate.report.views.series_view import change_text, confidence_text, worst_first

MOST_INTERVALS = 60
"""Series of the interval plot. More would be a picture of several screens; the tables of the report have them all."""


def result_figures(result: Result) -> list[Block]:
    """None for a result of `check`. A comparison has the first, also where nothing could be compared."""
    if result.command != "compare":
        return []
    return [_intervals(worst_first([one for one in result.series if one.gated]))]


def _intervals(gated: Sequence[SeriesResult]) -> Figure:
    shown = gated[:MOST_INTERVALS]
    scenarios: dict[str, list[SeriesResult]] = {}
    for one in shown:
        scenarios.setdefault(one.scenario, []).append(one)
    rest = len(gated) - len(shown)
    note = f"The {len(shown)} worst of {len(gated)} gated series." if rest else ""
    return Figure(
        name="intervals",
        title="Change of each gated series against its margin",
        description=_interval_text(shown, note),
        plot=IntervalPlot(
            groups=tuple(
                IntervalGroup(name, tuple(_interval_row(one) for one in members)) for name, members in scenarios.items()
            ),
            confidence=confidence_text(gated),
            note=note,
        ),
        table=_interval_table(scenarios),
    )


def _interval_text(shown: Sequence[SeriesResult], note: str) -> str:
    if not shown:
        return "No series gates: there is nothing to show."
    worst = shown[0]
    return (
        f"{len(shown)} gated series by scenario, the worst first. An interval that ends left of the margin is shown to "
        f"be within it. The worst is {worst.name}: {worst.change_text}, {worst.verdict.replace('_', ' ')}. {note}"
    ).strip()


def _interval_row(one: SeriesResult) -> IntervalRow:
    interval = None
    if one.interval is not None:
        low, high = one.interval
        interval = _share(low, one.margin), _share(high, one.margin)
    return IntervalRow(
        label=one.metric,
        estimate=_share(one.change, one.margin),
        interval=interval,
        verdict=one.verdict,
        change=f"{change_text(one)} {units.interval(one.natural_interval)}",
        margin=units.margin(one.margin, one.scale),
    )


def _share(loss: float | None, margin: float) -> float | None:
    """None also where that is no number, as with the margin of a result that was edited by hand."""
    share = math.nan if loss is None or margin <= 0 else loss / margin
    return share if math.isfinite(share) else None


def _interval_table(scenarios: dict[str, list[SeriesResult]]) -> Table:
    """What the picture shows, in its order."""
    return Table(
        columns=(
            Column("metric"),
            Column("change", is_right=True),
            Column("interval", is_right=True),
            Column("margin", is_right=True),
            Column("verdict"),
        ),
        groups=tuple(RowGroup(name, tuple(map(_interval_cells, members))) for name, members in scenarios.items()),
        group_title="scenario",
    )


def _interval_cells(one: SeriesResult) -> Row:
    return Row(
        (
            Cell(one.metric),
            change_text(one),
            units.interval(one.natural_interval),
            units.margin(one.margin, one.scale),
            one.verdict.value,
        )
    )
