"""How often the interval of an attainment holds the true one, where requests of one server share its luck.

`python benchmarks/attainment.py [--tries 3000]` prints the table of docs/slo.md: beta-binomial servers, and beside the
tool's interval the one that counts requests as if they were independent. Takes a minute.
"""

import argparse
import math

import numpy as np

from regress_gate.stats.estimate import estimate_level

CASES = tuple((share, correlation) for share in (0.95, 0.99) for correlation in (0.005, 0.01, 0.02, 0.05))
REQUESTS = 1000


def coverage(
    share: float, correlation: float, servers: int, tries: int, rng: np.random.Generator
) -> tuple[float, float, float]:
    """Of the tool's 95 % interval, how often its lower end is above the true attainment, and coverage of the normal
    interval over requests."""
    spread = (1 - correlation) / correlation
    held = above = naive = 0
    for _ in range(tries):
        rates = rng.beta(share * spread, (1 - share) * spread, servers)
        shares = rng.binomial(REQUESTS, rates) / REQUESTS
        interval = estimate_level(shares, confidence=0.95, requests=REQUESTS).interval
        held += interval is not None and interval[0] <= share <= interval[1]
        above += interval is not None and interval[0] > share
        mean = float(shares.mean())
        naive += abs(mean - share) <= 1.96 * math.sqrt(mean * (1 - mean) / (servers * REQUESTS))
    return held / tries, above / tries, naive / tries


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tries", type=int, default=3000)
    tries = parser.parse_args().tries
    rng = np.random.default_rng(4711)
    print("| attainment, correlation within a server, servers | this tool | lower end too high | counting requests |")
    print("| --- | --- | --- | --- |")
    for share, correlation in CASES:
        for servers in (5, 8):
            own, above, naive = coverage(share, correlation, servers, tries, rng)
            shown = f"{100 * own:.1f} % | {100 * above:.1f} % | {100 * naive:.0f} %"
            print(f"| {100 * share:.0f} %, {correlation:g}, {servers} | {shown} |")


if __name__ == "__main__":
    main()
