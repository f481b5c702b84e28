"""Makes runs: starts the server of each slot, measures, asks for its answers, stops it, and says what came of it.

A server that fails where the version could be the cause gives a failed run, which is evidence. A failure of anything
else raises. Not for which runs are made, or when.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from regress_gate.bench.experiment.plan import ServerGroup, Slot
from regress_gate.bench.experiment.trials import Meter, Progress, Subject, measure_trials
from regress_gate.bench.load.workload import LoadWorkload
from regress_gate.bench.machine.conditions import ConditionsWatch
from regress_gate.bench.outputs.asking import collect_outputs
from regress_gate.bench.provision.interface import Environment, ProvisionError, ServeRequest
from regress_gate.bench.server.failures import Failure, ServerError
from regress_gate.bench.server.server import Server, start_server
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


@dataclass(frozen=True, slots=True)
class Made:
    """One run that was made."""

    slot: Slot
    run: Run
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class _Started:
    slot: Slot
    side: Side
    label: str
    at: datetime
    server: Server | None = None
    failure: Failure | None = None
    subject: Subject | None = None
    cold: bool = False
    peak_memory: int | None = None


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

    With several, all servers are up at once. Raises ServerError or ProvisionError for what cannot be the version's
    doing, and LoadError when a server that lives answers nothing.
    """
    own = [(scenario, workload) for scenario, workload in workloads if scenario in group.scenarios]
    with ExitStack() as stack:
        started = [_start(slot, group, sides, bench, stack, experiment, attempt) for slot in slots]
        living = [each for each in started if each.server is not None]
        subjects = [each.subject for each in living if each.subject is not None]
        watch = stack.enter_context(
            ConditionsWatch(
                lambda: [process for each in living if each.server for process in each.server.processes()],
                gpus=bench.gpus,
            )
        )
        if subjects:
            # In the order of the slots, which alternates: over the blocks each side begins each scenario as often.
            measure_trials(subjects, own, bench.meter, watch, trials=bench.trials, progress=bench.progress)
        conditions = watch.conditions()
        for each in living:  # before the prompts, whose log-probabilities take memory that no user's requests do
            each.peak_memory = each.server.peak_memory if each.server else None
        made = []
        for each in started:
            outputs, notes = None, tuple[str, ...]()
            if each.subject is not None and each.subject.failed is None:
                bench.say(f"asking {each.subject.name} the fixed prompts")
                collected = collect_outputs(each.subject.url, group.server.model)
                outputs, notes = collected.outputs, collected.notes
            made.append(_made(each, group, bench, experiment, conditions, outputs, notes, resident=len(slots) > 1))
    return made


def _start(
    slot: Slot,
    group: ServerGroup,
    sides: Mapping[str, Side],
    bench: Bench,
    stack: ExitStack,
    experiment: str,
    attempt: int,
) -> _Started:
    side = sides[slot.side]
    label = f"{experiment}/{slot.block:02d}-{slot.side}"
    label += f"/{group.name}" if group.name != "server" else ""
    label += f"/try-{attempt}" if attempt > 1 else ""
    started = _Started(slot, side, label, datetime.now(UTC), cold=not side.environment.has_served())
    log = bench.logs / f"{label.replace('/', '-')}.log"
    try:
        server = start_server(
            side.environment, _request(group), log=log, ready_within=bench.ready_within, progress=bench.say
        )
    except ServerError as error:
        if not error.failure.kind.may_be_the_version:
            raise
        started.failure = error.failure
        return started
    stack.enter_context(server)
    _check_version(server, side)
    side.environment.note_served()
    started.server = server
    started.subject = Subject(
        name=f"{slot.side} {side.wanted}" if len(sides) > 1 else str(side.wanted),
        url=server.url,
        serve=lambda model: model,
        failure=lambda: server.failure(health=True),
    )
    return started


def _request(group: ServerGroup) -> ServeRequest:
    server = group.server
    return ServeRequest(model_path(server.model), server.model, server.engine_args, server.env)


def _check_version(server: Server, side: Side) -> None:
    """A launch line can start anything: what serves is what counts."""
    said = server.facts.version if server.facts else None
    if said is None:
        if side.environment.version is None:
            raise ProvisionError(f"the server started for {side.wanted} does not tell its version")
        return
    if not _same_number(said, side.environment.version or side.wanted):
        raise ProvisionError(f"the server started for {side.wanted} is vLLM {said}; nothing was measured")


def _same_number(said: Version, wanted: Version) -> bool:
    """A server seldom tells its variant and commit; its number, where both have one, must be the same."""
    return said.number is None or wanted.number is None or said.number == wanted.number


def _made(
    each: _Started,
    group: ServerGroup,
    bench: Bench,
    experiment: str,
    conditions: Conditions,
    outputs: Outputs | None,
    notes: tuple[str, ...],
    *,
    resident: bool,
) -> Made:
    subject = each.subject
    failure = each.failure or (subject.failed if subject else None)
    facts = each.server.facts if each.server else None
    version = each.side.environment.version or (facts.version if facts else None) or each.side.wanted
    facts_told = facts.as_document() if facts else {}
    if each.server is not None and each.cold:
        facts_told["cold_startup_time"] = each.server.startup_time
    run = Run(
        version=version,
        testbed=bench.testbed,
        suite=bench.suite,
        label=each.label,
        trials=() if failure or subject is None else tuple(subject.trials),
        started=each.at,
        conditions=conditions,
        libraries=each.side.environment.libraries,
        metrics={} if failure else _metrics(each),
        place=Place(experiment, each.slot.block, each.slot.position, each.slot.side, resident, each.cold, group.name),
        failure=None if failure is None else RunFailure(failure.kind, failure.text, failure.lines, failure.seconds),
        server=facts_told,
        outputs=outputs,
    )
    return Made(each.slot, run, (*(subject.notes if subject else ()), *(subject.void if subject else ()), *notes))


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
