"""Results of `evalscope perf`: benchmark_summary.json, with the percentiles and arguments beside it.

The unit is part of each key and has changed over time, so it is taken from the key. The database beside them holds
pickles and is never opened.
"""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from regress_gate.ingest import fields
from regress_gate.ingest.content import Content
from regress_gate.ingest.interface import Certainty, Context, FileOutcome, Generation, Reading, UnusedResult
from regress_gate.measurement.plausibility import RefusalError, Summary, checked_metrics
from regress_gate.text import excerpt, quoted

PERCENTILES = "benchmark_percentile.json"

_UNITS = {"s": 1.0, "ms": 1e-3}
_WITH_UNIT = re.compile(r"(.+) \((.+)\)")
_FAMILY = {"Latency": "e2el", "TTFT": "ttft", "TPOT": "tpot", "ITL": "itl"}
_AVERAGE = {
    "Avg Latency": "e2el",
    "Average latency": "e2el",
    "Avg TTFT": "ttft",
    "Average time to first token": "ttft",
    "Avg TPOT": "tpot",
    "Average time per output token": "tpot",
    "Avg ITL": "itl",
    "Average inter-token latency": "itl",
}
_PERCENT = {"50%": "median", "90%": "p90", "95%": "p95", "99%": "p99"}


def averages(data: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Means in seconds by family. Raises RefusalError."""
    means: dict[str, dict[str, float]] = {}
    for key in data:
        name, factor = _unit(key, _AVERAGE)
        if name is not None and (value := fields.number(data, key)) is not None:
            means[name] = {"mean": value * factor}
    return means


def percentiles(document: Any, notes: list[str]) -> dict[str, dict[str, float]]:
    """By family and statistic, in seconds; also `min`, which is 0 if some request had no text."""
    rows = _rows(document)
    if not rows:
        notes.append(f"no {PERCENTILES} beside it: means only")
        return {}
    statistics: dict[str, dict[str, float]] = {}
    for row in rows:
        label = row.get("Percentiles")
        statistic = "min" if label == "min" else _PERCENT.get(label) if isinstance(label, str) else None
        if statistic is None:
            continue
        for key, value in row.items():
            name, factor = _unit(key, _FAMILY)
            # evalscope writes NaN for an empty set of requests.
            if name is None or (isinstance(value, float) and math.isnan(value)):
                continue
            if (number := fields.number(row, key)) is not None:
                statistics.setdefault(name, {})[statistic] = number * factor
    return statistics


def _rows(document: Any) -> list[Mapping[str, Any]]:
    """The percentile file as rows; older files are an object of columns."""
    if isinstance(document, dict):
        columns = {key: value for key, value in document.items() if fields.is_list(value)}
        height = {len(column) for column in columns.values()}
        if len(height) != 1:
            raise RefusalError(f"the columns of {PERCENTILES} have different lengths")
        return [{key: column[row] for key, column in columns.items()} for row in range(height.pop())]
    return [row for row in document if isinstance(row, dict)] if fields.is_list(document) else []


def _unit(key: object, names: Mapping[str, str]) -> tuple[str | None, float]:
    """The name in a key with a unit, and the factor to seconds; (None, 0) for other keys."""
    if not isinstance(key, str) or (match := _WITH_UNIT.fullmatch(key)) is None or match[1] not in names:
        return None, 0.0
    if match[2] not in _UNITS:
        raise RefusalError(f"{quoted(key)} is in an unknown unit")
    return names[match[1]], _UNITS[match[2]]


SUMMARY = "benchmark_summary.json"
ARGUMENTS = "benchmark_args.json"

_RATES = {
    "request_throughput": ("Req Throughput (req/s)", "Request throughput (req/s)"),
    "output_throughput": ("Output Throughput (tok/s)", "Output token throughput (tok/s)"),
    "total_throughput": ("Total Throughput (tok/s)", "Total token throughput (tok/s)"),
}
_STREAMED = ("ttft", "tpot", "itl")
_MADE_UP = "random"
_NOTHING: Mapping[str, Any] = {}


class Evalscope:
    name = "evalscope"
    tool = "evalscope perf"
    bare_constants = True
    generations = (
        Generation(
            "0.17",
            "`Average package latency (s)`",
            "ttft, itl, e2el, rates, failures",
            "its time per output token is one of chunks: kept apart as unclear_tpot",
        ),
        Generation(
            "1.0",
            "keys in seconds: `Average time to first token (s)`",
            "ttft, tpot, itl, e2el, rates, failures; p90, p95, p99 from benchmark_percentile.json beside it",
            "times are rounded to 0.1 ms; percentiles may be columns or rows",
        ),
        Generation(
            "1.14",
            "keys in milliseconds: `Avg TTFT (ms)`; latency stays in seconds",
            "the same",
            "its first token is the first chunk with text; a ttft of 0 means that none was seen: ttft and tpot are "
            "left out then",
        ),
        Generation("benchmark_args.json, benchmark_percentile.json", "their keys", "with the summary beside them"),
    )

    def recognises(self, content: Content) -> Certainty:
        if len(content.documents) != 1:
            return Certainty.NO
        document = content.documents[0]
        return Certainty.SURE if _is_summary(document) or _companion(document) else Certainty.NO

    def read(self, content: Content, context: Context) -> Sequence[Reading | UnusedResult]:
        document = content.documents[0] if len(content.documents) == 1 else None
        if what := _companion(document):
            summary = _beside(context, SUMMARY)
            if _is_summary(summary):
                return [
                    UnusedResult(0, FileOutcome.SKIPPED, f"{what} of the {SUMMARY} beside it, which is read with it")
                ]
            return [
                UnusedResult(0, FileOutcome.REFUSED, f"{what} without the {SUMMARY} that it belongs to; import both")
            ]
        if not isinstance(document, dict) or not _is_summary(document):
            raise RefusalError(f"not evalscope's {SUMMARY}")
        return [_reading(document, context)]


def _is_summary(document: object) -> bool:
    return isinstance(document, dict) and any(
        key in document for key in ("Number of concurrency", "Average latency (s)", "Avg Latency (s)")
    )


def _companion(document: object) -> str | None:
    """What a file beside the summary is; None for other files."""
    if isinstance(document, dict):
        if fields.is_list(document.get("Percentiles")):
            return "the percentiles"
        if {"parallel", "number", "outputs_dir", "api"} <= document.keys():
            return "the arguments"
        if {"wall_start", "points"} <= document.keys():
            return "the timeline"
        if {"n_samples", "wall_time_s", "rows"} <= document.keys():
            return "the throughput over time"
    elif fields.is_list(document) and document and isinstance(document[0], dict):
        if "Percentiles" in document[0]:
            return "the percentiles"
        if "Speed(tokens/s)" in document[0]:
            return "a table of speeds"
    return None


def _beside(context: Context, name: str) -> Any:
    content = context.beside(name)
    return content.documents[0] if content is not None and len(content.documents) == 1 else None


def _reading(data: Mapping[str, Any], context: Context) -> Reading:
    document = _beside(context, ARGUMENTS)
    arguments = document if isinstance(document, dict) else _NOTHING
    notes: list[str] = []
    latencies = averages(data)
    for family, statistics in percentiles(_beside(context, PERCENTILES), notes).items():
        latencies.setdefault(family, {}).update(statistics)
    _leave_out_unseen(data, arguments, latencies, notes)
    packages = "Average package latency (s)" in data
    if packages and "tpot" in latencies:
        latencies["unclear_tpot"] = latencies.pop("tpot")
    completed = _either(data, fields.count, "Success Requests", "Succeed requests")
    if completed is None:
        raise RefusalError("Success Requests is missing: how many requests succeeded is not known")
    failed = _either(data, fields.count, "Failed Requests", "Failed requests")
    duration = _either(data, fields.number, "Test Duration (s)", "Time taken for tests (s)")
    workload = _workload(data, arguments)
    tokens = {
        name: None if (mean := workload.get(f"mean_{name}_tokens")) is None else mean * completed
        for name in ("input", "output")
    }
    milliseconds = "Avg TTFT (ms)" in data
    metrics, more = checked_metrics(
        Summary(
            latencies=latencies,
            rates={
                name: rate for name, keys in _RATES.items() if (rate := _either(data, fields.number, *keys)) is not None
            },
            completed=completed,
            failed=failed,
            duration=duration,
            input_tokens=tokens["input"],
            output_tokens=tokens["output"],
            max_concurrency=workload.get("max_concurrency"),
            time_rounding=0.05,
            rate_rounding=5e-5,
        )
    )
    return Reading(
        position=0,
        completed=completed,
        failed=failed or 0,
        duration=duration,
        metrics=metrics,
        workload=workload,
        definitions="evalscope-0.17" if packages else "evalscope-1.14" if milliseconds else "evalscope-1.0",
        notes=(*notes, *more),
    )


def _leave_out_unseen(
    data: Mapping[str, Any],
    arguments: Mapping[str, Any],
    latencies: dict[str, dict[str, float]],
    notes: list[str],
) -> None:
    """Drop what was not measured: the time to first token of answers that were not streamed or had no text."""
    streamed = _either(data, fields.count, "Stream Requests")
    gone: tuple[str, ...]
    lowest = {family: statistics.pop("min", None) for family, statistics in latencies.items()}
    if arguments.get("stream") is False or streamed == 0:
        gone, why = _STREAMED, "answers were not streamed"
    elif "ttft" in latencies and (lowest.get("ttft") == 0 or 0 in latencies["ttft"].values()):
        gone, why = ("ttft", "tpot"), "evalscope saw no text in some answers and counts their ttft as 0"
    else:
        return
    if left_out := [family for family in gone if latencies.pop(family, None)]:
        notes.append(f"{', '.join(left_out)} left out: {why}")


def _workload(data: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    workload: dict[str, Any] = {}
    if (model := fields.text(arguments, "model_id") or fields.text(arguments, "model")) is not None:
        workload["model"] = excerpt(model)
    rate = _either(data, fields.number, "Request Rate (req/s)")
    rate = fields.number(arguments, "rate") if rate is None else rate
    if rate is not None:
        if rate <= 0 and rate != -1:
            raise RefusalError(f"the request rate is {rate:g}, neither positive nor -1 (unlimited)")
        workload["request_rate"] = None if rate == -1 else rate
    limit = _either(data, fields.count, "Concurrency", "Number of concurrency")
    if limit is not None and arguments.get("open_loop") is not True:
        workload["max_concurrency"] = limit
    total = _either(data, fields.count, "Total Requests", "Total requests")
    if total is not None and arguments.get("duration") is None:
        workload["num_prompts"] = total
    for name, keys in (
        ("mean_input_tokens", ("Avg Input Tokens", "Average input tokens per request")),
        ("mean_output_tokens", ("Avg Output Tokens", "Average output tokens per request")),
    ):
        if (mean := _either(data, fields.number, *keys)) is not None:
            workload[name] = mean
    if (dataset := fields.text(arguments, "dataset")) is not None:
        workload["dataset"] = excerpt(dataset)
    for fixed, low, high in (
        ("input_len", "min_prompt_length", "max_prompt_length"),
        ("output_len", "min_tokens", "max_tokens"),
    ):
        limits = fields.count(arguments, low), fields.count(arguments, high)
        if limits[1] is not None and limits[0] == limits[1]:
            workload[fixed] = limits[1]
        elif fixed == "output_len" or dataset == _MADE_UP:
            # With other datasets the lengths are a filter with defaults.
            named = {f"min_{fixed}": limits[0], f"max_{fixed}": limits[1]}
            workload |= {name: length for name, length in named.items() if length is not None}
    if dataset == _MADE_UP and (prefix := fields.count(arguments, "prefix_length")):
        workload["prefix_len"] = prefix
    return workload


def _either(data: Mapping[str, Any], read: Any, *keys: str) -> Any:
    """The value of the first key that exists."""
    return next((value for key in keys if (value := read(data, key)) is not None), None)
