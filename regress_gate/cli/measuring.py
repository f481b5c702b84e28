"""What `run`, `compare --measure` and `calibrate` share: from options to an experiment that is carried out.

Not for what is done with the runs afterwards.
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar

import click

from regress_gate.cli.duration import Duration, in_words
from regress_gate.cli.provisioning import resolve_build
from regress_gate.errors import InputError

if TYPE_CHECKING:
    from regress_gate.bench.experiment.making import Side
    from regress_gate.bench.experiment.plan import Plan
    from regress_gate.bench.experiment.runner import Outcome, Stored
    from regress_gate.bench.experiment.trials import Meter
    from regress_gate.bench.provision.interface import Provisioner
    from regress_gate.cli.live import Live
    from regress_gate.cli.settings import Settings
    from regress_gate.model.provisioning import ProvisionConfig
    from regress_gate.model.run import Run
    from regress_gate.model.suite import Suite
    from regress_gate.model.testbed import Testbed
    from regress_gate.model.version import Version
    from regress_gate.store.repository import Repository

F = TypeVar("F", bound=Callable[..., Any])
DEFAULT_SUITE = "cpu-tiny"
DEFAULT_RUNS = 5
PATIENCE = 5.0
"""Seconds of waiting that need no word."""
QUIET_WITHIN = 120.0
"""Seconds to wait for others to leave the machine alone before each start; then it is measured all the same, and what
the others did decides whether the run counts."""


def measure_options(command: F) -> F:
    """How much is measured, and how."""
    for option in (
        click.option(
            "--driver", metavar="NAME", help="Measure with vllm-bench, guidellm or aiperf, not our own client."
        ),
        click.option("--wait-for-machine", type=Duration(), help="Wait so long for another run to end (30m)."),
        click.option(
            "--ready-within", type=Duration(), default="30m", help="Longest start of a server.", show_default=True
        ),
        click.option(
            "--resident/--one-at-a-time",
            default=None,
            help="Keep both servers up and take turns, or start one after the other (default).",
        ),
        click.option("--resume", is_flag=True, help="Go on with what an interrupted experiment lacks."),
        click.option("--budget", type=Duration(), help="Start nothing that would end later than this (45m)."),
        click.option(
            "--trials", type=click.IntRange(1, 100), help="Passes of each scenario in a run; default: the suite's."
        ),
        click.option(
            "-n", "--runs", type=click.IntRange(1, 1000), help=f"Server starts a side [default: {DEFAULT_RUNS}]."
        ),
    ):
        command = option(command)
    return command


@dataclass(frozen=True, slots=True)
class Amount:
    """What the options say of how much is measured."""

    runs: int | None
    trials: int | None
    budget: float | None
    resume: bool
    resident: bool | None
    ready_within: float
    wait_for_machine: float | None
    driver: str | None

    @classmethod
    def taken_from(cls, options: dict[str, Any]) -> "Amount":
        """Take the measuring options out of a command's."""
        return cls(**{name: options.pop(name) for name in cls.__slots__})


@dataclass(frozen=True, slots=True)
class Subject:
    """What is to be measured, before anything is."""

    suite: "Suite"
    testbed: "Testbed"
    versions: "Mapping[str, Version]"
    """By side, in the order of the odd blocks."""


def subject(settings: "Settings", versions: Mapping[str, str], provisioning: "ProvisionConfig") -> Subject:
    """The suite, this machine, and the builds that the versions mean now. Raises InputError for a suite that cannot be
    sent as it is."""
    from regress_gate.bench.machine.fingerprint import fingerprint
    from regress_gate.bench.suite_run import load_workloads
    from regress_gate.suites import load_suite

    suite = load_suite(str(settings.suite.value or DEFAULT_SUITE))
    load_workloads(suite)
    testbed = fingerprint(settings.testbed.value, accelerator=suite.accelerator)
    builds = {
        side: resolve_build(text, provisioning, accelerator=testbed.accelerator) for side, text in versions.items()
    }
    return Subject(suite, testbed, builds)


def find_plan(store: "Repository", wanted: Subject, amount: Amount) -> "tuple[Plan, bool]":
    """The plan to carry out, and whether it was begun before. Raises InputError when there is nothing to resume."""
    from regress_gate.bench.experiment.plan import Plan, new_experiment_id
    from regress_gate.model.run import SuiteRef

    suite = SuiteRef(wanted.suite.name, wanted.suite.version)
    texts = {side: str(version) for side, version in wanted.versions.items()}
    if amount.resume:
        for experiment in store.experiments():
            plan = Plan.from_document(experiment.plan)
            same = (plan.suite, plan.testbed, dict(plan.versions)) == (suite, wanted.testbed.name, texts)
            if experiment.ended is None and same:
                return plan, True
        raise InputError(
            f"there is no unfinished experiment of {' and '.join(dict.fromkeys(texts.values()))} with {suite} on "
            f"{wanted.testbed.name}",
            todo="leave --resume out",
        )
    now = datetime.now(UTC)
    return Plan(
        experiment=new_experiment_id(now),
        suite=suite,
        testbed=wanted.testbed.name,
        versions=texts,
        blocks=amount.runs or DEFAULT_RUNS,
        trials=amount.trials or wanted.suite.trials,
        resident=bool(amount.resident),
    ), False


def carry_out(
    store: "Repository",
    plan: "Plan",
    wanted: Subject,
    amount: Amount,
    provisioner: "Provisioner",
    live: "Live",
    *,
    is_resumed: bool,
) -> "Outcome":
    """Get the versions and make the runs that the plan lacks. Raises what could not be measured."""
    from regress_gate.bench.experiment.making import Bench
    from regress_gate.bench.experiment.runner import carry_out as make
    from regress_gate.bench.machine.lock import machine_lock
    from regress_gate.bench.machine.nvml import visible_gpus

    meter = meter_of(amount.driver, wanted.suite)
    until = None if amount.budget is None else time.monotonic() + amount.budget
    store.check_testbed(wanted.testbed)
    gpus = visible_gpus() if wanted.suite.accelerator != "cpu" else ()
    with machine_lock(gpus or None, wait=amount.wait_for_machine or 0.0), ExitStack() as stack:
        _end_orphans(live)
        sides = _provision(wanted.versions, provisioner, store, live, stack)
        if not is_resumed:
            store.begin_experiment(_experiment(plan))
        bench = Bench(
            suite=plan.suite,
            testbed=wanted.testbed,
            trials=plan.trials,
            meter=meter,
            gpus=gpus,
            ready_within=amount.ready_within,
            logs=_logs(plan),
            say=live.say,
            progress=live.requests,
        )
        return make(
            plan,
            wanted.suite,
            sides,
            bench,
            store,
            why_void=_why_void(wanted.suite),
            until=until,
            before_unit=lambda: _wait_until_quiet(wanted, live),
            watcher=_Teller(live),
        )


class _Teller:
    """Says what became of each run, and how long the rest will take."""

    def __init__(self, live: "Live") -> None:
        self._live = live
        self._seconds: list[float] = []

    def __call__(self, entry: "Stored", done: int, units: int) -> None:
        self._seconds.append(entry.seconds)
        mean = sum(self._seconds) / len(self._seconds)
        self._live.expect(mean * (units - done))
        run, slot = entry.made.run, entry.made.slot
        self._live.note(f"run:{entry.id} block {slot.block}, {slot.side} {run.version}: {_became(entry)}")
        for note in entry.made.notes:
            self._live.note(f"  note: {note}")


def _became(entry: "Stored") -> str:
    run = entry.made.run
    if run.failure is not None:
        cause = f": {run.failure.lines[0]}" if run.failure.lines else ""
        return f"FAILED, {run.failure.text}{cause}"
    if entry.void is not None:
        return f"void, {entry.void}"
    return f"{len(run.trials)} trials in {in_words(entry.seconds)}"


def _provision(
    versions: "Mapping[str, Version]", provisioner: "Provisioner", store: "Repository", live: "Live", stack: ExitStack
) -> "dict[str, Side]":
    from regress_gate.bench.experiment.making import Side
    from regress_gate.bench.inspect.ask import inspect_environment
    from regress_gate.bench.provision.interface import ProvisionError

    environments: dict[Any, Any] = {}
    for version in dict.fromkeys(versions.values()):
        live.say(f"getting vLLM {version}")
        environment = environments[version] = stack.enter_context(provisioner.provision(version, progress=live.say))
        if environment.version is not None and store.build_config(environment.version) is None:
            try:
                store.add_build_config(inspect_environment(environment, progress=live.say))
            except ProvisionError as error:  # what changed besides speed is worth knowing, and no condition
                live.note(f"note: {error}")
    return {side: Side(side, version, environments[version]) for side, version in versions.items()}


def meter_of(driver: str | None, suite: "Suite", *, allow_remote: bool = False) -> "Meter":
    """Our own client, or another's. Raises InputError for a workload that the other cannot send, LoadError where it is
    not installed: before any server is started."""
    if driver is None:
        from regress_gate.bench.load.measure import Limits
        from regress_gate.bench.load.meter import OwnClient

        return OwnClient(Limits(request=suite.request_timeout), allow_remote=allow_remote)
    from regress_gate.bench.drivers.meter import DriverMeter
    from regress_gate.bench.drivers.registry import find_driver
    from regress_gate.bench.suite_run import load_workloads
    from regress_gate.bench.tiny_model import model_path

    other = find_driver(driver)
    for _, workload in load_workloads(suite):
        other.check(workload)
    tokenizers = {scenario.name: model_path(scenario.server.model) for scenario in suite.scenarios}
    return DriverMeter(other, tokenizers, allow_remote)


def _why_void(suite: "Suite") -> "Callable[[Run], str | None]":
    """Why a run does not count, by the rules of the gate."""
    from regress_gate.gate.sides import make_side

    def why(run: "Run") -> str | None:
        void = make_side(run.version, [run], suite.conditions).void
        return void[0].reason if void else None

    return why


def _wait_until_quiet(wanted: Subject, live: "Live") -> None:
    from regress_gate.bench.machine.quiet import wait_until_quiet
    from regress_gate.gate.sides import DISTURBANCE_SHARE, UNKNOWN_CORES

    limit = wanted.suite.conditions.max_outside_cpu_cores
    if limit is None:
        limit = DISTURBANCE_SHARE * (wanted.testbed.cpu_count or UNKNOWN_CORES)
    if limit >= (os.cpu_count() or UNKNOWN_CORES):  # nothing can be beyond it
        return

    def waiting(_: float, waited: float) -> None:
        if waited > PATIENCE:
            live.say("waiting for others to leave the machine alone")

    seen = wait_until_quiet(limit, QUIET_WITHIN, waiting)
    if not seen.quiet:
        live.note(f"note: others keep {seen.outside_cpu_cores:.1f} cores busy; measuring all the same")


def _end_orphans(live: "Live") -> None:
    from regress_gate.bench.server.orphans import end_orphan, find_orphans

    for orphan in find_orphans():
        live.note(f"note: {orphan}; ending what is ours")
        report = end_orphan(orphan)
        if report.left:
            live.note(f"note: processes {', '.join(map(str, report.left))} could not be ended")
        if report.trouble:
            live.note(f"note: {report.trouble}")


def _experiment(plan: "Plan") -> Any:
    from regress_gate.store.holdings import Experiment

    return Experiment(plan.experiment, datetime.now(UTC), plan.as_document())


def _logs(plan: "Plan") -> Path:
    import platformdirs

    return platformdirs.user_state_path("regress-gate", appauthor=False) / "logs" / plan.experiment


@contextmanager
def interruptible(store: "Repository", plan: "Plan") -> Iterator[None]:
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
        held = [run for run in store.runs(testbed=plan.testbed, suite=plan.suite) if run.place]
        count = sum(run.place is not None and run.place.experiment == plan.experiment for run in held)
        click.echo(f"interrupted: {count} runs of this experiment are stored; go on with --resume", err=True)
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
