"""Measures servers that somebody else started: every scenario of a suite, some trials each, one run a server.

Not for starting servers (`experiment`), and not for judging what was measured.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from regress_gate.bench.experiment.trials import Meter, Progress, Subject, measure_trials
from regress_gate.bench.load.choosing import check
from regress_gate.bench.load.dataset import Dataset, DatasetFormat, find_dataset, read_texts
from regress_gate.bench.load.workload import Api, Arrival, LoadWorkload, Slo
from regress_gate.bench.machine.conditions import ConditionsWatch
from regress_gate.bench.machine.cpu import Find
from regress_gate.bench.running import RunningServer, find_failure, tells_health
from regress_gate.errors import InputError
from regress_gate.model.deployment import engine_arg_key
from regress_gate.model.run import Run, RunFailure, SuiteRef
from regress_gate.model.suite import RecordedPrompts, Scenario, Suite
from regress_gate.model.testbed import Testbed


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    run: Run | None
    """None when no trial could be used. One whose server failed has no trials, and says how it failed."""
    void: tuple[str, ...]
    """Trials in which the client was the bottleneck, each with the reason: measured, and no data."""
    notes: tuple[str, ...]


def load_workloads(suite: Suite) -> list[tuple[Scenario, LoadWorkload]]:
    """The scenarios of a suite as the load client takes them. Raises InputError for one that is not complete."""
    return [(scenario, _load_workload(scenario)) for scenario in suite.scenarios]


def measure_running(
    servers: Sequence[RunningServer],
    suite: Suite,
    testbed: Testbed,
    labels: Sequence[str],
    *,
    trials: int,
    done: Sequence[Mapping[str, int]],
    meter: Meter,
    processes: Find,
    progress: Progress | None = None,
) -> list[MeasuredRun]:
    """Send every scenario `trials` times to each server, the servers taking turns; one run a server, in their order.

    `labels` and `done` belong to the servers: the label of its run, and the trials that this run has already, by
    scenario. `processes` gives the servers' processes as far as they can be seen. A server that answers with errors is
    measured as that, and one that hangs or is no longer healthy has failed. Raises LoadError when one is not
    healthy from the beginning, or is healthy and answers nothing at all.
    """
    several = len(servers) > 1
    subjects = [_subject(server, taken, several=several) for server, taken in zip(servers, done, strict=True)]
    with ConditionsWatch(processes, gpus=() if suite.accelerator == "cpu" else None) as watch:
        measure_trials(subjects, load_workloads(suite), meter, watch, trials=trials, progress=progress)
    return [
        MeasuredRun(_run(server, suite, testbed, label, subject), tuple(subject.void), tuple(subject.notes))
        for server, label, subject in zip(servers, labels, subjects, strict=True)
    ]


def _subject(server: RunningServer, done: Mapping[str, int], *, several: bool) -> Subject:
    tells = tells_health(server.url)
    return Subject(
        name=f"{server.version} at {server.url}" if several else str(server.version),
        url=server.url,
        serve=server.serve,
        failure=lambda: find_failure(server.url) if tells else None,
        done=done,
    )


def _run(server: RunningServer, suite: Suite, testbed: Testbed, label: str, subject: Subject) -> Run | None:
    failed = subject.failed
    if failed is None and not subject.trials:
        return None
    return Run(
        version=server.version,
        testbed=testbed,
        suite=SuiteRef(suite.name, suite.version),
        label=label,
        trials=() if failed else tuple(subject.trials),
        started=server.started,
        failure=RunFailure(failed.kind, failed.text, failed.lines) if failed else None,
    )


def _load_workload(scenario: Scenario) -> LoadWorkload:
    workload = scenario.workload
    dataset = _dataset(scenario)
    if workload.num_requests is None or workload.missing:
        raise InputError(f"scenario {scenario.name}: the workload does not say {', '.join(workload.missing)}")
    asked = LoadWorkload(
        input_len=workload.input_len or 0,
        output_len=workload.output_len or 0,
        num_requests=workload.num_requests,
        concurrency=workload.concurrency,
        request_rate=workload.request_rate,
        arrival=Arrival(workload.arrival),
        prefix_len=workload.prefix_len,
        warmup_requests=workload.warmup_requests,
        seed=workload.seed or 0,
        slo=None if workload.slo is None else Slo(workload.slo.ttft, workload.slo.tpot, workload.slo.e2el),
        api=Api(workload.api),
        documents=workload.documents or 0,
        ignore_eos=workload.ignore_eos,
        extra_body=workload.extra_body,
        lora_adapters=tuple(workload.lora_adapters),
        dataset=dataset,
    )
    if dataset is not None:
        arguments = {engine_arg_key(key): value for key, value in scenario.server.engine_args.items()}
        longest = arguments.get("max_model_len")
        check(dataset, read_texts(dataset), asked, longest if type(longest) is int else None)
    return asked


def _dataset(scenario: Scenario) -> Dataset | None:
    """Reads it, so that a file that cannot be used is told before a server starts."""
    given = scenario.workload.dataset
    if given == "random":
        return None
    if not isinstance(given, RecordedPrompts):
        raise InputError(f"scenario {scenario.name}: dataset {given!r} cannot be sent", todo="use random, or a file")
    return find_dataset(DatasetFormat(given.format), Path(given.file))
