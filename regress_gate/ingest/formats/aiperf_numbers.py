"""The numbers of an AIPerf or GenAI-Perf export, from its table of statistics or from its single requests."""

from collections.abc import Mapping
from typing import Any

from regress_gate.ingest import fields
from regress_gate.ingest.formats.aiperf_records import Records
from regress_gate.ingest.interface import RefusalError
from regress_gate.ingest.summary import Summary
from regress_gate.ingest.text import plural
from regress_gate.ingest.unit_table import UnitTable

FAMILIES = {
    "ttft": "time_to_first_token",
    "tpot": "inter_token_latency",
    "itl": "inter_chunk_latency",
    "e2el": "request_latency",
}
"""By catalogue family: what both tools call inter-token latency is (latency − ttft) / (tokens − 1) of one request."""


def latencies_of(table: UnitTable) -> dict[str, dict[str, float]]:
    """The statistics of the catalogue's families, in seconds."""
    return {family: found for family, tag in FAMILIES.items() if (found := table.seconds(tag))}


def of_table(
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
    return Summary(
        latencies=latencies,
        rates={name: rate for name, rate in rates.items() if rate is not None},
        completed=completed,
        failed=_failed(document, table),
        duration=duration_of(table),
        input_tokens=total_of(table, "input_sequence_length", completed),
        output_tokens=total_of(table, "output_sequence_length", completed),
        time_rounding=rounding,
        rate_rounding=rounding,
    )


def of_records(records: Records, latencies: dict[str, dict[str, float]], duration: float | None) -> Summary:
    gathered = records.gathered
    input_tokens, output_tokens = sum(gathered.input_tokens), sum(gathered.output_tokens)
    duration = max(records.last - records.first, 0.0) if duration is None else duration
    counts = {
        "request_throughput": len(gathered),
        "output_throughput": output_tokens,
        "total_throughput": input_tokens + output_tokens,
    }
    return Summary(
        latencies=latencies,
        rates={name: counted / duration for name, counted in counts.items() if counted} if duration > 0 else {},
        completed=len(gathered),
        failed=gathered.failed,
        duration=duration if len(gathered) else None,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
    )


def duration_of(table: UnitTable) -> float | None:
    """Seconds; where it is not stated, from the requests and their rate, which the tool makes of it."""
    if stated := table.seconds("benchmark_duration"):
        return stated["mean"]
    completed, rate = table.count("request_count"), table.rate("request_throughput")
    return completed / rate if completed and rate and rate > 0 else None


def total_of(table: UnitTable, tag: str, completed: int | None) -> float | None:
    mean = table.value(tag)
    return None if mean is None or completed is None else mean * completed


def _failed(document: Mapping[str, Any], table: UnitTable) -> int | None:
    """The tool leaves the count out where there are none; its list of errors is then empty."""
    if (stated := table.count("error_request_count")) is not None:
        return stated
    if not isinstance(errors := document.get("error_summary"), list):
        return 0 if table.value("request_error_rate") == 0 else None
    return sum(fields.count(error, "count") or 0 for error in errors if isinstance(error, dict))


def is_counted_by_server(table: UnitTable) -> bool:
    """Whether the statistics rest on the server's count of tokens, or on one that is the same."""
    totals = table.value("total_usage_completion_tokens"), table.value("total_osl")
    return totals[0] is not None and totals[0] == totals[1]


def missing_requests(table: UnitTable, records: Records) -> str | None:
    """What is wrong with the number of requests; None where all are there."""
    completed = table.count("request_count")
    if completed is None or len(records.gathered) == completed:
        return None
    return f"holds {len(records.gathered)} of {plural(completed, 'request')}"


def check_failures(stated: int | None, records: Records) -> None:
    """The statistics may count the requests that the client cancelled as failures, or not."""
    counted = records.gathered.failed
    if stated is not None and not counted <= stated <= counted + records.cancelled:
        raise RefusalError(f"the statistics say that {stated} requests failed, the requests {counted}: edited or cut")
