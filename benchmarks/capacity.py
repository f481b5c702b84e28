"""How well a loss of capacity is found, and how often its interval holds the true one, by simulation.

    python benchmarks/capacity.py [--tries 2000]

prints the tables of docs/slo.md and exits 1 when a promise is broken: a capacity loss of 10 % is found in 80 % of gates
or more with at most 6 blocks of 5 loads at a server CV of 3 %, at most 5 % of equal versions fail, and 95 % intervals
hold the true loss in 93 to 97 % of gates on slopes (on cliffs, where they are wider, in 93 % or more). Bounds leave
room for the luck of the draws. Takes five minutes.

A server's capacity is log-normal. Its attainment falls with the logarithm of the load along a logistic curve; a trial's
requests are beta-binomial around it. The loads are the program's levels around what its search finds on another start
of the baseline, with as many requests a probe; how far that is from the true capacity is the last table.
"""

import argparse
import math
import sys
from dataclasses import dataclass

import numpy as np

from regress_gate.bench.experiment.capacity_search import ProbeResult, search_rate
from regress_gate.bench.experiment.experiment_plan import LEVELS
from regress_gate.stats.capacity import Capacity, CapacityLoss, capacity_loss, find_capacity
from regress_gate.stats.estimate import MIN_TIMING_CV

PROMISE = 0.95
SLOWEST, FASTEST = 2.0, 300.0
"""Requests a second: a baseline's capacity is drawn between them, because a search begins with numbers of its own."""
MARGIN = 0.05
"""A regression has to be estimated at half of it or more."""
SLOPE, CLIFF = 0.05, 0.004
"""Width of the logistic curve, in logarithms of the load."""


@dataclass(frozen=True)
class Case:
    loss: float
    """Share of the baseline's capacity that the candidate lacks."""
    width: float = SLOPE
    correlation: float = 0.01
    """Of the requests of one trial."""
    server_cv: float = 0.03
    blocks: int = 6
    requests: int = 400
    """At each load."""


def attainment(case: Case, load: float, own: float, rng: np.random.Generator) -> float:
    """Of one trial, on a server whose capacity is `own`."""
    exponent = math.log(load / own) / case.width - math.log(PROMISE / (1 - PROMISE))
    expected = min(max(1 / (1 + math.exp(min(exponent, 700))), 1e-9), 1 - 1e-9)
    spread = (1 - case.correlation) / case.correlation
    return float(rng.binomial(case.requests, rng.beta(expected * spread, (1 - expected) * spread)) / case.requests)


def server(case: Case, capacity: float, centre: float, rng: np.random.Generator) -> Capacity:
    """One start: its own luck, then a trial at each load."""
    own = capacity * math.exp(rng.normal(0, case.server_cv))
    loads = [centre * level for level in LEVELS]
    kept = [attainment(case, load, own, rng) for load in loads]
    return find_capacity(loads, kept, [case.requests] * len(loads), PROMISE)


def searched(case: Case, capacity: float, rng: np.random.Generator) -> float:
    """What the search finds on a start of its own. A request takes a second: so many at once are so many a second."""
    own = capacity * math.exp(rng.normal(0, case.server_cv))

    def probe(concurrency: int | None, rate: float | None) -> ProbeResult:
        load = rate if concurrency is None else min(concurrency, 1.1 * own)
        assert load is not None
        return ProbeResult(attainment(case, load, own, rng), load)

    return search_rate(probe, PROMISE)


def gate(case: Case, rng: np.random.Generator, confidence: float) -> CapacityLoss:
    """One experiment. Both servers of a block get the same loads."""
    ours = math.exp(rng.uniform(math.log(SLOWEST), math.log(FASTEST)))
    centre = searched(case, ours, rng)
    baseline, candidate = (
        [server(case, capacity, centre, rng) for _ in range(case.blocks)] for capacity in (ours, ours * (1 - case.loss))
    )
    return capacity_loss(baseline, candidate, paired=True, confidence=confidence, min_cv=MIN_TIMING_CV)


@dataclass(frozen=True)
class Outcome:
    """Shares of gates."""

    failed: float
    passed: float
    bounded: float
    """Whose interval has two ends."""


def simulate(case: Case, tries: int, seed: int = 4711) -> Outcome:
    """Of gates with one analysis at the default policy."""
    rng = _random(case, seed)
    half, margin = (-math.log1p(-loss) for loss in (MARGIN / 2, MARGIN))
    counts = np.zeros(3)
    for _ in range(tries):
        found = gate(case, rng, 0.90)
        low, high = found.interval or (-math.inf, math.inf)
        passed = high < margin
        failed = not passed and found.least >= half and found.p_worse is not None and found.p_worse <= 0.05
        counts += (failed, passed, math.isfinite(low) and math.isfinite(high))
    return Outcome(*(float(count) for count in counts / tries))


def coverage(case: Case, tries: int, seed: int = 4711) -> float:
    """Share of 95 % intervals that hold the true loss."""
    rng = _random(case, seed)
    intervals = [gate(case, rng, 0.95).interval for _ in range(tries)]
    return float(np.mean([each is None or each[0] <= -math.log1p(-case.loss) <= each[1] for each in intervals]))


def search_errors(case: Case, tries: int, seed: int = 4711) -> np.ndarray:
    """How far each search ends from the capacity of the version, as a share of it."""
    rng = _random(case, seed)
    true = np.exp(rng.uniform(math.log(SLOWEST), math.log(FASTEST), tries))
    return np.array([abs(searched(case, each, rng) / each - 1) for each in true])


def _random(case: Case, seed: int) -> np.random.Generator:
    return np.random.default_rng(
        [seed, case.blocks, *(round(1e6 * x) for x in (case.loss, case.correlation, case.width))]
    )


LARGER = (0.10, 0.12, 0.15, 0.20, 0.25)
SHAPES = (("slope", SLOPE), ("cliff", CLIFF))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tries", type=int, default=2000)
    tries = parser.parse_args().tries
    luck = 2.5 / math.sqrt(tries)
    broken = 0
    print("| curve, blocks | a loss of 10 % fails | no loss fails | no loss passes | intervals with both ends |")
    print("| --- | --- | --- | --- | --- |")
    for shape, width in SHAPES:
        for blocks in (4, 5, 6):
            lost, equal = (simulate(Case(loss, width, blocks=blocks), tries) for loss in (0.10, 0.0))
            broken += equal.failed > 0.05 + luck * 0.22 or (blocks == 6 and lost.failed < 0.80 - luck * 0.4)
            cells = (lost.failed, equal.failed, equal.passed, equal.bounded)
            print(f"| {shape}, {blocks} | " + " | ".join(f"{100 * cell:.1f} %" for cell in cells) + " |")
    print("\n| curve, 6 blocks | " + " | ".join(f"a loss of {100 * loss:.0f} %" for loss in LARGER) + " |")
    print("| --- |" + " --- |" * len(LARGER))
    for shape, width in SHAPES:
        ends = [simulate(Case(loss, width), tries).bounded for loss in LARGER]
        print(f"| {shape}, intervals with both ends | " + " | ".join(f"{100 * each:.1f} %" for each in ends) + " |")
    print("\n| curve, correlation within a trial | no loss | a loss of 5 % |\n| --- | --- | --- |")
    for shape, width in SHAPES:
        for correlation in (0.005, 0.01, 0.02):
            held = [coverage(Case(loss, width, correlation), tries) for loss in (0.0, 0.05)]
            broken += min(held) < 0.93 - luck * 0.22 or (width == SLOPE and max(held) > 0.97 + luck * 0.22)
            print(f"| {shape}, {correlation:g} | " + " | ".join(f"{100 * each:.1f} %" for each in held) + " |")
    print("\n| searches: curve, server CV | within 5 % | within 8 % | furthest of 99 % |\n| --- | --- | --- | --- |")
    for shape, width in SHAPES:
        for cv in (0.0, 0.03):
            errors = search_errors(Case(0.0, width, server_cv=cv), tries)
            near = " | ".join(f"{100 * float(np.mean(errors <= most)):.1f} %" for most in (0.05, 0.08))
            print(f"| {shape}, {100 * cv:g} % | {near} | {100 * float(np.quantile(errors, 0.99)):.1f} % |")
    return int(broken > 0)


if __name__ == "__main__":
    sys.exit(main())
