"""Long tables, made up: two metrics of one trial, as CSV and as JSON."""

import csv
import io
import json
from typing import Any

ROW: dict[str, Any] = {
    "version": "0.19.1",
    "testbed": "lab",
    "suite": "chat@1",
    "scenario": "short",
    "run": "a",
    "trial": 1,
    "completed": 100,
    "failed": 0,
    "duration": 20.0,
    "model": "org/tiny",
    "request_rate": "inf",
    "max_concurrency": 8,
}
VALUES = (("ttft_mean", 50.0, "ms"), ("request_throughput", 5.0, "req/s"))


def rows(*values: tuple[Any, ...], **changes: Any) -> list[dict[str, Any]]:
    return [ROW | {"metric": name, "value": value, "unit": unit} | changes for name, value, unit in values or VALUES]


def as_json(table: list[dict[str, Any]]) -> bytes:
    return json.dumps(table).encode()


def as_lines(table: list[dict[str, Any]]) -> bytes:
    return "\n".join(map(json.dumps, table)).encode()


def as_csv(table: list[dict[str, Any]], delimiter: str = ",") -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(table[0]), delimiter=delimiter)
    writer.writeheader()
    writer.writerows(table)
    return text.getvalue().encode()
