"""The JSON of `history` and of `detect` as types, and the views that they came from.

For `stored`, which says what of a file is wrong. Runs of a history are only counted in it, so those of a view that was
read have neither numbers nor a name: what a report shows of them is there, and nothing can be searched again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, model_validator

from regress_gate.errors import InputError
from regress_gate.gate.history import HistoryLine, HistoryOrder, HistorySeries
from regress_gate.gate.history_changes import ChangeMethod, HistoryChange, HistoryChanges
from regress_gate.gate.sides import ComparisonSide, ExcludedRun
from regress_gate.gate.table_changes import DetectedChanges, DetectionReport, DetectionRequest
from regress_gate.ingest.table_series import Layout, TableSeries
from regress_gate.model.metric import Direction, Metric, metric
from regress_gate.model.run import Run, SuiteRef
from regress_gate.model.testbed import Testbed
from regress_gate.model.version import Version
from regress_gate.report.views.detection_view import DetectionView
from regress_gate.report.views.history_view import HistoryView
from regress_gate.report.views.history_words import IssueEvent, LineView
from regress_gate.stats.changepoints import ChangePoint

_Count = Annotated[int, Field(ge=0, le=100_000)]
_Kind = Literal["step", "ramp", "variance"]


class _Stored(BaseModel):
    model_config = ConfigDict(allow_inf_nan=False)


# history


class _StoredVersion(_Stored):
    version: str
    runs: _Count
    void_runs: _Count
    failed_runs: _Count
    first: AwareDatetime | None
    released: date | None
    void_reason: str | None

    def side(self) -> ComparisonSide:
        version = Version.parse(self.version)
        run = Run(version, Testbed("not kept"), SuiteRef("not-kept", "1"), "not kept", (), started=self.first)
        counted, failed = (run,) * self.runs, (run,) * self.failed_runs
        void = (ExcludedRun(run, self.void_reason or "the reason was not kept"),) * self.void_runs
        return ComparisonSide(version, (run,), counted, void, failed=failed)


class _StoredPoint(_Stored):
    value: float | None
    values: list[float]


class _StoredSeries(_Stored):
    scenario: str
    metric: str
    points: list[_StoredPoint]

    def series(self) -> HistorySeries:
        return HistorySeries(
            self.scenario,
            metric(self.metric),
            replicates=np.array([value for point in self.points for value in point.values], dtype=np.float64),
            counts=np.array([len(point.values) for point in self.points], dtype=np.int64),
            values=_numbers(point.value for point in self.points),
            variances=None,
        )


class _StoredEvent(_Stored):
    index: int
    id: str
    summary: str
    begins: bool
    metrics: list[str]


class _Search(_Stored):
    way: ChangeMethod
    series: _Count
    steps: int
    improvements_not_told: int
    notes: list[str]


class _StoredLine(_Stored):
    order: HistoryOrder
    variant: str | None
    versions: list[_StoredVersion]
    series: list[_StoredSeries]
    issues: list[_StoredEvent]
    looked_at: _Search | None

    @model_validator(mode="after")
    def _agrees(self) -> _StoredLine:
        count = len(self.versions)
        if any(len(one.points) != count for one in self.series):
            raise ValueError("a series has not one point for each version")
        if not all(0 <= event.index < count for event in self.issues):
            raise ValueError("an issue begins at no version of the line")
        for one in self.versions:
            _parsed(one.version)
        for each in self.series:
            _known_metric(each.metric)
        return self

    def view(self, found: Sequence[_StoredChange]) -> LineView:
        sides = tuple(one.side() for one in self.versions)
        series = tuple(one.series() for one in self.series)
        line = HistoryLine(self.order, self.variant, sides, series, {side.version: side for side in sides}.__getitem__)
        changes, search = None, self.looked_at
        if search is not None:
            names = [str(side.version) for side in sides]
            made = tuple(one.made(names) for one in found)
            changes = HistoryChanges(search.way, search.series, search.steps, made, tuple(search.notes))
        events = [IssueEvent(one.index, one.id, one.summary, one.begins, tuple(one.metrics)) for one in self.issues]
        released = [one.released for one in self.versions]
        hidden = 0 if search is None else search.improvements_not_told
        return LineView(line, changes, hidden, events, released if any(released) else ())


class _StoredChange(_Stored):
    line: int
    scenario: str
    metric: str
    kind: _Kind
    index: int
    between: tuple[str, str]
    change: float | None
    interval: tuple[float | None, float | None] | None
    probability: float | None

    def made(self, names: Sequence[str]) -> HistoryChange:
        after, by = self.between
        return HistoryChange(
            scenario=self.scenario,
            metric=self.metric,
            scale=metric(self.metric).scale,
            kind=self.kind,
            at=self.index,
            since=(names.index(after), names.index(by)),
            loss=self.change,
            interval=self.interval,
            probability=self.probability,
        )


class StoredHistory(_Stored):
    schema_version: Literal["1"]
    tool_version: str
    suite: str
    testbed: str
    lines: list[_StoredLine]
    change_points: list[_StoredChange]

    @model_validator(mode="after")
    def _agrees(self) -> StoredHistory:
        for one in self.change_points:
            _known_metric(one.metric)
            if not 0 <= one.line < len(self.lines):
                raise ValueError("a change point is on no line")
            versions = [version.version for version in self.lines[one.line].versions]
            if not 0 <= one.index < len(versions) or not set(one.between) <= set(versions):
                raise ValueError("a change point is at no version of its line")
        return self

    def view(self) -> HistoryView:
        lines = [
            line.view([change for change in self.change_points if change.line == number])
            for number, line in enumerate(self.lines)
        ]
        return HistoryView(self.suite, self.testbed, lines, self.tool_version)


# detect


class _StoredTable(_Stored):
    group: dict[str, str]
    replicates: int
    improvements_not_told: int
    times: list[Any] | None
    values: list[float | None]

    @model_validator(mode="after")
    def _agrees(self) -> _StoredTable:
        if self.times is not None and len(self.times) != len(self.values):
            raise ValueError("it has not one time for each value")
        return self

    def changes(self, groups: Sequence[str], found: Sequence[_StoredChangePoint]) -> DetectedChanges:
        group = tuple(self.group[name] for name in groups)
        times = None if self.times is None else tuple(self.times)
        series = TableSeries(group, _numbers(self.values), None, times, self.replicates)
        points = tuple(one.point() for one in found if one.group == self.group)
        return DetectedChanges(series, points, self.improvements_not_told)


class _StoredChangePoint(_Stored):
    group: dict[str, str] = Field(default_factory=dict)
    index: int
    interval: tuple[int, int]
    kind: _Kind
    change: float | None
    change_interval: tuple[float, float] | None
    relative: bool
    probability: float

    def point(self) -> ChangePoint:
        return ChangePoint(
            self.index, self.interval, self.kind, self.change, self.change_interval, self.probability, self.relative
        )


class StoredDetection(_Stored):
    schema_version: Literal["1"]
    tool_version: str
    source: str
    value: str
    time: str | None
    groups: list[str]
    direction: Direction | None
    improvements: bool
    change_points: list[_StoredChangePoint]
    series: list[_StoredTable]

    @model_validator(mode="after")
    def _agrees(self) -> StoredDetection:
        if any(set(one.group) != set(self.groups) for one in self.series):
            raise ValueError("a series has not one value for each group column")
        sizes = {tuple(one.group.items()): len(one.values) for one in self.series}
        if len(sizes) < len(self.series):
            raise ValueError("two series are of the same group")
        for change in self.change_points:
            size = sizes.get(tuple(change.group.items()), 0)
            if not all(0 <= place < size for place in (change.index, *change.interval)):
                raise ValueError("a change point is at no point of its series")
        return self

    def view(self) -> DetectionView:
        layout = Layout(self.value, self.time, tuple(self.groups))
        request = DetectionRequest(self.direction, self.improvements)
        series = [one.changes(self.groups, self.change_points) for one in self.series]
        return DetectionView(DetectionReport(self.source, layout, request, series), self.tool_version)


def _numbers(values: Any) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.array([math.nan if value is None else value for value in values], dtype=np.float64)


def _parsed(text: str) -> Version:
    try:
        return Version.parse(text)
    except InputError as error:
        raise ValueError(str(error)) from None


def _known_metric(name: str) -> Metric:
    try:
        return metric(name)
    except InputError as error:
        raise ValueError(str(error)) from None
