"""The trials of one server, or of several that run at the same time. Not for starting or stopping servers."""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from regress_gate.bench.load.load_errors import LoadError, RequestFailureKind
from regress_gate.bench.load.load_workload import LoadWorkload
from regress_gate.bench.load.result import LoadResult
from regress_gate.bench.server.metrics_watch import MetricsSource, MetricsWatch
from regress_gate.bench.server.server_failures import ServerFailure, ServerFailureKind
from regress_gate.model.metric import PROMISE_KEY
from regress_gate.model.run import Conditions, Trial
from regress_gate.model.suite import Scenario
from regress_gate.text import plural

TRIAL_ATTEMPTS = 3
"""Times that a trial is sent if the client was the bottleneck."""
RETRY_ORDINAL_STEP = 1000
"""Added to the ordinal for each retry, so that it sends prompts that the server has not seen."""

TrialProgress = Callable[[str, int, int], None]
"""Called with the name of the measurement, and the finished and all requests of all trials."""


class Meter(Protocol):
    """Sends one workload and measures it: the tool's own client, or a driver of another tool."""

    def __call__(
        self,
        url: str,
        model: str,
        workload: LoadWorkload,
        *,
        scenario: str,
        ordinal: int,
        progress: Callable[[int, int], None],
        begins: Callable[[], None],
    ) -> LoadResult:
        """Calls `begins` right before the measured requests, after the warm-up."""


class ConditionsSource(Protocol):
    def between(self, begin: float, end: float) -> Conditions: ...


@dataclass(slots=True)
class MeasuredServer:
    """One server and the results of its trials so far."""

    name: str
    url: str
    serve: Callable[[str], str]
    """From a scenario's model to the name under which it is served."""
    failure: Callable[[], ServerFailure | None]
    """The server's failure, if any. Called after every trial."""
    metrics: MetricsSource
    """Its /metrics."""
    done: Mapping[str, int] = field(default_factory=dict)
    """Earlier trials of its run, by scenario."""
    trials: list[Trial] = field(default_factory=list)
    void: list[str] = field(default_factory=list)
    """Invalid trials with the reason: the client was the bottleneck at every attempt, or the trial took too long."""
    notes: list[str] = field(default_factory=list)
    failed: ServerFailure | None = None
    """Why its trials ended early."""


def measure_trials(
    subjects: Sequence[MeasuredServer],
    workloads: Sequence[tuple[Scenario, LoadWorkload]],
    meter: Meter,
    watch: ConditionsSource,
    *,
    trials: int,
    progress: TrialProgress | None = None,
) -> None:
    """Send every workload `trials` times to each server that has not failed, and record the results in it.

    A scenario whose capacity is asked for has one workload for each of its rates. Scenarios of a mix are one trial.

    All scenarios are sent once, then all again, so that a slow phase of the machine affects all. Within a scenario the
    servers alternate, and so does the server that begins. Raises LoadError if a running server answers nothing.
    """
    workloads = combine_mixes(workloads)
    total = trials * len(subjects) * sum(each.num_requests for _, workload in workloads for each in workload.mix)
    finished, begins = 0, 0
    sent: Counter[str] = Counter()
    for _ in range(trials):
        for scenario, workload in workloads:
            sent[scenario.name] += 1
            for subject in subjects if begins % 2 == 0 else reversed(subjects):
                if subject.failed is None:
                    what = f"{subject.name}, {scenario.name}"

                    def report(sent: int, _: int, what: str = what, before: int = finished) -> None:
                        if progress is not None:
                            progress(what, before + sent, total)

                    _measure_trial(subject, scenario, workload, meter, watch, sent[scenario.name], report)
                finished += sum(each.num_requests for each in workload.mix)
            begins += 1


def combine_mixes(workloads: Sequence[tuple[Scenario, LoadWorkload]]) -> list[tuple[Scenario, LoadWorkload]]:
    """What is sent one after another: scenarios of a mix are in the workload of its first."""
    mixes: dict[str, list[tuple[str, LoadWorkload]]] = {}
    for scenario, workload in workloads:
        if scenario.together is not None:
            mixes.setdefault(scenario.together, []).append((scenario.name, workload))
    combined = []
    for scenario, workload in workloads:
        if scenario.together is None:
            combined.append((scenario, workload))
        elif others := mixes.pop(scenario.together, [])[1:]:
            combined.append((scenario, replace(workload, together=tuple(others))))
    return combined


def _measure_trial(
    subject: MeasuredServer,
    scenario: Scenario,
    workload: LoadWorkload,
    meter: Meter,
    watch: ConditionsSource,
    turn: int,
    report: Callable[[int, int], None],
) -> None:
    ordinal = subject.done.get(scenario.name, 0) + turn
    for attempt in range(TRIAL_ATTEMPTS if all(map(_is_repeatable, workload.mix)) else 1):
        begin = time.monotonic()
        try:
            with MetricsWatch(subject.metrics) as metrics:
                result = meter(
                    subject.url,
                    subject.serve(scenario.server.model),
                    workload,
                    scenario=scenario.name,
                    ordinal=ordinal + attempt * RETRY_ORDINAL_STEP,
                    progress=report,
                    begins=metrics.begin,
                )
        except LoadError:
            subject.failed = subject.failure()
            if subject.failed is None:
                raise
            return
        end = time.monotonic()
        results = (result, *result.together)
        subject.failed = subject.failure() or _hang_failure(results, scenario.name)
        if subject.failed is not None:
            return
        void = next((each.why_void for each in results if each.why_void is not None), None)
        if void is None or any(each.too_long for each in results):  # a retry would take as long
            break
    promise = {} if scenario.workload.capacity is None else {PROMISE_KEY: scenario.workload.capacity}
    numbers = {} if void is not None else _server_metrics(metrics, subject)
    for each in results:
        name = f"{each.trial.scenario}, trial {ordinal}"
        subject.notes += [f"{name}: {note}" for note in each.notes]
        subject.notes += [
            f"{name}: {plural(failure.count, 'request')} failed: {failure.text}" for failure in each.failures
        ]
        if void is not None:  # what was sent beside it was not what was asked for either
            subject.void.append(f"{name}: {void}")
            continue
        if attempt:
            subject.notes.append(f"{name}: sent {attempt + 1} times, because the client was the bottleneck before")
        described = dict(each.trial.workload)
        if attempt:  # other texts than those of the other side's trial of this number
            described.pop("prompts_sha256", None)
        subject.trials.append(
            replace(
                each.trial,
                ordinal=ordinal,
                workload={**described, **promise},
                conditions=watch.between(begin, end),
                server_metrics=numbers,
            ),
        )


def _is_repeatable(workload: LoadWorkload) -> bool:
    """Recorded prompts differ in length, or are in the cache already: a retry would be another workload of that
    name."""
    return workload.dataset is None and not (workload.trace is not None and workload.trace.has_texts)


def _server_metrics(metrics: MetricsWatch, subject: MeasuredServer) -> Mapping[str, float]:
    """What the server counted in a trial. Notes once for a server that it does not tell."""
    known_before = subject.metrics.failure is None
    numbers = metrics.numbers()
    if known_before and subject.metrics.failure is not None:
        subject.notes.append(f"what the server counts is not known: {subject.metrics.failure}")
    return numbers


def _hang_failure(results: Sequence[LoadResult], scenario: str) -> ServerFailure | None:
    """The failure of a server that is alive but answers no request of a trial in time, even if /health succeeds."""
    silent = (
        RequestFailureKind.TIMEOUT,
        RequestFailureKind.CUT_SHORT,
        RequestFailureKind.UNSENT,
        RequestFailureKind.ABANDONED,
    )
    failures = [failure for result in results for failure in result.failures]
    answered = any(result.trial.completed for result in results)
    if answered or not failures or any(each.kind not in silent for each in failures):
        return None
    text = f"no request of {scenario} was answered in time ({failures[0].text})"
    return ServerFailure(ServerFailureKind.UNRESPONSIVE, text, (), results[0].trial.duration or 0.0, None)
