"""Checks that every result must pass before its numbers are used, because they hold for any load test.

Each is a law of counting or of time (a rate is a count over a duration; a request does not outlast the run), so a
violation means a wrong unit, an edited file or a measurement that did not happen. Not for judging slow or odd results.

`checked_metrics` makes the metrics of a result that has statistics and no single requests, with all of these checks.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf, isfinite

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


def check_moments(begin_name: str, begin: float | None, end_name: str, end: float | None) -> None:
    """Refuse an end before its beginning, a negative duration, if both are stated."""
    if begin is not None and end is not None and end < begin:
        raise RefusalError(f"{end_name} is {begin - end:g} s before {begin_name}, which cannot be: edited, or mixed up")


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


# Results with statistics and no single requests


@dataclass(frozen=True, slots=True)
class Summary:
    """What one result states; None if not stated. For tools other than vLLM's client, which may leave out any field."""

    latencies: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Seconds, by family and statistic (`ttft`, `mean`); statistics beyond the catalogue are left out."""
    rates: Mapping[str, float] = field(default_factory=dict)
    """Per second, by metric (`request_throughput`)."""
    others: Mapping[str, float] = field(default_factory=dict)
    """Further metrics by name, taken as they are."""
    completed: int | None = None
    failed: int | None = None
    duration: float | None = None
    """Seconds."""
    input_tokens: float | None = None
    """Of all requests that succeeded."""
    output_tokens: float | None = None
    max_concurrency: float | None = None
    time_rounding: float = 0.0
    """Half a unit of the last decimal of a latency, in milliseconds."""
    rate_rounding: float = 0.0
    """Half a unit of the last decimal of a rate."""


def checked_metrics(summary: Summary) -> tuple[dict[str, float], list[str]]:
    """Metrics by catalogue name, and notes for the user. Raises RefusalError for what cannot be true."""
    _check_counts(summary)
    latencies = catalogue_statistics(summary.latencies)
    notes = check_statistics(latencies, summary.duration, summary.time_rounding)
    rate = summary.rates.get("request_throughput")
    if rate and summary.max_concurrency is not None:
        check_in_flight(latencies, rate, summary.max_concurrency, summary.rate_rounding / rate)
    metrics = metrics_by_name(latencies)
    metrics |= {name: value for name, value in summary.rates.items() if value or name == "goodput"}
    metrics |= summary.others
    if summary.failed is None:
        if "failed_requests" not in metrics:
            notes.append("does not say how many requests failed")
    elif summary.completed is not None:
        sent = summary.completed + summary.failed
        metrics["failed_requests"] = summary.failed / sent
        notes += failure_notes(summary.completed, summary.failed)
    if unbounded := next((name for name, value in metrics.items() if not isfinite(value)), None):
        raise RefusalError(f"{unbounded} is without bounds: wrong unit, or edited")
    if not metrics.keys() - {"failed_requests"}:
        raise RefusalError("it holds no metric that is known")
    return metrics, notes


def _check_counts(summary: Summary) -> None:
    if summary.completed == 0:
        failed = "" if summary.failed is None else f" ({summary.failed} failed)"
        raise RefusalError(f"no request succeeded{failed}: its zeros are not measurements; look at the server's log")
    if summary.duration is not None and summary.duration <= 0:
        raise RefusalError(f"duration is {summary.duration:g} s")
    if summary.max_concurrency is not None and summary.max_concurrency <= 0:
        raise RefusalError(f"max_concurrency is {summary.max_concurrency:g}")
    for name, total in (("input", summary.input_tokens), ("output", summary.output_tokens)):
        if total is not None and not 0 <= total < inf:
            raise RefusalError(f"the {name} tokens of all requests are {total:g}, which is no count")
    tokens = None
    if summary.input_tokens is not None and summary.output_tokens is not None:
        tokens = summary.input_tokens + summary.output_tokens
    counted = {
        "request_throughput": summary.completed,
        "output_throughput": summary.output_tokens,
        "total_throughput": tokens,
    }
    for name, rate in summary.rates.items():
        if name != "goodput":
            check_rate(name, rate, counted.get(name), summary.duration, summary.rate_rounding)
    goodput, throughput = summary.rates.get("goodput"), summary.rates.get("request_throughput")
    if goodput is not None and (goodput < 0 or (throughput is not None and goodput > throughput * 1.02)):
        raise RefusalError(f"goodput is {goodput:g} requests/s, throughput {throughput}")


def mean_tokens(summary: Summary) -> dict[str, float]:
    """Mean prompt and output tokens of a request, by their keys of a workload, as far as known."""
    totals = (("mean_input_tokens", summary.input_tokens), ("mean_output_tokens", summary.output_tokens))
    return {name: total / summary.completed for name, total in totals if total and summary.completed}
