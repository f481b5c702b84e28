"""Checks that every result must pass before its numbers are used, because they hold for any load test.

Each is a law of counting or of time (a rate is a count over a duration; a request does not outlast the run), so a
violation means a wrong unit, an edited file or a measurement that did not happen. Not for judging slow or odd results.
"""

from collections.abc import Mapping

from regress_gate.measurement.totals import LoadTotals
from regress_gate.model.metric import LATENCIES, OTHER_LATENCIES, STATISTICS
from regress_gate.text import plural

_FAMILIES = (*LATENCIES, *OTHER_LATENCIES)
_NAMES = {family: {statistic: f"{family}_{statistic}" for statistic in STATISTICS} for family in _FAMILIES}
_ORDERED = ("median", "p90", "p95", "p99")
_TOLERANCE = 0.02
_CONCURRENCY_TOLERANCE = 0.05


class RefusalError(Exception):
    """This result must not be used. `str()` of it is the reason: what is wrong and what to do."""


def check_counts(totals: LoadTotals, failed: int) -> None:
    """Refuse a run in which nothing succeeded, or whose counts and rates contradict each other."""
    if totals.completed == 0:
        raise RefusalError(
            f"no request succeeded ({failed} failed): its zeros are not measurements; look at the server's log"
        )
    if totals.num_prompts is not None and totals.completed > totals.num_prompts:
        raise RefusalError(f"completed says {totals.completed}, more than the {totals.num_prompts} of num_prompts")
    if totals.duration <= 0:
        raise RefusalError(f"duration is {totals.duration:g} s")
    if totals.max_concurrency == 0:
        raise RefusalError("max_concurrency is 0")
    if totals.output_tokens == 0:
        raise RefusalError("no output token was produced (total_output_tokens is 0)")
    if totals.goodput is not None and not 0 <= totals.goodput <= totals.request_throughput * (1 + _TOLERANCE):
        raise RefusalError(f"request_goodput is {totals.goodput:g}, throughput {totals.request_throughput:g}")
    _check_rate(totals, "request_throughput", totals.request_throughput, totals.completed)
    _check_rate(totals, "output_throughput", totals.output_throughput, totals.output_tokens)
    tokens = None if totals.input_tokens is None else totals.input_tokens + (totals.output_tokens or 0)
    _check_rate(totals, "total_token_throughput", totals.total_throughput, tokens)


def _check_rate(totals: LoadTotals, name: str, rate: float | None, counted: int | None) -> None:
    if rate is not None:
        check_rate(name, rate, counted, totals.duration, totals.rounding)


def check_rate(name: str, rate: float, counted: float | None, duration: float | None, rounding: float = 0.0) -> None:
    """Refuse an impossible rate, or one that is not the count over `duration` seconds if both are stated."""
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


def check_output_tokens(totals: LoadTotals, counted: int) -> None:
    """Refuse a file whose total of output tokens is not the sum of its own requests."""
    stated = totals.output_tokens
    if stated is not None and abs(stated - counted) > _TOLERANCE * max(stated, counted):
        raise RefusalError(f"total_output_tokens says {stated}, its own requests sum to {counted}: edited or cut")


def metrics_by_name(latencies: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Metrics by name, from statistics by family and statistic of the catalogue."""
    return {
        _NAMES[family][name]: value for family, statistics in latencies.items() for name, value in statistics.items()
    }


def catalogue_statistics(stated: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
    """The stated statistics that the metric catalogue has; p50 is the median."""
    latencies: dict[str, dict[str, float]] = {}
    for family in _FAMILIES:
        if family not in stated:
            continue
        statistics = stated[family]
        if "p50" in statistics:
            statistics = {"median": statistics["p50"], **statistics}
        if kept := {name: statistics[name] for name in STATISTICS if name in statistics}:
            latencies[family] = kept
    return latencies


def check_latencies(latencies: dict[str, dict[str, float]], totals: LoadTotals) -> list[str]:
    """Refuse impossible statistics; remove those that mean "not measured", and return notes on these."""
    notes = check_statistics(latencies, totals.duration, totals.rounding)
    if totals.max_concurrency is not None:
        check_in_flight(
            latencies,
            totals.completed / totals.duration,
            totals.max_concurrency,
            totals.rounding / totals.duration,
        )
    return notes


def check_statistics(
    latencies: dict[str, dict[str, float]], duration: float | None, rounding: float = 0.0
) -> list[str]:
    """As `check_latencies`, for a result that may not state counts and rates.

    `latencies`: seconds, by family and statistic of the catalogue; changed in place. `rounding`: half a unit of the
    last decimal, in milliseconds.
    """
    if any(latencies.values()) and not any(any(statistics.values()) for statistics in latencies.values()):
        raise RefusalError("every latency is 0: nothing was measured; look at the server's and the client's log")
    notes: list[str] = []
    for family, statistics in list(latencies.items()):
        if statistics and min(statistics.values()) > 0:
            _check_order(family, statistics, duration, rounding)
            continue
        if negative := next((name for name, value in statistics.items() if value < 0), None):
            raise RefusalError(f"{negative}_{family}_ms is negative")
        zero = [name for name, value in statistics.items() if value == 0]
        if zero and family in ("ttft", "e2el"):
            raise RefusalError(f"{zero[0]}_{family}_ms is 0, which no request can reach")
        if len(zero) == len(statistics):
            notes.append(f"{family} is 0 and is left out: answers of one token, or not streamed")
            del latencies[family]
            continue
        if "mean" in zero:
            raise RefusalError(f"mean_{family}_ms is 0 while its other statistics are not")
        if zero:
            notes.append(f"{family} {', '.join(zero)} is 0 after rounding and is left out")
            latencies[family] = {name: value for name, value in statistics.items() if value > 0}
        _check_order(family, latencies[family], duration, rounding)
    return notes


def _check_order(family: str, statistics: Mapping[str, float], duration: float | None, rounding: float) -> None:
    slack = rounding / 1000 * 2
    low, lower = "", 0.0
    for high in _ORDERED:
        if (higher := statistics.get(high)) is not None:
            if lower > higher * (1 + 1e-9) + slack:
                raise RefusalError(f"{low}_{family}_ms is above {high}_{family}_ms: edited, or columns mixed up")
            low, lower = high, higher
    if duration is not None and max(statistics.values()) > duration * (1 + _TOLERANCE) + rounding:
        longest, value = max(statistics.items(), key=lambda item: item[1])
        raise RefusalError(
            f"{longest}_{family}_ms is {value:g} s, longer than the whole run ({duration:g} s): wrong unit"
        )


def check_in_flight(
    latencies: Mapping[str, Mapping[str, float]], rate: float, max_concurrency: float, slack: float = 0.0
) -> None:
    """Refuse more requests in flight than the limit. Little's law: their mean is mean latency × requests per second."""
    family = "e2el" if "mean" in latencies.get("e2el", {}) else "ttft"
    in_flight = latencies.get(family, {}).get("mean", 0.0) * rate
    if in_flight > max_concurrency * (1 + _CONCURRENCY_TOLERANCE + slack):
        raise RefusalError(
            f"mean_{family}_ms means {in_flight:.3g} requests in flight, max_concurrency is {max_concurrency:g}: "
            "wrong unit, or edited"
        )


def throughput_metrics(totals: LoadTotals) -> dict[str, float]:
    """The stated throughput metrics; a rate that the console rounded to 0 is left out."""
    stated = {
        "request_throughput": totals.request_throughput,
        "output_throughput": totals.output_throughput,
        "total_throughput": totals.total_throughput,
    }
    rates = {name: rate for name, rate in stated.items() if rate}
    return rates if totals.goodput is None else {**rates, "goodput": totals.goodput}


def failure_notes(completed: int, failed: int) -> list[str]:
    """A note if requests failed: the latencies are those of the others."""
    if not failed:
        return []
    return [f"{failed} of {plural(completed + failed, 'request')} failed: latencies cover only the successful ones"]
