"""Every labelled change of the real benchmark histories, and every reported one, with how plain each is: a table.

    python benchmarks/changepoint_labels.py HARNESS/data/perfbench.json > benchmarks/results/history_bench.md

A change counts as told when one is reported within 5 points of its label, as in the harness, which leaves out series of
more than 2,000 points. How plain a change is, is asked of the data alone: of all pairs of a point from the 20 (40)
before it and one from the 20 (40) after it, as far as no other change stands between, the share that lies in the one
order (one half: nothing changed; one: all apart). From that follows the highest F1 of a detector that tells every
change which is as plain as a labelled one, at either number of points.
"""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from regress_gate.model.samples import Floats
from regress_gate.stats.changepoints import ChangePoint, detect

NEAR, LONGEST = 5, 2000
REACHES = (20, 40)


@dataclass(frozen=True, slots=True)
class Row:
    series: str
    index: int
    labelled: bool
    point: ChangePoint | None
    plain: tuple[float, ...]
    """Share of pairs in the one order, at each of REACHES."""

    @property
    def outcome(self) -> str:
        if self.point is None:
            return "missed"
        return "told" if self.labelled else "no label"


def plainness(values: Floats, at: int, others: Sequence[int], reach: int) -> float:
    """`others` are the indices of all changes; those within 5 points of `at` are taken for the same one."""
    low = max([at - reach, 0, *(other for other in others if other < at - NEAR)])
    high = min([at + reach, len(values), *(other for other in others if other > at + NEAR)])
    before, after = values[low:at], values[at:high]
    return float(1.0 + abs(np.sign(after[:, None] - before[None, :]).mean())) / 2.0


def rows(name: str, values: Floats, labels: Sequence[int]) -> list[Row]:
    points = [point for point in detect(values) if point.kind != "variance"]
    everywhere = [*labels, *(point.index for point in points)]
    found, free = list[Row](), list(points)
    for label in labels:
        near = min(free, key=lambda point: abs(point.index - label), default=None)
        told = near if near is not None and abs(near.index - label) <= NEAR else None
        if told is not None:
            free.remove(told)
        # the place of a label can be off by a few points, which would make a plain change look less so
        place = label if told is None else told.index
        plain = tuple(plainness(values, place, everywhere, reach) for reach in REACHES)
        found.append(Row(name, label, True, told, plain))
    for point in free:
        plain = tuple(plainness(values, point.index, everywhere, reach) for reach in REACHES)
        found.append(Row(name, point.index, False, point, plain))
    return sorted(found, key=lambda row: row.index)


def line(row: Row) -> str:
    point = row.point
    said = "" if point is None or point.change is None else f"{point.kind}, {100 * point.change:+.1f} %"
    sure = "" if point is None else f"{point.probability:.2f}"
    shares = " | ".join(f"{100 * share:.0f} %" for share in row.plain)
    place = row.index if point is None or point.index == row.index else f"{row.index}, told at {point.index}"
    return f"| {row.series} | {place} | {row.outcome} | {said} | {sure} | {shares} |"


def f1(told: int, extra: int, missed: int) -> float:
    return 2 * told / (2 * told + extra + missed)


def main() -> int:
    series = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))["series"]
    short = [one for one in series if len(one["y"]) <= LONGEST]
    table = [row for one in short for row in rows(one["name"], np.array(one["y"], dtype=float), one["cps"])]
    print("| series | index | | told as | probability | pairs in one order, of 20 points | of 40 |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    print(*map(line, table), sep="\n")
    labelled, extra = [row for row in table if row.labelled], [row for row in table if not row.labelled]
    missed = sum(row.point is None for row in labelled)
    told = len(labelled) - missed
    print(f"\nF1 {f1(told, len(extra), missed):.3f}: {told} told, {missed} missed, {len(extra)} without a label.\n")
    for i, reach in enumerate(REACHES):
        weakest = min(row.plain[i] for row in labelled)
        as_plain = sum(row.plain[i] >= weakest for row in extra)
        print(
            f"- By {reach} points, the least plain labelled change has {100 * weakest:.0f} % of its pairs in one order."
        )
        print(f"  {as_plain} changes without a label are as plain; with these and all labels told: F1", end=" ")
        print(f"{f1(len(labelled), as_plain, 0):.3f}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
