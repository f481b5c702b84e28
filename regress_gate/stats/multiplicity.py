"""Adjusting p-values for the number of questions asked at once."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def holm(p_values: Sequence[float]) -> list[float]:
    """Family-wise adjusted p-values by the step-down rule of Holm (1979, Scand. J. Statist. 6:65-70).

    Valid under any dependence between the series. Same order and length as the input; each is in [0, 1].
    """
    return [float(q) for q in weighted_holm(np.asarray(p_values, dtype=np.float64), np.ones(len(p_values)))]


def weighted_holm(p_values: Floats, weights: Floats) -> Floats:
    """As `holm`, where some questions are given a larger part of the budget: `weights`, positive, same shape.

    At each step the weights of what has not been rejected yet share the whole budget (Holm's section 4).
    """
    order = np.argsort(p_values / weights, kind="stable")
    left = weights[order][::-1].cumsum()[::-1]
    stepped = np.maximum.accumulate(p_values[order] / weights[order] * left)
    adjusted = np.empty(len(p_values))
    adjusted[order] = np.minimum(stepped, 1.0)
    return adjusted
