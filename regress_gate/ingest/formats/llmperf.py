"""llmperf's `*_summary.json` and `*_individual_responses.json`; all times are in seconds.

The two files of one run are one result: they are read together, whichever is named, so both give the same numbers and
one of them is skipped. `version` in a summary is the date of its schema.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from regress_gate.ingest import fields
from regress_gate.ingest.content import Content
from regress_gate.ingest.fields import length_facts, time_from_unix
from regress_gate.ingest.identity import IDENTITY_KEYS
from regress_gate.ingest.interface import Certainty, Context, Generation, Reading, UnusedResult, read_documents
from regress_gate.measurement.plausibility import RefusalError, Summary, checked_metrics, mean_tokens
from regress_gate.text import excerpt, plural

if TYPE_CHECKING:
    from regress_gate.measurement.request_collector import RequestCollector

DEFINITIONS_KEY = "llmperf"
_SUMMARY, _RESPONSES = "_summary.json", "_individual_responses.json"
_FAMILIES = {"ttft": "ttft_s", "unclear_tpot": "inter_token_latency_s", "e2el": "end_to_end_latency_s"}
_STATISTICS = {
    "mean": "mean",
    "median": "quantiles_p50",
    "p90": "quantiles_p90",
    "p95": "quantiles_p95",
    "p99": "quantiles_p99",
}
_RESPONSE_KEYS = frozenset(("error_code", "ttft_s", "end_to_end_latency_s"))
_PERCENTS = {"median": 50, "p90": 90, "p95": 95, "p99": 99}


class LlmPerf:
    name = "llmperf"
    tool = "llmperf token_benchmark_ray.py"
    bare_constants = True
    generations = (
        Generation(
            "`*_summary.json`",
            "`results_ttft_s_mean`, `results_ttft_s_quantiles_p50`",
            "ttft, e2el, rates, failures",
            "`inter_token_latency_s` is a mean over a request whose count of tokens is not the server's: unclear_tpot; "
            "`version` is the date of the schema",
        ),
        Generation(
            "`*_individual_responses.json`",
            "a list with `error_code`, `ttft_s`",
            "the same and tpot, made from the requests; single requests",
            "without the summary beside it there are no rates, and no model; an answer without tokens counts as failed",
        ),
    )

    def recognises(self, content: Content) -> Certainty:
        ours = any(_is_summary(document) or _is_responses(document) for document in content.documents)
        return Certainty.SURE if ours else Certainty.NO

    def read(self, content: Content, context: Context) -> Sequence[Reading | UnusedResult]:
        return read_documents(
            content.each(), lambda document, position: _result(document, position, content.name, context)
        )


def _is_summary(document: object) -> bool:
    return isinstance(document, dict) and (
        "results_ttft_s_mean" in document or "results_ttft_s_quantiles_p50" in document
    )


def _is_responses(document: object) -> bool:
    first = document[0] if fields.is_list(document) and document else None
    return isinstance(first, dict) and first.keys() >= _RESPONSE_KEYS


def _result(document: object, position: int, name: str, context: Context) -> Reading:
    if fields.is_list(document) and _is_responses(document):
        beside = _beside(context, name, _RESPONSES, _SUMMARY)
        return _reading(beside if isinstance(beside, dict) and _is_summary(beside) else {}, document, position, context)
    if not isinstance(document, dict) or not _is_summary(document):
        raise RefusalError("not a result of llmperf, unlike others in the same file")
    beside = _beside(context, name, _SUMMARY, _RESPONSES)
    return _reading(document, beside if fields.is_list(beside) and _is_responses(beside) else [], position, context)


def _beside(context: Context, name: str, mine: str, other: str) -> Any:
    if not name.endswith(mine):
        return None
    content = context.beside(name.removesuffix(mine) + other)
    return content.documents[0] if content is not None and len(content.documents) == 1 else None


def _reading(summary: Mapping[str, Any], responses: Sequence[Any], position: int, context: Context) -> Reading:
    stated, notes = _latencies(summary), list[str]()
    totals, samples = _summary(summary, stated), None
    if responses:
        # With numpy, which statistics without requests do without.
        from regress_gate.measurement.request_collector import check_agreement

        collected, gaps, empty = _collect(responses)
        statistics = collected.statistics()
        latencies = collected.latencies(statistics)
        latencies.pop("itl", None)
        if gaps:
            latencies["unclear_tpot"] = _of(gaps)
        if empty:
            notes.append(f"{plural(empty, 'answer')} without tokens counted as failed")
        else:
            check_agreement(stated, latencies)
        totals = _summary_of(collected, latencies, totals.duration)
        samples = statistics.samples if context.with_samples else None
    workload = _workload(summary)
    metrics, more = checked_metrics(replace(totals, max_concurrency=workload.get("max_concurrency")))
    workload |= mean_tokens(totals)
    return Reading(
        position=position,
        completed=totals.completed,
        failed=totals.failed or 0,
        duration=totals.duration,
        metrics=metrics,
        workload=workload,
        definitions=DEFINITIONS_KEY,
        started=time_from_unix(fields.number(summary, "timestamp")),
        samples=samples,
        metadata=_metadata(summary),
        notes=(*notes, *more),
    )


def _latencies(summary: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    latencies: dict[str, dict[str, float]] = {}
    for family, key in _FAMILIES.items():
        for statistic, suffix in _STATISTICS.items():
            if (value := fields.number(summary, f"results_{key}_{suffix}")) is not None:
                latencies.setdefault(family, {})[statistic] = value
    return latencies


def _summary(summary: Mapping[str, Any], latencies: Mapping[str, Mapping[str, float]]) -> Summary:
    completed = fields.count(summary, "results_num_completed_requests")
    per_minute = fields.number(summary, "results_num_completed_requests_per_min")
    rate = None if per_minute is None else per_minute / 60
    output_rate = fields.number(summary, "results_mean_output_throughput_token_per_s")
    rates = {"request_throughput": rate, "output_throughput": output_rate}
    return Summary(
        latencies=latencies,
        rates={name: value for name, value in rates.items() if value is not None},
        completed=completed,
        failed=fields.count(summary, "results_number_errors"),
        duration=completed / rate if completed and rate and rate > 0 else None,
        input_tokens=_total(summary, "results_number_input_tokens_mean", completed),
        output_tokens=_total(summary, "results_number_output_tokens_mean", completed),
    )


def _total(summary: Mapping[str, Any], key: str, completed: int | None) -> float | None:
    mean = fields.number(summary, key)
    return None if mean is None or completed is None else mean * completed


def _collect(responses: Sequence[Any]) -> "tuple[RequestCollector, list[float], int]":
    """The requests, their stated times per token, and the number of answers without a token."""
    # With numpy, which statistics without requests do without.
    from regress_gate.measurement.request_collector import RequestCollector

    collected, per_token, empty = RequestCollector(), list[float](), 0
    for number, response in enumerate(responses, 1):
        if not isinstance(response, dict):
            raise RefusalError(f"response {number} is not an object, unlike others in the file")
        if response.get("error_code") is not None:
            collected.failed += 1
            continue
        tokens = fields.count(response, "number_output_tokens")
        if tokens == 0:
            collected.failed += 1
            empty += 1
            continue
        collected.add(
            ttft=fields.required(response, "ttft_s"),
            e2el=fields.required(response, "end_to_end_latency_s"),
            input_tokens=fields.count(response, "number_input_tokens") or 0,
            output_tokens=tokens or 0,
        )
        if (value := fields.number(response, "inter_token_latency_s")) is not None:
            per_token.append(value)
    return collected, per_token, empty


def _of(values: list[float]) -> dict[str, float]:
    import numpy as np  # as above

    percentiles = np.percentile(values, list(_PERCENTS.values()))
    return {"mean": float(np.mean(values)), **dict(zip(_PERCENTS, map(float, percentiles), strict=True))}


def _summary_of(
    collected: "RequestCollector", latencies: Mapping[str, Mapping[str, float]], duration: float | None
) -> Summary:
    completed, tokens = len(collected), sum(collected.output_tokens)
    counts = {"request_throughput": completed, "output_throughput": tokens}
    return Summary(
        latencies=latencies,
        rates={name: counted / duration for name, counted in counts.items() if counted} if duration else {},
        completed=completed,
        failed=collected.failed,
        duration=duration,
        input_tokens=sum(collected.input_tokens),
        output_tokens=tokens,
    )


def _workload(summary: Mapping[str, Any]) -> dict[str, Any]:
    workload: dict[str, Any] = {}
    if model := fields.text(summary, "model"):
        workload["model"] = excerpt(model)
    concurrency = fields.count(summary, "num_concurrent_requests")
    if concurrency is not None:
        workload |= {"request_rate": None, "max_concurrency": concurrency}
    if sent := fields.count(summary, "results_num_requests_started"):
        workload["num_prompts"] = sent
    for name, key in (("input_len", "input_tokens"), ("output_len", "output_tokens")):
        workload |= length_facts(name, fields.number(summary, f"mean_{key}"), fields.number(summary, f"stddev_{key}"))
    return workload


def _metadata(summary: Mapping[str, Any]) -> dict[str, str]:
    """What `--metadata key=value` added, without `version`, which is the date of llmperf's schema."""
    metadata = {key: summary[key] for key in IDENTITY_KEYS - {"version"} if isinstance(summary.get(key), str)}
    if isinstance(schema := summary.get("version"), str):
        metadata.setdefault("client_version", f"llmperf, schema of {excerpt(schema, 40)}")
    return metadata
