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
from functools import partial

import numpy as np

from regress_gate.stats.search_length import SearchCase, SearchEnd, SimulatedSearch, simulate_search

STORED = 4
"""Runs of each end that `compare` has left."""
CASES = (
    SearchCase(412, 2.5),
    SearchCase(412, 4.0),
    SearchCase(351, 2.0),
    SearchCase(351, 3.0),
    SearchCase(65, 1.7),
    SearchCase(412, 2.5, 0.5),
)
NO_STEP = (SearchCase(412, 0.0), SearchCase(17, 0.0))


def simulate_halving(case: SearchCase, repeats: int, seed: int) -> SimulatedSearch:
    """What `git bisect run` does with a threshold."""
    rng = np.random.default_rng([seed, case.versions, repeats])
    commits = case.versions - 1
    change = int(rng.integers(0, commits))
    ends = [case.step * side + rng.normal(size=STORED).mean() for side in (0, 1)]
    low, high, runs = 0, commits, 0
    while high - low > 1:
        middle = (low + high) // 2
        value = case.step * (middle > change) + rng.normal(size=repeats).mean()
        runs += repeats
        low, high = (low, middle) if value > sum(ends) / 2 else (middle, high)
    return SimulatedSearch(runs, SearchEnd.RIGHT if low == change else SearchEnd.WRONG)


def search_many(case: SearchCase, repeats: int, seed: int, workers: int) -> list[SimulatedSearch]:
    seeds = range(seed, seed + repeats)
    if workers == 1:
        return [simulate_search(case, each) for each in seeds]
    with ProcessPoolExecutor(workers) as pool:
        return list(pool.map(partial(simulate_search, case), seeds, chunksize=20))


def row(name: str, found: Sequence[SimulatedSearch]) -> str:
    runs = np.array([each.runs for each in found])
    counts = Counter(each.end for each in found)
    located = counts[SearchEnd.RIGHT] + counts[SearchEnd.WRONG]
    shares = [counts[end] / len(found) for end in list(SearchEnd)[:4]]
    covered = f"{counts[SearchEnd.RIGHT] / located:.1%}" if located else "-"
    cells = [name, f"{runs.mean():.1f}", f"{np.percentile(runs, 95):.0f}", *(f"{share:.1%}" for share in shares)]
    return "| " + " | ".join([*cells, covered]) + " |"


def right_share(found: Sequence[SimulatedSearch]) -> float:
    return sum(each.end is SearchEnd.RIGHT for each in found) / len(found)


def coverage(found: Sequence[SimulatedSearch]) -> float:
    """Of the searches that named a place, the share that named the right one."""
    located = [each for each in found if each.end in (SearchEnd.RIGHT, SearchEnd.WRONG)]
    return sum(each.end is SearchEnd.RIGHT for each in located) / max(1, len(located))


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
            row(f"{case.versions - 1}, {case.step:g} σ{drift}" if case.step else f"{case.versions - 1}, none", found),
            flush=True,
        )
        if case == CASES[0] and (np.mean([each.runs for each in found]) > 20 or right_share(found) < 0.97):
            broken.append("411 commits at 2.5 σ: at most 20 runs on average, at least 97 % right")
        if case.step and coverage(found) < 0.93:
            broken.append(f"{case}: at least 93 % right of those located")
        if not case.step and sum(each.end is SearchEnd.NO_STEP for each in found) < 0.95 * len(found):
            broken.append(f"{case}: no step is said in at least 95 %")
    for repeats in (1, 3):
        found = [simulate_halving(CASES[0], repeats, seed) for seed in range(given.seed, given.seed + given.repeats)]
        print(row(f"halving, {repeats} run(s) a commit: {CASES[0].versions - 1}, {CASES[0].step:g} σ", found))
    for text in broken:
        print(f"BROKEN: {text}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
