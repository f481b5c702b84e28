"""Interim analysis after each block of `compare --measure`: is the decision clear, or are more blocks needed?

Also which blocks of two versions are stored and count. Not for the decision itself, which is `compare`'s.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from regress_gate.app.compare import ComparisonScope, DecideComparison
from regress_gate.app.measurement_task import MeasurementTask
from regress_gate.app.progress import ProgressReporter
from regress_gate.app.settings import Settings
from regress_gate.bench.experiment.experiment_plan import ExperimentPlan, server_groups
from regress_gate.bench.experiment.experiment_runner import find_plan_runs
from regress_gate.gate.early_stopping import StopDecision, decide_stop
from regress_gate.gate.replicates import Pairing, pair_runs
from regress_gate.gate.sides import make_side
from regress_gate.model.run import Run, SuiteRef
from regress_gate.model.version import Ref, Version
from regress_gate.stats.sequential import FIRST_ANALYSIS
from regress_gate.store.combined import open_combined_store
from regress_gate.store.repository import Repository
from regress_gate.text import duration_text, plural


def counted_runs(settings: Settings, task: MeasurementTask) -> list[Run]:
    """Runs of any version that count, of the suite on this testbed: stored ones and shipped ones."""
    with open_combined_store(str(settings.store_url.value)) as library:
        runs = library.runs(testbed=task.testbed.name, suite=SuiteRef(task.suite.name, task.suite.version))
    by_version: dict[Version, list[Run]] = {}
    for run in runs:
        by_version.setdefault(run.version, []).append(run)
    return [
        run for version, same in by_version.items() for run in make_side(version, same, task.suite.conditions).counted
    ]


def whole_blocks(counted: Sequence[Run], task: MeasurementTask) -> int:
    """Blocks in which both versions count: what a comparison takes. Where the suite wants several servers, the one
    that has the fewest decides."""
    return min(pairing.blocks for pairing in _pairings(counted, task))


def have_interim_analyses(counted: Sequence[Run], task: MeasurementTask) -> bool:
    """Whether any of these blocks was made by a plan that asked for the decision after each of its blocks."""
    return any(
        run.place is not None and run.place.most_blocks is not None
        for pairing in _pairings(counted, task)
        if pairing.is_side_by_side
        for run in (*pairing.baseline, *pairing.candidate)
    )


def _pairings(counted: Sequence[Run], task: MeasurementTask) -> list[Pairing]:
    """One for each server of the suite."""
    baseline, candidate = (
        [run for run in counted if run.place is not None and run.version.matches(version)]
        for version in task.versions.values()
    )
    return [
        pair_runs(
            [run for run in baseline if run.place and run.place.group == group.name],
            [run for run in candidate if run.place and run.place.group == group.name],
        )
        for group in server_groups(task.suite)
    ]


def built_version(settings: Settings, task: MeasurementTask, side: str) -> Version:
    """The build that is stored for a side, where what was asked for left something open."""
    wanted = task.versions[side]
    with open_combined_store(str(settings.store_url.value)) as library:
        runs = library.runs(
            version=wanted, testbed=task.testbed.name, suite=SuiteRef(task.suite.name, task.suite.version)
        )
    return runs[-1].version if runs else wanted


@dataclass(frozen=True, slots=True)
class InterimAnalysis:
    """Decides after each block whether to go on."""

    settings: Settings
    task: MeasurementTask
    decide: DecideComparison

    def find_settled(self, most: int) -> str | None:
        """Why the stored blocks decide already; None: they do not.

        Only blocks of a plan with interim analyses can: those of a fixed plan have had their one analysis.
        """
        counted = counted_runs(self.settings, self.task)
        made = whole_blocks(counted, self.task)
        found = self._analyse({}, made, most) if have_interim_analyses(counted, self.task) else None
        if found is None or not found.stops:
            return None
        return f"{plural(made, 'block is', 'blocks are')} stored: {found.text}"

    def after_block(
        self, store: Repository, plan: ExperimentPlan, progress: ProgressReporter
    ) -> Callable[[], str | None]:
        """To be called after each block: reports what is known, and returns why to stop; None: go on."""

        def analyse() -> str | None:
            held = [run for run in find_plan_runs(plan, store) if run.place is not None]
            made = whole_blocks(counted_runs(self.settings, self.task), self.task)
            most = max(plan.most_blocks or 0, made)
            found = self._analyse({run.place.side: run.version for run in held if run.place}, made, most)
            if found is None:
                return None
            if found.stops:
                progress.note(f"stopped after block {made} of at most {most}: {found.text}")
                return found.text
            took = sum(run.place.seconds or 0.0 for run in held if run.place)
            left = took / len({run.place.block for run in held if run.place}) * (most - made)
            progress.note(
                f"after block {made} of at most {most}: {found.text}, going on (about {duration_text(left)} at most)"
            )
            return None

        return analyse

    def _analyse(self, built: dict[str, Version], made: int, most: int) -> StopDecision | None:
        """None while there is too little data. `built` are the builds that were measured, by side."""
        if made < FIRST_ANALYSIS:
            return None
        left, right = (
            Ref.parse(str(built.get(side) or built_version(self.settings, self.task, side)))
            for side in self.task.versions
        )
        suite = str(self.settings.suite.value or self.task.suite.name)
        scope = ComparisonScope(left, right, suite, self.task.testbed.name)
        return decide_stop(self.decide(scope), made=made, most=most)
