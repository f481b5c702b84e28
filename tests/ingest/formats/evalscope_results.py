"""What `evalscope perf` writes of one made-up run, in the keys of each generation. Times below are in seconds."""

from typing import Any

MEAN = {"e2el": 0.5, "ttft": 0.06, "tpot": 0.014, "itl": 0.013}
P99 = {"e2el": 0.6, "ttft": 0.15, "tpot": 0.019, "itl": 0.029}
MEDIAN = {"e2el": 0.49, "ttft": 0.055, "tpot": 0.0138, "itl": 0.0125}
LOWEST = {"e2el": 0.4, "ttft": 0.02, "tpot": 0.01, "itl": 0.007}


def seconds(**changes: Any) -> dict[str, Any]:
    """benchmark_summary.json of 1.0: 40 requests in 5 s, 128 tokens in and 32 out."""
    return {
        "Time taken for tests (s)": 5.0,
        "Number of concurrency": 4,
        "Total requests": 40,
        "Succeed requests": 40,
        "Failed requests": 0,
        "Output token throughput (tok/s)": 256.0,
        "Total token throughput (tok/s)": 1280.0,
        "Request throughput (req/s)": 8.0,
        "Average latency (s)": 0.5,
        "Average time to first token (s)": 0.06,
        "Average time per output token (s)": 0.014,
        "Average inter-token latency (s)": 0.013,
        "Average input tokens per request": 128.0,
        "Average output tokens per request": 32.0,
    } | changes


def milliseconds(**changes: Any) -> dict[str, Any]:
    """The same of 1.14."""
    return {
        "Test Duration (s)": 5.0,
        "Concurrency": 4,
        "Request Rate (req/s)": -1.0,
        "Total Requests": 40,
        "Success Requests": 40,
        "Failed Requests": 0,
        "Stream Requests": 40,
        "Non-Stream Requests": 0,
        "Req Throughput (req/s)": 8.0,
        "Avg Latency (s)": 0.5,
        "Avg Input Tokens": 128.0,
        "Output Throughput (tok/s)": 256.0,
        "Total Throughput (tok/s)": 1280.0,
        "Avg TTFT (ms)": 60.0,
        "Avg TPOT (ms)": 14.0,
        "Avg ITL (ms)": 13.0,
        "Avg Output Tokens": 32.0,
        "Input Throughput (tok/s)": 0.0,
    } | changes


def rows(lowest: dict[str, float] = LOWEST) -> list[dict[str, Any]]:
    """benchmark_percentile.json of 1.14."""
    return [
        {
            "Percentiles": label,
            "Latency (s)": values["e2el"],
            "TTFT (ms)": values["ttft"] * 1000,
            "ITL (ms)": values["itl"] * 1000,
            "TPOT (ms)": values["tpot"] * 1000,
            "Output (tok/s)": 60.0,
        }
        for label, values in (("min", lowest), ("50%", MEDIAN), ("99%", P99))
    ]


def columns() -> dict[str, list[Any]]:
    """benchmark_percentile.json as columns, in seconds."""
    return {
        "Percentiles": ["50%", "99%"],
        "TTFT (s)": [MEDIAN["ttft"], P99["ttft"]],
        "ITL (s)": [MEDIAN["itl"], P99["itl"]],
        "TPOT (s)": [MEDIAN["tpot"], P99["tpot"]],
        "Latency (s)": [MEDIAN["e2el"], P99["e2el"]],
    }


def arguments(**changes: Any) -> dict[str, Any]:
    return {
        "model": "tiny",
        "model_id": "tiny",
        "api": "openai",
        "number": 40,
        "parallel": 4,
        "rate": -1.0,
        "open_loop": False,
        "duration": None,
        "outputs_dir": "./outputs",
        "dataset": "random",
        "min_prompt_length": 128,
        "max_prompt_length": 128,
        "min_tokens": 32,
        "max_tokens": 32,
        "stream": True,
    } | changes
