"""Looking at the evidence after every block, and still meaning what is printed.

Whoever tests at 5 % after each of eight blocks is fooled three times as often as at one look. Here the level of the
k-th look is such that the chance of ever crossing one, when nothing changed, is at most the level that was asked for,
however many looks are made of those that were planned. The levels are those of a constant boundary for the test
statistic (S. J. Pocock 1977, doi 10.1093/biomet/64.2.191), which stops early when there is something to see, taken
through the spending function of K. K. G. Lan and D. L. DeMets (1983, doi 10.1093/biomet/70.3.659), so that looks may
begin late or be skipped. Found by numerical integration of the joint density of a normal statistic with independent
increments; a p-value of a t statistic is held against the same level (usual practice; tests/stats simulates it).

The same levels make repeated confidence intervals (C. Jennison and B. W. Turnbull 1989, doi
10.1111/j.2517-6161.1989.tb01433.x): valid at whatever look the experiment stopped, for whatever reason.
"""

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri

Floats = npt.NDArray[np.float64]

FIRST_ANALYSIS = 2
"""Blocks from which there is a spread to speak of."""
_POINTS = 801
_REACH = 8.0


@dataclass(frozen=True, slots=True)
class InterimStage:
    """At which of the planned looks the evidence is being seen; one look is made after every block from the second."""

    blocks: int
    """Made so far."""
    most_blocks: int
    """At which the experiment ends at the latest. Blocks beyond it are seen at the level of the last look."""


def nominal_level(asked: float, interim: InterimStage | None) -> float:
    """The one-sided level to be used now, so that over all analyses it is `asked`. None: there is only this one."""
    if interim is None or interim.most_blocks <= FIRST_ANALYSIS:
        return asked
    levels = _nominal_levels(round(asked, 12), interim.most_blocks)
    at = min(max(interim.blocks, FIRST_ANALYSIS), interim.most_blocks)
    return levels[at - FIRST_ANALYSIS]


@cache
def _nominal_levels(asked: float, most: int) -> tuple[float, ...]:
    """Nominal one-sided levels of the looks after blocks FIRST_LOOK … most."""
    information = np.arange(FIRST_ANALYSIS, most + 1) / most
    spent = asked * np.log1p((math.e - 1) * information)
    steps = np.diff(spent, prepend=0.0)
    # The score process has variance equal to its information; `density` is that of not having crossed so far.
    boundary = -float(ndtri(steps[0]))
    levels = [float(steps[0])]
    grid = _grid(boundary, float(information[0]))
    density = np.exp(-(grid**2) / (2 * information[0])) / math.sqrt(2 * math.pi * information[0])
    for before, now, step in zip(information[:-1], information[1:], steps[1:], strict=True):
        mass = density * (grid[1] - grid[0])
        mass[[0, -1]] /= 2
        boundary = _boundary(grid, mass, math.sqrt(now), math.sqrt(now - before), float(step))
        levels.append(float(ndtr(-boundary)))
        nodes = _grid(boundary, float(now))
        moves = (nodes[:, None] - grid[None, :]) / math.sqrt(now - before)
        density = np.exp(-(moves**2) / 2) @ mass / math.sqrt(2 * math.pi * (now - before))
        grid = nodes
    return tuple(levels)


def _grid(boundary: float, information: float) -> Floats:
    """Points at which the density below a boundary is held."""
    return np.linspace(-_REACH, boundary, _POINTS) * math.sqrt(information)


def _boundary(grid: Floats, mass: Floats, scale: float, spread: float, step: float) -> float:
    """At which the next look crosses with a probability of `step`."""
    # Not at the top: a third of what a `compare` without looks imports would be this.
    from scipy.optimize import brentq

    def excess(bound: float) -> float:
        return float(mass @ ndtr((grid - bound * scale) / spread)) - step

    return float(brentq(excess, -1.0, _REACH))
