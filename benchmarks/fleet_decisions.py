"""What a comparison over several hosts decides and whom it names, by simulation with the gate itself.

Prints the table of docs/team.md, of `--number` comparisons a line, and exits 1 when more equal versions fail than the
budget allows. The fleets are those of tests/factories/fleets.py.
"""

import argparse
import sys

import numpy as np

from tests.factories.fleets import CHANGE, decided, draw, named, stopped

CASES = (
    ((6,), {}),
    ((2, 2, 2), {"host_cv": 0.05, "noise": 0.02}),
    ((2, 2, 2), {}),
    ((2, 2, 2), {"host_cv": 0.10, "noise": 0.03}),
    ((6,), {"loss": 0.055}),
    ((2, 2, 2), {"loss": 0.055}),
    ((6,), {"loss": 0.08}),
    ((2, 2, 2), {"loss": 0.08}),
    ((2,) * 6, {}),
    ((2, 2, 2), {"odd": 0.15}),
    ((3, 3, 3), {"odd": 0.15}),
    ((2,) * 6, {"odd": 0.15}),
)
ORDERS = {"one host after the other": (1, 2, 3, 4, 5, 6), "in turns": (1, 3, 5, 2, 4, 6)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--number", type=int, default=2000, help="comparisons a line")
    number = parser.parse_args().number
    bound = 0.05 + 3 * np.sqrt(0.05 / number)
    is_kept = True
    print("| hosts × blocks | levels, noise | true change | pass | fail | host 1 named | another named |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for blocks, given in CASES:
        results = draw(number, blocks, **given)
        found, (own, other) = decided(results), named(results, CHANGE)
        cv, noise = given.get("host_cv", 0.07), given.get("noise", 0.025)
        change = f"{given.get('loss', 0.0):.1%}" + (f", on host 1 {given['odd']:.0%}" if "odd" in given else "")
        shares = " | ".join(f"{count / number:.1%}" for count in (found["pass"], found["fail"], own, other))
        print(f"| {len(blocks)} × {blocks[0]} | {cv:.0%}, {noise:.1%} | {change} | {shares} |", flush=True)
        is_kept &= bool(given.get("loss") or given.get("odd")) or found["fail"] / number <= bound
    for name, order in ORDERS.items():
        for loss in (0.0, 0.08):
            looked = stopped(number // 4, order, 3, 6, loss=loss)
            shares = " | ".join(f"{looked[word] / (number // 4):.1%}" for word in ("pass", "fail"))
            print(f"| 3 × 2, {name}, a look after each | 7%, 2.5% | {loss:.1%} | {shares} | | |", flush=True)
            is_kept &= bool(loss) or looked["fail"] / (number // 4) <= bound
    return 0 if is_kept else 1


if __name__ == "__main__":
    sys.exit(main())
