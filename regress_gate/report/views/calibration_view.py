"""The report of `calibrate`: how much each series of one version scatters."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from regress_gate.report.document import Block, Cell, Column, Detail, Document, Pair, Pairs, Paragraph, Row, Table, View
from regress_gate.report.views.plan_view import LARGEST_CHANGE, percent

STAR_LEVEL = 0.05
"""Chance that any of all effects of order and time is starred if there is none."""
_DECISIONS = {"pass": "passes", "fail": "FAILS", "inconclusive": "stays undecided"}
_LEGEND = (
    Pair("SPREAD", "between server starts, relative (of fractions for failures and answers)"),
    Pair(
        "n=5",
        "the smallest loss that is called a regression with five runs a side, four times in five; `none` if no loss is "
        "large enough",
    ),
    Pair("SECOND", "effect of being started second in a block"),
    Pair(
        "A BLOCK",
        "drift from block to block; both are positive for larger values, which need not be worse; `*`: shown to be "
        "there, over all series together",
    ),
)


@dataclass(frozen=True, slots=True)
class CalibrationView(View):
    """The object that `calibrate --format json` prints."""

    calibration: Mapping[str, Any]

    def document(self, detail: Detail) -> Document:  # noqa: ARG002 - there is nothing to leave out
        found = self.calibration
        title = f"{found['version']} against itself {_DECISIONS[found['decision']]}: {'; '.join(found['reasons'])}"
        parts = [f"{found['runs']} runs count"]
        parts += [f"{len(found['void_runs'])} void ({found['void_runs'][0]})"] if found["void_runs"] else []
        parts += [f"{found['failed_runs']} failed"] if found["failed_runs"] else []
        parts += [] if found["minutes_a_block"] is None else [f"{found['minutes_a_block']:.1f} minutes a block"]
        blocks: list[Block] = [Paragraph(f"{found['suite']} on {found['testbed']}: {', '.join(parts)}")]
        if found["series"]:
            blocks += [_series(found["series"]), Pairs(_LEGEND)]
        else:
            blocks.append(Paragraph("No series has two runs that count, so the spread is unknown."))
        return Document(title, tuple(blocks))

    def data(self) -> Mapping[str, Any]:
        return self.calibration


def _series(series: list[dict[str, Any]]) -> Table:
    counts = [f"n={runs}" for runs in series[0]["detectable_change"]]
    titles = ("SPREAD", "MARGIN", *counts, "SECOND", "A BLOCK")
    columns = Column("SERIES"), *(Column(title, is_right=True) for title in titles)
    rows = [
        Row(
            (
                f"{each['scenario']}/{each['metric']}",
                percent(each["run_cv"]),
                percent(each["margin"]),
                *(_short_percent(value) for value in each["detectable_change"].values()),
                _effect(each["second_in_block"]),
                _effect(each["drift_per_block"]),
            )
        )
        for each in sorted(series, key=lambda each: -each["run_cv"])
    ]
    return Table.of(columns, tuple(rows))


def _short_percent(loss: float | None) -> str:
    if loss is None or loss >= LARGEST_CHANGE:
        return "none"
    return f"{loss:.1%}" if loss < 0.0995 else f"{loss:.0%}"


def _effect(found: Mapping[str, Any] | None) -> Cell:
    if found is None:
        return Cell("-")
    return Cell(f"{found['effect']:+.1%}", "*" if found["p_adjusted"] <= STAR_LEVEL else "")
