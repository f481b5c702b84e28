"""Exports of `aiperf profile`: the statistics as JSON or CSV, and the single requests as JSON lines.

AIPerf's inter-token latency is a time per output token of one request; its inter-chunk latency is `itl`. One artefact
folder is one result: statistics and requests beside each other are read together, whichever file is named, so both give
the same numbers and one of them is skipped. GenAI-Perf's exports look alike and are read by genai_perf.py.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from regress_gate.ingest import fields
from regress_gate.ingest.content import Content
from regress_gate.ingest.fields import length_facts, time_from_iso, time_from_unix
from regress_gate.ingest.formats import aiperf_values
from regress_gate.ingest.formats.aiperf_values import (
    FAMILIES,
    Records,
    UnitTable,
    check_failures,
    is_counted_by_server,
    is_entry,
    is_genai_csv,
    is_record,
    is_unit_csv,
    missing_requests,
    objectives,
    summary_from_records,
    summary_from_table,
    table_from_csv,
    table_from_json,
    table_latencies,
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
from regress_gate.ingest.parsing import NotJsonError
from regress_gate.measurement.plausibility import RefusalError, checked_metrics, mean_tokens
from regress_gate.text import excerpt, plural


def aiperf_workload(config: Mapping[str, Any]) -> dict[str, Any]:
    """The workload stated by `input_config`: sections of the command line (to 0.12), or phases and datasets (0.13).

    Raises RefusalError if several loads are pooled.
    """
    workload: dict[str, Any] = {}
    if model := _model(config):
        workload["model"] = model
    phase = _phase(config)
    rate, concurrency = fields.number(phase, "request_rate"), fields.count(phase, "concurrency")
    if rate is None:
        rate = fields.number(phase, "rate")
    if rate is not None and rate <= 0:
        raise RefusalError(f"request_rate is {rate:g}")
    if rate is not None or concurrency is not None:
        workload |= {"request_rate": rate, "max_concurrency": concurrency}
    count = fields.count(phase, "request_count")
    if (count := fields.count(phase, "requests") if count is None else count) is not None:
        workload["num_prompts"] = count
    if rate is not None:
        pattern = phase.get("arrival_pattern") or phase.get("request_rate_mode") or phase.get("type")
        if pattern == "poisson":
            workload["burstiness"] = 1.0
        elif pattern == "gamma":
            smoothness = fields.number(phase, "smoothness")
            workload["arrival"] = "gamma"
            workload["burstiness"] = fields.number(phase, "arrival_smoothness") if smoothness is None else smoothness
        elif pattern == "constant":
            workload["arrival"] = "constant"
    dataset, lengths = _dataset(config), _lengths(config)
    if dataset is not None:
        # The length of generated prompts has a default, which is not used with a dataset.
        lengths = {name: length for name, length in lengths.items() if not name.startswith("input_len")}
        workload["dataset"] = dataset
    # Top level from 0.13 on, before it in `input`.
    stated = config.get("slos") or fields.obj(config, "input").get("goodput")
    return workload | lengths | objectives(stated)


def dataset_name(source: str) -> str | None:
    """The last part of the name or path of a dataset; None if it is empty."""
    return excerpt(re.split(r"[/\\]", source.rstrip("/\\"))[-1], 60) or None


def _model(config: Mapping[str, Any]) -> str | None:
    endpoint, models = fields.obj(config, "endpoint"), fields.obj(config, "models")
    names = fields.few_items(endpoint, "model_names") or [
        item.get("name") for item in fields.few_items(models, "items") if isinstance(item, dict)
    ]
    named = [excerpt(name) for name in names if isinstance(name, str) and name]
    return "+".join(named[:3]) or None


def _phase(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The load: the `loadgen` section, or the only phase that is measured."""
    phases = [
        phase
        for phase in fields.few_items(config, "phases")
        if isinstance(phase, dict) and phase.get("kind", "profiling") == "profiling"
    ]
    if len(phases) > 1:
        raise RefusalError(f"it pools {len(phases)} profiling phases; measure each load by itself")
    return phases[0] if phases else fields.obj(config, "loadgen")


def _datasets(config: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [entry for entry in fields.few_items(config, "datasets") if isinstance(entry, dict)]


def _dataset(config: Mapping[str, Any]) -> str | None:
    """The dataset of the prompts; None if they were generated."""
    section = fields.obj(config, "input")
    places = [(section, ("public_dataset", "file")), *((entry, ("dataset", "path")) for entry in _datasets(config))]
    names = [fields.text(place, key) for place, keys in places for key in keys]
    return "+".join(dataset for name in names if name is not None and (dataset := dataset_name(name))) or None


def _lengths(config: Mapping[str, Any]) -> dict[str, Any]:
    prompt = fields.obj(fields.obj(config, "input"), "prompt")
    stated = (fields.obj(prompt, "input_tokens"), fields.obj(prompt, "output_tokens"))
    if len(datasets := _datasets(config)) == 1:
        prompts = fields.obj(datasets[0], "prompts")
        stated = (fields.obj(prompts, "isl"), fields.obj(prompts, "osl"))
    lengths: dict[str, Any] = {}
    for name, length in zip(("input_len", "output_len"), stated, strict=True):
        lengths |= length_facts(name, fields.number(length, "mean"), fields.number(length, "stddev"))
    return lengths


SERVER_TOKENS, ENCODED_AGAIN = "aiperf", "aiperf-encoded"
_CSV_ROUNDING = 0.005
_CONFIG = ("loadgen", "phases", "models")
_AGGREGATE = frozenset(("aggregation_type", "num_profile_runs", "num_successful_runs"))


class AiPerf:
    name = "aiperf"
    tool = "aiperf profile"
    bare_constants = False
    generations = (
        Generation(
            "mid-2025, before 0.1",
            "`records`",
            "ttft, tpot, itl, e2el, rates, failures",
            "metrics go by their printed names",
        ),
        Generation(
            "0.1 and later (`profile_export_aiperf.json`)",
            "`{unit, avg}` under each metric, `was_cancelled`, `aiperf_version`",
            "the same, goodput and good_request_fraction",
            "inter-token latency is tpot, inter-chunk latency is itl; a request without a value for an objective is "
            "not good, also that of one token for a tpot; cancelled and incomplete runs are refused, so "
            "are aggregates over repeats (`*_aggregate.json`); tokens are counted by encoding the answers again",
        ),
        Generation(
            "single requests (`profile_export.jsonl`)",
            "`request_start_ns`, `benchmark_phase`",
            "the same, made from the requests; single requests",
            "warm-up and cancelled requests are left out; tokens are the server's where every answer has its usage, "
            "which makes it incomparable with results without; duration and workload come from the JSON beside it",
        ),
        Generation(
            "`profile_export_aiperf.csv`",
            "`Metric,avg,min,max` with `std` or with percentiles upwards",
            "the same, with two decimals",
            "skipped if the JSON lies beside it; does not say the workload",
        ),
    )

    def recognises(self, content: Content) -> Certainty:
        if content.text is not None:
            return Certainty.SURE if is_unit_csv(content.text) and not is_genai_csv(content.text) else Certainty.NO
        for document in content.documents:
            if is_record(document) or _is_summary(document):
                return Certainty.SURE
        return Certainty.LIKELY if any(map(_may_be_summary, content.documents)) else Certainty.NO

    def read(self, content: Content, context: Context) -> Sequence[Reading | UnusedResult]:
        if content.text is not None:
            return [_from_csv(content, context)]
        if not content.documents:
            raise RefusalError("not an AIPerf export")
        if is_record(content.documents[0]):
            return [_from_records(content, context)]
        return read_documents(
            content.each(), lambda document, position: _from_summary(document, position, content.name, context)
        )


def _is_summary(document: object) -> bool:
    if not isinstance(document, dict):
        return False
    config = _config(document)
    if "perf_analyzer" in config or "profile_export_file" in config:  # GenAI-Perf's
        return False
    if "aiperf_version" in document:
        return True
    has_config = any(key in config for key in _CONFIG) or isinstance(config.get("endpoint"), dict)
    return has_config and (_has_entries(document) or isinstance(document.get("records"), dict))


def _may_be_summary(document: object) -> bool:
    return isinstance(document, dict) and "input_config" not in document and _has_entries(document)


def _has_entries(document: Mapping[str, Any]) -> bool:
    return any(map(is_entry, document.values()))


def _config(document: Mapping[str, Any]) -> Mapping[str, Any]:
    config = document.get("input_config")
    return config if isinstance(config, dict) else {}


def _from_summary(document: object, position: int, name: str, context: Context) -> Reading | UnusedResult:
    if not isinstance(document, dict):
        raise RefusalError("not an AIPerf export, unlike others in the same file")
    _refuse_other_kinds(document)
    table = _table(document)
    if not any(tag in table for tag in FAMILIES.values()) and "request_throughput" not in table:
        return UnusedResult(position, FileOutcome.SKIPPED, "an AIPerf file without measurements of requests")
    beside = _beside(context, _records_names(name))
    if beside is None or not beside.documents or not is_record(beside.documents[0]):
        return _reading(document, table, None, position, context, ())
    try:
        records = aiperf_values.collect_records(beside.each())
    except (RefusalError, NotJsonError) as error:
        return _reading(document, table, None, position, context, (f"{beside.name} is not used: {error}",))
    if (missing := missing_requests(table, records)) is not None:
        return _reading(document, table, None, position, context, (f"{beside.name} {missing}, and is not used",))
    return _reading(document, table, records, position, context, ())


def _from_records(content: Content, context: Context) -> Reading | UnusedResult:
    records = aiperf_values.collect_records(content.each())
    beside = _beside(context, _summary_names(content.name))
    document = beside.documents[0] if beside is not None and len(beside.documents) == 1 else None
    if beside is None or not isinstance(document, dict) or not _is_summary(document):
        return _reading({}, UnitTable({}), records, 0, context, ("no statistics beside it to check it by",))
    _refuse_other_kinds(document)
    table = _table(document)
    if (missing := missing_requests(table, records)) is not None:
        return UnusedResult(0, FileOutcome.SKIPPED, f"{missing}; {beside.name} beside it is the whole result")
    return _reading(document, table, records, 0, context, ())


def _from_csv(content: Content, context: Context) -> Reading | UnusedResult:
    beside = context.beside(content.name.removesuffix(".csv") + ".json")
    if beside is not None and any(map(_is_summary, beside.documents)):
        return UnusedResult(0, FileOutcome.SKIPPED, f"the same result is in {beside.name} beside it, which says more")
    requests = _beside(context, _records_names(content.name.removesuffix(".csv") + ".json"))
    if requests is not None and any(map(is_record, requests.documents)):
        return UnusedResult(
            0, FileOutcome.SKIPPED, f"made of the requests in {requests.name} beside it, which says more"
        )
    return _reading({}, table_from_csv(content.text or ""), None, 0, context, (), _CSV_ROUNDING)


def _refuse_other_kinds(document: Mapping[str, Any]) -> None:
    metadata = document.get("metadata")
    if isinstance(metadata, dict) and _AGGREGATE & metadata.keys():
        raise RefusalError("an aggregate over repeats, not one measurement; import the single runs instead")
    if document.get("was_cancelled"):
        raise RefusalError("the run was cancelled (was_cancelled): its numbers are of a part")
    if document.get("is_complete") is False:
        raise RefusalError("the run is not complete (is_complete is false): its numbers are of a part")
    if "timeslices" in document:
        raise RefusalError("slices of one run in time, not measurements of their own; import the whole run")


def _table(document: Mapping[str, Any]) -> UnitTable:
    return table_from_json(fields.obj(document, "records") or document)


def _beside(context: Context, names: Sequence[str]) -> Content | None:
    return next((content for name in names if (content := context.beside(name)) is not None), None)


def _records_names(name: str) -> tuple[str, ...]:
    stem = name.removesuffix(".json")
    return tuple(dict.fromkeys((stem.removesuffix("_aiperf") + ".jsonl", stem + ".jsonl")))


def _summary_names(name: str) -> tuple[str, ...]:
    stem = name.removesuffix(".jsonl")
    return (f"{stem}_aiperf.json", f"{stem}.json")


def _reading(
    document: Mapping[str, Any],
    table: UnitTable,
    records: Records | None,
    position: int,
    context: Context,
    notes: tuple[str, ...],
    rounding: float = 0.0,
) -> Reading:
    stated = table_latencies(table)
    config = aiperf_workload(_config(document))
    samples, definitions = None, SERVER_TOKENS if is_counted_by_server(table) else ENCODED_AGAIN
    summary = summary_from_table(document, table, stated, rounding)
    if records is not None:
        # With numpy, which statistics without requests do without.
        from regress_gate.measurement.request_collector import check_agreement

        if document:
            checked_metrics(summary)  # the stated statistics must be plausible too
            check_failures(summary.failed, records)
        definitions = ENCODED_AGAIN if records.encoded_again else SERVER_TOKENS
        collected = records.collected
        statistics = collected.statistics()
        measured = collected.latencies(statistics)
        # The tool's own time per token uses its own count of tokens.
        by_count = () if records.encoded_again else ("tpot",)
        check_agreement({family: stated[family] for family in stated.keys() - by_count}, measured)
        keeps_samples = context.with_samples and collected.is_streamed and collected.gap_histogram is None
        samples = statistics.samples if keeps_samples else None
        notes += collected.notes
        summary = summary_from_records(records, measured, summary)
        if not collected.is_streamed:
            notes += ("not every answer says when its first token came: ttft, tpot, itl and requests left out",)
        if records.cancelled:
            notes += (f"{plural(records.cancelled, 'request')} that the client cancelled left out",)
    metrics, more = checked_metrics(replace(summary, max_concurrency=config.get("max_concurrency")))
    return Reading(
        position=position,
        completed=summary.completed,
        failed=summary.failed or 0,
        duration=summary.duration,
        metrics=metrics,
        workload={**config, **mean_tokens(summary)},
        definitions=definitions,
        started=_started(document, table) if records is None else time_from_unix(records.first),
        samples=samples,
        metadata=_metadata(document),
        notes=(*notes, *more),
    )


def _started(document: Mapping[str, Any], table: UnitTable) -> datetime | None:
    first = table.seconds("min_request_timestamp")
    return time_from_unix(first["mean"]) if first else time_from_iso(document.get("start_time"))


def _metadata(document: Mapping[str, Any]) -> dict[str, str]:
    version = document.get("aiperf_version")
    return {"client_version": f"aiperf {excerpt(version, 60)}"} if isinstance(version, str) and version else {}
