"""Changes of the spread: did the noise itself become larger or smaller?

The square roots of the absolute residuals about the levels are roughly normal, and their mean follows the spread. So
they are searched with the same proposals, partition and test as levels are (a test of spread on absolute deviations is
the idea of H. Levene, 1960). More evidence is required than for a step, and a stretch has at least 20 points, because
spread needs many points to estimate and its change is less urgent.
"""

import numpy as np

from regress_gate.stats.changepoints.elimination import BackwardElimination
from regress_gate.stats.changepoints.noise import NoiseModel
from regress_gate.stats.changepoints.segmentation import Position, partition_series, propose_starts
from regress_gate.stats.changepoints.series import Floats, hold_spikes, spread

_SHORTEST = 20
_ASK = -1.0


def find_spread_changes(residuals: Floats, rho: float, ask: float) -> list[tuple[Position, float]]:
    """(place, margin) of every change of the spread; `ask` is added to the evidence that is required."""
    size = len(residuals)
    roots = np.sqrt(np.abs(residuals))
    noise = spread(roots - np.median(roots))
    if size < 2 * _SHORTEST or noise <= 0.0:
        return []
    held = hold_spikes(roots, noise)
    model = NoiseModel(noise, rho / 2.0)
    starts = partition_series(
        held, propose_starts(held, noise, _SHORTEST // 2), noise, 3.0 * float(np.log(size)), _SHORTEST
    )
    judge = BackwardElimination(held, held, model, _ASK + ask, _SHORTEST)
    kept = judge.settle(starts)
    edges = [0, *kept, size]
    return [(place, judge.margin(*edges[i : i + 3])) for i, place in enumerate(judge.places(kept))]
