"""A series as the analysis wants it: the points that are there, logarithms where all are positive, alike in noise.

Where replicates say how noisy each point is, a point that is noisier than most is drawn towards the running median of
seven, by as much as makes all deviate alike: its share in a level becomes that of its weight, and steps stay where they
are. What the replicates do not explain is estimated as the rest of the point-to-point noise, and is common to all.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.ndimage import median_filter

from regress_gate.errors import InputError
from regress_gate.stats.changepoints.scale import median, spread
from regress_gate.stats.changepoints.types import Floats, Ints

_LARGEST_LOG = 700.0


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    values: Floats
    """On the scale of the analysis, about their median: logarithms, or shares of the largest value."""
    relative: bool
    """Whether they are logarithms, so that changes are ratios."""
    unit: float
    """What a difference of one is in the unit of the input, where they are not."""
    at: Ints
    """Where each of them stands in the input."""

    def index(self, place: int) -> int:
        return int(self.at[place])

    def change(self, size: float) -> float:
        return math.expm1(min(size, _LARGEST_LOG)) if self.relative else size * self.unit


def prepare(values: Floats, variances: Floats | None) -> Series:
    """Raises InputError when the shapes do not fit or a value is infinite."""
    given = np.asarray(values, dtype=np.float64)
    if given.ndim != 1:
        raise InputError(f"a series has one dimension, not {given.ndim}", todo="pass one value a point")
    if np.isinf(given).any():
        raise InputError("a series holds an infinite value", todo="write a missing value as NaN")
    at = np.flatnonzero(~np.isnan(given)).astype(np.int64)
    raw = given[at]
    relative = bool(len(raw)) and bool(raw.min() > 0.0)
    unit = 1.0 if relative else float(np.abs(raw).max(initial=0.0)) or 1.0
    scaled = np.log(raw) if relative else raw / unit
    scaled -= median(scaled) if len(scaled) else 0.0
    if variances is not None:
        known = np.asarray(variances, dtype=np.float64)
        if known.shape != given.shape:
            raise InputError(
                f"{len(given)} values but variances of shape {known.shape}", todo="pass one variance a value"
            )
        scaled = _alike(scaled, known[at] / unit / unit)
    return Series(scaled, relative, unit, at)


def _alike(values: Floats, variances: Floats) -> Floats:
    there = np.isfinite(variances) & (variances >= 0.0)
    if len(values) < 3 or not there.any():
        return values
    usual = float(np.median(variances[there]))
    total = spread(values[1:] - values[:-1]) ** 2 / 2.0
    common = max(0.0, total - usual)
    of_point = common + np.where(there, variances, usual)
    target = common + usual
    factor = np.sqrt(np.divide(target, of_point, out=np.ones_like(of_point), where=of_point > target))
    middle = median_filter(values, 7, mode="mirror")
    return np.asarray(middle + factor * (values - middle))
