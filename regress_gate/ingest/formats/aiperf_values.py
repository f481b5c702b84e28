"""The numbers of AIPerf and GenAI-Perf exports: tables of statistics, and AIPerf's records of single requests.

A table has `{unit, avg, p50, …}` under each metric, in JSON or CSV; units are read, never assumed. Records
(`profile_export.jsonl`, one object a request) are streamed, and only their numbers are kept. The server counts the
tokens if every answer has its usage; else AIPerf encodes the answers again, which may differ by a factor of two.
"""

import csv
import re
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from regress_gate.ingest import fields
from regress_gate.measurement.plausibility import RefusalError, Summary
from regress_gate.text import excerpt, plural, quoted

if TYPE_CHECKING:
    from regress_gate.measurement.request_collector import RequestCollector


SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "sec": 1.0, "s": 1.0, "seconds": 1.0}
_PER_SECOND = frozenset(
    ["requests/sec", "tokens/sec", "requests/s", "tokens/s", "req/s", "tok/s", "per sec", "/sec", "1/s"]
)
_STATISTICS = {"mean": "avg", "median": "p50", "p90": "p90", "p95": "p95", "p99": "p99"}
"""The tools' names of the catalogue's statistics."""
_HEAD = 1000
_MAX_CSV = 8 * 1024 * 1024
_HEADER = re.compile(r"(.+?)(?: \(([^()]*)\))?")
_NUMBER = re.compile(r"-?[0-9][0-9,]*(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_SHORT = {"ttft": "time_to_first_token", "itl": "inter_token_latency", "icl": "inter_chunk_latency"}


@dataclass(frozen=True, slots=True)
class Entry:
    unit: str
    values: Mapping[str, Any]
    """By the tool's name of the statistic."""


@dataclass(frozen=True, slots=True)
class UnitTable:
    """The entries by tag, such as `time_to_first_token`. Methods raise RefusalError for a bad value."""

    entries: Mapping[str, Entry]

    def __contains__(self, tag: str) -> bool:
        return tag in self.entries

    def value(self, tag: str, statistic: str = "avg") -> float | None:
        """The number as written; None if there is none."""
        entry = self.entries.get(tag)
        if entry is None:
            return None
        name = f"{tag} {statistic}"
        return fields.number({name: entry.values.get(statistic)}, name)

    def count(self, tag: str) -> int | None:
        value = self.value(tag)
        return None if value is None else fields.count({tag: value}, tag)

    def seconds(self, tag: str) -> dict[str, float]:
        """Seconds by statistic of the catalogue; empty if the metric is missing."""
        values = {name: value for name, own in _STATISTICS.items() if (value := self.value(tag, own)) is not None}
        factor = seconds_in(self.entries[tag].unit, tag) if values else 1.0
        return {name: value * factor for name, value in values.items()}

    def rate(self, tag: str) -> float | None:
        """Per second: the mean. Other statistics of a rate describe its course over time."""
        value = self.value(tag)
        if value is not None and (unit := self.entries[tag].unit) not in _PER_SECOND:
            raise RefusalError(f"{quoted(unit)} is no unit of {tag} that is known")
        return value


def seconds_in(unit: object, what: str = "time") -> float:
    """Seconds in a unit of time. Raises RefusalError for an unknown unit."""
    if not isinstance(unit, str) or unit not in SECONDS:
        raise RefusalError(f"{quoted(unit)} is no unit of time that is known ({what})")
    return SECONDS[unit]


def is_entry(value: object) -> bool:
    return isinstance(value, dict) and "unit" in value and "avg" in value


def table_from_json(data: Mapping[str, Any]) -> UnitTable:
    """The metrics among the values of an object, by tag or by printed name."""
    return UnitTable({_tag(key): Entry(str(value["unit"]), value) for key, value in data.items() if is_entry(value)})


def is_unit_csv(text: str) -> bool:
    return text.startswith("Metric,avg,min,max")


def is_genai_csv(text: str) -> bool:
    """Whether a CSV is GenAI-Perf's: percentiles from p99 downwards, and no standard deviation."""
    header = text[:_HEAD].split("\n", 1)[0].rstrip("\r")
    return header.startswith("Metric,avg,min,max,p99") and not header.endswith(",std")


def table_from_csv(text: str) -> UnitTable:
    """The metrics of a CSV export: `Metric,avg,…`, an empty line, `Metric,Value`. Telemetry after them is not read."""
    if len(text) > _MAX_CSV:
        raise RefusalError("too long for an export of statistics")
    entries: dict[str, Entry] = {}
    header: list[str] = []
    try:
        for row in csv.reader(text.splitlines(), strict=True):
            if not row or not row[0].strip():
                header = []
            elif row[0] == "Metric":
                header = row[1:]
            elif header and len(row) <= len(header) + 1:
                name, unit = _name_and_unit(row[0])
                cells = dict(zip(["avg" if cell == "Value" else cell for cell in header], row[1:], strict=False))
                if name in entries:
                    raise RefusalError(f"{quoted(row[0])} stands twice in it: two results are mixed")
                entries[name] = Entry(unit, {key: _cell_number(cell) for key, cell in cells.items()})
    except csv.Error as error:
        raise RefusalError(f"not a CSV file: {error}") from None
    return UnitTable(entries)


def _name_and_unit(title: str) -> tuple[str, str]:
    match = _HEADER.fullmatch(title.strip())
    return (_tag(match[1]), match[2] or "") if match else ("", "")


def _tag(name: str) -> str:
    tag = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
    return _SHORT.get(tag, tag)


def _cell_number(cell: str) -> Any:
    """The number in a cell, with or without thousands separators; other text is kept, and refused on use."""
    text = cell.strip()
    if text in ("", "N/A", "n/a", "-"):
        return None
    return float(text.replace(",", "")) if _NUMBER.fullmatch(text) else text


_MARKS = ("x_request_id", "request_start_ns", "benchmark_phase")


@dataclass(frozen=True, slots=True)
class Times:
    """One request that succeeded; seconds."""

    start: float
    """Since 1970 UTC."""
    ttft: float | None
    e2el: float
    gaps: Sequence[float]
    """Between its chunks, in `gap_unit`."""
    gap_unit: float
    """Seconds. One factor for all gaps, because reading gaps takes most of the time."""
    input_tokens: int | None
    """By the server."""
    output_tokens: int | None
    """By the server."""
    input_encoded: int | None
    """By encoding the text."""
    output_encoded: int | None
    """By encoding the answer again."""


@dataclass(slots=True)
class Records:
    """All requests of the measured phase."""

    collected: "RequestCollector"
    encoded_again: bool
    """Whether tokens are counted by AIPerf and not by the server."""
    cancelled: int
    """Requests that the client cancelled; neither successes nor failures."""
    first: float
    """When the first request was sent, seconds since 1970 UTC."""
    last: float
    """When the last request that succeeded had ended."""


def is_record(document: object) -> bool:
    if not isinstance(document, dict) or not isinstance(metadata := document.get("metadata"), dict):
        return False
    return "metrics" in document and any(mark in metadata for mark in _MARKS)


def collect_records(documents: Iterable[Any]) -> Records:
    """Raises RefusalError for a line that is not a record of a request, or that cannot be a measurement."""
    # With numpy, which statistics without requests do without.
    from regress_gate.measurement.request_collector import RequestCollector

    collected = RequestCollector()
    by_server, input_encoded, output_encoded = True, array("q"), array("q")
    cancelled, first, last = 0, float("inf"), 0.0
    for number, record in enumerate(documents, 1):
        if not is_record(record):
            raise RefusalError(f"line {number} is no record of a request, unlike others in the file")
        metadata = record["metadata"]
        if metadata.get("benchmark_phase", "profiling") != "profiling":
            continue
        if metadata.get("was_cancelled"):
            cancelled += 1
        elif record.get("error"):
            collected.failed += 1
        else:
            try:
                times = request_times(record)
                collected.add(
                    start=times.start,
                    ttft=times.ttft,
                    e2el=times.e2el,
                    gaps=times.gaps,
                    gap_unit=times.gap_unit,
                    input_tokens=times.input_tokens or 0,
                    output_tokens=times.output_tokens or 0,
                )
                input_encoded.append(times.input_encoded or 0)
                output_encoded.append(times.output_encoded or 0)
            except RefusalError as refusal:
                raise RefusalError(f"line {number}: {refusal}") from None
            by_server &= times.output_tokens is not None and times.input_tokens is not None
            first, last = min(first, times.start), max(last, times.start + times.e2el)
    if not by_server:
        collected.input_tokens, collected.output_tokens = input_encoded, output_encoded
    return Records(collected, not by_server, cancelled, first, last)


def request_times(record: Mapping[str, Any]) -> Times:
    """The times and tokens of a successful request. Raises RefusalError, also for an unknown unit."""
    metadata, metrics = fields.obj(record, "metadata"), fields.obj(record, "metrics")
    latency = _record_seconds(metrics, "request_latency")
    if latency is None:
        raise RefusalError("request_latency is missing")
    gaps, gap_unit = _record_gaps(fields.obj(metrics, "inter_chunk_latency"))
    return Times(
        start=fields.required(metadata, "request_start_ns") * 1e-9,
        ttft=_record_seconds(metrics, "time_to_first_token"),
        e2el=latency,
        gaps=gaps,
        gap_unit=gap_unit,
        input_tokens=_record_count(metrics, "usage_prompt_tokens"),
        output_tokens=_record_count(metrics, "usage_completion_tokens"),
        input_encoded=_record_count(metrics, "input_sequence_length"),
        output_encoded=_record_count(metrics, "output_sequence_length"),
    )


def _record_seconds(metrics: Mapping[str, Any], tag: str) -> float | None:
    metric = fields.obj(metrics, tag)
    value = fields.number({tag: metric.get("value")}, tag)
    return None if value is None else value * seconds_in(metric.get("unit"), tag)


def _record_count(metrics: Mapping[str, Any], tag: str) -> int | None:
    return fields.count({tag: fields.obj(metrics, tag).get("value")}, tag)


def _record_gaps(metric: Mapping[str, Any]) -> tuple[Sequence[float], float]:
    """The gaps, and the seconds in their unit; an answer of one chunk has no gaps."""
    values = fields.items(metric, "value")
    if not values:
        return [], 1.0
    return values, seconds_in(metric.get("unit"), "inter_chunk_latency")


FAMILIES = {
    "ttft": "time_to_first_token",
    "tpot": "inter_token_latency",
    "itl": "inter_chunk_latency",
    "e2el": "request_latency",
}
"""By catalogue family. Both tools call (latency − ttft) / (tokens − 1) of one request inter-token latency."""


def table_latencies(table: UnitTable) -> dict[str, dict[str, float]]:
    """The statistics of the catalogue's families, in seconds."""
    return {family: statistics for family, tag in FAMILIES.items() if (statistics := table.seconds(tag))}


def summary_from_table(
    document: Mapping[str, Any], table: UnitTable, latencies: dict[str, dict[str, float]], rounding: float
) -> Summary:
    """`rounding`: half a unit of the last decimal that was written."""
    completed = table.count("request_count")
    rates = {
        "request_throughput": table.rate("request_throughput"),
        "output_throughput": table.rate("output_token_throughput"),
        "total_throughput": table.rate("total_token_throughput"),
        "goodput": table.rate("goodput"),
    }
    failed = _failed_requests(document, table)
    return Summary(
        latencies=latencies,
        rates={name: rate for name, rate in rates.items() if rate is not None},
        others=_good_fraction(table, completed, failed, rounding),
        completed=completed,
        failed=failed,
        duration=table_duration(table),
        input_tokens=table_total(table, "input_sequence_length", completed),
        output_tokens=table_total(table, "output_sequence_length", completed),
        time_rounding=rounding,
        rate_rounding=rounding,
    )


def _good_fraction(table: UnitTable, completed: int | None, failed: int | None, rounding: float) -> dict[str, float]:
    """The share of attempted requests that were good; empty without objectives, or if not known."""
    good, stated = table.count("good_request_count"), table.value("good_request_fraction")
    if good is None or not completed:
        return {}
    if good > completed:
        raise RefusalError(f"good_request_count is {good}, of {plural(completed, 'request')}")
    made = None if failed is None else good / (completed + failed)
    if stated is not None and made is not None and abs(stated - made) > rounding + 1e-6:
        raise RefusalError(f"good_request_fraction is {stated:g}, its own counts say {made:g}")
    return {} if made is None else {"good_request_fraction": made}


def objectives(stated: object) -> dict[str, Any]:
    """Objectives by the tools' names, in milliseconds, as those of our workloads: `{"slo": {"ttft": 0.5}}`.

    Other names keep their name and unit. Empty without any.
    """
    if not isinstance(stated, dict):
        return {}
    families = {tag: family for family, tag in FAMILIES.items()}
    limits = {name: limit for name in stated if (limit := fields.number(stated, name)) is not None}
    named = {families.get(n, excerpt(n, 60)): limit / 1000 if n in families else limit for n, limit in limits.items()}
    return {"slo": named} if named else {}


def summary_from_records(records: Records, latencies: dict[str, dict[str, float]], stated: Summary) -> Summary:
    """Counts and rates of the requests; the goodput as stated, since only the tool knows the objectives."""
    collected, duration = records.collected, stated.duration
    input_tokens, output_tokens = sum(collected.input_tokens), sum(collected.output_tokens)
    duration = max(records.last - records.first, 0.0) if duration is None else duration
    counts = {
        "request_throughput": len(collected),
        "output_throughput": output_tokens,
        "total_throughput": input_tokens + output_tokens,
    }
    rates = {name: counted / duration for name, counted in counts.items() if counted} if duration > 0 else {}
    rates |= {name: rate for name, rate in stated.rates.items() if name == "goodput"}
    return Summary(
        latencies=latencies,
        rates=rates,
        others=stated.others,
        completed=len(collected),
        failed=collected.failed,
        duration=duration if len(collected) else None,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
    )


def table_duration(table: UnitTable) -> float | None:
    """Seconds; if not stated, the requests divided by their rate, which the tool derives from it."""
    if stated := table.seconds("benchmark_duration"):
        return stated["mean"]
    completed, rate = table.count("request_count"), table.rate("request_throughput")
    return completed / rate if completed and rate and rate > 0 else None


def table_total(table: UnitTable, tag: str, completed: int | None) -> float | None:
    mean = table.value(tag)
    return None if mean is None or completed is None else mean * completed


def _failed_requests(document: Mapping[str, Any], table: UnitTable) -> int | None:
    """The failed requests. The tool omits the count if it is 0; its list of errors is empty then."""
    if (stated := table.count("error_request_count")) is not None:
        return stated
    if not fields.is_list(errors := document.get("error_summary")):
        return 0 if table.value("request_error_rate") == 0 else None
    return sum(fields.count(error, "count") or 0 for error in errors if isinstance(error, dict))


def is_counted_by_server(table: UnitTable) -> bool:
    """Whether the statistics use the server's count of tokens, or an equal one."""
    totals = table.value("total_usage_completion_tokens"), table.value("total_osl")
    return totals[0] is not None and totals[0] == totals[1]


def missing_requests(table: UnitTable, records: Records) -> str | None:
    """What is wrong with the number of requests; None if it is complete."""
    completed = table.count("request_count")
    if completed is None or len(records.collected) == completed:
        return None
    return f"holds {len(records.collected)} of {plural(completed, 'request')}"


def check_failures(stated: int | None, records: Records) -> None:
    """Refuse statistics with another number of failures; they may or may not include cancelled requests."""
    counted = records.collected.failed
    if stated is not None and not counted <= stated <= counted + records.cancelled:
        raise RefusalError(f"the statistics say that {stated} requests failed, the requests {counted}: edited or cut")
