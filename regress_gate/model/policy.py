"""The policy of the gate: which metrics decide, how large a loss is acceptable, how sure the gate has to be."""

from datetime import date
from fnmatch import fnmatchcase
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StringConstraints

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
    """A part of a policy: what is given replaces the default, margins pattern by pattern."""

    metrics: list[MetricPattern] | None = None
    margins: dict[MetricPattern, OpenFraction] = Field(default_factory=dict)
    false_alarm_budget: FalseAlarmBudget | None = None
    confidence: ConfidenceLevel | None = None
    expected_cv: OpenFraction | None = None
    block_severity: Severity | Literal["never"] | None = None
    on_inconclusive: Literal["pass", "fail"] | None = None


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
    """The metrics that decide (gate), where they were measured. All others are reported."""
    margins: dict[MetricPattern, OpenFraction] = Field(default_factory=dict)
    """The largest acceptable loss by metric or glob, later patterns first; over `DEFAULT_MARGINS`."""
    false_alarm_budget: FalseAlarmBudget = 0.05
    """Chance of a false `fail`, over all gated series together."""
    confidence: ConfidenceLevel = 0.90
    """Of each series' two-sided interval; a loss of the size of the margin passes in at most half of the rest."""
    expected_cv: OpenFraction = 0.05
    """Run-to-run coefficient of variation assumed only to say how many runs a first comparison needs."""
    block_severity: Severity | Literal["never"] = Severity.HIGH
    """A known issue that applies, is new and is at least this severe fails the gate."""
    on_inconclusive: Literal["pass", "fail"] | None = None
    """What exit code an inconclusive decision gives while a team rolls the gate out; None: its own."""

    def gates(self, name: str) -> bool:
        """Whether a metric decides. A glob does not reach one that only describes: that has to be named in full."""
        if name in METRICS and METRICS[name].describes:
            return name in self.metrics
        return any(fnmatchcase(name, pattern) for pattern in self.metrics)

    def margin(self, name: str) -> float:
        """The largest acceptable loss of a metric: relative, or a difference for metrics on that scale.

        A glob that speaks of ratios (`*`: 20 %) does not reach the others, where the same number means something else.
        """
        absolute = metric(name).scale is Scale.DIFFERENCE
        for pattern, value in reversed(self.margins.items()):
            if fnmatchcase(name, pattern) and not (absolute and _reaches_ratios(pattern)):
                return value
        return next(value for pattern, value in DEFAULT_MARGINS.items() if fnmatchcase(name, pattern))

    def over(self, *layers: PolicyOverrides) -> "Policy":
        """This policy with each layer laid over it in turn."""
        merged = self
        for layer in layers:
            given = {key: value for key, value in layer if value is not None and key != "margins"}
            # A pattern that is given again moves to the end: a layer's patterns go before all of the layers below.
            kept = {key: value for key, value in merged.margins.items() if key not in layer.margins}
            margins = {**kept, **layer.margins}
            merged = Policy.model_validate({**merged.model_dump(), **given, "margins": margins})
        return merged


def _reaches_ratios(pattern: str) -> bool:
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
"""First match wins. Relative losses, but for failed_requests and accuracy: differences of fractions."""


# MERGED regress_gate.model.waiver: Waivers: a dated, owned, size-capped permission to pass in spite of one finding.


ShortText = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=500)]


class Waiver(StrictModel):
    """All keys are required: a permission without an end, an owner, a cap or a reason is a hole in the gate."""

    finding: ShortText
    """A series as `scenario/metric` (glob patterns allowed) or a known issue's id."""
    until: date
    """Last day on which it holds."""
    max_change: Annotated[StrictFloat, Field(gt=0)]
    """Largest loss that is waived, on the scale of the series' change: the upper end of its interval must lie below.
    For a known issue it has no effect."""
    owner: ShortText
    reason: ShortText

    def covers(self, finding: str) -> bool:
        return fnmatchcase(finding, self.finding)

    def is_expired(self, today: date) -> bool:
        return today > self.until
