"""How fast change points are found, and that the time grows with the length, not with its square.

    python benchmarks/changepoint_speed.py [--series N] [--longest N]

Process time of `detect` on one core. 1,000 series of 1,000 points with three steps each must take at most 10 s; a point
of a series of 100,000 must cost no more than three times what one of 1,000 does (n log n alone makes it 1.7), with the
steps equally dense, and without. Both lengths are timed in this run, in turns. Not for how good the answers are: that is benchmarks/eval/detectors.py.
"""

import argparse
import sys
import time

import numpy as np

from regress_gate.model.samples import Floats
from regress_gate.stats.changepoints import detect

SEED = 20261121
MAX_SECONDS, MAX_RATIO = 10.0, 3.0
SPACING = 250


def series(length: int, steps: bool, generator: np.random.Generator) -> Floats:
    """Log-normal noise of 2 %, with a step of 6 % up or down at every 250th point where asked for."""
    logs = generator.normal(0.0, 0.02, length)
    if steps:
        signs = generator.choice([-0.06, 0.06], length // SPACING)
        logs += np.repeat(np.cumsum(signs) - signs[0], SPACING)[:length]
    return np.asarray(100.0 * np.exp(logs))


def seconds(values: Floats) -> float:
    start = time.process_time()
    detect(values)
    return time.process_time() - start


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--series", type=int, default=200, help="how many series of 1,000 points")
    parser.add_argument("--longest", type=int, default=100_000, help="points of the longest series")
    asked = parser.parse_args()
    generator = np.random.default_rng(SEED)
    detect(series(1000, True, generator))
    mean = sum(seconds(series(1000, True, generator)) for _ in range(asked.series)) / asked.series
    good = 1000 * mean <= MAX_SECONDS
    print(f"1,000 series of 1,000 points: {1000 * mean:.1f} s (from {asked.series}); bound {MAX_SECONDS:.0f} s")
    for steps in (True, False):
        short, long = [], []
        for _ in range(5):
            short.append(sum(seconds(series(1000, steps, generator)) for _ in range(20)) / 20)
            long.append(seconds(series(asked.longest, steps, generator)))
        ratio = min(long) / asked.longest / (min(short) / 1000)
        good &= ratio <= MAX_RATIO
        what = "a step every 250 points" if steps else "no steps"
        print(
            f"{what}: 1,000 points {1000 * min(short):.1f} ms, {asked.longest:,} points {1000 * min(long):.0f} ms;"
            f" a point costs {ratio:.2f} times as much, bound {MAX_RATIO:.0f}"
        )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
