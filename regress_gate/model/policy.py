"""The policy of the gate: which metrics decide, the largest acceptable loss, the error budget; and waivers."""

from collections.abc import Sequence
from datetime import date
from fnmatch import fnmatchcase
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StringConstraints

from regress_gate.errors import InputError
from regress_gate.model.documents import StrictFloat, StrictModel
from regress_gate.model.issue import Severity
from regress_gate.model.metric import METRICS, Scale, metric
from regress_gate.text import did_you_mean


def _matches_some_metric(pattern: str) -> str:
    """A metric's name, or a glob pattern that matches at least one."""
    if pattern.startswith("accuracy_") or any(fnmatchcase(name, pattern) for name in METRICS):
        return pattern
    raise ValueError(f"unknown metric {pattern!r}" + did_you_mean(pattern, METRICS))


MetricPattern = Annotated[str, AfterValidator(_matches_some_metric)]
OpenFraction = Annotated[StrictFloat, Field(gt=0, lt=1)]
FalseAlarmBudget = Annotated[StrictFloat, Field(gt=0, le=0.5)]
ConfidenceLevel = Annotated[StrictFloat, Field(ge=0.5, lt=1)]


class PolicyOverrides(StrictModel):
    """A part of a policy: given keys replace the default, margins pattern by pattern."""

    metrics: list[MetricPattern] | None = None
    margins: dict[MetricPattern, OpenFraction] = Field(default_factory=dict)
    false_alarm_budget: FalseAlarmBudget | None = None
    confidence: ConfidenceLevel | None = None
    expected_cv: OpenFraction | None = None
    block_severity: Severity | Literal["never"] | None = None
    on_inconclusive: Literal["pass", "fail"] | None = None

    @classmethod
    def gating(cls, patterns: Sequence[str]) -> "PolicyOverrides":
        """What `--gate` asks for: these metrics or patterns gate and no others. Raises InputError for unknown ones."""
        try:
            return cls(metrics=[_matches_some_metric(pattern) for pattern in patterns])
        except ValueError as error:
            raise InputError(str(error), where="--gate") from None


class Policy(StrictModel):
    metrics: tuple[MetricPattern, ...] = (
        "ttft_median",
        "ttft_p99",
        "tpot_median",
        "tpot_p99",
        "itl_p99",
        "e2el_median",
        "output_throughput",
        "goodput",
        "failed_requests",
        "normalized_latency_median",
        "tpot_per_token_median",
        "batch_latency_median",
        "batch_throughput",
        "cold_start_time",
        "warm_start_time",
        "startup_time",
        "peak_memory",
        "kv_cache_tokens",
        "accuracy_*",
    )
    """The metrics that gate, if they were measured. All others are only reported."""
    margins: dict[MetricPattern, OpenFraction] = Field(default_factory=dict)
    """The largest acceptable loss by metric or glob, later patterns first; before `DEFAULT_MARGINS`."""
    false_alarm_budget: FalseAlarmBudget = 0.05
    """Probability of a false `fail` over all gated series together."""
    confidence: ConfidenceLevel = 0.90
    """Of each series' two-sided interval; a loss of the size of the margin passes in at most half of the rest."""
    expected_cv: OpenFraction = 0.05
    """Assumed run-to-run coefficient of variation; only used to plan the runs of a first comparison."""
    block_severity: Severity | Literal["never"] = Severity.HIGH
    """A known issue that applies, is new and is at least this severe fails the gate."""
    on_inconclusive: Literal["pass", "fail"] | None = None
    """Exit code of an inconclusive decision while a team introduces the gate; None: 3."""

    def gates(self, name: str) -> bool:
        """Whether a metric gates. A glob does not match a descriptive metric: that must be named in full."""
        if name in METRICS and METRICS[name].is_descriptive:
            return name in self.metrics
        return any(fnmatchcase(name, pattern) for pattern in self.metrics)

    def margin(self, name: str) -> float:
        """The largest acceptable loss of a metric: relative, or a difference for metrics on that scale.

        A glob that matches ratio metrics (`*`: 20 %) does not match the others: the number means something else there.
        """
        absolute = metric(name).scale is Scale.DIFFERENCE
        for pattern, value in reversed(self.margins.items()):
            if fnmatchcase(name, pattern) and not (absolute and _matches_ratio_metric(pattern)):
                return value
        return next(value for pattern, value in DEFAULT_MARGINS.items() if fnmatchcase(name, pattern))

    def over(self, *layers: PolicyOverrides) -> "Policy":
        """This policy, overridden by each layer in turn."""
        merged = self
        for layer in layers:
            given = {key: value for key, value in layer if value is not None and key != "margins"}
            # A repeated pattern moves to the end: the patterns of a layer precede all patterns of the layers below.
            kept = {key: value for key, value in merged.margins.items() if key not in layer.margins}
            margins = {**kept, **layer.margins}
            merged = Policy.model_validate({**merged.model_dump(), **given, "margins": margins})
        return merged


def _matches_ratio_metric(pattern: str) -> bool:
    return any(fnmatchcase(name, pattern) for name, known in METRICS.items() if known.scale is Scale.RATIO)


DEFAULT_MARGINS: dict[str, float] = {
    "*_p99": 0.10,
    "*_p95": 0.10,
    "*_p90": 0.10,
    "failed_requests": 0.01,
    "accuracy_agreement": 0.05,
    "accuracy_logprob": 0.05,
    "accuracy_*": 0.01,
    "startup_time": 0.20,
    "cold_*_time": 0.20,
    "warm_*_time": 0.20,
    "*": 0.05,
}
"""The first match counts. Relative losses; for failed_requests and accuracy, differences of fractions."""


ShortText = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=500)]


class Waiver(StrictModel):
    """A permission to pass in spite of one finding, with an end, an owner, a cap and a reason: all are required."""

    finding: ShortText
    """A series as `scenario/metric` (glob patterns allowed) or a known issue's id."""
    until: date
    """Last day on which it is valid."""
    max_change: Annotated[StrictFloat, Field(gt=0)]
    """Largest waived loss, on the scale of the series' change: the upper end of its interval must be below.
    Has no effect on a known issue."""
    owner: ShortText
    reason: ShortText

    def covers(self, finding: str) -> bool:
        return fnmatchcase(finding, self.finding)

    def is_expired(self, today: date) -> bool:
        return today > self.until
