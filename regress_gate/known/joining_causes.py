"""The causes that a loss may have, with what is assumed of each: known issues, and causes that nobody has recorded.

The numbers here are the model's assumptions; docs/joining.md says where each comes from.
"""

import math
from collections.abc import Sequence

import numpy as np

from regress_gate.known.joining_posterior import Cause
from regress_gate.known.signature import PACE, Claim, Unit
from regress_gate.model.finding import Applies, Effect, IssueFinding, Status
from regress_gate.model.issue import Confidence

P_RECORD = {Confidence.HIGH: 0.7, Confidence.MEDIUM: 0.45, Confidence.LOW: 0.2}
"""Probability that versions and scope are as recorded, and that the issue is seen by whoever they fit."""
P_APPLIES = {Applies.YES: 1.0, Applies.UNKNOWN: 0.3, Applies.MITIGATED: 0.1, Applies.NO: 0.0}
P_EFFECT = {Effect.NEW: 1.0, Effect.CARRIED: 0.05, Effect.RESOLVED: 0.0}
"""What both versions have makes no difference between them, unless it has grown."""
P_NOT_FIXED = {Status.FIX_IN_CANDIDATE: 0.1, Status.MEASURED_FIXED: 0.05}
"""Of statuses that say that the issue is gone; 1 for all others."""

HIT = (0.95, 0.5, 0.1, 0.01)
"""By the steps from what a record names."""
OWN = (0.5, 1.0, 1.0, 1.0)
"""By the same, standard deviation of the logarithm of the size between workloads: first that of the ranges in the
records."""
SHARED = 0.6
"""The same between this machine and that of the report."""
UNSIZED_CENTER, UNSIZED_SHARED = math.log(0.26), 1.1
"""Median and spread of the sizes in the records, for those that give none."""

P_RIVAL = 0.3
"""Probability that a version has a cause of losses in many series that no record tells of."""
HIT_RIVAL = 0.7
RIVAL_CENTER = math.log(0.1)
"""Below that of the records: what is reported is what was large enough to be noticed."""
_SMALLEST = 0.01
"""A claimed size of nothing has no logarithm."""


def prior(finding: IssueFinding) -> float:
    """Probability that the issue makes a difference here between the two versions, before any measurement.

    It does when all of these hold, taken as independent: the record is right, it applies, the move brings it, and it
    is not fixed.
    """
    found = P_RECORD[finding.issue.confidence] * P_APPLIES[finding.applies] * P_EFFECT[finding.effect]
    return found * P_NOT_FIXED.get(finding.status, 1.0)


def issue_cause(finding: IssueFinding, claims: Sequence[Claim | None]) -> Cause:
    """`claims`: one for each unit. A cause whose sizes are all unknown has them in common all the more widely."""
    sized = any(claim is not None and claim.size is not None for claim in claims)
    signs = {"worse": 1.0, "better": -1.0, "unchanged": 0.0}
    return Cause(
        prior=prior(finding),
        hit=np.array([0.0 if claim is None else HIT[claim.steps] for claim in claims]),
        sign=np.array([0.0 if claim is None else signs[claim.direction] for claim in claims]),
        center=np.array([_center(claim) for claim in claims]),
        own=np.array([OWN[0] if claim is None else OWN[claim.steps] for claim in claims]),
        shared=SHARED if sized else UNSIZED_SHARED,
    )


def rivals(units: Sequence[Unit]) -> list[Cause]:
    """Causes that no record tells of: of everything that has to do with pace, of one family, of one scenario.

    Each of the three kinds is as likely as the others, and so is each cause of a kind.
    """
    of_pace = [unit.family in (*PACE, "throughput", "goodput") for unit in units]
    kinds = [[of_pace], _groups([unit.family for unit in units]), _groups([unit.scenario for unit in units])]
    return [
        Cause(
            prior=P_RIVAL / len(kinds) / len(groups),
            hit=np.where(group, HIT_RIVAL, 0.0),
            sign=np.ones(len(units)),
            center=np.full(len(units), RIVAL_CENTER),
            own=np.full(len(units), OWN[0]),
            shared=UNSIZED_SHARED,
        )
        for groups in kinds
        for group in groups
    ]


def _groups(names: Sequence[str]) -> list[list[bool]]:
    return [[name == each for name in names] for each in dict.fromkeys(names)]


def _center(claim: Claim | None) -> float:
    """Of the logarithm of the size: the middle of the claimed range."""
    if claim is None or claim.size is None or claim.direction == "unchanged":
        return UNSIZED_CENTER
    low, high = (max(end, _SMALLEST) for end in claim.size)
    return (math.log(low) + math.log(high)) / 2
