"""On which side of a known step a version between its two ends stands.

A step from a baseline to a candidate has been shown; versions between the two were measured as well. Model: run-level
values on the analysis scale (logarithms of a ratio metric) are normal with one variance for all versions, pooled within
them; on top of it each version, measured on a day of its own, is off by a normal offset of standard deviation
`between_days`. A version stands after the step when its mean is shown to lie beyond the middle between the two ends,
before it when it is shown not to reach the middle: a contrast (mean of the version less half the sum of the ends'
means), tested with Student's t on the pooled degrees of freedom. `error` is the chance that any of the versions is put
on the wrong side, shared out over them (Bonferroni), so "cannot be told" is a common answer, and the honest one.

Limits: a version that has made a part of the step only stands near the middle and is on neither side. Not for finding
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
"""Standard deviation of a day's offset, as a share of the level, for versions that nobody measured together."""


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
    """For each version's run-level values (runs,), the side of the step that it is shown to stand on.

    `least_sd`: standard deviation between runs that no series is believed to undercut.
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
