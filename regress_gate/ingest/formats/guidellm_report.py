"""GuideLLM's JSON and YAML reports, 0.2 to 0.8, to cells: one for each benchmark in the list.

Up to 0.3 a benchmark has `args`, `worker`, `request_loader` and `run_stats`; from 0.4 on `config` and
`scheduler_metrics`. Not for what the numbers mean, which is in guidellm_cell.py.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from regress_gate.ingest import fields
from regress_gate.ingest.formats.guidellm_cell import Cell, Era, era_of
from regress_gate.ingest.formats.guidellm_workload import Asked, workload_of
from regress_gate.ingest.interface import RefusalError
from regress_gate.ingest.single_requests import Request
from regress_gate.ingest.text import clean, plural

_FAMILIES = {
    "ttft": ("time_to_first_token_ms", 1e-3),
    "tpot": ("inter_token_latency_ms", 1e-3),
    "own_tpot": ("time_per_output_token_ms", 1e-3),
    "e2el": ("request_latency", 1.0),
}
_RATES = {
    "request_throughput": "requests_per_second",
    "output_throughput": "output_tokens_per_second",
    "total_throughput": "tokens_per_second",
    "goodput": "request_goodput",
}
_PERCENTILES = ("p90", "p95", "p99")
Object = Mapping[str, Any]


def is_report(document: object) -> bool:
    """Whether a parsed file is a report of GuideLLM, usable or not."""
    if not isinstance(document, dict) or not isinstance(runs := document.get("benchmarks"), list):
        return False
    if isinstance(metadata := document.get("metadata"), dict) and "guidellm_version" in metadata:
        return True
    first = runs[0] if runs else None
    return isinstance(first, dict) and (
        first.get("type_") == "generative_benchmark" or "scheduler_metrics" in first or "run_stats" in first
    )


def version_of(report: Object) -> str | None:
    """The release that wrote the report, as the file says; none before 0.5 does."""
    version = fields.text(fields.obj(report, "metadata"), "guidellm_version")
    return None if version is None else f"guidellm {clean(version, 60)}"


def run_ids(report: Object) -> set[str]:
    """By which the same run is recognised in a report of another format."""
    found = {run_id(benchmark) for benchmark in fields.items(report, "benchmarks")}
    return {run for run in found if run is not None}


def run_id(benchmark: object) -> str | None:
    if not isinstance(benchmark, dict):
        return None
    config = benchmark.get("config")
    found = benchmark.get("run_id") or (config.get("run_id") if isinstance(config, dict) else None)
    return found if isinstance(found, str) else None


def cell_of(report: Object, benchmark: Object, client_version: str | None) -> Cell:
    """Raises RefusalError where the benchmark is not as GuideLLM writes it."""
    if "type_" not in benchmark:  # in YAML it stands behind everything that is read
        raise RefusalError("type_ is missing: the file was cut off, or edited")
    era = _era(benchmark, None if version_of(report) else client_version)
    metrics = fields.obj(benchmark, "metrics")
    totals = _totals(benchmark, metrics)
    completed = fields.count(totals, "successful")
    if completed is None:
        raise RefusalError("how many requests succeeded is not stated (request_totals)")
    workload, notes = workload_of(_asked(report, benchmark))
    listed = fields.items(fields.obj(benchmark, "requests"), "successful")
    requests = _measured(benchmark, listed, era)
    if requests is not None and len(requests) != completed:
        requests = None
    if requests is None:
        notes.append(
            f"holds the times of {len(listed)} of {plural(completed, 'request')}: the statistics are GuideLLM's own"
        )
    return Cell(
        era=era,
        completed=completed,
        errored=fields.count(totals, "errored") or 0,
        incomplete=fields.count(totals, "incomplete") or 0,
        duration=fields.required(benchmark, "duration"),
        trimmed=any((fields.number(benchmark, key) or 0) > 0 for key in ("warmup_duration", "cooldown_duration")),
        statistics={family: _statistics(metrics, key, scale) for family, (key, scale) in _FAMILIES.items()},
        rates={name: rate for name, key in _RATES.items() if (rate := _mean(metrics, key)) is not None},
        input_tokens=_mean(metrics, "prompt_token_count"),
        output_tokens=_mean(metrics, "output_token_count"),
        workload=workload,
        requests=requests,
        started=_started(benchmark),
        client=version_of(report),
        notes=tuple(notes),
    )


def _era(benchmark: Object, client_version: str | None) -> Era:
    early, later = "run_stats" in benchmark and "worker" in benchmark, "config" in benchmark
    by_layout = Era.EARLY if early and not later else Era.LATER if later and not early else Era.UNKNOWN
    return era_of(by_layout, client_version)


def _totals(benchmark: Object, metrics: Object) -> Object:
    """Requests by outcome: of the measured time where that is stated, else of all."""
    places = (
        fields.obj(metrics, "request_totals"),
        fields.obj(benchmark, "request_totals"),
        fields.obj(fields.obj(benchmark, "scheduler_metrics"), "requests_made"),
        fields.obj(fields.obj(benchmark, "run_stats"), "requests_made"),
    )
    return next((place for place in places if place), {})


def _asked(report: Object, benchmark: Object) -> Asked:
    config, args = fields.obj(benchmark, "config"), fields.obj(benchmark, "args")
    source = config or args
    spec = fields.obj(fields.obj(report, "config"), "spec")
    model = fields.text(fields.obj(config, "backend"), "model")
    return Asked(
        strategy=fields.obj(source, "strategy"),
        profile=fields.obj(source, "profile"),
        model=model or fields.text(fields.obj(benchmark, "worker"), "backend_model"),
        constraints=fields.obj(config, "constraints") or args,
        data=spec.get("data")
        or fields.obj(config, "requests").get("data")
        or fields.obj(benchmark, "request_loader").get("data"),
    )


def _statistics(metrics: Object, key: str, scale: float) -> dict[str, float]:
    """Of the requests that succeeded; empty where there was nothing to count, which is written as zeros."""
    summary = fields.obj(fields.obj(metrics, key), "successful")
    if fields.number(summary, "count") == 0:
        return {}
    percentiles = fields.obj(summary, "percentiles")
    found = {name: fields.number(summary, name) for name in ("mean", "median")}
    found |= {name: fields.number(percentiles, name) for name in _PERCENTILES}
    return {name: value * scale for name, value in found.items() if value is not None}


def _mean(metrics: Object, key: str) -> float | None:
    return fields.number(fields.obj(fields.obj(metrics, key), "successful"), "mean")


def _measured(benchmark: Object, entries: Sequence[Any], era: Era) -> list[Request] | None:
    """The requests of the measured time; None where one of them lacks its times."""
    if era is Era.UNKNOWN:
        return None
    start, end = fields.number(benchmark, "start_time"), fields.number(benchmark, "end_time")
    requests = []
    for entry in entries:
        if not isinstance(entry, dict):
            raise RefusalError("requests.successful is not a list of objects")
        if era is Era.LATER and start is not None and end is not None and not _is_within(entry, start, end):
            continue
        if (request := (early_request if era is Era.EARLY else later_request)(entry)) is None:
            return None
        requests.append(request)
    return requests


def _is_within(entry: Object, start: float, end: float) -> bool:
    """By the tool's own rule for what belongs to the time between warm-up and cool-down."""
    began, ended = fields.number(entry, "request_start_time"), fields.number(entry, "request_end_time")
    return (ended is None or ended >= start) and (began is None or began <= end)


def early_request(entry: Object) -> Request | None:
    """A request of a report of 0.2 or 0.3; None where its times or its tokens are not stated."""
    return _request(entry, *(fields.number(entry, f"{key}_time") for key in ("start", "first_token", "last_token")))


def later_request(entry: Object) -> Request | None:
    """A request of a report of 0.4 or later; None where its times or its tokens are not stated."""
    times = fields.obj(fields.obj(entry, "info"), "timings")
    keys = ("request_start", "first_token_iteration", "last_token_iteration")
    return _request(entry, *(fields.number(times, key) for key in keys))


def _request(entry: Object, start: float | None, first: float | None, last: float | None) -> Request | None:
    tokens = fields.count(entry, "prompt_tokens"), fields.count(entry, "output_tokens")
    if start is None or first is None or last is None or tokens[0] is None or not tokens[1]:
        return None
    # GuideLLM keeps no gaps between chunks.
    return Request(start, first - start, last - start, (), tokens[0], tokens[1])


def _started(benchmark: Object) -> datetime | None:
    try:
        start = fields.number(benchmark, "start_time")
        return None if start is None else datetime.fromtimestamp(start, UTC)
    except (OverflowError, ValueError, OSError):
        raise RefusalError(f"start_time {benchmark['start_time']:g} is no time") from None
