"""Run an experiment: provision the versions, make the runs that its plan lacks, store and report them.

Not for what is concluded from the runs.
"""

import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from types import FrameType, MappingProxyType
from typing import Any

from regress_gate.app.experiment_plans import begin_experiment, find_plan
from regress_gate.app.measurement_task import (
    MeasurementTask,
    end_orphans,
    find_server_gpus,
    make_task,
    note_unwatched_gpus,
    wait_until_quiet,
)
from regress_gate.app.provisioning import make_provisioner
from regress_gate.app.run_reports import RunReporter, report_outcome
from regress_gate.app.settings import MeasurementAmount, ProgressReporter, Settings
from regress_gate.bench.drivers import DriverMeter, find_driver
from regress_gate.bench.experiment.capacity_search import known_levels, lower_levels, search_levels
from regress_gate.bench.experiment.experiment_plan import (
    BASELINE,
    CANDIDATE,
    COUNTER_TEST,
    SINGLE,
    ExperimentPlan,
    server_groups,
)
from regress_gate.bench.experiment.experiment_runner import (
    AfterBlock,
    ExperimentControl,
    ExperimentEnd,
    ExperimentOutcome,
    RunListener,
    find_plan_runs,
)
from regress_gate.bench.experiment.experiment_runner import run_experiment as make_planned_runs
from regress_gate.bench.experiment.run_maker import ExperimentSetup, ExperimentSide
from regress_gate.bench.experiment.trials import Meter, combine_mixes
from regress_gate.bench.fleet.block_task import BlockTask
from regress_gate.bench.fleet.fleet import Fleet, FleetMember
from regress_gate.bench.fleet.fleet_loop import run_on_fleet
from regress_gate.bench.inspect.installed_build import environment_libraries, inspect_environment
from regress_gate.bench.load.load_client import LoadLimits, OwnClientMeter
from regress_gate.bench.load.pass_requests import load_workloads
from regress_gate.bench.machine.reservation import locked_clocks, machine_lock
from regress_gate.bench.provision.interface import Provisioner, ProvisionError
from regress_gate.bench.tiny_model import model_path
from regress_gate.errors import StoreError
from regress_gate.gate.sides import make_side
from regress_gate.model.config import ProvisionConfig, ProvisionMethod
from regress_gate.model.run import Run
from regress_gate.model.suite import Suite
from regress_gate.model.version import Version
from regress_gate.paths import logs_directory
from regress_gate.store.database import Patience
from regress_gate.store.repository import Repository, open_store
from regress_gate.store.store_interface import run_order
from regress_gate.text import plural

InterimCheck = Callable[["Repository", "ExperimentPlan", "ProgressReporter"], "AfterBlock"]
"""Makes, for a plan, the function that is called after each of its blocks."""


@contextmanager
def interruptible(
    store: Repository, plan: ExperimentPlan, progress: ProgressReporter, hint: str | None = None
) -> Iterator[None]:
    """SIGTERM and SIGHUP act like Ctrl-C: servers are stopped, and a hint (None: --resume) says how to go on."""

    def interrupt(_: int, frame: FrameType | None) -> None:
        handler = signal.getsignal(signal.SIGINT)
        if callable(handler):  # asyncio has its own handler, which ends its tasks in order
            handler(signal.SIGINT, frame)
        else:
            raise KeyboardInterrupt

    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:  # as under nohup
            signal.signal(number, interrupt)
    try:
        yield
    except KeyboardInterrupt:
        if hint is not None:
            progress.warn(hint)
        else:
            _report_resume_hint(store, plan, progress)
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _report_resume_hint(store: Repository, plan: ExperimentPlan, progress: ProgressReporter) -> None:
    with suppress(StoreError):  # whoever waits no longer for a server that is away
        if any(experiment.id == plan.experiment for experiment in store.experiments()):
            held = plural(len(find_plan_runs(plan, store)), "run")
            progress.warn(f"interrupted: {held} of this experiment stored; go on with --resume")


@dataclass(frozen=True, slots=True)
class MeasuredTask:
    """A measurement that has ended."""

    task: MeasurementTask
    plan: ExperimentPlan
    outcome: ExperimentOutcome
    runs: list[Run]
    """Those of the experiment that are stored, also from before it was resumed."""

    @property
    def version(self) -> Version:
        """The version, or the baseline of two."""
        return next(iter(self.task.versions.values()))

    @property
    def counted(self) -> int:
        """New runs that neither failed nor are void."""
        return sum(entry.void is None and entry.made.run.failure is None for entry in self.outcome.stored)

    @property
    def is_complete(self) -> bool:
        """Every run was made, and no server failed."""
        failed = any(entry.made.run.failure is not None for entry in self.outcome.stored)
        return self.outcome.ending is ExperimentEnd.COMPLETE and not failed


def measure_version(
    settings: Settings,
    version: str,
    amount: MeasurementAmount,
    provisioning: ProvisionConfig,
    progress: ProgressReporter,
    *,
    fleet: Fleet | None = None,
) -> MeasuredTask:
    """Measure the suite of the settings on one version and store the runs. Decides nothing."""
    return measure_task(settings, make_task(settings, {SINGLE: version}, provisioning, fleet=fleet), amount, progress)


def measure_task(
    settings: Settings,
    task: MeasurementTask,
    amount: MeasurementAmount,
    progress: ProgressReporter,
    *,
    most_blocks: int | None = None,
    after_block: InterimCheck | None = None,
    hint: str | None = None,
) -> MeasuredTask:
    """Make the runs of a task in a new experiment, or in the one to be resumed, and store them.

    `after_block` makes the interim check of a plan with at most `most_blocks`; a resumed plan without interim analyses
    stays without. `hint` says how to go on after an interruption; None: with --resume.
    """
    provisioner = make_provisioner(
        task.provisioning, accelerator=task.testbed.accelerator, environ=settings.environment
    )
    with open_store(str(settings.store_url.value), create=True, patience=Patience(progress.warn)) as store:
        plan, is_resumed = find_plan(store, task, amount, most_blocks=most_blocks)
        check = None
        if after_block is not None and plan.most_blocks is not None:
            check = partial(store.patiently, after_block(store, plan, progress))
        with interruptible(store, plan, progress, hint):
            outcome = run_experiment(
                store, plan, task, amount, provisioner, progress, is_resumed=is_resumed, after_block=check
            )
        report_outcome(outcome, progress)
        return MeasuredTask(task, plan, outcome, find_plan_runs(plan, store))


def run_experiment(
    store: Repository,
    plan: ExperimentPlan,
    task: MeasurementTask,
    amount: MeasurementAmount,
    provisioner: Provisioner,
    progress: ProgressReporter,
    *,
    is_resumed: bool,
    after_block: AfterBlock | None = None,
    levels: Mapping[str, tuple[float, ...]] = MappingProxyType({}),
    on_stored: RunListener | None = None,
) -> ExperimentOutcome:
    """Provision the versions and make the runs that the plan lacks, or fewer if `after_block` ends it.

    `levels` are the rates of scenarios whose capacity is asked for, where they are known already; `on_stored` is told
    of each run in place of the progress. Raises the errors of what could not be measured.
    """
    if task.fleet is not None:
        return _run_on_fleet(
            store, plan, task, task.fleet, amount, progress, is_resumed=is_resumed, after_block=after_block
        )
    meter = choose_meter(plan.driver, task.suite)
    until = None if amount.budget is None else time.monotonic() + amount.budget
    store.check_testbed(task.testbed)
    gpus = find_server_gpus(task)
    with machine_lock(gpus or None, wait=amount.wait_for_machine or 0.0), ExitStack() as stack:
        end_orphans(progress)
        note_unwatched_gpus(task.testbed, progress)
        if plan.lock_clocks is not None:
            stack.enter_context(locked_clocks(task.testbed.accelerator, gpus, plan.lock_clocks, progress.warn))
        if not is_resumed:  # provisioning takes long, and may be interrupted
            begin_experiment(store, plan)
        provisioners = dict.fromkeys(task.versions, provisioner)
        if task.counter_test is not None and task.counter_test.packages:
            provisioners[COUNTER_TEST] = make_provisioner(
                task.provisioning,
                accelerator=task.testbed.accelerator,
                environ=task.environment,
                packages=task.counter_test.packages,
            )
        sides = _provision(task, plan, provisioners, store, progress, stack)
        bench = ExperimentSetup(
            suite=plan.suite,
            testbed=task.testbed,
            trials=plan.trials,
            meter=meter,
            gpus=gpus,
            ready_within=amount.ready_within,
            logs=logs_directory(plan.experiment),
            say=progress.say,
            progress=progress.requests,
        )
        progress.expect(_expected_seconds(store, plan))
        baseline = sides.get(BASELINE) or next(iter(sides.values()))
        rates = _capacity_levels(store, plan, task, (baseline, sides.get(CANDIDATE)), bench, progress, levels)
        control = ExperimentControl(
            why_void=_void_reason(task.suite),
            way=(task.provisioning.way or ProvisionMethod.VENV).value,
            until=until,
            before_unit=lambda: wait_until_quiet(task, progress),
            on_stored=on_stored or RunReporter(progress),
            after_block=after_block,
        )
        return make_planned_runs(plan, task.suite, sides, replace(bench, levels=rates), store, control)


def _run_on_fleet(
    store: Repository,
    plan: ExperimentPlan,
    task: MeasurementTask,
    fleet: Fleet,
    amount: MeasurementAmount,
    progress: ProgressReporter,
    *,
    is_resumed: bool,
    after_block: AfterBlock | None,
) -> ExperimentOutcome:
    """Have the hosts of the fleet make the blocks that the plan lacks. Each provisions the versions for itself."""
    for testbed in fleet.testbeds:
        store.check_testbed(testbed)
    if not is_resumed:
        begin_experiment(store, plan)
    suite = task.suite.model_dump(mode="json")
    provisioning = task.provisioning.model_dump(mode="json")

    def make_task(member: FleetMember, block: int, attempt: int, levels: Mapping[str, Sequence[float]]) -> str:
        return BlockTask(
            suite=suite,
            testbed=member.name,
            plan=plan.as_document(),
            block=block,
            attempt=attempt,
            provisioning=provisioning,
            levels=levels,
            ready_within=amount.ready_within,
            wait_for_machine=amount.wait_for_machine or 0.0,
        ).as_text()

    control = ExperimentControl(
        why_void=_void_reason(task.suite),
        until=None if amount.budget is None else time.monotonic() + amount.budget,
        on_stored=RunReporter(progress, hosts=len(fleet.testbeds)),
        after_block=after_block,
    )
    seconds = _seconds_a_block(store, plan, task)
    return run_on_fleet(plan, task.suite, fleet, store, control, make_task, seconds)


def _seconds_a_block(store: Repository, plan: ExperimentPlan, task: MeasurementTask) -> float | None:
    """By earlier runs of the suite on these hosts, else by its own estimate; None: not known."""
    places = [
        run.place
        for testbed in task.testbed_names
        for run in store.recent_runs(testbed=testbed, suite=plan.suite, paired=False)
        if run.place is not None and run.place.seconds is not None
    ]
    if not places:
        return None if task.suite.cost is None else task.suite.cost.minutes * 60 * len(plan.versions)
    mean = sum(place.seconds or 0.0 for place in places) / len(places)
    return mean * len({place.group for place in places}) * len(plan.versions)


def _capacity_levels(
    store: Repository,
    plan: ExperimentPlan,
    task: MeasurementTask,
    sides: tuple[ExperimentSide, ExperimentSide | None],
    bench: ExperimentSetup,
    progress: ProgressReporter,
    given: Mapping[str, tuple[float, ...]],
) -> dict[str, tuple[float, ...]]:
    """The rates of the scenarios whose capacity is asked for: those that are given, those of stored runs, so that these
    can be compared, else searched on a server of the baseline. A candidate that was not measured at them is tried at
    the lowest first, as it may carry less. A version that is measured alone takes those of any other version."""
    side, candidate = sides
    wanted = [pair for pair in load_workloads(task.suite) if pair[0].workload.capacity is not None]
    if not wanted:
        return {}

    def stored(runs: Sequence[Run]) -> dict[str, tuple[float, ...]]:
        alike = [run for run in runs if run.place is not None and run.place.suite_digest == plan.suite_digest]
        return known_levels(sorted(alike, key=run_order))

    def measured(version: Version) -> Sequence[Run]:
        return store.runs(version=version, testbed=plan.testbed, suite=plan.suite)

    others = store.recent_runs(testbed=plan.testbed, suite=plan.suite, paired=False) if SINGLE in plan.versions else []
    begun = {**given, **stored(find_plan_runs(plan, store))}
    levels = {**stored(others), **stored(measured(side.wanted)), **begun}
    tried = begun if candidate is None else {**stored(measured(candidate.wanted)), **begun}
    for group in server_groups(task.suite):
        own = [pair for pair in wanted if pair[0] in group.scenarios]
        unknown = [pair for pair in own if pair[0].name not in levels]
        if unknown:
            levels |= search_levels(group, unknown, side, bench)
        untried = [pair for pair in own if tried.get(pair[0].name) != levels[pair[0].name]]
        if candidate is not None and untried:
            levels |= lower_levels(group, untried, candidate, bench, levels)
    for scenario, _ in wanted:
        rates = ", ".join(f"{rate:g}" for rate in levels[scenario.name])
        progress.note(f"capacity of {scenario.name}: measured at {rates} requests a second")
    return levels


def _expected_seconds(store: Repository, plan: ExperimentPlan) -> float | None:
    """By the newest runs of the suite on this testbed; None if there are none."""
    runs = [*find_plan_runs(plan, store), *store.recent_runs(testbed=plan.testbed, suite=plan.suite, paired=False)]
    held = [run.place for run in {run.key: run for run in runs}.values() if run.place is not None]
    took = [place.seconds for place in held if place.seconds is not None]
    if not took:
        return None
    groups = len({place.group for place in held})
    done = sum(place.experiment == plan.experiment for place in held)
    return max(0, plan.blocks * len(plan.versions) * groups - done) * sum(took) / len(took)


def _provision(
    task: MeasurementTask,
    plan: ExperimentPlan,
    provisioners: Mapping[str, Provisioner],
    store: Repository,
    progress: ProgressReporter,
    stack: ExitStack,
) -> dict[str, ExperimentSide]:
    environments: dict[Any, Any] = {}
    libraries: dict[Any, dict[str, str]] = {}
    builds = {side: (version, provisioners[side]) for side, version in task.versions.items()}
    for version, provisioner in dict.fromkeys(builds.values()):
        progress.say(f"provisioning vLLM {version}")
        environment = stack.enter_context(provisioner.provision(version, progress=progress.say))
        environments[version, provisioner] = environment
        is_build = provisioner is provisioners[next(reversed(builds))]  # and not one with other dependencies
        if is_build and environment.version is not None and store.build_config(environment.version) is None:
            try:
                store.add_build_config(inspect_environment(environment, progress=progress.say))
            except ProvisionError as error:  # optional: only `diff-config` needs it
                progress.note(f"note: {error}")
        libraries[version, provisioner] = {}
        try:
            libraries[version, provisioner] = environment_libraries(environment, progress=progress.say)
        except ProvisionError as error:
            progress.note(f"note: {error}")
    return {
        side: ExperimentSide(
            side, build[0], environments[build], libraries[build], plan.setting_of(side), plan.suite_of(side)
        )
        for side, build in builds.items()
    }


def choose_meter(driver: str | None, suite: Suite, *, allow_remote: bool = False) -> Meter:
    """Our own load client, or another one. Raises InputError for a workload that the other cannot send, LoadError if it
    is not installed: before any server is started."""
    if driver is None:
        return OwnClientMeter(LoadLimits(request=suite.request_timeout), allow_remote=allow_remote)
    other = find_driver(driver)
    for _, workload in combine_mixes(load_workloads(suite)):
        other.check(workload)
    tokenizers = {scenario.name: model_path(scenario.server.model) for scenario in suite.scenarios}
    return DriverMeter(other, tokenizers, allow_remote)


def _void_reason(suite: Suite) -> Callable[[Run], str | None]:
    """Gives the reason why a run does not count, by the rules of the gate; None: it counts."""

    def why(run: Run) -> str | None:
        void = make_side(run.version, [run], suite.conditions).void
        return void[0].reason if void else None

    return why
