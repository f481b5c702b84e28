"""Measure one workload on a running server: warm-up, guarded sending, result. Not for starting the server."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from regress_gate.bench.load.chat_prompts import make_chat_texts, template_keys
from regress_gate.bench.load.client_guards import ClientWatch
from regress_gate.bench.load.dataset import read_texts
from regress_gate.bench.load.http_transport import Endpoint, HttpTransport, Target, resolve_target
from regress_gate.bench.load.load_errors import LoadError, RequestFailureKind
from regress_gate.bench.load.load_workload import LoadWorkload, ServingApi, arrival_times, think_times
from regress_gate.bench.load.pass_requests import ChosenPrompt, choose_prompts, make_pass_requests
from regress_gate.bench.load.result import LoadResult, WorkloadPass, make_result
from regress_gate.bench.load.sending import (
    Conversation,
    PreparedRequest,
    RequestRecord,
    RequestSender,
    SharedWindow,
    closed_loop,
    lone_requests,
    most_at_once,
    open_loop,
)
from regress_gate.bench.load.token_counting import TOKENIZE_PATH, TokenCounter
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
    Workloads that are sent together with it have the same ordinal, and their results are in its result.
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
    streams = [
        await _prepare(each, name, ordinal, target, endpoint, limits)
        for name, each in ((scenario, workload), *workload.together)
    ]
    try:
        for stream in streams:
            warming = RequestSender(stream.transport, limits.request, time.monotonic() + limits.trial, _do_nothing)
            stream.warmed = await closed_loop(warming, stream.warmup, stream.workload.concurrency)
            _check_reached(stream.warmed, target)
        if begins is not None:
            begins()
        requests = sum(each.num_requests for each in workload.mix)
        finished = _progress_counter(progress, requests) if progress is not None else _do_nothing
        deadline = time.monotonic() + limits.trial
        window = SharedWindow() if workload.together else None
        started = datetime.now(UTC)
        with ClientWatch() as watch:
            await asyncio.gather(
                *(
                    stream.send(RequestSender(stream.transport, limits.request, deadline, finished, window))
                    for stream in streams
                )
            )
            load = watch.load()
    finally:
        for stream in streams:
            await stream.transport.close()
    results = []
    for stream in streams:
        _check_reached(stream.records, target)
        done = WorkloadPass(
            workload=stream.workload,
            scenario=stream.scenario,
            ordinal=ordinal,
            model=target.model,
            url=target.url,
            started=started,
            begun=min(record.scheduled for record in stream.records),
            records=stream.records,
            warmup_failed=sum(record.failure is not None for record in stream.warmed),
            load=load,
            prompts_sha256=stream.prompts_sha256,
            together=tuple(other.scenario for other in streams if other is not stream),
        )
        results.append(make_result(done))
    return replace(results[0], together=tuple(results[1:]))


@dataclass(slots=True)
class _Stream:
    """One workload of a pass: what is sent, and what became of it."""

    workload: LoadWorkload
    scenario: str
    transport: HttpTransport
    warmup: Sequence[Conversation]
    measured: Sequence[Conversation]
    times: Sequence[float]
    """When each is due, for an open loop."""
    prompts_sha256: str | None
    warmed: Sequence[RequestRecord] = ()
    records: Sequence[RequestRecord] = ()

    async def send(self, sender: RequestSender) -> None:
        if self.workload.is_open_loop:
            await self.transport.open_ahead(most_at_once(self.times))
            records = await open_loop(sender, self.measured, self.times, self.workload.concurrency)
        else:
            records = await closed_loop(sender, self.measured, self.workload.concurrency)
        self.records = [record for record in records if not _has_failed_as(record, RequestFailureKind.NOT_NEEDED)]


async def _prepare(
    workload: LoadWorkload, scenario: str, ordinal: int, target: Target, endpoint: Endpoint, limits: LoadLimits
) -> _Stream:
    chosen = await _count_prompts(workload, scenario, ordinal, target, endpoint, limits)
    prepared = make_pass_requests(workload, scenario, ordinal, target.model, chosen)
    return _Stream(
        workload=workload,
        scenario=scenario,
        transport=HttpTransport(endpoint, target.api_key, path=workload.api.path),
        warmup=_conversations(workload, prepared.warmup, [0.0] * len(prepared.warmup)),
        measured=_conversations(workload, prepared.measured, think_times(workload, scenario, ordinal)),
        times=arrival_times(workload, scenario, ordinal) if workload.is_open_loop else (),
        prompts_sha256=prepared.prompts_sha256,
    )


async def _count_prompts(
    workload: LoadWorkload, scenario: str, ordinal: int, target: Target, endpoint: Endpoint, limits: LoadLimits
) -> list[ChosenPrompt] | None:
    """The prompts of a pass that only the server can count: recorded ones, and texts of a chat. None for others."""
    if workload.dataset is None and workload.api is not ServingApi.CHAT:
        return None
    transport = HttpTransport(endpoint, target.api_key, path=TOKENIZE_PATH)
    try:
        count = TokenCounter(transport, target, limits.request)
        if workload.dataset is None:
            in_template = replace(count, template=template_keys(workload))
            texts = await make_chat_texts(workload, scenario, ordinal, in_template)
            return [ChosenPrompt(text, workload.output_len) for text in texts]
        return await choose_prompts(workload.dataset, read_texts(workload.dataset), workload, scenario, ordinal, count)
    finally:
        await transport.close()


def _conversations(
    workload: LoadWorkload, requests: Sequence[PreparedRequest], thinking: Sequence[float]
) -> list[Conversation]:
    turns = workload.turns
    if turns == 1:
        return lone_requests(requests)
    paced = list(zip(requests, thinking, strict=True))
    return [paced[first : first + turns] for first in range(0, len(paced), turns)]


def _check_reached(records: Sequence[RequestRecord], target: Target) -> None:
    sent = [record for record in records if not _has_failed_as(record, RequestFailureKind.ABANDONED)]
    refused = [
        record.failure for record in sent if record.failure and record.failure.kind is RequestFailureKind.REFUSED
    ]
    if refused and len(refused) == len(sent):
        raise LoadError(
            f"{target.url}: no server answers ({refused[0].text}, {plural(len(records), 'request')}); "
            "see that it runs and that the port is right"
        )


def _has_failed_as(record: RequestRecord, kind: RequestFailureKind) -> bool:
    return record.failure is not None and record.failure.kind is kind


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
