"""Whether two results are one measurement: the same numbers, whatever file or table they came in.

Times and rates of two measurements never agree in all their digits, so that equal ones are a copy. Scores, sizes and
coarse times do agree by chance, and show nothing. The first digits are those of every run of a version: only what
follows them tells two runs apart. Rates and the duration follow from each other, so that together they count once. Of
335,790 pairs of real results, also rounded to two decimals, none is taken for a copy that is none
(docs/importing.md). Not for where a copy came from, nor for what is done about it.
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Generic, Protocol, TypeGuard, TypeVar

from regress_gate.model.metric import METRICS

EXACT_DIGITS = 10
"""Significant digits from which one value alone is never equal by chance."""
_USUAL_DIGITS = 3
"""Significant digits in which runs of one version often agree."""
_TELLING_DIGITS = 6
"""Further digits, of all values together, in which two runs never agree: a chance of one in a million."""
_TOLERANCE = 1e-10
"""Relative difference that a conversion of units may leave."""
_LEAST_SHARE = 0.5
"""Share of the values that both results have which must be equal: a reader may learn to compute one of them better."""
_RATES = frozenset(name for name, known in METRICS.items() if known.unit == "1/s") | {"duration"}
_TIMED = frozenset(name for name, known in METRICS.items() if known.unit in ("s", "1/s")) | {"duration"}
_FIRST = (
    "ttft_mean", "tpot_mean", "e2el_mean", "itl_mean", "output_throughput", "request_throughput", "total_throughput",
    "duration", "ttft_median", "tpot_median", "e2el_median", "itl_median", "batch_latency_mean", "batch_throughput",
)  # fmt: skip
"""What most formats have, so that a result with more values is still found by these."""
_FIRST_SET = frozenset(_FIRST)
_MOST_KEYS = 8
_INDEX_KEYS, _LEAST_DIGITS = 3, 4
"""Values by which a result is found in memory, and the digits that each must have."""


class Measured(Protocol):
    """One result: a trial, or what a reader made of a file."""

    @property
    def completed(self) -> int | None: ...
    @property
    def failed(self) -> int: ...
    @property
    def duration(self) -> float | None: ...
    @property
    def metrics(self) -> Mapping[str, float]: ...


def is_same_measurement(one: Measured, other: Measured) -> bool:
    """Whether the values that both have are so many and so exact that they cannot be equal by chance."""
    if (
        one.completed is not None
        and other.completed is not None
        and (one.completed, one.failed) != (other.completed, other.failed)
    ):
        return False
    left, right = _timed_values(one), _timed_values(other)
    common = left.keys() & right.keys()
    if not common - {"duration"}:
        return False  # two parts of one result, perhaps, but no copies
    equal = {name: left[name] for name in common if math.isclose(left[name], right[name], rel_tol=_TOLERANCE)}
    if len(equal) == len(common):
        return _telling_digits(equal) >= _TELLING_DIGITS
    is_exact = any(significant_digits(value) >= EXACT_DIGITS for value in equal.values())
    return is_exact and len(equal) >= _LEAST_SHARE * len(common)


def measurement_keys(measured: Measured) -> list[str]:
    """Texts by which copies of this result are looked up, the most telling first; empty if copies cannot be recognised.

    Two results are candidates if the first key of one is among the keys of the other.
    """
    values = _timed_values(measured)
    if exact := list(islice(_exact_names(values), _MOST_KEYS)):
        return [_key(name, values[name]) for name in exact]
    if _telling_digits(values) < _TELLING_DIGITS:
        return []
    coarse = sorted(values, key=lambda name: (-significant_digits(values[name]), name))
    return [_key(name, values[name]) for name in coarse[:_MOST_KEYS]]


def first_key(measured: Measured) -> str | None:
    """The first of `measurement_keys`; None if there is none."""
    values = _timed_values(measured)
    name = next(_exact_names(values), None)
    return next(iter(measurement_keys(measured)), None) if name is None else _key(name, values[name])


def _exact_names(values: Mapping[str, float]) -> Iterator[str]:
    """The values that alone cannot be equal by chance."""
    for name in (*_FIRST, *sorted(values.keys() - _FIRST_SET)):
        if name in values and significant_digits(values[name]) >= EXACT_DIGITS:
            yield name


def _key(name: str, value: float) -> str:
    return f"{name}={value:.9e}"


def significant_digits(value: float) -> int:
    """How many significant digits the value has, without the noise of a unit conversion."""
    return len(f"{value:.11e}".partition("e")[0].replace(".", "").replace("-", "").rstrip("0"))


def _timed_values(measured: Measured) -> dict[str, float]:
    values = {name: value for name, value in measured.metrics.items() if name in _TIMED and value > 0}
    if measured.duration:
        values["duration"] = measured.duration
    return values


def _telling_digits(values: Mapping[str, float]) -> int:
    def further(value: float) -> int:
        return max(0, significant_digits(value) - _USUAL_DIGITS)

    times = {value for name, value in values.items() if name not in _RATES}
    rates = [further(value) for name, value in values.items() if name in _RATES]
    return sum(map(further, times)) + max(rates, default=0)


T = TypeVar("T")


class MeasurementIndex(Generic[T]):
    """Results in memory, found again by their numbers."""

    def __init__(self) -> None:
        self._by_value: dict[tuple[str, float], list[tuple[Measured, T]]] = defaultdict(list)

    def matches(self, measured: Measured) -> Iterator[T]:
        """What was added with the results that are the same measurement, in the order of adding."""
        yield from self._matches(measured, _index_keys(measured))

    def add(self, measured: Measured, item: T) -> None:
        for key in _index_keys(measured):
            self._by_value[key].append((measured, item))

    def matches_before_adding(self, measured: Measured, item: T) -> list[T]:
        """What `matches` gives, and then `add`."""
        keys = _index_keys(measured)
        matches = list(self._matches(measured, keys))
        for key in keys:
            self._by_value[key].append((measured, item))
        return matches

    def _matches(self, measured: Measured, keys: Sequence[tuple[str, float]]) -> Iterator[T]:
        seen: set[int] = set()
        for key in keys:
            for other, item in self._by_value.get(key, ()):
                if id(other) not in seen and is_same_measurement(measured, other):
                    seen.add(id(other))
                    yield item


def _index_keys(measured: Measured) -> list[tuple[str, float]]:
    """Some values that most results have, exactly as they are: what thousands of results can be looked up by."""
    metrics, duration = measured.metrics, measured.duration
    # Nearly all results have three of the first, and a comparison asks for those of thousands.
    first = ((name, duration if name == "duration" else metrics.get(name)) for name in _FIRST)
    keys = list(islice(((name, value) for name, value in first if _is_telling(value)), _INDEX_KEYS))
    if len(keys) < _INDEX_KEYS:
        others = sorted((name, metrics[name]) for name in metrics.keys() & _TIMED - _FIRST_SET)
        keys += islice((pair for pair in others if _is_telling(pair[1])), _INDEX_KEYS - len(keys))
    return keys


def _is_telling(value: float | None) -> TypeGuard[float]:
    return value is not None and value > 0 and significant_digits(value) >= _LEAST_DIGITS
