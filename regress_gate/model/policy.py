"""The policy of the gate: which metrics decide, margins, objectives, the error budget; and waivers."""

import math
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from fnmatch import fnmatchcase
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StringConstraints, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from regress_gate.errors import InputError
from regress_gate.model.documents import StrictFloat, StrictModel
from regress_gate.model.issue import Severity
from regress_gate.model.metric import CAPACITY, METRICS, OTHER_ATTAINMENTS, STATISTICS, Scale, metric
from regress_gate.text import did_you_mean


def _matches_some_metric(pattern: str) -> str:
    """A metric's name, or a glob pattern that matches at least one."""
    if pattern.startswith("accuracy_") or any(fnmatchcase(name, pattern) for name in METRICS):
        return pattern
    raise ValueError(f"unknown metric {pattern!r}" + did_you_mean(pattern, METRICS))


MetricPattern = Annotated[str, AfterValidator(_matches_some_metric)]
_LIMIT = re.compile(r"(?P<number>\d+(\.\d+)?|\.\d+)\s*(?P<unit>[a-zA-Zµ%/]*)")
_LIMIT_UNITS: dict[str, dict[str, float]] = {
    "s": {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0},
    "bytes": {"MiB": 2.0**20, "GiB": 2.0**30, "MB": 1e6, "GB": 1e9},
    "1/s": {"": 1.0, "/s": 1.0},
    "tokens": {"": 1.0},
    "fraction": {"": 1.0, "%": 0.01},
}
_LIMIT_EXAMPLES = {"s": '"500ms"', "bytes": '"70GiB"', "1/s": "40", "tokens": "200000", "fraction": "0.99"}
OBJECTIVE_FRACTIONS = ("slo_attainment", *OTHER_ATTAINMENTS, "failed_requests")


def objective_limit(key: str, limit: str | float) -> float:
    """The limit of `[gate.slo]` in the catalogue's unit. `key`: a metric, or `scenario/metric` with patterns for the
    scenario. Raises ValueError for a metric that has no limit of its own, and for another unit."""
    name = key.rpartition("/")[2]
    if name not in METRICS:
        raise ValueError(f"unknown metric {name!r}" + did_you_mean(name, METRICS))
    known = METRICS[name]
    if name == CAPACITY:
        raise ValueError(
            f"{name} is compared, not limited: promise slo_attainment in a scenario with your request_rate"
        )
    if known.is_descriptive or (known.unit == "fraction" and name not in OBJECTIVE_FRACTIONS):
        raise ValueError(f"{name} has no level that could be promised: only changes of it mean something")
    if known.unit == "s" and name.endswith("_mean"):
        raise ValueError(f"{name} leaves out requests that failed: give a percentile, in which they count as too slow")
    return parse_limit(name, limit, known.unit)


def parse_limit(name: str, limit: str | float, unit: str) -> float:
    """A limit as people write it, in the unit of a metric. Raises ValueError, with an example."""
    units = _LIMIT_UNITS[unit]
    found = _LIMIT.fullmatch(str(limit).strip())
    if found is None or isinstance(limit, bool) or found["unit"] not in units:
        raise ValueError(f"{limit!r} is no limit for {name}; write {_LIMIT_EXAMPLES[unit]}")
    value = float(found["number"]) * units[found["unit"]]
    if not 0 < value < math.inf or (unit == "fraction" and value > 1):
        raise ValueError(f"{limit!r} is out of range for {name}")
    return value


def _valid_objectives(given: dict[str, str | float]) -> dict[str, str | float]:
    """Raises ValidationError with each wrong limit at its key, so that a message names its line."""
    errors = []
    for key, limit in given.items():
        try:
            objective_limit(key, limit)
        except ValueError as error:
            wrong = PydanticCustomError("value_error", "{what}", {"what": str(error)})
            errors.append(InitErrorDetails(type=wrong, loc=(key,), input=limit))
    if errors:
        raise ValidationError.from_exception_data("objectives", errors)
    return given


Objectives = Annotated[dict[str, str | StrictFloat], AfterValidator(_valid_objectives)]
"""Metric, or `scenario/metric`, to a limit as people write it: `"500ms"`, `0.99`."""
OpenFraction = Annotated[StrictFloat, Field(gt=0, lt=1)]
FalseAlarmBudget = Annotated[StrictFloat, Field(gt=0, le=0.5)]
ConfidenceLevel = Annotated[StrictFloat, Field(ge=0.5, lt=1)]


class PolicyOverrides(StrictModel):
    """A part of a policy: given keys replace the default, margins and objectives key by key."""

    metrics: list[MetricPattern] | None = None
    margins: dict[MetricPattern, OpenFraction] = Field(default_factory=dict)
    slo: Objectives = Field(default_factory=dict)
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


DEFAULT_METRICS: tuple[str, ...] = (
    "ttft_median",
    "ttft_p99",
    "ttft_later_turns_median",
    "tpot_median",
    "tpot_p99",
    "itl_p99",
    "e2el_median",
    "output_throughput",
    "goodput",
    "slo_attainment",
    *OTHER_ATTAINMENTS,
    "max_load@slo",
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


def _kind(*families: str) -> tuple[frozenset[str], tuple[str, ...]]:
    return (
        frozenset(f"{family}_{statistic}" for family in families for statistic in STATISTICS),
        tuple(f"{family}_{statistic}" for family in families for statistic in ("median", "mean")),
    )


_RATES = ("output_throughput", "request_throughput", "total_throughput")
STAND_INS: tuple[tuple[frozenset[str], tuple[str, ...]], ...] = (
    _kind("ttft"),
    _kind("tpot", "itl", "tpot_per_token", "token_gap"),
    _kind("e2el", "normalized_latency", "batch_latency"),
    (frozenset([*_RATES, "batch_throughput"]), _RATES),
)
"""Kinds of metrics (the first token, the tokens after it, the whole request, the rate): all of a kind, and those of
which the first that was measured gates where none of the kind does by default."""


class Policy(StrictModel):
    metrics: tuple[MetricPattern, ...] = DEFAULT_METRICS
    """The metrics that gate, if they were measured. All others are only reported."""
    margins: dict[MetricPattern, OpenFraction] = Field(default_factory=dict)
    """The largest acceptable loss by metric or glob, later patterns first; before `DEFAULT_MARGINS`."""
    slo: Objectives = Field(default_factory=dict)
    """Service-level objectives: limits that the candidate has to keep, whatever the baseline does."""
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

    def gating_metrics(self, measured: Collection[str], unsupported: Collection[str] = ()) -> set[str]:
        """Which of the metrics that one scenario has gate.

        By default a mean, or the request throughput, stands in where the scenario has nothing of its kind that gates.
        `unsupported`: percentiles of too few requests.
        """
        gating = {name for name in measured if self.gates(name)} - set(unsupported)
        if self.metrics != DEFAULT_METRICS:
            return gating
        for alike, names in STAND_INS:
            if gating.isdisjoint(alike):
                gating.update([name for name in names if name in measured][:1])
        return gating

    def margin(self, name: str) -> float:
        """The largest acceptable loss of a metric: relative, or a difference for metrics on that scale."""
        pattern = self.margin_pattern(name)
        return default_margin(name) if pattern is None else self.margins[pattern]

    def margin_pattern(self, name: str) -> str | None:
        """The key of `margins` that holds for a metric; None: the default holds.

        A glob that matches ratio metrics (`*`: 20 %) does not match the others: the number means something else there.
        """
        absolute = metric(name).scale is Scale.DIFFERENCE
        for pattern in reversed(self.margins):
            if fnmatchcase(name, pattern) and not (absolute and _matches_ratio_metric(pattern)):
                return pattern
        return None

    def over(self, *layers: PolicyOverrides) -> "Policy":
        """This policy, overridden by each layer in turn."""
        merged = self
        for layer in layers:
            given = {key: value for key, value in layer if value is not None and key not in ("margins", "slo")}
            # A repeated pattern moves to the end: the patterns of a layer precede all patterns of the layers below.
            kept = {key: value for key, value in merged.margins.items() if key not in layer.margins}
            margins = {**kept, **layer.margins}
            objectives = {**merged.slo, **layer.slo}
            merged = Policy.model_validate({**merged.model_dump(), **given, "margins": margins, "slo": objectives})
        return merged


def _matches_ratio_metric(pattern: str) -> bool:
    return any(fnmatchcase(name, pattern) for name, known in METRICS.items() if known.scale is Scale.RATIO)


DEFAULT_MARGINS: dict[str, float] = {
    "*_p99": 0.10,
    "*_p95": 0.10,
    "*_p90": 0.10,
    "failed_requests": 0.01,
    "slo_attainment": 0.01,
    **dict.fromkeys(OTHER_ATTAINMENTS, 0.01),
    "accuracy_agreement": 0.05,
    "accuracy_logprob": 0.05,
    "accuracy_*": 0.01,
    "startup_time": 0.20,
    "cold_*_time": 0.20,
    "warm_*_time": 0.20,
    "*": 0.05,
}
"""The first match counts. Relative losses; for failed_requests and accuracy, differences of fractions."""


def default_margin(name: str) -> float:
    return next(value for pattern, value in DEFAULT_MARGINS.items() if fnmatchcase(name, pattern))


@dataclass(frozen=True, slots=True)
class PolicyLayer:
    """A part of a policy and where it was given: `suite chat@1`, a file, `the options`."""

    origin: str
    overrides: PolicyOverrides
    is_users: bool = True
    """Whether the user gave it, and not the suite."""


@dataclass(frozen=True, slots=True)
class PolicyWeakness:
    """A setting under which a loss passes that the defaults would not let pass."""

    key: str
    """As in the configuration: `confidence`, `margins.*`."""
    text: str
    origin: str


def policy_weaknesses(layers: Sequence[PolicyLayer]) -> list[PolicyWeakness]:
    """Where the layers together are weaker than the default policy. What a suite gates is its own matter."""
    default, policy = Policy(), Policy().over(*(layer.overrides for layer in layers))

    def last(has: Callable[[PolicyOverrides], object]) -> str:
        return next((layer.origin for layer in reversed(layers) if has(layer.overrides)), "default")

    found = []
    metrics = next((layer for layer in reversed(layers) if layer.overrides.metrics is not None), None)
    dropped = [name for name in METRICS if default.gates(name) and not policy.gates(name)]
    if metrics is not None and metrics.is_users and dropped:
        found.append(PolicyWeakness("metrics", f"only {_listed(policy.metrics)} can fail or pass it", metrics.origin))
    governed: dict[str, list[str]] = {}
    for name in METRICS:
        pattern = policy.margin_pattern(name)
        if pattern is not None and policy.gates(name) and policy.margin(name) > default_margin(name):
            governed.setdefault(pattern, []).append(name)
    for pattern, names in governed.items():
        usual = sorted({default_margin(name) for name in names})
        text = _percent(usual[0]) if len(usual) == 1 else f"{_percent(usual[0])} to {_percent(usual[-1])}"
        origin = last(lambda overrides, pattern=pattern: pattern in overrides.margins)  # type: ignore[misc]
        found.append(
            PolicyWeakness(
                f"margins.{pattern}",
                f'margin "{pattern}" is {_percent(policy.margins[pattern])} (default {text})',
                origin,
            )
        )
    if policy.confidence < default.confidence:
        text = f"confidence is {_percent(policy.confidence)} (default {_percent(default.confidence)})"
        found.append(PolicyWeakness("confidence", text, last(lambda overrides: overrides.confidence is not None)))
    if policy.false_alarm_budget < default.false_alarm_budget:
        text = f"false_alarm_budget is {_percent(policy.false_alarm_budget)} (default "
        text += f"{_percent(default.false_alarm_budget)}), so a loss is harder to show"
        origin = last(lambda overrides: overrides.false_alarm_budget is not None)
        found.append(PolicyWeakness("false_alarm_budget", text, origin))
    if policy.on_inconclusive == "pass":
        text = "what is not decided exits as a pass (on_inconclusive)"
        found.append(PolicyWeakness("on_inconclusive", text, last(lambda overrides: overrides.on_inconclusive)))
    if policy.block_severity == "never" or Severity(policy.block_severity).rank > Severity.HIGH.rank:
        text = f"block_severity is {policy.block_severity} (default {Severity.HIGH})"
        found.append(PolicyWeakness("block_severity", text, last(lambda overrides: overrides.block_severity)))
    return found


LARGE_WAIVER = 0.5
"""Waived loss from which the report begins with the waiver: half of the value."""


def weak_waivers(waivers: Iterable["Waiver"], today: date) -> list[str]:
    """The waivers that let nearly everything pass, in words."""
    return [
        f'waiver "{waiver.finding}" of {waiver.owner} lets losses of up to {_percent(waiver.max_change)} pass'
        for waiver in waivers
        if not waiver.is_expired(today) and (not waiver.finding.strip("*/?") or waiver.max_change >= LARGE_WAIVER)
    ]


def _percent(value: float) -> str:
    return f"{100 * value:.4g}%"


def _listed(patterns: Sequence[str], most: int = 4) -> str:
    return ", ".join(patterns[:most]) + (f" and {len(patterns) - most} more" if len(patterns) > most else "")


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
