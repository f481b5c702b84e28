"""How many records of known issues a second reader found wrong, platform by platform.

    python benchmarks/second_reading.py
    python benchmarks/second_reading.py --draw

`second_reading.yaml` has the answers: for every platform 15 records (all, where there are fewer) that the reader did
not write, what was wrong with each, and what it was checked against. `--draw` prints the sample that the seed of the
file gives with the records as they are now; that of the file was drawn with the records of the commit that it names.
The rows below `all` are of other readings: all records that blocked without `code` and without an end, not a sample,
and those of later days, which the file describes.
The shares have 95 % intervals (Wilson). It has no bound: the figures are for `docs/records-measured.md`.
"""

import argparse
import random
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from scipy.stats import binomtest

from regress_gate.accelerators.registry import identify
from regress_gate.known.records.loading import load_records
from regress_gate.model.issue import KnownIssue

ANSWERS = Path(__file__).with_name("second_reading.yaml")
OTHER_READINGS = (
    "blocking_without_end",
    "later",
    "new_high",
    "new_sample",
    "new_rest",
    "most_met",
    "before_sixth",
    "ranges_of_one_report",
    "most_met_again",
    "before_seventh",
    "measured_without_code",
    "met_or_blocking",
    "before_ninth",
    "after_ninth",
    "before_tenth",
    "after_tenth",
    "before_eleventh",
    "newest_releases",
)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="How many records a second reader found wrong.")
    parser.add_argument("--draw", action="store_true", help="print the sample instead")
    given = parser.parse_args(arguments)
    answers = yaml.safe_load(ANSWERS.read_text())
    if given.draw:
        for platform, ids in _draw(answers).items():
            print(platform, *ids)
        return 0
    print("| platform | records | wrong | share wrong |\n| --- | --- | --- | --- |")
    rows = {platform: list(records.values()) for platform, records in answers["read"].items()}
    rows["all"] = [one for records in rows.values() for one in records]
    rows |= {key.replace("_", " "): list(answers[key].values()) for key in OTHER_READINGS if key in answers}
    for name, found in rows.items():
        wrong = sum("wrong" in (one or {}) for one in found)
        low, high = binomtest(wrong, len(found)).proportion_ci(0.95, method="wilson")
        print(f"| `{name}` | {len(found)} | {wrong} | {wrong / len(found):.0%} ({low:.0%} to {high:.0%}) |")
    return 0


def _draw(answers: dict[str, Any]) -> dict[str, list[str]]:
    records = [record for record in load_records() if record.id not in answers["written_by_the_reader"]]
    sample = {}
    for platform in answers["read"]:
        ids = sorted(record.id for record in records if platform in _platforms(record))
        chosen = random.Random(f"{platform} {answers['seed']}")
        sample[platform] = sorted(chosen.sample(ids, min(15, len(ids))))
    return sample


def _platforms(record: KnownIssue) -> set[str | None]:
    """Those that its scope names, or those of its accelerators and levels; empty for a record of every platform."""
    if record.scope.platform:
        return set(record.scope.platform)
    names = [*(record.scope.accelerator or []), *(record.scope.gpu_arch or [])]
    return {identify(name.replace("*", "")).platform for name in names}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
