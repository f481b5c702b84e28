"""How much a series scatters between server starts, and what a number of starts can therefore show.

Pooled within versions: what differs between versions is not noise. Not for deciding about two versions.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from regress_gate.model.metric import Direction, Scale
from regress_gate.stats.power import POWER

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Noise:
    """Of one series, on the analysis scale: logarithms of a ratio metric, plain values of a difference metric."""

    run_sd: float
    """Standard deviation between runs of one version."""
    degrees_of_freedom: int
    """Runs behind it, less one a version: with 4 the true one lies within 0.6 and 2.9 times this, at 95 %."""


def pooled_noise(groups: Sequence[Floats], scale: Scale) -> Noise | None:
    """From run-level values, one array a version. None without two runs of one version, or without a logarithm."""
    sums, freedom = 0.0, 0
    for values in groups:
        if len(values) < 2:
            continue
        if scale is Scale.RATIO:
            if values.min() <= 0:
                continue
            values = np.log(values)
        sums += float(values.var(ddof=1)) * (len(values) - 1)
        freedom += len(values) - 1
    return Noise(math.sqrt(sums / freedom), freedom) if freedom else None


def detectable_loss(run_sd: float, runs: int, error: float) -> float:
    """The loss that is found with a power of POWER by a one-sided test at `error`, with `runs` runs a side.

    (t_error + t_power) s √(2 / n) with n − 1 degrees of freedom, as the comparison has them; infinite for one run.
    """
    if runs < 2:
        return math.inf
    freedom = runs - 1
    reach = float(stdtrit(freedom, 1 - error)) + float(stdtrit(freedom, POWER))
    return run_sd * reach * math.sqrt(2 / runs)


def loss_as_change(loss: float, direction: Direction, scale: Scale) -> float:
    """From the analysis scale to the reported one, as `estimate.to_change` has it."""
    if scale is Scale.DIFFERENCE or not math.isfinite(loss):
        return loss
    return math.expm1(loss) if direction is Direction.LOWER else -math.expm1(-loss)


@dataclass(frozen=True, slots=True)
class Effects:
    """What the place of a run in its experiment did to one series; relative for a ratio metric. Ends at 95 %."""

    second: float
    """Of being started second in a block, against first; positive is a larger value."""
    second_interval: tuple[float, float]
    drift: float
    """Per block."""
    drift_interval: tuple[float, float]


def place_effects(
    values: Floats, sides: Sequence[str], blocks: Sequence[int], positions: Sequence[int]
) -> Effects | None:
    """Least squares of the logarithms on side, position and block number. None where the blocks cannot tell them apart.

    Runs are independent given these; the intervals are the usual ones of a linear model.
    """
    if len(values) < 5 or values.min() <= 0 or len(set(positions)) < 2 or len(set(blocks)) < 2:
        return None
    columns = [np.ones(len(values))]
    columns += [np.array([side == name for side in sides], dtype=np.float64) for name in sorted(set(sides))[1:]]
    columns.append(np.array(positions, dtype=np.float64) - 1)
    columns.append(np.array(blocks, dtype=np.float64))
    design = np.column_stack(columns)
    freedom = len(values) - design.shape[1]
    if freedom < 1 or np.linalg.matrix_rank(design) < design.shape[1]:
        return None
    solved, *_ = np.linalg.lstsq(design, np.log(values), rcond=None)
    rest = np.log(values) - design @ solved
    covariance = np.linalg.inv(design.T @ design) * float(rest @ rest) / freedom
    reach = float(stdtrit(freedom, 0.975))
    ends = []
    for index in (-2, -1):
        half = reach * math.sqrt(max(0.0, float(covariance[index, index])))
        middle = float(solved[index])
        ends.append((math.expm1(middle), (math.expm1(middle - half), math.expm1(middle + half))))
    return Effects(ends[0][0], ends[0][1], ends[1][0], ends[1][1])
