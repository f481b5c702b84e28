"""How many runs a bisect takes, and how often it is right, by simulation with the choices of `bisection` themselves.

For plans before a search, and for the promises of the documentation (benchmarks/bisect_search.py).
"""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from regress_gate.stats.bisection import (
    Conclusion,
    Observation,
    VariancePrior,
    choose_run,
    locate_step,
    most_likely_pair,
    next_block,
)

MOST_RUNS = 300
"""After which a simulated search is given up."""


class SearchEnd(StrEnum):
    RIGHT = "right"
    WRONG = "wrong"
    NO_STEP = "no_step"
    TWO_STEPS = "two_steps"
    NOT_FOUND = "not found"
    """Not within `MOST_RUNS`."""


@dataclass(frozen=True, slots=True)
class SimulatedSearch:
    runs: int
    """Without those that were stored before."""
    end: SearchEnd


@dataclass(frozen=True, slots=True)
class SearchCase:
    """What is searched. Sizes are in standard deviations between runs."""

    versions: int
    step: float
    """0: there is none."""
    drift: float = 0.0
    """Standard deviation between blocks."""
    stored: tuple[int, int] = (4, 4)
    """Runs of the good and of the bad end that are there before."""
    freedom: float = 24.0
    """Degrees of freedom behind the noise that is known before."""


def simulate_search(case: SearchCase, seed: int, *, most_runs: int = MOST_RUNS) -> SimulatedSearch:
    """One search for a step at a random place."""
    rng = np.random.default_rng([seed, case.versions, round(case.step * 100), round(case.drift * 100)])
    change = int(rng.integers(0, case.versions - 1))
    prior = VariancePrior(1.0 if case.freedom else 0.0, case.freedom)
    offsets: dict[int, float] = {}

    def measure(position: int, block: int) -> Observation:
        offset = offsets.setdefault(block, case.drift * rng.normal())
        return Observation(position, case.step * (position > change) + offset + rng.normal(), block)

    last = case.versions - 1
    held = [
        measure(position, block)
        for block in range(1, max(case.stored) + 1)
        for position, stored in ((0, case.stored[0]), (last, case.stored[1]))
        if block <= stored
    ]
    for runs in range(most_runs):
        choice = choose_run(held, case.versions, prior=prior)
        if choice is Conclusion.FOUND:
            low, _, _ = most_likely_pair(locate_step(held, case.versions, prior=prior), np.arange(case.versions))
            return SimulatedSearch(runs, SearchEnd.RIGHT if low == change else SearchEnd.WRONG)
        if isinstance(choice, Conclusion):
            return SimulatedSearch(runs, SearchEnd(choice.value))
        held.append(measure(choice.position, next_block(held, choice.position, case.versions)))
    return SimulatedSearch(most_runs, SearchEnd.NOT_FOUND)


@dataclass(frozen=True, slots=True)
class ExpectedRuns:
    """Of a search."""

    mean: float
    high: int
    """At most so many in nine of ten searches."""
    simulated: int
    """Searches behind it."""


def expect_runs(case: SearchCase, *, searches: int = 40, most_runs: int = 150) -> ExpectedRuns:
    """What a search will take, from `searches` simulated ones, each of which is given up after `most_runs`."""
    runs = [simulate_search(case, seed, most_runs=most_runs).runs for seed in range(searches)]
    return ExpectedRuns(float(np.mean(runs)), int(np.percentile(runs, 90, method="higher")), searches)
