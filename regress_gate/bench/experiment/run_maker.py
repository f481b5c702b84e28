"""Make runs: start the server of each slot, measure it, collect its answers, stop it.

A server failure that the version may have caused makes a failed run, which is evidence. Any other failure raises. Not
for choosing which runs are made, or when.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from regress_gate.bench.experiment.experiment_plan import ServerGroup, ServerSetting, Slot
from regress_gate.bench.experiment.trials import MeasuredServer, Meter, TrialProgress, measure_trials
from regress_gate.bench.fixed_prompts import collect_outputs
from regress_gate.bench.load.load_workload import LoadWorkload
from regress_gate.bench.machine.conditions import ConditionsWatch
from regress_gate.bench.provision.interface import Environment, Progress, ProvisionError, ServeRequest
from regress_gate.bench.server.metrics_watch import MetricsSource
from regress_gate.bench.server.server import Server, start_server
from regress_gate.bench.server.server_failures import ServerError, ServerFailure, ServerFailureKind
from regress_gate.bench.tiny_model import model_path
from regress_gate.model.run import BlockPosition, Conditions, Outputs, Run, RunFailure, SuiteRef
from regress_gate.model.suite import Scenario
from regress_gate.model.testbed import Testbed
from regress_gate.model.version import Version

START_ATTEMPTS = 2
"""Starts of a server before its failure is evidence. A single failure may be an accident of the machine, and the store
would keep it as evidence against the version."""


def start_with_retries(
    environment: Environment,
    request: ServeRequest,
    log: Path,
    *,
    ready_within: float,
    starts: int,
    say: Progress,
    on_spawn: Callable[[Server], None],
) -> tuple[Server | None, tuple[ServerFailure, ...]]:
    """The server, or None, and the failures of the starts before it, in order.

    Raises ServerError at once for a failure that is independent of the version and would be repeated.
    """
    failures: list[ServerFailure] = []
    for number in range(1, starts + 1):
        if failures:
            say(f"{failures[-1].text}: starting it once more")
        try:
            server = start_server(
                environment,
                request,
                log=log if number == 1 else log.with_stem(f"{log.stem}-start-{number}"),
                ready_within=ready_within,
                progress=say,
                on_spawn=on_spawn,
            )
        except ServerError as error:
            failures.append(error.failure)
            if not (error.failure.kind.may_be_the_version or error.failure.kind is ServerFailureKind.ENVIRONMENT):
                raise
        else:
            return server, tuple(failures)
    if starts > 1:
        failures[-1] = replace(failures[-1], text=f"{failures[-1].text}; it was started {starts} times")
    return None, tuple(failures)


def check_served_version(server: Server, environment: Environment, wanted: Version) -> None:
    """Raises ProvisionError if another build serves than the wanted one: a launch line can start anything."""
    reported = server.facts.version if server.facts else None
    if reported is None:
        if environment.version is None:
            raise ProvisionError(f"the server started for {wanted} does not report its version")
        return
    same = _is_same_build(reported, environment.version or wanted)
    if same is None and environment.version is None:
        raise ProvisionError(f"the server started for {wanted} is vLLM {reported}, which does not report its commit")
    if same is False:
        raise ProvisionError(f"the server started for {wanted} is vLLM {reported}; nothing was measured")


def _is_same_build(reported: Version, wanted: Version) -> bool | None:
    """Compared by commit, else by number (servers rarely report their variant). None if they share neither."""
    if reported.commit and wanted.commit:
        return reported.commit.startswith(wanted.commit) or wanted.commit.startswith(reported.commit)
    return None if reported.number is None or wanted.number is None else reported.number == wanted.number


@dataclass(frozen=True, slots=True)
class ExperimentSetup:
    """What is the same for all runs of an experiment."""

    suite: SuiteRef
    testbed: Testbed
    trials: int
    meter: Meter
    gpus: tuple[int, ...]
    """Indices of the GPUs that the servers may use. Their conditions are watched."""
    ready_within: float
    """Seconds from the start of a server until it must be healthy."""
    logs: Path
    """Directory of the servers' logs."""
    say: Callable[[str], None]
    """Called with one line about what takes time now."""
    progress: TrialProgress | None = None
    levels: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """Rates of the scenarios whose capacity is asked for, requests per second."""


@dataclass(frozen=True, slots=True)
class ExperimentSide:
    """One version and where its servers come from."""

    name: str
    wanted: Version
    environment: Environment
    libraries: Mapping[str, str] = field(default_factory=dict)
    """Libraries beyond the packages of its environment, if it reported any."""
    setting: ServerSetting | None = None
    """What its servers are given over the suite's configuration; None: nothing."""
    suite: SuiteRef | None = None
    """What its runs are stored under; None: the suite of the experiment."""


@dataclass(frozen=True, slots=True)
class MadeRun:
    """A run with the slot it was made for."""

    slot: Slot
    run: Run
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _UnitSetup:
    """What is the same for all runs of a unit."""

    group: ServerGroup
    workloads: Sequence[tuple[Scenario, LoadWorkload]]
    sides: Mapping[str, ExperimentSide]
    setup: ExperimentSetup
    name: str
    attempt: int

    def request(self, side: ExperimentSide) -> ServeRequest:
        server = self.group.server if side.setting is None else side.setting.over(self.group.server)
        return ServeRequest(model_path(server.model), server.model, server.engine_args, server.env)

    def label(self, slot: Slot) -> str:
        label = f"{self.name}/{slot.block:02d}-{slot.side}"
        label += f"/{self.group.name}" if self.group.name != "server" else ""
        return label + (f"/try-{self.attempt}" if self.attempt > 1 else "")


@dataclass(slots=True)
class _StartedServer:
    slot: Slot
    side: ExperimentSide
    at: datetime
    cold: bool
    server: Server | None
    failures: tuple[ServerFailure, ...]
    """Of the starts that failed."""
    subject: MeasuredServer | None = None
    peak_memory: int | None = None

    @property
    def failed(self) -> ServerFailure | None:
        if self.subject is None:
            return self.failures[-1]
        return self.subject.failed


def make_runs(
    slots: Sequence[Slot],
    group: ServerGroup,
    workloads: Sequence[tuple[Scenario, LoadWorkload]],
    sides: Mapping[str, ExperimentSide],
    setup: ExperimentSetup,
    *,
    experiment: str,
    attempt: int,
) -> list[MadeRun]:
    """Make the runs of slots that are measured together, in their order.

    The servers of several slots run at the same time. If one fails, another may be the cause: each server is then
    started alone, and none of the runs is resident.

    Raises ServerError or ProvisionError for a failure that the version cannot cause, and LoadError if a running server
    answers nothing.
    """
    own = [(scenario, workload) for scenario, workload in workloads if scenario in group.scenarios]
    unit = _UnitSetup(group, own, sides, setup, experiment, attempt)
    made = _make_together(slots, unit)
    failed = {each.slot: each.run.failure for each in made if each.run.failure is not None}
    if len(slots) == 1 or not failed:
        return made
    alone: dict[Slot, MadeRun] = {}
    for slot in sorted(slots, key=lambda slot: slot not in failed):
        (alone[slot],) = _make_together([slot], unit)
        failure = failed.get(slot)
        if failure is not None and alone[slot].run.failure is None:
            text = f"{slot.side_in_words} failed beside the other server and serves alone, use --one-at-a-time"
            raise ServerError(
                ServerFailure(
                    ServerFailureKind.ENVIRONMENT,
                    f"{text} ({failure.text})",
                    failure.lines,
                    failure.seconds or 0.0,
                    None,
                )
            )
    return [alone[slot] for slot in slots]


def _make_together(slots: Sequence[Slot], unit: _UnitSetup) -> list[MadeRun]:
    """Make runs whose servers run at the same time. If one of several starts fails, only its run is returned."""
    setup, resident = unit.setup, len(slots) > 1
    spawned: dict[Slot, Server] = {}
    with ExitStack() as stack:
        # Begins before the start, because the conditions may be the reason for a failed start.
        watch = stack.enter_context(
            ConditionsWatch(
                lambda: [process for server in list(spawned.values()) for process in server.processes()],
                gpus=setup.gpus,
            )
        )
        started: list[_StartedServer] = []
        for slot in slots:
            started.append(each := _start_slot(slot, unit, stack, spawned, resident=resident))
            if resident and each.server is None:
                return [_assemble_run(each, unit, watch.conditions(), None, (), resident=True)]
        ready = time.monotonic()
        subjects = [each.subject for each in started if each.subject is not None]
        if subjects:
            # The order of the slots alternates, so that each side begins each scenario equally often.
            measure_trials(subjects, unit.workloads, setup.meter, watch, trials=setup.trials, progress=setup.progress)
        served = watch.between(ready, time.monotonic())
        for each in started:  # before the prompts: their log-probabilities need memory that usual requests do not
            each.peak_memory = each.server.peak_memory if each.server else None
        made = []
        for each in started:
            outputs, notes = None, tuple[str, ...]()
            if each.failed is not None and not resident:
                _check_failure_is_evidence(each.failed, watch.conditions())
            if each.subject is not None and each.failed is None:
                setup.say(f"asking {each.subject.name} the fixed prompts")
                collected = collect_outputs(each.subject.url, unit.group.server.model)
                outputs, notes = collected.outputs, collected.notes
            conditions = served if each.server is not None else watch.conditions()
            made.append(_assemble_run(each, unit, conditions, outputs, notes, resident=resident))
        return made


def _check_failure_is_evidence(failure: ServerFailure, conditions: Conditions) -> None:
    """Raises ServerError for a failure that is no evidence about the version."""
    if conditions.gpu_other_processes:
        others = f"{conditions.gpu_other_processes:.0f} other processes were on the GPUs"
        raise ServerError(replace(failure, kind=ServerFailureKind.ENVIRONMENT, text=f"{others}: {failure.text}"))
    if not failure.kind.may_be_the_version:
        raise ServerError(failure)


def _start_slot(
    slot: Slot, unit: _UnitSetup, stack: ExitStack, spawned: dict[Slot, Server], *, resident: bool
) -> _StartedServer:
    side, setup = unit.sides[slot.side], unit.setup
    request = unit.request(side)
    at, cold = datetime.now(UTC), not side.environment.has_served(request)
    name = unit.label(slot).replace("/", "-") + ("-resident" if resident else "")
    server, failures = start_with_retries(
        side.environment,
        request,
        setup.logs / f"{name}.log",
        ready_within=setup.ready_within,
        starts=1 if resident else START_ATTEMPTS,  # each will be started alone
        say=setup.say,
        on_spawn=lambda server: spawned.update({slot: server}),
    )
    if server is None:
        spawned.pop(slot, None)
        return _StartedServer(slot, side, at, cold, None, failures)
    stack.enter_context(server)
    check_served_version(server, side.environment, side.wanted)
    side.environment.note_served(request)
    subject = MeasuredServer(
        name=f"{slot.side_in_words} {side.wanted}" if len(unit.sides) > 1 else str(side.wanted),
        url=server.url,
        serve=lambda model: model,
        failure=lambda: server.failure(health=True),
        metrics=MetricsSource(server.url),
    )
    return _StartedServer(slot, side, at, cold, server, failures, subject)


def _assemble_run(
    each: _StartedServer,
    unit: _UnitSetup,
    conditions: Conditions,
    outputs: Outputs | None,
    notes: tuple[str, ...],
    *,
    resident: bool,
) -> MadeRun:
    subject, failure = each.subject, each.failed
    server = each.server.facts if each.server else None
    version = each.side.environment.version or (server.version if server else None) or each.side.wanted
    server_document = server.as_document() if server else {}
    if each.server is not None and each.cold:
        server_document["cold_startup_time"] = each.server.startup_time
    before = each.failures if each.server is not None else each.failures[:-1]
    if before:
        server_document["failed_starts"] = [failed.as_document() for failed in before]
    slot = each.slot
    run = Run(
        version=version,
        testbed=unit.setup.testbed,
        suite=each.side.suite or unit.setup.suite,
        label=unit.label(slot),
        trials=() if failure or subject is None else tuple(subject.trials),
        started=each.at,
        conditions=conditions,
        libraries={**each.side.environment.libraries, **each.side.libraries},
        metrics={} if failure else _run_metrics(each),
        place=BlockPosition(unit.name, slot.block, slot.position, slot.side, resident, each.cold, unit.group.name),
        failure=None if failure is None else RunFailure(failure.kind, failure.text, failure.lines, failure.seconds),
        server=server_document,
        outputs=outputs,
    )
    of_start = tuple(f"a start failed before one served: {failed}" for failed in before if each.server is not None)
    of_trials = () if subject is None else (*subject.notes, *subject.void)
    return MadeRun(slot, run, (*of_start, *of_trials, *notes))


def _run_metrics(each: _StartedServer) -> dict[str, float]:
    """Metrics of a server start. The time of a cold start, with empty caches, is not comparable and left out."""
    server = each.server
    if server is None:
        return {}
    values = {
        "startup_time": None if each.cold else server.startup_time,
        "peak_memory": each.peak_memory,
        "kv_cache_tokens": server.facts.kv_cache_tokens if server.facts else None,
    }
    return {name: float(value) for name, value in values.items() if value is not None}
