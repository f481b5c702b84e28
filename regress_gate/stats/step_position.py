"""On which side of a known step a version between its two ends is.

A step from a baseline to a candidate has been shown, and versions between the two were measured as well. Model:
run-level values on the analysis scale (logarithms of a ratio metric) are normal with one variance for all versions,
pooled within them. Each version was measured on a day of its own, which adds a normal offset of standard deviation
`between_days`. A version is after the step when its mean is shown to lie beyond the middle between the two ends, and
before it when it is shown not to reach the middle: a contrast (mean of the version less half the sum of the ends'
means), tested with Student's t on the pooled degrees of freedom. `error` is the chance that any of the versions is put
on the wrong side, divided among them (Bonferroni), so "unknown" is a common answer.

Limits: a version that has made only a part of the step is near the middle and is on neither side. Not for finding
steps, and not for saying whether there is one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt
from scipy.special import stdtr

Floats = npt.NDArray[np.float64]

BETWEEN_DAYS = 0.01
"""Standard deviation of a day's offset, as a share of the level, for versions that were not measured together."""


class StepPosition(StrEnum):
    BEFORE = "before"
    AFTER = "after"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, eq=False)
class StepEnds:
    """The two ends of a step that has been shown."""

    before: Floats
    """Run-level values on the analysis scale, (runs,)."""
    after: Floats


def step_positions(
    step: StepEnds, versions: Sequence[Floats], *, error: float, least_sd: float, between_days: float = BETWEEN_DAYS
) -> list[StepPosition]:
    """For each version's run-level values (runs,), the side of the step that it is shown to be on.

    `least_sd`: the least standard deviation between runs that is assumed.
    """
    ends = step.before, step.after
    middle = (float(ends[0].mean()) + float(ends[1].mean())) / 2
    sign = 1.0 if float(ends[1].mean()) >= float(ends[0].mean()) else -1.0
    everything = [*ends, *versions]
    freedom = sum(len(values) - 1 for values in everything)
    if freedom < 1:
        return [StepPosition.UNKNOWN] * len(versions)
    squares = sum(float(((values - values.mean()) ** 2).sum()) for values in everything)
    variance = max(squares / freedom, least_sd**2)
    of_ends = sum(variance / len(values) + between_days**2 for values in ends) / 4
    sides = []
    for values in versions:
        beyond = sign * (float(values.mean()) - middle)
        deviation = (variance / len(values) + between_days**2 + of_ends) ** 0.5
        doubt = float(stdtr(freedom, -abs(beyond) / deviation))
        shown = doubt <= error / 2 / len(versions)
        sides.append(StepPosition.UNKNOWN if not shown else StepPosition.AFTER if beyond > 0 else StepPosition.BEFORE)
    return sides
