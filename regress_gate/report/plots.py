"""What a picture shows, as frozen values: numbers in the unit of their axis, texts raw. `figures/` draws it.

A view makes plots (`views/`), a `Figure` of a document holds one, and `figures.draw_svg` draws it. NaN is a missing
number; a plot may be empty.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

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


class Side(StrEnum):
    BASELINE = "baseline"
    CANDIDATE = "candidate"


class RunState(StrEnum):
    COUNTED = "counted"
    VOID = "void"
    """Kept and shown, never averaged in; so are runs that were left out for another reason."""
    FAILED = "failed"
    """A server that failed has no value."""


@dataclass(frozen=True, slots=True)
class RunMark:
    """One run, in the place that it has in the order of time."""

    side: Side
    state: RunState
    block: int | None
    """Runs of a block were made next to each other."""
    name: str
    """The run, and why it does not count."""
    day: str
    """Empty where it is not known."""


@dataclass(frozen=True, slots=True)
class RunPanel:
    title: str
    unit: str
    values: tuple[float, ...]
    """One for each run; NaN where it has none."""


@dataclass(frozen=True, slots=True)
class RunPlot:
    """Every run as a mark in the order of time: drift, effects of order, and outliers are seen."""

    runs: tuple[RunMark, ...]
    panels: tuple[RunPanel, ...]
    sides: tuple[str, str]
    """What the two sides are called."""
    note: str = ""


@dataclass(frozen=True, slots=True)
class QuantileLine:
    """One side's value at each level, with the ends of its band. NaN is missing."""

    values: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class QuantilePanel:
    title: str
    unit: str
    levels: tuple[float, ...]
    """From 0 to 1, both excluded, ascending."""
    baseline: QuantileLine
    candidate: QuantileLine


@dataclass(frozen=True, slots=True)
class QuantilePlot:
    """Distributions of requests on both sides. The bands are between servers, the unit of replication."""

    panels: tuple[QuantilePanel, ...]
    sides: tuple[str, str]
    band: str
    """What the bands are."""
    note: str = ""


@dataclass(frozen=True, slots=True)
class LoadPoint:
    """One side at one load. An end of an interval is NaN where it is not known or has no bound."""

    label: str
    """The load."""
    throughput: float
    throughput_interval: tuple[float, float]
    latency: float
    latency_interval: tuple[float, float]


@dataclass(frozen=True, slots=True)
class LoadPanel:
    title: str
    load: str
    """What the labels of the points are."""
    throughput_unit: str
    latency_unit: str
    baseline: tuple[LoadPoint, ...]
    """By load."""
    candidate: tuple[LoadPoint, ...]
    limit: float | None
    """The largest latency that is promised."""
    limit_text: str = ""


@dataclass(frozen=True, slots=True)
class LoadPlot:
    """Throughput against latency of both sides, from the smallest load to the largest."""

    panels: tuple[LoadPanel, ...]
    sides: tuple[str, str]
    confidence: str
    """Level of the intervals: `90%`."""
    note: str = ""


class PointState(StrEnum):
    """On which side of a change a point is shown to be."""

    BEFORE = "before"
    AFTER = "after"
    UNKNOWN = "unknown"
    PLAIN = "plain"
    """Nothing was asked about it."""


@dataclass(frozen=True, slots=True)
class TimelineChange:
    """A change of a series. `at` is the first point after it; it came after `after` and with `by` at the latest."""

    at: int
    after: int
    by: int
    text: str
    is_worse: bool | None
    """None: not known what is better, or a change of scatter."""


@dataclass(frozen=True, slots=True)
class TimelineFlag:
    """Something that is known of a point: a known issue that begins or ends there."""

    at: int
    text: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class TimelinePanel:
    title: str
    unit: str
    values: tuple[float, ...]
    labels: tuple[str, ...]
    """Names of the points: versions, times or numbers."""
    days: tuple[str, ...] = ()
    """Days of the points, where they are known beside the names."""
    ranges: tuple[tuple[float, float], ...] = ()
    """The lowest and the highest run of each point; empty: not known."""
    states: tuple[PointState, ...] = ()
    """Empty: all plain."""
    changes: tuple[TimelineChange, ...] = ()
    flags: tuple[TimelineFlag, ...] = ()


@dataclass(frozen=True, slots=True)
class TimelinePlot:
    """Series over versions or times, each in a panel of its own, with what changed."""

    panels: tuple[TimelinePanel, ...]
    across: str = "versions"
    """What the points are, from left to right."""
    note: str = ""


@dataclass(frozen=True, slots=True)
class NoiseRow:
    """Relative sizes of one series: 0.05 is 5 %. None: no size is large enough, or it is not known."""

    label: str
    spread: float | None
    detectable: float | None
    margin: float


@dataclass(frozen=True, slots=True)
class NoisePlot:
    """How much each series scatters between server starts, and what can be shown with so much scatter."""

    rows: tuple[NoiseRow, ...]
    detectable: str
    """What the second size is: `found with 5 runs a side`."""
    note: str = ""


Plot = IntervalPlot | RunPlot | QuantilePlot | LoadPlot | TimelinePlot | NoisePlot
