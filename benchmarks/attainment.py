"""How often the interval of an attainment holds the true one, where requests of one server share its luck.

`python benchmarks/attainment.py [--tries 3000]` prints the table of docs/slo.md: beta-binomial servers, and beside the
tool's interval the one that counts requests as if they were independent. Takes half a minute.
"""

import argparse
import math

import numpy as np

from regress_gate.stats.estimate import estimate_level

CASES = ((0.95, 0.005), (0.95, 0.01), (0.95, 0.02), (0.95, 0.05), (0.99, 0.02))
SERVERS, REQUESTS = 5, 1000


def coverage(share: float, correlation: float, tries: int, rng: np.random.Generator) -> tuple[float, float]:
    """Of the tool's 95 % interval, and of the normal one over requests."""
    spread = (1 - correlation) / correlation
    held = naive = 0
    for _ in range(tries):
        rates = rng.beta(share * spread, (1 - share) * spread, SERVERS)
        shares = rng.binomial(REQUESTS, rates) / REQUESTS
        interval = estimate_level(shares, confidence=0.95, requests=REQUESTS).interval
        held += interval is not None and interval[0] <= share <= interval[1]
        mean = float(shares.mean())
        naive += abs(mean - share) <= 1.96 * math.sqrt(mean * (1 - mean) / (SERVERS * REQUESTS))
    return held / tries, naive / tries


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tries", type=int, default=3000)
    tries = parser.parse_args().tries
    rng = np.random.default_rng(4711)
    print("| attainment, correlation within a server | this tool | counting requests |\n| --- | --- | --- |")
    for share, correlation in CASES:
        own, naive = coverage(share, correlation, tries, rng)
        print(f"| {100 * share:.0f} %, {correlation:g} | {100 * own:.1f} % | {100 * naive:.0f} % |")


if __name__ == "__main__":
    main()
