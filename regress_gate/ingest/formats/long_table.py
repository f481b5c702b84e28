"""The long table, a format of regress-gate: one value a row, for results of tools that no other reader reads.

CSV with a header, a JSON list of objects, or one JSON object a line:

    version,testbed,scenario,run,trial,metric,value,unit,completed,max_concurrency,model
    0.19.1,h100-lab,chat,a,1,ttft_mean,51.2,ms,200,8,llama-8b
    0.19.1,h100-lab,chat,a,1,request_throughput,3.9,req/s,200,8,llama-8b

`metric` and `value` are required. All columns are listed below; flags give what is left out, as for any other file.
Rows with the same version, testbed, suite, scenario, run and trial are one result and must agree in all columns but
metric, value and unit. Metrics are named as in the catalogue (model/metric.py) and have vLLM's definitions unless
`definitions` is given. A row without a unit is in that of the catalogue: seconds, 1/s, bytes, fractions.
`regress-gate report --format long` writes this table with the same columns.
"""

import json
import math
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from regress_gate.errors import InputError
from regress_gate.ingest import fields, table
from regress_gate.ingest.content import Content
from regress_gate.ingest.interface import (
    MAX_RESULTS,
    Certainty,
    Context,
    Generation,
    Reading,
    UnusedResult,
    read_documents,
)
from regress_gate.measurement.plausibility import RefusalError, Summary, checked_metrics
from regress_gate.model.metric import DEFINITIONS, LATENCIES, METRICS, OTHER_LATENCIES, STATISTICS, Metric, metric
from regress_gate.text import did_you_mean, excerpt, quoted

IDENTITY_COLUMNS = ("version", "testbed", "accelerator", "suite", "scenario", "run", "trial", "started", "client")
"""`suite` is NAME@VERSION; `trial` counts from 1; `started` is ISO 8601 with a time zone. Empty: not stated."""
VALUE_COLUMNS = ("metric", "value", "unit")
COUNT_COLUMNS = ("completed", "failed", "duration")
"""Requests that succeeded, requests that failed, seconds of wall time."""
WORKLOAD_COLUMNS = (
    "model",
    "request_rate",
    "max_concurrency",
    "num_prompts",
    "burstiness",
    "mean_input_tokens",
    "mean_output_tokens",
    "input_len",
    "output_len",
    "dataset",
)
"""`inf` in request_rate or max_concurrency: without limit."""
DEFINITIONS_COLUMN = "definitions"
"""A key of model.metric_definitions; empty: vLLM's own."""
ALL_COLUMNS = (*IDENTITY_COLUMNS, *VALUE_COLUMNS, *COUNT_COLUMNS, *WORKLOAD_COLUMNS, DEFINITIONS_COLUMN)
WORKLOAD_PREFIX = "workload."
"""Prefix of columns with other parameters of the workload; their cells are JSON values or plain text."""
UNLIMITED = "inf"
_FORMULA = re.compile(r"'*[=+\-@\t\r]")
TEXT_COLUMNS = ("model", "dataset")

_UNITS: dict[str, dict[str, float]] = {
    "s": {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9, "min": 60.0},
    "1/s": {"1/s": 1.0, "req/s": 1.0, "requests/s": 1.0, "tok/s": 1.0, "tokens/s": 1.0},
    "bytes": {"bytes": 1.0, "B": 1.0, "MB": 1e6, "GB": 1e9, "MiB": 2.0**20, "GiB": 2.0**30},
    "tokens": {"tokens": 1.0},
    "fraction": {"fraction": 1.0, "%": 0.01, "percent": 0.01},
}


def quote_cell(text: str) -> str:
    """A text for a spreadsheet: one that begins like a formula, which it would run, gets a quote before it."""
    return f"'{text}" if _FORMULA.match(text) else text


def unquote_cell(cell: str) -> str:
    """The inverse of `quote_cell`."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell


def unit_factor(metric: Metric, unit: str) -> float:
    """Factor from the unit of a row to that of the catalogue; an empty unit is the catalogue's. Raises RefusalError."""
    known = _UNITS[metric.unit]
    if unit == "":
        return 1.0
    if unit not in known:
        raise RefusalError(f"{metric.name} is in {quoted(unit)}, write one of {', '.join(known)}")
    return known[unit]


_RATES = ("request_throughput", "output_throughput", "total_throughput", "goodput")
_TOLERANCE = 1e-6
_NAME = re.compile(r"[a-z0-9_]{1,80}")


def metrics_from_rows(
    rows: Iterable[tuple[str, float | None, str]],
    *,
    completed: int | None,
    failed: int | None,
    duration: float | None,
    max_concurrency: float | None,
) -> tuple[dict[str, float], list[str]]:
    """Metrics by catalogue name in its units, and notes.

    `rows`: metric, value and unit. Raises RefusalError for unknown metrics and units, impossible values, and duplicate
    metrics.
    """
    values: dict[str, float] = {}
    for name, value, unit in rows:
        definition = _metric(name)
        if value is None:
            raise RefusalError(f"{name} has no value")
        if definition.name in values:
            raise RefusalError(f"{name} is there twice in one result; distinguish results by scenario, run or trial")
        values[definition.name] = _checked(definition, value * unit_factor(definition, unit))
    latencies: dict[str, dict[str, float]] = {}
    rest: dict[str, float] = {}
    for name, value in values.items():
        family, _, statistic = name.rpartition("_")
        if statistic in STATISTICS and (family in LATENCIES or family in OTHER_LATENCIES):
            latencies.setdefault(family, {})[statistic] = value
        elif name not in _RATES:
            rest[name] = value
    metrics, notes = checked_metrics(
        Summary(
            latencies=latencies,
            rates={name: values[name] for name in _RATES if name in values},
            others=rest,
            completed=completed,
            failed=failed,
            duration=duration,
            max_concurrency=max_concurrency,
        )
    )
    stated = rest.get("failed_requests")
    if stated is not None and abs(metrics["failed_requests"] - stated) > _TOLERANCE:
        raise RefusalError(f"failed_requests says {stated:g}, the counts say {metrics['failed_requests']:g}")
    return metrics, notes


def _metric(name: str) -> Metric:
    if not _NAME.fullmatch(name):
        raise RefusalError(f"unknown metric {quoted(name)}" + did_you_mean(excerpt(name, 80), METRICS))
    try:
        return metric(name)
    except InputError as error:
        raise RefusalError(str(error)) from None


def _checked(definition: Metric, value: float) -> float:
    if value < 0 or (definition.unit == "fraction" and value > 1):
        raise RefusalError(f"{definition.name} is {value:g} {definition.unit}, which cannot be")
    return value


Row = Mapping[str, Any]
_KEY = ("version", "testbed", "suite", "scenario", "run", "trial")
_METADATA = {"version": "vllm_version", "client": "client_version"}
_LIMITS = ("request_rate", "max_concurrency")
_LONGEST_HEADER = 4096
MAX_CELLS = 5_000_000
"""Of one CSV file: 400,000 rows of 12 columns."""


class LongTable:
    name = "long-table"
    tool = "a table"
    bare_constants = False
    generations = (
        Generation(
            "CSV",
            "a header with `metric` and `value`",
            "every metric of the catalogue, one a row, with identity, counts and workload in further columns",
            "a row without a unit is in the catalogue's (s, 1/s, bytes, fraction); unknown metrics, units and columns "
            "are refused",
        ),
        Generation("JSON", "a list of objects, or one a line, with `metric` and `value`", "the same", "the same"),
    )

    def recognises(self, content: Content) -> Certainty:
        if content.text is not None:
            header = content.text[:_LONGEST_HEADER].lstrip("\r\n").split("\n", 1)[0]
            delimiter = max(table.DELIMITERS, key=header.count)
            cells = {cell.strip(' "\r') for cell in header.split(delimiter)}
            return Certainty.LIKELY if {"metric", "value"} <= cells else Certainty.NO
        first = next(_objects(content.documents), None)
        return Certainty.LIKELY if _is_row(first) else Certainty.NO

    def read(self, content: Content, context: Context) -> Sequence[Reading | UnusedResult]:  # noqa: ARG002
        groups: dict[tuple[str, ...], _Result] = {}
        for row in _csv_rows(content) if content.text is not None else _objects(content.each()):
            if not _is_row(row):
                raise RefusalError("a row is not an object with metric and value")
            _check_columns(row)
            key = tuple(sys.intern(_plain(row.get(name))) for name in _KEY)
            groups.setdefault(key, _Result()).add(row)
            if len(groups) > MAX_RESULTS:
                break  # read_documents refuses it
        if not groups:
            raise RefusalError("it has no rows")
        return read_documents(groups.values(), _reading)


@dataclass(slots=True)
class _Result:
    """The rows of one result. What they have in common is kept once: a file may have millions of rows."""

    same: dict[str, Any] = field(default_factory=dict)
    """What they state besides their value; an empty cell states nothing."""
    values: list[tuple[str, Any, str]] = field(default_factory=list)
    """Metric, value and unit."""
    problem: str | None = None
    """Where two rows contradict each other."""

    def add(self, row: Row) -> None:
        self.values.append((sys.intern(row["metric"]), row["value"], sys.intern(_plain(row.get("unit")))))
        for name, cell in row.items():
            if name in VALUE_COLUMNS or cell is None or (known := self.same.setdefault(name, cell)) == cell:
                continue
            self.problem = self.problem or (
                f"{name} is {quoted(known)} and {quoted(cell)} in rows of one result; "
                "distinguish results by scenario, run or trial"
            )


def _objects(documents: Iterable[Any]) -> Iterator[Any]:
    for document in documents:
        yield from document if fields.is_list(document) else [document]


def _csv_rows(content: Content) -> Iterator[Row]:
    """Rows with text in their cells; empty cells are left out, and cells of workload columns are parsed as JSON.

    The quote before a text like a formula, which `report --format long` writes for spreadsheets, is removed.
    """
    rows = table.csv_rows(content.text or "", excerpt(content.name), max_cells=MAX_CELLS)
    try:
        names = [sys.intern(name) for name in next(rows, (0, []))[1]]
        for _, cells in rows:
            row = {name: unquote_cell(cell) for name, each in zip(names, cells, strict=True) if (cell := each.strip())}
            yield {name: _value(cell) if name.startswith(WORKLOAD_PREFIX) else cell for name, cell in row.items()}
    except InputError as error:
        raise RefusalError(str(error)) from None


def _value(cell: str) -> Any:
    """`8`, `true` and `"8"` are parsed as JSON; any other text is kept."""
    try:
        return json.loads(cell)
    except (ValueError, RecursionError):
        return cell


def _is_row(row: object) -> bool:
    return isinstance(row, dict) and isinstance(row.get("metric"), str) and "value" in row


def _check_columns(row: Row) -> None:
    for name in row:
        if name not in ALL_COLUMNS and not name.startswith(WORKLOAD_PREFIX):
            raise RefusalError(f"unknown column {quoted(name)}" + did_you_mean(excerpt(name, 60), ALL_COLUMNS))


def _plain(value: object) -> str:
    return "" if value is None else str(value)


def _reading(result: _Result, position: int) -> Reading:
    if result.problem is not None:
        raise RefusalError(result.problem)
    same = result.same
    numbers = {
        name: _number(same, name)
        for name in (*COUNT_COLUMNS, "trial", *WORKLOAD_COLUMNS)
        if name not in (*TEXT_COLUMNS, *_LIMITS)
    }
    completed, failed, trial = (fields.count(numbers, name) for name in ("completed", "failed", "trial"))
    if trial == 0:
        raise RefusalError("trial is 0; trials are counted from 1")
    workload = _workload(same, numbers)
    limit = workload.get("max_concurrency")
    metrics, notes = metrics_from_rows(
        [(metric, _number({"value": value}, "value"), unit) for metric, value, unit in result.values],
        completed=completed,
        failed=failed,
        duration=numbers["duration"],
        max_concurrency=limit,
    )
    definitions = fields.text(same, DEFINITIONS_COLUMN)
    if definitions is not None and definitions not in DEFINITIONS:
        raise RefusalError(
            f"unknown definitions {quoted(definitions)}" + did_you_mean(excerpt(definitions), DEFINITIONS)
        )
    return Reading(
        position=position,
        completed=completed,
        failed=failed or 0,
        duration=numbers["duration"],
        metrics=metrics,
        workload=workload,
        definitions=definitions,
        started=_started(same),
        metadata={
            _METADATA.get(name, name): _plain(same[name])
            for name in IDENTITY_COLUMNS
            if name not in ("trial", "started") and _plain(same.get(name))
        },
        trial=trial,
        notes=tuple(notes),
    )


def _workload(same: Row, numbers: Mapping[str, float | None]) -> dict[str, Any]:
    workload: dict[str, Any] = {}
    for name in WORKLOAD_COLUMNS:
        if name not in same:
            continue
        if name in TEXT_COLUMNS:
            workload[name] = excerpt(fields.text(same, name) or "")
        elif name in _LIMITS:
            unlimited = same[name] == UNLIMITED
            limit = None if unlimited else _number(same, name)
            if limit is not None and limit <= 0:
                raise RefusalError(f"{name} is {quoted(same[name])}, neither positive nor inf")
            workload[name] = limit
        else:
            workload[name] = numbers[name]
    for name in ("max_concurrency", "num_prompts", "input_len", "output_len"):
        if name in workload:
            workload[name] = fields.count(workload, name)
    for name, cell in same.items():
        if name.startswith(WORKLOAD_PREFIX):
            workload[excerpt(name.removeprefix(WORKLOAD_PREFIX), 60)] = _scalar(name, cell)
    return workload


def _scalar(name: str, cell: object) -> Any:
    if isinstance(cell, str):
        return excerpt(cell)
    if isinstance(cell, bool | int) or (isinstance(cell, float) and math.isfinite(cell)):
        return cell
    raise RefusalError(f"{excerpt(name, 60)} is {quoted(cell)}, neither a number nor text")


def _number(row: Row, name: str) -> float | None:
    """A number in JSON or text; None if the cell is empty."""
    cell = row.get(name)
    if isinstance(cell, str) and cell != "":
        if (number := table.as_number(cell)) is None:
            raise RefusalError(f"{name} is {quoted(cell)}, not a number")
        return fields.number({name: number}, name)
    return fields.number(row, name) if cell != "" else None


def _started(same: Row) -> datetime | None:
    text = fields.text(same, "started")
    try:
        started = None if text is None else datetime.fromisoformat(text)
    except ValueError:
        started = None
    if text is not None and (started is None or started.tzinfo is None):
        raise RefusalError(f"started is {quoted(text)}, write a time with its zone, as 2026-05-01T12:30:00+00:00")
    return started
