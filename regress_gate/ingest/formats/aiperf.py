"""Exports of `aiperf profile`: the statistics as JSON or CSV, and the single requests as JSON lines.

What AIPerf calls inter-token latency is a time per output token of one request; its inter-chunk latency is `itl`. One
artefact folder is one result: statistics and requests that lie beside each other are read together, whichever of them
is named, so that both give the same numbers and the import takes one. GenAI-Perf's exports look alike: genai_perf.py.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from regress_gate.ingest import fields
from regress_gate.ingest.content import Content
from regress_gate.ingest.each import read_each
from regress_gate.ingest.formats import aiperf_records
from regress_gate.ingest.formats.aiperf_config import workload_of
from regress_gate.ingest.formats.aiperf_numbers import (
    FAMILIES,
    check_failures,
    duration_of,
    is_counted_by_server,
    latencies_of,
    missing_requests,
    of_records,
    of_table,
)
from regress_gate.ingest.formats.aiperf_records import Records, is_record
from regress_gate.ingest.interface import Certainty, Context, Generation, NoReading, Reading, RefusalError
from regress_gate.ingest.json_text import NotJsonError
from regress_gate.ingest.reports import Outcome
from regress_gate.ingest.summary import mean_tokens, measured
from regress_gate.ingest.text import clean, plural
from regress_gate.ingest.unit_table import UnitTable, from_csv, from_json, is_csv, is_entry, is_genai_csv
from regress_gate.ingest.when import moment, moment_of_text

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
            "the same",
            "inter-token latency is tpot, inter-chunk latency is itl; cancelled and incomplete runs are refused, so "
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
            "skipped where the JSON lies beside it; does not say the workload",
        ),
    )

    def recognises(self, content: Content) -> Certainty:
        if content.text is not None:
            return Certainty.SURE if is_csv(content.text) and not is_genai_csv(content.text) else Certainty.NO
        for document in content.documents:
            if is_record(document) or _is_summary(document):
                return Certainty.SURE
        return Certainty.LIKELY if any(map(_may_be_summary, content.documents)) else Certainty.NO

    def read(self, content: Content, context: Context) -> Sequence[Reading | NoReading]:
        if content.text is not None:
            return [_from_csv(content, context)]
        if not content.documents:
            raise RefusalError("not an AIPerf export")
        if is_record(content.documents[0]):
            return [_from_records(content, context)]
        return read_each(
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


def _from_summary(document: object, position: int, name: str, context: Context) -> Reading | NoReading:
    if not isinstance(document, dict):
        raise RefusalError("not an AIPerf export, unlike others in the same file")
    _refuse_other_kinds(document)
    table = _table(document)
    if not any(tag in table for tag in FAMILIES.values()) and "request_throughput" not in table:
        return NoReading(position, Outcome.SKIPPED, "an AIPerf file without measurements of requests")
    beside = _beside(context, _records_names(name))
    if beside is None or not beside.documents or not is_record(beside.documents[0]):
        return _reading(document, table, None, position, context, ())
    try:
        records = aiperf_records.gather(beside.each())
    except (RefusalError, NotJsonError) as error:
        return _reading(document, table, None, position, context, (f"{beside.name} is not used: {error}",))
    if (missing := missing_requests(table, records)) is not None:
        return _reading(document, table, None, position, context, (f"{beside.name} {missing}, and is not used",))
    return _reading(document, table, records, position, context, ())


def _from_records(content: Content, context: Context) -> Reading | NoReading:
    records = aiperf_records.gather(content.each())
    beside = _beside(context, _summary_names(content.name))
    document = beside.documents[0] if beside is not None and len(beside.documents) == 1 else None
    if beside is None or not isinstance(document, dict) or not _is_summary(document):
        return _reading({}, UnitTable({}), records, 0, context, ("no statistics beside it to check it by",))
    _refuse_other_kinds(document)
    table = _table(document)
    if (missing := missing_requests(table, records)) is not None:
        return NoReading(0, Outcome.SKIPPED, f"{missing}; {beside.name} beside it is the whole result")
    return _reading(document, table, records, 0, context, ())


def _from_csv(content: Content, context: Context) -> Reading | NoReading:
    beside = context.beside(content.name.removesuffix(".csv") + ".json")
    if beside is not None and any(map(_is_summary, beside.documents)):
        return NoReading(0, Outcome.SKIPPED, f"the same result is in {beside.name} beside it, which says more")
    requests = _beside(context, _records_names(content.name.removesuffix(".csv") + ".json"))
    if requests is not None and any(map(is_record, requests.documents)):
        return NoReading(0, Outcome.SKIPPED, f"made of the requests in {requests.name} beside it, which says more")
    return _reading({}, from_csv(content.text or ""), None, 0, context, (), _CSV_ROUNDING)


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
    return from_json(fields.obj(document, "records") or document)


def _beside(context: Context, names: Sequence[str]) -> Content | None:
    return next((found for name in names if (found := context.beside(name)) is not None), None)


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
    stated = latencies_of(table)
    config = workload_of(_config(document))
    samples, definitions = None, SERVER_TOKENS if is_counted_by_server(table) else ENCODED_AGAIN
    summary = of_table(document, table, stated, rounding)
    if records is not None:
        from regress_gate.ingest.gathered import check_agreement, statistics

        if document:
            measured(summary)  # what the statistics say of themselves has to be true as well
            check_failures(summary.failed, records)
        definitions = ENCODED_AGAIN if records.encoded_again else SERVER_TOKENS
        gathered = records.gathered
        requests = gathered.requests()
        found = statistics(requests, is_streamed=gathered.is_streamed, folded=gathered.folded)
        # The tool's own time per token rests on its own count of tokens.
        by_count = () if records.encoded_again else ("tpot",)
        check_agreement({family: stated[family] for family in stated.keys() - by_count}, found)
        keeps = context.with_samples and gathered.is_streamed and gathered.folded is None
        samples = requests.samples if keeps else None
        notes += gathered.notes
        summary = of_records(records, found, duration_of(table))
        if not gathered.is_streamed:
            notes += ("not every answer says when its first token came: ttft, tpot, itl and requests left out",)
        if records.cancelled:
            notes += (f"{plural(records.cancelled, 'request')} that the client cancelled left out",)
    metrics, more = measured(replace(summary, max_concurrency=config.get("max_concurrency")))
    return Reading(
        position=position,
        completed=summary.completed,
        failed=summary.failed or 0,
        duration=summary.duration,
        metrics=metrics,
        workload={**config, **mean_tokens(summary)},
        definitions=definitions,
        started=_started(document, table) if records is None else moment(records.first),
        samples=samples,
        metadata=_metadata(document),
        notes=(*notes, *more),
    )


def _started(document: Mapping[str, Any], table: UnitTable) -> datetime | None:
    first = table.seconds("min_request_timestamp")
    return moment(first["mean"]) if first else moment_of_text(document.get("start_time"))


def _metadata(document: Mapping[str, Any]) -> dict[str, str]:
    version = document.get("aiperf_version")
    return {"client_version": f"aiperf {clean(version, 60)}"} if isinstance(version, str) and version else {}
