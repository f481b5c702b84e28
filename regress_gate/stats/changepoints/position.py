"""Where exactly between two levels the series stepped, and how sure that is.

With both levels known, each place has a likelihood: points before it are scored against the left level, points after it
against the right one. Scores are those of Student's t with four degrees of freedom, so a point that fits neither level
says little. The likelihood of the places, normalised (a flat prior), gives the interval; dependence between points
flattens it. The place that is told is the likeliest. Source: D. V. Hinkley 1970, doi 10.1093/biomet/57.1.1, for known
levels. Limits: levels are taken as known, which makes the interval of a weak step somewhat short.
"""

from dataclasses import dataclass

import numpy as np

from regress_gate.stats.changepoints.types import Floats

_FREEDOM = 4.0


@dataclass(frozen=True, slots=True)
class Position:
    index: int
    interval: tuple[int, int]


def locate(
    values: Floats, offset: int, left: float, right: float, scale: float, inflation: float, shortest: int
) -> Position:
    """`values` are those of both stretches, the first at index `offset`; `shortest` points stay on each side."""
    before = np.log1p(((values - left) / scale) ** 2 / _FREEDOM)
    after = np.log1p(((values - right) / scale) ** 2 / _FREEDOM)
    lead = 0.5 * (_FREEDOM + 1.0) * np.cumsum(after - before)[:-1] / inflation  # of a step after point i
    first = max(1, min(shortest, len(values) - 1))
    last = max(first, len(values) - shortest)
    lead = lead[first - 1 : last]
    best = int(lead.argmax())
    weights = np.exp(lead - lead[best])
    weights /= weights.sum()
    total = np.cumsum(weights)
    low, high = int(np.searchsorted(total, 0.025)), int(np.searchsorted(total, 0.975))
    place = offset + first
    return Position(place + best, (place + min(low, best), place + min(len(weights) - 1, max(high, best))))
