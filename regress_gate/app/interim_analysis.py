"""Looking at the data after every block of `compare --measure`: the decision that would be printed now, what it means
for the blocks that are left, and one line about it.

The decision itself is whatever `compare` prints: it is asked for, not made here.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from regress_gate.text import duration_text, plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from regress_gate.app.measurement_task import MeasurementTask
    from regress_gate.app.progress import ProgressReporter
    from regress_gate.app.settings import Settings
    from regress_gate.bench.experiment.experiment_plan import ExperimentPlan
    from regress_gate.gate.early_stopping import StopDecision
    from regress_gate.gate.replicates import Pairing
    from regress_gate.model.result import Result
    from regress_gate.model.run import Run
    from regress_gate.model.version import Ref, Version
    from regress_gate.store.repository import Repository


# MERGED regress_gate.cli.measured_blocks: What blocks of two versions are stored and count. Not for making more of
# them.


def counted_runs(settings: "Settings", what: "MeasurementTask") -> "list[Run]":
    """Runs of any version that count, of the suite on this testbed: stored ones and shipped ones."""
    from regress_gate.gate.sides import make_side
    from regress_gate.model.run import SuiteRef
    from regress_gate.store.combined import open_combined_store

    with open_combined_store(str(settings.store_url.value)) as library:
        runs = library.runs(testbed=what.testbed.name, suite=SuiteRef(what.suite.name, what.suite.version))
    by_version: dict[Version, list[Run]] = {}
    for run in runs:
        by_version.setdefault(run.version, []).append(run)
    return [
        run for version, same in by_version.items() for run in make_side(version, same, what.suite.conditions).counted
    ]


def whole_blocks(counted: "Sequence[Run]", what: "MeasurementTask") -> int:
    """Blocks in which both versions count: what a comparison takes. Where the suite wants several servers, the one
    that has the fewest decides."""
    return min(pairing.blocks for pairing in _pairings(counted, what))


def have_interim_analyses(counted: "Sequence[Run]", what: "MeasurementTask") -> bool:
    """Whether any of these blocks was made by a plan that asked for the decision after each of its blocks."""
    return any(
        run.place is not None and run.place.most_blocks is not None
        for pairing in _pairings(counted, what)
        if pairing.is_side_by_side
        for run in (*pairing.baseline, *pairing.candidate)
    )


def _pairings(counted: "Sequence[Run]", what: "MeasurementTask") -> "list[Pairing]":
    """One for each server of the suite."""
    from regress_gate.bench.experiment.experiment_plan import server_groups
    from regress_gate.gate.replicates import pair_runs

    baseline, candidate = (
        [run for run in counted if run.place is not None and run.version.matches(version)]
        for version in what.versions.values()
    )
    return [
        pair_runs(
            [run for run in baseline if run.place and run.place.group == group.name],
            [run for run in candidate if run.place and run.place.group == group.name],
        )
        for group in server_groups(what.suite)
    ]


def built_version(settings: "Settings", what: "MeasurementTask", side: str) -> "Version":
    """The build that is stored for a side, where what was asked for left something open."""
    from regress_gate.model.run import SuiteRef
    from regress_gate.store.combined import open_combined_store

    wanted = what.versions[side]
    with open_combined_store(str(settings.store_url.value)) as library:
        runs = library.runs(
            version=wanted, testbed=what.testbed.name, suite=SuiteRef(what.suite.name, what.suite.version)
        )
    return runs[-1].version if runs else wanted


DecideComparison = Callable[["tuple[Ref, Ref]", "tuple[str | None, str | None]"], "Result"]
"""The decision that `compare` would print now, of two refs in a place: a suite, by name or path, and a testbed."""


@dataclass(frozen=True, slots=True)
class InterimAnalysis:
    """How the data of two versions are looked at."""

    settings: "Settings"
    what: "MeasurementTask"
    decide: DecideComparison

    def standing(self, most: int) -> str | None:
        """What the stored blocks decide, where a plan like this one made them and went no further; None: nothing.

        Blocks that were to be looked at once have had that look.
        """
        counted = counted_runs(self.settings, self.what)
        made = whole_blocks(counted, self.what)
        found = self._look({}, made, most) if have_interim_analyses(counted, self.what) else None
        return (
            f"{plural(made, 'block is', 'blocks are')} stored: {found.text}"
            if found is not None and found.stops
            else None
        )

    def after_block(
        self, store: "Repository", plan: "ExperimentPlan", live: "ProgressReporter"
    ) -> Callable[[], str | None]:
        """To be called after every block: says what is known, and returns why no more blocks are wanted."""
        from regress_gate.bench.experiment.experiment_runner import find_plan_runs

        def ask() -> str | None:
            held = [run for run in find_plan_runs(plan, store) if run.place is not None]
            made = whole_blocks(counted_runs(self.settings, self.what), self.what)
            most = max(plan.most_blocks or 0, made)
            found = self._look({run.place.side: run.version for run in held if run.place}, made, most)
            if found is None:
                return None
            if found.stops:
                live.note(f"stopped after block {made} of at most {most}: {found.text}")
                return found.text
            took = sum(run.place.seconds or 0.0 for run in held if run.place)
            left = took / len({run.place.block for run in held if run.place}) * (most - made)
            live.note(
                f"after block {made} of at most {most}: {found.text}, going on (about {duration_text(left)} at most)"
            )
            return None

        return ask

    def _look(self, built: "dict[str, Version]", made: int, most: int) -> "StopDecision | None":
        """None while there is too little to look at. `built` are the builds that were measured, by side."""
        from regress_gate.gate.early_stopping import decide_stop
        from regress_gate.model.version import Ref
        from regress_gate.stats.sequential import FIRST_ANALYSIS

        if made < FIRST_ANALYSIS:
            return None
        left, right = (
            Ref.parse(str(built.get(side) or built_version(self.settings, self.what, side)))
            for side in self.what.versions
        )
        suite = str(self.settings.suite.value or self.what.suite.name)
        return decide_stop(self.decide((left, right), (suite, self.what.testbed.name)), made=made, most=most)
