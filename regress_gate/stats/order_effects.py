"""How the position of a run in its experiment changed its values: started second in a block, and drift over time.

Not for comparing versions: alternating blocks keep both effects out of that. This module says how large they were.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

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
