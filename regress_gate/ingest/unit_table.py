"""Statistics as AIPerf and GenAI-Perf state them, `{unit, avg, p50, …}` under each metric, from JSON or CSV.

Units are read, never assumed. Not for what the metrics mean.
"""

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from regress_gate.ingest import fields
from regress_gate.ingest.interface import RefusalError
from regress_gate.ingest.text import shown

SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "sec": 1.0, "s": 1.0, "seconds": 1.0}
_PER_SECOND = frozenset(
    ["requests/sec", "tokens/sec", "requests/s", "tokens/s", "req/s", "tok/s", "per sec", "/sec", "1/s"]
)
_STATISTICS = {"mean": "avg", "median": "p50", "p90": "p90", "p95": "p95", "p99": "p99"}
"""The tools' names of what the catalogue has."""
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
    """The entries by tag, such as `time_to_first_token`. Every reader of a value raises RefusalError for a bad one."""

    entries: Mapping[str, Entry]

    def __contains__(self, tag: str) -> bool:
        return tag in self.entries

    def value(self, tag: str, statistic: str = "avg") -> float | None:
        """The number as it stands; None where there is none."""
        entry = self.entries.get(tag)
        if entry is None:
            return None
        name = f"{tag} {statistic}"
        return fields.number({name: entry.values.get(statistic)}, name)

    def count(self, tag: str) -> int | None:
        value = self.value(tag)
        return None if value is None else fields.count({tag: value}, tag)

    def seconds(self, tag: str) -> dict[str, float]:
        """Seconds by statistic of the catalogue; empty where the metric is missing."""
        found = {name: value for name, own in _STATISTICS.items() if (value := self.value(tag, own)) is not None}
        factor = seconds_in(self.entries[tag].unit, tag) if found else 1.0
        return {name: value * factor for name, value in found.items()}

    def rate(self, tag: str) -> float | None:
        """Per second. Its mean: the other statistics of a rate, where a tool has them, are of a curve over time."""
        value = self.value(tag)
        if value is not None and (unit := self.entries[tag].unit) not in _PER_SECOND:
            raise RefusalError(f"{shown(unit)} is no unit of {tag} that is known")
        return value


def seconds_in(unit: object, what: str = "time") -> float:
    """How many seconds a unit of time has. Raises RefusalError for an unknown one."""
    if not isinstance(unit, str) or unit not in SECONDS:
        raise RefusalError(f"{shown(unit)} is no unit of time that is known ({what})")
    return SECONDS[unit]


def is_entry(value: object) -> bool:
    return isinstance(value, dict) and "unit" in value and "avg" in value


def from_json(data: Mapping[str, Any]) -> UnitTable:
    """The metrics among the values of an object, by tag or by printed name."""
    return UnitTable({_tag(key): Entry(str(value["unit"]), value) for key, value in data.items() if is_entry(value)})


def is_csv(text: str) -> bool:
    return text.startswith("Metric,avg,min,max")


def is_genai_csv(text: str) -> bool:
    """Whether a CSV is GenAI-Perf's: percentiles from p99 downwards, and no standard deviation."""
    header = text[:_HEAD].split("\n", 1)[0].rstrip("\r")
    return header.startswith("Metric,avg,min,max,p99") and not header.endswith(",std")


def from_csv(text: str) -> UnitTable:
    """The metrics of a CSV export: `Metric,avg,…`, an empty line, `Metric,Value`. What follows is telemetry."""
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
                name, unit = _named(row[0])
                cells = dict(zip(["avg" if cell == "Value" else cell for cell in header], row[1:], strict=False))
                if name in entries:
                    raise RefusalError(f"{shown(row[0])} stands twice in it: two results are mixed")
                entries[name] = Entry(unit, {key: _number(cell) for key, cell in cells.items()})
    except csv.Error as error:
        raise RefusalError(f"not a CSV file: {error}") from None
    return UnitTable(entries)


def _named(title: str) -> tuple[str, str]:
    found = _HEADER.fullmatch(title.strip())
    return (_tag(found[1]), found[2] or "") if found else ("", "")


def _tag(name: str) -> str:
    tag = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
    return _SHORT.get(tag, tag)


def _number(cell: str) -> Any:
    """The number in a cell, thousands separated or not; other text stays, and is refused where it is asked for."""
    text = cell.strip()
    if text in ("", "N/A", "n/a", "-"):
        return None
    return float(text.replace(",", "")) if _NUMBER.fullmatch(text) else text
