"""Which values can be stored, and their plain JSON form: one rule for the database and the exported files.

Names identify and must be stored exactly, so a name that cannot be stored is refused. Remarks (paths, command lines)
are for people: characters that cannot be stored are written as escapes, and secrets are masked.
"""

from collections.abc import Mapping
from dataclasses import asdict, fields
from datetime import UTC, datetime
from functools import lru_cache
from math import isfinite
from typing import Any

from regress_gate.errors import InputError
from regress_gate.model.run import BlockPosition, Conditions, Run, RunFailure
from regress_gate.redaction import redact

MAX_NAME_BYTES = 500
"""Longest name in UTF-8. PostgreSQL indexes at most 2,700 bytes in one row, and three names can be in one key."""

_MAX_COUNT = 2**63 - 1
_MAX_DEPTH = 20
_NO_CONDITIONS = Conditions()


def name(what: str, text: str) -> str:
    """The name, unchanged. Raises InputError for one that some database or file cannot store."""
    if text.isascii() and len(text) <= MAX_NAME_BYTES and "\0" not in text:
        return text
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise InputError(f"{what} {text[:60]!a} is not valid Unicode text") from None
    if "\0" in text:
        raise InputError(f"{what} {text[:60]!a} contains a NUL character")
    if size > MAX_NAME_BYTES:
        raise InputError(f"{what} {text[:60]!r}… is {size} bytes long", todo=f"use at most {MAX_NAME_BYTES}")
    return text


@lru_cache(maxsize=256)
def _names(what: str, texts: tuple[str, ...]) -> tuple[str, ...]:
    """The names in order. Cached: every result has the same names of metrics and workload facts."""
    return tuple(name(what, text) for text in sorted(texts))


def storable_text(text: str | None) -> str | None:
    """Text for people, without secrets, and with escapes for undecodable bytes of a path and for NUL characters."""
    if text is None:
        return None
    text = redact(text)
    if text.isascii() and "\0" not in text:
        return text
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")


def count(what: str, value: int) -> int:
    if not 0 <= value <= _MAX_COUNT:
        raise InputError(f"{what} {value} is out of range")
    return int(value)


def number(what: str, value: float) -> float:
    """A finite float. Raises InputError for NaN and infinity, which JSON cannot express."""
    result = float(value) + 0.0  # makes −0.0 plain zero, as SQLite's columns do
    if not isfinite(result):
        raise InputError(f"{what} is {result}, which is not a measurement")
    return result


def numbers(what: str, values: Mapping[str, float]) -> dict[str, float]:
    checked: dict[str, Any] = {}
    for key in _names(what, tuple(values)):
        value = values[key]
        # Building a name for each number takes longer than the check, and only a message needs it.
        plain_float = type(value) is float and isfinite(value)
        checked[key] = value + 0.0 if plain_float else number(f"{what} {key}", value)
    return checked


def texts(what: str, values: Mapping[str, str]) -> dict[str, str]:
    return {name(what, key): name(f"{what} {key}", values[key]) for key in sorted(values)}


def json_values(what: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """JSON values with sorted keys. Raises InputError for a value that JSON cannot return unchanged."""
    checked: dict[str, Any] = {}
    for key in _names(what, tuple(values)):
        value = values[key]
        if type(value) is float and isfinite(value):
            checked[key] = value + 0.0
        elif value is None or (type(value) is int and -_MAX_COUNT <= value <= _MAX_COUNT):
            checked[key] = value
        else:
            checked[key] = _json_value(f"{what} {key}", value, 0)
    return checked


def _json_value(what: str, value: Any, depth: int) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return storable_text(value)
    if isinstance(value, int):
        if not -_MAX_COUNT <= value <= _MAX_COUNT:
            raise InputError(f"{what} {str(value)[:40]} is out of range")
        return int(value)
    if isinstance(value, float):
        return number(what, value)
    if depth < _MAX_DEPTH:
        if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
            return {name(what, key): _json_value(what, value[key], depth + 1) for key in sorted(value)}
        if isinstance(value, list | tuple):
            return [_json_value(what, item, depth + 1) for item in value]
    raise InputError(f"{what} cannot be stored: {type(value).__name__}")


def conditions(values: Conditions) -> dict[str, float]:
    """The recorded conditions by field name."""
    if values == _NO_CONDITIONS:
        return {}
    recorded = {field.name: getattr(values, field.name) for field in fields(values)}
    return numbers("condition", {key: value for key, value in recorded.items() if value is not None})


def run_details(run: Run) -> dict[str, Any]:
    """The details of a run that only the tool's own measurements have; answers are stored separately."""
    parts: dict[str, Any] = {}
    if run.place is not None:
        place = asdict(run.place)
        for later in ("most_blocks", "locked_clock_mhz"):
            if place[later] is None:  # so that older runs keep the same text
                del place[later]
        parts["place"] = place
    if run.failure is not None:
        parts["failure"] = asdict(run.failure)
    if run.void is not None:
        parts["void"] = run.void
    if run.server:
        parts["server"] = run.server
    return json_values("measured", parts) if parts else parts


def run_details_from(data: Mapping[str, Any], *, with_server: bool = True) -> dict[str, Any]:
    """The inverse of `run_details`, as fields of a run. Raises TypeError or ValueError for anything else."""
    details: dict[str, Any] = {"server": data.get("server", {}) if with_server else {}, "void": data.get("void")}
    if (place := data.get("place")) is not None:
        details["place"] = BlockPosition(**place)
    if (failure := data.get("failure")) is not None:
        details["failure"] = RunFailure(**{**failure, "lines": tuple(failure.get("lines", ()))})
    return details


def outputs(run: Run) -> dict[str, Any] | None:
    return None if run.outputs is None else json_values("outputs", run.outputs.as_document())


@lru_cache(maxsize=1024)
def time_text(time: datetime | None) -> str | None:
    """ISO 8601 in UTC, for example `2026-07-24T10:00:00Z`. A time without a zone is read as UTC."""
    if time is None:
        return None
    if time.tzinfo is not UTC:
        time = time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    return time.isoformat().removesuffix("+00:00") + "Z"


def time_from(text: str | None) -> datetime | None:
    """The inverse of `time_text`. Raises ValueError for text that is not a time."""
    if text is None:
        return None
    time = datetime.fromisoformat(text)
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
