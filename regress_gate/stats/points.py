"""From replicates to points: one value for each time or version, and how sure it is.

Model: replicates of one point scatter around its level with a variance that is the same at all points; it is relative
where all values are positive (log-normal), plain otherwise. So the variance is pooled over all points, and even a point
with one replicate has a known uncertainty. Limits: a point that scatters more than the others is trusted as much as
they are; differences between days are in no variance, because the replicates of a point share their day. Not for
detection.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


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
