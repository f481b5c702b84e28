"""The result of a comparison or a check: the gate returns it, and every renderer takes it.

It serialises to schema_version "1" of the JSON contract; `regress_gate/report/result.schema.json` is generated from
these models. Times are in seconds, changes are fractions; a positive change is a loss, for every metric. Text from
outside (versions, scenario names, issue texts) is raw here and escaped by the renderers.
"""

from datetime import date
from enum import StrEnum
from typing import Any, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, PositiveInt, computed_field

from regress_gate.model.issue import Applies, Effect, IssueKind, Severity, Status
from regress_gate.model.metric import Direction, Scale, natural_change, natural_interval


class ResultModel(BaseModel):
    # JSON has no infinities and NaN: an unknown or unbounded number is null.
    model_config = ConfigDict(frozen=True, allow_inf_nan=False, ser_json_inf_nan="null")


class Decision(StrEnum):
    """May the deployment move? No evidence is no pass."""

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
    LAUNCH_LINE = "launch_line"
    REGRESSION = "regression"
    SLO_BROKEN = "slo_broken"
    """The candidate does not keep a service-level objective that the baseline is not shown to break."""
    KNOWN_ISSUE = "known_issue"
    COPIED_RUNS = "copied_runs"
    """Runs of both versions hold the same measurement."""
    INCOMPARABLE = "incomparable"
    NO_GATED_SERIES = "no_gated_series"
    MISSING_SERIES = "missing_series"
    OTHER_PLATFORM = "other_platform"
    """Everything was measured on another platform than the deployment's, of which it shows nothing."""
    NOT_COVERED = "not_covered"
    SLO_UNCLEAR = "slo_unclear"
    """It is not shown that the candidate keeps an objective."""
    UNDECIDED = "undecided"
    SLO_CARRIED = "slo_carried"
    """The candidate does not keep an objective, and the baseline is shown to break it as well."""
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


class Move(StrEnum):
    """The direction of a move between two versions."""

    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    SAME = "same"


class AuditEffect(StrEnum):
    """What the move does to a finding about the servers."""

    NEW = "new"
    CARRIED = "carried"
    RESOLVED = "resolved"


class CounterTestOutcome(StrEnum):
    """What a counter-test shows of the regressions of an explanation."""

    RESTORES = "restores"
    """The cause is confirmed: with the setting, the server behaves as the other side does."""
    DOES_NOT_RESTORE = "does_not_restore"
    """It is not the cause, or not the only one."""
    NOT_DECIDED = "not_decided"
    FAILED = "failed"
    """It could not be measured: its server did not start, for example. Shows nothing."""


class ReviewDepth(StrEnum):
    """How deeply a release was reviewed, the deepest first; coverage.yaml says how each was done."""

    SWEEP = "sweep"
    """The whole tracker."""
    SEARCH = "search"
    """What searches found."""
    SOURCES = "sources"
    """The published sources were compared and no thread was read. It covers nothing."""


class CoverageOut(ResultModel):
    """Whether the known-issue records reach so far that a missing record means something."""

    platform: str | None
    """Of the deployment: cuda, rocm, cpu…; null: not known."""
    reviewed_through: str | None
    """The newest release that was reviewed for the platform; null: none."""
    records_in_interval: int
    """Records that may concern the platform and begin or end in the interval; without a baseline, those that hold for
    the candidate."""
    covered: bool
    """Whether every release of the interval was reviewed."""
    depth: ReviewDepth | None = None
    """The least of all releases in the interval; null: not covered, or nothing changes."""
    reviewed: date | None = None
    """The day of the oldest of these reviews."""
    unreviewed: list[str] = Field(default_factory=list)
    """Releases of the interval that were not reviewed for the platform."""
    why: str = ""
    """Why it is not covered."""
    sources: str | None = None
    """Releases that were not reviewed and whose published sources were compared: `0.30.0 to 0.33.0`; null: none."""
    nearest_release: str | None = None
    """If the candidate was never released: the nearest that was."""
    too_new: str | None = None
    """Of the two versions, the one that is newer than all known releases."""


class Reason(ResultModel):
    """Why the decision is what it is."""

    code: ReasonCode
    """The kind of reason."""
    text: str
    """One sentence for people."""
    series: str | None = None
    """`scenario/metric` of the series that it is about."""
    issue: str | None = None
    """Id of the known issue that it is about."""


class VersionSide(ResultModel):
    """One of the two versions."""

    version: str
    """As PEP 440 writes it; a commit where the build has no number."""
    commit: str | None = None
    """Full or short id, where known."""
    variant: str | None = None
    """Build of vLLM: `cpu`, `cu129`, `rocm`…"""
    runs: int = 0
    """Runs that count; void runs are listed separately."""
    origin: str | None = None
    """`shipped` baselines or the user's `store`."""


class VoidRun(ResultModel):
    """A run whose conditions exceeded the limits: kept, shown, never averaged in."""

    side: Literal["baseline", "candidate"]
    """Whose run it is."""
    run: str
    """`run:17 (label)`, or the label of a shipped run."""
    reason: str
    """The condition and its limit."""


class FailedRun(ResultModel):
    """A server that crashed, hung or never became ready."""

    side: Literal["baseline", "candidate"]
    """Whose run it is."""
    run: str
    """`run:17 (label)`, or the label of a shipped run."""
    kind: str
    """How it failed: `died_at_start`, `hung`…"""
    text: str
    """The same in a sentence."""
    lines: list[str] = Field(default_factory=list)
    """Lines of the server's log; the first is the most likely cause."""


class RunOut(ResultModel):
    """A run of either side, for pictures of every run: those that count, and those that do not."""

    side: Literal["baseline", "candidate"]
    """Whose run it is."""
    run: str
    """`run:17 (label)`, or the label of a shipped run."""
    testbed: str | None = None
    """Of several hosts, the one that it was made on; null for one testbed."""
    started: AwareDatetime | None
    """Null: not recorded."""
    block: int | None
    """Number of the block in which it was made next to others; null: made without blocks."""
    state: Literal["counted", "void", "failed", "left_out"]
    """`left_out`: a copy, or not made in a block with the other version."""
    why: str = ""
    """Why it does not count."""


class QuantilesOut(ResultModel):
    """One side of a distribution: at each level the mean, the smallest and the largest of its runs' percentiles."""

    values: list[float]
    """Geometric means over runs, or arithmetic ones if a run has none above zero."""
    lowest: list[float]
    """Of the run with the smallest."""
    highest: list[float]
    """Of the run with the largest."""
    interval_low: list[float] = Field(default_factory=list)
    """Lower ends of the 90 % interval of each value between server starts; empty with one run."""
    interval_high: list[float] = Field(default_factory=list)
    """Its upper ends."""
    runs: int
    """Runs behind each value: the unit of replication. Requests of several runs are never pooled."""


class DistributionOut(ResultModel):
    """The distribution of a latency over the requests of a scenario, for pictures."""

    scenario: str
    """Of the suite, or as the import named it."""
    latency: str
    """`ttft`, `tpot` or `e2el`."""
    source: Literal["samples", "summary"]
    """Whether the percentiles are from stored requests or from stored statistics."""
    levels: list[float]
    """Shares of the requests below each value: 0.5 is the median. As many as the number of requests supports."""
    baseline: QuantilesOut
    """Seconds."""
    candidate: QuantilesOut
    """Seconds."""


class DifferenceOut(ResultModel):
    """A difference between the machines of the two sides."""

    what: str
    """Driver, accelerator, library…"""
    baseline: str
    """Its value on the baseline's machine."""
    candidate: str
    """Its value on the candidate's machine."""
    blocks: bool
    """Whether it makes the sides incomparable."""


class TestbedOut(ResultModel):
    """The machine on which the versions were measured."""

    __test__ = False

    name: str
    """Of the candidate's runs; of several hosts, their names with commas between."""
    comparable: bool = True
    """Whether both sides were measured under the same conditions."""
    differences: list[DifferenceOut] = Field(default_factory=list)
    """What differs between the sides, also where they are comparable."""


class HostOut(ResultModel):
    """One of several hosts that were compared together. Numbers are means over the series that gate."""

    name: str
    """Of its testbed."""
    blocks: int
    """In which both versions count. A block is of one host, so that a host's level cancels in it."""
    level: float | None = None
    """How much slower the baseline is here than on the mean of the hosts: +0.05 is 5 %. Null: no series that gates is
    in all blocks."""
    level_interval: tuple[float, float] | None = None
    """Two-sided, at the confidence of the series. Null: with one block a host, nothing shows how they scatter."""
    change: float | None = None
    """Estimated loss on this host alone: positive is worse."""
    change_interval: tuple[float, float] | None = None
    """As that of the level."""
    notes: list[str] = Field(default_factory=list)
    """Whether it differs from the other hosts by more than chance allows (Holm over hosts), and in what."""


class SuiteOut(ResultModel):
    """The suite that was measured."""

    name: str
    """`imported` for results without one."""
    version: str
    """Results of different versions are not compared."""
    file: str | None = None
    """That the suite was read from, as it was named; null: it comes with the tool, or is not known."""
    notice: str | None = None
    """What the suite does not show."""

    @property
    def argument(self) -> str:
        """How a command names it."""
        return self.file or self.name


class SideSummary(ResultModel):
    """Run-level values of one side of a series."""

    mean: float | None
    """Geometric mean over runs for a ratio metric, arithmetic mean for a difference; null: no value."""
    runs: int
    """Server starts behind the value."""
    cv: float | None = None
    """Coefficient of variation between runs; null with fewer than two runs, or with unequal values around zero."""
    requests: int | None = None
    """Requests behind the value, over all runs: context, never evidence."""


class SeriesResult(ResultModel):
    """One metric of one scenario on both sides."""

    scenario: str
    """Of the suite, or as the import named it."""
    metric: str
    """A name of the catalogue, with its statistic: `ttft_p99`."""
    unit: str
    """Of the means: `s`, `bytes`, `tokens`, `1/s` or `fraction`."""
    direction: Direction
    """Whether less or more is better."""
    scale: Scale
    """Whether changes are relative to the baseline or differences of fractions."""
    gated: bool
    """Whether it takes part in the decision."""
    baseline: SideSummary
    """Its values on the baseline."""
    candidate: SideSummary
    """Its values on the candidate."""
    change: float | None
    """Estimated loss: relative for a ratio metric, otherwise a difference of fractions; positive is worse."""
    interval: tuple[float | None, float | None] | None
    """Two-sided confidence interval of the change; null if no variance could be estimated."""
    confidence: float
    """Level of the interval."""
    p_worse: float | None
    """One-sided p-value of "not worse", for this series alone."""
    q_worse: float | None
    """The same, adjusted over all gated series (family-wise); null for series that do not gate."""
    margin: float
    """The largest loss that the policy accepts, on the scale of `change`."""
    verdict: Verdict
    """What is shown of it."""
    runs_needed: int | None = None
    """Runs per side that would probably decide an undecided series; null if decided or out of reach."""
    notes: list[str] = Field(default_factory=list)
    """Limitations of the number."""
    run_values: list[float | None] = Field(default_factory=list)
    """Of each of the result's `runs`, to six digits; null where a run has none. Only of series that gate; empty where
    values are not those of single runs, and in results from before this was recorded."""

    @computed_field  # type: ignore[prop-decorator]  # as pydantic documents it
    @property
    def natural_change(self) -> float | None:
        """What happened, with its own sign: +0.05 is 5 % more, of a latency and of a throughput."""
        return None if self.change is None else natural_change(self.change, self.direction)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def natural_interval(self) -> tuple[float | None, float | None] | None:
        """`interval` on the scale of `natural_change`."""
        return None if self.interval is None else natural_interval(self.interval, self.direction)

    @property
    def name(self) -> str:
        return f"{self.scenario}/{self.metric}"

    @property
    def change_text(self) -> str:
        """`+48.5% [+40.2%, +57.4%], worse`: what happened, with the interval where it has two ends."""
        if self.change is None:
            return "changed by an amount that could not be estimated"
        return f"{self.size_text}, {'worse' if self.change >= 0 else 'better'}"

    @property
    def size_text(self) -> str:
        """`+48.5% [+40.2%, +57.4%]`; empty where it could not be estimated."""
        if self.natural_change is None:
            return ""
        low, high = self.natural_interval or (None, None)
        interval = "" if low is None or high is None else f" [{self._size_text(low)}, {self._size_text(high)}]"
        return f"{self._size_text(self.natural_change)}{interval}"

    def _size_text(self, size: float) -> str:
        # A difference of two percentages is not a percentage of either.
        return f"{size:+.1%}" if self.scale is Scale.RATIO else f"{100 * size:+.1f} pp"


class ObjectiveSide(ResultModel):
    """The level of one side, over fresh servers."""

    level: float | None
    """Estimate, in the unit of the series; failed requests count as never answered. Null: unknown, or without end."""
    interval: tuple[float | None, float | None] | None
    """Two-sided, at the result's confidence; a null end has no bound. Null: no spread is known."""
    runs: int
    """Server starts behind it."""


class ObjectiveOut(ResultModel):
    """A service-level objective of one scenario, and whether it is kept."""

    scenario: str
    """Of the suite, or as the import named it."""
    metric: str
    """A name of the catalogue."""
    unit: str
    """Of limit and levels: `s`, `bytes`, `tokens`, `1/s` or `fraction`."""
    direction: Direction
    """Whether the limit is the most (`lower_is_better`) or the least."""
    limit: float
    """As configured, in this unit."""
    baseline: ObjectiveSide
    """Level of the version that runs now."""
    candidate: ObjectiveSide
    """Level of the version to move to."""
    state: Literal["kept", "broken", "carried", "unclear"]
    """Of the candidate. `kept`: its whole interval is within the limit. `broken`: it is shown to be beyond, over all
    objectives together. `carried`: not kept, and the baseline is shown to break it as well."""
    text: str
    """The same in one sentence."""

    @property
    def name(self) -> str:
        return f"{self.scenario}/{self.metric}"


class LoadPointOut(ResultModel):
    """Both sides at one load."""

    load: float
    """Requests at once, or requests a second."""
    scenario: str
    """That sends it."""
    baseline_throughput: ObjectiveSide
    """Throughput of the version that runs now."""
    baseline_latency: ObjectiveSide
    """Latency of the version that runs now, seconds."""
    candidate_throughput: ObjectiveSide
    """Throughput of the version to move to."""
    candidate_latency: ObjectiveSide
    """Latency of the version to move to, seconds."""


class LoadCurveOut(ResultModel):
    """Throughput against a latency at several loads of the same traffic, for pictures."""

    load: Literal["concurrency", "request_rate"]
    """What rises from point to point: requests at once, or requests that arrive in a second."""
    throughput: str
    """`output_throughput`, or `request_throughput` where no tokens are generated."""
    latency: str
    """The one that is promised, as `ttft_p99`; without a promise its median."""
    limit: float | None
    """The promise for this latency, seconds; null: none."""
    confidence: float
    """Level of the intervals."""
    points: list[LoadPointOut] = Field(min_length=2)
    """At least two, the smallest load first."""

    @property
    def name(self) -> str:
        """Of the scenarios: `c8 to c64`."""
        names = list(dict.fromkeys(point.scenario for point in self.points))
        return names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"


class CostOut(ResultModel):
    """What a million output tokens cost at the load of one scenario."""

    scenario: str
    """Of the suite, or as the import named it. One server has its load."""
    basis: str
    """The series that it comes from: `output_throughput`, or `max_load@slo` with the output tokens of a request."""
    gpu_hour: float
    """Price of one GPU for an hour, as configured, in the user's currency."""
    gpus: int
    """GPUs of the server, on both sides."""
    baseline: ObjectiveSide
    """Cost per million output tokens on the version that runs now."""
    candidate: ObjectiveSide
    """Cost per million output tokens on the version to move to."""
    change: float
    """Relative to the baseline; positive is dearer."""
    interval: tuple[float, float]
    """Of the change, over server starts."""
    confidence: float
    """Level of the intervals."""
    text: str
    """The same in one sentence."""


class WorkaroundOut(ResultModel):
    """A way around a known issue."""

    text: str
    """What to do."""
    engine_args: dict[str, Any] = Field(default_factory=dict)
    """Engine arguments to set."""
    env: dict[str, str] = Field(default_factory=dict)
    """Environment variables to set."""
    cost: str | None = None
    """What it costs, where known."""


class KnownIssueOut(ResultModel):
    """A recorded issue of the versions between baseline and candidate, matched against the deployment."""

    id: str
    """Name of the record: `VLLM-28882`."""
    summary: str
    """One sentence."""
    kind: IssueKind
    """What goes wrong."""
    severity: Severity
    """How bad it is where it applies."""
    version_regression: bool
    """False: no earlier version is known to be free of it."""
    url: str
    """The thread in which it was reported."""
    applies: Applies
    """Whether this deployment has it."""
    why: str
    """The facts that say so, or those that are missing."""
    missing: list[str] = Field(default_factory=list)
    """If `applies` is unknown: the flags that would give the missing facts, for example `--model`."""
    status: Status
    """Whether the candidate has the fix. A closed thread alone is never a fix."""
    status_why: str
    """The evidence for the status."""
    effect: Effect
    """What the move does: brings it, carries it over or resolves it."""
    effect_why: str
    """Which of the two versions have it."""
    blocks: bool
    """Whether it alone fails the gate."""
    matched_series: list[str] = Field(default_factory=list)
    """The regressions that this issue explains."""
    score: float | None = None
    """Probability that it caused at least one of the regressions; null if it could have caused none."""
    measured: IssueObservation | None = None
    """Null if nothing was measured, if the record claims no loss, or if the move does not introduce the issue."""
    measured_why: str = ""
    """The measurements behind `measured`."""
    workarounds: list[WorkaroundOut] = Field(default_factory=list)
    """Ways around it."""


class CauseOut(ResultModel):
    """A known issue that may have caused a regression."""

    issue: str
    """Its id."""
    probability: float
    """That it did, 0 to 1, under the model of docs/joining.md."""


class AuditFindingOut(ResultModel):
    """What costs a server speed or may cost it, by its start log and /metrics, on at least one of the two sides."""

    id: str
    """A rule of `audit` that fires, `MOE001`; else a kind of difference, with what it is about after a colon:
    `kv_cache_smaller`, `backend_changed:moe`."""
    text: str
    """One sentence, with both sides."""
    effect: AuditEffect
    """What the move does: brings it, carries it over or resolves it."""
    baseline: str | None = None
    """What the baseline's servers had; null: they did not print it."""
    candidate: str | None = None
    """What the candidate's servers had."""
    evidence: list[str] = Field(default_factory=list)
    """Where it was seen, with the number of server starts."""
    severity: Literal["note", "low", "medium", "high", "critical"] | None = None
    """Of a rule; null for a difference."""
    costs: str | None = None
    """Why that costs speed, for a rule."""
    remedy: str | None = None
    """What to do, for a rule."""
    url: str | None = None
    """Where the rule is documented or reported."""
    same_as: list[str] = Field(default_factory=list)
    """Ids of differences that this rule says with more detail, whether they are in this list or not."""


class MeasuredChangeOut(ResultModel):
    """A change between two servers of a counter-test."""

    change: float | None
    """Estimated loss, as in `series`: positive is worse."""
    interval: tuple[float | None, float | None] | None
    """Its confidence interval, at the level of `series`."""
    verdict: Verdict
    """What is shown of it, as of any series."""
    runs: int
    """Server starts of each."""
    text: str
    """`+48.5% [+40.2%, +57.4%]`: what happened, with its own sign."""


class CounterTestSeriesOut(ResultModel):
    """What a counter-test measured of one regression."""

    series: str
    """`scenario/metric`."""
    outcome: CounterTestOutcome
    """Of this series alone."""
    from_baseline: MeasuredChangeOut
    """From the baseline to the server with the setting."""
    to_candidate: MeasuredChangeOut
    """From the server with the setting to the candidate."""


class CounterTestOut(ResultModel):
    """What would take a cause away, to measure whether it was one."""

    side: Literal["candidate", "baseline"]
    """Whose servers are given another setting: the candidate's, that of the baseline; or the other way around."""
    text: str
    """`0.20.0 with --moe-backend triton`."""
    engine_args: dict[str, Any] = Field(default_factory=dict)
    """Engine arguments to set."""
    env: dict[str, str] = Field(default_factory=dict)
    """Environment variables to set."""
    packages: dict[str, str] = Field(default_factory=dict)
    """Dependencies to install in these versions, in place of those of the build."""
    command: str
    """That measures both versions with the setting: if it was the cause, they no longer differ."""
    outcome: CounterTestOutcome | None = None
    """What was measured of it (`compare --attribute`); null: nothing was."""
    outcome_text: str = ""
    """The numbers of a series that has this outcome, or why it could not be measured."""
    measured: list[CounterTestSeriesOut] = Field(default_factory=list)
    """Each regression of the explanation; empty before the second block."""


class ObservedCauseOut(ResultModel):
    """A difference between the servers that may have caused a regression."""

    finding: str
    """Id of the finding in `audit`, or the part of a request that is slower by itself: `prefill_slower`."""
    text: str
    """One sentence."""
    evidence: list[str]
    """Numbers of both sides, with the number of server starts."""
    weight: float
    """0 to 1, for the order: the share of the loss in the parts of a request on which it acts, times how directly the
    evidence shows it. No probability."""
    counter_test: CounterTestOut | None = None
    """Null: no flag or variable is known that undoes it."""


class ExplanationOut(ResultModel):
    """Regressions of one scenario that are one piece of evidence, and the known issues that may have caused them."""

    series: list[str]
    """`scenario/metric` of the regressions."""
    issue: str | None
    """The issue that explains them; null: unexplained."""
    causes: list[CauseOut] = Field(default_factory=list)
    """The most likely first. The rest of the probability is that of causes without a record."""
    breakdown: list[str] = Field(default_factory=list)
    """The parts of a request (waiting, prefill, decoding) as the servers counted them, on both sides."""
    observed: list[ObservedCauseOut] = Field(default_factory=list)
    """What the servers did differently: a cause that a counter-test has confirmed first, then the most likely."""
    measured: bool = False
    """Whether a counter-test has confirmed the first cause."""


class WaiverOut(ResultModel):
    """A waiver of the configuration, and whether it held."""

    finding: str
    """Series or issue that it covers; patterns allowed."""
    until: date
    """Last day on which it holds."""
    max_change: float
    """Largest loss that it covers."""
    owner: str
    """Who answers for it."""
    reason: str
    """Why it is acceptable."""
    state: Literal["used", "expired", "exceeded", "unused"]
    """Whether it was needed and held."""
    detail: str
    """The finding that it covers, or why it is not valid."""


class InterimOut(ResultModel):
    """The interim analysis of an experiment that is analysed after each block: levels are those of this analysis."""

    blocks: int
    """Completed blocks."""
    most_blocks: int
    """Blocks that the plan allows."""


class PlanOut(ResultModel):
    """How the runs were made, and the further data behind their uncertainty."""

    paired: bool
    """Whether each value is compared with the other side's value of the same block."""
    apart: bool
    """Whether the sides have no session in common, so that they also differ in time."""
    earlier_runs: int
    """Runs per side of earlier sessions with the same suite and testbed, which also estimate the usual variation."""
    earlier_sessions: int
    """Sessions from which they come."""
    looks: InterimOut | None = None
    """Null: one analysis only."""


class VersionLevelOut(ResultModel):
    """What a version of the history measured of a series that regressed."""

    version: str
    """A stored version of the same suite and testbed."""
    runs: int
    """Runs that count."""
    mean: float | None
    """Over runs, as the mean of a side; null: not measured."""
    lowest: float | None
    """Of the run with the smallest value."""
    highest: float | None
    """Of the run with the largest value."""
    position: Literal["before", "after", "unknown"] | None
    """On which side of the step the version is shown to be; null: not measured."""


class ChangePointOut(ResultModel):
    """With which stored version a regression came."""

    series: str
    """`scenario/metric`."""
    kind: str
    """`step`."""
    version: str
    """The first version that is shown to have it; else the candidate."""
    after: str
    """The last that is shown to be without it."""
    untold: list[str]
    """Versions between the two whose runs do not show on which side they are, or were not read."""
    is_candidates: bool
    """Whether no older version is shown to have it."""
    before_baseline: str | None
    """The nearest version before the baseline, if it is shown to be at the candidate's level."""
    text: str
    """The same in a sentence."""
    versions: list[VersionLevelOut] = Field(default_factory=list)
    """Those that were looked at, from before the baseline to the candidate. Empty: results from before this was
    recorded."""


class DeploymentOut(ResultModel):
    """The server of a deployment file that was checked."""

    name: str
    """Of the service, container or unit."""
    where: str
    """File and line."""
    lines: dict[str, PositiveInt] = Field(default_factory=dict)
    """Known lines of that file: of the `image`, and of arguments as they stand there (`--swap-space`)."""


class Result(ResultModel):
    """What `compare` or `check` found."""

    schema_version: Literal["1"] = "1"
    """Of this object: keys are added, never removed or renamed, within one."""
    tool_version: str
    """Of regress-gate."""
    created: AwareDatetime
    """When it was decided, UTC."""
    command: Literal["compare", "check"] = "compare"
    """`check` measures nothing: it has no series."""
    decision: Decision
    """The answer."""
    exit_code: int
    """Of the command; not the decision's own with `--report-only` or `--on-inconclusive`."""
    advice: str
    """One sentence: what to do next."""
    recommended: str | None = None
    """With `check --recommend`: the newest release that passes. Null: not asked for, or none does."""
    reasons: list[Reason]
    """Why, the heaviest first."""
    baseline: VersionSide | None
    """The version that runs now; null for a check without one."""
    candidate: VersionSide
    """The version to move to."""
    move: Move | None = None
    """Null: no baseline, or versions without an order."""
    deployment: DeploymentOut | None = None
    """Null without --deployment."""
    launch_line_is_complete: bool | None = None
    """Whether the whole launch line was given, so that what it does not set has its default. Null: results from before
    this was recorded."""
    suite: SuiteOut | None = None
    """Null for a check."""
    testbed: TestbedOut | None = None
    """Null for a check, or without runs."""
    hosts: list[HostOut] = Field(default_factory=list)
    """Of a comparison over several testbeds of one class, by name; empty for one testbed."""
    series: list[SeriesResult] = Field(default_factory=list)
    """By scenario, then as the metrics are catalogued."""
    objectives: list[ObjectiveOut] = Field(default_factory=list)
    """Of `[gate.slo]`, for each scenario that has the metric."""
    void_runs: list[VoidRun] = Field(default_factory=list)
    """Runs that do not count."""
    failed_runs: list[FailedRun] = Field(default_factory=list)
    """Servers that failed."""
    runs: list[RunOut] = Field(default_factory=list)
    """The newest of all runs, in the order of time: those of `run_values`. Empty where nothing was compared."""
    distributions: list[DistributionOut] = Field(default_factory=list)
    """Of the scenarios with the largest losses, those first."""
    costs: list[CostOut] = Field(default_factory=list)
    """Where the price of a GPU hour is configured, of scenarios in which the server sets the pace: capacities first,
    then the cheapest."""
    load_curves: list[LoadCurveOut] = Field(default_factory=list)
    """Of scenarios that differ only in their load, and of the rates around a capacity."""
    known_issues: list[KnownIssueOut] = Field(default_factory=list)
    """Every record in question, also those that do not apply."""
    coverage: CoverageOut | None = None
    """How far the records reach. Null: results from before this was recorded."""
    audit: list[AuditFindingOut] = Field(default_factory=list)
    """What differs between the servers of both sides, and the rules of `audit` that fire on both, on the candidate
    alone (new) or on the baseline alone (resolved); new findings first. Empty: nothing, or nothing was kept."""
    explanations: list[ExplanationOut] = Field(default_factory=list)
    """Of every regression, also of metrics that do not gate."""
    waivers: list[WaiverOut] = Field(default_factory=list)
    """All that are configured."""
    change_points: list[ChangePointOut] = Field(default_factory=list)
    """With which stored version between the two a regression came, as far as their runs show it."""
    config_changes: list[dict[str, Any]] = Field(default_factory=list)
    """What changed besides speed: `kind`, `name`, `before`, `after`, `matters` (blocks, affects or informs), `why`."""
    plan: PlanOut | None = None
    """How the runs were made; null where nothing was compared."""
    warnings: list[str] = Field(default_factory=list)
    """Limitations that do not change the decision."""
    policy_notices: list[str] = Field(default_factory=list)
    """Where the policy, or a waiver, lets more pass than the defaults do: which setting, from where."""
