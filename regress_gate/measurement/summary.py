"""Metrics of a result that has statistics and no single requests, with the checks of plausibility.py.

For tools other than vLLM's client, which may leave out any of the fields. Not for reading formats or converting units:
times are in seconds, rates per second.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf, isfinite

from regress_gate.measurement import plausibility
from regress_gate.measurement.plausibility import RefusalError


@dataclass(frozen=True, slots=True)
class Summary:
    """What one result states; None if not stated."""

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
    latencies = plausibility.catalogue_statistics(summary.latencies)
    notes = plausibility.check_statistics(latencies, summary.duration, summary.time_rounding)
    rate = summary.rates.get("request_throughput")
    if rate and summary.max_concurrency is not None:
        plausibility.check_in_flight(latencies, rate, summary.max_concurrency, summary.rate_rounding / rate)
    metrics = plausibility.metrics_by_name(latencies)
    metrics |= {name: value for name, value in summary.rates.items() if value or name == "goodput"}
    metrics |= summary.others
    if summary.failed is None:
        if "failed_requests" not in metrics:
            notes.append("does not say how many requests failed")
    elif summary.completed is not None:
        sent = summary.completed + summary.failed
        metrics["failed_requests"] = summary.failed / sent
        notes += plausibility.failure_notes(summary.completed, summary.failed)
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
            plausibility.check_rate(name, rate, counted.get(name), summary.duration, summary.rate_rounding)
    goodput, throughput = summary.rates.get("goodput"), summary.rates.get("request_throughput")
    if goodput is not None and (goodput < 0 or (throughput is not None and goodput > throughput * 1.02)):
        raise RefusalError(f"goodput is {goodput:g} requests/s, throughput {throughput}")


def mean_tokens(summary: Summary) -> dict[str, float]:
    """Mean prompt and output tokens of a request, by their keys of a workload, as far as known."""
    totals = (("mean_input_tokens", summary.input_tokens), ("mean_output_tokens", summary.output_tokens))
    return {name: total / summary.completed for name, total in totals if total and summary.completed}
