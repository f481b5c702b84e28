"""llm-d benchmark reports: units are said, meanings depend on the tool behind the report."""

import json
from datetime import UTC, datetime

import pytest
import yaml

from regress_gate.ingest.content import parse_content
from regress_gate.ingest.formats.llm_d import LlmD
from regress_gate.ingest.interface import Context, UnusedResult
from regress_gate.measurement.plausibility import RefusalError
from tests.ingest.formats.llm_d_results import early, late, latency
from tests.ingest.formats.reading import reading, refusal

SURE = {"ttft_mean": 0.05, "ttft_p99": 0.1, "e2el_mean": 0.9, "e2el_p99": 1.8}
RATES = {"request_throughput": 5.0, "output_throughput": 350.0, "total_throughput": 990.0}
BY_TOKEN = {
    "tpot_mean": 0.012,
    "tpot_p99": 0.024,
    "itl_mean": 0.011,
    "itl_p99": 0.022,
    "normalized_latency_mean": 0.014,
    "normalized_latency_p99": 0.028,
}


def test_0_1_is_read_by_its_units():
    result = reading(LlmD(), early())
    assert result.metrics == pytest.approx({**SURE, **BY_TOKEN, **RATES, "failed_requests": 0.0})
    assert (result.completed, result.failed, result.duration) == (100, 0, 20.0)
    assert result.started == datetime(2026, 5, 1, 12, tzinfo=UTC)
    assert result.metadata == {"vllm_version": "0.9.0", "accelerator": "H100"}
    assert result.workload == {"model": "org/tiny", "mean_input_tokens": 128.0, "mean_output_tokens": 70.0}


def test_0_2_is_read_and_the_harness_time_is_no_duration():
    result = reading(LlmD(), late())
    assert result.metrics == pytest.approx({**SURE, **BY_TOKEN, **RATES, "failed_requests": 4 / 99})
    assert (result.completed, result.failed, result.duration) == (95, 4, None)
    assert "1 of 100 requests were cut off" in result.notes
    assert result.metadata == {"vllm_version": "0.11.0", "accelerator": "H100"}
    assert result.workload == {"model": "org/tiny", "request_rate": 5.0, "max_concurrency": 8, "input_len": 128}
    assert result.definitions is None


def test_yaml_reads_like_json():
    text = yaml.safe_dump(late())
    (result,) = LlmD().read(parse_content("report.yaml", text.encode()), Context())
    assert result == reading(LlmD(), late())
    old = parse_content("report.yaml", yaml.safe_dump(early(), sort_keys=False).encode())
    assert LlmD().recognises(old)
    assert LlmD().read(old, Context())[0] == reading(LlmD(), early())


def test_seconds_are_seconds():
    seconds = latency(time_to_first_token={"units": "s", "mean": 0.2})
    assert reading(LlmD(), late(latency=seconds)).metrics["ttft_mean"] == 0.2


@pytest.mark.parametrize(
    ("tool", "by_token", "definitions"),
    [
        ("inference-perf", {"tpot_mean": 0.012, "token_gap_mean": 0.011, "normalized_latency_mean": 0.014}, None),
        ("guidellm", {"tpot_mean": 0.011, "unclear_tpot_mean": 0.012}, None),
        ("somebody's", {"unclear_tpot_mean": 0.012}, "llm-d-other"),
    ],
)
def test_time_per_token_means_what_the_tool_behind_it_means(tool, by_token, definitions):
    result = reading(LlmD(), late(tool))
    means = {name: value for name, value in result.metrics.items() if name.endswith("_mean")}
    assert means == pytest.approx({"ttft_mean": 0.05, "e2el_mean": 0.9} | by_token)
    assert result.definitions == (definitions or tool)


def test_what_an_unknown_tool_means_by_a_gap_is_left_out_and_said():
    (note,) = [note for note in reading(LlmD(), late("other")).notes if "left out" in note]
    assert "inter_token_latency, normalized_time_per_output_token" in note


def test_an_engine_that_is_not_surely_vllm_gives_no_version():
    report = late()
    report["scenario"]["stack"][0]["standardized"] |= {"tool": "llm-d", "tool_version": "llm-d-cuda:0.3.1"}
    assert "vllm_version" not in reading(LlmD(), report).metadata
    mixed = early()
    mixed["scenario"]["platform"]["engine"].append({"name": "vllm", "version": "0.10.0"})
    assert "vllm_version" not in reading(LlmD(), mixed).metadata


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"latency": latency(request_latency={"units": "MB", "mean": 1})}, "request_latency is in 'MB'"),
        ({"latency": latency(request_latency={"mean": 1})}, "request_latency is in None"),
        ({"latency": latency(request_latency={"units": "ms", "p50": 9, "p99": 5})}, "median_e2el_ms is above"),
        ({"throughput": {"request_rate": {"units": "1/min", "mean": 5}}}, "request_rate is in '1/min'"),
        ({"requests": {"total": 4, "failures": 4}}, "no request succeeded (4 failed)"),
        ({"requests": {"total": 4, "failures": 3, "incomplete": 3}}, "more than all"),
        ({"requests": {"total": 4.5}}, "total is 4.5, not a count"),
        ({"latency": []}, "latency is a list, not an object"),
    ],
)
def test_what_cannot_be_true_is_refused(change, reason):
    assert reason in refusal(LlmD(), late(**change))


def test_rates_of_0_1_must_fit_counts_and_time():
    assert "request_throughput says 5, but 100 in 10 s" in refusal(LlmD(), early(time={"duration": 10.0}))


def test_rates_of_0_2_must_fit_the_length_of_answers():
    lengths = {"total": 100, "failures": 0, "output_length": {"units": "count", "mean": 70.0}}
    assert reading(LlmD(), late(requests=lengths)).workload["mean_output_tokens"] == 70.0
    lengths["output_length"] = {"units": "count", "mean": 7.0}
    assert "5 requests/s of 7 tokens are 35" in refusal(LlmD(), late(requests=lengths))


def test_a_report_of_sessions_alone_is_refused():
    report = late()
    report["results"] = {"session_performance": {}}
    assert "nothing of requests was measured" in refusal(LlmD(), report)


def test_yaml_that_is_none_is_refused_with_its_line():
    content = parse_content("r.yaml", b"results:\n  request_performance:\n    aggregate: [1\n")
    with pytest.raises(RefusalError, match=r"r\.yaml:\d: not valid YAML"):
        LlmD().read(content, Context())


def test_a_part_of_ours_that_was_edited_into_nonsense_is_refused():
    report = late()
    for own in ({"definitions": "tea leaves"}, {"metrics": {"tfft_mean": 1.0}}, {"metrics": {"goodput": -1}}, []):
        report["scenario"]["stack"][0]["native"] = {"config": {"regress_gate": own}}
        (result,) = LlmD().read(parse_content("r.json", json.dumps(report).encode()), Context())
        assert isinstance(result, UnusedResult)
