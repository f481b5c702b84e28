"""From the records of a pass to a trial: the same definitions and the same code as for imported files."""

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
from regress_gate.bench.load.load_workload import LoadWorkload, RequestSlo, ServingApi
from regress_gate.bench.load.pass_requests import may_repeat_prompts
from regress_gate.bench.load.sending import RequestRecord
from regress_gate.ingest.formats.vllm_serve_arrays import read_request_arrays
from regress_gate.measurement import plausibility
from regress_gate.measurement.plausibility import LoadTotals
from regress_gate.measurement.request_statistics import RequestStatistics
from regress_gate.model.metric import LATENCIES, STATISTICS
from regress_gate.model.run import Trial, TrialSource
from regress_gate.text import plural

FORMAT = "regress-gate"
TOOL = "regress-gate"


@dataclass(frozen=True, slots=True)
class FailureCount:
    kind: RequestFailureKind
    text: str
    """Of the first of its kind."""
    count: int


@dataclass(frozen=True, slots=True)
class LoadResult:
    """One pass of a workload: the trial, and what a reader of it should know."""

    trial: Trial
    guards: Guards
    failures: tuple[FailureCount, ...]
    """By kind, the most frequent first."""
    notes: tuple[str, ...]
    content: bytes
    """The measured content as canonical JSON (sorted keys, UTF-8), whose SHA-256 the trial's source carries."""

    @property
    def too_long(self) -> bool:
        """Whether the trial's deadline kept requests from being answered: that is our doing."""
        return any(each.kind in (RequestFailureKind.CUT_SHORT, RequestFailureKind.UNSENT) for each in self.failures)

    @property
    def why_void(self) -> str | None:
        """Why the trial must not be used: it measured the client, or only its own limit. None: it may be."""
        if self.too_long:
            return "it takes longer than the tool allows for a trial: send fewer requests"
        return self.guards.client_limited


@dataclass(frozen=True, slots=True)
class WorkloadPass:
    """Everything that one pass of a workload left behind."""

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
    """Of recorded prompts and the lengths that were asked of their answers; None where prompts are generated."""


def make_result(measured: WorkloadPass) -> LoadResult:
    records, counted = _with_token_counts(measured)
    good = [record for record in records if record.failure is None]
    failed = len(records) - len(good)
    duration = max(record.ended for record in records) - measured.begun
    arrays = _arrays(records)
    requests = read_request_arrays(arrays, len(good))
    metrics, notes = _metrics(requests, good, duration, measured.workload)
    metrics["failed_requests"] = failed / len(records)
    notes += _notes(measured, good, counted)
    lateness = [record.sent - record.due for record in records] if measured.workload.request_rate else []
    first = metrics.get("ttft_median" if measured.workload.api.streamed else "e2el_median")
    guards = check_client(measured.load, lateness, first, metrics.get("tpot_median"))
    described = _described(measured, good, counted)
    content = _content(measured, records, arrays, duration, described, guards)
    source = TrialSource(
        sha256=hashlib.sha256(content).hexdigest(),
        position=0,
        path=measured.url,
        format=FORMAT,
        imported_at=measured.started,
        tool=TOOL,
        client_version=CLIENT_VERSION,
    )
    trial = Trial(
        scenario=measured.scenario,
        ordinal=measured.ordinal,
        completed=len(good),
        failed=failed,
        duration=duration,
        metrics=metrics,
        workload=described,
        source=source,
        started=measured.started,
        samples=requests.samples,
    )
    return LoadResult(trial, guards, _failures(records), tuple(notes), content)


def _with_token_counts(measured: WorkloadPass) -> tuple[list[RequestRecord], bool]:
    """Records whose successes all have token counts, and whether these had to be counted here.

    A server that counts for nobody is taken by its chunks, where it streams and the prompts' lengths are ours; one that
    leaves single answers without is at fault there.
    """
    good = [record for record in measured.records if record.failure is None]
    countable = measured.workload.api.streamed and measured.workload.dataset is None
    counted = countable and bool(good) and all(record.output_tokens is None for record in good)
    no_usage = RequestFailure(RequestFailureKind.NO_USAGE, "no token counts at the end of the answer")

    def complete(record: RequestRecord) -> RequestRecord:
        if record.failure is not None:
            return record
        if counted:
            return replace(record, input_tokens=measured.workload.input_len, output_tokens=len(record.chunks))
        if record.output_tokens is None or record.input_tokens is None:
            return replace(record, failure=no_usage)
        return record

    return [complete(record) for record in measured.records], counted


def _arrays(records: Sequence[RequestRecord]) -> dict[str, list[Any]]:
    """The per-request arrays in the words of vLLM's client; a failed request keeps its place and has no times.

    An answer in one piece has its whole latency for a TTFT and no gaps, and no metric is made of either.
    """
    ok = [record.failure is None for record in records]
    return {
        "ttfts": [record.ttft if good else 0.0 for record, good in zip(records, ok, strict=True)],
        "itls": [
            np.diff(np.array(record.chunks)).tolist() if good else [] for record, good in zip(records, ok, strict=True)
        ],
        "latencies": [record.e2el if good else 0.0 for record, good in zip(records, ok, strict=True)],
        "input_lens": [(record.input_tokens or 0) if good else 0 for record, good in zip(records, ok, strict=True)],
        "output_lens": [(record.output_tokens or 0) if good else 0 for record, good in zip(records, ok, strict=True)],
        "errors": ["" if record.failure is None else str(record.failure.text) for record in records],
        "start_times": [record.sent for record in records],
    }


def _metrics(
    requests: RequestStatistics, good: Sequence[RequestRecord], duration: float, workload: LoadWorkload
) -> tuple[dict[str, float], list[str]]:
    if not good:
        return {}, []
    output_tokens = sum(record.output_tokens or 0 for record in good)
    input_tokens = sum(record.input_tokens or 0 for record in good)
    slo = workload.slo
    scalars = LoadTotals(
        completed=len(good),
        num_prompts=None,
        duration=duration,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        max_concurrency=None,  # latency counts from the schedule, so Little's law holds for no limit of the client
        request_throughput=len(good) / duration,
        output_throughput=output_tokens / duration if workload.api.streamed else None,
        total_throughput=(input_tokens + output_tokens) / duration,
        goodput=None if slo is None else sum(_meets(record, slo) for record in good) / duration,
        rounding=0.0,
    )
    latencies: dict[str, dict[str, float]] = {}
    for family in LATENCIES if workload.api.streamed else ("e2el",):
        values = {name: requests.statistic(family, _percent(name)) for name in STATISTICS}
        if found := {name: value for name, value in values.items() if value is not None}:
            latencies[family] = found
    notes = plausibility.check_latencies(latencies, scalars)
    metrics = {f"{family}_{name}": value for family, found in latencies.items() for name, value in found.items()}
    return metrics | plausibility.throughput_metrics(scalars), notes


def _percent(statistic: str) -> float | None:
    if statistic in ("mean", "median"):
        return None if statistic == "mean" else 50.0
    return float(statistic.removeprefix("p"))


def _meets(record: RequestRecord, slo: RequestSlo) -> bool:
    more = (record.output_tokens or 0) - 1
    tpot = (record.e2el - record.ttft) / more if more > 0 else 0.0
    reached = ((record.ttft, slo.ttft), (tpot, slo.tpot), (record.e2el, slo.e2el))
    return all(limit is None or value <= limit for value, limit in reached)


def _notes(measured: WorkloadPass, good: Sequence[RequestRecord], counted: bool) -> list[str]:
    notes = []
    if counted:
        notes.append("the server sends no token counts: chunks were counted, which may hold several tokens each")
    asked = measured.workload.input_len
    other = sorted({record.input_tokens for record in good if record.input_tokens not in (None, asked)}, key=str)
    if other and asked and measured.workload.api is not ServingApi.RERANK:  # texts only the server can count
        notes.append(f"the server counts {plural(other[0], 'input token')} where {asked} were sent")
    dataset = measured.workload.dataset
    texts = None if dataset is None else read_texts(dataset)
    if (
        dataset is not None
        and texts is not None
        and may_repeat_prompts(dataset, texts, measured.workload, measured.ordinal)
    ):
        held = plural(len(texts.prompts), "prompt")
        notes.append(
            f"{dataset.file.name} holds {held}: earlier trials may have sent the same, which a cache remembers"
        )
    if measured.warmup_failed:
        notes.append(
            f"{measured.warmup_failed} of {plural(measured.workload.warmup_requests, 'warm-up request')} failed"
        )
    return notes


def described_workload(workload: LoadWorkload, model: str) -> dict[str, Any]:
    """What every client is asked to send, in the words of imported trials and then in its own."""
    return {
        "model": model,
        "request_rate": workload.request_rate,
        "max_concurrency": workload.concurrency,
        "num_prompts": workload.num_requests,
        **_sent(workload),
        "seed": workload.seed,
        "warmup_requests": workload.warmup_requests,
    }


def _sent(workload: LoadWorkload) -> dict[str, Any]:
    if workload.dataset is None:
        lengths = {name: getattr(workload, name) for name in ("input_len", "output_len", "prefix_len")}
        return {"dataset": "random", **lengths}
    named = {"dataset": workload.dataset.format.value, "dataset_sha256": workload.dataset.sha256}
    return {**named, "output_len": workload.output_len} if workload.output_len else named


def _described(measured: WorkloadPass, good: Sequence[RequestRecord], counted: bool) -> dict[str, Any]:
    workload = measured.workload
    described = described_workload(workload, measured.model)
    if not workload.api.streamed:
        described["api"] = workload.api.value
    if workload.documents:
        described["documents"] = workload.documents
    if not workload.ignore_eos:
        described["ignore_eos"] = False
    if workload.extra_body:
        described["extra_body"] = dict(workload.extra_body)
    if workload.lora_adapters:
        described["lora_adapters"] = list(workload.lora_adapters)
    if workload.request_rate is not None:
        described["arrival"] = workload.arrival.value
    if measured.prompts_sha256 is not None:
        described["prompts_sha256"] = measured.prompts_sha256
    if workload.slo is not None:
        described["slo"] = {name: value for name, value in asdict(workload.slo).items() if value is not None}
    if good:
        described["mean_input_tokens"] = sum(record.input_tokens or 0 for record in good) / len(good)
        described["mean_output_tokens"] = sum(record.output_tokens or 0 for record in good) / len(good)
    if counted:
        described["tokens_counted_by"] = "chunks"
    return described


def _failures(records: Sequence[RequestRecord]) -> tuple[FailureCount, ...]:
    failures = [record.failure for record in records if record.failure is not None]
    texts = {failure.kind: failure.text for failure in reversed(failures)}
    counts = Counter(failure.kind for failure in failures)
    return tuple(FailureCount(kind, texts[kind], count) for kind, count in counts.most_common())


def _content(
    measured: WorkloadPass,
    records: Sequence[RequestRecord],
    arrays: Mapping[str, list[Any]],
    duration: float,
    described: Mapping[str, Any],
    guards: Guards,
) -> bytes:
    """Times in seconds from the moment at which the first request was due."""
    begun = measured.begun
    return orjson.dumps(
        {
            **arrays,
            "format": FORMAT,
            "client_version": CLIENT_VERSION,
            "scenario": measured.scenario,
            "ordinal": measured.ordinal,
            "started": measured.started,
            "duration": duration,
            "workload": described,
            "guards": asdict(guards),
            "warmup_failed": measured.warmup_failed,
            "error_kinds": ["" if record.failure is None else record.failure.kind for record in records],
            "start_times": [record.sent - begun for record in records],
            "scheduled_times": [record.scheduled - begun for record in records],
            "end_times": [record.ended - begun for record in records],
        },
        option=orjson.OPT_SORT_KEYS,
    )
