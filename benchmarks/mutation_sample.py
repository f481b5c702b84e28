"""Estimate the mutation score of whole layers from a random sample of mutants.

All mutants of the layers that decide would take mutmut many hours, so a sample of them is tried. Every beginning of the
sample is in proportion to the mutants of each module, so an interrupted run is a smaller sample. mutmut itself runs the
tests and keeps the results; this script only names mutants and counts:

    python benchmarks/mutation_sample.py untried --seed 4711 --size 600 | xargs -n 200 mutmut run
    python benchmarks/mutation_sample.py score --seed 4711 --size 600

A mutant counts as found when a test fails or does not end. One that no test reaches counts as missed.
"""

import argparse
import json
import random
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from mutmut.stats import status_by_exit_code
from scipy.stats import binomtest

MUTANTS = Path("mutants")
"""Where mutmut keeps the mutants that `mutmut run` made."""
FOUND = frozenset({"killed", "timeout", "segfault", "caught by type check"})
MISSED = frozenset({"survived", "no tests"})


def read_results(directory: Path) -> dict[str, str]:
    """The status of every mutant by its name, whether it was tried or not."""
    files = sorted(directory.rglob("*.meta"))
    exit_codes = [json.loads(file.read_text(encoding="utf-8"))["exit_code_by_key"] for file in files]
    return {name: status_by_exit_code[code] for codes in exit_codes for name, code in codes.items()}


def draw_sample(names: Iterable[str], seed: int, size: int) -> list[str]:
    """`size` names in random order. The first n of them are in proportion to the modules' mutants, for every n."""
    generator = random.Random(seed)
    modules: dict[str, list[str]] = {}
    for name in sorted(names):
        modules.setdefault(module_of(name), []).append(name)
    placed = []
    for members in modules.values():
        generator.shuffle(members)
        placed += [((rank + generator.random()) / len(members), name) for rank, name in enumerate(members)]
    return [name for _, name in sorted(placed)[:size]]


def module_of(name: str) -> str:
    """`regress_gate.gate.decide` of `regress_gate.gate.decide.x_conclude__mutmut_3`."""
    return name.rpartition(".")[0].removeprefix("regress_gate.")


def layer_of(name: str) -> str:
    """`gate`, or `known.matching`."""
    return ".".join(module_of(name).split(".")[: 2 if name.startswith("regress_gate.known.") else 1])


def score_line(title: str, statuses: Iterable[str]) -> str:
    """One row of the table: tried, found, the score and its 95 % interval (Wilson)."""
    counts = Counter(statuses)
    found, missed = sum(counts[status] for status in FOUND), sum(counts[status] for status in MISSED)
    tried = found + missed
    if not tried:
        return f"| {title} | 0 | | | |"
    low, high = binomtest(found, tried).proportion_ci(0.95, method="wilson")
    return f"| {title} | {tried} | {counts['no tests']} | {found / tried:.0%} | {low:.0%} to {high:.0%} |"


def print_score(results: dict[str, str], sample: list[str]) -> None:
    """A table for each layer and for each module, and the names that were missed."""
    tried = [name for name in sample if results[name] in FOUND | MISSED]
    print(f"{len(tried)} of {len(sample)} drawn mutants were tried, of {len(results)} that there are\n")
    print("| | tried | reached by no test | found | 95 % interval |\n| --- | --- | --- | --- | --- |")
    for part_of in (layer_of, module_of):
        for part in sorted({part_of(name) for name in tried}):
            print(score_line(part, [results[name] for name in tried if part_of(name) == part]))
    print(score_line("all", [results[name] for name in tried]))
    print()
    for name in sorted(tried):
        if results[name] in MISSED:
            print(f"{results[name]:<9} {name}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=["untried", "score"])
    parser.add_argument("--seed", type=int, default=4711)
    parser.add_argument("--size", type=int, default=600)
    arguments = parser.parse_args()
    results = read_results(MUTANTS)
    if not results:
        parser.error("there are no mutants yet; `mutmut run NAME` of any module makes them")
    sample = draw_sample(results, arguments.seed, arguments.size)
    if arguments.what == "score":
        print_score(results, sample)
    else:
        print(*(name for name in sample if results[name] not in FOUND | MISSED), sep="\n")


if __name__ == "__main__":
    main()
