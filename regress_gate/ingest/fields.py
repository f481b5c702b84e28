"""Taking typed values out of a JSON object that anybody may have written. Not for knowing any format's keys."""

from collections.abc import Mapping
from math import inf, isfinite
from typing import Any

from regress_gate.ingest.interface import RefusalError
from regress_gate.ingest.text import shown

_MAX_COUNT = 2**53
"""Up to which a number that was read as a float is the count that was written."""


def number(data: Mapping[str, Any], key: str) -> float | None:
    """The finite number at the key; None where the key is missing or null. Anything else is refused."""
    value = data.get(key)
    if value is None or (type(value) is float and isfinite(value)):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise RefusalError(f"{key} is {shown(value)}, not a number")
    try:
        result = float(value)
    except OverflowError:
        result = inf
    if not isfinite(result):
        raise RefusalError(f"{key} is {shown(value)}, not a number")
    return result


def required(data: Mapping[str, Any], key: str) -> float:
    """The finite number at the key, which must be there."""
    if (value := number(data, key)) is None:
        raise RefusalError(f"{key} is missing")
    return value


def count(data: Mapping[str, Any], key: str) -> int | None:
    """The whole number from 0 at the key; None where the key is missing or null."""
    stated = data.get(key)
    if type(stated) is int and 0 <= stated <= _MAX_COUNT:
        return stated
    value = number(data, key)
    if value is None:
        return None
    if not 0 <= value <= _MAX_COUNT or value != int(value):
        raise RefusalError(f"{key} is {shown(data[key])}, not a count")
    return int(value)


def text(data: Mapping[str, Any], key: str) -> str | None:
    """The text at the key; None where the key is missing, null or empty."""
    value = data.get(key)
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise RefusalError(f"{key} is {shown(value)}, not text")
    return value


def obj(data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """The object at the key; an empty one where the key is missing or null."""
    value = data.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise RefusalError(f"{key} is {shown(value)}, not an object")
    return value


def items(data: Mapping[str, Any], key: str) -> list[Any]:
    """The list at the key; an empty one where the key is missing or null."""
    value = data.get(key)
    if value is None:
        return []
    if not isinstance(value, list):
        raise RefusalError(f"{key} is {shown(value)}, not a list")
    return value
