"""Metrics of results without single requests pass the same checks as those of vLLM's client."""

import pytest

from regress_gate.measurement.plausibility import RefusalError, Summary, checked_metrics

PLAIN = Summary(
    latencies={"ttft": {"mean": 0.05, "p99": 0.1, "p75": 0.06}},
    rates={"request_throughput": 5.0},
    completed=100,
    failed=0,
    duration=20.0,
    max_concurrency=8,
)


def of(**changes):
    return checked_metrics(Summary(**{**{name: getattr(PLAIN, name) for name in Summary.__slots__}, **changes}))


def test_statistics_of_the_catalogue_are_kept_and_others_are_not():
    metrics, notes = checked_metrics(PLAIN)
    assert metrics == {"ttft_mean": 0.05, "ttft_p99": 0.1, "request_throughput": 5.0, "failed_requests": 0.0}
    assert notes == []


def test_p50_is_the_median():
    metrics, _ = of(latencies={"itl": {"p50": 0.01}})
    assert metrics["itl_median"] == 0.01


def test_unknown_counts_are_no_metric_and_are_said():
    metrics, notes = of(completed=None, failed=None, duration=None)
    assert "failed_requests" not in metrics
    assert notes == ["does not say how many requests failed"]


def test_failures_are_a_share_and_a_note():
    metrics, notes = of(completed=75, failed=25, rates={})
    assert metrics["failed_requests"] == 0.25
    assert notes == ["25 of 100 requests failed: latencies cover only the successful ones"]


def test_a_rate_that_was_rounded_to_nothing_is_left_out():
    metrics, _ = of(rates={"request_throughput": 0.0}, completed=None, rate_rounding=0.005)
    assert "request_throughput" not in metrics


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"completed": 0, "failed": 3}, r"no request succeeded \(3 failed\)"),
        ({"completed": 0, "failed": None}, "no request succeeded: its zeros"),
        ({"duration": -1.0}, "duration is -1 s"),
        ({"max_concurrency": 0}, "max_concurrency is 0"),
        ({"rates": {"request_throughput": 0.0}}, "request_throughput is 0"),
        ({"rates": {"request_throughput": 50.0}}, "request_throughput says 50, but 100 in 20 s is 5"),
        ({"rates": {"output_throughput": 9.0}, "output_tokens": 1000.0}, "output_throughput says 9"),
        ({"rates": {"total_throughput": 9.0}, "output_tokens": 1e3, "input_tokens": 1e3}, "total_throughput says 9"),
        ({"rates": {"request_throughput": 5.0, "goodput": 6.0}}, "goodput is 6"),
        ({"latencies": {"ttft": {"mean": 0.0}}}, "every latency is 0"),
        ({"latencies": {"ttft": {"mean": -1.0}}}, "mean_ttft_ms is negative"),
        ({"latencies": {"ttft": {"median": 2.0, "p90": 1.0}}}, "median_ttft_ms is above p90_ttft_ms"),
        ({"latencies": {"e2el": {"mean": 21.0}}, "max_concurrency": None}, "longer than the whole run"),
        ({"latencies": {"e2el": {"mean": 2.0}}}, "10 requests in flight, max_concurrency is 8"),
        ({"latencies": {}, "rates": {}}, "no metric that is known"),
        ({"rates": {"total_throughput": float("inf")}}, "total_throughput is without bounds"),
        ({"latencies": {"e2el": {"mean": float("inf")}}, "duration": None, "max_concurrency": None}, "without bounds"),
        ({"input_tokens": float("inf")}, "input tokens of all requests are inf"),
        ({"output_tokens": -1.0}, "output tokens of all requests are -1"),
    ],
)
def test_what_cannot_be_true_is_refused(changes, reason):
    with pytest.raises(RefusalError, match=reason):
        of(**changes)
