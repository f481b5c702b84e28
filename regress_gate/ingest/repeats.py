"""Statistics of a list of measured times that a file gives with its own statistics. Not for requests of a load test."""

from collections.abc import Mapping
from math import isfinite
from typing import Any

from regress_gate.ingest import fields
from regress_gate.ingest.interface import RefusalError
from regress_gate.ingest.text import plural, shown
from regress_gate.model.metric import STATISTICS

_TOLERANCE = 0.02
"""Relative difference between a stated statistic and the one of its own times beyond which the file is refused."""


def times(data: Mapping[str, Any], key: str) -> list[float]:
    """The list of times (s) at the key; empty where it is missing. Raises RefusalError for anything else."""
    values = fields.items(data, key)
    if not all(type(value) in (int, float) for value in values):
        raise RefusalError(f"{key} is not a list of numbers")
    try:
        found = [float(value) for value in values]
    except OverflowError:
        raise RefusalError(f"{key} holds a number that is too large") from None
    if not all(map(isfinite, found)):
        raise RefusalError(f"{key} holds a number that is not finite")
    if any(value < 0 for value in found):
        raise RefusalError(f"{key} holds a negative time")
    return found


def check_stated(values: list[float], mean: tuple[str, float], percentiles: Mapping[str, Any], key: str) -> None:
    """Refuse statistics that are not those of the values: the mean under its key, percentiles `{"99": s}`."""
    import numpy as np

    _check(mean[0], mean[1], float(np.mean(values)))
    for name in percentiles:
        try:
            percent = float(name)
        except ValueError:
            percent = -1.0
        if not 0 <= percent <= 100:
            raise RefusalError(f"{key} has {shown(name)}, which is no percentile")
        _check(f"{key} {name}", fields.required(percentiles, name), float(np.percentile(values, percent)))


def _check(name: str, stated: float, measured: float) -> None:
    if abs(stated - measured) > _TOLERANCE * abs(measured):
        raise RefusalError(f"{name} says {stated:g}, its own times say {measured:g}: wrong unit, or edited")


def statistics(values: list[float]) -> tuple[dict[str, float], str | None]:
    """Statistics of the catalogue that so many values can have, and a note on those that they cannot.

    A percentile with less than one value beyond it would be the largest value.
    """
    import numpy as np

    kept = {name: tail for name, tail in STATISTICS.items() if tail is None or len(values) * tail >= 1}
    found = {
        name: float(
            np.mean(values) if name == "mean" else np.percentile(values, 50 if tail is None else 100 * (1 - tail))
        )
        for name, tail in kept.items()
    }
    left = [name for name in STATISTICS if name not in kept]
    return found, f"{', '.join(left)} of {plural(len(values), 'repeat')} left out" if left else None
