"""Robust location and scale of small arrays, and spikes held down: the ground the other modules stand on."""

import numpy as np
from scipy.ndimage import median_filter

from regress_gate.stats.changepoints.types import Floats

_BOUND = 2.0
_CONSISTENT = 0.9205
"""E[min(z², 2²)] of a standard normal z: makes the bounded second moment estimate a variance."""
_TRIMMED = 0.7895
"""Root mean square of the nine tenths of |z| that are smallest, for the same z."""


def spread(deviations: Floats) -> float:
    """Standard deviation about zero, with deviations beyond two of it held at two (Huber's proposal 2).

    Starts from the trimmed root mean square, not from the median, because benchmark values are often quantised and
    the median of their deviations is then 0.
    """
    size = len(deviations)
    if size == 0:
        return 0.0
    squares = deviations * deviations
    squares.sort()
    kept = squares[: max(1, (9 * size) // 10)]
    variance = float(kept.sum()) / len(kept) / _TRIMMED**2
    for _ in range(3):
        variance = float(np.minimum(squares, _BOUND**2 * variance).sum()) / size / _CONSISTENT
    return float(np.sqrt(variance))


def median(values: Floats) -> float:
    ordered = np.sort(values)
    middle = len(ordered) // 2
    return float(ordered[middle]) if len(ordered) % 2 else 0.5 * float(ordered[middle - 1] + ordered[middle])


def hold_spikes(values: Floats, noise: float, bound: float = 3.0) -> Floats:
    """The values with what sticks out of the running median of seven by more than `bound` noises held there.

    A level that lasts four points is its own median and is not touched, so steps keep their size and place.
    """
    middle = median_filter(values, 7, mode="mirror")
    return np.asarray(middle + np.clip(values - middle, -bound * noise, bound * noise))
