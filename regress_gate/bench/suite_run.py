"""One run: every scenario of a suite, some trials each, on one server. Not for judging what was measured."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from regress_gate.bench.load.measure import measure_load
from regress_gate.bench.load.target import Target
from regress_gate.bench.load.workload import Arrival, LoadWorkload, Slo
from regress_gate.bench.running import RunningServer
from regress_gate.errors import InputError
from regress_gate.model.run import Run, SuiteRef, Trial
from regress_gate.model.suite import Scenario, Suite
from regress_gate.model.testbed import Testbed

Progress = Callable[[str, int, int], None]
"""Called with the scenario's name, the requests that are done in the whole run, and how many there are."""


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    run: Run | None
    """None when no trial could be used."""
    void: tuple[str, ...]
    """Trials in which the client was the bottleneck, each with the reason: measured, and no data."""
    notes: tuple[str, ...]


def load_workloads(suite: Suite) -> list[tuple[Scenario, LoadWorkload]]:
    """The scenarios of a suite as the load client takes them. Raises InputError for one that is not complete."""
    return [(scenario, _load_workload(scenario)) for scenario in suite.scenarios]


def measure_suite(
    server: RunningServer,
    suite: Suite,
    testbed: Testbed,
    label: str,
    *,
    trials: int,
    done: Mapping[str, int],
    allow_remote: bool = False,
    progress: Progress | None = None,
) -> MeasuredRun:
    """Send every scenario `trials` times. `done` holds the trials that this run has already, by scenario.

    The scenarios take turns (all of them once, then again), so that a slow spell of the machine falls on all. Raises
    LoadError when the server does not answer at all; a server that answers with errors is measured as that.
    """
    workloads = load_workloads(suite)
    total = trials * sum(workload.num_requests for _, workload in workloads)
    finished = 0
    kept: list[Trial] = []
    void, notes = [], []
    for turn in range(1, trials + 1):
        for scenario, workload in workloads:
            ordinal = done.get(scenario.name, 0) + turn

            def told(sent: int, _: int, name: str = scenario.name, before: int = finished) -> None:
                if progress is not None:
                    progress(name, before + sent, total)

            result = measure_load(
                Target(server.url, server.serve(scenario.server.model)),
                workload,
                scenario=scenario.name,
                ordinal=ordinal,
                allow_remote=allow_remote,
                progress=told,
            )
            finished += workload.num_requests
            name = f"{scenario.name}, trial {ordinal}"
            if result.void:
                void.append(f"{name}: {result.guards.client_limited}")
            else:
                kept.append(result.trial)
            notes += [f"{name}: {note}" for note in result.notes]
            notes += [f"{name}: {failure.count} requests failed: {failure.text}" for failure in result.failures]
    if not kept:
        return MeasuredRun(None, tuple(void), tuple(notes))
    run = Run(
        version=server.version,
        testbed=testbed,
        suite=SuiteRef(suite.name, suite.version),
        label=label,
        trials=tuple(kept),
        started=server.started,
    )
    return MeasuredRun(run, tuple(void), tuple(notes))


def _load_workload(scenario: Scenario) -> LoadWorkload:
    workload = scenario.workload
    if workload.dataset != "random":
        raise InputError(f"scenario {scenario.name}: dataset {workload.dataset!r} cannot be sent", todo="use random")
    missing = [name for name in ("input_len", "output_len", "num_requests") if getattr(workload, name) is None]
    if workload.input_len is None or workload.output_len is None or workload.num_requests is None:
        raise InputError(f"scenario {scenario.name}: the workload does not say {', '.join(missing)}")
    return LoadWorkload(
        input_len=workload.input_len,
        output_len=workload.output_len,
        num_requests=workload.num_requests,
        concurrency=workload.concurrency,
        request_rate=workload.request_rate,
        arrival=Arrival(workload.arrival),
        prefix_len=workload.prefix_len,
        warmup_requests=workload.warmup_requests,
        seed=workload.seed or 0,
        slo=None if workload.slo is None else Slo(workload.slo.ttft, workload.slo.tpot, workload.slo.e2el),
    )
