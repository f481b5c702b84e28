"""Whether results of different server starts are ever taken for copies of each other: pairs of simulated ones.

    python benchmarks/copies.py [--starts N]

What a client prints of 1,050 starts of a quiet machine, rounded to one, two or three decimals, with a spread of 0.1,
0.2, 0.5 or 1 %: all pairs of starts with the same rounding and spread, 12 × 1,050 × 1,049 / 2 = 6,608,700.
"""

import argparse
import random
import sys
from dataclasses import dataclass, field
from itertools import combinations, product

from regress_gate.measurement.same_measurement import is_same_measurement

DECIMALS, SPREADS = (1, 2, 3), (0.001, 0.002, 0.005, 0.01)
REQUESTS, TOKENS = 100, 12_800


@dataclass(frozen=True, slots=True)
class Printed:
    metrics: dict[str, float]
    duration: float
    completed: int = field(default=REQUESTS)
    failed: int = field(default=0)


def start(luck: random.Random, decimals: int, spread: float) -> Printed:
    run = luck.gauss(0, spread)
    duration = round(61.0 * (1 + run), decimals)
    metrics = {"request_throughput": round(REQUESTS / duration, 2), "output_throughput": round(TOKENS / duration, 2)}
    for family, base in (("ttft", 51.0), ("tpot", 9.5)):
        for statistic, factor in (("mean", 1.0), ("median", 0.97), ("p99", 1.6)):
            time = base * factor * (1 + run + luck.gauss(0, spread / 2))
            metrics[f"{family}_{statistic}"] = round(time, decimals) / 1000
    return Printed(metrics, duration)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--starts", type=int, default=1050)
    arguments = parser.parse_args()
    pairs = taken = 0
    for decimals, spread in product(DECIMALS, SPREADS):
        luck = random.Random(f"{decimals} {spread}")
        starts = [start(luck, decimals, spread) for _ in range(arguments.starts)]
        for pair in combinations(starts, 2):
            pairs += 1
            taken += is_same_measurement(*pair)
    print(f"{pairs:,} pairs, {taken} taken for copies")
    return int(taken > 0)


if __name__ == "__main__":
    sys.exit(main())
