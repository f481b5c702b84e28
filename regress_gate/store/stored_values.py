"""What a stored value may be, and its plain JSON form. Shared by the database and the exported files, so that both
keep the same thing and refuse the same thing. Knows nothing of either.

Names identify and must be kept exactly, so a name that cannot be is refused. Remarks (paths, command lines) are for
people, so what cannot be kept in them is written out as an escape.
"""

from collections.abc import Mapping
from dataclasses import asdict, fields
from datetime import UTC, datetime
from functools import lru_cache
from math import isfinite
from typing import Any

from regress_gate.errors import InputError
from regress_gate.model.run import BlockPosition, Conditions, Run, RunFailure

MAX_NAME_BYTES = 500
"""Longest name in UTF-8. PostgreSQL indexes at most 2,700 bytes in one row, and three names can be in one key."""

_MAX_COUNT = 2**63 - 1
_MAX_DEPTH = 20
_NO_CONDITIONS = Conditions()


def name(what: str, text: str) -> str:
    """The text of a name, unchanged. Raises InputError for one that not every database and file can keep."""
    if text.isascii() and len(text) <= MAX_NAME_BYTES and "\0" not in text:
        return text
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise InputError(f"{what} {text[:60]!a} is not valid Unicode text") from None
    if "\0" in text:
        raise InputError(f"{what} {text[:60]!a} holds a NUL character")
    if size > MAX_NAME_BYTES:
        raise InputError(f"{what} {text[:60]!r}… is {size} bytes long", todo=f"use at most {MAX_NAME_BYTES}")
    return text


@lru_cache(maxsize=256)
def _names(what: str, texts: tuple[str, ...]) -> tuple[str, ...]:
    """Names in order. The same come with every result: metrics and facts of the workload."""
    return tuple(name(what, text) for text in sorted(texts))


def storable_text(text: str | None) -> str | None:
    """Text for people, with what is not storable escaped: undecodable bytes of a path, NUL characters."""
    if text is None:
        return None
    if text.isascii() and "\0" not in text:
        return text
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")


def count(what: str, value: int) -> int:
    if not 0 <= value <= _MAX_COUNT:
        raise InputError(f"{what} {value} is out of range")
    return int(value)


def number(what: str, value: float) -> float:
    """A finite float. Raises InputError for NaN and infinity, which JSON has no words for."""
    result = float(value) + 0.0  # makes −0.0 plain zero, as SQLite's columns do
    if not isfinite(result):
        raise InputError(f"{what} is {result}, which is no measurement")
    return result


def numbers(what: str, values: Mapping[str, float]) -> dict[str, float]:
    found: dict[str, Any] = {}
    for key in _names(what, tuple(values)):
        value = values[key]
        # A name for each number, which only a message needs, takes longer than the check.
        plain_float = type(value) is float and isfinite(value)
        found[key] = value + 0.0 if plain_float else number(f"{what} {key}", value)
    return found


def texts(what: str, values: Mapping[str, str]) -> dict[str, str]:
    return {name(what, key): name(f"{what} {key}", values[key]) for key in sorted(values)}


def json_values(what: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """JSON values with sorted keys. Raises InputError for anything that JSON cannot give back unchanged."""
    found: dict[str, Any] = {}
    for key in _names(what, tuple(values)):
        value = values[key]
        if type(value) is float and isfinite(value):
            found[key] = value + 0.0
        elif value is None or (type(value) is int and -_MAX_COUNT <= value <= _MAX_COUNT):
            found[key] = value
        else:
            found[key] = _json_value(f"{what} {key}", value, 0)
    return found


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
    """What was recorded, by field name."""
    if values == _NO_CONDITIONS:
        return {}
    recorded = {field.name: getattr(values, field.name) for field in fields(values)}
    return numbers("condition", {key: value for key, value in recorded.items() if value is not None})


def run_details(run: Run) -> dict[str, Any]:
    """What only our own measuring tells of a run, as far as it is known; the answers are kept apart."""
    parts: dict[str, Any] = {}
    if run.place is not None:
        place = asdict(run.place)
        if (
            run.place.most_blocks is None
        ):  # as in all that was written before there was one: the same runs, the same text
            del place["most_blocks"]
        parts["place"] = place
    if run.failure is not None:
        parts["failure"] = asdict(run.failure)
    if run.void is not None:
        parts["void"] = run.void
    if run.server:
        parts["server"] = run.server
    return json_values("measured", parts) if parts else parts


def run_details_from(data: Mapping[str, Any]) -> dict[str, Any]:
    """The inverse of `measured`, as fields of a run. Raises TypeError or ValueError for anything else."""
    found: dict[str, Any] = {"server": data.get("server", {}), "void": data.get("void")}
    if (place := data.get("place")) is not None:
        found["place"] = BlockPosition(**place)
    if (failure := data.get("failure")) is not None:
        found["failure"] = RunFailure(**{**failure, "lines": tuple(failure.get("lines", ()))})
    return found


def outputs(run: Run) -> dict[str, Any] | None:
    return None if run.outputs is None else json_values("outputs", run.outputs.as_document())


@lru_cache(maxsize=1024)
def time_text(time: datetime | None) -> str | None:
    """ISO 8601 in UTC, for example `2026-07-24T10:00:00Z`. A time without a zone is taken to be UTC."""
    if time is None:
        return None
    if time.tzinfo is not UTC:
        time = time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    return time.isoformat().removesuffix("+00:00") + "Z"


def time_from(text: str | None) -> datetime | None:
    """The inverse of `time_text`. Raises ValueError for text that is no time."""
    if text is None:
        return None
    time = datetime.fromisoformat(text)
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
