"""Interim analysis: test after every block, and keep the error rate that was asked for.

A test at 5 % after each of eight blocks gives three times as many false alarms as one test. Here the level of the k-th
analysis is such that the chance of ever crossing one, when nothing changed, is at most the level that was asked for,
however many of the planned analyses are made. The levels are those of a constant boundary for the test statistic (S. J.
Pocock 1977, doi 10.1093/biomet/64.2.191), which stops early when there is a change. They are spent by the function of
K. K. G. Lan and D. L. DeMets (1983, doi 10.1093/biomet/70.3.659), so that analyses may begin late or be skipped. They
are found by numerical integration of the joint density of a normal statistic with independent increments; the p-value
of a t statistic is compared with the same level (usual practice; tests/stats simulates it).

The same levels give repeated confidence intervals (C. Jennison and B. W. Turnbull 1989, doi
10.1111/j.2517-6161.1989.tb01433.x): they are valid whenever the experiment stopped, for whatever reason.
"""

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri

Floats = npt.NDArray[np.float64]

FIRST_ANALYSIS = 2
"""Blocks needed before the spread can be estimated."""
_POINTS = 801
_REACH = 8.0


@dataclass(frozen=True, slots=True)
class InterimStage:
    """Which of the planned analyses this is. One is made after every block from the second on."""

    blocks: int
    """Made so far."""
    most_blocks: int
    """The largest number of blocks. Any beyond it are tested at the level of the last analysis."""


def nominal_level(level: float, interim: InterimStage | None) -> float:
    """The one-sided level to be used now, so that over all analyses it is `level`. None: this analysis is the only
    one."""
    if interim is None or interim.most_blocks <= FIRST_ANALYSIS:
        return level
    levels = _nominal_levels(round(level, 12), interim.most_blocks)
    at = min(max(interim.blocks, FIRST_ANALYSIS), interim.most_blocks)
    return levels[at - FIRST_ANALYSIS]


@cache
def _nominal_levels(level: float, most: int) -> tuple[float, ...]:
    """Nominal one-sided levels of the analyses after blocks FIRST_LOOK … most."""
    information = np.arange(FIRST_ANALYSIS, most + 1) / most
    spent = level * np.log1p((math.e - 1) * information)
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
    """Points at which the density below a boundary is tabulated."""
    return np.linspace(-_REACH, boundary, _POINTS) * math.sqrt(information)


def _boundary(grid: Floats, mass: Floats, scale: float, spread: float, step: float) -> float:
    """The boundary that the next analysis crosses with a probability of `step`."""
    # Imported here, because a `compare` without interim analyses starts faster without scipy.optimize.
    from scipy.optimize import brentq

    def excess(bound: float) -> float:
        return float(mass @ ndtr((grid - bound * scale) / spread)) - step

    return float(brentq(excess, -1.0, _REACH))
