"""The best division of a series into level stretches, given the places where one may start.

Optimal partitioning (B. Jackson et al. 2005, doi 10.1109/LSP.2001.838216) of the sum of squares with a penalty a
change, over the candidates only, pruned as in PELT (R. Killick et al. 2012, doi 10.1080/01621459.2012.737745): exact
on the candidates and about linear in their number. Values are expected with spikes held down. The penalty is kept low;
`evidence` judges what comes out.
"""

import numpy as np

from regress_gate.stats.changepoints.types import Floats, Ints


def partition(values: Floats, places: Ints, noise: float, penalty: float, shortest: int = 2) -> list[int]:
    """Starts of the second and later stretches, a subset of `places`."""
    size = len(values)
    centred = (values - values.mean()) / noise
    edges = np.concatenate(([0], places, [size]))
    sums = np.concatenate(([0.0], np.cumsum(centred)))[edges]
    best = np.empty(len(edges))
    best[0] = -penalty
    back = np.zeros(len(edges), dtype=np.int64)
    alive = np.array([0])
    for stop in range(1, len(edges)):
        length = edges[stop] - edges[alive]
        gain = sums[stop] - sums[alive]
        without = best[alive] - gain * gain / length
        total = np.where(length >= shortest, without + penalty, np.inf)
        choice = int(total.argmin())
        best[stop], back[stop] = total[choice], alive[choice]
        alive = np.append(alive[(without <= best[stop]) | (length < shortest)], stop)
    chosen, edge = [], int(back[-1])
    while edge > 0:
        chosen.append(int(edges[edge]))
        edge = int(back[edge])
    return chosen[::-1]
