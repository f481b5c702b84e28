"""The trials of one server, or of several that are up at once and take turns. Not for starting or stopping them."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from regress_gate.bench.load.load_errors import LoadError, RequestFailureKind
from regress_gate.bench.load.load_workload import LoadWorkload
from regress_gate.bench.load.result import LoadResult
from regress_gate.bench.server.server_failures import ServerFailure, ServerFailureKind
from regress_gate.model.run import Conditions, Trial
from regress_gate.model.suite import Scenario
from regress_gate.text import plural

TRIAL_ATTEMPTS = 3
"""Times that a trial is tried in which the client was the bottleneck."""
RETRY_ORDINAL_STEP = 1000
"""Added to the ordinal that the prompts of another try follow from: the server has seen those of the first."""

TrialProgress = Callable[[str, int, int], None]
"""Called with what is measured, the requests that are done of all trials, and how many there are."""


class Meter(Protocol):
    """What sends one workload and measures: our own client, or a driver of another."""

    def __call__(
        self,
        url: str,
        model: str,
        workload: LoadWorkload,
        *,
        scenario: str,
        ordinal: int,
        progress: Callable[[int, int], None],
    ) -> LoadResult: ...


class ConditionsSource(Protocol):
    def between(self, begin: float, end: float) -> Conditions: ...


@dataclass(slots=True)
class MeasuredServer:
    """One server and what its trials gave so far."""

    name: str
    url: str
    serve: Callable[[str], str]
    """From the model that a scenario wants to the name under which it is served."""
    failure: Callable[[], ServerFailure | None]
    """What is wrong with the server now; asked after every trial."""
    done: Mapping[str, int] = field(default_factory=dict)
    """Trials that its run has already, by scenario."""
    trials: list[Trial] = field(default_factory=list)
    void: list[str] = field(default_factory=list)
    """Trials in which the client was the bottleneck to the last, or that took too long, each with the reason: no
    data."""
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
    """Send every scenario `trials` times to each subject that has not failed, and fill the subjects.

    The scenarios take turns (all of them once, then again), so that a slow spell of the machine falls on all. The
    subjects take turns within each, and who begins alternates; the first subject begins the first. Raises LoadError
    when a server that lives answers nothing at all.
    """
    total = trials * len(subjects) * sum(workload.num_requests for _, workload in workloads)
    finished, begins = 0, 0
    for turn in range(1, trials + 1):
        for scenario, workload in workloads:
            for subject in subjects if begins % 2 == 0 else reversed(subjects):
                if subject.failed is None:
                    what = f"{subject.name}, {scenario.name}"

                    def told(sent: int, _: int, what: str = what, before: int = finished) -> None:
                        if progress is not None:
                            progress(what, before + sent, total)

                    _measure_trial(subject, scenario, workload, meter, watch, turn, told)
                finished += workload.num_requests
            begins += 1


def _measure_trial(
    subject: MeasuredServer,
    scenario: Scenario,
    workload: LoadWorkload,
    meter: Meter,
    watch: ConditionsSource,
    turn: int,
    told: Callable[[int, int], None],
) -> None:
    ordinal = subject.done.get(scenario.name, 0) + turn
    name = f"{scenario.name}, trial {ordinal}"
    # Other recorded prompts have other lengths: another try would be another piece of work under the same name.
    for attempt in range(TRIAL_ATTEMPTS if workload.dataset is None else 1):
        begin = time.monotonic()
        try:
            result = meter(
                subject.url,
                subject.serve(scenario.server.model),
                workload,
                scenario=scenario.name,
                ordinal=ordinal + attempt * RETRY_ORDINAL_STEP,
                progress=told,
            )
        except LoadError:
            subject.failed = subject.failure()
            if subject.failed is None:
                raise
            return
        end = time.monotonic()
        subject.failed = subject.failure() or _hang_failure(result, scenario.name)
        if subject.failed is not None:
            return
        if result.why_void is None or result.too_long:  # which it would be again
            break
    subject.notes += [f"{name}: {note}" for note in result.notes]
    subject.notes += [
        f"{name}: {plural(failure.count, 'request')} failed: {failure.text}" for failure in result.failures
    ]
    if result.why_void is not None:
        subject.void.append(f"{name}: {result.why_void}")
        return
    if attempt:
        subject.notes.append(f"{name}: sent {attempt + 1} times, because the client was the bottleneck before")
    subject.trials.append(
        replace(result.trial, ordinal=ordinal, conditions=watch.between(begin, end)),
    )


def _hang_failure(result: LoadResult, scenario: str) -> ServerFailure | None:
    """A server that lives and answers no request of a trial in time hangs, whatever its health page says."""
    silent = (RequestFailureKind.TIMEOUT, RequestFailureKind.CUT_SHORT, RequestFailureKind.UNSENT)
    if result.trial.completed or not result.failures or any(each.kind not in silent for each in result.failures):
        return None
    text = f"no request of {scenario} was answered in time ({result.failures[0].text})"
    return ServerFailure(ServerFailureKind.UNRESPONSIVE, text, (), result.trial.duration or 0.0, None)
