"""Lifecycle reports of inference-perf, as JSON or YAML; all times are in seconds.

Each stage is a result with its requested load. A sweep chooses new rates in every run, so stages are identified by
their rate and never by their number. Model, data and server come from config.yaml and the server's manifests beside the
reports; a missing or unreadable file states nothing.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from regress_gate.ingest import fields, parsing
from regress_gate.ingest.content import Content
from regress_gate.ingest.fields import length_facts
from regress_gate.ingest.formats.server_manifest import server_of
from regress_gate.ingest.interface import (
    Certainty,
    Context,
    FileOutcome,
    Generation,
    Reading,
    UnusedResult,
    read_documents,
)
from regress_gate.measurement.plausibility import RefusalError, Summary, checked_metrics
from regress_gate.text import excerpt, plural

CONFIG, MANIFESTS = "config.yaml", ("manifests.yaml", "manifest.yaml")
_MAX_DOCUMENTS = 100
_MAX_TEXT = 1024 * 1024
_SHARED_PREFIX = {
    "groups": "num_groups",
    "prompts_per_group": "num_prompts_per_group",
    "prefix_len": "system_prompt_len",
    "input_len": "question_len",
    "output_len": "output_len",
}
"""Facts of prompts with a shared prefix, by the key in the configuration."""


@dataclass(frozen=True, slots=True)
class Facts:
    workload: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def beside_facts(context: Context, stage: int | None) -> Facts:
    """What the files beside a report state about the run and the stage. Raises nothing."""
    notes: list[str] = []
    try:
        workload = _workload(_config(context), stage)
    except RefusalError as refusal:
        workload = {}
        notes.append(f"{CONFIG} beside it is not used: {refusal}")
    try:
        server = server_of([document for name in MANIFESTS for document in _documents(context.beside(name))])
    except RefusalError as refusal:
        server = None
        notes.append(f"the manifests beside it are not used: {refusal}")
    if server is None:
        return Facts(workload, notes=tuple(notes))
    if server.model is not None:
        workload.setdefault("model", server.model)
    if server.arguments:
        workload["server"] = server.name
        notes.append(f"server {server.name} is {excerpt(' '.join(server.arguments))}")
    return Facts(workload, server.metadata, tuple(notes))


def stages_of(context: Context) -> int | None:
    """Number of stages in the configuration; None if not stated, as with a sweep."""
    try:
        load = fields.obj(_config(context), "load")
        return None if load.get("sweep") else len(fields.items(load, "stages")) or None
    except RefusalError:
        return None


def _config(context: Context) -> Mapping[str, Any]:
    documents = list(_documents(context.beside(CONFIG)))
    return documents[0] if len(documents) == 1 else {}


def _documents(content: Content | None) -> Iterator[Mapping[str, Any]]:
    """The objects of a YAML stream. Raises RefusalError if one cannot be read."""
    if content is None or content.text is None:
        return
    if len(content.text) > _MAX_TEXT:
        raise RefusalError(f"{content.name} is too long")
    for part in re.split(r"^---[ \t]*$", content.text, maxsplit=_MAX_DOCUMENTS, flags=re.MULTILINE):
        data = parsing.parse_yaml_text(part, content.name)
        if isinstance(data, dict):
            yield data


def _workload(config: Mapping[str, Any], stage: int | None) -> dict[str, Any]:
    workload: dict[str, Any] = {}
    if model := fields.text(fields.obj(config, "server"), "model_name"):
        workload["model"] = excerpt(model)
    data, load = fields.obj(config, "data"), fields.obj(config, "load")
    if dataset := fields.text(data, "type"):
        workload["dataset"] = excerpt(dataset, 40)
    for name, key in (("input_len", "input_distribution"), ("output_len", "output_distribution")):
        length = fields.obj(data, key)
        workload |= length_facts(name, fields.number(length, "mean"), fields.number(length, "std_dev"))
    if dataset == "shared_prefix":
        shared = fields.obj(data, "shared_prefix")
        workload |= {name: value for name, key in _SHARED_PREFIX.items() if type(value := shared.get(key)) is int}
    kind = fields.text(load, "type")
    if kind == "poisson":
        workload["burstiness"] = 1.0
    elif kind == "constant":
        workload["arrival"] = "constant"
    stages = fields.items(load, "stages")
    if stage is not None and stage < len(stages) and isinstance(stage_load := stages[stage], dict):
        if kind == "concurrent" and (concurrency := fields.count(stage_load, "concurrency_level")):
            workload |= {"request_rate": None, "max_concurrency": concurrency}
        elif kind != "concurrent" and (rate := fields.number(stage_load, "rate")) is not None and rate > 0:
            workload["request_rate"] = rate
    return workload


TOKENS, CHUNKS = "inference-perf", "inference-perf-chunks"
_KEYS = frozenset(("load_summary", "successes", "failures"))
_YAML = re.compile(r"^load_summary:", re.MULTILINE)
_YAML_TOO = re.compile(r"^successes:", re.MULTILINE)
_HEAD = 200_000
_MAX_YAML = 1024 * 1024
_NAME = re.compile(
    r"(?P<prefix>.*?)(?:stage_(?P<stage>\d{1,6})|summary)_(?:lifecycle|prometheus)_metrics\.(?P<kind>\w+)"
)
_FAMILIES = {
    "ttft": "time_to_first_token",
    "tpot": "time_per_output_token",
    "token_gap": "inter_token_latency",
    "e2el": "request_latency",
    "normalized_latency": "normalized_time_per_output_token",
}
_LATE = 0.1
"""Mean schedule delay in seconds from which the client was too slow."""


class InferencePerf:
    name = "inference-perf"
    tool = "inference-perf"
    bare_constants = False
    generations = (
        Generation(
            "stages, to April 2026",
            "`load_summary`, `successes`, `failures`",
            "ttft, token_gap, e2el, normalized_latency, rates, failures",
            "gaps and time per output token are those of chunks, so that the median gap may be microseconds; the "
            "time is kept as unclear_tpot; model, version and server come from config.yaml and manifests beside it",
        ),
        Generation(
            "stages, later",
            "`token_count_mismatches`",
            "the same, and tpot",
            "tokens of one chunk have a gap of 0; a large schedule_delay is noted: the client was late, not the server",
        ),
        Generation("summary", "no `requested_rate`", "as a stage, where the run had one", "refused if it pools stages"),
        Generation(
            "prometheus and per-request reports",
            "`load_summary` that is empty; a list with `start_time` and `info`",
            "nothing",
            "the server's own metrics, and requests of all stages in one list: skipped beside the stages, else refused",
        ),
    )

    def recognises(self, content: Content) -> Certainty:
        if content.text is not None:
            head = content.text[:_HEAD]
            return Certainty.SURE if _YAML.search(head) and _YAML_TOO.search(head) else Certainty.NO
        ours = any(_is_report(document) or _is_requests(document) for document in content.documents)
        return Certainty.SURE if ours else Certainty.NO

    def read(self, content: Content, context: Context) -> Sequence[Reading | UnusedResult]:
        documents = [_yaml(content.text, content.name)] if content.text is not None else content.each()
        return read_documents(documents, lambda document, position: _result(document, position, content.name, context))


def _is_report(document: object) -> bool:
    return isinstance(document, dict) and document.keys() >= _KEYS


def _is_requests(document: object) -> bool:
    first = document[0] if fields.is_list(document) and document else None
    return isinstance(first, dict) and {"start_time", "end_time", "info"} <= first.keys()


def _yaml(text: str, name: str) -> Any:
    if len(text) > _MAX_YAML:
        raise RefusalError("too long for a report; a lifecycle report has some kilobytes")
    return parsing.parse_yaml_text(text, name)


def _result(document: object, position: int, name: str, context: Context) -> Reading | UnusedResult:
    if _is_requests(document):
        return _companion("the requests of all stages in one list", position, name, context)
    if not isinstance(document, dict) or not _is_report(document):
        raise RefusalError("not a lifecycle report of inference-perf")
    load = fields.obj(document, "load_summary")
    if not load or "latency" not in (successes := fields.obj(document, "successes")):
        return _companion("the server's own metrics, which are estimates from histograms", position, name, context)
    stage = _NAME.fullmatch(name)
    number = int(stage["stage"]) if stage and stage["stage"] else None
    if "requested_rate" not in load and number is None:
        if _has_stages(name, context):
            return UnusedResult(position, FileOutcome.SKIPPED, "a pool of all stages, which lie beside it")
        if stages_of(context) != 1:
            raise RefusalError("a pool of all stages, whose loads differ; import the stage_N_lifecycle_metrics files")
        number = 0
    return _reading(document, load, successes, number, position, context)


def _companion(what: str, position: int, name: str, context: Context) -> UnusedResult:
    if _has_stages(name, context):
        return UnusedResult(position, FileOutcome.SKIPPED, f"{what}; the stages beside it are read")
    raise RefusalError(f"{what}; import the stage_N_lifecycle_metrics files")


def _has_stages(name: str, context: Context) -> bool:
    prefix = re.sub(r"(?:stage_\d+|summary|per_request)_\w+\.\w+$", "", name)
    names = (f"{prefix}stage_{number}_lifecycle_metrics.{kind}" for number in (0, 1) for kind in ("json", "yaml"))
    return any(other != name and context.is_beside(other) for other in names)


def _reading(
    document: Mapping[str, Any],
    load: Mapping[str, Any],
    successes: Mapping[str, Any],
    stage: int | None,
    position: int,
    context: Context,
) -> Reading:
    facts = beside_facts(context, stage)
    workload, notes = dict(facts.workload), _notes(load)
    if retried := fields.count(fields.obj(document, "retries"), "requests_retried"):
        notes.append(f"{plural(retried, 'request')} sent more than once: their latencies hold the failed attempts")
    _add_load(workload, load, notes)
    completed, failed = fields.count(successes, "count"), fields.count(fields.obj(document, "failures"), "count")
    throughput = fields.obj(successes, "throughput")
    rates = {
        name: rate
        for name, key in (
            ("request_throughput", "requests_per_sec"),
            ("output_throughput", "output_tokens_per_sec"),
            ("total_throughput", "total_tokens_per_sec"),
        )
        if (rate := fields.number(throughput, key)) is not None
    }
    if (good := fields.number(fields.obj(successes, "goodput_metrics"), "request_goodput")) is not None:
        rates["goodput"] = good
    by_tokens = "token_count_mismatches" in successes
    summary = Summary(
        latencies=_latencies(fields.obj(successes, "latency"), by_tokens, notes),
        rates=rates,
        completed=completed,
        failed=failed,
        duration=_duration(document, completed, rates.get("request_throughput")),
        input_tokens=_total(successes, ("prompt_tokens", "prompt_len"), completed),
        output_tokens=_total(successes, ("output_len",), completed),
    )
    metrics, more = checked_metrics(replace(summary, max_concurrency=workload.get("max_concurrency")))
    for name, total in (("mean_input_tokens", summary.input_tokens), ("mean_output_tokens", summary.output_tokens)):
        if total and completed:
            workload[name] = total / completed
    return Reading(
        position=position,
        completed=completed,
        failed=failed or 0,
        duration=summary.duration,
        metrics=metrics,
        workload=workload,
        definitions=TOKENS if by_tokens else CHUNKS,
        metadata=facts.metadata,
        notes=(*notes, *facts.notes, *more),
    )


def _latencies(latency: Mapping[str, Any], by_tokens: bool, notes: list[str]) -> dict[str, dict[str, float]]:
    latencies: dict[str, dict[str, float]] = {}
    for family, key in _FAMILIES.items():
        stated = fields.obj(latency, key)
        name = "unclear_tpot" if family == "tpot" and not by_tokens else family
        values = {
            statistic: value
            for statistic in ("mean", "median", "p90", "p95", "p99")
            if (value := fields.number({f"{key} {statistic}": stated.get(statistic)}, f"{key} {statistic}")) is not None
        }
        if values:
            latencies[name] = values
    if "unclear_tpot" in latencies:
        notes.append("its time per output token is one of chunks, and is kept as unclear_tpot")
    return latencies


def _add_load(workload: dict[str, Any], load: Mapping[str, Any], notes: list[str]) -> None:
    """The requested load. A stage of fixed concurrency also states a rate, which means nothing."""
    concurrency = fields.count(load, "concurrency")
    if concurrency is not None:
        workload |= {"request_rate": None, "max_concurrency": concurrency}
    elif "max_concurrency" not in workload:
        rate = fields.number(load, "requested_rate")
        if rate is not None and rate > 0:
            workload["request_rate"] = rate
        elif "request_rate" not in workload:
            notes.append("does not say which rate was asked for: give --scenario")
    count = fields.count(load, "count")
    if count is not None and workload.get("burstiness") is None:
        workload.setdefault("num_prompts", count)


def _notes(load: Mapping[str, Any]) -> list[str]:
    delay = fields.number(fields.obj(load, "schedule_delay"), "mean")
    if delay is None or delay < _LATE:
        return []
    wanted, got = fields.number(load, "requested_rate"), fields.number(load, "achieved_rate")
    rates = f" ({got:.4g} of {wanted:.4g} requests/s)" if wanted and got else ""
    return [f"requests were sent {delay:.3g} s late on average{rates}: the load was not the one that was asked for"]


def _duration(document: Mapping[str, Any], completed: int | None, rate: float | None) -> float | None:
    """Seconds; if not stated, the requests divided by their rate, which the tool derives from it."""
    stated = fields.number(document, "benchmark_time_seconds")
    if stated is not None:
        return stated
    return completed / rate if completed and rate and rate > 0 else None


def _total(successes: Mapping[str, Any], keys: tuple[str, ...], completed: int | None) -> float | None:
    for key in keys:
        if completed is not None and (mean := fields.number(fields.obj(successes, key), "mean")) is not None:
            return mean * completed
    return None
