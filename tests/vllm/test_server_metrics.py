"""The `/metrics` page: names of all versions, several engines, windows, and pages that are no page of vLLM's."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regress_gate.errors import InputError
from regress_gate.vllm.server_metrics import MAX_LINE, MetricsPage, metrics_window, read_metrics_page, select_lines

OLD = b"""# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="a \\"b\\", {c}"} 3.0
# TYPE vllm:gpu_cache_usage_perc gauge
vllm:gpu_cache_usage_perc{engine="0",model_name="m"} 0.5
# TYPE vllm:gpu_prefix_cache_queries_total counter
vllm:gpu_prefix_cache_queries_total{engine="0",model_name="m"} 40.0
vllm:gpu_prefix_cache_queries_created{engine="0",model_name="m"} 1.7e+09
# TYPE vllm:time_per_output_token_seconds histogram
vllm:time_per_output_token_seconds_bucket{engine="0",le="0.01",model_name="m"} 7.0
vllm:time_per_output_token_seconds_bucket{engine="0",le="+Inf",model_name="m"} 9.0
vllm:time_per_output_token_seconds_count{engine="0",model_name="m"} 9.0
vllm:time_per_output_token_seconds_sum{engine="0",model_name="m"} 0.45
"""
NEW = b"""# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.25
vllm:kv_cache_usage_perc{engine="1",model_name="m"} 0.75
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="m"} 2.0
vllm:num_requests_waiting{engine="1",model_name="m"} 5.0
# TYPE vllm:num_preemptions counter
vllm:num_preemptions_total{engine="0",model_name="m"} 4.0
vllm:num_preemptions_total{engine="1",model_name="m"} 6.0
# TYPE vllm:request_success counter
vllm:request_success_total{engine="0",finished_reason="stop",model_name="m"} 10.0
vllm:request_success_total{engine="0",finished_reason="length",model_name="m"} 20.0
# TYPE vllm:iteration_tokens_total histogram
vllm:iteration_tokens_total_bucket{engine="0",le="+Inf",model_name="m"} 9.0
vllm:iteration_tokens_total_count{engine="0",model_name="m"} 9.0
vllm:iteration_tokens_total_sum{engine="0",model_name="m"} 900.0
# TYPE vllm:request_queue_time_seconds histogram
vllm:request_queue_time_seconds_count{engine="0",model_name="m"} 30.0
vllm:request_queue_time_seconds_sum{engine="0",model_name="m"} 1.5
vllm:spec_decode_num_accepted_tokens_total{engine="0",model_name="m"} 70.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m",position="0"} 50.0
process_start_time_seconds 1.79e+09
"""


def test_names_of_engine_v1_before_0_12_are_read_where_the_new_ones_are_missing() -> None:
    page = read_metrics_page(OLD)
    assert page.gauges == {"running": 3.0, "kv_cache_usage": 0.5}
    assert page.counters == {"prefix_cache_queries": 40.0, "itl_sum": 0.45, "itl_count": 9.0}


def test_a_deprecated_name_beside_the_new_one_is_not_counted_twice() -> None:
    both = OLD + b'vllm:prefix_cache_queries_total{engine="0",model_name="m"} 41.0\n'
    assert read_metrics_page(both).counters["prefix_cache_queries"] == 41.0


def test_engines_and_reasons_are_summed_and_of_caches_the_fullest_counts() -> None:
    page = read_metrics_page(NEW)
    assert page.engines == 2
    assert page.gauges == {"waiting": 7.0, "kv_cache_usage": 0.75}
    assert page.counters["preemptions"] == 10.0
    assert page.counters["requests"] == 30.0
    assert page.counters["accepted_draft_tokens"] == 70.0
    assert (page.counters["iteration_tokens_sum"], page.counters["iteration_tokens_count"]) == (900.0, 9.0)
    assert page.started == 1.79e9


def test_the_selected_lines_say_the_same_as_the_page() -> None:
    for page in (OLD, NEW):
        assert read_metrics_page(select_lines(page)) == read_metrics_page(page)
    assert b"_bucket" not in select_lines(OLD)
    assert b"#" not in select_lines(OLD)


def test_a_window_has_the_growth_of_counters_and_what_was_seen_of_gauges() -> None:
    before, after = MetricsPage({"preemptions": 4.0}), MetricsPage({"preemptions": 9.0, "requests": 3.0}, engines=2)
    between = [MetricsPage(gauges={"running": 2.0}), MetricsPage(gauges={"running": 6.0, "waiting": 1.0})]
    assert metrics_window(before, after, between, seconds=2.5) == {
        "preemptions": 5.0, "requests": 3.0, "running_mean": 4.0, "running_max": 6.0, "waiting_mean": 1.0,
        "waiting_max": 1.0, "samples": 2.0, "engines": 2.0, "seconds": 2.5,
    }  # fmt: skip


def test_the_gauges_before_and_after_the_load_say_nothing_about_it() -> None:
    idle = MetricsPage({"requests": 1.0}, {"running": 0.0}, 1)
    assert "running_max" not in metrics_window(idle, idle)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (MetricsPage({"requests": 5.0}), MetricsPage({"requests": 4.0})),
        (MetricsPage(started=1.0), MetricsPage(started=2.0)),
    ],
)
def test_a_server_that_was_started_anew_has_no_window(before: MetricsPage, after: MetricsPage) -> None:
    with pytest.raises(InputError, match="between two readings"):
        metrics_window(before, after)


@pytest.mark.parametrize("page", [b"", b"<html>not found</html>", b"process_start_time_seconds 1.0\n", b"up 1\n"])
def test_a_page_of_another_program_is_refused(page: bytes) -> None:
    with pytest.raises(InputError, match="no metrics of a vLLM server"):
        read_metrics_page(page)


def test_a_line_that_never_ends_is_left_out() -> None:
    page = b'vllm:num_requests_waiting{model_name="' + b"x" * MAX_LINE + b'"} 1.0\n' + NEW
    assert read_metrics_page(page) == read_metrics_page(NEW)


def test_numbers_that_are_none_are_left_out() -> None:
    page = NEW.replace(b" 0.75", b" NaN").replace(b" 5.0", b" +Inf")
    assert read_metrics_page(page).gauges == {"waiting": 2.0, "kv_cache_usage": 0.25}


@given(st.binary(max_size=400), st.integers(0, len(NEW)))
def test_any_bytes_are_a_page_or_an_error_of_one_line(noise: bytes, at: int) -> None:
    text = ""
    try:
        read_metrics_page(NEW[:at] + noise + NEW[at:])
    except InputError as error:
        text = error.what
    assert re.fullmatch(r"[^\n]{0,200}", text)
