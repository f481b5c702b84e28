"""How far hosts of one class differ: in the level that they run at, and in the change that they show.

Both versions of a block run on one host, so the level of a host cancels in the block's difference and the comparison of
versions needs nothing of this module. It says beside it whether one of the hosts tells another story.

Model: run-level values on the analysis scale, where larger is worse. A host has a level of its own; blocks of one host
scatter around it with one variance for all hosts, found within hosts (N blocks on H hosts leave N - H degrees of
freedom). A host's level and change are relative to the mean of the hosts' means, so that a host with many blocks does
not define what is usual.

`find_deviating` names hosts whose change differs from the others' by more than chance allows: each host against the
mean of the others, by Student's t with the variance within hosts, one test for the mean over all series (half of the
budget) and one for each series (the other half). Holm's rule goes over hosts and tests (S. Holm 1979, Scand. J.
Statist. 6:65-70); a host that is named is taken out of what the others are compared with, because one that is far off
would make all others look different from their mean. With two hosts that differ, nothing says which is the odd one.

`find_outlying` names hosts whose level lies apart. Hosts of one class do differ, by some per cent, so the variance
within hosts says nothing here: each is compared with the spread of the others' levels, a new value of a normal sample
of H - 1 (t with H - 2 degrees of freedom). From two that happen to be alike a third is soon far, so there have to be
five.

`fit_levels` finds levels from sessions of several versions, of which a host has measured some: effects of host and
version by least squares (two-way analysis of variance without interaction), the session being the unit. What a host's
sessions show beyond their version is its level over time, which `changepoints` looks at.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import stdtr, stdtrit

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_OVERALL = 0.5
"""Share of the budget for the mean over all series."""
_FEWEST = 5
"""Hosts whose levels say how far such hosts differ."""


@dataclass(frozen=True, slots=True, eq=False)
class HostMeans:
    """Of q scores of every block, by host."""

    means: Floats
    """Shape (hosts, q)."""
    blocks: Ints
    """Shape (hosts,)."""
    variance: Floats
    """Shape (q,): of a score between blocks of one host; meaningless without degrees of freedom."""
    freedom: int
    """Blocks less hosts: 0 if every host has one block, and then nothing is known of the variance."""

    def relative(self, confidence: float) -> tuple[Floats, Floats | None]:
        """Each shape (hosts, q): means less the mean of all hosts, and half the width of their intervals."""
        count = len(self.means)
        centred = self.means - self.means.mean(axis=0)
        shares = np.full((count, count), -1 / count) + np.eye(count)
        return centred, self._half_width(shares**2 @ (1 / self.blocks), confidence)

    def absolute(self, confidence: float) -> tuple[Floats, Floats | None]:
        """The same of the means themselves."""
        return self.means, self._half_width(1 / self.blocks, confidence)

    def _half_width(self, factors: Floats, confidence: float) -> Floats | None:
        if not self.freedom:
            return None
        reach = float(stdtrit(self.freedom, 0.5 + confidence / 2))
        return np.asarray(reach * np.sqrt(factors[:, None] * self.variance[None, :]))


@dataclass(frozen=True, slots=True)
class DeviatingHost:
    host: int
    score: int
    """The column in which it differs most clearly."""
    difference: float
    """From the mean of the others."""
    p_value: float
    """Two-sided, of this host and score alone."""


def host_means(scores: Floats, hosts: Ints, least: Floats) -> HostMeans:
    """`scores`: shape (blocks, q); `hosts`: shape (blocks,), numbers from 0 without gaps; `least`: shape (q,), the
    least variance that is assumed."""
    count = int(hosts.max()) + 1
    blocks = np.bincount(hosts, minlength=count)
    means = np.vstack([scores[hosts == host].mean(axis=0) for host in range(count)])
    freedom = len(scores) - count
    squares = ((scores - means[hosts]) ** 2).sum(axis=0)
    return HostMeans(means, blocks, np.maximum(squares / max(freedom, 1), least), freedom)


def find_deviating(found: HostMeans, budget: float) -> list[DeviatingHost]:
    """Hosts whose scores differ from the others', the clearest first. Column 0 is the mean over all series.

    `budget`: the chance that any host is named when all are alike.
    """
    if not found.freedom:
        return []
    columns = found.means.shape[1]
    shares = np.full(columns, (1 - _OVERALL) / max(columns - 1, 1))
    shares[0] = _OVERALL if columns > 1 else 1.0
    left, deviating = list(range(len(found.means))), list[DeviatingHost]()
    while len(left) > 1:
        means, parts = found.means[left], 1 / found.blocks[left]
        others = (means.sum(axis=0) - means) / (len(left) - 1)
        factors = parts + (parts.sum() - parts) / (len(left) - 1) ** 2
        errors = np.sqrt(factors[:, None] * found.variance[None, :])
        p_values = 2 * stdtr(found.freedom, -np.abs(means - others) / errors)
        tests = 1 if len(found.means) == 2 else len(left)  # of two hosts both tests are the same one
        at, score = np.unravel_index(np.argmin(p_values / shares), p_values.shape)
        if p_values[at, score] * tests > budget * shares[score]:
            break
        named = [int(at)] if len(left) > 2 else [0, 1]
        for each in named:
            difference = float(means[each, score] - others[each, score])
            deviating.append(DeviatingHost(left[each], int(score), difference, float(p_values[each, score])))
        left = [host for position, host in enumerate(left) if position not in named]
    return deviating


def find_outlying(levels: Sequence[float], budget: float) -> list[int]:
    """Hosts whose level lies apart from the spread of the others', the clearest first. `budget` as above."""
    left, outlying = list(range(len(levels))), list[int]()
    while len(left) >= _FEWEST:
        values = np.array([levels[host] for host in left])
        p_values = []
        for at in range(len(left)):
            others = np.delete(values, at)
            error = max(float(others.std(ddof=1)), 1e-12) * np.sqrt(1 + 1 / len(others))
            p_values.append(2 * float(stdtr(len(others) - 1, -abs(values[at] - others.mean()) / error)))
        at = int(np.argmin(p_values))
        if p_values[at] * len(left) > budget:
            break
        outlying.append(left.pop(at))
    return outlying


@dataclass(frozen=True, slots=True, eq=False)
class FittedLevels:
    levels: Floats
    """Shape (hosts,): against the mean of the hosts."""
    half: Floats | None
    """Half the width of their intervals; None: no session more than is needed to fit."""
    own: Floats
    """Shape (sessions,): what is left of each session without its version: the level of its host at that time."""


def fit_levels(scores: Floats, hosts: Ints, versions: Ints, confidence: float) -> FittedLevels | None:
    """All of shape (sessions,), numbers from 0 without gaps. None where hosts have too few versions in common."""
    count, builds = int(hosts.max()) + 1, int(versions.max()) + 1
    coding = np.vstack([np.eye(count - 1), -np.ones(count - 1)])  # effects that add up to zero
    design = np.hstack([coding[hosts], np.eye(builds)[versions]])
    if np.linalg.matrix_rank(design) < design.shape[1]:
        return None
    solved, *_ = np.linalg.lstsq(design, scores, rcond=None)
    levels = coding @ solved[: count - 1]
    own = scores - solved[count - 1 :][versions]
    freedom = len(scores) - design.shape[1]
    if freedom < 1:
        return FittedLevels(levels, None, own)
    rest = scores - design @ solved
    covariance = np.linalg.inv(design.T @ design)[: count - 1, : count - 1] * float(rest @ rest) / freedom
    errors = np.sqrt(np.einsum("ij,jk,ik->i", coding, covariance, coding))
    return FittedLevels(levels, float(stdtrit(freedom, 0.5 + confidence / 2)) * errors, own)
