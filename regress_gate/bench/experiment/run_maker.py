"""Makes runs: starts the server of each slot, measures, asks for its answers, stops it, and says what came of it.

A server that fails where the version could be the cause gives a failed run, which is evidence. A failure of anything
else raises. Not for which runs are made, or when, and not for the start of a server.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from regress_gate.bench.experiment.experiment_plan import ServerGroup, Slot
from regress_gate.bench.experiment.trials import MeasuredServer, Meter, TrialProgress, measure_trials
from regress_gate.bench.fixed_prompts import collect_outputs
from regress_gate.bench.load.load_workload import LoadWorkload
from regress_gate.bench.machine.conditions import ConditionsWatch
from regress_gate.bench.provision.interface import Environment, Progress, ProvisionError, ServeRequest
from regress_gate.bench.server.server import Server, start_server
from regress_gate.bench.server.server_failures import ServerError, ServerFailure, ServerFailureKind
from regress_gate.bench.tiny_model import model_path
from regress_gate.model.run import BlockPosition, Conditions, Outputs, Run, RunFailure, SuiteRef
from regress_gate.model.suite import Scenario
from regress_gate.model.testbed import Testbed
from regress_gate.model.version import Version

# MERGED regress_gate.bench.experiment.starting: Starts the server of a run: once more where a start failed, and no
# other build than the one that was asked for.  Not for measuring, and not for stopping what serves.


START_ATTEMPTS = 2
"""Times that a server is started before its failing is evidence: a machine has bad moments, and one would be enough to
speak against a version for ever."""


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
    """The server, or None, and the starts that failed, the last one last.

    Raises ServerError at once for what says nothing of the version and would be the same the next time.
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
    """A launch line can start anything: what serves is what counts. Raises ProvisionError for another build."""
    said = server.facts.version if server.facts else None
    if said is None:
        if environment.version is None:
            raise ProvisionError(f"the server started for {wanted} does not tell its version")
        return
    same = _is_same_build(said, environment.version or wanted)
    if same is None and environment.version is None:
        raise ProvisionError(f"the server started for {wanted} is vLLM {said}, which does not tell its commit")
    if same is False:
        raise ProvisionError(f"the server started for {wanted} is vLLM {said}; nothing was measured")


def _is_same_build(said: Version, wanted: Version) -> bool | None:
    """A server seldom tells its variant: what counts is the commit, else the number. None where they share neither."""
    if said.commit and wanted.commit:
        return said.commit.startswith(wanted.commit) or wanted.commit.startswith(said.commit)
    return None if said.number is None or wanted.number is None else said.number == wanted.number


@dataclass(frozen=True, slots=True)
class ExperimentSetup:
    """What is the same for all runs of an experiment."""

    suite: SuiteRef
    testbed: Testbed
    trials: int
    meter: Meter
    gpus: tuple[int, ...]
    """Numbers of those that the servers may use; their conditions count."""
    ready_within: float
    """Seconds from the start of a server to its first healthy answer, beyond which it has failed."""
    logs: Path
    """Directory of the servers' logs."""
    say: Callable[[str], None]
    """Told in one line what takes time now."""
    progress: TrialProgress | None = None


@dataclass(frozen=True, slots=True)
class ExperimentSide:
    """One version and where its servers come from."""

    name: str
    wanted: Version
    environment: Environment
    libraries: Mapping[str, str] = field(default_factory=dict)
    """What it uses besides the packages that its environment knows, where it told."""


@dataclass(frozen=True, slots=True)
class MadeRun:
    """One run that was made."""

    slot: Slot
    run: Run
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _UnitSetup:
    """What is the same for all runs of a unit."""

    group: ServerGroup
    workloads: Sequence[tuple[Scenario, LoadWorkload]]
    sides: Mapping[str, ExperimentSide]
    bench: ExperimentSetup
    name: str
    attempt: int

    @property
    def request(self) -> ServeRequest:
        server = self.group.server
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
    bench: ExperimentSetup,
    *,
    experiment: str,
    attempt: int,
) -> list[MadeRun]:
    """Make the runs of slots that are measured together, in their order.

    With several, all servers are up at once. Where one of them fails, that may be the others' doing: then each is
    started alone, and none of the runs is resident.

    Raises ServerError or ProvisionError for what cannot be the version's doing, and LoadError when a server that lives
    answers nothing.
    """
    own = [(scenario, workload) for scenario, workload in workloads if scenario in group.scenarios]
    facts = _UnitSetup(group, own, sides, bench, experiment, attempt)
    made = _make_together(slots, facts)
    failed = {each.slot: each.run.failure for each in made if each.run.failure is not None}
    if len(slots) == 1 or not failed:
        return made
    alone: dict[Slot, MadeRun] = {}
    for slot in sorted(slots, key=lambda slot: slot not in failed):
        (alone[slot],) = _make_together([slot], facts)
        failure = failed.get(slot)
        if failure is not None and alone[slot].run.failure is None:
            text = f"{slot.side} failed beside the other server and serves alone, use --one-at-a-time"
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


def _make_together(slots: Sequence[Slot], facts: _UnitSetup) -> list[MadeRun]:
    """Make runs whose servers are up at once; of several only those that failed, as soon as one start fails."""
    bench, resident = facts.bench, len(slots) > 1
    spawned: dict[Slot, Server] = {}
    with ExitStack() as stack:
        # From before the start: what kept a server from starting is a condition of it, too.
        watch = stack.enter_context(
            ConditionsWatch(
                lambda: [process for server in list(spawned.values()) for process in server.processes()],
                gpus=bench.gpus,
            )
        )
        started: list[_StartedServer] = []
        for slot in slots:
            started.append(each := _start_slot(slot, facts, stack, spawned, resident=resident))
            if resident and each.server is None:
                return [_assemble_run(each, facts, watch.conditions(), None, (), resident=True)]
        ready = time.monotonic()
        subjects = [each.subject for each in started if each.subject is not None]
        if subjects:
            # In the order of the slots, which alternates: over the blocks each side begins each scenario as often.
            measure_trials(subjects, facts.workloads, bench.meter, watch, trials=bench.trials, progress=bench.progress)
        served = watch.between(ready, time.monotonic())
        for each in started:  # before the prompts, whose log-probabilities take memory that no user's requests do
            each.peak_memory = each.server.peak_memory if each.server else None
        made = []
        for each in started:
            outputs, notes = None, tuple[str, ...]()
            if each.failed is not None and not resident:
                _check_failure_is_evidence(each.failed, watch.conditions())
            if each.subject is not None and each.failed is None:
                bench.say(f"asking {each.subject.name} the fixed prompts")
                collected = collect_outputs(each.subject.url, facts.group.server.model)
                outputs, notes = collected.outputs, collected.notes
            conditions = served if each.server is not None else watch.conditions()
            made.append(_assemble_run(each, facts, conditions, outputs, notes, resident=resident))
        return made


def _check_failure_is_evidence(failure: ServerFailure, conditions: Conditions) -> None:
    """Raises ServerError for a failure that says nothing of the version."""
    if conditions.gpu_other_processes:
        others = f"{conditions.gpu_other_processes:.0f} other processes were on the GPUs"
        raise ServerError(replace(failure, kind=ServerFailureKind.ENVIRONMENT, text=f"{others}: {failure.text}"))
    if not failure.kind.may_be_the_version:
        raise ServerError(failure)


def _start_slot(
    slot: Slot, facts: _UnitSetup, stack: ExitStack, spawned: dict[Slot, Server], *, resident: bool
) -> _StartedServer:
    side, bench, request = facts.sides[slot.side], facts.bench, facts.request
    at, cold = datetime.now(UTC), not side.environment.has_served(request)
    name = facts.label(slot).replace("/", "-") + ("-resident" if resident else "")
    server, failures = start_with_retries(
        side.environment,
        request,
        bench.logs / f"{name}.log",
        ready_within=bench.ready_within,
        starts=1 if resident else START_ATTEMPTS,  # each will be started alone
        say=bench.say,
        on_spawn=lambda server: spawned.update({slot: server}),
    )
    if server is None:
        spawned.pop(slot, None)
        return _StartedServer(slot, side, at, cold, None, failures)
    stack.enter_context(server)
    check_served_version(server, side.environment, side.wanted)
    side.environment.note_served(request)
    subject = MeasuredServer(
        name=f"{slot.side} {side.wanted}" if len(facts.sides) > 1 else str(side.wanted),
        url=server.url,
        serve=lambda model: model,
        failure=lambda: server.failure(health=True),
    )
    return _StartedServer(slot, side, at, cold, server, failures, subject)


def _assemble_run(
    each: _StartedServer,
    facts: _UnitSetup,
    conditions: Conditions,
    outputs: Outputs | None,
    notes: tuple[str, ...],
    *,
    resident: bool,
) -> MadeRun:
    subject, failure = each.subject, each.failed
    server = each.server.facts if each.server else None
    version = each.side.environment.version or (server.version if server else None) or each.side.wanted
    told = server.as_document() if server else {}
    if each.server is not None and each.cold:
        told["cold_startup_time"] = each.server.startup_time
    before = each.failures if each.server is not None else each.failures[:-1]
    if before:
        told["failed_starts"] = [failed.as_document() for failed in before]
    slot = each.slot
    run = Run(
        version=version,
        testbed=facts.bench.testbed,
        suite=facts.bench.suite,
        label=facts.label(slot),
        trials=() if failure or subject is None else tuple(subject.trials),
        started=each.at,
        conditions=conditions,
        libraries={**each.side.environment.libraries, **each.side.libraries},
        metrics={} if failure else _run_metrics(each),
        place=BlockPosition(facts.name, slot.block, slot.position, slot.side, resident, each.cold, facts.group.name),
        failure=None if failure is None else RunFailure(failure.kind, failure.text, failure.lines, failure.seconds),
        server=told,
        outputs=outputs,
    )
    of_start = tuple(f"a start failed before one served: {failed}" for failed in before if each.server is not None)
    of_trials = () if subject is None else (*subject.notes, *subject.void)
    return MadeRun(slot, run, (*of_start, *of_trials, *notes))


def _run_metrics(each: _StartedServer) -> dict[str, float]:
    """What is measured once per server start. A cold start's time is another metric: caches were empty."""
    server = each.server
    if server is None:
        return {}
    found = {
        "startup_time": None if each.cold else server.startup_time,
        "peak_memory": each.peak_memory,
        "kv_cache_tokens": server.facts.kv_cache_tokens if server.facts else None,
    }
    return {name: float(value) for name, value in found.items() if value is not None}
