"""Benchmark reports of llm-d (0.1, 0.2, 0.2.1), as YAML or JSON.

0.1 has `scenario.{host,platform,model,load}` and `metrics`; 0.2 and later have `scenario.{stack,load}` and
`results.request_performance.aggregate`. Source: the schemas in llm-d/llm-d-benchmark, analysis/benchmark_report. Each
statistic states its unit. The meaning of TPOT and ITL depends on the tool behind the report. Reports written by
`regress-gate report --format llm-d` state their identity and are read back exactly.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from regress_gate.errors import InputError
from regress_gate.ingest import fields, parsing
from regress_gate.ingest.content import Content
from regress_gate.ingest.fields import time_from_iso, time_from_unix
from regress_gate.ingest.formats import llm_d_extension
from regress_gate.ingest.formats.server_manifest import version_of_image
from regress_gate.ingest.interface import Certainty, Context, Generation, Reading, UnusedResult, read_documents
from regress_gate.measurement.plausibility import RefusalError, Summary, checked_metrics
from regress_gate.model.version import Version
from regress_gate.text import excerpt, is_valid_name, quoted

OWN_FAMILIES = {
    "time_to_first_token": "ttft",
    "time_per_output_token": "tpot",
    "inter_token_latency": "itl",
    "request_latency": "e2el",
    "normalized_time_per_output_token": "normalized_latency",
}
"""The report's names, with the catalogue's families if vLLM's client measured."""

_STATISTICS = {"mean": "mean", "p50": "median", "p90": "p90", "p95": "p95", "p99": "p99"}
_TIME_UNITS = {"s": 1.0, "ms": 1e-3, "s/token": 1.0, "ms/token": 1e-3}
_RATES = {
    "request_throughput": ("request_rate", "requests_per_sec", "queries/s"),
    "output_throughput": ("output_token_rate", "output_tokens_per_sec", "tokens/s"),
    "total_throughput": ("total_token_rate", "total_tokens_per_sec", "tokens/s"),
}
_ENGINES = ("vllm", "vllm-openai")


@dataclass(frozen=True, slots=True)
class ReportParts:
    """Times in seconds, rates per second; None if not in the report."""

    tool: str | None
    """The load generator behind the report."""
    latencies: Mapping[str, Mapping[str, float]]
    """By the report's name, then by statistic of the catalogue."""
    rates: Mapping[str, float]
    completed: int | None
    failed: int | None
    duration: float | None
    started: datetime | None
    workload: Mapping[str, Any]
    metadata: Mapping[str, str]
    notes: tuple[str, ...]


def is_report(document: object) -> bool:
    if not isinstance(document, dict) or "version" not in document:
        return False
    results, metrics = document.get("results"), document.get("metrics")
    return (isinstance(results, dict) and "run" in document) or (
        isinstance(metrics, dict) and "latency" in metrics and "scenario" in document
    )


def reported_families(tool: str | None) -> tuple[Mapping[str, str], str | None]:
    """The catalogue's families by the names in a report converted from this tool, and the key of the definitions."""
    name = (tool or "").lower()
    known = {"time_to_first_token": "ttft", "request_latency": "e2el"}
    normalized = {"normalized_time_per_output_token": "normalized_latency"}
    if name in ("vllm-benchmark", "inferencemax"):
        return OWN_FAMILIES, None
    if name == "inference-perf":
        more = {"time_per_output_token": "tpot", "inter_token_latency": "token_gap"}
        return {**known, **normalized, **more}, "inference-perf"
    if name == "guidellm":
        return {**known, "inter_token_latency": "tpot", "time_per_output_token": "unclear_tpot"}, "guidellm"
    return {**known, "time_per_output_token": "unclear_tpot"}, "llm-d-other"


def report_parts(document: Mapping[str, Any], *, may_be_empty: bool = False) -> ReportParts:
    """Raises RefusalError if it cannot be read or has no measurements of requests."""
    scenario = fields.obj(document, "scenario")
    if "results" in document:
        performance = fields.obj(fields.obj(document, "results"), "request_performance")
        measured = fields.obj(performance, "aggregate")
        if not measured and not may_be_empty:
            raise RefusalError("it has no results.request_performance.aggregate: nothing of requests was measured")
        load = fields.obj(fields.obj(scenario, "load"), "standardized")
        tool, engines = fields.text(load, "tool"), _stack(scenario)
        times = fields.obj(fields.obj(document, "run"), "time")
        duration, started = None, time_from_iso(times.get("start"))
    else:
        measured = fields.obj(document, "metrics")
        load, engines = {}, _engines(scenario)
        tool = fields.text(fields.obj(scenario, "load"), "name")
        times = fields.obj(measured, "time")
        duration, started = fields.number(times, "duration"), time_from_unix(fields.number(times, "start"))
    requests = fields.obj(measured, "requests")
    completed, failed, notes = _counts(requests)
    return ReportParts(
        tool=tool,
        latencies=_latencies(fields.obj(measured, "latency")),
        rates=_rates(fields.obj(measured, "throughput")),
        completed=completed,
        failed=failed,
        duration=duration,
        started=started,
        workload=_workload(engines, load, requests),
        metadata=_metadata(engines),
        notes=notes,
    )


def _latencies(latency: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    latencies = {}
    for name in OWN_FAMILIES:
        if statistics := fields.obj(latency, name):
            unit = fields.text(statistics, "units")
            if unit not in _TIME_UNITS:
                raise RefusalError(f"{name} is in {quoted(unit)}, which is no unit of time that is known")
            latencies[name] = {
                ours: value * _TIME_UNITS[unit]
                for theirs, ours in _STATISTICS.items()
                if (value := fields.number(statistics, theirs)) is not None
            }
    return latencies


def _rates(throughput: Mapping[str, Any]) -> dict[str, float]:
    rates = {}
    for metric, (new, old, unit) in _RATES.items():
        if isinstance(throughput.get(new), dict):
            statistics = fields.obj(throughput, new)
            if (stated := fields.text(statistics, "units")) != unit:
                raise RefusalError(f"{new} is in {quoted(stated)}, not in {unit}")
            value = fields.number(statistics, "mean")
        else:
            value = fields.number(throughput, old)
        if value is not None:
            rates[metric] = value
    return rates


def _counts(requests: Mapping[str, Any]) -> tuple[int | None, int | None, tuple[str, ...]]:
    total, failed, incomplete = (fields.count(requests, name) for name in ("total", "failures", "incomplete"))
    if total is None or failed is None:
        return None, failed, ()
    completed = total - failed - (incomplete or 0)
    if completed < 0:
        raise RefusalError(f"of {total} requests {failed} failed and {incomplete or 0} are incomplete: more than all")
    return completed, failed, (f"{incomplete} of {total} requests were cut off",) if incomplete else ()


@dataclass(frozen=True, slots=True)
class _Engine:
    version: str | None
    model: str | None
    accelerator: str | None


def _stack(scenario: Mapping[str, Any]) -> list[_Engine]:
    engines = []
    for component in fields.items(scenario, "stack"):
        standardized = fields.obj(component, "standardized") if isinstance(component, dict) else {}
        if standardized.get("kind") == "inference_engine":
            engines.append(
                _Engine(
                    _version(fields.text(standardized, "tool"), fields.text(standardized, "tool_version")),
                    fields.text(fields.obj(standardized, "model"), "name"),
                    fields.text(fields.obj(standardized, "accelerator"), "model"),
                )
            )
    return engines


def _engines(scenario: Mapping[str, Any]) -> list[_Engine]:
    model = fields.text(fields.obj(scenario, "model"), "name")
    accelerators = [
        item for item in fields.items(fields.obj(scenario, "host"), "accelerator") if isinstance(item, dict)
    ]
    accelerator = _agreed(fields.text(item, "model") for item in accelerators)
    return [
        _Engine(_version(fields.text(engine, "name"), _plain(engine.get("version"))), model, accelerator)
        for engine in fields.items(fields.obj(scenario, "platform"), "engine")
        if isinstance(engine, dict)
    ] or [_Engine(None, model, accelerator)]


def _plain(value: object) -> str | None:
    return str(value) if isinstance(value, str | int | float) else None


def _version(tool: str | None, stated: str | None) -> str | None:
    """The vLLM version of an engine: from the tag of its image, or as stated if the engine is called vLLM."""
    if (version := version_of_image(stated)) is not None:
        return version
    if stated is None or (tool or "").lower().rpartition("/")[2] not in _ENGINES:
        return None
    try:
        Version.parse(stated)
    except InputError:
        return None
    return stated


def _agreed(values: Iterable[str | None]) -> str | None:
    distinct = set(values)
    return distinct.pop() if len(distinct) == 1 else None


def _metadata(engines: list[_Engine]) -> dict[str, str]:
    version = _agreed(engine.version for engine in engines)
    accelerator = _agreed(engine.accelerator for engine in engines)
    metadata = {} if version is None else {"vllm_version": version}
    if accelerator is not None and is_valid_name(accelerator):
        metadata["accelerator"] = accelerator
    return metadata


def _workload(engines: list[_Engine], load: Mapping[str, Any], requests: Mapping[str, Any]) -> dict[str, Any]:
    workload: dict[str, Any] = {}
    if (model := _agreed(engine.model for engine in engines)) is not None:
        workload["model"] = excerpt(model)
    for name, key in (("request_rate", "rate_qps"), ("max_concurrency", "concurrency")):
        value = load.get(key)
        if isinstance(value, str) and value.lower() in (".inf", "inf"):
            workload[name] = None
        elif (number := fields.number(load, key)) is not None:
            workload[name] = number if name == "request_rate" else int(number)
    for name, key in (("input_len", "input_seq_len"), ("output_len", "output_seq_len")):
        length = fields.obj(load, key)
        if length.get("distribution") == "fixed" and (number := fields.number(length, "value")) is not None:
            workload[name] = int(number)
    for name, key in (("mean_input_tokens", "input_length"), ("mean_output_tokens", "output_length")):
        if (mean := fields.number(fields.obj(requests, key), "mean")) is not None:
            workload[name] = mean
    return workload


_LOOKED_AT = 200_000
"""Characters of a text in which the marks are searched."""
_GROSS = 2.0
_NEW = re.compile(r"^ {2}request_performance:", re.MULTILINE)
_OLD = tuple(re.compile(mark, re.MULTILINE) for mark in (r"^version: ['\"]?0\.1\b", r"^scenario:", r"^metrics:"))


class LlmD:
    name = "llm-d"
    tool = "llm-d benchmark report"
    bare_constants = False
    generations = (
        Generation(
            "0.1",
            "`version: 0.1`, `scenario`, `metrics`",
            "ttft, tpot, itl, e2el, normalized_latency, rates, failures",
            "tpot and itl mean what the tool behind the report means; the version is that of the engine",
        ),
        Generation(
            "0.2, 0.2.1",
            "`results.request_performance`",
            "the same",
            "its duration is the harness's, longer than the measurement, and not used",
        ),
        Generation("made by regress-gate", "`regress_gate` in the stack's native configuration", "everything, exactly"),
    )

    def recognises(self, content: Content) -> Certainty:
        if content.text is not None:
            text = content.text[:_LOOKED_AT]
            known = _NEW.search(text) or all(mark.search(text) for mark in _OLD)
        else:
            known = any(map(is_report, content.documents))
        return Certainty.SURE if known else Certainty.NO

    def read(self, content: Content, context: Context) -> Sequence[Reading | UnusedResult]:  # noqa: ARG002
        documents = content.each() if content.text is None else [parsing.parse_yaml_text(content.text, content.name)]
        return read_documents(documents, _reading)


def _reading(document: Any, position: int) -> Reading:
    if not is_report(document):
        raise RefusalError("not an llm-d benchmark report")
    own = llm_d_extension.read_extension(document)
    report = report_parts(document, may_be_empty=own is not None)
    tool = None if own is not None else report.tool
    families, definitions = reported_families(tool) if own is None else (OWN_FAMILIES, own.definitions)
    latencies = {
        family: statistics
        for name, family in families.items()
        if (statistics := report.latencies.get(name)) is not None
    }
    workload = report.workload if own is None else own.workload
    if own is None:
        _check_rates(report)
    limit = workload.get("max_concurrency")
    metrics, notes = checked_metrics(
        Summary(
            latencies=latencies,
            rates=report.rates if own is None else {**report.rates, **own.rates},
            others={} if own is None else own.metrics,
            completed=report.completed if own is None else own.completed,
            failed=report.failed if own is None else own.failed,
            duration=report.duration if own is None else own.duration,
            max_concurrency=limit,
        )
    )
    if own is not None:
        return own.reading(position, metrics, notes)
    if left_out := sorted(report.latencies.keys() - families.keys()):
        notes.append(f"{', '.join(left_out)} left out: what {quoted(tool)} means by it is not known")
    return Reading(
        position=position,
        completed=report.completed,
        failed=report.failed or 0,
        duration=report.duration,
        metrics=metrics,
        workload=workload,
        definitions=definitions,
        started=report.started,
        metadata=report.metadata,
        notes=(*report.notes, *notes),
    )


def _check_rates(report: ReportParts) -> None:
    """Refuse rates that contradict the lengths of answers by far; some tools weight rates by time."""
    requests, tokens = report.rates.get("request_throughput"), report.rates.get("output_throughput")
    length = report.workload.get("mean_output_tokens")
    if requests and tokens and length and not 1 / _GROSS < tokens / (requests * length) < _GROSS:
        raise RefusalError(
            f"output_throughput says {tokens:g}, but {requests:g} requests/s of {length:g} tokens are "
            f"{requests * length:g}: wrong unit, or made up"
        )
