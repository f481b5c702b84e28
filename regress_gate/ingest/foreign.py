"""Names the results of other tools, which are not read yet, so that a refusal can say what the file is.

One line per format. Not for reading them: a recogniser here is retired when the format gets a reader.
"""

import re
from collections.abc import Callable
from typing import Any

from regress_gate.ingest.content import Content

_NOT_READ = ", which is not read yet; import what `vllm bench serve --save-result` writes"

_WRAPPED = "a JSON file that quotes a benchmark's console text; put that text into a file of its own and import it"
_SUITE = "a test suite definition of vLLM's CI, not a result"
_NO_RESULTS = (_WRAPPED, _SUITE)

_EVALSCOPE_KEYS = ("Average latency (s)", "Avg Latency (s)", "Number of concurrency")
_AIPERF_RECORD = ("x_request_id", "request_start_ns")


def name_of(content: Content) -> str | None:
    """A sentence naming the tool that wrote the file; None when it is of no known tool."""
    if content.text is not None:
        named = next((name for pattern, name in _TEXTS if pattern.search(content.text[:200_000])), None)
    elif content.documents:
        first = content.documents[0]
        table: Any = _OBJECTS if isinstance(first, dict) else _LISTS if isinstance(first, list) and first else ()
        named = next((name for matches, name in table if matches(first)), None)
    else:
        return None
    if named is None:
        return None
    return f"this is {named}" + ("" if named in _NO_RESULTS else _NOT_READ)


def _has(*keys: str) -> Callable[[Any], bool]:
    return lambda data: all(key in data for key in keys)


def _first_has(*keys: str) -> Callable[[Any], bool]:
    return lambda rows: isinstance(rows[0], dict) and all(key in rows[0] for key in keys)


def _is_guidellm(data: dict[str, Any]) -> bool:
    runs, metadata = data.get("benchmarks"), data.get("metadata")
    if not isinstance(runs, list):
        return False
    if isinstance(metadata, dict) and "guidellm_version" in metadata:
        return True
    marks = ("type_", "run_stats", "scheduler_metrics")
    return bool(runs) and isinstance(runs[0], dict) and any(mark in runs[0] for mark in marks)


def _with_unit(data: dict[str, Any]) -> bool:
    """Values of the form {unit, avg}: AIPerf and GenAI-Perf."""
    return any(isinstance(value, dict) and "unit" in value and "avg" in value for value in data.values())


def _is_genai_perf(data: dict[str, Any]) -> bool:
    config = data.get("input_config")
    return (
        _with_unit(data) and isinstance(config, dict) and ("perf_analyzer" in config or "profile_export_file" in config)
    )


def _is_aiperf(data: dict[str, Any]) -> bool:
    record = data.get("metadata")
    return (
        _with_unit(data)
        or "aiperf_version" in data
        or (isinstance(record, dict) and any(key in record for key in _AIPERF_RECORD))
    )


def _is_llmd(data: dict[str, Any]) -> bool:
    results = data.get("results")
    return isinstance(results, dict) and (
        "request_performance" in results or ("scenario" in data and "version" in data)
    )


def _is_hud(rows: list[Any]) -> bool:
    metric = rows[0].get("metric") if isinstance(rows[0], dict) else None
    return isinstance(metric, dict) and "benchmark_values" in metric


def _is_wrapped_console(data: dict[str, Any]) -> bool:
    return any(isinstance(value, str) and "Serving Benchmark Result" in value for value in data.values())


def _is_wrapped_rows(rows: list[Any]) -> bool:
    metrics = rows[0].get("metrics") if isinstance(rows[0], dict) else None
    return isinstance(metrics, dict) and "request_throughput_req_s" in metrics


def _is_suite_definition(rows: list[Any]) -> bool:
    return isinstance(rows[0], dict) and "test_name" in rows[0] and any("parameters" in key for key in rows[0])


_OBJECTS: tuple[tuple[Callable[[dict[str, Any]], bool], str], ...] = (
    (_is_guidellm, "a GuideLLM report (benchmarks.json)"),
    (_has("successes", "load_summary"), "an inference-perf report (lifecycle or Prometheus metrics)"),
    (_is_genai_perf, "a GenAI-Perf export"),
    (_is_aiperf, "an AIPerf export"),
    (_has("results_ttft_s_mean"), "an llmperf summary"),
    (_has("results_ttft_s_quantiles_p50"), "an llmperf summary"),
    (_has("tput_per_gpu"), "an InferenceX (InferenceMAX) aggregate: seconds, and throughput per GPU"),
    (_has("mean_e2e_latency_ms"), "an SGLang bench_serving result (JSONL)"),
    (_has("median_e2e_latency_ms", "request_throughput"), "an SGLang bench_serving result (JSONL)"),
    (_has("avg_latency", "latencies"), "a `vllm bench latency` result"),
    (_has("elapsed_time", "requests_per_second"), "a `vllm bench throughput` result"),
    (_has("avg_cold_startup_time"), "a `vllm bench startup` result"),
    (_has("avg_warm_startup_time"), "a `vllm bench startup` result"),
    (_has("mm_processor_stats"), "a `vllm bench mm-processor` result"),
    (lambda data: any(key in data for key in _EVALSCOPE_KEYS), "an evalscope perf summary"),
    (_is_llmd, "an llm-d benchmark report"),
    (_has("experiments", "service_kind"), "a Perf Analyzer export (GenAI-Perf's raw file)"),
    (
        _is_wrapped_console,
        _WRAPPED,
    ),
    (_has("entries", "repoUrl"), "data of github-action-benchmark"),
    (_has("defaults", "tests"), _SUITE),
)

_LISTS: tuple[tuple[Callable[[list[Any]], bool], str], ...] = (
    (_is_hud, "a list of PyTorch-HUD records (the client's *.pytorch.json; the result itself lies beside it)"),
    (_first_has("Test name"), "a record list of vLLM's CI (benchmark_results.json)"),
    (_first_has("end_to_end_latency_s", "ttft_s"), "llmperf's individual responses"),
    (_first_has("tput_per_gpu"), "a list of InferenceX (InferenceMAX) aggregates"),
    (_first_has("Percentiles"), "an evalscope percentile table"),
    (_is_wrapped_rows, "a list of results reworked by another harness (its own keys and rounding)"),
    (_is_suite_definition, _SUITE),
)

_TEXTS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\A\s*:::MLLOG "), "an MLPerf loadgen detail log"),
    (re.compile(r"MLPerf Results Summary"), "an MLPerf loadgen summary"),
    (re.compile(r"\A\s*window\.BENCHMARK_DATA"), "data of github-action-benchmark (data.js)"),
    (
        re.compile(r"(?m)^load_summary:[\s\S]*^successes:|^successes:[\s\S]*^load_summary:"),
        "an inference-perf report (YAML)",
    ),
    (re.compile(r"(?m)^ {2}request_performance:"), "an llm-d benchmark report (YAML)"),
    (
        re.compile(r"\A\s*version: ['\"]?0\.\d[\s\S]*^scenario:[\s\S]*^metrics:", re.MULTILINE),
        "an llm-d benchmark report (YAML)",
    ),
    (re.compile(r"\AMetric,avg,min,max"), "an AIPerf or GenAI-Perf CSV export"),
    (re.compile(r"\A(?:Run Info|Type),(?:Run Info|Benchmark)|\A\W*Run Info,"), "a GuideLLM CSV report"),
)
