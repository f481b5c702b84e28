"""From the records of a pass to a trial, by the same definitions and the same code as imported files.

Not for sending requests, and not for reading files.
"""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any

import numpy as np
import orjson

from regress_gate.bench.load import CLIENT_VERSION
from regress_gate.bench.load.client_guards import ClientLoad, Guards, check_client
from regress_gate.bench.load.dataset import read_texts
from regress_gate.bench.load.load_errors import RequestFailure, RequestFailureKind
from regress_gate.bench.load.load_workload import Arrival, LoadWorkload, RequestSlo, ServingApi
from regress_gate.bench.load.pass_requests import may_repeat_prompts
from regress_gate.bench.load.sending import RequestRecord
from regress_gate.measurement.request_statistics import RequestStatistics, compute_request_statistics, pass_metrics
from regress_gate.measurement.totals import LoadTotals
from regress_gate.model.run import Trial, TrialSource
from regress_gate.model.samples import Floats, Samples
from regress_gate.text import plural

FORMAT = "regress-gate"
TOOL = "regress-gate"


@dataclass(frozen=True, slots=True)
class FailureCount:
    kind: RequestFailureKind
    text: str
    """Of the first failure of this kind."""
    count: int


@dataclass(frozen=True, slots=True)
class LoadResult:
    """The result of one pass of a workload: the trial, and what limits it."""

    trial: Trial
    guards: Guards
    failures: tuple[FailureCount, ...]
    """By kind, the most frequent first."""
    notes: tuple[str, ...]
    content: bytes
    """The measured content as canonical JSON (sorted keys, UTF-8), whose SHA-256 the trial's source carries."""
    together: tuple["LoadResult", ...] = ()
    """Of the workloads that were sent at the same time."""

    @property
    def too_long(self) -> bool:
        """Whether the trial's own deadline stopped requests; the server is not at fault then."""
        ours = (RequestFailureKind.CUT_SHORT, RequestFailureKind.UNSENT)
        return any(failure.kind in ours for failure in self.failures)

    @property
    def why_void(self) -> str | None:
        """Why the trial must not be used (it measured the client, or the trial's own limit); None if it may be used."""
        if self.too_long:
            return "it takes longer than the tool allows for a trial: send fewer requests"
        return self.guards.client_limited


@dataclass(frozen=True, slots=True)
class WorkloadPass:
    """One finished pass of a workload, with the records of all its requests."""

    workload: LoadWorkload
    scenario: str
    ordinal: int
    model: str
    url: str
    started: datetime
    begun: float
    """When the first request was due (time.monotonic)."""
    records: Sequence[RequestRecord]
    warmup_failed: int
    load: ClientLoad
    prompts_sha256: str | None = None
    """Of recorded prompts and the answer lengths asked for; None if prompts are generated."""
    together: tuple[str, ...] = ()
    """The scenarios that were sent at the same time."""


def make_result(done: WorkloadPass) -> LoadResult:
    """The trial of a pass with at least one record. Raises RefusalError for times that no request can have."""
    records, chunks_counted = _with_token_counts(done)
    good = [record for record in records if record.failure is None]
    failed = len(records) - len(good)
    duration = max(record.ended for record in records) - done.begun
    samples, latency = _arrays(records)
    metrics, notes = _metrics(compute_request_statistics(samples, latency), good, duration, done.workload)
    metrics["failed_requests"] = failed / len(records)
    metrics |= _turn_metrics(done.workload, good)
    notes += _notes(done, good, chunks_counted)
    lateness = [record.sent - record.due for record in records] if done.workload.is_open_loop else []
    first = metrics.get("ttft_median" if done.workload.api.streamed else "e2el_median")
    guards = check_client(done.load, lateness, first, metrics.get("tpot_median"))
    described = _described(done, good, chunks_counted)
    content = _content(done, records, samples, latency, duration, described, guards)
    source = TrialSource(
        sha256=hashlib.sha256(content).hexdigest(),
        position=0,
        path=done.url,
        format=FORMAT,
        imported_at=done.started,
        tool=TOOL,
        client_version=CLIENT_VERSION,
    )
    trial = Trial(
        scenario=done.scenario,
        ordinal=done.ordinal,
        completed=len(good),
        failed=failed,
        duration=duration,
        metrics=metrics,
        workload=described,
        source=source,
        started=done.started,
        samples=samples,
    )
    return LoadResult(trial, guards, _count_failures(records), tuple(notes), content)


def _with_token_counts(done: WorkloadPass) -> tuple[list[RequestRecord], bool]:
    """Records whose successes all have token counts, and whether chunks were counted for that.

    If the server counts tokens for no answer, its chunks are counted; that needs streaming and generated prompts of one
    length. If only some answers lack a count, these have failed.
    """
    good = [record for record in done.records if record.failure is None]
    countable = done.workload.api.streamed and done.workload.input_len > 0 and done.workload.images is None
    chunks_counted = countable and bool(good) and all(record.output_tokens is None for record in good)
    no_usage = RequestFailure(RequestFailureKind.NO_USAGE, "no token counts at the end of the answer")

    def complete(record: RequestRecord) -> RequestRecord:
        if record.failure is not None:
            return record
        if chunks_counted:
            return replace(
                record, input_tokens=done.workload.prompt_tokens(record.turn), output_tokens=len(record.chunks)
            )
        if record.output_tokens is None or record.input_tokens is None:
            return replace(record, failure=no_usage)
        return record

    return [complete(record) for record in done.records], chunks_counted


def _arrays(records: Sequence[RequestRecord]) -> tuple[Samples, Floats]:
    """The samples, and each request's latency (s). A failed request keeps its place and has zeros.

    The first token of an answer in one piece is its end, and it has no gaps; no metric is made of either.
    """
    good = [record if record.failure is None else None for record in records]
    gaps = [np.zeros(0) if record is None else np.diff(np.array(record.chunks)) for record in good]
    sent = np.array([record.sent for record in records])
    samples = Samples(
        ttft=np.array([0.0 if record is None else record.ttft for record in good]),
        itl=np.concatenate(gaps),
        itl_start=np.concatenate(([0], np.cumsum([len(own) for own in gaps]))),
        input_tokens=np.array([0 if record is None else record.input_tokens or 0 for record in good]),
        output_tokens=np.array([0 if record is None else record.output_tokens or 0 for record in good]),
        ok=np.array([record is not None for record in good]),
        start=sent - sent.min(),
    )
    return samples, np.array([0.0 if record is None else record.e2el for record in good])


def _metrics(
    statistics: RequestStatistics, good: Sequence[RequestRecord], duration: float, workload: LoadWorkload
) -> tuple[dict[str, float], list[str]]:
    if not good:
        return {}, []
    slo = workload.slo
    totals = LoadTotals.from_counts(
        completed=len(good),
        duration=duration,
        input_tokens=sum(record.input_tokens or 0 for record in good),
        output_tokens=sum(record.output_tokens or 0 for record in good),
        max_concurrency=None,  # latency counts from the schedule, so Little's law does not hold for the client's limit
        goodput=None if slo is None else sum(_meets(record, slo) for record in good) / duration,
        is_streamed=workload.api.streamed,
    )
    return pass_metrics(statistics, totals, is_streamed=workload.api.streamed)


def _turn_metrics(workload: LoadWorkload, good: Sequence[RequestRecord]) -> dict[str, float]:
    """The time to first token of first turns and of later ones, which a prefix cache makes shorter."""
    if workload.conversation is None:
        return {}
    kinds = {
        "ttft_first_turn": [record.ttft for record in good if record.turn == 0],
        "ttft_later_turns": [record.ttft for record in good if record.turn > 0],
    }
    return {
        f"{family}_{name}": float(statistic(values))
        for family, values in kinds.items()
        if values
        for name, statistic in (("mean", np.mean), ("median", np.median))
    }


def _meets(record: RequestRecord, slo: RequestSlo) -> bool:
    more = (record.output_tokens or 0) - 1
    tpot = (record.e2el - record.ttft) / more if more > 0 else 0.0
    reached = ((record.ttft, slo.ttft), (tpot, slo.tpot), (record.e2el, slo.e2el))
    return all(limit is None or value <= limit for value, limit in reached)


def _notes(done: WorkloadPass, good: Sequence[RequestRecord], chunks_counted: bool) -> list[str]:
    notes = []
    if chunks_counted:
        notes.append("the server sends no token counts: chunks were counted, which may hold several tokens each")
    only_server_counts = done.workload.api is ServingApi.RERANK or done.workload.images is not None
    if done.workload.input_len and not only_server_counts:
        pairs = {
            (record.input_tokens, requested)
            for record in good
            if record.input_tokens not in (None, requested := done.workload.prompt_tokens(record.turn))
        }
        if pairs:
            counted, requested = min(pairs, key=str)
            notes.append(f"the server counts {plural(counted or 0, 'input token')} where {requested} were sent")
    if len(done.records) < done.workload.num_requests:
        sent = f"{len(done.records)} of {plural(done.workload.num_requests, 'request')}"
        notes.append(f"{sent} sent while all scenarios of the mix were sending")
    dataset = done.workload.dataset
    texts = None if dataset is None else read_texts(dataset)
    if dataset is not None and texts is not None and may_repeat_prompts(dataset, texts, done.workload, done.ordinal):
        held = plural(len(texts.prompts), "prompt")
        notes.append(
            f"{dataset.file.name} holds {held}: earlier trials may have sent the same, which a cache remembers"
        )
    trace = done.workload.trace
    if trace is not None and trace.has_texts and done.ordinal > 1:
        notes.append("earlier trials sent the same texts of the trace, which a cache remembers")
    if done.warmup_failed:
        notes.append(f"{done.warmup_failed} of {plural(done.workload.warmup_requests, 'warm-up request')} failed")
    return notes


def described_workload(workload: LoadWorkload, model: str) -> dict[str, Any]:
    """What every client is asked to send, in the words of imported trials and then in its own."""
    trace = workload.trace
    return {
        "model": model,
        "request_rate": workload.request_rate if trace is None else trace.mean_rate,
        "max_concurrency": workload.concurrency,
        "num_prompts": workload.num_requests,
        **_sent(workload),
        "seed": workload.seed,
        "warmup_requests": workload.warmup_requests,
    }


def _sent(workload: LoadWorkload) -> dict[str, Any]:
    if workload.trace is not None:
        return {"dataset": "trace", "trace_sha256": workload.trace.sha256}
    if workload.dataset is None:
        lengths = {name: getattr(workload, name) for name in ("input_len", "output_len", "prefix_len")}
        return {
            "dataset": "random",
            **lengths,
            **({} if workload.conversation is None else asdict(workload.conversation)),
        }
    named = {"dataset": workload.dataset.format.value, "dataset_sha256": workload.dataset.sha256}
    return {**named, "output_len": workload.output_len} if workload.output_len else named


def _described(done: WorkloadPass, good: Sequence[RequestRecord], chunks_counted: bool) -> dict[str, Any]:
    workload = done.workload
    described = described_workload(workload, done.model)
    if workload.api is not ServingApi.COMPLETIONS:
        described["api"] = workload.api.value
    if workload.images is not None:
        described["images"] = workload.images.model_dump()
    if workload.documents:
        described["documents"] = workload.documents
    if not workload.ignore_eos:
        described["ignore_eos"] = False
    if workload.extra_body:
        described["extra_body"] = dict(workload.extra_body)
    if workload.lora_adapters:
        described["lora_adapters"] = list(workload.lora_adapters)
    if workload.trace is not None:
        described["arrival"] = "trace"
    elif workload.request_rate is not None:
        described["arrival"] = workload.arrival.value
        if workload.arrival is Arrival.GAMMA:
            described["burstiness"] = workload.burstiness
        if workload.arrival is Arrival.ON_OFF:
            described["phases"] = list(workload.phases)
    if done.together:
        described["together"] = ", ".join(done.together)
    if done.prompts_sha256 is not None:
        described["prompts_sha256"] = done.prompts_sha256
    if workload.slo is not None:
        described["slo"] = {name: value for name, value in asdict(workload.slo).items() if value is not None}
    if good:
        described["mean_input_tokens"] = sum(record.input_tokens or 0 for record in good) / len(good)
        described["mean_output_tokens"] = sum(record.output_tokens or 0 for record in good) / len(good)
    if chunks_counted:
        described["tokens_counted_by"] = "chunks"
    return described


def _count_failures(records: Sequence[RequestRecord]) -> tuple[FailureCount, ...]:
    failures = [record.failure for record in records if record.failure is not None]
    texts = {failure.kind: failure.text for failure in reversed(failures)}
    counts = Counter(failure.kind for failure in failures)
    return tuple(FailureCount(kind, texts[kind], count) for kind, count in counts.most_common())


def _content(
    done: WorkloadPass,
    records: Sequence[RequestRecord],
    samples: Samples,
    latency: Floats,
    duration: float,
    described: Mapping[str, Any],
    guards: Guards,
) -> bytes:
    """The measured content, with the array names of vLLM's client.

    Times are in seconds, moments from when the first request was due.
    """
    begun = done.begun
    gaps = np.split(samples.itl, samples.itl_start[1:-1])
    return orjson.dumps(
        {
            "ttfts": samples.ttft.tolist(),
            "itls": [own.tolist() for own in gaps],
            "latencies": latency.tolist(),
            "input_lens": samples.input_tokens.tolist(),
            "output_lens": samples.output_tokens.tolist(),
            "errors": ["" if record.failure is None else str(record.failure.text) for record in records],
            "format": FORMAT,
            "client_version": CLIENT_VERSION,
            "scenario": done.scenario,
            "ordinal": done.ordinal,
            "started": done.started,
            "duration": duration,
            "workload": described,
            "guards": asdict(guards),
            "warmup_failed": done.warmup_failed,
            "error_kinds": ["" if record.failure is None else record.failure.kind for record in records],
            "start_times": [record.sent - begun for record in records],
            "scheduled_times": [record.scheduled - begun for record in records],
            "end_times": [record.ended - begun for record in records],
        },
        option=orjson.OPT_SORT_KEYS,
    )
