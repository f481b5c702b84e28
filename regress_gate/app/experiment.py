"""Plans of experiments: a new one, one that goes on after it was interrupted, and what an interruption says of it."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from regress_gate.app.measurement_task import (
    DEFAULT_RUNS,
    MeasurementAmount,
    end_orphans,
    find_server_gpus,
    note_unwatched_gpus,
    wait_until_quiet,
)
from regress_gate.errors import InputError
from regress_gate.paths import logs_directory
from regress_gate.text import duration_text

if TYPE_CHECKING:
    from regress_gate.app.measurement_task import MeasurementTask
    from regress_gate.app.progress import ProgressReporter
    from regress_gate.bench.experiment.experiment_plan import ExperimentPlan
    from regress_gate.bench.experiment.experiment_runner import AfterBlock, ExperimentOutcome, StoredRun
    from regress_gate.bench.experiment.run_maker import ExperimentSide
    from regress_gate.bench.experiment.trials import Meter
    from regress_gate.bench.provision.interface import Provisioner
    from regress_gate.model.run import Run
    from regress_gate.model.suite import Suite
    from regress_gate.store.holdings import StoredExperiment
    from regress_gate.store.repository import Repository


def find_plan(
    store: "Repository", wanted: "MeasurementTask", amount: MeasurementAmount, *, most_blocks: int | None = None
) -> "tuple[ExperimentPlan, bool]":
    """The plan to carry out, and whether it was begun before. Raises InputError when there is nothing to resume.

    `most_blocks` is that of a new plan; one that goes on keeps its own, as the levels of its looks depend on it.
    """
    from regress_gate.bench.experiment.experiment_plan import ExperimentPlan, new_experiment_id, suite_digest
    from regress_gate.model.run import SuiteRef

    suite = SuiteRef(wanted.suite.name, wanted.suite.version)
    texts = {side: str(version) for side, version in wanted.versions.items()}
    if amount.resume:
        for experiment in store.experiments():
            plan = _plan_of(experiment)
            if plan is None or experiment.ended is not None:
                continue
            if (plan.suite, plan.testbed, dict(plan.versions)) == (suite, wanted.testbed.name, texts):
                _check_resumable(plan, wanted, amount)
                _check_files(store, plan, wanted)
                return plan, True
        raise InputError(
            f"there is no unfinished experiment of {' and '.join(dict.fromkeys(texts.values()))} with {suite} on "
            f"{wanted.testbed.name}",
            todo="leave --resume out",
        )
    return ExperimentPlan(
        experiment=new_experiment_id(datetime.now(UTC)),
        suite=suite,
        suite_digest=suite_digest(wanted.suite),
        testbed=wanted.testbed.name,
        versions=texts,
        blocks=amount.runs or DEFAULT_RUNS,
        trials=amount.trials or wanted.suite.trials,
        resident=bool(amount.resident),
        driver=amount.driver,
        most_blocks=most_blocks,
    ), False


def _plan_of(experiment: "StoredExperiment") -> "ExperimentPlan | None":
    """None for one that another version of this program wrote: only that one can go on with it."""
    from regress_gate.bench.experiment.experiment_plan import ExperimentPlan

    try:
        return ExperimentPlan.from_document(experiment.plan)
    except (KeyError, TypeError, ValueError):
        return None


def _check_resumable(plan: "ExperimentPlan", wanted: "MeasurementTask", amount: MeasurementAmount) -> None:
    """Raises InputError for what would make the rest of an experiment another one than its beginning."""
    from regress_gate.bench.experiment.experiment_plan import suite_digest

    if plan.suite_digest != suite_digest(wanted.suite):
        raise InputError(
            f"suite {plan.suite} has been edited since the experiment began",
            todo="raise its version and begin anew without --resume",
        )
    for flag, given, begun in (
        ("--runs", amount.runs, plan.most_blocks or plan.blocks),
        ("--trials", amount.trials, plan.trials),
        ("--resident", amount.resident, plan.resident),
        ("--driver", amount.driver, plan.driver),
    ):
        if given is not None and given != begun:
            raise InputError(f"{flag} differs from the experiment that is to be resumed", todo=f"leave {flag} out")


def _check_files(store: "Repository", plan: "ExperimentPlan", wanted: "MeasurementTask") -> None:
    """Raises InputError where a file of recorded prompts is not the one that the experiment began with."""
    from regress_gate.bench.load.suite_workloads import load_workloads

    now = {scenario.name: workload.dataset for scenario, workload in load_workloads(wanted.suite)}
    for run in store.runs(testbed=plan.testbed, suite=plan.suite):
        if run.place is None or run.place.experiment != plan.experiment:
            continue
        for trial in run.trials:
            dataset, before = now[trial.scenario], trial.workload.get("dataset_sha256")
            if dataset is not None and before != dataset.sha256:
                what, todo = "has changed since the experiment began", "put it back, or begin anew without --resume"
                raise InputError(what, where=dataset.file, todo=todo)


def begin_experiment(store: "Repository", plan: "ExperimentPlan") -> None:
    """From here on it can be resumed."""
    from regress_gate.store.holdings import StoredExperiment

    store.begin_experiment(StoredExperiment(plan.experiment, datetime.now(UTC), plan.as_document()))


@contextmanager
def interruptible(store: "Repository", plan: "ExperimentPlan") -> Iterator[None]:
    """SIGTERM and a terminal that goes away end like Ctrl-C: servers are stopped, and it is said how to go on."""
    import signal

    def interrupt(_: int, frame: FrameType | None) -> None:
        handler = signal.getsignal(signal.SIGINT)
        if callable(handler):  # asyncio puts in its own, which ends what it runs in good order
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
        _print_resume_hint(store, plan)
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _print_resume_hint(store: "Repository", plan: "ExperimentPlan") -> None:
    from regress_gate.bench.experiment.experiment_runner import find_plan_runs
    from regress_gate.text import plural

    if any(experiment.id == plan.experiment for experiment in store.experiments()):
        held = plural(len(find_plan_runs(plan, store)), "run")
        click.echo(f"interrupted: {held} of this experiment stored; go on with --resume", err=True)


# MERGED regress_gate.cli.telling: What is told of an experiment: of each run when it is stored, and of what went
# otherwise than planned.


def explain_outcome(outcome: "ExperimentOutcome") -> None:
    """What went otherwise than planned, on standard error."""
    from regress_gate.bench.experiment.experiment_runner import ExperimentEnd
    from regress_gate.text import plural

    failed = sum(entry.made.run.failure is not None for entry in outcome.stored)
    void = sum(entry.void is not None for entry in outcome.stored)
    if failed:
        click.echo(f"{plural(failed, 'server start')} failed: stored as evidence", err=True)
    if void:
        click.echo(f"{plural(void, 'run')} void: kept, shown, never averaged in", err=True)
    match outcome.ending:
        case ExperimentEnd.BUDGET:
            click.echo(
                f"the budget is used up with {plural(outcome.missing, 'run')} missing; --resume goes on", err=True
            )
        case ExperimentEnd.DISTURBED:
            click.echo(
                f"{plural(outcome.missing, 'run')} void at every try: quieten the machine and --resume", err=True
            )
        case ExperimentEnd.FAILING:
            click.echo("one side fails again and again: nothing more is measured", err=True)


class RunReporter:
    """Says what became of each run, and how long the rest will take."""

    def __init__(self, live: "ProgressReporter") -> None:
        self._live = live
        self._seconds: list[float] = []

    def __call__(self, entry: "StoredRun", done: int, units: int) -> None:
        self._seconds.append(entry.seconds)
        mean = sum(self._seconds) / len(self._seconds)
        self._live.expect(mean * (units - done))
        run, slot = entry.made.run, entry.made.slot
        self._live.note(f"run:{entry.id} block {slot.block}, {slot.side} {run.version}: {_outcome_text(entry)}")
        for note in entry.made.notes:
            self._live.note(f"  note: {note}")


def _outcome_text(entry: "StoredRun") -> str:
    from regress_gate.text import plural

    run = entry.made.run
    if run.failure is not None:
        cause = f": {run.failure.lines[0]}" if run.failure.lines else ""
        return f"FAILED, {run.failure.text}{cause}"
    if entry.void is not None:
        return f"void, {entry.void}"
    return f"{plural(len(run.trials), 'trial')} in {duration_text(entry.seconds)}"


# MERGED regress_gate.cli.carrying_out: An experiment from its plan to stored runs: the machine is locked, versions
# are got, what the plan lacks is made.  Not for making the plan, and not for what is done with the runs afterwards.


def run_experiment(
    store: "Repository",
    plan: "ExperimentPlan",
    wanted: "MeasurementTask",
    amount: "MeasurementAmount",
    provisioner: "Provisioner",
    live: "ProgressReporter",
    *,
    is_resumed: bool,
    after_block: "AfterBlock | None" = None,
) -> "ExperimentOutcome":
    """Get the versions and make the runs that the plan lacks, or fewer where `after_block` says that these will do.
    Raises what could not be measured."""
    from regress_gate.bench.experiment.experiment_runner import run_experiment as make
    from regress_gate.bench.experiment.run_maker import ExperimentSetup
    from regress_gate.bench.machine.reservation import machine_lock
    from regress_gate.model.config import ProvisionMethod

    meter = choose_meter(plan.driver, wanted.suite)
    until = None if amount.budget is None else time.monotonic() + amount.budget
    store.check_testbed(wanted.testbed)
    gpus = find_server_gpus(wanted)
    with machine_lock(gpus or None, wait=amount.wait_for_machine or 0.0), ExitStack() as stack:
        end_orphans(live)
        note_unwatched_gpus(wanted.testbed, live)
        if not is_resumed:  # before versions are got, which takes long enough to be interrupted
            begin_experiment(store, plan)
        sides = _provision(wanted, provisioner, store, live, stack)
        bench = ExperimentSetup(
            suite=plan.suite,
            testbed=wanted.testbed,
            trials=plan.trials,
            meter=meter,
            gpus=gpus,
            ready_within=amount.ready_within,
            logs=logs_directory(plan.experiment),
            say=live.say,
            progress=live.requests,
        )
        live.expect(_expected_seconds(store, plan))
        return make(
            plan,
            wanted.suite,
            sides,
            bench,
            store,
            why_void=_void_reason(wanted.suite),
            way=(wanted.provisioning.way or ProvisionMethod.VENV).value,
            until=until,
            before_unit=lambda: wait_until_quiet(wanted, live),
            watcher=RunReporter(live),
            after_block=after_block,
        )


def _expected_seconds(store: "Repository", plan: "ExperimentPlan") -> float | None:
    """By what earlier runs of the suite took here; None where there are none."""
    held = [run.place for run in store.runs(testbed=plan.testbed, suite=plan.suite) if run.place is not None]
    took = [place.seconds for place in held if place.seconds is not None]
    if not took:
        return None
    groups = len({place.group for place in held})
    done = sum(place.experiment == plan.experiment for place in held)
    return max(0, plan.blocks * len(plan.versions) * groups - done) * sum(took) / len(took)


def _provision(
    wanted: "MeasurementTask",
    provisioner: "Provisioner",
    store: "Repository",
    live: "ProgressReporter",
    stack: ExitStack,
) -> "dict[str, ExperimentSide]":
    from regress_gate.bench.experiment.run_maker import ExperimentSide
    from regress_gate.bench.inspect.installed_build import environment_libraries, inspect_environment
    from regress_gate.bench.provision.interface import ProvisionError

    environments: dict[Any, Any] = {}
    libraries: dict[Any, dict[str, str]] = {}
    for version in dict.fromkeys(wanted.versions.values()):
        live.say(f"getting vLLM {version}")
        environment = environments[version] = stack.enter_context(provisioner.provision(version, progress=live.say))
        if environment.version is not None and store.build_config(environment.version) is None:
            try:
                store.add_build_config(inspect_environment(environment, progress=live.say))
            except ProvisionError as error:  # what changed besides speed is worth knowing, and no condition
                live.note(f"note: {error}")
        libraries[version] = {}
        try:
            libraries[version] = environment_libraries(environment, progress=live.say)
        except ProvisionError as error:
            live.note(f"note: {error}")
    return {
        side: ExperimentSide(side, version, environments[version], libraries[version])
        for side, version in wanted.versions.items()
    }


def choose_meter(driver: str | None, suite: "Suite", *, allow_remote: bool = False) -> "Meter":
    """Our own client, or another's. Raises InputError for a workload that the other cannot send, LoadError where it is
    not installed: before any server is started."""
    if driver is None:
        from regress_gate.bench.load.load_client import LoadLimits, OwnClientMeter

        return OwnClientMeter(LoadLimits(request=suite.request_timeout), allow_remote=allow_remote)
    from regress_gate.bench.drivers.driver_registry import DriverMeter, find_driver
    from regress_gate.bench.load.suite_workloads import load_workloads
    from regress_gate.bench.tiny_model import model_path

    other = find_driver(driver)
    for _, workload in load_workloads(suite):
        other.check(workload)
    tokenizers = {scenario.name: model_path(scenario.server.model) for scenario in suite.scenarios}
    return DriverMeter(other, tokenizers, allow_remote)


def _void_reason(suite: "Suite") -> "Callable[[Run], str | None]":
    """Why a run does not count, by the rules of the gate."""
    from regress_gate.gate.sides import make_side

    def why(run: "Run") -> str | None:
        void = make_side(run.version, [run], suite.conditions).void
        return void[0].reason if void else None

    return why
