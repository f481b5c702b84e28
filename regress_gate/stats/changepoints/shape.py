"""Did the level jump, or did it move gradually? Ramps and steps separated.

Neighbouring steps of the same direction, or one step, are compared with a ramp that spans them: level, straight line,
level, with begin and end of the line searched on a grid. Both are least squares fits of the values with spikes bounded.
The ramp is chosen when its log likelihood is ahead by 3, after each step has paid the log of the number of points for
its two parameters and the ramp for its three. A ramp has at least four points; anything shorter is a step.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from regress_gate.stats.changepoints.noise import NoiseModel
from regress_gate.stats.changepoints.series import Floats

_SIDE = 60
_GRID = 30
_LEAST_WIDTH = 4
_AHEAD = 3.0
_APART = 40


def runs_of_steps(starts: Sequence[int], sizes: Sequence[float]) -> list[list[int]]:
    """Neighbouring starts, as positions in `starts`, whose steps go the same way and that one ramp could explain."""
    groups: list[list[int]] = []
    for i, (start, size) in enumerate(zip(starts, sizes, strict=True)):
        if groups and size * sizes[i - 1] > 0.0 and start - starts[i - 1] <= _APART:
            groups[-1].append(i)
        else:
            groups.append([i])
    return groups


@dataclass(frozen=True, slots=True)
class Ramp:
    begin: int
    """Last point of the old level."""
    end: int
    """First point of the new one."""
    squares: float
    """Sum of squares about the fit."""


def fit_ramp(values: Floats, steps: Sequence[int] = ()) -> Ramp | None:
    """The best ramp through the values that spans the `steps`; None when there is none."""
    size = len(values)
    grid = np.unique(np.linspace(2, size - 3, min(_GRID, max(2, size - 4))).round().astype(np.int64))
    begin, end = (axis.ravel() for axis in np.meshgrid(grid, grid, indexing="ij"))
    wide = end - begin >= _LEAST_WIDTH
    if steps:
        wide &= (begin < steps[0]) & (end >= steps[-1])
    begin, end = begin[wide], end[wide]
    if len(begin) == 0:
        return None
    line = np.clip((np.arange(size) - begin[:, None]) / (end - begin)[:, None], 0.0, 1.0)
    line -= line.mean(axis=1, keepdims=True)
    centred = values - values.mean()
    explained = (line @ centred) ** 2 / (line * line).sum(axis=1)
    best = int(explained.argmax())
    return Ramp(int(begin[best]), int(end[best]), float(centred @ centred) - float(explained[best]))


def find_ramp(held: Floats, before: int, steps: Sequence[int], after: int, noise: NoiseModel) -> tuple[int, int] | None:
    """(last point of the old level, first point of the new) of a ramp in place of `steps`, between the neighbouring
    changes `before` and `after`; None where steps explain the values as well."""
    low, high = max(before, steps[0] - _SIDE), min(after, steps[-1] + _SIDE)
    values = held[low:high]
    within = [step - low for step in steps]
    ramp = fit_ramp(values, within)
    if ramp is None:
        return None
    edges = [0, *within, len(values)]
    about_steps = sum(float(((values[a:b] - values[a:b].mean()) ** 2).sum()) for a, b in pairwise(edges))
    ahead = (about_steps - ramp.squares) / (2.0 * noise.sd**2 * noise.inflation(math.inf))
    if ahead + (2 * len(steps) - 3) * math.log(len(values)) / 2.0 < _AHEAD:
        return None
    return low + ramp.begin, low + ramp.end


def ramp_against_smooth(values: Floats, noise: NoiseModel) -> float:
    """Log likelihood ratio of the best ramp against the best line or cubic, costs of their coefficients included."""
    ramp = fit_ramp(values)
    if ramp is None:
        return -math.inf
    size = len(values)
    basis, _ = np.linalg.qr(np.vander(np.linspace(-1.0, 1.0, size), 4, increasing=True))
    parts = basis.T @ values
    line = float(values @ values) - float(parts[:2] @ parts[:2])
    cubic = line - float(parts[2:] @ parts[2:])
    cost = 2.0 * math.log(size) * noise.sd**2
    return (min(line, cubic + cost) - ramp.squares - cost) / (2.0 * noise.sd**2 * noise.inflation(math.inf))
