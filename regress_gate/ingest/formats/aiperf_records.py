"""AIPerf's `profile_export.jsonl`: one object for each request. Read as a stream; nothing of it is kept but numbers.

Tokens are counted by the server where every answer carries its usage, else by AIPerf, which encodes the answer again:
two counts that can differ by a factor of two.
"""

from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from regress_gate.ingest import fields
from regress_gate.ingest.interface import RefusalError
from regress_gate.ingest.unit_table import seconds_in

if TYPE_CHECKING:
    from regress_gate.ingest.gathered import Gathered

_MARKS = ("x_request_id", "request_start_ns", "benchmark_phase")


@dataclass(frozen=True, slots=True)
class Times:
    """One request that succeeded; seconds."""

    start: float
    """Since 1970 UTC."""
    ttft: float | None
    e2el: float
    gaps: list[float]
    """Between its chunks, in `gap_unit`."""
    gap_unit: float
    """Seconds; one factor for all, as most of reading is reading gaps."""
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

    gathered: "Gathered"
    encoded_again: bool
    """Whether tokens are counted by AIPerf and not by the server."""
    cancelled: int
    """Requests that the client itself broke off; neither successes nor failures."""
    first: float
    """When the first request was sent, seconds since 1970 UTC."""
    last: float
    """When the last request that succeeded had ended."""


def is_record(document: object) -> bool:
    if not isinstance(document, dict) or not isinstance(metadata := document.get("metadata"), dict):
        return False
    return "metrics" in document and any(mark in metadata for mark in _MARKS)


def gather(documents: Iterable[Any]) -> Records:
    """Raises RefusalError where a line is no such record or holds what cannot be a measurement."""
    from regress_gate.ingest.gathered import Gathered

    gathered = Gathered()
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
            gathered.failed += 1
        else:
            try:
                times = times_of(record)
                gathered.add(
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
        gathered.input_tokens, gathered.output_tokens = input_encoded, output_encoded
    return Records(gathered, not by_server, cancelled, first, last)


def times_of(record: Mapping[str, Any]) -> Times:
    """What a record of a successful request says. Raises RefusalError, also for an unknown unit."""
    metadata, metrics = fields.obj(record, "metadata"), fields.obj(record, "metrics")
    latency = _seconds(metrics, "request_latency")
    if latency is None:
        raise RefusalError("request_latency is missing")
    gaps, gap_unit = _gaps(fields.obj(metrics, "inter_chunk_latency"))
    return Times(
        start=fields.required(metadata, "request_start_ns") * 1e-9,
        ttft=_seconds(metrics, "time_to_first_token"),
        e2el=latency,
        gaps=gaps,
        gap_unit=gap_unit,
        input_tokens=_count(metrics, "usage_prompt_tokens"),
        output_tokens=_count(metrics, "usage_completion_tokens"),
        input_encoded=_count(metrics, "input_sequence_length"),
        output_encoded=_count(metrics, "output_sequence_length"),
    )


def _seconds(metrics: Mapping[str, Any], tag: str) -> float | None:
    metric = fields.obj(metrics, tag)
    value = fields.number({tag: metric.get("value")}, tag)
    return None if value is None else value * seconds_in(metric.get("unit"), tag)


def _count(metrics: Mapping[str, Any], tag: str) -> int | None:
    return fields.count({tag: fields.obj(metrics, tag).get("value")}, tag)


def _gaps(metric: Mapping[str, Any]) -> tuple[list[float], float]:
    """The gaps and how many seconds their unit has; an answer of one chunk has none."""
    values = fields.items(metric, "value")
    if not values:
        return [], 1.0
    return values, seconds_in(metric.get("unit"), "inter_chunk_latency")
