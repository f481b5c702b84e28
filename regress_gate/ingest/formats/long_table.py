"""Reads the long table of our own: one value a row, for results of tools that nothing else reads.

CSV with a header, a JSON list of objects, or one JSON object a line:

    version,testbed,scenario,run,trial,metric,value,unit,completed,max_concurrency,model
    0.19.1,h100-lab,chat,a,1,ttft_mean,51.2,ms,200,8,llama-8b
    0.19.1,h100-lab,chat,a,1,request_throughput,3.9,req/s,200,8,llama-8b

`metric` and `value` are required; all columns are in ingest/long_columns.py, and what is left out comes from flags as
for any other file. Rows that agree in version, testbed, suite, scenario, run and trial are one result, and say the same
in all columns but metric, value and unit. Metrics are named as in the catalogue (model/metric.py) and are by vLLM's
definitions unless `definitions` says otherwise. A row without a unit is in the catalogue's: seconds, 1/s, bytes,
fractions. `regress-gate report --format long` writes this table.
"""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from regress_gate.errors import InputError
from regress_gate.ingest import fields, long_columns, table
from regress_gate.ingest.content import Content
from regress_gate.ingest.each import read_each
from regress_gate.ingest.interface import Certainty, Context, Generation, NoReading, Reading, RefusalError
from regress_gate.ingest.long_rows import metrics_of
from regress_gate.ingest.text import clean, shown
from regress_gate.model.definitions import DEFINITIONS
from regress_gate.model.nearest import did_you_mean

Row = Mapping[str, Any]
_KEY = ("version", "testbed", "suite", "scenario", "run", "trial")
_METADATA = {"version": "vllm_version", "client": "client_version"}
_LIMITS = ("request_rate", "max_concurrency")
_LONGEST_HEADER = 4096


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

    def read(self, content: Content, context: Context) -> Sequence[Reading | NoReading]:  # noqa: ARG002
        groups: dict[tuple[str, ...], list[Row]] = {}
        for row in _csv_rows(content) if content.text is not None else _objects(content.each()):
            if not _is_row(row):
                raise RefusalError("a row is no object with metric and value")
            _check_columns(row)
            groups.setdefault(tuple(_plain(row.get(name)) for name in _KEY), []).append(row)
        if not groups:
            raise RefusalError("it has no rows")
        return read_each(groups.values(), _reading)


def _objects(documents: Iterable[Any]) -> Iterator[Any]:
    for document in documents:
        yield from document if isinstance(document, list) else [document]


def _csv_rows(content: Content) -> Iterator[Row]:
    """Cells are text; empty ones are left out, and those of another workload are what their JSON says."""
    try:
        read = table.read_table((content.text or "").encode(), content.name)
    except InputError as error:
        raise RefusalError(str(error)) from None
    for number in range(read.rows):
        row = {name: cell for name, cells in read.columns.items() if (cell := cells[number].strip()) != ""}
        yield {
            name: _value(cell) if name.startswith(long_columns.OTHER_WORKLOAD) else cell for name, cell in row.items()
        }


def _value(cell: str) -> Any:
    """`8`, `true` and `"8"` are JSON; any other text is itself."""
    try:
        return json.loads(cell)
    except (ValueError, RecursionError):
        return cell


def _is_row(row: object) -> bool:
    return isinstance(row, dict) and isinstance(row.get("metric"), str) and "value" in row


def _check_columns(row: Row) -> None:
    for name in row:
        if name not in long_columns.COLUMNS and not name.startswith(long_columns.OTHER_WORKLOAD):
            raise RefusalError(f"unknown column {shown(name)}" + did_you_mean(clean(name, 60), long_columns.COLUMNS))


def _plain(value: object) -> str:
    return "" if value is None else str(value)


def _reading(rows: Sequence[Row], position: int) -> Reading:
    same = _agreed(rows)
    numbers = {
        name: _number(same, name)
        for name in (*long_columns.COUNTS, "trial", *long_columns.WORKLOAD)
        if name not in (*long_columns.TEXTS, *_LIMITS)
    }
    completed, failed, trial = (fields.count(numbers, name) for name in ("completed", "failed", "trial"))
    if trial == 0:
        raise RefusalError("trial is 0; trials are counted from 1")
    workload = _workload(same, numbers)
    limit = workload.get("max_concurrency")
    metrics, notes = metrics_of(
        [(row["metric"], _number(row, "value"), _plain(row.get("unit"))) for row in rows],
        completed=completed,
        failed=failed,
        duration=numbers["duration"],
        max_concurrency=limit,
    )
    definitions = fields.text(same, long_columns.DEFINITIONS)
    if definitions is not None and definitions not in DEFINITIONS:
        raise RefusalError(f"unknown definitions {shown(definitions)}" + did_you_mean(clean(definitions), DEFINITIONS))
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
            for name in long_columns.IDENTITY
            if name not in ("trial", "started") and _plain(same.get(name))
        },
        trial=trial,
        notes=tuple(notes),
    )


def _agreed(rows: Sequence[Row]) -> Row:
    """What all rows of a result say besides their value; a cell that is empty says nothing."""
    same: dict[str, Any] = {}
    for row in rows:
        for name, cell in row.items():
            if name in long_columns.VALUE or cell is None:
                continue
            if same.setdefault(name, cell) != cell:
                raise RefusalError(
                    f"{name} is {shown(same[name])} and {shown(cell)} in rows of one result; "
                    "tell results apart by scenario, run or trial"
                )
    return same


def _workload(same: Row, numbers: Mapping[str, float | None]) -> dict[str, Any]:
    workload: dict[str, Any] = {}
    for name in long_columns.WORKLOAD:
        if name not in same:
            continue
        if name in long_columns.TEXTS:
            workload[name] = clean(fields.text(same, name) or "")
        elif name in _LIMITS:
            unlimited = same[name] == long_columns.UNLIMITED
            limit = None if unlimited else _number(same, name)
            if limit is not None and limit <= 0:
                raise RefusalError(f"{name} is {shown(same[name])}, neither positive nor inf")
            workload[name] = limit
        else:
            workload[name] = numbers[name]
    for name in ("max_concurrency", "num_prompts", "input_len", "output_len"):
        if name in workload:
            workload[name] = fields.count(workload, name)
    for name, cell in same.items():
        if name.startswith(long_columns.OTHER_WORKLOAD):
            workload[clean(name.removeprefix(long_columns.OTHER_WORKLOAD), 60)] = _scalar(name, cell)
    return workload


def _scalar(name: str, cell: object) -> Any:
    if isinstance(cell, str):
        return clean(cell)
    if isinstance(cell, bool | int) or (isinstance(cell, float) and math.isfinite(cell)):
        return cell
    raise RefusalError(f"{clean(name, 60)} is {shown(cell)}, neither a number nor text")


def _number(row: Row, name: str) -> float | None:
    """A JSON number, or text that is one; None where the cell is empty."""
    cell = row.get(name)
    if isinstance(cell, str) and cell != "":
        if (number := table.as_number(cell)) is None:
            raise RefusalError(f"{name} is {shown(cell)}, not a number")
        return fields.number({name: number}, name)
    return fields.number(row, name) if cell != "" else None


def _started(same: Row) -> datetime | None:
    text = fields.text(same, "started")
    try:
        started = None if text is None else datetime.fromisoformat(text)
    except ValueError:
        started = None
    if text is not None and (started is None or started.tzinfo is None):
        raise RefusalError(f"started is {shown(text)}, write a time with its zone, as 2026-05-01T12:30:00+00:00")
    return started
