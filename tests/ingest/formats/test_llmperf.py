"""llmperf: seconds, a time per token of its own, and two files that are one result."""

import json

import pytest

from regress_gate.ingest.content import parse_content
from regress_gate.ingest.formats.llmperf import LlmPerf
from regress_gate.ingest.interface import Certainty, Context, FileOutcome, Reading, UnusedResult
from regress_gate.model.metric import DEFINITIONS
from tests.factories.serve_results import import_all, write

from .llmperf_results import STEM, TOKENS, as_json, failed, response, responses, summary

SUMMARY, RESPONSES = f"{STEM}_summary.json", f"{STEM}_individual_responses.json"
EXPECTED = {
    "ttft_mean": 0.12,
    "ttft_median": 0.12,
    "ttft_p90": 0.136,
    "ttft_p95": 0.138,
    "ttft_p99": 0.1396,
    "unclear_tpot_mean": 0.07 / 3,
    "unclear_tpot_median": 0.019,
    "unclear_tpot_p90": 0.0302,
    "unclear_tpot_p95": 0.0316,
    "unclear_tpot_p99": 0.03272,
    "e2el_mean": 0.74 / 3,
    "e2el_median": 0.24,
    "e2el_p90": 0.288,
    "e2el_p95": 0.294,
    "e2el_p99": 0.2988,
    "request_throughput": 6.0,
    "output_throughput": 66.0,
    "failed_requests": 0.25,
}
# (e2el − ttft) / (tokens − 1): 0.1/10, 0.12/12, 0.16/8
TPOT = {"tpot_mean": 0.04 / 3, "tpot_median": 0.01, "tpot_p90": 0.018, "tpot_p95": 0.019, "tpot_p99": 0.0198}


def read(name, document, beside=None):
    content = parse_content(name, as_json(document))
    assert LlmPerf().recognises(content) is Certainty.SURE
    others = {other: parse_content(other, as_json(found)) for other, found in (beside or {}).items()}
    (only,) = LlmPerf().read(content, Context(beside=others.get))
    return only


def reading(name, document, beside=None) -> Reading:
    found = read(name, document, beside)
    assert isinstance(found, Reading), found
    return found


def refusal(name, document, beside=None) -> str:
    found = read(name, document, beside)
    assert isinstance(found, UnusedResult)
    assert found.outcome is FileOutcome.REFUSED
    return found.reason


def test_a_summary_is_read_in_seconds():
    found = reading(SUMMARY, summary())
    assert found.metrics == pytest.approx(EXPECTED)
    assert (found.completed, found.failed, found.duration) == (3, 1, 0.5)
    assert found.started.timestamp() == 1795227351
    assert found.definitions in DEFINITIONS


def test_the_workload_is_what_was_asked_for():
    assert reading(SUMMARY, summary()).workload == {
        "model": "org/tiny",
        "request_rate": None,
        "max_concurrency": 2,
        "num_prompts": 4,
        "input_len": 550,
        "input_len_stddev": 150,
        "output_len": 150,
        "mean_input_tokens": 550.0,
        "mean_output_tokens": 11.0,
    }


def test_its_version_is_a_date_of_the_schema_and_not_of_the_server():
    found = reading(SUMMARY, summary(vllm_version="0.19.1", framework="vllm"))
    assert found.metadata == {"vllm_version": "0.19.1", "client_version": "llmperf, schema of 2023-08-31"}


def test_responses_with_their_summary_have_a_tpot_too():
    found = reading(RESPONSES, responses(), {SUMMARY: summary()})
    assert found.metrics == pytest.approx({**EXPECTED, **TPOT})
    assert found.samples.output_tokens.tolist() == [*TOKENS, 0]
    assert found.samples.ok.tolist() == [True, True, True, False]
    assert not any(name.startswith("itl") for name in found.metrics), "gaps are not kept"


def test_whichever_of_the_two_is_named_gives_the_same():
    one = reading(RESPONSES, responses(), {SUMMARY: summary()})
    other = reading(SUMMARY, summary(), {RESPONSES: responses()})
    assert (one.metrics, one.workload) == (other.metrics, other.workload)


def test_the_two_are_one_result(tmp_path):
    write(tmp_path / SUMMARY, summary())
    write(tmp_path / RESPONSES, json.dumps(responses()))
    intake = import_all(tmp_path)
    assert sorted(report.outcome for report in intake.files) == [FileOutcome.SKIPPED, FileOutcome.STORED]
    assert len([trial for run in intake.runs for trial in run.trials]) == 1


def test_responses_alone_have_no_rates_and_no_workload():
    found = reading(RESPONSES, responses())
    latencies = {name: value for name, value in EXPECTED.items() if "throughput" not in name}
    assert found.metrics == pytest.approx({**latencies, **TPOT})
    assert (found.duration, "model" in found.workload) == (None, False)


def test_an_answer_without_tokens_counts_as_failed():
    empty = response(0, number_output_tokens=0, ttft_s=0, inter_token_latency_s=0)
    found = reading(RESPONSES, [*responses(), empty])
    assert (found.completed, found.failed) == (3, 2)
    assert "1 answer without tokens counted as failed" in found.notes


def test_responses_of_another_run_are_refused():
    other = [response(index, ttft_s=0.05) for index in range(3)]
    assert "mean ttft says 0.12 s, its own requests say 0.05 s" in refusal(RESPONSES, other, {SUMMARY: summary()})
    assert "its own requests say" in refusal(SUMMARY, summary(), {RESPONSES: other})


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"results_num_completed_requests": 0}, "no request succeeded (1 failed)"),
        ({"results_num_completed_requests": 1.5}, "results_num_completed_requests is 1.5, not a count"),
        ({"results_mean_output_throughput_token_per_s": 9.0}, "output_throughput says 9, but 33 in 0.5 s is 66"),
        ({"results_num_completed_requests_per_min": -6.0}, "request_throughput is -0.1"),
        ({"results_ttft_s_mean": -0.1}, "mean_ttft_ms is negative"),
        ({"results_ttft_s_mean": "fast"}, "results_ttft_s_mean is 'fast', not a number"),
        ({"results_ttft_s_quantiles_p50": 0.2}, "median_ttft_ms is above p90_ttft_ms"),
        ({"results_end_to_end_latency_s_mean": 100.0}, "longer than the whole run"),
        ({"num_concurrent_requests": 1}, "requests in flight, max_concurrency is 1"),
        ({"model": 7}, "model is 7, not text"),
    ],
)
def test_what_is_no_measurement_is_refused(change, reason):
    assert reason in refusal(SUMMARY, summary(**change))


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ([failed(), failed()], "no request succeeded (2 failed)"),
        ([response(0), 7], "response 2 is not an object"),
        ([response(0, ttft_s=None)], "ttft_s is missing"),
        ([response(0, ttft_s=[0.1])], "ttft_s is a list, not a number"),
        ([response(0, ttft_s=9.0)], "request 1 ended before its first token"),
        ([response(0, number_output_tokens=10**30)], "number_output_tokens is 1e+30, not a count"),
    ],
)
def test_responses_that_are_no_measurements_are_refused(rows, reason):
    assert reason in refusal(RESPONSES, rows)
