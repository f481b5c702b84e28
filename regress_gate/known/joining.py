"""Hold what was measured against what the records claim: which record made which loss, which claim came to nothing.

Pure: units and findings in, probabilities and words out. The model is that of `joining_posterior`, its assumptions are
in `joining_causes`. Not for deciding anything: a loss counts whoever made it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from regress_gate.known.joining_causes import issue_cause, prior, rivals
from regress_gate.known.joining_posterior import posterior
from regress_gate.known.joining_servers import Excluded
from regress_gate.known.signature import Claim, Unit, claim_on
from regress_gate.model.finding import Effect, IssueFinding
from regress_gate.model.issue import KnownIssue
from regress_gate.model.result import Measured
from regress_gate.model.scope import WorkloadRegion

EXPLAINS = 0.5
"""Probability from which a record is said to explain a loss: likelier than everything else together."""
_NAMED = 0.02
"""Probability from which a record is worth naming as one that comes near."""
_MOST_NEAR = 3


@dataclass(frozen=True, slots=True)
class Standing:
    """What the measurements say of one record."""

    measured: Measured
    why: str
    series: tuple[str, ...] = ()
    """Regressions that it explains."""
    score: float | None = None
    """Probability that it made at least one of the regressions; None where it could have made none."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """The regressions of one unit, and the records that may have made them."""

    unit: Unit
    shares: tuple[tuple[str, float], ...]
    """Issue and probability, the likeliest first."""

    @property
    def issue(self) -> str | None:
        return self.shares[0][0] if self.shares and self.shares[0][1] >= EXPLAINS else None


@dataclass(frozen=True, slots=True)
class Joined:
    explanations: tuple[Explanation, ...]
    """One for each unit with a regression."""
    standings: dict[str, Standing]
    """By issue id; issues without a signature, and those that the move neither brings nor could explain, have none."""


def join(findings: Sequence[IssueFinding], units: Sequence[Unit], excluded: Excluded) -> Joined:
    """Every regression with its likeliest records, and every record that claims something with what came of it."""
    live = [finding for finding in findings if finding.issue.signature and prior(finding) > 0]
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
        others = [cause for cause in rivals(units) if cause.hit[lost].any()]
        found = posterior(
            np.array([unit.loss for unit in units]),
            np.array([unit.standard_error for unit in units]),
            [*(issue_cause(finding, claims[finding.issue.id]) for finding in suspects), *others],
            rivals=len(others),
            asked=lost,
        )
        for at, finding in enumerate(suspects):
            shares[finding.issue.id] = [float(value) for value in found.made[at]]
            scores[finding.issue.id] = float(found.made_any[at])
    standings = {}
    for finding in live:
        standing = _standing(finding, units, claims[finding.issue.id], shares, scores, excluded)
        if standing is not None:
            standings[finding.issue.id] = standing
    return Joined(tuple(_explanation(unit, at, shares) for at, unit in enumerate(units) if unit.regressions), standings)


def _explanation(unit: Unit, at: int, shares: dict[str, list[float]]) -> Explanation:
    near = sorted(((name, each[at]) for name, each in shares.items() if each[at] >= _NAMED), key=lambda one: -one[1])
    return Explanation(unit, tuple(near[:_MOST_NEAR]))


def _standing(
    finding: IssueFinding,
    units: Sequence[Unit],
    claims: Sequence[Claim | None],
    shares: dict[str, list[float]],
    scores: dict[str, float],
    excluded: Excluded,
) -> Standing | None:
    name = finding.issue.id
    score = scores.get(name)
    explained = [
        unit for at, unit in enumerate(units) if unit.regressions and name in shares and shares[name][at] >= EXPLAINS
    ]
    if explained:
        series = tuple(series for unit in explained for series in unit.regressions)
        return Standing(Measured.EXPLAINS, _listed([unit.text for unit in explained]), series, score)
    if finding.effect is not Effect.NEW:
        return None
    tested = [
        (unit, claim)
        for unit, claim in zip(units, claims, strict=True)
        if claim is not None and claim.is_direct and claim.direction == "worse"
    ]
    if not tested:
        return Standing(Measured.NOT_TESTABLE, _untestable(finding.issue, units, excluded), score=score)
    told = _listed([unit.text for unit, _ in tested])
    if all(unit.bounds[1] < _smallest(claim, unit) for unit, claim in tested):
        return Standing(Measured.NOT_OBSERVED, f"less than it claims: {told}", score=score)
    return Standing(Measured.UNCLEAR, f"neither shown nor excluded: {told}", score=score)


def _smallest(claim: Claim, unit: Unit) -> float:
    """The smallest loss that the claim allows; where it names no size, what the user would not accept."""
    return claim.size[0] if claim.size is not None else unit.margin


def _untestable(issue: KnownIssue, units: Sequence[Unit], excluded: Excluded) -> str:
    """Why, and what a scenario would have to be like."""
    reasons = [excluded(issue, unit.scenario) for unit in units]
    if units and all(reasons):
        return f"no scenario can show it: {reasons[0]}"
    wanted = [
        part.metric + ("" if (where := _region(part.workload or issue.scope.workload)) is None else f" at {where}")
        for part in issue.signature
        if part.direction == "worse"
    ]
    if not wanted:
        return "the record claims no loss"
    return f"it would show in {_listed(list(dict.fromkeys(wanted)))}, which was not measured"


def _region(region: WorkloadRegion | None) -> str | None:
    told = [f"{field} {condition}" for field, condition in region or () if condition is not None]
    return ", ".join(told) or None


def _listed(texts: Sequence[str], limit: int = 2) -> str:
    return "; ".join(texts[:limit]) + (f"; and {len(texts) - limit} more" if len(texts) > limit else "")
