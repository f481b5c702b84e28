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

from regress_gate.bench.experiment.plan import ServerGroup, Slot
from regress_gate.bench.experiment.starting import STARTS, check_version, start
from regress_gate.bench.experiment.trials import Meter, Progress, Subject, measure_trials
from regress_gate.bench.load.workload import LoadWorkload
from regress_gate.bench.machine.conditions import ConditionsWatch
from regress_gate.bench.outputs.asking import collect_outputs
from regress_gate.bench.provision.interface import Environment, ServeRequest
from regress_gate.bench.server.failures import Failure, FailureKind, ServerError
from regress_gate.bench.server.server import Server
from regress_gate.bench.tiny_model import model_path
from regress_gate.model.outputs import Outputs
from regress_gate.model.run import Conditions, Place, Run, RunFailure, SuiteRef
from regress_gate.model.suite import Scenario
from regress_gate.model.testbed import Testbed
from regress_gate.model.version import Version


@dataclass(frozen=True, slots=True)
class Bench:
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
    progress: Progress | None = None


@dataclass(frozen=True, slots=True)
class Side:
    """One version and where its servers come from."""

    name: str
    wanted: Version
    environment: Environment
    libraries: Mapping[str, str] = field(default_factory=dict)
    """What it uses besides the packages that its environment knows, where it told."""


@dataclass(frozen=True, slots=True)
class Made:
    """One run that was made."""

    slot: Slot
    run: Run
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Experiment:
    """What is the same for all runs of a unit."""

    group: ServerGroup
    workloads: Sequence[tuple[Scenario, LoadWorkload]]
    sides: Mapping[str, Side]
    bench: Bench
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
class _Started:
    slot: Slot
    side: Side
    at: datetime
    cold: bool
    server: Server | None
    failures: tuple[Failure, ...]
    """Of the starts that failed."""
    subject: Subject | None = None
    peak_memory: int | None = None

    @property
    def failed(self) -> Failure | None:
        if self.subject is None:
            return self.failures[-1]
        return self.subject.failed


def make_runs(
    slots: Sequence[Slot],
    group: ServerGroup,
    workloads: Sequence[tuple[Scenario, LoadWorkload]],
    sides: Mapping[str, Side],
    bench: Bench,
    *,
    experiment: str,
    attempt: int,
) -> list[Made]:
    """Make the runs of slots that are measured together, in their order.

    With several, all servers are up at once. Where one of them fails, that may be the others' doing: then each is
    started alone, and none of the runs is resident.

    Raises ServerError or ProvisionError for what cannot be the version's doing, and LoadError when a server that lives
    answers nothing.
    """
    own = [(scenario, workload) for scenario, workload in workloads if scenario in group.scenarios]
    facts = _Experiment(group, own, sides, bench, experiment, attempt)
    made = _make(slots, facts)
    failed = {each.slot: each.run.failure for each in made if each.run.failure is not None}
    if len(slots) == 1 or not failed:
        return made
    alone: dict[Slot, Made] = {}
    for slot in sorted(slots, key=lambda slot: slot not in failed):
        (alone[slot],) = _make([slot], facts)
        failure = failed.get(slot)
        if failure is not None and alone[slot].run.failure is None:
            text = f"{slot.side} failed beside the other server and serves alone, use --one-at-a-time"
            raise ServerError(
                Failure(
                    FailureKind.ENVIRONMENT, f"{text} ({failure.text})", failure.lines, failure.seconds or 0.0, None
                )
            )
    return [alone[slot] for slot in slots]


def _make(slots: Sequence[Slot], facts: _Experiment) -> list[Made]:
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
        started: list[_Started] = []
        for slot in slots:
            started.append(each := _start(slot, facts, stack, spawned, resident=resident))
            if resident and each.server is None:
                return [_made(each, facts, watch.conditions(), None, (), resident=True)]
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
                _check_evidence(each.failed, watch.conditions())
            if each.subject is not None and each.failed is None:
                bench.say(f"asking {each.subject.name} the fixed prompts")
                collected = collect_outputs(each.subject.url, facts.group.server.model)
                outputs, notes = collected.outputs, collected.notes
            conditions = served if each.server is not None else watch.conditions()
            made.append(_made(each, facts, conditions, outputs, notes, resident=resident))
        return made


def _check_evidence(failure: Failure, conditions: Conditions) -> None:
    """Raises ServerError for a failure that says nothing of the version."""
    if conditions.gpu_other_processes:
        others = f"{conditions.gpu_other_processes:.0f} other processes were on the GPUs"
        raise ServerError(replace(failure, kind=FailureKind.ENVIRONMENT, text=f"{others}: {failure.text}"))
    if not failure.kind.may_be_the_version:
        raise ServerError(failure)


def _start(
    slot: Slot, facts: _Experiment, stack: ExitStack, spawned: dict[Slot, Server], *, resident: bool
) -> _Started:
    side, bench, request = facts.sides[slot.side], facts.bench, facts.request
    at, cold = datetime.now(UTC), not side.environment.has_served(request)
    name = facts.label(slot).replace("/", "-") + ("-resident" if resident else "")
    server, failures = start(
        side.environment,
        request,
        bench.logs / f"{name}.log",
        ready_within=bench.ready_within,
        starts=1 if resident else STARTS,  # each will be started alone
        say=bench.say,
        on_spawn=lambda server: spawned.update({slot: server}),
    )
    if server is None:
        spawned.pop(slot, None)
        return _Started(slot, side, at, cold, None, failures)
    stack.enter_context(server)
    check_version(server, side.environment, side.wanted)
    side.environment.note_served(request)
    subject = Subject(
        name=f"{slot.side} {side.wanted}" if len(facts.sides) > 1 else str(side.wanted),
        url=server.url,
        serve=lambda model: model,
        failure=lambda: server.failure(health=True),
    )
    return _Started(slot, side, at, cold, server, failures, subject)


def _made(
    each: _Started,
    facts: _Experiment,
    conditions: Conditions,
    outputs: Outputs | None,
    notes: tuple[str, ...],
    *,
    resident: bool,
) -> Made:
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
        metrics={} if failure else _metrics(each),
        place=Place(facts.name, slot.block, slot.position, slot.side, resident, each.cold, facts.group.name),
        failure=None if failure is None else RunFailure(failure.kind, failure.text, failure.lines, failure.seconds),
        server=told,
        outputs=outputs,
    )
    of_start = tuple(f"a start failed before one served: {failed}" for failed in before if each.server is not None)
    of_trials = () if subject is None else (*subject.notes, *subject.void)
    return Made(slot, run, (*of_start, *of_trials, *notes))


def _metrics(each: _Started) -> dict[str, float]:
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
