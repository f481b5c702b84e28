"""Have the last few points left the level? A step while it is new.

Two to four points at the end are too few for a two-sample test, and a spike must never be a step. So all of them must
lie on the same side, each counts for no more than one noise beyond the nearest of them, and together they must lie
further from the level than any earlier window of the same length in the stretch: that last condition needs no model of
tails or dependence. One point alone is never reported. The log likelihood ratio must reach 6.5 plus the log of the
number of points, more than for an older step, because a growing series is tested again at each point.
"""

import math

import numpy as np

from regress_gate.stats.changepoints.elimination import SHORTEST_STRETCH
from regress_gate.stats.changepoints.noise import NoiseModel
from regress_gate.stats.changepoints.series import Floats
from regress_gate.stats.changepoints.steps import as_normal, estimate_level

_FEWEST = 2
_REACH = 60
_LEAST_LEVEL = 12
_ASKED = 6.5


def find_recent_shift(
    values: Floats, start: int, noise: NoiseModel, ask: float = 0.0
) -> tuple[int, float, float, float] | None:
    """(index, size, half width of its 95 % interval, margin) of the best supported shift at the end of [start, n)."""
    best = None
    for count in range(_FEWEST, SHORTEST_STRETCH):
        at = len(values) - count
        before = values[max(start, at - _REACH) : at]
        if len(before) < _LEAST_LEVEL:
            continue
        known = estimate_level(before, noise.sd)
        scale = math.sqrt(known.variance)
        off = (values[at:] - known.mean) / scale
        side = math.copysign(1.0, float(off.sum()))
        off = side * off
        nearest = float(off.min())
        deviations = (before - known.mean) / scale
        windows = np.lib.stride_tricks.sliding_window_view(deviations, count)
        if nearest <= max(float(windows.min(axis=1).max()), -float(windows.max(axis=1).min()), 0.0):
            continue
        shift = float(np.minimum(off, nearest + 1.0).mean())
        error = math.sqrt(noise.inflation(count) / count + noise.inflation(len(before)) / len(before))
        ratio = as_normal(shift / error, max(4.0, len(before) / noise.inflation(math.inf) + 7.0))
        margin = 0.5 * ratio * ratio - _ASKED - math.log(len(values)) - ask
        if margin >= 0.0 and (best is None or margin > best[3]):
            best = (at, side * shift * scale, 2.0 * error * scale, margin)
    return best
