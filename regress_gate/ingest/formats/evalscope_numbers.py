"""Statistics in evalscope's files: averages of the summary, and the table of percentiles. The unit is in each key."""

import math
import re
from collections.abc import Mapping
from typing import Any

from regress_gate.ingest import fields
from regress_gate.ingest.interface import RefusalError
from regress_gate.ingest.text import shown

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
    found: dict[str, dict[str, float]] = {}
    for key in data:
        name, factor = _unit(key, _AVERAGE)
        if name is not None and (value := fields.number(data, key)) is not None:
            found[name] = {"mean": value * factor}
    return found


def percentiles(document: Any, notes: list[str]) -> dict[str, dict[str, float]]:
    """By family and statistic, in seconds; `min` too, which tells requests of which no text was seen."""
    rows = _rows(document)
    if not rows:
        notes.append(f"no {PERCENTILES} beside it: means only")
        return {}
    found: dict[str, dict[str, float]] = {}
    for row in rows:
        label = row.get("Percentiles")
        statistic = "min" if label == "min" else _PERCENT.get(label) if isinstance(label, str) else None
        if statistic is None:
            continue
        for key, value in row.items():
            name, factor = _unit(key, _FAMILY)
            # evalscope writes NaN where a request set is empty.
            if name is None or (isinstance(value, float) and math.isnan(value)):
                continue
            if (number := fields.number(row, key)) is not None:
                found.setdefault(name, {})[statistic] = number * factor
    return found


def _rows(document: Any) -> list[Mapping[str, Any]]:
    """The percentile file as rows; older ones are a dict of columns."""
    if isinstance(document, dict):
        columns = {key: value for key, value in document.items() if isinstance(value, list)}
        height = {len(column) for column in columns.values()}
        if len(height) != 1:
            raise RefusalError(f"the columns of {PERCENTILES} have different lengths")
        return [{key: column[row] for key, column in columns.items()} for row in range(height.pop())]
    return [row for row in document if isinstance(row, dict)] if isinstance(document, list) else []


def _unit(key: object, names: Mapping[str, str]) -> tuple[str | None, float]:
    """The name behind a key with a unit, and the factor to seconds; (None, 0) for other keys."""
    if not isinstance(key, str) or (match := _WITH_UNIT.fullmatch(key)) is None or match[1] not in names:
        return None, 0.0
    if match[2] not in _UNITS:
        raise RefusalError(f"{shown(key)} is in an unknown unit")
    return names[match[1]], _UNITS[match[2]]
