"""Whether the records of known issues are as dense for the newest releases as for older ones.

    python benchmarks/record_density.py

A record counts in each release of vLLM in which a range of its begins; a release candidate counts as its release. Other
packages do not count. The minor versions are of different lengths (0.11 took seven weeks, 0.31 took two), so that
the bound is on records per two weeks of development: the days from the last release before a group to its own last one.
From 0.27 on there have to be as many as from 0.11 to 0.21. By release and by minor version they are shown beside it.
"""

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from packaging.version import Version as Pep440

from regress_gate.known.records.loading import load_records
from regress_gate.known.records.releases import shipped_releases
from regress_gate.model.issue import KnownIssue

GROUPS = (("0.8", "0.10"), ("0.11", "0.21"), ("0.22", "0.26"), ("0.27", None))
OLDER, NEWEST = GROUPS[1], GROUPS[3]


@dataclass(frozen=True)
class Density:
    """How many records begin in a row of minor versions."""

    records: int
    minors: int
    releases: int
    days: int

    @property
    def per_two_weeks(self) -> float:
        return self.records / self.days * 14

    @property
    def row(self) -> str:
        by = (self.records / self.minors, self.records / self.releases, self.per_two_weeks)
        return " | ".join((str(self.records), str(self.days), *(f"{value:.0f}" for value in by)))


def beginnings(issues: Iterable[KnownIssue]) -> Counter[tuple[int, ...]]:
    """Minor version, such as (0, 11), to how many records begin in it."""
    found: Counter[tuple[int, ...]] = Counter()
    for issue in issues:
        begins = {
            event.key.release
            for affected in issue.affected
            if affected.package.name == "vllm"
            for one in affected.ranges
            if one.type == "ECOSYSTEM"
            for event in one.events
            if event.introduced not in (None, "0")
        }
        found.update(release[:2] for release in begins)
    return found


def density(found: Counter[tuple[int, ...]], first: str, last: str | None) -> Density:
    releases = shipped_releases()
    inside = [
        key
        for key in releases
        if key.release[:2] >= Pep440(first).release and (last is None or key.release[:2] <= Pep440(last).release)
    ]
    before = max(key for key in releases if key < min(inside))
    minors = {key.release[:2] for key in inside}
    return Density(
        records=sum(found[minor] for minor in minors),
        minors=len(minors),
        releases=len(inside),
        days=(releases[max(inside)] - releases[before]).days,
    )


def main() -> int:
    found = beginnings(load_records())
    minors: Sequence[str] = [
        f"{minor[0]}.{minor[1]}" for minor in sorted({key.release[:2] for key in shipped_releases()}) if minor >= (0, 8)
    ]
    print("| first | last | records | days | per minor version | per release | per two weeks |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for first, last in (*((minor, minor) for minor in minors), *GROUPS):
        print(f"| {first} | {last or minors[-1]} | {density(found, first, last).row} |")
    older, newest = density(found, *OLDER), density(found, *NEWEST)
    ratio = newest.per_two_weeks / older.per_two_weeks
    print(
        f"\nIn two weeks since {NEWEST[0]} {ratio:.2f} times as many begin as from {OLDER[0]} to {OLDER[1]} (bound: 1)"
    )
    return 0 if ratio >= 1 else 1


if __name__ == "__main__":
    sys.exit(main())
