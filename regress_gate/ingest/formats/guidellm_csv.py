"""GuideLLM's CSV reports: a row for each benchmark. Up to 0.3 there is one row of headings, from 0.4 on three.

The headings are those of the first benchmark alone, and a column is left out if its sum is 0, so rows of another length
are refused. The meaning of the numbers is in guidellm_cell.py.
"""

import csv
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from regress_gate.ingest import fields
from regress_gate.ingest.formats.guidellm_cell import (
    Cell,
    Era,
    RequestedLoad,
    era_of,
    guidellm_workload,
    report_version,
)
from regress_gate.ingest.table import MAX_LINE
from regress_gate.measurement.plausibility import RefusalError
from regress_gate.text import plural, quoted

_EARLY = re.compile(r'\A"?Type"?,"?Run Id"?,"?Id"?,"?Name"?,')
_LATER = re.compile(r'\A"?Run Info"?,"?Run Info"?,')
_NUMBER = re.compile(r"-?\d{1,30}(?:\.\d{1,30})?(?:[eE][-+]?\d{1,3})?")
_LISTED = {"p90": 7, "p95": 8, "p99": 9}
"""Positions in the list of percentiles: min, 0.1, 1, 5, 10, 25, 75, 90, 95, 99, max."""
_LISTED_LENGTH = 11

_EARLY_NAMES = {
    "ttft": ("Successful Time to first token ms", 1e-3),
    "tpot": ("Successful Inter token latency ms", 1e-3),
    "own_tpot": ("Successful Time per output token ms", 1e-3),
    "e2el": ("Successful Request latency", 1.0),
    "request_throughput": ("Successful Requests per second", 1.0),
    "output_throughput": ("Successful Output tokens per second", 1.0),
    "total_throughput": ("Successful Tokens per second", 1.0),
    "input_tokens": ("Successful Prompt token count", 1.0),
    "output_tokens": ("Successful Output token count", 1.0),
}
_EARLY_LIST = "[min, 0.1, 1, 5, 10, 25, 75, 90, 95, 99, max]"
_LATER_NAMES = {
    "ttft": ("Time to First Token", "Successful ms", 1e-3),
    "tpot": ("Inter Token Latency", "Successful ms", 1e-3),
    "own_tpot": ("Time per Output Token", "Successful ms", 1e-3),
    "e2el": ("Request Latency", "Successful Sec", 1.0),
    "request_throughput": ("Server Throughput", "Successful Requests/Sec", 1.0),
    "output_throughput": ("Token Throughput", "Successful Output Tokens/Sec", 1.0),
    "total_throughput": ("Token Throughput", "Successful Total Tokens/Sec", 1.0),
    "input_tokens": ("Token Metrics", "Successful Input Tokens", 1.0),
    "output_tokens": ("Token Metrics", "Successful Output Tokens", 1.0),
}
_LATENCIES = ("ttft", "tpot", "own_tpot", "e2el")
_RATES = ("request_throughput", "output_throughput", "total_throughput")
_STRATEGY = re.compile(r"(\w+)(?:@(\d+(?:\.\d+)?))?(?:@unlimited)?")
Heading = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """One benchmark: values by heading, which has one part up to 0.3 and three later."""

    era: Era
    values: Mapping[Heading, str]
    problem: str | None = None
    """Why the row cannot be read; None if it can."""


def is_report(text: str) -> bool:
    return _EARLY.match(text) is not None or _LATER.match(text) is not None


def rows_of(text: str) -> Iterator[Row]:
    """The benchmarks, one at a time. Raises RefusalError if it is not CSV."""
    early = _EARLY.match(text) is not None
    lines = csv.reader(_lines(text), strict=True)
    try:
        titles = list(islice(lines, 1 if early else 3))
        if len({len(line) for line in titles}) != 1 or (not early and len(titles) != 3):
            raise RefusalError("its three rows of headings differ in length: cut off, or edited")
        headings: list[Heading] = list(zip(*titles, strict=True))
        for line in lines:
            if line:
                yield _row(Era.EARLY if early else Era.LATER, headings, line)
    except csv.Error as error:
        raise RefusalError(f"not valid CSV, or cut off: {error}") from None


def _lines(text: str) -> Iterator[str]:
    at = 0
    while at < len(text):
        end = text.find("\n", at) + 1 or len(text)
        if end - at > MAX_LINE:
            raise RefusalError(f"a line has more than {MAX_LINE:,} characters")
        yield text[at:end]
        at = end


def _row(era: Era, headings: list[Heading], line: list[str]) -> Row:
    if len(line) != len(headings):
        columns = f"{plural(len(line), 'column')} under {plural(len(headings), 'heading')}"
        return Row(era, {}, f"{columns}: GuideLLM writes those of the first benchmark alone; import the JSON report")
    values: dict[Heading, str] = {}
    for heading, value in zip(headings, line, strict=True):
        values.setdefault(heading, value)
    return Row(era, values)


def run_id(row: Row) -> str | None:
    return row.values.get(("Run Id",) if row.era is Era.EARLY else ("Run Info", "Run ID", "")) or None


def cell_of(row: Row, client_version: str | None) -> Cell:
    """Raises RefusalError if the row is not as GuideLLM writes it."""
    if row.problem is not None:
        raise RefusalError(row.problem)
    early = row.era is Era.EARLY
    metadata = {} if early else _object(row, ("Runtime Info", "Metadata", ""))
    client = report_version({"metadata": metadata})
    era = era_of(row.era, None if client else client_version)
    workload, notes = guidellm_workload(_asked_early(row) if early else _asked_later(row))
    counts = {
        name: _count(row, (f"{name} Requests",) if early else ("Request Counts", name, ""))
        for name in ("Successful", "Errored", "Incomplete")
    }
    if counts["Successful"] is None:
        raise RefusalError("how many requests succeeded is not stated")
    duration = _number(row, ("Duration",) if early else ("Timings", "Duration", "Sec"))
    if duration is None:
        raise RefusalError("Duration is missing")
    rates = {name: _mean(row, name) for name in _RATES}
    rates["goodput"] = _number(row, ("Server Throughput", "Successful Goodput/Sec", "mean"))
    trims = () if early else (("Timings", "Warmup", "Sec"), ("Timings", "Cooldown", "Sec"))
    return Cell(
        era=era,
        completed=counts["Successful"],
        errored=counts["Errored"] or 0,
        incomplete=counts["Incomplete"] or 0,
        duration=duration,
        trimmed=any((_number(row, heading) or 0) > 0 for heading in trims),
        statistics={family: _statistics(row, family) for family in _LATENCIES},
        rates={name: rate for name, rate in rates.items() if rate is not None},
        attainment=_number(row, ("Server Throughput", "SLO Attainment", "")),
        input_tokens=_mean(row, "input_tokens"),
        output_tokens=_mean(row, "output_tokens"),
        workload=workload,
        started=_started(row, ("Start Time",) if early else ("Timings", "Measure Start Time", "")),
        client=client,
        notes=(*notes, "a CSV report: the statistics are GuideLLM's own"),
    )


def _heading(row: Row, name: str, statistic: str) -> tuple[Heading, float]:
    """The heading of one statistic, and its factor to seconds or counts."""
    if row.era is Era.EARLY:
        title, scale = _EARLY_NAMES[name]
        last = _EARLY_LIST if statistic == "Percentiles" else statistic.lower()
        return (f"{title} {last}",), scale
    group, unit, scale = _LATER_NAMES[name]
    return (group, unit, statistic), scale


def _statistics(row: Row, family: str) -> dict[str, float]:
    statistics: dict[str, float] = {}
    for name in ("mean", "median"):
        heading, scale = _heading(row, family, name.capitalize())
        if (value := _number(row, heading)) is not None:
            statistics[name] = value * scale
    heading, scale = _heading(row, family, "Percentiles")
    if listed := _listed(row, heading):
        statistics |= {name: listed[place] * scale for name, place in _LISTED.items()}
    return statistics


def _listed(row: Row, heading: Heading) -> list[float]:
    values = _json(row, heading)
    if values is None:
        return []
    if not fields.is_list(values) or len(values) != _LISTED_LENGTH:
        raise RefusalError(f"{_told(heading)} is not a list of {_LISTED_LENGTH} numbers")
    return [fields.required({_told(heading): value}, _told(heading)) for value in values]


def _mean(row: Row, name: str) -> float | None:
    return _number(row, _heading(row, name, "Mean")[0])


def _number(row: Row, heading: Heading) -> float | None:
    text = row.values.get(heading, "").strip()
    if not text:
        return None
    if not _NUMBER.fullmatch(text):
        raise RefusalError(f"{_told(heading)} is {quoted(text)}, not a number")
    return fields.number({_told(heading): float(text)}, _told(heading))


def _count(row: Row, heading: Heading) -> int | None:
    return fields.count({_told(heading): _number(row, heading)}, _told(heading))


def _told(heading: Heading) -> str:
    return " ".join(part for part in heading if part)


def _json(row: Row, heading: Heading) -> Any:
    """The JSON value in a field; None if it is empty."""
    if not (text := row.values.get(heading, "").strip()):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise RefusalError(f"{_told(heading)} is not valid JSON: cut off, or edited") from None


def _object(row: Row, heading: Heading) -> Mapping[str, Any]:
    return fields.obj({_told(heading): _json(row, heading)}, _told(heading))


def _asked_early(row: Row) -> RequestedLoad:
    args = _object(row, ("Args",))
    return RequestedLoad(
        strategy=fields.obj(args, "strategy"),
        profile=fields.obj(args, "profile"),
        model=fields.text(_object(row, ("Worker",)), "backend_model"),
        constraints=args,
        data=_object(row, ("Request Loader",)).get("data"),
    )


def _asked_later(row: Row) -> RequestedLoad:
    profile = _object(row, ("Run Info", "Profile", ""))
    arguments = _object(row, ("Runtime Info", "Arguments", ""))
    return RequestedLoad(
        strategy=_strategy(row, profile),
        profile=profile,
        model=fields.text(_object(row, ("Run Info", "Backend", "")), "model"),
        constraints=_object(row, ("Benchmark", "Constraints", "")),
        data=fields.obj(arguments, "spec").get("data") or _object(row, ("Run Info", "Requests", "")).get("data"),
    )


def _strategy(row: Row, profile: Mapping[str, Any]) -> Mapping[str, Any]:
    """The step of the profile: 0.8 writes `concurrent@4`; up to 0.7 the number is in the profile."""
    match = _STRATEGY.fullmatch(row.values.get(("Benchmark", "Strategy", ""), ""))
    if match is None:
        return {}
    kind, number = match[1], match[2]
    key = "streams" if kind == "concurrent" else "rate"
    if number is not None:
        return {"type_": kind, key: float(number)}
    step = _count(row, ("Run Info", "Run Index", "")) or 0
    done = fields.items(profile, "completed_strategies")
    if step < len(done) and isinstance(done[step], dict) and done[step].get("type_") == kind:
        return {**done[step]}
    listed = profile.get(key)
    if fields.is_list(listed) and step < len(listed):
        return {"type_": kind, key: listed[step]}
    return {"type_": kind}


def _started(row: Row, heading: Heading) -> datetime | None:
    """The file's date. It has no time zone; it is taken as UTC, which may be off by the client's offset."""
    try:
        return datetime.strptime(row.values.get(heading, ""), "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
    except ValueError:
        return None
