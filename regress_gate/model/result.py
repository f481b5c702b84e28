"""The result of a comparison or a check: the gate returns it, and every renderer takes it.

It serialises to schema_version "1" of the JSON contract; `regress_gate/report/result.schema.json` is generated from
these models. Times are in seconds, changes are fractions; a positive change is a loss, for every metric. Text from
outside (versions, scenario names, issue texts) is raw here and escaped by the renderers.
"""

from datetime import date
from enum import StrEnum
from typing import Any, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, computed_field

from regress_gate.model.issue import Applies, Effect, IssueKind, Severity, Status
from regress_gate.model.metric import Direction, Scale


class ResultModel(BaseModel):
    # JSON has no infinities and NaN: an unknown or unbounded number is null.
    model_config = ConfigDict(frozen=True, allow_inf_nan=False, ser_json_inf_nan="null")


class Decision(StrEnum):
    PASS = "pass"  # noqa: S105 - a decision, not a password
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"


class Verdict(StrEnum):
    """What is shown of one series, in the words of every report."""

    REGRESSION = "regression"
    IMPROVEMENT = "improvement"
    WITHIN_MARGIN = "within_margin"
    UNDECIDED = "undecided"


class ReasonCode(StrEnum):
    """The reasons for a decision, in the order of their weight in the report."""

    SERVER_FAILED = "server_failed"
    FLAG_REMOVED = "flag_removed"
    REGRESSION = "regression"
    KNOWN_ISSUE = "known_issue"
    INCOMPARABLE = "incomparable"
    NO_GATED_SERIES = "no_gated_series"
    MISSING_SERIES = "missing_series"
    UNDECIDED = "undecided"
    WAIVED = "waived"
    ALL_WITHIN_MARGIN = "all_within_margin"
    NO_BLOCKING_ISSUE = "no_blocking_issue"


class IssueObservation(StrEnum):
    """The measurements' evidence about a known issue that claims a loss."""

    EXPLAINS = "explains"
    """It is the most likely cause of a regression."""
    NOT_OBSERVED = "not_observed"
    """The smallest claimed loss is excluded in every scenario for which it is claimed."""
    NOT_TESTABLE = "not_testable"
    """No measured scenario would show it."""
    UNCLEAR = "unclear"


class Reason(ResultModel):
    code: ReasonCode
    text: str
    series: str | None = None
    """`scenario/metric`."""
    issue: str | None = None


class VersionSide(ResultModel):
    version: str
    commit: str | None = None
    variant: str | None = None
    runs: int = 0
    """Runs that count; void runs are listed separately."""
    origin: str | None = None
    """`shipped` baselines or the user's `store`."""


class VoidRun(ResultModel):
    """A run whose conditions exceeded the limits: kept, shown, never averaged in."""

    side: Literal["baseline", "candidate"]
    run: str
    reason: str


class FailedRun(ResultModel):
    """A server that crashed, hung or never became ready."""

    side: Literal["baseline", "candidate"]
    run: str
    kind: str
    text: str
    lines: list[str] = Field(default_factory=list)
    """Lines of the server's log; the first is the most likely cause."""


class DifferenceOut(ResultModel):
    what: str
    baseline: str
    candidate: str
    blocks: bool


class TestbedOut(ResultModel):
    __test__ = False

    name: str
    comparable: bool = True
    differences: list[DifferenceOut] = Field(default_factory=list)


class SuiteOut(ResultModel):
    name: str
    version: str
    notice: str | None = None


class SideSummary(ResultModel):
    """Run-level values of one side of a series."""

    mean: float | None
    """Geometric mean over runs for a ratio metric, arithmetic mean for a difference; null: no value."""
    runs: int
    cv: float | None = None
    """Coefficient of variation between runs; null with fewer than two runs, or with unequal values around zero."""
    requests: int | None = None
    """Requests behind the value, over all runs: context, never evidence."""


class SeriesResult(ResultModel):
    scenario: str
    metric: str
    unit: str
    direction: Direction
    scale: Scale
    gated: bool
    baseline: SideSummary
    candidate: SideSummary
    change: float | None
    """Estimated loss: relative for a ratio metric, otherwise a difference of fractions; positive is worse."""
    interval: tuple[float | None, float | None] | None
    """Two-sided confidence interval of the change; null if no variance could be estimated."""
    confidence: float
    p_worse: float | None
    """One-sided p-value of "not worse", for this series alone."""
    q_worse: float | None
    """The same, adjusted over all gated series (family-wise); null for series that do not gate."""
    margin: float
    verdict: Verdict
    runs_needed: int | None = None
    """Runs per side that would probably decide an undecided series; null if decided or out of reach."""
    notes: list[str] = Field(default_factory=list)
    """Limitations of the number."""

    @computed_field  # type: ignore[prop-decorator]  # as pydantic documents it
    @property
    def natural_change(self) -> float | None:
        """What happened, with its own sign: +0.05 is 5 % more, of a latency and of a throughput."""
        return None if self.change is None else self._natural(self.change)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def natural_interval(self) -> tuple[float | None, float | None] | None:
        """`interval` on the scale of `natural_change`."""
        if self.interval is None:
            return None
        low, high = (None if end is None else self._natural(end) for end in self.interval)
        return (low, high) if self.direction is Direction.LOWER else (high, low)

    def _natural(self, loss: float) -> float:
        # A loss is relative to the baseline for both directions, so that only its sign depends on them.
        return loss if self.direction is Direction.LOWER else 0.0 - loss

    @property
    def name(self) -> str:
        return f"{self.scenario}/{self.metric}"


class WorkaroundOut(ResultModel):
    text: str
    engine_args: dict[str, Any] = Field(default_factory=dict)
    env: dict[str, str] = Field(default_factory=dict)
    cost: str | None = None


class KnownIssueOut(ResultModel):
    id: str
    summary: str
    kind: IssueKind
    severity: Severity
    version_regression: bool
    url: str
    applies: Applies
    why: str
    missing: list[str] = Field(default_factory=list)
    """If `applies` is unknown: the flags that would give the missing facts, for example `--model`."""
    status: Status
    status_why: str
    effect: Effect
    effect_why: str
    blocks: bool
    matched_series: list[str] = Field(default_factory=list)
    """The regressions that this issue explains."""
    score: float | None = None
    """Probability that it caused at least one of the regressions; null if it could have caused none."""
    measured: IssueObservation | None = None
    """Null if nothing was measured, if the record claims no loss, or if the move does not introduce the issue."""
    measured_why: str = ""
    workarounds: list[WorkaroundOut] = Field(default_factory=list)


class CauseOut(ResultModel):
    issue: str
    probability: float


class ExplanationOut(ResultModel):
    """Regressions of one scenario that are one piece of evidence, and the known issues that may have caused them."""

    series: list[str]
    issue: str | None
    """The issue that explains them; null: unexplained."""
    causes: list[CauseOut] = Field(default_factory=list)
    """The most likely first. The rest of the probability is that of causes without a record."""


class WaiverOut(ResultModel):
    finding: str
    until: date
    max_change: float
    owner: str
    reason: str
    state: Literal["used", "expired", "exceeded", "unused"]
    detail: str
    """The finding that it covers, or why it is not valid."""


class InterimOut(ResultModel):
    """The interim analysis of an experiment that is analysed after each block: levels are those of this analysis."""

    blocks: int
    """Completed blocks."""
    most_blocks: int


class PlanOut(ResultModel):
    """How the runs were made, and the further data behind their uncertainty."""

    paired: bool
    """Whether each value is compared with the other side's value of the same block."""
    apart: bool
    """Whether the sides have no session in common, so that they also differ in time."""
    earlier_runs: int
    """Runs per side of earlier sessions with the same suite and testbed, which also estimate the usual variation."""
    earlier_sessions: int
    looks: InterimOut | None = None
    """Null: one analysis only."""


class DeploymentOut(ResultModel):
    """The server of a deployment file that was checked."""

    name: str
    """Of the service, container or unit."""
    where: str
    """File and line."""


class Result(ResultModel):
    schema_version: Literal["1"] = "1"
    tool_version: str
    created: AwareDatetime
    command: Literal["compare", "check"] = "compare"
    decision: Decision
    exit_code: int
    advice: str
    """One sentence: what to do next."""
    reasons: list[Reason]
    baseline: VersionSide | None
    candidate: VersionSide
    deployment: DeploymentOut | None = None
    """Null without --deployment."""
    suite: SuiteOut | None = None
    testbed: TestbedOut | None = None
    series: list[SeriesResult] = Field(default_factory=list)
    void_runs: list[VoidRun] = Field(default_factory=list)
    failed_runs: list[FailedRun] = Field(default_factory=list)
    known_issues: list[KnownIssueOut] = Field(default_factory=list)
    explanations: list[ExplanationOut] = Field(default_factory=list)
    """Of every regression, also of metrics that do not gate."""
    waivers: list[WaiverOut] = Field(default_factory=list)
    change_points: list[dict[str, Any]] = Field(default_factory=list)
    config_changes: list[dict[str, Any]] = Field(default_factory=list)
    plan: PlanOut | None = None
    warnings: list[str] = Field(default_factory=list)
