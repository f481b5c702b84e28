"""What a change point is. For the method see `detection`."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ChangePoint:
    """One change in a series: where, how large, how sure."""

    index: int
    """The first point after the change, 0 < index < n."""
    interval: tuple[int, int]
    """95 % interval of the index, inclusive; of a ramp, from its first to its last point."""
    kind: str
    """"step", "ramp" or "variance"."""
    change: float | None
    """Of the level: relative (0.05 is 5 % larger) where `relative`, else a difference in the unit of the series.
    None for a change of the variance."""
    change_interval: tuple[float, float] | None
    """95 % interval of the change."""
    probability: float
    """That the series changed here."""
    relative: bool
