"""How fast change points are found, and that the time grows with the length, not with its square.

    python benchmarks/changepoint_speed.py [--series N] [--longest N]

Process time of `detect` on one core, for three questions:
- do 1,000 series of 1,000 points with three steps each take at most 10 s?
- how much is that beside a t test of 12 points before against 12 after at every point, by scipy in one call?
- does a point of a series of 100,000 cost at most three times what one of 1,000 does (n log n alone makes it 1.7), with
  the steps equally dense, and without steps?
What is compared is timed in this run, in turns. Not for how good the answers are: that is changepoint_quality.py.
"""

import argparse
import sys
import time
from collections.abc import Callable

import numpy as np
from scipy.stats import ttest_ind

from regress_gate.model.samples import Floats
from regress_gate.stats.changepoints import detect

SEED = 20261121
MAX_SECONDS, MAX_OF_REFERENCE, MAX_GROWTH = 10.0, 50.0, 3.0
SPACING, WINDOW, TURNS = 250, 12, 5


def series(length: int, steps: bool, generator: np.random.Generator) -> Floats:
    """Log-normal noise of 2 %, with a step of 6 % up or down at every 250th point where asked for."""
    logs = generator.normal(0.0, 0.02, length)
    if steps:
        signs = generator.choice([-0.06, 0.06], length // SPACING)
        logs += np.repeat(np.cumsum(signs) - signs[0], SPACING)[:length]
    return np.asarray(100.0 * np.exp(logs))


def reference(values: Floats) -> None:
    windows = np.lib.stride_tricks.sliding_window_view(np.log(values), WINDOW)
    ttest_ind(windows[:-WINDOW], windows[WINDOW:], axis=1, equal_var=False)


def seconds(work: Callable[[Floats], object], values: Floats) -> float:
    start = time.process_time()
    work(values)
    return time.process_time() - start


def in_turns(number: int, generator: np.random.Generator) -> tuple[float, float]:
    """Mean seconds of `detect` and of the reference on the same series of 1,000 points, with steps."""
    made = [series(1000, True, generator) for _ in range(number)]
    times = np.array([(seconds(detect, values), seconds(reference, values)) for values in made])
    ours, other = times.mean(axis=0)
    return float(ours), float(other)


def growth(longest: int, steps: bool, generator: np.random.Generator) -> tuple[float, float]:
    """Least seconds of a series of 1,000 points and of the longest."""
    short, long = [], []
    for _ in range(TURNS):
        short.append(sum(seconds(detect, series(1000, steps, generator)) for _ in range(20)) / 20)
        long.append(seconds(detect, series(longest, steps, generator)))
    return min(short), min(long)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--series", type=int, default=200, help="how many series of 1,000 points")
    parser.add_argument("--longest", type=int, default=100_000, help="points of the longest series")
    asked = parser.parse_args()
    generator = np.random.default_rng(SEED)
    in_turns(3, generator)
    print("| what | measured | compared with | ratio | bound |\n| --- | --- | --- | --- | --- |")
    rows = []
    ours, other = in_turns(asked.series, generator)
    promise = f"{MAX_SECONDS:.0f} s"
    rows.append(
        ("1,000 series of 1,000 points, one core", f"{1000 * ours:.1f} s", promise, 1000 * ours / MAX_SECONDS, 1.0)
    )
    rows.append(
        ("one of them", f"{1e3 * ours:.1f} ms", f"{1e3 * other:.2f} ms, t tests", ours / other, MAX_OF_REFERENCE)
    )
    for steps in (True, False):
        short, long = growth(asked.longest, steps, generator)
        what = f"{asked.longest:,} points, {'a step every 250' if steps else 'no steps'}"
        alike = short * asked.longest / 1000
        rows.append((what, f"{long:.2f} s", f"{alike:.2f} s, as many in pieces of 1,000", long / alike, MAX_GROWTH))
    for what, measured, compared, ratio, bound in rows:
        print(f"| {what} | {measured} | {compared} | {ratio:.2f} | {bound:g} |")
    return 0 if all(ratio <= bound for *_, ratio, bound in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
