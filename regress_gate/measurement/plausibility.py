"""What cannot be true of any load test: the checks that every result passes before its numbers are used.

Each is a law of counting or of time (a rate is a count over a duration; a request does not outlast the run), so a
violation means a wrong unit, an edited file or a measurement that did not happen. Not for judging slow or odd results.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from regress_gate.model.metric import LATENCIES, OTHER_LATENCIES, STATISTICS

if TYPE_CHECKING:
    pass


_FAMILIES = (*LATENCIES, *OTHER_LATENCIES)
_NAMES = {family: {statistic: f"{family}_{statistic}" for statistic in STATISTICS} for family in _FAMILIES}
_ORDERED = ("median", "p90", "p95", "p99")
_TOLERANCE = 0.02
_CONCURRENCY_TOLERANCE = 0.05


class LoadTotals(NamedTuple):
    """The counts and rates of one result; None where it does not state them."""

    completed: int
    num_prompts: int | None
    duration: float
    """Seconds."""
    input_tokens: int | None
    output_tokens: int | None
    max_concurrency: int | None
    request_throughput: float
    output_throughput: float | None
    total_throughput: float | None
    goodput: float | None
    rounding: float
    """Half a unit of the last decimal that was written; 0 for full precision."""


def check_counts(scalars: LoadTotals, failed: int) -> None:
    """Refuse a run in which nothing succeeded, or whose counts and rates contradict each other."""
    if scalars.completed == 0:
        raise RefusalError(
            f"no request succeeded ({failed} failed): its zeros are not measurements; look at the server's log"
        )
    if scalars.num_prompts is not None and scalars.completed > scalars.num_prompts:
        raise RefusalError(f"completed says {scalars.completed}, more than the {scalars.num_prompts} of num_prompts")
    if scalars.duration <= 0:
        raise RefusalError(f"duration is {scalars.duration:g} s")
    if scalars.max_concurrency == 0:
        raise RefusalError("max_concurrency is 0")
    if scalars.output_tokens == 0:
        raise RefusalError("no output token was produced (total_output_tokens is 0)")
    if scalars.goodput is not None and not 0 <= scalars.goodput <= scalars.request_throughput * (1 + _TOLERANCE):
        raise RefusalError(f"request_goodput is {scalars.goodput:g}, throughput {scalars.request_throughput:g}")
    _check_rate(scalars, "request_throughput", scalars.request_throughput, scalars.completed)
    _check_rate(scalars, "output_throughput", scalars.output_throughput, scalars.output_tokens)
    tokens = None if scalars.input_tokens is None else scalars.input_tokens + (scalars.output_tokens or 0)
    _check_rate(scalars, "total_token_throughput", scalars.total_throughput, tokens)


def _check_rate(scalars: LoadTotals, name: str, rate: float | None, counted: int | None) -> None:
    if rate is not None:
        check_rate(name, rate, counted, scalars.duration, scalars.rounding)


def check_rate(name: str, rate: float, counted: float | None, duration: float | None, rounding: float = 0.0) -> None:
    """Refuse a rate that cannot be, or is not what was counted in `duration` seconds, where both are stated."""
    if rate < 0 or (rate == 0 and not rounding):
        raise RefusalError(f"{name} is {rate:g}")
    if counted is None or duration is None:
        return
    expected = counted / duration
    slack = rounding * (1 + expected / duration)
    if abs(rate - expected) > _TOLERANCE * max(rate, expected) + slack:
        raise RefusalError(
            f"{name} says {rate:g}, but {counted:g} in {duration:g} s is {expected:g}: "
            "wrong unit, an aggregate of several runs, or edited"
        )


def check_output_tokens(scalars: LoadTotals, counted: int) -> None:
    """Refuse a file whose total of output tokens is not the sum of its own requests."""
    stated = scalars.output_tokens
    if stated is not None and abs(stated - counted) > _TOLERANCE * max(stated, counted):
        raise RefusalError(f"total_output_tokens says {stated}, its own requests sum to {counted}: edited or cut")


def metrics_by_name(latencies: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Metrics by their names, of statistics by family and statistic of the catalogue."""
    return {_NAMES[family][name]: value for family, found in latencies.items() for name, value in found.items()}


def catalogue_statistics(stated: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
    """Of all stated statistics those that the metric catalogue has; p50 is the median."""
    latencies: dict[str, dict[str, float]] = {}
    for family in _FAMILIES:
        if family not in stated:
            continue
        found = stated[family]
        if "p50" in found:
            found = {"median": found["p50"], **found}
        if kept := {name: found[name] for name in STATISTICS if name in found}:
            latencies[family] = kept
    return latencies


def check_latencies(latencies: dict[str, dict[str, float]], scalars: LoadTotals) -> list[str]:
    """Refuse impossible statistics; take out those that mean "not measured", and return notes on them."""
    notes = check_statistics(latencies, scalars.duration, scalars.rounding)
    if scalars.max_concurrency is not None:
        check_in_flight(
            latencies,
            scalars.completed / scalars.duration,
            scalars.max_concurrency,
            scalars.rounding / scalars.duration,
        )
    return notes


def check_statistics(
    latencies: dict[str, dict[str, float]], duration: float | None, rounding: float = 0.0
) -> list[str]:
    """As `check_latencies`, of a result that may not say how many requests were sent how fast.

    `latencies`: seconds, by family and statistic of the catalogue; changed in place. `rounding`: half a unit of the
    last decimal, in milliseconds.
    """
    if any(latencies.values()) and not any(any(found.values()) for found in latencies.values()):
        raise RefusalError("every latency is 0: nothing was measured; look at the server's and the client's log")
    notes: list[str] = []
    for family, found in list(latencies.items()):
        if found and min(found.values()) > 0:
            _check_order(family, found, duration, rounding)
            continue
        if negative := next((name for name, value in found.items() if value < 0), None):
            raise RefusalError(f"{negative}_{family}_ms is negative")
        zero = [name for name, value in found.items() if value == 0]
        if zero and family in ("ttft", "e2el"):
            raise RefusalError(f"{zero[0]}_{family}_ms is 0, which no request can reach")
        if len(zero) == len(found):
            notes.append(f"{family} is 0 and is left out: answers of one token, or not streamed")
            del latencies[family]
            continue
        if "mean" in zero:
            raise RefusalError(f"mean_{family}_ms is 0 while its other statistics are not")
        if zero:
            notes.append(f"{family} {', '.join(zero)} is 0 after rounding and is left out")
            latencies[family] = {name: value for name, value in found.items() if value > 0}
        _check_order(family, latencies[family], duration, rounding)
    return notes


def _check_order(family: str, found: Mapping[str, float], duration: float | None, rounding: float) -> None:
    slack = rounding / 1000 * 2
    low, lower = "", 0.0
    for high in _ORDERED:
        if (higher := found.get(high)) is not None:
            if lower > higher * (1 + 1e-9) + slack:
                raise RefusalError(f"{low}_{family}_ms is above {high}_{family}_ms: edited, or columns mixed up")
            low, lower = high, higher
    if duration is not None and max(found.values()) > duration * (1 + _TOLERANCE) + rounding:
        longest, value = max(found.items(), key=lambda item: item[1])
        raise RefusalError(
            f"{longest}_{family}_ms is {value:g} s, longer than the whole run ({duration:g} s): wrong unit"
        )


def check_in_flight(
    latencies: Mapping[str, Mapping[str, float]], rate: float, max_concurrency: float, slack: float = 0.0
) -> None:
    """Little's law: mean latency × requests per second is the mean number in flight, which the limit bounds."""
    family = "e2el" if "mean" in latencies.get("e2el", {}) else "ttft"
    in_flight = latencies.get(family, {}).get("mean", 0.0) * rate
    if in_flight > max_concurrency * (1 + _CONCURRENCY_TOLERANCE + slack):
        raise RefusalError(
            f"mean_{family}_ms means {in_flight:.3g} requests in flight, max_concurrency is {max_concurrency:g}: "
            "wrong unit, or edited"
        )


def throughput_metrics(scalars: LoadTotals) -> dict[str, float]:
    """Throughput metrics as stated; one that was rounded to 0 on the console is left out."""
    stated = {
        "request_throughput": scalars.request_throughput,
        "output_throughput": scalars.output_throughput,
        "total_throughput": scalars.total_throughput,
    }
    found = {name: rate for name, rate in stated.items() if rate}
    return found if scalars.goodput is None else {**found, "goodput": scalars.goodput}


class RefusalError(Exception):
    """This result must not be used. `str()` of it is the reason: what is wrong and what to do."""
