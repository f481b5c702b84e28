"""The report of `detect`: each series with change points as a chart, with a line for each change.

All names and times come from the table.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from regress_gate import __version__
from regress_gate.gate.table_changes import MIN_POINTS, DetectedChanges, DetectionReport, is_worse
from regress_gate.model.metric import Direction, Scale
from regress_gate.report.document import (
    Block,
    Chart,
    Column,
    Detail,
    Document,
    Figure,
    ItemList,
    Paragraph,
    Row,
    RowGroup,
    Section,
    Style,
    Styled,
    Table,
    View,
)
from regress_gate.report.findings import (
    Case,
    Finding,
    Findings,
    Level,
    Location,
    Outcome,
    Rule,
    worst_first,
    worst_level,
)
from regress_gate.report.plots import TimelineChange, TimelinePanel, TimelinePlot
from regress_gate.report.render.output_formats import HISTORY_FIGURES
from regress_gate.report.views import units
from regress_gate.report.views.history_words import (
    change_kind_text,
    hidden_improvements_text,
    probability_text,
)
from regress_gate.report.views.wording import DIRECTION_TEXT, what_to_do
from regress_gate.stats.changepoints import ChangePoint
from regress_gate.text import clip, plural

MAX_CHARTS = 6
"""Series with changes up to which a chart is drawn for each; of more, each gets a line."""
_LONGEST = 40
"""Characters of a time or a group's value."""


@dataclass(frozen=True, slots=True)
class DetectionView(View):
    detection: DetectionReport
    tool_version: str = __version__
    """Of the regress-gate that searched."""

    @property
    def figure_titles(self) -> Mapping[str, str]:
        return HISTORY_FIGURES

    def document(self, detail: Detail) -> Document:
        report = self.detection
        changed = [one for one in report.series if one.changes]
        blocks: list[Block] = _pictures(report) if detail.figures else []
        for one in changed:
            content = _changes(report, one, is_small=len(changed) > MAX_CHARTS)
            if detail.figures:  # the picture has the series
                content = content[1:]
            if report.layout.groups:
                title = f"{_group(report, one)}: {plural(len(one.series.values), 'point')}"
                blocks.append(Section(title, tuple(content)))
            else:
                blocks += content
        if not detail.is_page:
            return Document(_head(report), (*blocks, *map(Paragraph, _summary(report))), name="Change points")
        title, *rest = _summary(report)
        title = title.partition(";")[0]
        lead = what_to_do(_advice(report))
        notes = map(Paragraph, [*(["The ranges in brackets are 95% intervals."] if changed else []), *rest])
        headline = Styled(title[:1].upper() + title[1:], _style(report))
        return Document(headline, (lead, *blocks, *notes), subtitle=_head(report), name="Change points")

    def data(self) -> dict[str, Any]:
        """`change_points`: of all series, in their order, each with `group` if there are groups.

        `index` counts the points of its series from 0 and is the first after the change; `interval` is the 95 %
        interval of the index; `time` is that point's, null without a time column. `change` is a share of the level
        before if `relative`, else a difference; positive for larger values; null for `variance`. `worse` is null if no
        direction was given. `series` describes what was searched, with its `times` and `values`.
        """
        report = self.detection
        return {
            "schema_version": "1",
            "tool_version": self.tool_version,
            "source": report.source,
            "value": report.layout.value,
            "time": report.layout.time,
            "groups": list(report.layout.groups),
            "direction": report.asked.direction,
            "improvements": report.asked.improvements,
            "change_points": [_change_data(report, one, change) for one in report.series for change in one.changes],
            "series": [
                {
                    "group": dict(zip(report.layout.groups, one.series.group, strict=True)),
                    "points": len(one.series.values),
                    "missing": int(np.isnan(one.series.values).sum()),
                    "replicates": one.series.replicates,
                    "too_short": one.is_too_short,
                    "improvements_not_told": one.improvements,
                    "times": None if one.series.times is None else list(one.series.times),
                    "values": [None if np.isnan(value) else value for value in one.series.values.tolist()],
                }
                for one in report.series
            ],
        }

    def findings(self) -> Findings:
        report = self.detection
        found = worst_first(_finding(report, one, change) for one in report.series for change in one.changes)
        return Findings(
            name=f"detect: {report.source}",
            headline=_summary(report)[0],
            advice=_advice(report),
            level=worst_level(one.level for one in found),
            cases=tuple(_case(report, one) for one in report.series),
            findings=found,
            category="detect",
            tool_version=self.tool_version,
        )


def _to_look_at(report: DetectionReport) -> list[tuple[DetectedChanges, ChangePoint]]:
    """The changes that are not for the better, the most probable first."""
    direction = report.asked.direction
    found = [
        (one, change) for one in report.series for change in one.changes if is_worse(change, direction) is not False
    ]
    return sorted(found, key=lambda pair: -pair[1].probability)


def _style(report: DetectionReport) -> Style:
    if _to_look_at(report):
        return Style.WARNING
    return Style.PLAIN if all(one.is_too_short for one in report.series) else Style.GOOD


def _advice(report: DetectionReport) -> str:
    if not (found := _to_look_at(report)):
        short = all(one.is_too_short for one in report.series)
        return f"Give at least {MIN_POINTS} values of a series." if short else "Nothing is to be done."
    one, change = found[0]
    text = f"Look at {_series_name(report, one)} first: {change_point_text(one, change, report.asked.direction)}."
    return text if report.asked.direction else f"{text} --direction says which changes are for the worse."


_CHANGE_RULE = Rule(
    "change_point",
    "The level or the scatter of a series changed",
    Level.WARNING,
    "The values before and after this point differ by more than chance explains.",
    tags=("measurement",),
)


def _case(report: DetectionReport, one: DetectedChanges) -> Case:
    """Without a direction nobody knows whether a change is a loss: it is not passed, and no failure either."""
    texts = tuple(change_point_text(one, change, report.asked.direction) for change in one.changes)
    verdicts = [is_worse(change, report.asked.direction) for change in one.changes]
    outcome, kind, message = Outcome.PASSED, "", "no change point" if not texts else texts[-1]
    if True in verdicts:
        outcome, kind, message = Outcome.FAILURE, "change_point", texts[verdicts.index(True)]
    elif None in verdicts:
        outcome, kind = Outcome.SKIPPED, "change_point"
        message = f"{texts[verdicts.index(None)]}; whether that is worse is not known"
    elif one.is_too_short:
        outcome, kind, message = Outcome.SKIPPED, "too_short", f"fewer than {MIN_POINTS} values"
    group = _group(report, one) if report.layout.groups else report.source
    return Case(group, report.layout.value, outcome, kind, message, details=texts, numbers=_numbers(one))


def _numbers(one: DetectedChanges) -> tuple[tuple[str, int], ...]:
    return ("points", len(one.series.values)), ("change_points", len(one.changes))


def _finding(report: DetectionReport, one: DetectedChanges, change: ChangePoint) -> Finding:
    name = f"{_group(report, one)}: {report.layout.value}" if report.layout.groups else report.layout.value
    worse = is_worse(change, report.asked.direction)
    return Finding(
        _CHANGE_RULE,
        Level.NOTE if worse is False else Level.WARNING,
        f"{name} changed at {point_name(one, change.index)}",
        f"{name}: {change_point_text(one, change, report.asked.direction)}",
        subject=name,
        location=Location.parse(report.source),
        fingerprint=(_CHANGE_RULE.id, *one.series.group, report.layout.value, point_name(one, change.index)),
    )


def _change_data(report: DetectionReport, one: DetectedChanges, change: ChangePoint) -> dict[str, Any]:
    times = one.series.times
    group = {"group": dict(zip(report.layout.groups, one.series.group, strict=True))} if report.layout.groups else {}
    return {
        **group,
        "index": change.index,
        "time": None if times is None else times[change.index],
        "change": change.change,
        "change_interval": None if change.change_interval is None else list(change.change_interval),
        "relative": change.relative,
        "interval": list(change.interval),
        "kind": change.kind,
        "probability": change.probability,
        "worse": is_worse(change, report.asked.direction),
    }


def _changes(report: DetectionReport, one: DetectedChanges, *, is_small: bool) -> list[Block]:
    chart = Chart(
        values=tuple(one.series.values.tolist()),
        first=point_name(one, 0),
        last=point_name(one, len(one.series.values) - 1),
        marks=tuple(change.index for change in one.changes),
        write=units.number,
        is_small=is_small,
    )
    texts = tuple(change_point_text(one, change, report.asked.direction) for change in one.changes)
    return [chart, ItemList(texts, is_ordered=True)]


# The picture

_MOST_PANELS = 12
_MOST_ROWS = 60
"""Points of a series up to which the table has each; of more, only those at a change."""


def _pictures(report: DetectionReport) -> list[Block]:
    """Those with changes, the most probable first; without any, the first."""
    changed = [one for one in report.series if one.changes]
    changed.sort(key=lambda one: -max(change.probability for change in one.changes))
    drawable = changed or [one for one in report.series if len(one.series.values)]
    shown = drawable[:_MOST_PANELS]
    if not shown:
        return []
    what = "series with change points" if changed else "series"
    note = f"{len(shown)} of {len(drawable)} {what}." if len(drawable) > len(shown) else ""
    texts = [
        f"{_series_name(report, one)}: {change_point_text(one, change, report.asked.direction)}."
        for one in shown
        for change in one.changes[:MAX_CHARTS]
    ]
    return [
        Figure(
            name="history",
            title=f"{clip(report.layout.value, _LONGEST)} and where it changed",
            description=" ".join([*(texts or ["No change point was found."]), note]).strip(),
            plot=TimelinePlot(tuple(_panel(report, one) for one in shown), report.layout.time or "points", note),
            table=_point_table(report, shown),
        )
    ]


def _series_name(report: DetectionReport, one: DetectedChanges) -> str:
    return _group(report, one) or clip(report.layout.value, _LONGEST)


def _panel(report: DetectionReport, one: DetectedChanges) -> TimelinePanel:
    direction = report.asked.direction
    return TimelinePanel(
        title=_series_name(report, one),
        unit=", ".join(
            [clip(report.layout.value, _LONGEST), *([] if direction is None else [DIRECTION_TEXT[direction]])]
        ),
        values=tuple(one.series.values.tolist()),
        labels=tuple(point_name(one, index) for index in range(len(one.series.values))),
        changes=tuple(
            TimelineChange(
                at=change.index,
                after=max(0, change.interval[0] - 1),
                by=min(change.interval[1], len(one.series.values) - 1),
                text=change_point_text(one, change, direction),
                is_worse=is_worse(change, direction),
            )
            for change in one.changes
        ),
    )


def _point_table(report: DetectionReport, shown: Sequence[DetectedChanges]) -> Table:
    """A row for each point, or for those beside a change where there are many."""
    groups = []
    for one in shown:
        values = one.series.values
        at_change = {change.index: change_kind_text(change.kind) for change in one.changes}
        beside = {index for change in at_change for index in (change - 1, change)}
        places = range(len(values)) if len(values) <= _MOST_ROWS else sorted(beside | {0, len(values) - 1})
        rows = [
            Row(
                (
                    point_name(one, place),
                    units.UNKNOWN if np.isnan(values[place]) else units.number(float(values[place])),
                    at_change.get(place, ""),
                )
            )
            for place in places
            if 0 <= place < len(values)
        ]
        groups.append(RowGroup(_series_name(report, one), tuple(rows)))
    columns = Column(report.layout.time or "point"), Column(report.layout.value, is_right=True), Column("change")
    return Table(columns, tuple(groups), "series")


def change_point_text(one: DetectedChanges, change: ChangePoint, direction: Direction | None) -> str:
    """`step of +34.1% [+31.0, +37.5], worse, at 2026-05-12, between 2026-05-10 and 2026-05-13; probability 0.99`."""
    low, high = change.interval
    worse = is_worse(change, direction)
    parts = [f"{change_kind_text(change.kind)}{_size(change)}"]
    parts += [] if worse is None else ["worse" if worse else "better"]
    parts.append(f"at {point_name(one, change.index)}")
    between = "from {} to {}" if change.kind == "ramp" else "between {} and {}"
    parts.append(between.format(point_name(one, max(0, low - 1)), point_name(one, high)))
    return ", ".join(parts) + f"; probability {probability_text(change.probability)}"


def _size(change: ChangePoint) -> str:
    if change.change is None:
        return ""
    if change.relative:
        return f" of {units.change(change.change, Scale.RATIO)} {units.interval(change.change_interval)}"
    bounds = ", ".join(f"{bound:+.4g}" for bound in change.change_interval or ())
    return f" of {change.change:+.4g}" + (f" [{bounds}]" if bounds else "")


def point_name(one: DetectedChanges, index: int) -> str:
    """The time of a point, or its number from 0."""
    return f"#{index}" if one.series.times is None else clip(str(one.series.times[index]), _LONGEST)


def _group(report: DetectionReport, one: DetectedChanges) -> str:
    pairs = zip(report.layout.groups, one.series.group, strict=True)
    return ", ".join(f"{name}={clip(value, _LONGEST)}" for name, value in pairs)


def _head(report: DetectionReport) -> str:
    points = plural(sum(len(one.series.values) for one in report.series), "point")
    by = f" by {report.layout.time}" if report.layout.time else ""
    of = f" in {len(report.series)} series" if report.layout.groups else ""
    better = f"; {DIRECTION_TEXT[report.asked.direction]}" if report.asked.direction else ""
    return f"{report.source}: {points} of {clip(report.layout.value, _LONGEST)}{by}{of}{better}"


def _summary(report: DetectionReport) -> list[str]:
    """What was found in all, and what was not searched or is not shown."""
    changes = sum(len(one.changes) for one in report.series)
    changed = sum(bool(one.changes) for one in report.series)
    request = report.asked
    for_worse = " for the worse" if request.direction is not None and not request.improvements else ""
    lines = [plural(changes, "change point") if changes else f"no change points{for_worse}"]
    if report.layout.groups and changes:
        lines[0] += f" in {changed} of {len(report.series)} series"
    lines[0] += "; [95% intervals]" if changes else ""
    if short := sum(one.is_too_short for one in report.series):
        of = f" in {short} of {len(report.series)} series" if len(report.series) > 1 else ""
        lines.append(f"fewer than {MIN_POINTS} values{of}: too few for change points")
    if hidden := sum(one.improvements for one in report.series):
        lines.append(hidden_improvements_text(hidden))
    if replicates := max((one.series.replicates for one in report.series), default=1) - 1:
        lines.append(f"up to {replicates + 1} rows of one time were taken together as replicates")
    if missing := sum(int(np.isnan(one.series.values).sum()) for one in report.series):
        lines.append(plural(missing, "missing value") + " ignored")
    return lines
