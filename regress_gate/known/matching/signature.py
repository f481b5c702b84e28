"""What a record's signature claims about one measured loss: its direction, its size, and how directly.

All losses are on one scale, the logarithm of the ratio by which the candidate is worse: the ratio of latencies, or the
inverse ratio of a quantity that should be high (a throughput, a cache size, a share of right answers). So 50 % more
latency is 0.41 and half the throughput 0.69. Not for: deciding whether a claim came true (`joining`).
"""

import math
from dataclasses import dataclass
from typing import Literal

from regress_gate.known.matching.scope import in_region
from regress_gate.model.issue import KnownIssue, SignaturePart, WorkloadRegion
from regress_gate.model.metric import METRICS, Direction, Scale, metric
from regress_gate.model.suite import Workload

PACE = ("ttft", "decode", "requests")
"""Families whose losses go together: a request's time is the time of its first token plus that of the others, so
`requests` is one step from either, and these two are two steps from each other."""
_THROUGHPUTS = ("request_throughput", "output_throughput", "total_throughput")
_LARGEST_SHARE = 0.99
"""The largest share that can be lost: zero has no logarithm."""


@dataclass(frozen=True, slots=True)
class ObservedLoss:
    """One piece of evidence: the loss of one family of metrics in one scenario.

    Statistics of one family in one scenario come from the same requests and are no independent evidence, so one series
    represents them.
    """

    scenario: str
    family: str
    metric: str
    """The metric of the series that represents the family."""
    workload: Workload
    """Its known properties; empty for what a server does once, such as starting."""
    loss: float
    standard_error: float
    bounds: tuple[float, float]
    """Ends of the comparison's interval for the loss."""
    margin: float
    text: str
    """The series with its change, for display."""
    regressions: tuple[str, ...] = ()
    """Names of the series of this family with the verdict `regression`."""


@dataclass(frozen=True, slots=True)
class Claim:
    steps: int
    """Steps from what the record names to this loss: 0 for a direct claim; one or two for another family (`PACE`), one
    for another statistic or score, and one for a workload outside of the region with the claimed size."""
    direction: Literal["worse", "better", "unchanged"]
    size: tuple[float, float] | None
    """Smallest and largest size, positive; None if the record gives no size."""

    @property
    def is_direct(self) -> bool:
        return self.steps == 0


def family_of(name: str, *, at_rate: bool) -> str:
    """The family of a metric, or of a latency without a statistic (`ttft`).

    In a closed loop throughput is the number of clients over the latency of a request: one family. At a given rate
    (`at_rate`) throughput says whether the server keeps up, and is a family of its own.
    """
    if name in _THROUGHPUTS:
        return "throughput" if at_rate else "requests"
    if name.startswith("accuracy_"):
        return "accuracy"
    latency = name.partition("_")[0]
    return {"ttft": "ttft", "tpot": "decode", "itl": "decode", "e2el": "requests"}.get(latency, name)


def is_tail(name: str) -> bool:
    return name in METRICS and METRICS[name].tail is not None


def log_loss(name: str, change: float) -> float:
    """From a relative loss, positive for worse, to the common scale; `name` as in `family_of`."""
    known = METRICS.get(name) or (metric(name) if name.startswith("accuracy_") else None)
    if known is not None and (known.direction is Direction.HIGHER or known.scale is Scale.DIFFERENCE):
        return -math.log1p(-min(change, _LARGEST_SHARE))
    return math.log1p(max(change, -_LARGEST_SHARE))


def claim_on(issue: KnownIssue, unit: ObservedLoss) -> Claim | None:
    """The record's claim about this loss; None if it makes none. An indirect claim can only be "worse"."""
    by_distance: dict[int, list[SignaturePart]] = {}
    for part in issue.signature:
        inside = _match_region(part, issue.scope.workload, unit.workload)
        distance = _count_steps(part, unit)
        if inside is None or distance is None:
            continue
        steps = distance + (not inside)
        if steps == 0 or part.direction == "worse":
            by_distance.setdefault(steps, []).append(part)
    if not by_distance:
        return None
    steps = min(by_distance)
    direction = by_distance[steps][0].direction
    same = [part for part in by_distance[steps] if part.direction == direction]
    # The scores of two tasks share no scale.
    return Claim(steps, direction, None if steps and unit.family == "accuracy" else _size_range(same))


def is_measurable_in(issue: KnownIssue, workload: Workload) -> bool:
    """Whether such a workload measures a loss directly that the record claims."""
    at_rate = workload.is_open_loop
    return any(
        part.direction == "worse"
        and _match_region(part, issue.scope.workload, workload) is True
        and (family_of(part.metric, at_rate=at_rate) != "throughput" or _names_rate(part))
        for part in issue.signature
    )


def _names_statistic(part: SignaturePart, unit: ObservedLoss) -> bool:
    at_rate = unit.workload.is_open_loop
    if family_of(part.metric, at_rate=at_rate) != unit.family or is_tail(part.metric) != is_tail(unit.metric):
        return False
    if unit.family == "throughput":
        return _names_rate(part)
    return unit.family != "accuracy" or part.metric == unit.metric


def _names_rate(part: SignaturePart) -> bool:
    return part.workload is not None and part.workload.request_rate is not None


def _count_steps(part: SignaturePart, unit: ObservedLoss) -> int | None:
    """Steps from what the part names to the loss; None if they are unrelated."""
    if _names_statistic(part, unit):
        return 0
    family = family_of(part.metric, at_rate=False)
    if family == unit.family or (family in PACE and unit.family in PACE and "requests" in (family, unit.family)):
        return 1
    return 2 if family in PACE and unit.family in PACE else None


def _size_range(parts: list[SignaturePart]) -> tuple[float, float] | None:
    ends = [abs(log_loss(part.metric, end)) for part in parts if part.change is not None for end in part.change]
    return (min(ends), max(ends)) if ends else None


def _match_region(part: SignaturePart, bites: WorkloadRegion | None, workload: Workload) -> bool | None:
    """True inside the region of the claim; False where the issue may apply too; None outside of its scope."""
    if part.workload is not None and _lies_in_region(part.workload, workload):
        return True
    bitten = _lies_in_region(bites, workload)
    if bitten is False:
        return None
    return part.workload is None and bitten is True


def _lies_in_region(region: WorkloadRegion | None, workload: Workload) -> bool | None:
    """None if it depends on an unknown number."""
    if region is None:
        return True
    if not in_region(region, workload):
        return False
    known = all(getattr(workload, field) is not None for field, condition in region if condition is not None)
    return True if known else None
