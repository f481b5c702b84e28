"""What `bisect` takes to find a planted step, and how often it is right, by simulation with the product's own choices.

    python benchmarks/bisect_search.py [--seed N] [--repeats N] [--workers N]

prints the tables of docs/bisect.md and exits 1 when a promise is broken: about twenty minutes of one core with 1,000
repeats. Sizes of steps are in standard deviations between runs (σ). Four runs of each end are stored at the start, as
`compare` leaves them, and are not counted; every other server start is, those that measure an end again and those that
confirm the neighbours too. The noise is known from 24 earlier
sessions of two runs, as many as a comparison reads (docs/statistics.md).

Beside it stand halving with one and with three runs at each commit, judged against the middle of the two ends' means,
and the figures that were measured for git_bayesect 1.2, which decides by good and bad: 31.5 runs for 512 commits at the
same separation (2.56 σ).
"""

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial

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

STORED = 4
"""Runs of each end that `compare` has left."""
PRIOR = VariancePrior(variance=1.0, freedom=24.0)
MOST_RUNS = 300
NOT_FOUND = "not found"


@dataclass(frozen=True, slots=True)
class Case:
    commits: int
    step: float
    """In standard deviations between runs; 0: there is none."""
    drift: float = 0.0
    """Standard deviation between blocks."""


CASES = (Case(411, 2.5), Case(411, 4.0), Case(350, 2.0), Case(350, 3.0), Case(64, 1.7), Case(411, 2.5, 0.5))
NO_STEP = (Case(411, 0.0), Case(16, 0.0))


@dataclass(frozen=True, slots=True)
class SimulatedSearch:
    runs: int
    """Without those that were stored."""
    outcome: str
    """`right`, `wrong`, `no_step`, `two_steps` or `not found`."""


def simulate_search(case: Case, seed: int) -> SimulatedSearch:
    rng = np.random.default_rng([seed, case.commits, round(case.step * 100), round(case.drift * 100)])
    count = case.commits + 1
    change = int(rng.integers(0, case.commits))
    offsets: dict[int, float] = {}

    def measure(position: int, block: int) -> Observation:
        offset = offsets.setdefault(block, case.drift * rng.normal())
        return Observation(position, case.step * (position > change) + offset + rng.normal(), block)

    held = [measure(position, block) for block in range(1, STORED + 1) for position in (0, count - 1)]
    for runs in range(MOST_RUNS):
        choice = choose_run(held, count, prior=PRIOR)
        if choice is Conclusion.FOUND:
            low, _, _ = most_likely_pair(locate_step(held, count, prior=PRIOR), np.arange(count))
            return SimulatedSearch(runs, "right" if low == change else "wrong")
        if isinstance(choice, Conclusion):
            return SimulatedSearch(runs, choice.value)
        held.append(measure(choice.position, next_block(held, choice.position, count)))
    return SimulatedSearch(MOST_RUNS, NOT_FOUND)


def simulate_halving(case: Case, repeats: int, seed: int) -> SimulatedSearch:
    """What `git bisect run` does with a threshold."""
    rng = np.random.default_rng([seed, case.commits, repeats])
    change = int(rng.integers(0, case.commits))
    ends = [case.step * side + rng.normal(size=STORED).mean() for side in (0, 1)]
    low, high, runs = 0, case.commits, 0
    while high - low > 1:
        middle = (low + high) // 2
        value = case.step * (middle > change) + rng.normal(size=repeats).mean()
        runs += repeats
        low, high = (low, middle) if value > sum(ends) / 2 else (middle, high)
    return SimulatedSearch(runs, "right" if low == change else "wrong")


def search_many(case: Case, repeats: int, seed: int, workers: int) -> list[SimulatedSearch]:
    seeds = range(seed, seed + repeats)
    if workers == 1:
        return [simulate_search(case, each) for each in seeds]
    with ProcessPoolExecutor(workers) as pool:
        return list(pool.map(partial(simulate_search, case), seeds, chunksize=20))


def row(name: str, found: Sequence[SimulatedSearch]) -> str:
    runs = np.array([each.runs for each in found])
    counts = Counter(each.outcome for each in found)
    located = counts["right"] + counts["wrong"]
    shares = [counts[outcome] / len(found) for outcome in ("right", "wrong", "no_step", "two_steps")]
    covered = f"{counts['right'] / located:.1%}" if located else "-"
    cells = [name, f"{runs.mean():.1f}", f"{np.percentile(runs, 95):.0f}", *(f"{share:.1%}" for share in shares)]
    return "| " + " | ".join([*cells, covered]) + " |"


def right_share(found: Sequence[SimulatedSearch]) -> float:
    return sum(each.outcome == "right" for each in found) / len(found)


def coverage(found: Sequence[SimulatedSearch]) -> float:
    """Of the searches that named a place, the share that named the right one."""
    located = [each for each in found if each.outcome in ("right", "wrong")]
    return sum(each.outcome == "right" for each in located) / max(1, len(located))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=1000)
    parser.add_argument("--workers", type=int, default=1)
    given = parser.parse_args()
    broken: list[str] = []
    print("| commits, step | mean runs | 95 % | right | wrong | no step | two steps | right, of those located |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for case in (*CASES, *NO_STEP):
        found = search_many(case, given.repeats, given.seed, given.workers)
        drift = f", blocks {case.drift:g} σ" if case.drift else ""
        print(
            row(f"{case.commits}, {case.step:g} σ{drift}" if case.step else f"{case.commits}, none", found), flush=True
        )
        if case == CASES[0] and (np.mean([each.runs for each in found]) > 20 or right_share(found) < 0.97):
            broken.append("411 commits at 2.5 σ: at most 20 runs on average, at least 97 % right")
        if case.step and coverage(found) < 0.93:
            broken.append(f"{case}: at least 93 % right of those located")
        if not case.step and sum(each.outcome == "no_step" for each in found) < 0.95 * len(found):
            broken.append(f"{case}: no step is said in at least 95 %")
    for repeats in (1, 3):
        found = [simulate_halving(CASES[0], repeats, seed) for seed in range(given.seed, given.seed + given.repeats)]
        print(row(f"halving, {repeats} run(s) a commit: {CASES[0].commits}, {CASES[0].step:g} σ", found))
    for text in broken:
        print(f"BROKEN: {text}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
