"""AIPerf's and GenAI-Perf's exports of one small pass: four requests, two at a time, in a quarter of a second.

The server counts 5 tokens an answer, the tools 9 when they encode it again.
"""

import json
from typing import Any

from tests.factories.serve_results import percentile

Result = dict[str, Any]

TTFT = [40.0, 50.0, 60.0, 70.0]
"""ms"""
GAPS = [[10.0] * 4, [10.0] * 4, [10.0] * 4, [20.0] * 4]
"""ms"""
E2EL = [80.0, 90.0, 100.0, 150.0]
"""ms"""
TPOT_ENCODED = [5.0, 5.0, 5.0, 10.0]
"""ms: four gaps over eight further tokens"""
DURATION = 0.25
START = 1_795_227_351_000_000_000
TITLES = {
    "time_to_first_token": "Time to First Token",
    "inter_token_latency": "Inter Token Latency",
    "inter_chunk_latency": "Inter Chunk Latency",
    "request_latency": "Request Latency",
    "output_sequence_length": "Output Sequence Length",
    "input_sequence_length": "Input Sequence Length",
    "request_throughput": "Request Throughput",
    "output_token_throughput": "Output Token Throughput",
    "request_count": "Request Count",
    "benchmark_duration": "Benchmark Duration",
}
RATES = {"request_throughput": "requests/sec", "output_token_throughput": "tokens/sec"}


def distribution(values: list[float], unit: str = "ms") -> Result:
    percents = {f"p{percent}": percentile(values, percent) for percent in (1, 5, 10, 25, 50, 75, 90, 95, 99)}
    return {"unit": unit, "avg": sum(values) / len(values), **percents, "min": min(values), "max": max(values)}


def metrics() -> Result:
    return {
        "request_throughput": {"unit": "requests/sec", "avg": 16.0},
        "request_latency": distribution(E2EL),
        "request_count": {"unit": "requests", "avg": 4.0},
        "time_to_first_token": distribution(TTFT),
        "inter_token_latency": distribution(TPOT_ENCODED),
        "inter_chunk_latency": distribution([gap for gaps in GAPS for gap in gaps]),
        "output_token_throughput": {"unit": "tokens/sec", "avg": 144.0},
        "output_sequence_length": distribution([9.0] * 4, "tokens"),
        "input_sequence_length": distribution([128.0] * 4, "tokens"),
        "benchmark_duration": {"unit": "sec", "avg": DURATION},
    }


def genai_metrics() -> Result:
    """Those that GenAI-Perf has."""
    return {tag: entry for tag, entry in metrics().items() if tag not in ("inter_chunk_latency", "benchmark_duration")}


def early(**more: Any) -> Result:
    """`profile_export_aiperf.json` of 0.1 to 0.12."""
    config = {
        "endpoint": {"model_names": ["org/tiny"], "type": "chat", "streaming": True},
        "input": {"prompt": {"input_tokens": {"mean": 128, "stddev": 0.0}, "output_tokens": {"mean": 5, "stddev": 2}}},
        "loadgen": {"concurrency": 2, "arrival_pattern": "concurrency_burst", "request_count": 4},
    }
    end = {"error_request_count": None, "was_cancelled": False, "error_summary": []}
    return {**metrics(), "input_config": config, **end, "start_time": "2026-11-20T08:15:51.5", **more}


def later(**more: Any) -> Result:
    """The same of 0.13."""
    config = {
        "models": {"items": [{"name": "org/tiny"}]},
        "endpoint": {"urls": ["http://127.0.0.1:8000"], "type": "chat", "streaming": True},
        "datasets": [{"name": "main", "prompts": {"isl": {"mean": 128.0, "stddev": 0.0}, "osl": {"mean": 5.0}}}],
        "phases": [{"name": "profiling", "kind": "profiling", "type": "concurrency", "requests": 4, "concurrency": 2}],
    }
    return {
        "schema_version": "1.4",
        "aiperf_version": "0.13.0",
        **metrics(),
        "input_config": config,
        "was_cancelled": False,
        "is_complete": True,
        "error_summary": [],
        "total_usage_completion_tokens": {"unit": "tokens", "avg": 20.0},
        "total_osl": {"unit": "tokens", "avg": 36.0},
        "total_token_throughput": {"unit": "tokens/sec", "avg": 2192.0},
        **more,
    }


def first(**more: Any) -> Result:
    """The same before the first release: metrics by their printed names."""
    return {
        "input_config": {"endpoint": {"model_names": ["org/tiny"]}, "loadgen": {"concurrency": 2}},
        "records": {TITLES[tag]: {**entry, "header": TITLES[tag]} for tag, entry in metrics().items()},
        "was_cancelled": False,
        "errors_by_type": [],
        **more,
    }


def record(index: int, *, usage: bool = True, **more: Any) -> Result:
    """One line of `profile_export.jsonl`."""
    counts = {"input_sequence_length": 128, "output_sequence_length": 9}
    if usage:
        counts |= {"usage_prompt_tokens": 128, "usage_completion_tokens": 5}
    start = START + index % 2 * 5_000_000 + index // 2 * 100_000_000
    return {
        "metadata": {
            "x_request_id": f"r{index}",
            "request_start_ns": start,
            "request_end_ns": start + int(E2EL[index] * 1e6),
            "benchmark_phase": "profiling",
            "was_cancelled": False,
        },
        "metrics": {
            "time_to_first_token": {"value": TTFT[index], "unit": "ms"},
            "request_latency": {"value": E2EL[index], "unit": "ms"},
            "inter_chunk_latency": {"value": GAPS[index], "unit": "ms"},
            **{name: {"value": value, "unit": "tokens"} for name, value in counts.items()},
        },
        "error": None,
        **more,
    }


def records(*, usage: bool = True) -> list[Result]:
    return [record(index, usage=usage) for index in range(4)]


def as_json(value: object) -> bytes:
    return json.dumps(value).encode()


def as_lines(values: list[Result]) -> bytes:
    return b"".join(as_json(value) + b"\n" for value in values)


def csv_text(statistics: tuple[str, ...], *, title_case: bool = False) -> str:
    """Both tools' CSV: statistics with a unit in the name, an empty line, single values; thousands by commas."""
    rows, values = [",".join(("Metric", *statistics))], ["Metric,Value"]
    for tag, entry in (genai_metrics() if title_case else metrics()).items():
        name = tag.replace("_", " ").title() if title_case else TITLES[tag]
        if "p50" in entry:
            cells = [f'"{entry[name_of]:,.2f}"' for name_of in statistics if name_of in entry]
            rows.append(",".join((f"{name} ({entry['unit']})", *cells)))
        else:
            unit = "" if tag == "request_count" else f" ({entry['unit']})"
            values.append(f'{name}{unit},"{entry["avg"]:,.2f}"')
    return "\n".join(
        [*rows, "", *values, "", "", "Endpoint,GPU_Index,Metric,avg", "localhost,0,GPU Power (W),100.0", ""]
    )


AIPERF_CSV = ("avg", "min", "max", "p1", "p5", "p10", "p25", "p50", "p75", "p90", "p95", "p99")
GENAI_CSV = ("avg", "min", "max", "p99", "p95", "p90", "p75", "p50", "p25")


def genai(**more: Any) -> Result:
    """`profile_export_genai_perf.json` with flat arguments."""
    config = {
        "model": ["org/tiny"],
        "formatted_model_name": "org_tiny",
        "concurrency": 2,
        "request_rate": None,
        "request_count": 4,
        "synthetic_input_tokens_mean": 128,
        "synthetic_input_tokens_stddev": 0,
        "output_tokens_mean": 5,
        "profile_export_file": "artifacts/profile_export.json",
    }
    return {**genai_metrics(), "input_config": config, **more}


def genai_sections(**more: Any) -> Result:
    """The same of the last releases."""
    config = {
        "model_names": ["org/tiny"],
        "perf_analyzer": {"stimulus": {"concurrency": 2}, "measurement": {"request_count": {"num": 4}}},
        "input": {"synthetic_tokens": {"mean": 128, "stddev": 16}, "output_tokens": {"mean": 5}},
    }
    return {**genai(), "input_config": config, **more}
