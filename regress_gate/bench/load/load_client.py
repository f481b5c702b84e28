"""Measures one workload on a running server: warm-up, watched sending, result. Not for starting the server."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from regress_gate.bench.load.client_guards import ClientWatch
from regress_gate.bench.load.dataset import read_texts
from regress_gate.bench.load.http_transport import Endpoint, HttpTransport, Target, resolve_target
from regress_gate.bench.load.load_errors import LoadError, RequestFailureKind
from regress_gate.bench.load.load_workload import LoadWorkload, arrival_times
from regress_gate.bench.load.pass_requests import (
    TOKENIZE_PATH,
    ChosenPrompt,
    TokenCounter,
    choose_prompts,
    make_pass_requests,
)
from regress_gate.bench.load.result import LoadResult, WorkloadPass, make_result
from regress_gate.bench.load.sending import RequestRecord, RequestSender, closed_loop, open_loop
from regress_gate.text import plural

RequestProgress = Callable[[int, int], None]
"""Called with the measured requests that are done, and how many there are."""


@dataclass(frozen=True, slots=True)
class LoadLimits:
    """How long to wait before something counts as failed; seconds."""

    request: float = 300.0
    """For one request, from sending to the end of its answer: longer is a hang."""
    trial: float = 3600.0
    """For the warm-up, and once more for the measured requests: what takes longer is no data."""


DEFAULT_LIMITS = LoadLimits()


def measure_load(
    target: Target,
    workload: LoadWorkload,
    *,
    scenario: str,
    ordinal: int = 1,
    limits: LoadLimits = DEFAULT_LIMITS,
    allow_remote: bool = False,
    progress: RequestProgress | None = None,
) -> LoadResult:
    """Send the workload to the server and measure; `ordinal` counts the passes of this scenario in its run from 1.

    What goes wrong with a request is in the result. Raises InputError for a target that may not be measured or recorded
    prompts that cannot be sent, and LoadError when no request reached a server at all or it does not count tokens.
    """
    return asyncio.run(
        measure_load_async(
            target,
            workload,
            scenario=scenario,
            ordinal=ordinal,
            limits=limits,
            allow_remote=allow_remote,
            progress=progress,
        )
    )


async def measure_load_async(
    target: Target,
    workload: LoadWorkload,
    *,
    scenario: str,
    ordinal: int = 1,
    limits: LoadLimits = DEFAULT_LIMITS,
    allow_remote: bool = False,
    progress: RequestProgress | None = None,
) -> LoadResult:
    """`measure_load` on the running loop. What else runs there disturbs the measurement, and the guards will say so."""
    endpoint = resolve_target(target, allow_remote=allow_remote)
    transport = HttpTransport(endpoint, target.api_key, path=workload.api.path)
    chosen = await _choose_recorded(workload, scenario, ordinal, target, endpoint, limits)
    prepared = make_pass_requests(workload, scenario, ordinal, target.model, chosen)
    requests = prepared.measured
    try:
        warming = RequestSender(transport, limits.request, time.monotonic() + limits.trial, _do_nothing)
        warmed = await closed_loop(warming, prepared.warmup, workload.concurrency)
        _check_reached(warmed, target)
        finished = _progress_counter(progress, len(requests)) if progress is not None else _do_nothing
        sender = RequestSender(transport, limits.request, time.monotonic() + limits.trial, finished)
        started = datetime.now(UTC)
        with ClientWatch() as watch:
            if workload.request_rate is None:
                records = await closed_loop(sender, requests, workload.concurrency)
            else:
                times = arrival_times(workload, scenario, ordinal)
                records = await open_loop(sender, requests, times, workload.concurrency)
            load = watch.load()
    finally:
        await transport.close()
    _check_reached(records, target)
    return make_result(
        WorkloadPass(
            workload=workload,
            scenario=scenario,
            ordinal=ordinal,
            model=target.model,
            url=target.url,
            started=started,
            begun=min(record.scheduled for record in records),
            records=records,
            warmup_failed=sum(record.failure is not None for record in warmed),
            load=load,
            prompts_sha256=prepared.prompts_sha256,
        )
    )


async def _choose_recorded(
    workload: LoadWorkload, scenario: str, ordinal: int, target: Target, endpoint: Endpoint, limits: LoadLimits
) -> list[ChosenPrompt] | None:
    """The recorded prompts of a pass; None where prompts are generated."""
    if workload.dataset is None:
        return None
    transport = HttpTransport(endpoint, target.api_key, path=TOKENIZE_PATH)
    try:
        count = TokenCounter(transport, target, limits.request)
        return await choose_prompts(workload.dataset, read_texts(workload.dataset), workload, scenario, ordinal, count)
    finally:
        await transport.close()


def _check_reached(records: Sequence[RequestRecord], target: Target) -> None:
    refused = [
        record.failure for record in records if record.failure and record.failure.kind is RequestFailureKind.REFUSED
    ]
    if refused and len(refused) == len(records):
        raise LoadError(
            f"{target.url}: no server answers ({refused[0].text}, {plural(len(records), 'request')}); "
            "see that it runs and that the port is right"
        )


def _progress_counter(progress: RequestProgress, total: int) -> Callable[[], None]:
    done = 0

    def finished() -> None:
        nonlocal done
        done += 1
        progress(done, total)

    return finished


def _do_nothing() -> None:
    """For requests whose end nobody counts."""


# MERGED regress_gate.bench.load.meter: The load client as what measures the trials of an experiment. Not for what
# the client does.


@dataclass(frozen=True, slots=True)
class OwnClientMeter:
    limits: LoadLimits = DEFAULT_LIMITS
    allow_remote: bool = False

    def __call__(
        self,
        url: str,
        model: str,
        workload: LoadWorkload,
        *,
        scenario: str,
        ordinal: int,
        progress: Callable[[int, int], None],
    ) -> LoadResult:
        return measure_load(
            Target(url, model),
            workload,
            scenario=scenario,
            ordinal=ordinal,
            limits=self.limits,
            allow_remote=self.allow_remote,
            progress=progress,
        )
