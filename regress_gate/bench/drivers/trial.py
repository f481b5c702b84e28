"""From what another tool measured to a trial, in the words of the load client's own trials. Not for reading files."""

import hashlib
import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from math import nan, sqrt
from typing import Any

from regress_gate.bench.load.client_guards import Guards
from regress_gate.bench.load.load_errors import LoadError
from regress_gate.bench.load.load_workload import LoadWorkload
from regress_gate.bench.load.result import LoadResult, described_workload
from regress_gate.ingest.interface import Reading
from regress_gate.model.metric_definitions import WORKLOAD_KEY
from regress_gate.model.run import Trial, TrialSource
from regress_gate.text import plural

RATE_TOLERANCE = 0.10
"""Relative difference between the asked and the achieved request rate that is left alone…"""
RATE_ERRORS = 4.0
"""…or as many standard errors of a Poisson process, 1/√n each, where these are more."""

UNWATCHED = Guards(loop_lag_median=nan, loop_lag_p99=nan, cpu_share=nan, lateness_p99=nan, client_limited=None)
"""Nobody can see from outside whether another tool's client kept up."""


@dataclass(frozen=True, slots=True)
class ToolPass:
    """One pass by another tool, with everything that is known of it."""

    workload: LoadWorkload
    scenario: str
    ordinal: int
    model: str
    url: str
    started: datetime
    tool: str
    version: str
    command: Sequence[str]
    result_format: str
    reading: Reading
    content: bytes
    notes: Sequence[str]


def make_load_result(measured: ToolPass) -> LoadResult:
    """Raises LoadError when the tool did not send what it was asked to send."""
    reading, workload = measured.reading, measured.workload
    sent = (reading.completed or 0) + reading.failed
    if sent != workload.num_requests:
        raise LoadError(f"{measured.tool} sent {plural(sent, 'request')} where {workload.num_requests} were asked for")
    _check_rate(measured)
    trial = Trial(
        scenario=measured.scenario,
        ordinal=measured.ordinal,
        completed=reading.completed,
        failed=reading.failed,
        duration=reading.duration,
        metrics=reading.metrics,
        workload=_described(measured),
        source=TrialSource(
            sha256=hashlib.sha256(measured.content).hexdigest(),
            position=0,
            path=measured.url,
            format=measured.result_format,
            imported_at=measured.started,
            tool=measured.tool,
            # With the tool's name, because two sides are told apart by this text.
            client_version=f"{measured.tool} {measured.version}",
            command=shlex.join(measured.command),
        ),
        started=measured.started,
        samples=reading.samples,
    )
    return LoadResult(trial, UNWATCHED, (), tuple(_notes(measured)), measured.content)


def _check_rate(measured: ToolPass) -> None:
    """A tool that sends in a burst what was to be spread in time has measured another workload."""
    asked, samples = measured.workload.request_rate, measured.reading.samples
    if asked is None or samples is None or samples.start is None:
        return
    starts = samples.start[samples.ok]
    if len(starts) < 2 or not (span := float(starts.max() - starts.min())):
        return
    achieved = (len(starts) - 1) / span
    # The failed ones were sent too, but not every tool says when.
    lowest = achieved if measured.reading.failed == 0 and measured.workload.concurrency is None else asked
    tolerance = max(RATE_TOLERANCE, RATE_ERRORS / sqrt(len(starts)))
    if achieved > asked * (1 + tolerance) or lowest < asked / (1 + tolerance):
        raise LoadError(
            f"{measured.tool} sent {achieved:.3g} requests a second where {asked:g} were asked for: "
            "its client could not keep to the schedule"
        )


def _described(measured: ToolPass) -> dict[str, Any]:
    workload = measured.workload
    described = {**measured.reading.workload, **described_workload(workload, measured.model)}
    if measured.reading.definitions is not None:
        described[WORKLOAD_KEY] = measured.reading.definitions
    if workload.request_rate is not None:
        described["arrival"] = workload.arrival.value
    if workload.slo is not None:
        described["slo"] = {name: value for name, value in asdict(workload.slo).items() if value is not None}
    return described


def _notes(measured: ToolPass) -> list[str]:
    reading, workload = measured.reading, measured.workload
    notes = [f"measured by {measured.tool}: whether its client was the bottleneck is not known", *measured.notes]
    if workload.request_rate is not None:
        notes.append("latency counts from the moment of sending, not from the moment at which a request was due")
    if workload.slo is not None and "goodput" not in reading.metrics:
        notes.append(f"{measured.tool} is not asked for goodput")
    if reading.samples is not None:
        tokens = reading.samples.output_tokens[reading.samples.ok]
        if other := int((tokens != workload.output_len).sum()):
            notes.append(f"{plural(other, 'answer')} had other than the {workload.output_len} tokens asked for")
    return [*notes, *reading.notes]
