"""A series and its change points as values, and robust location and scale of small arrays.

`prepare_series` keeps the usable points, takes logarithms where all are positive, and makes the noise of all points
equal: where replicates say how noisy each point is, a point that is noisier than most is drawn towards the running
median of seven. Its share in a level then becomes that of its weight, and steps stay where they are. Noise that the
replicates do not explain is estimated from the rest of the point-to-point noise, and is common to all points.

`pool_points` makes points of replicates: one value for each time or version, and how sure it is. Model: replicates of
one point scatter around its level with a variance that is the same at all points; it is relative where all values are
positive (log-normal), plain otherwise. So the variance is pooled over all points, and even a point with one replicate
has a known uncertainty. Limits: a point that scatters more than the others is trusted as much as they are; differences
between days are in no variance, because the replicates of a point share their day. Not for finding changes
(`detection`).
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.ndimage import median_filter

from regress_gate.errors import InputError

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
    """Position of each value in the input."""

    def index(self, place: int) -> int:
        return int(self.at[place])

    def change(self, size: float) -> float:
        return math.expm1(min(size, _LARGEST_LOG)) if self.relative else size * self.unit


def prepare_series(values: Floats, variances: Floats | None) -> Series:
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
        scaled = _equal_noise(scaled, known[at] / unit / unit)
    return Series(scaled, relative, unit, at)


def _equal_noise(values: Floats, variances: Floats) -> Floats:
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


@dataclass(frozen=True, slots=True, eq=False)
class SeriesPoints:
    values: Floats
    """(points,) geometric means where all replicates are positive, arithmetic ones otherwise; NaN where a point has no
    value."""
    variances: Floats | None
    """(points,) of those means, relative where they are geometric; None where no point has two replicates."""


def pool_points(replicates: Floats, starts: npt.NDArray[np.int64], *, relative: bool = True) -> SeriesPoints:
    """`replicates` holds the points one after the other, the first replicate of each at `starts` (ascending from 0).

    Values that are NaN are no replicates. `relative`: whether values scatter by a share of themselves, if all are
    positive; where they do not, or cannot, means are arithmetic and variances plain.
    """
    known = ~np.isnan(replicates)
    relative = relative and bool((replicates[known] > 0).all())
    plain = np.where(known, replicates, 1.0)
    scaled = np.where(known, np.log(plain) if relative else plain, 0.0)
    counts = np.add.reduceat(known.astype(np.int64), starts)
    some = np.maximum(counts, 1)
    means = np.add.reduceat(scaled, starts) / some
    owner = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(replicates)))
    deviations = np.where(known, scaled - means[owner], 0.0)
    freedom = int((some - 1).sum())
    values = np.exp(means) if relative else means
    # A value that was measured once must not change in its last digit.
    values = np.where(counts == 1, np.add.reduceat(np.where(known, replicates, 0.0), starts), values)
    values = np.where(counts > 0, values, np.nan)
    if not freedom:
        return SeriesPoints(values, None)
    pooled = float((deviations**2).sum()) / freedom
    return SeriesPoints(values, np.where(counts > 0, pooled / some, np.nan))
