"""Exports of GenAI-Perf (`profile_export_genai_perf.json` and `.csv`), which AIPerf has replaced.

Its inter-token latency is a time per output token of one request, and tokens are counted by encoding the answer again.
The raw export of Perf Analyzer has answers without counts of tokens and is not read.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from regress_gate.ingest import fields
from regress_gate.ingest.content import Content
from regress_gate.ingest.fields import length_facts
from regress_gate.ingest.formats.aiperf import dataset_name
from regress_gate.ingest.formats.aiperf_values import (
    UnitTable,
    is_entry,
    is_genai_csv,
    objectives,
    table_duration,
    table_from_csv,
    table_from_json,
    table_latencies,
    table_total,
)
from regress_gate.ingest.interface import (
    Certainty,
    Context,
    FileOutcome,
    Generation,
    Reading,
    UnusedResult,
    read_documents,
)
from regress_gate.measurement.plausibility import RefusalError, Summary, checked_metrics, mean_tokens
from regress_gate.text import excerpt

DEFINITIONS_KEY = "genai-perf"
_CSV_ROUNDING = 0.005
_RAW = frozenset(("experiments", "service_kind"))
_CONFIG = frozenset(("perf_analyzer", "profile_export_file", "formatted_model_name"))


class GenAiPerf:
    name = "genai-perf"
    tool = "genai-perf profile"
    bare_constants = False
    generations = (
        Generation(
            "JSON with flat arguments, and with sections (`perf_analyzer`)",
            "`{unit, avg}` under each metric, `input_config`",
            "ttft, tpot, e2el, rates, goodput",
            "inter-token latency is tpot; how many requests failed is not said; requests are not kept, so that itl is "
            "missing",
        ),
        Generation(
            "CSV",
            "`Metric,avg,min,max,p99,…`",
            "the same, with two decimals",
            "thousands are separated by commas; skipped if the JSON lies beside it",
        ),
        Generation(
            "`profile_export.json` of Perf Analyzer",
            "`experiments`, `service_kind`",
            "nothing",
            "does not count tokens: skipped beside the JSON above, else refused",
        ),
    )

    def recognises(self, content: Content) -> Certainty:
        if content.text is not None:
            return Certainty.SURE if is_genai_csv(content.text) else Certainty.NO
        if any(_is_export(document) or _is_raw(document) for document in content.documents):
            return Certainty.SURE
        return Certainty.LIKELY if any(map(_may_be_export, content.documents)) else Certainty.NO

    def read(self, content: Content, context: Context) -> Sequence[Reading | UnusedResult]:
        stem = content.name.rpartition(".")[0]
        if content.text is not None:
            beside = context.beside(f"{stem}.json")
            if beside is not None and any(map(_is_export, beside.documents)):
                return [
                    UnusedResult(0, FileOutcome.SKIPPED, f"the same result is in {beside.name} beside it, unrounded")
                ]
            return [_reading(table_from_csv(content.text), {}, 0, _CSV_ROUNDING)]
        return read_documents(content.each(), lambda document, position: _result(document, position, stem, context))


def _is_raw(document: object) -> bool:
    return isinstance(document, dict) and document.keys() >= _RAW


def _is_export(document: object) -> bool:
    if not isinstance(document, dict) or not isinstance(config := document.get("input_config"), dict):
        return False
    return any(map(is_entry, document.values())) and bool(_CONFIG & config.keys())


def _may_be_export(document: object) -> bool:
    return (
        isinstance(document, dict)
        and "input_config" not in document
        and "aiperf_version" not in document
        and any(map(is_entry, document.values()))
    )


def _result(document: object, position: int, stem: str, context: Context) -> Reading | UnusedResult:
    if not isinstance(document, dict):
        raise RefusalError("not a GenAI-Perf export, unlike others in the same file")
    if _is_raw(document):
        beside = context.beside(f"{stem}_genai_perf.json")
        if beside is not None and any(map(_is_export, beside.documents)):
            return UnusedResult(position, FileOutcome.SKIPPED, f"the answers of which {beside.name} beside it was made")
        raise RefusalError(
            "Perf Analyzer's raw export holds answers and no counts of tokens; import profile_export_genai_perf.json"
        )
    return _reading(table_from_json(document), fields.obj(document, "input_config"), position, 0.0)


def _reading(table: UnitTable, config: Mapping[str, Any], position: int, rounding: float) -> Reading:
    completed = table.count("request_count")
    rates = {
        "request_throughput": table.rate("request_throughput"),
        "output_throughput": table.rate("output_token_throughput"),
        "goodput": table.rate("request_goodput"),
    }
    workload = _workload(config)
    summary = Summary(
        latencies=table_latencies(table),
        rates={name: rate for name, rate in rates.items() if rate is not None},
        completed=completed,
        duration=table_duration(table),
        input_tokens=table_total(table, "input_sequence_length", completed),
        output_tokens=table_total(table, "output_sequence_length", completed),
        time_rounding=rounding,
        rate_rounding=rounding,
    )
    metrics, notes = checked_metrics(replace(summary, max_concurrency=workload.get("max_concurrency")))
    return Reading(
        position=position,
        completed=completed,
        failed=0,
        duration=summary.duration,
        metrics=metrics,
        workload={**workload, **mean_tokens(summary)},
        definitions=DEFINITIONS_KEY,
        notes=tuple(notes),
    )


def _workload(config: Mapping[str, Any]) -> dict[str, Any]:
    """The workload stated by the arguments: flat (`concurrency`), or in sections (`perf_analyzer.stimulus`)."""
    workload: dict[str, Any] = {}
    lists = [config[key] for key in ("model_names", "model") if fields.is_list(config.get(key))]
    names = [name for values in lists for name in values[: fields.MAX_LISTED]]
    if named := [excerpt(name) for name in names if isinstance(name, str) and name]:
        workload["model"] = "+".join(named[:3])
    analyzer = fields.obj(config, "perf_analyzer")
    stimulus = fields.obj(analyzer, "stimulus") if analyzer else config
    rate, concurrency = fields.number(stimulus, "request_rate"), fields.count(stimulus, "concurrency")
    if rate is not None and rate <= 0:
        raise RefusalError(f"request_rate is {rate:g}")
    if rate is not None or concurrency is not None:
        workload |= {"request_rate": rate, "max_concurrency": concurrency}
    measurement = fields.obj(fields.obj(analyzer, "measurement"), "request_count") if analyzer else {}
    if count := fields.count(measurement, "num") if measurement else fields.count(config, "request_count"):
        workload["num_prompts"] = count
    source = config.get("input_file") or fields.obj(config, "input").get("file")
    if isinstance(source, str) and (dataset := dataset_name(source)) is not None:
        workload["dataset"] = dataset
    stated = config.get("goodput") or fields.obj(config, "input").get("goodput")
    return workload | _lengths(config) | objectives(stated)


def _lengths(config: Mapping[str, Any]) -> dict[str, Any]:
    sections = fields.obj(config, "input")
    lengths: dict[str, Any] = {}
    for name, flat, section in (
        ("input_len", "synthetic_input_tokens", "synthetic_tokens"),
        ("output_len", "output_tokens", "output_tokens"),
    ):
        stated = fields.obj(sections, section)
        mean = fields.number(stated, "mean") if stated else fields.number(config, f"{flat}_mean")
        deviation = fields.number(stated, "stddev") if stated else fields.number(config, f"{flat}_stddev")
        lengths |= length_facts(name, mean, deviation)
    return lengths
