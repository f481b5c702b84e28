"""Two small linear models of run-level values: the effects of order and time, and the side of a step.

`estimate_order_effects` says how the position of a run in its experiment changed its values: started second in a block,
and drift over time. Alternating blocks keep both out of the comparison of versions.

`step_positions` says on which side of a known step a version between its two ends is. A step from a baseline to a
candidate has been shown, and versions between the two were measured as well. Model: run-level values on the analysis
scale (logarithms of a ratio metric) are normal with one variance for all versions, pooled within them. Each version was
measured on a day of its own, which adds a normal offset of standard deviation `between_days`. A version is after the
step when its mean is shown to lie beyond the middle between the two ends, and before it when it is shown not to reach
the middle: a contrast (mean of the version less half the sum of the ends' means), tested with Student's t on the pooled
degrees of freedom. `error` is the chance that any of the versions is put on the wrong side, divided among them
(Bonferroni), so "unknown" is a common answer. Limits: a version that has made only a part of the step is near the
middle and is on neither side. Not for finding steps, and not for saying whether there is one.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt
from scipy.special import stdtr, stdtrit

from regress_gate.stats.estimate import MIN_TIMING_CV

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class OrderEffect:
    """A relative change of the value; positive is a larger value, whether that is better or not."""

    size: float
    interval: tuple[float, float]
    """At 95 %, of this effect alone."""
    p_value: float
    """Two-sided, of "no effect", for this effect alone."""


@dataclass(frozen=True, slots=True)
class OrderEffects:
    """On one series."""

    second: OrderEffect
    """Of being started second in a block, against first."""
    drift: OrderEffect
    """Per block."""


def estimate_order_effects(
    values: Floats,
    versions: Sequence[str],
    blocks: Sequence[int],
    second: Sequence[bool],
    *,
    min_cv: float = MIN_TIMING_CV,
) -> OrderEffects | None:
    """Least squares of the logarithms on version, order and block number. None where the runs cannot separate them.

    Runs are independent and equally spread given these, and drift is a straight line. The spread is never taken to be
    less than `min_cv`, as in the comparison.
    """
    if len(values) < 5 or values.min() <= 0:
        return None
    columns = [np.ones(len(values))]
    columns += [np.array([each == name for each in versions], dtype=np.float64) for name in sorted(set(versions))[1:]]
    columns.append(np.array(second, dtype=np.float64))
    columns.append(np.array(blocks, dtype=np.float64) - min(blocks))
    design = np.column_stack(columns)
    freedom = len(values) - design.shape[1]
    if freedom < 1 or np.linalg.matrix_rank(design) < design.shape[1]:
        return None
    solved, *_ = np.linalg.lstsq(design, np.log(values), rcond=None)
    rest = np.log(values) - design @ solved
    variance = max(float(rest @ rest) / freedom, min_cv**2)
    errors = np.sqrt(np.diag(np.linalg.inv(design.T @ design)) * variance)
    of_order, of_time = (_effect(float(solved[at]), float(errors[at]), freedom) for at in (-2, -1))
    return OrderEffects(of_order, of_time)


def _effect(size: float, error: float, freedom: int) -> OrderEffect:
    half = float(stdtrit(freedom, 0.975)) * error
    p_value = 2 * float(stdtr(freedom, -abs(size) / error))
    return OrderEffect(math.expm1(size), (math.expm1(size - half), math.expm1(size + half)), p_value)


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
