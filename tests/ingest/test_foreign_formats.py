"""Other tools' results are refused by name, so that nobody wonders what is wrong with a good file."""

import json

import pytest

from regress_gate.ingest.reports import Outcome
from tests.ingest.serve_results import import_all, write

OBJECTS = {
    "a GuideLLM report": [
        {"metadata": {"guidellm_version": "0.8.1", "version": 2}, "config": {}, "benchmarks": []},
        {"benchmarks": [{"type_": "generative_benchmark", "metrics": {}}]},
        {"args": {}, "benchmarks": [{"scheduler_metrics": {}, "metrics": {}}]},
    ],
    "an inference-perf report": [{"load_summary": {"count": 60}, "successes": {"count": 60}, "failures": {"count": 0}}],
    "a GenAI-Perf export": [
        {"request_throughput": {"unit": "requests/sec", "avg": 1.5}, "input_config": {"perf_analyzer": {}}}
    ],
    "an AIPerf export": [
        {"request_throughput": {"unit": "requests/sec", "avg": 1.5}, "input_config": {"endpoint": {}}},
        {"metadata": {"x_request_id": "1", "request_start_ns": 5}, "metrics": {}, "error": None},
    ],
    "an llmperf summary": [{"version": "2023-08-31", "model": "x", "results_ttft_s_mean": 0.3}],
    "an SGLang bench_serving result": [
        {"request_rate": 4, "duration": 9.0, "request_throughput": 3.0, "mean_e2e_latency_ms": 90.0, "num_prompts": 9}
    ],
    "an InferenceX (InferenceMAX) aggregate": [{"hw": "mi355x", "tput_per_gpu": 234.4, "mean_ttft": 3.5}],
    "a `vllm bench latency` result": [{"avg_latency": 0.4, "latencies": [0.4], "percentiles": {"50": 0.4}}],
    "a `vllm bench throughput` result": [{"elapsed_time": 2.7, "num_requests": 64, "requests_per_second": 23.0}],
    "a `vllm bench startup` result": [{"avg_cold_startup_time": 60.0, "avg_warm_startup_time": 40.0}],
    "an evalscope perf summary": [{"Avg Latency (s)": 0.5}, {"Average latency (s)": 0.5}],
    "an llm-d benchmark report": [{"version": "0.2", "results": {"request_performance": {}}}],
    "quotes a benchmark's console text": [{"raw": "== Serving Benchmark Result ==", "status": "ok"}],
    "a test suite definition": [{"defaults": {}, "tests": []}],
}
LISTS = {
    "a list of PyTorch-HUD records": [{"benchmark": {}, "metric": {"name": "mean_ttft_ms", "benchmark_values": [9.0]}}],
    "a record list of vLLM's CI": [{"Test name": "serving_llama8B", "Median": 9.0}],
    "llmperf's individual responses": [{"error_code": None, "ttft_s": 0.1, "end_to_end_latency_s": 0.9}],
    "a list of InferenceX": [{"tput_per_gpu": 1.0}],
    "an evalscope percentile table": [{"Percentiles": "99%", "TTFT (ms)": 9.0}],
    "a test suite definition": [{"test_name": "serving", "server_parameters": {}}],
}
TEXTS = {
    "an MLPerf loadgen summary": "=====\nMLPerf Results Summary\n=====\nScenario : Server\n",
    "an MLPerf loadgen detail log": ':::MLLOG {"key": "loadgen_version"}\n',
    "data of github-action-benchmark": 'window.BENCHMARK_DATA = {"entries": {}}',
    "an inference-perf report (YAML)": "failures:\n  count: 0\nload_summary:\n  count: 3\nsuccesses:\n  count: 3\n",
    "an llm-d benchmark report (YAML)": "version: '0.1'\nscenario:\n  x: 1\nmetrics:\n  y: 2\n",
    "an AIPerf or GenAI-Perf CSV": "Metric,avg,min,max\nTime to First Token (ms),1,2,3\n",
}
CASES = (
    [(name, json.dumps(data)) for name, examples in OBJECTS.items() for data in examples]
    + [(name, json.dumps(rows)) for name, rows in LISTS.items()]
    + list(TEXTS.items())
)


@pytest.mark.parametrize(("name", "text"), CASES)
def test_the_refusal_names_the_tool(tmp_path, name, text):
    (report,) = import_all(write(tmp_path / "result.json", text)).files
    if name in TEXTS:
        (report,) = import_all(write(tmp_path / "result.txt", text)).files
    assert report.outcome is Outcome.REFUSED
    assert name in report.reason


def test_it_says_that_the_format_is_not_read_yet(tmp_path):
    (report,) = import_all(write(tmp_path / "r.json", OBJECTS["an llmperf summary"][0])).files
    assert "not read yet; import what `vllm bench serve --save-result` writes" in report.reason


def test_another_tools_file_in_a_folder_is_refused_not_skipped(tmp_path):
    write(tmp_path / "r.json", OBJECTS["an llmperf summary"][0])
    assert not import_all(tmp_path).complete
