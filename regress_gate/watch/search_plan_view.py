"""The report of what a bisect would take: runs and time, by simulation.

Not for what a search found (`bisect_view`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from regress_gate import __version__
from regress_gate.model.run import SuiteRef
from regress_gate.report.document import Cell, Column, Detail, Document, Pair, Pairs, Paragraph, Row, Table, View
from regress_gate.stats.bisection import SURE
from regress_gate.stats.search_length import ExpectedRuns
from regress_gate.text import duration_text, plural
from regress_gate.watch.bisection import SearchedSeries
from regress_gate.watch.candidates import Candidate


@dataclass(frozen=True, slots=True)
class SearchPlan(View):
    """What `bisect` would do."""

    series: SearchedSeries
    suite: SuiteRef
    testbed: str
    kind: str
    row: tuple[Candidate, ...]
    stored: int
    """Runs of the row that are there already."""
    expected: Mapping[float, ExpectedRuns]
    """By the size of the step in standard deviations between runs."""
    is_known: bool
    """Whether the step is what the stored runs of the ends show."""
    seconds_a_run: float | None
    budget: float | None
    answer: str | None
    """What the stored runs answer already; None: runs are missing."""

    @property
    def seconds(self) -> float | None:
        """On average; of the middle of several sizes."""
        if self.seconds_a_run is None:
            return None
        expected = list(self.expected.values())
        return expected[len(expected) // 2].mean * self.seconds_a_run

    @property
    def text(self) -> str:
        step, expected = list(self.expected.items())[len(self.expected) // 2]
        return f"about {expected.mean:.0f} runs at a step of {step:g} σ, {expected.high} in the worst of ten"

    def document(self, detail: Detail) -> Document:  # noqa: ARG002 - there is nothing to leave out
        if self.answer is not None:
            text = (
                f"The {plural(self.stored, 'stored run')} of {self.row[0].version} to {self.row[-1].version} answer it"
            )
            return Document(f"PLAN: nothing is missing ({self.answer.replace('_', ' ')})", (Paragraph(f"{text}."),))
        time = "not known before the first run" if self.seconds is None else f"about {duration_text(self.seconds)}"
        if self.seconds is not None and self.budget is not None:
            fits = "within" if self.seconds <= self.budget else "more than"
            time += f", {fits} the budget of {duration_text(self.budget)}"
        source = (
            "as the stored runs of both ends show it" if self.is_known else "not known: the ends are not measured yet"
        )
        pairs = (
            Pair("builds", f"{len(self.row)} ({self.kind}), {self.row[0].version} to {self.row[-1].version}"),
            Pair("stored", plural(self.stored, "run")),
            Pair("size of the step", source),
            Pair("time", time),
        )
        rows = tuple(
            Row((
                Cell(f"{step:g} σ"),
                Cell(f"{expected.mean:.0f}"),
                Cell(str(expected.high)),
                Cell("" if self.seconds_a_run is None else duration_text(expected.mean * self.seconds_a_run)),
            ))
            for step, expected in self.expected.items()
        )  # fmt: skip
        columns = tuple(map(Column, ("STEP", "RUNS", "AT MOST, 9 OF 10", "TIME")))
        searches = next(iter(self.expected.values())).simulated
        note = (
            f"By {searches} simulated searches each, until a place has {SURE:.0%}. σ is the standard deviation between "
            "server starts. Installing a build comes on top."
        )
        title = f"PLAN: {self.series.name} between {self.row[0].version} and {self.row[-1].version}"
        return Document(title, (Pairs(pairs), Table.of(columns, rows), Paragraph(note)), name="Plan of a bisect")

    def data(self) -> dict[str, Any]:
        return {
            "schema_version": "1",
            "tool_version": __version__,
            "scenario": self.series.scenario,
            "metric": self.series.metric,
            "suite": str(self.suite),
            "testbed": self.testbed,
            "kind": self.kind,
            "builds": [str(one.version) for one in self.row],
            "stored_runs": self.stored,
            "step_is_known": self.is_known,
            "answer": self.answer,
            "minutes_a_run": None if self.seconds_a_run is None else round(self.seconds_a_run / 60, 2),
            "minutes": None if self.seconds is None else round(self.seconds / 60, 1),
            "expected": [
                {"step": step, "runs": each.mean, "runs_at_most": each.high, "simulated": each.simulated}
                for step, each in self.expected.items()
            ],
        }
