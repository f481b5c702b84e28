"""Typed values from JSON objects of any origin: numbers, texts, times, lengths. Not for the keys of any format."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from math import inf, isfinite
from typing import Any, TypeGuard

from regress_gate.measurement.plausibility import RefusalError
from regress_gate.text import quoted

_MAX_COUNT = 2**53
"""Larger counts cannot be represented exactly by a float."""


def number(data: Mapping[str, Any], key: str) -> float | None:
    """The finite number at the key; None if the key is missing or null. Anything else is refused."""
    value = data.get(key)
    if value is None or (type(value) is float and isfinite(value)):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise RefusalError(f"{key} is {quoted(value)}, not a number")
    try:
        result = float(value)
    except OverflowError:
        result = inf
    if not isfinite(result):
        raise RefusalError(f"{key} is {quoted(value)}, not a number")
    return result


def required(data: Mapping[str, Any], key: str) -> float:
    """The finite number at the key, which must be there."""
    if (value := number(data, key)) is None:
        raise RefusalError(f"{key} is missing")
    return value


def count(data: Mapping[str, Any], key: str) -> int | None:
    """The whole number from 0 at the key; None if the key is missing or null."""
    stated = data.get(key)
    if type(stated) is int and 0 <= stated <= _MAX_COUNT:
        return stated
    value = number(data, key)
    if value is None:
        return None
    if not 0 <= value <= _MAX_COUNT or value != int(value):
        raise RefusalError(f"{key} is {quoted(data[key])}, not a count")
    return int(value)


def text(data: Mapping[str, Any], key: str) -> str | None:
    """The text at the key; None if the key is missing, null or empty."""
    value = data.get(key)
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise RefusalError(f"{key} is {quoted(value)}, not text")
    return value


def obj(data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """The object at the key; an empty one if the key is missing or null."""
    value = data.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise RefusalError(f"{key} is {quoted(value)}, not an object")
    return value


def is_list(value: object) -> TypeGuard[Sequence[Any]]:
    """Whether a value of JSON is a list, also one whose elements are parsed later (deferred.py)."""
    return isinstance(value, list) or (isinstance(value, Sequence) and not isinstance(value, str))


def items(data: Mapping[str, Any], key: str) -> Sequence[Any]:
    """The list at the key; an empty one if the key is missing or null."""
    value = data.get(key)
    if value is None:
        return ()
    if not is_list(value):
        raise RefusalError(f"{key} is {quoted(value)}, not a list")
    return value


MAX_LISTED = 1000
"""Models, data sets or phases that a configuration may list."""


def few_items(data: Mapping[str, Any], key: str) -> Sequence[Any]:
    """The list at the key, of a configuration: it has some entries and not one for each request."""
    if len(values := items(data, key)) > MAX_LISTED:
        raise RefusalError(f"{key} has {len(values):,} entries, more than {MAX_LISTED:,}")
    return values


def time_from_unix(seconds: float | None) -> datetime | None:
    """Seconds since 1970 UTC as a time; None if out of range."""
    try:
        return None if seconds is None or seconds <= 0 else datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, OSError, ValueError):
        return None


def time_from_iso(text: object) -> datetime | None:
    """An ISO time; one without a zone is taken as UTC. None if it is not one."""
    if not isinstance(text, str):
        return None
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


def length_facts(name: str, mean: float | None, deviation: float | None) -> dict[str, float | int]:
    """A requested length for a workload: `{"input_len": 128, "input_len_stddev": 16}`, in tokens.

    A deviation of 0 is left out; without a mean the result is empty.
    """
    if mean is None or mean <= 0:
        return {}
    return {name: _as_int_if_whole(mean)} | ({f"{name}_stddev": _as_int_if_whole(deviation)} if deviation else {})


def _as_int_if_whole(value: float) -> float | int:
    """128 for 128.0, because the value becomes part of a name."""
    return int(value) if value == int(value) else value
