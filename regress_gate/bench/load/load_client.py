"""Measure one workload on a running server: warm-up, guarded sending, result. Not for starting the server."""

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
"""Called with the finished and all measured requests."""


@dataclass(frozen=True, slots=True)
class LoadLimits:
    """Time limits in seconds."""

    request: float = 300.0
    """For one request, from its send to the end of its response. A longer one hangs."""
    trial: float = 3600.0
    """For the warm-up, and again for the measured requests. A longer trial is void."""


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
    begins: Callable[[], None] | None = None,
) -> LoadResult:
    """Send the workload to the server and measure; `ordinal` counts the passes of this scenario in its run from 1.
    `begins` is called between the warm-up and the measured requests.

    Failed requests are part of the result. Raises InputError for a target that may not be measured or recorded prompts
    that cannot be sent, and LoadError if no request reached a server or the server does not count tokens.
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
            begins=begins,
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
    begins: Callable[[], None] | None = None,
) -> LoadResult:
    """`measure_load` on the running loop. Other tasks on the loop disturb it, which the guards detect."""
    endpoint = resolve_target(target, allow_remote=allow_remote)
    transport = HttpTransport(endpoint, target.api_key, path=workload.api.path)
    chosen = await _choose_recorded(workload, scenario, ordinal, target, endpoint, limits)
    prepared = make_pass_requests(workload, scenario, ordinal, target.model, chosen)
    requests = prepared.measured
    try:
        warming = RequestSender(transport, limits.request, time.monotonic() + limits.trial, _do_nothing)
        warmed = await closed_loop(warming, prepared.warmup, workload.concurrency)
        _check_reached(warmed, target)
        if begins is not None:
            begins()
        finished = _progress_counter(progress, len(requests)) if progress is not None else _do_nothing
        sender = RequestSender(transport, limits.request, time.monotonic() + limits.trial, finished)
        started = datetime.now(UTC)
        with ClientWatch() as watch:
            if workload.is_open_loop:
                times = arrival_times(workload, scenario, ordinal)
                records = await open_loop(sender, requests, times, workload.concurrency)
            else:
                records = await closed_loop(sender, requests, workload.concurrency)
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
    """The recorded prompts of a pass; None for generated ones."""
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
    """Progress of the warm-up, which is not reported."""


@dataclass(frozen=True, slots=True)
class OwnClientMeter:
    """The `Meter` of an experiment that uses this client."""

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
        begins: Callable[[], None],
    ) -> LoadResult:
        return measure_load(
            Target(url, model),
            workload,
            scenario=scenario,
            ordinal=ordinal,
            limits=self.limits,
            allow_remote=self.allow_remote,
            progress=progress,
            begins=begins,
        )
