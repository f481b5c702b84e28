"""The pictures of a comparison: what they show, in which order, and their numbers as tables.

Every comparison has the first, `intervals`. The others need data of single runs, which results of earlier versions of
the tool do not hold.
"""

import math
from collections.abc import Iterable, Sequence

from regress_gate.model.result import (
    ChangePointOut,
    DistributionOut,
    LoadCurveOut,
    LoadPointOut,
    ObjectiveSide,
    QuantilesOut,
    Result,
    SeriesResult,
    Verdict,
    VersionLevelOut,
)
from regress_gate.report.document import Block, Cell, Column, Figure, Row, RowGroup, Table
from regress_gate.report.plots import (
    IntervalGroup,
    IntervalPlot,
    IntervalRow,
    LoadPanel,
    LoadPlot,
    LoadPoint,
    PointState,
    QuantileLine,
    QuantilePanel,
    QuantilePlot,
    RunMark,
    RunPanel,
    RunPlot,
    RunState,
    Side,
    TimelineChange,
    TimelinePanel,
    TimelinePlot,
)
from regress_gate.report.render.output_formats import COMPARISON_FIGURES
from regress_gate.report.views import units
from regress_gate.report.views.series_view import change_text, confidence_text, worst_first
from regress_gate.report.views.wording import DIRECTION_TEXT
from regress_gate.text import plural

MOST_INTERVALS = 60
"""Series of the interval plot. More would be a picture of several screens; the tables of the report have them all."""
_MOST_RUN_PANELS = 8
_MOST_SCENARIOS = 3
_MOST_ORIGINS = 6
_MOST_LOAD_PANELS = 8


def result_figures(result: Result) -> list[Block]:
    """None for a result of `check`. A comparison has the first, also where nothing could be compared."""
    if result.command != "compare":
        return []
    gated = worst_first([one for one in result.series if one.gated])
    return [
        _intervals(gated),
        *_runs(result, [one for one in gated if len(one.run_values) == len(result.runs) > 0]),
        *_distributions(result),
        *_loads(result),
        *_origins(result),
    ]


def _sides(result: Result) -> tuple[str, str]:
    baseline = "baseline" if result.baseline is None else result.baseline.version
    if baseline == result.candidate.version:
        return f"{baseline} (baseline)", f"{baseline} (candidate)"
    return baseline, result.candidate.version


def _left_out(shown: int, all_: int, what: str) -> str:
    return f"The {shown} worst of {all_} {what}." if all_ > shown else ""


# Intervals


def _intervals(gated: Sequence[SeriesResult]) -> Figure:
    shown = gated[:MOST_INTERVALS]
    scenarios: dict[str, list[SeriesResult]] = {}
    for one in shown:
        scenarios.setdefault(one.scenario, []).append(one)
    note = _left_out(len(shown), len(gated), "gated series")
    return Figure(
        name="intervals",
        title=COMPARISON_FIGURES["intervals"],
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
        change=f"{change_text(one)}{'' if interval else ','} {units.interval(one.natural_interval)}",
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


# Runs

_WORRYING = (Verdict.REGRESSION, Verdict.UNDECIDED)
_STATES = {"counted": RunState.COUNTED, "failed": RunState.FAILED}


def _runs(result: Result, series: Sequence[SeriesResult]) -> list[Block]:
    """The panels of the series that decide, each with every run. Nothing is seen of one that never varies."""
    series = [one for one in series if one.verdict in _WORRYING or len(set(one.run_values)) > 1]
    shown = series[:_MOST_RUN_PANELS]
    if not shown:
        return []
    marks = tuple(
        RunMark(
            side=Side(run.side),
            state=_STATES.get(run.state, RunState.VOID),
            block=run.block,
            name=f"{run.side} {run.run}" + (f": {run.why}" if run.why else ""),
            day="" if run.started is None else run.started.date().isoformat(),
        )
        for run in result.runs
    )
    counts = [
        f"{sum(run.side is side for run in marks)} of {name}" for side, name in zip(Side, _sides(result), strict=True)
    ]
    states = [(RunState.VOID, "not counted"), (RunState.FAILED, "failed")]
    others = [f"{count} {text}" for state, text in states if (count := sum(run.state is state for run in marks))]
    note = _left_out(len(shown), len(series), "gated series")
    return [
        Figure(
            name="runs",
            title=COMPARISON_FIGURES["runs"],
            description=f"{plural(len(marks), 'run')}, {' and '.join(counts)}"
            f"{''.join(f'; {text}' for text in others)}. Each panel is one series. {note}".strip(),
            plot=RunPlot(marks, tuple(map(_run_panel, shown)), _sides(result), note),
            table=_run_table(result, shown),
        )
    ]


def _run_panel(one: SeriesResult) -> RunPanel:
    factor, unit = units.axis_unit(one.run_values, one.unit, one.metric)
    return RunPanel(one.name, f"{unit}, {DIRECTION_TEXT[one.direction]}", _scaled(one.run_values, factor))


def _scaled(values: Iterable[float | None], factor: float) -> tuple[float, ...]:
    """NaN for a missing value, and for one that has no number in that unit."""
    scaled = (math.nan if value is None else value * factor for value in values)
    return tuple(value if math.isfinite(value) else math.nan for value in scaled)


def _run_table(result: Result, shown: Sequence[SeriesResult]) -> Table:
    """A row for each run; the series are its columns."""
    factors = [units.axis_unit(one.run_values, one.unit, one.metric) for one in shown]
    titles = [f"{one.name} ({unit})" for one, (_, unit) in zip(shown, factors, strict=True)]
    rows = []
    for place, run in enumerate(result.runs):
        values = [_number(_scaled((one.run_values[place],), f)[0]) for one, (f, _) in zip(shown, factors, strict=True)]
        started = "" if run.started is None else run.started.isoformat(" ", "minutes")
        rows.append(Row((run.run, run.side, "" if run.block is None else str(run.block), started, run.state, *values)))
    named = (Column(title, is_short=title != "run") for title in ("run", "side", "block", "started", "state"))
    return Table.of((*named, *(Column(title, is_right=True) for title in titles)), tuple(rows))


def _number(value: float) -> str:
    return "" if math.isnan(value) else units.number(value)


# Distributions

_LATENCY_TITLES = {"ttft": "time to first token", "tpot": "time per output token", "e2el": "end-to-end latency"}


def _distributions(result: Result) -> list[Block]:
    """A row of panels for each of the scenarios that lost most."""
    scenarios = list(dict.fromkeys(one.scenario for one in result.distributions))
    shown = [one for one in result.distributions if one.scenario in scenarios[:_MOST_SCENARIOS]]
    if not shown:
        return []
    baseline, candidate = _sides(result)
    note = _left_out(min(len(scenarios), _MOST_SCENARIOS), len(scenarios), "scenarios")
    has_interval = all(len(side.interval_low) == len(one.levels) for one in shown for side in _both(one))
    band = "90% interval between server starts" if has_interval else "from the lowest run to the highest"
    return [
        Figure(
            name="distributions",
            title=COMPARISON_FIGURES["distributions"],
            description=(
                f"{baseline} and {candidate}: percentiles of the requests of a run, as the mean over runs with a band "
                f"{'of the ' if has_interval else ''}{band}. {note}"
            ).strip(),
            plot=QuantilePlot(
                tuple(_quantile_panel(one, has_interval=has_interval) for one in shown),
                (baseline, candidate),
                band,
                note,
            ),
            table=_quantile_table(shown),
        )
    ]


def _both(one: DistributionOut) -> tuple[QuantilesOut, QuantilesOut]:
    return one.baseline, one.candidate


def _quantile_panel(one: DistributionOut, *, has_interval: bool) -> QuantilePanel:
    factor, unit = units.axis_unit((*one.baseline.values, *one.candidate.values), "s", one.latency)
    lines = [
        QuantileLine(*(_scaled(each, factor) for each in (side.values, *_band(side, has_interval=has_interval))))
        for side in _both(one)
    ]
    return QuantilePanel(f"{one.scenario} {one.latency}", unit, tuple(one.levels), *lines)


def _band(side: QuantilesOut, *, has_interval: bool) -> tuple[list[float], list[float]]:
    """Of results of earlier versions, and of single runs, the range of the runs."""
    return (side.interval_low, side.interval_high) if has_interval else (side.lowest, side.highest)


def _quantile_table(shown: Sequence[DistributionOut]) -> Table:
    """By distribution: a row for each level, with the range of the runs."""
    titles = ("percentile", "baseline", "its runs", "candidate", "its runs")
    groups = tuple(
        RowGroup(
            f"{one.scenario}, {_LATENCY_TITLES.get(one.latency, one.latency)}",
            tuple(
                Row((f"p{level * 100:g}", *_level_cells(one.baseline, at), *_level_cells(one.candidate, at)))
                for at, level in enumerate(one.levels)
            ),
        )
        for one in shown
    )
    return Table(tuple(Column(title, is_right=bool(at)) for at, title in enumerate(titles)), groups, "distribution")


def _level_cells(side: QuantilesOut, at: int) -> tuple[str, str]:
    low, high = (units.values((end[at], None), "s", "")[0] for end in (side.lowest, side.highest))
    return units.values((side.values[at], None), "s", "")[0], f"{low} to {high}"


# Throughput against latency

_LOAD_WORDS = {"concurrency": "requests at once", "request_rate": "requests a second"}


def _loads(result: Result) -> list[Block]:
    """A panel for each latency of each traffic that was sent at several loads."""
    shown = result.load_curves[:_MOST_LOAD_PANELS]
    if not shown:
        return []
    baseline, candidate = _sides(result)
    more = len(result.load_curves) - len(shown)
    note = f"The first {len(shown)} of {len(result.load_curves)} curves." if more else ""
    return [
        Figure(
            name="loads",
            title=COMPARISON_FIGURES["loads"],
            description=(
                f"{baseline} and {candidate} at several loads of the same traffic; further right and lower is better. "
                f"{' '.join(map(_load_text, shown))} {note}"
            ).strip(),
            plot=LoadPlot(
                panels=tuple(map(_load_panel, shown)),
                sides=(baseline, candidate),
                confidence=units.percent(shown[0].confidence),
                note=note,
            ),
            table=_load_table(shown),
        )
    ]


def _load_text(curve: LoadCurveOut) -> str:
    """What is seen at the largest load."""
    point = curve.points[-1]
    words = _LOAD_WORDS[curve.load]
    sides = [
        " at ".join(units.values((level.level, None), unit, name)[0] for level, unit, name in _named(pair, curve))
        for pair in _levels(point)
    ]
    promise = "" if curve.limit is None else f"; promised: {_limit_text(curve)}"
    return f"{curve.name}, {curve.latency}: at {point.load:g} {words} {sides[0]}, and {sides[1]}{promise}."


def _levels(point: LoadPointOut) -> tuple[tuple[ObjectiveSide, ObjectiveSide], ...]:
    """Throughput and latency of both sides."""
    return (
        (point.baseline_throughput, point.baseline_latency),
        (point.candidate_throughput, point.candidate_latency),
    )


def _named(
    pair: tuple[ObjectiveSide, ObjectiveSide], curve: LoadCurveOut
) -> tuple[tuple[ObjectiveSide, str, str], ...]:
    """Each level with the unit and the name of its metric."""
    return (pair[0], "1/s", curve.throughput), (pair[1], "s", curve.latency)


def _limit_text(curve: LoadCurveOut) -> str:
    return "at most " + units.values((curve.limit, None), "s", curve.latency)[0]


def _load_panel(curve: LoadCurveOut) -> LoadPanel:
    levels = [pair for point in curve.points for pair in _levels(point)]
    throughput, throughput_unit = units.axis_unit([one.level for one, _ in levels], "1/s", curve.throughput)
    latency, latency_unit = units.axis_unit([*(one.level for _, one in levels), curve.limit], "s", curve.latency)
    sides: tuple[list[LoadPoint], list[LoadPoint]] = ([], [])
    for point in curve.points:
        for side, (across, up) in zip(sides, _levels(point), strict=True):
            side.append(
                LoadPoint(
                    label=f"{point.load:.3g}",
                    throughput=_scaled((across.level,), throughput)[0],
                    throughput_interval=_ends(across, throughput),
                    latency=_scaled((up.level,), latency)[0],
                    latency_interval=_ends(up, latency),
                )
            )
    return LoadPanel(
        title=curve.name,
        load=_LOAD_WORDS[curve.load],
        throughput_unit=f"{'output ' if curve.throughput == 'output_throughput' else ''}{throughput_unit}",
        latency_unit=f"{curve.latency} ({latency_unit})",
        baseline=tuple(sides[0]),
        candidate=tuple(sides[1]),
        limit=None if curve.limit is None else curve.limit * latency,
        limit_text="" if curve.limit is None else f"promise: {_limit_text(curve)}",
    )


def _ends(level: ObjectiveSide, factor: float) -> tuple[float, float]:
    low, high = _scaled(level.interval or (None, None), factor)
    return low, high


def _load_table(shown: Sequence[LoadCurveOut]) -> Table:
    """By curve: a row for each load."""
    titles = ("load", "baseline throughput", "its latency", "candidate throughput", "its latency", "server starts")
    groups = tuple(
        RowGroup(
            f"{curve.name}, {curve.latency}, by {_LOAD_WORDS[curve.load]}",
            tuple(Row((f"{point.load:g}", *_load_cells(point, curve))) for point in curve.points),
        )
        for curve in shown
    )
    return Table(tuple(Column(title, is_right=bool(at)) for at, title in enumerate(titles)), groups, "curve")


def _load_cells(point: LoadPointOut, curve: LoadCurveOut) -> tuple[str, ...]:
    cells = [_level_text(*one) for pair in _levels(point) for one in _named(pair, curve)]
    return *cells, " and ".join(str(throughput.runs) for throughput, _ in _levels(point))


def _level_text(level: ObjectiveSide, unit: str, metric: str) -> str:
    """`1234 tok/s [1.20k, 1.27k]`."""
    value = units.values((level.level, None), unit, metric)[0]
    if level.level is None or level.interval is None:
        return value
    factor, _ = units.axis_unit([level.level], unit, metric)
    low, high = ("?" if end is None else units.number(end * factor) for end in level.interval)
    return f"{value} [{low}, {high}]"


# Where regressions came from


def _origins(result: Result) -> list[Block]:
    """A panel for each regression whose origin was searched in the stored versions between."""
    found = [each for each in result.change_points if len(each.versions) > 1]
    shown = found[:_MOST_ORIGINS]
    if not shown:
        return []
    known = {one.name: (one.unit, one.metric) for one in result.series}
    series = [(each, known.get(each.series, ("", ""))) for each in shown]
    note = f"The first {len(shown)} of {len(found)} regressions." if len(found) > len(shown) else ""
    return [
        Figure(
            name="since",
            title=COMPARISON_FIGURES["since"],
            description=" ".join([*(f"{each.series}: {each.text}." for each in shown), note]).strip(),
            plot=TimelinePlot(tuple(_origin_panel(each, unit) for each, unit in series), note=note),
            table=_origin_table(series),
        )
    ]


_UnitAndMetric = tuple[str, str]


def _origin_panel(origin: ChangePointOut, unit: _UnitAndMetric) -> TimelinePanel:
    levels = origin.versions
    factor, shown_unit = units.axis_unit([each.highest for each in levels], *unit)
    labels = [each.version for each in levels]
    lowest = _scaled((each.lowest for each in levels), factor)
    highest = _scaled((each.highest for each in levels), factor)
    changes = []
    if origin.after in labels and origin.version in labels:
        after, at = labels.index(origin.after), labels.index(origin.version)
        changes = [TimelineChange(at=at, after=after, by=at, text=origin.text, is_worse=True)]
    return TimelinePanel(
        title=origin.series,
        unit=shown_unit,
        values=_scaled((each.mean for each in levels), factor),
        labels=tuple(labels),
        ranges=tuple(zip(lowest, highest, strict=True)),
        states=tuple(PointState(each.position or "unknown") for each in levels),
        changes=tuple(changes),
    )


def _origin_table(shown: Sequence[tuple[ChangePointOut, _UnitAndMetric]]) -> Table:
    groups = [
        RowGroup(
            origin.series,
            tuple(
                Row((each.version, *_mean_cells(each, unit), str(each.runs), each.position or ""))
                for each in origin.versions
            ),
        )
        for origin, unit in shown
    ]
    titles = ("version", "mean", "its runs", "runs", "position")
    return Table(tuple(Column(title, is_right=title == "mean") for title in titles), tuple(groups), "series")


def _mean_cells(level: VersionLevelOut, unit: _UnitAndMetric) -> tuple[str, str]:
    values = ((value, None) for value in (level.mean, level.lowest, level.highest))
    mean, lowest, highest = (units.values(each, *unit)[0] for each in values)
    return mean, f"{lowest} to {highest}"
