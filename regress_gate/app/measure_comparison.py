"""Measure two versions for a comparison: plan the missing blocks, measure them until the decision is clear.

After each block an interim analysis checks whether the decision is clear. Not for the decision itself, which is
`compare`'s.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from regress_gate.app.compare import ComparisonScope, DecideComparison
from regress_gate.app.experiment import measure_task
from regress_gate.app.experiment_plans import find_unfinished
from regress_gate.app.external_servers import ServerTarget, measure_servers
from regress_gate.app.measurement_task import MeasurementTask, make_task
from regress_gate.app.settings import DEFAULT_BLOCKS, MeasurementAmount, ProgressReporter, Settings
from regress_gate.bench.experiment.experiment_plan import BASELINE, CANDIDATE, ExperimentPlan, server_groups
from regress_gate.bench.experiment.experiment_runner import find_plan_runs
from regress_gate.bench.fleet.fleet import Fleet
from regress_gate.errors import ExitCode, InputError, RegressGateError
from regress_gate.gate.early_stopping import StopDecision, decide_stop
from regress_gate.gate.planning import RunPlan, plan_runs
from regress_gate.gate.replicates import Pairing, pair_runs
from regress_gate.gate.sides import make_side, runs_that_count
from regress_gate.model.config import ProvisionConfig
from regress_gate.model.run import Run, SuiteRef
from regress_gate.model.testbed import Testbed
from regress_gate.model.version import Ref, Version
from regress_gate.stats.design import FIRST_ANALYSIS
from regress_gate.store.combined import open_combined_store
from regress_gate.store.repository import Repository, find_store
from regress_gate.store.store_interface import run_order
from regress_gate.text import duration_text, plural


def counted_runs(settings: Settings, task: MeasurementTask) -> list[Run]:
    """Runs that count, of the suite on this testbed: all of the task's versions, and the newest of others."""
    suite = SuiteRef(task.suite.name, task.suite.version)
    with open_combined_store(str(settings.store_url.value)) as library:
        own = [
            run
            for testbed in task.testbed_names
            for version in dict.fromkeys(task.versions.values())
            for run in library.runs(version=version, testbed=testbed, suite=suite)
        ]
        recent = [
            run
            for testbed in task.testbed_names
            for run in library.recent_runs(testbed=testbed, suite=suite, paired=False, without=own)
        ]
    runs = {run.key: run for run in (*own, *recent)}
    return runs_that_count(sorted(runs.values(), key=run_order), task.suite.conditions)


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
        suite = SuiteRef(task.suite.name, task.suite.version)
        runs = [run for each in task.testbed_names for run in library.runs(version=wanted, testbed=each, suite=suite)]
    return max(runs, key=run_order).version if runs else wanted


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
        decision = self._analyse({}, made, most) if have_interim_analyses(counted, self.task) else None
        if decision is None or not decision.stops:
            return None
        return f"{plural(made, 'block is', 'blocks are')} stored: {decision.text}"

    def after_block(
        self, store: Repository, plan: ExperimentPlan, progress: ProgressReporter
    ) -> Callable[[], str | None]:
        """To be called after each block: reports what is known, and returns why to stop; None: go on."""

        def analyse() -> str | None:
            held = [run for run in find_plan_runs(plan, store) if run.place is not None]
            made = whole_blocks(counted_runs(self.settings, self.task), self.task)
            most = max(plan.most_blocks or 0, made)
            decision = self._analyse({run.place.side: run.version for run in held if run.place}, made, most)
            if decision is None:
                return None
            if decision.stops:
                progress.note(f"stopped after block {made} of at most {most}: {decision.text}")
                return decision.text
            took = sum(run.place.seconds or 0.0 for run in held if run.place)
            left = took / len({run.place.block for run in held if run.place}) * (most - made)
            left /= len(self.task.testbed_names)  # each makes its share
            progress.note(
                f"after block {made} of at most {most}: {decision.text}, going on (about {duration_text(left)} at most)"
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
        scope = ComparisonScope(left, right, suite, self.task.testbed_names)
        return decide_stop(self.decide(scope), made=made, most=most)


class NotMeasuredError(RegressGateError):
    """A version was measured, but none of its runs can be compared: neither a verdict nor a lack of stored data."""

    exit_code = ExitCode.COULD_NOT_MEASURE


@dataclass(frozen=True, slots=True)
class PlannedComparison:
    """What `measure_comparison` would measure."""

    task: MeasurementTask
    amount: MeasurementAmount
    """As asked for; `resume` says whether there is something to resume."""
    plan: RunPlan
    interim: InterimAnalysis | None
    """None: one analysis, after all blocks."""
    settled: str | None
    """Why the stored blocks decide already; None: they do not."""


def plan_comparison(
    settings: Settings,
    baseline: str,
    candidate: str,
    amount: MeasurementAmount,
    provisioning: ProvisionConfig,
    *,
    decide: DecideComparison | None = None,
    plan_only: bool = False,
    fleet: Fleet | None = None,
) -> PlannedComparison:
    """The blocks that are missing. `decide` is called after each block, to stop early; None: all blocks are made.

    With `plan_only` this machine need not have the suite's accelerator; with `fleet` it is not measured on.
    """
    versions = {BASELINE: baseline, CANDIDATE: candidate}
    task = make_task(settings, versions, provisioning, plan_only=plan_only, fleet=fleet)
    if task.versions[BASELINE] == task.versions[CANDIDATE]:
        raise InputError("both sides are one version", todo="use `regress-gate calibrate` for the noise of one version")
    if amount.resume_if_any:
        amount = replace(amount, resume=_is_begun(settings, task), resume_if_any=False)
    if fleet is not None and amount.resume:
        fleet.go_on_from(_hosts_before(settings, task))
    interim = None if decide is None else InterimAnalysis(settings, task, decide)
    plan = plan_blocks(settings, task, amount, stops_early=interim is not None)
    settled = None
    if interim is not None and plan.blocks and not amount.resume:
        settled = interim.find_settled(plan.runs_a_side)
    if settled is not None:
        stored = plan.runs_a_side - plan.blocks
        plan = plan_blocks(settings, task, replace(amount, runs=stored), stops_early=False)
    return PlannedComparison(task, amount, plan, interim, settled)


def _is_begun(settings: Settings, task: MeasurementTask) -> bool:
    """Whether an experiment of the task was interrupted."""
    store = find_store(str(settings.store_url.value))
    if store is None:
        return False
    with store:
        return find_unfinished(store, task) is not None


def _hosts_before(settings: Settings, task: MeasurementTask) -> list[Testbed]:
    """Testbeds that made blocks of an experiment of the task that was interrupted: some may be gone."""
    store = find_store(str(settings.store_url.value))
    if store is None:
        return []
    with store:
        plan = find_unfinished(store, task)
        return [] if plan is None else list(dict.fromkeys(run.testbed for run in find_plan_runs(plan, store)))


def measure_comparison(
    settings: Settings, planned: PlannedComparison, progress: ProgressReporter, *, hint: str | None = None
) -> ComparisonScope:
    """Measure the missing blocks; the scope of the comparison to make afterwards.

    A version that fails to serve is no error here: its failed runs are stored, and the gate weighs them. `hint` says
    how to go on after an interruption; None: with --resume. Raises NotMeasuredError for a version that has neither
    failed runs nor runs that count.
    """
    task, plan, amount = planned.task, planned.plan, planned.amount
    built = {side: built_version(settings, task, side) for side in task.versions}
    if plan.blocks or amount.resume:
        interim = planned.interim
        outcome = measure_task(
            settings,
            task,
            amount if amount.resume else replace(amount, runs=plan.blocks),
            progress,
            most_blocks=None if interim is None else plan.runs_a_side,
            after_block=None if interim is None else interim.after_block,
            hint=hint,
        ).outcome
        built |= {entry.made.slot.side: entry.made.run.version for entry in outcome.stored}
        for version in built.values():
            _check_measured(settings, task, version, "go on with --resume" if hint is None else "run it again")
    else:
        reason = planned.settled or f"both sides have {plural(plan.runs_a_side, 'run that counts', 'runs that count')}"
        hint = "" if planned.settled is None else " (--all-blocks measures all the same)"
        progress.note(f"{reason}; nothing was measured{hint}")
    refs = Ref.parse(str(built[BASELINE])), Ref.parse(str(built[CANDIDATE]))
    return ComparisonScope(*refs, str(settings.suite.value or task.suite.name), task.testbed_names)


def measure_running_comparison(
    settings: Settings,
    baseline: str,
    candidate: str,
    urls: tuple[str, ...],
    amount: MeasurementAmount,
    progress: ProgressReporter,
) -> ComparisonScope:
    """Measure two servers that already run, in turns: one run of each. Raises NotMeasuredError for one without a usable
    trial."""
    if len(urls) != 2:
        raise InputError(f"--url was given {plural(len(urls), 'time')}", todo="give BASE's server, then CAND's")
    versions = (baseline, candidate)
    targets = [ServerTarget(Version.parse(text), url) for text, url in zip(versions, urls, strict=True)]
    measured = measure_servers(settings, targets, amount, progress)
    for line in measured.stored:
        progress.note(line)
    if measured.unmeasured:  # its earlier runs do not answer the question
        raise NotMeasuredError(f"{measured.unmeasured[0]} could not be measured: no trial could be used")
    refs = [Ref.parse(str(version)) for version in measured.versions]
    return ComparisonScope(refs[0], refs[1], measured.suite, (measured.testbed,))


def plan_blocks(settings: Settings, task: MeasurementTask, amount: MeasurementAmount, *, stops_early: bool) -> RunPlan:
    """The blocks that are missing within the budget, and what they can show.

    At least one block is planned, on each host, even if it exceeds the budget: the budget itself ends it.
    """
    earlier = counted_runs(settings, task)
    stored = whole_blocks(earlier, task)
    blocks = max(0, (amount.runs or task.suite.blocks or DEFAULT_BLOCKS) - stored)
    policy = settings.policy(task.suite.gate)
    plan = plan_runs(earlier, policy, task.suite, blocks=blocks, have=stored, stops_early=stops_early)
    if amount.budget is not None and plan.seconds_a_block:
        fitting = max(1, int(amount.budget / plan.seconds_a_block)) * len(task.testbed_names)
        if fitting < blocks:
            plan = plan_runs(earlier, policy, task.suite, blocks=fitting, have=stored, stops_early=stops_early)
    return replace(plan, hosts=len(task.testbed_names))


def _check_measured(settings: Settings, task: MeasurementTask, version: Version, todo: str) -> None:
    """Raises NotMeasuredError for a version of which every run is void, and none failed."""
    with open_combined_store(str(settings.store_url.value)) as store:
        suite = SuiteRef(task.suite.name, task.suite.version)
        runs = [run for each in task.testbed_names for run in store.runs(version=version, testbed=each, suite=suite)]
    side = make_side(version, runs, task.suite.conditions)
    if not side.counted and not side.failed:
        reason = f": {side.void[-1].reason}" if side.void else ""
        raise NotMeasuredError(f"{version} could not be measured{reason}; quieten the machine, then {todo}")
