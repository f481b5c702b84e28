"""The result of a comparison or a check: the value that the gate returns and that every renderer takes.

It serialises to schema_version "1" of the JSON contract; `regress_gate/report/result.schema.json` is generated from
these models. Times in seconds, changes as fractions; a positive change is a loss, for every metric. All text that
came from outside (versions, scenario names, issue texts) is raw here and escaped by the renderers.
"""

from datetime import date
from enum import StrEnum
from typing import Any, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from regress_gate.model.finding import Applies, Effect, Status
from regress_gate.model.issue import IssueKind, Severity
from regress_gate.model.metric import Direction, Scale


class ResultModel(BaseModel):
    # Infinities and NaN have no JSON: an unknown or unbounded number is null.
    model_config = ConfigDict(frozen=True, allow_inf_nan=False, ser_json_inf_nan="null")


class Decision(StrEnum):
    PASS = "pass"  # noqa: S105 - a decision, not a password
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"


class Verdict(StrEnum):
    REGRESSION = "regression"
    IMPROVEMENT = "improvement"
    EQUIVALENT = "equivalent"
    INCONCLUSIVE = "inconclusive"


class ReasonCode(StrEnum):
    """Why the decision is what it is. The order here is the order of weight in the report."""

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
    """What the measurements say of a known issue that claims a loss."""

    EXPLAINS = "explains"
    """It is the likeliest cause of a regression."""
    NOT_OBSERVED = "not_observed"
    """The smallest loss that it claims is excluded wherever it claims one."""
    NOT_TESTABLE = "not_testable"
    """No scenario was measured in which it would show."""
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
    """Runs that count; void ones are listed apart."""
    origin: str | None = None
    """`shipped` baselines or the user's `store`."""


class VoidRun(ResultModel):
    """A run that was measured under conditions beyond the limits: kept, shown, never averaged in."""

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
    """Why, in the server's own words; the first is the likeliest cause."""


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
    """Geometric mean over runs for a ratio metric, arithmetic mean for a difference; null without a value."""
    runs: int
    cv: float | None = None
    """Coefficient of variation between runs; null with fewer than two runs, or unequal ones around zero."""
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
    """Estimated loss: relative for a ratio metric, a difference of fractions else; positive is worse."""
    interval: tuple[float | None, float | None] | None
    """Two-sided confidence interval of the change; null where no variance could be estimated."""
    confidence: float
    p_worse: float | None
    """One-sided p-value of "not worse", for this series alone."""
    q_worse: float | None
    """The same, adjusted over all gated series (family-wise); null for series that do not gate."""
    margin: float
    verdict: Verdict
    runs_needed: int | None = None
    """Runs a side with which an inconclusive series would probably be decided; null if decided or out of reach."""
    notes: list[str] = Field(default_factory=list)
    """What a reader must know before believing the number."""

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
    """Flags that would give the facts for want of which `applies` is unknown: `--model`."""
    status: Status
    status_why: str
    effect: Effect
    effect_why: str
    blocks: bool
    matched_series: list[str] = Field(default_factory=list)
    """Regressions that this issue explains."""
    score: float | None = None
    """Probability that it made at least one of the regressions; null where it could have made none."""
    measured: IssueObservation | None = None
    """Null where nothing was measured, where the record claims no loss, and where the move does not bring it."""
    measured_why: str = ""
    workarounds: list[WorkaroundOut] = Field(default_factory=list)


class CauseOut(ResultModel):
    issue: str
    probability: float


class ExplanationOut(ResultModel):
    """Regressions of one scenario that count as one piece of evidence, and the known issues that may have made them."""

    series: list[str]
    issue: str | None
    """The one that explains them; null where they are unexplained."""
    causes: list[CauseOut] = Field(default_factory=list)
    """The likeliest first. What is left of the probability is that of causes that no record tells of."""


class WaiverOut(ResultModel):
    finding: str
    until: date
    max_change: float
    owner: str
    reason: str
    state: Literal["used", "expired", "exceeded", "unused"]
    detail: str
    """What it covered, or why it does not hold."""


class InterimOut(ResultModel):
    """Of an experiment whose evidence is seen after every block: the levels are those of this look."""

    blocks: int
    """Made so far."""
    most_blocks: int


class PlanOut(ResultModel):
    """How the runs were made, and what else their uncertainty rests on."""

    paired: bool
    """Whether each value is compared with that of the same block on the other side."""
    apart: bool
    """Whether the sides have no session in common, so that days differ too."""
    earlier_runs: int
    """Runs a side of earlier sessions, on the same suite and testbed, from which the usual spread is known too."""
    earlier_sessions: int
    looks: InterimOut | None = None
    """Null where the evidence is seen once."""


class Result(ResultModel):
    schema_version: Literal["1"] = "1"
    tool_version: str
    created: AwareDatetime
    command: Literal["compare", "check"] = "compare"
    decision: Decision
    exit_code: int
    advice: str
    """One sentence: what to do now."""
    reasons: list[Reason]
    baseline: VersionSide | None
    candidate: VersionSide
    suite: SuiteOut | None = None
    testbed: TestbedOut | None = None
    series: list[SeriesResult] = Field(default_factory=list)
    void_runs: list[VoidRun] = Field(default_factory=list)
    failed_runs: list[FailedRun] = Field(default_factory=list)
    known_issues: list[KnownIssueOut] = Field(default_factory=list)
    explanations: list[ExplanationOut] = Field(default_factory=list)
    """Of every regression, gated or not."""
    waivers: list[WaiverOut] = Field(default_factory=list)
    change_points: list[dict[str, Any]] = Field(default_factory=list)
    config_changes: list[dict[str, Any]] = Field(default_factory=list)
    plan: PlanOut | None = None
    warnings: list[str] = Field(default_factory=list)
