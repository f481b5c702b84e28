"""Attributes measured losses to known issues, and says which claims of the records were not observed.

Pure: losses and findings in, probabilities and texts out. The model is in `posterior`. Its assumptions are the numbers
below; docs/joining.md gives the source of each. Not for: the decision. A loss counts, whatever its cause.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from regress_gate.known.joining.posterior import Cause, cause_posterior
from regress_gate.known.matching.findings import ExclusionReason
from regress_gate.known.matching.signature import PACE, Claim, ObservedLoss, claim_on
from regress_gate.model.issue import Applies, Confidence, Effect, IssueFinding, KnownIssue, Status, WorkloadRegion
from regress_gate.model.result import IssueObservation

P_RECORD = {Confidence.HIGH: 0.7, Confidence.MEDIUM: 0.45, Confidence.LOW: 0.2}
"""Probability that versions and scope are as recorded, and that every deployment in them has the issue."""
P_APPLIES = {Applies.YES: 1.0, Applies.UNKNOWN: 0.3, Applies.MITIGATED: 0.1, Applies.NO: 0.0}
P_EFFECT = {Effect.NEW: 1.0, Effect.CARRIED: 0.05, Effect.RESOLVED: 0.0}
"""An issue of both versions makes no difference between them, unless it has grown."""
P_NOT_FIXED = {Status.FIX_IN_CANDIDATE: 0.1, Status.MEASURED_FIXED: 0.05, Status.ABSENT_IN_CODE: 0.05}
"""For statuses of a fixed issue; 1 for all others."""

HIT = (0.95, 0.5, 0.1, 0.01)
"""Probability that an active cause affects a loss, by the steps from what the record names."""
OWN = (0.5, 1.0, 1.0, 1.0)
"""By the same steps: standard deviation of the logarithm of the size between workloads. The first is that of the ranges
in the records."""
SHARED = 0.6
"""The same between this machine and the machine of the report."""
UNSIZED_CENTER, UNSIZED_SHARED = math.log(0.26), 1.1
"""Median and spread of the sizes in the records, for records without a size."""

P_UNRECORDED = 0.3
"""Probability that a version has an unrecorded cause of losses in many series."""
HIT_UNRECORDED = 0.7
UNRECORDED_CENTER = math.log(0.1)
"""Below the median of the records: only losses that are large enough to notice are reported."""
_SMALLEST_SIZE = 0.01
"""A claimed size of zero has no logarithm."""


def issue_prior(finding: IssueFinding) -> float:
    """Probability that the issue makes a difference here between the two versions, before any measurement.

    Four conditions, taken as independent, must hold: the record is right, it applies, the move brings the issue, and it
    is not fixed.
    """
    prior = P_RECORD[finding.issue.confidence] * P_APPLIES[finding.applies] * P_EFFECT[finding.effect]
    return prior * P_NOT_FIXED.get(finding.status, 1.0)


def issue_cause(finding: IssueFinding, claims: Sequence[Claim | None]) -> Cause:
    """The cause for one issue. `claims`: one for each loss. Without any size, the common part varies more."""
    sized = any(claim is not None and claim.size is not None for claim in claims)
    signs = {"worse": 1.0, "better": -1.0, "unchanged": 0.0}
    return Cause(
        prior=issue_prior(finding),
        hit=np.array([0.0 if claim is None else HIT[claim.steps] for claim in claims]),
        sign=np.array([0.0 if claim is None else signs[claim.direction] for claim in claims]),
        center=np.array([_log_size(claim) for claim in claims]),
        own=np.array([OWN[0] if claim is None else OWN[claim.steps] for claim in claims]),
        shared=SHARED if sized else UNSIZED_SHARED,
    )


def unrecorded_causes(units: Sequence[ObservedLoss]) -> list[Cause]:
    """Causes without a record: one for all families of speed, one for each family, one for each scenario.

    The three kinds are equally likely, and so are the causes of a kind.
    """
    of_pace = [unit.family in (*PACE, "throughput", "goodput") for unit in units]
    kinds = [
        [of_pace],
        _membership_by_name([unit.family for unit in units]),
        _membership_by_name([unit.scenario for unit in units]),
    ]
    return [
        Cause(
            prior=P_UNRECORDED / len(kinds) / len(groups),
            hit=np.where(group, HIT_UNRECORDED, 0.0),
            sign=np.ones(len(units)),
            center=np.full(len(units), UNRECORDED_CENTER),
            own=np.full(len(units), OWN[0]),
            shared=UNSIZED_SHARED,
        )
        for groups in kinds
        for group in groups
    ]


def _membership_by_name(names: Sequence[str]) -> list[list[bool]]:
    return [[name == each for name in names] for each in dict.fromkeys(names)]


def _log_size(claim: Claim | None) -> float:
    """The logarithm of the claimed size: the middle of its range."""
    if claim is None or claim.size is None or claim.direction == "unchanged":
        return UNSIZED_CENTER
    low, high = (max(end, _SMALLEST_SIZE) for end in claim.size)
    return (math.log(low) + math.log(high)) / 2


EXPLAINS = 0.5
"""Probability from which a record explains a loss: likelier than everything else together."""
_WORTH_NAMING = 0.02
"""Probability from which a record is named as a possible cause."""
_MAX_NAMED = 3


@dataclass(frozen=True, slots=True)
class IssueAttribution:
    """What the measurements show about one record."""

    measured: IssueObservation
    why: str
    series: tuple[str, ...] = ()
    """Regressions that it explains."""
    score: float | None = None
    """Probability that it caused at least one of the regressions; None if it cannot have caused any."""


@dataclass(frozen=True, slots=True)
class LossExplanation:
    """The regressions of one loss, and the records that may have caused them."""

    unit: ObservedLoss
    shares: tuple[tuple[str, float], ...]
    """Issue and probability, the likeliest first."""

    @property
    def issue(self) -> str | None:
        return self.shares[0][0] if self.shares and self.shares[0][1] >= EXPLAINS else None


@dataclass(frozen=True, slots=True)
class Attribution:
    explanations: tuple[LossExplanation, ...]
    """One for each loss with a regression."""
    standings: dict[str, IssueAttribution]
    """By issue id. Issues without a signature are left out, and carried issues that explain nothing."""


def attribute_losses(
    findings: Sequence[IssueFinding], units: Sequence[ObservedLoss], excluded: ExclusionReason
) -> Attribution:
    """Every regression with its likeliest records, and every record with a claim and its outcome."""
    live = [finding for finding in findings if finding.issue.signature and issue_prior(finding) > 0]
    claims = {
        finding.issue.id: [
            None if excluded(finding.issue, unit.scenario) else claim_on(finding.issue, unit) for unit in units
        ]
        for finding in live
    }
    lost = np.array([bool(unit.regressions) for unit in units], dtype=bool)
    suspects = [
        finding
        for finding in live
        if any(
            claim is not None and claim.direction == "worse"
            for claim, is_lost in zip(claims[finding.issue.id], lost, strict=True)
            if is_lost
        )
    ]
    shares: dict[str, list[float]] = {}
    scores: dict[str, float] = {}
    if suspects:
        others = [cause for cause in unrecorded_causes(units) if cause.hit[lost].any()]
        posterior = cause_posterior(
            np.array([unit.loss for unit in units]),
            np.array([unit.standard_error for unit in units]),
            [*(issue_cause(finding, claims[finding.issue.id]) for finding in suspects), *others],
            exclusive=len(others),
            asked=lost,
        )
        for at, finding in enumerate(suspects):
            shares[finding.issue.id] = [float(value) for value in posterior.made[at]]
            scores[finding.issue.id] = float(posterior.made_any[at])
    standings = {}
    for finding in live:
        standing = _attribute_issue(finding, units, claims[finding.issue.id], shares, scores, excluded)
        if standing is not None:
            standings[finding.issue.id] = standing
    return Attribution(
        tuple(_explain_loss(unit, at, shares) for at, unit in enumerate(units) if unit.regressions), standings
    )


def _explain_loss(unit: ObservedLoss, at: int, shares: dict[str, list[float]]) -> LossExplanation:
    near = sorted(
        ((name, each[at]) for name, each in shares.items() if each[at] >= _WORTH_NAMING), key=lambda one: -one[1]
    )
    return LossExplanation(unit, tuple(near[:_MAX_NAMED]))


def _attribute_issue(
    finding: IssueFinding,
    units: Sequence[ObservedLoss],
    claims: Sequence[Claim | None],
    shares: dict[str, list[float]],
    scores: dict[str, float],
    excluded: ExclusionReason,
) -> IssueAttribution | None:
    name = finding.issue.id
    score = scores.get(name)
    explained = [
        unit for at, unit in enumerate(units) if unit.regressions and name in shares and shares[name][at] >= EXPLAINS
    ]
    if explained:
        series = tuple(series for unit in explained for series in unit.regressions)
        return IssueAttribution(IssueObservation.EXPLAINS, _list_text([unit.text for unit in explained]), series, score)
    if finding.effect is not Effect.NEW:
        return None
    tested = [
        (unit, claim)
        for unit, claim in zip(units, claims, strict=True)
        if claim is not None and claim.is_direct and claim.direction == "worse"
    ]
    if not tested:
        return IssueAttribution(
            IssueObservation.NOT_TESTABLE, _untestable_reason(finding.issue, units, excluded), score=score
        )
    measurements = _list_text([unit.text for unit, _ in tested])
    if all(unit.bounds[1] < _smallest_claimed_loss(claim, unit) for unit, claim in tested):
        return IssueAttribution(IssueObservation.NOT_OBSERVED, f"less than it claims: {measurements}", score=score)
    return IssueAttribution(IssueObservation.UNCLEAR, f"neither shown nor excluded: {measurements}", score=score)


def _smallest_claimed_loss(claim: Claim, unit: ObservedLoss) -> float:
    """The smallest loss that the claim allows; for a claim without a size, the user's margin."""
    return claim.size[0] if claim.size is not None else unit.margin


def _untestable_reason(issue: KnownIssue, units: Sequence[ObservedLoss], excluded: ExclusionReason) -> str:
    """Why no scenario can show the issue, or what a scenario would need."""
    reasons = [excluded(issue, unit.scenario) for unit in units]
    if units and all(reasons):
        return f"no scenario can show it: {reasons[0]}"
    wanted = [
        part.metric + ("" if (where := _region_text(part.workload or issue.scope.workload)) is None else f" at {where}")
        for part in issue.signature
        if part.direction == "worse"
    ]
    if not wanted:
        return "the record claims no loss"
    return f"it would show in {_list_text(list(dict.fromkeys(wanted)))}, which was not measured"


def _region_text(region: WorkloadRegion | None) -> str | None:
    limits = [f"{field} {condition}" for field, condition in region or () if condition is not None]
    return ", ".join(limits) or None


def _list_text(texts: Sequence[str], limit: int = 2) -> str:
    return "; ".join(texts[:limit]) + (f"; and {len(texts) - limit} more" if len(texts) > limit else "")
