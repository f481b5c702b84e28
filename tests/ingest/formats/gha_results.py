"""Histories of github-action-benchmark, made up."""

import json
from typing import Any

COMMIT = "c0ffee" + "0" * 34
DATE = 1_777_636_800_000
"""2026-05-01 12:00:00 UTC in milliseconds."""


def bench(name: str, value: float, unit: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "value": value, "unit": unit, **more}


LATENCIES = [
    bench("chat/mean_ttft_ms", 50.0, "ms"),
    bench("chat/p99_ttft_ms", 90.0, "ms"),
    bench("chat/Median TPOT (ms)", 12.0, "ms"),
]


def entry(benches: list[dict[str, Any]], tool: str = "customSmallerIsBetter", commit: str = COMMIT) -> dict[str, Any]:
    return {"commit": {"id": commit, "message": "a change"}, "date": DATE, "tool": tool, "benches": benches}


def history(*entries: Any, repository: str = "https://github.com/vllm-project/vllm") -> dict[str, Any]:
    return {"lastUpdate": DATE, "repoUrl": repository, "entries": {"Latency": list(entries)}}


def script(data: dict[str, Any]) -> bytes:
    return f"window.BENCHMARK_DATA = {json.dumps(data, indent=2)}".encode()


def nm_vllm(**extra: Any) -> dict[str, Any]:
    """A history in which name and extra are JSON."""
    told = json.dumps(
        {"description": "llama 8b", "script_name": "benchmark_serving.py", "vllm_version": "0.1.0"} | extra
    )
    names = {"median_request_latency": 900.0, "mean_ttft_ms": 50.0}
    benches = [
        bench(json.dumps({"name": name, "description": "llama 8b"}), value, "ms", extra=told)
        for name, value in names.items()
    ]
    return history(entry(benches), repository="https://github.com/neuralmagic/nm-vllm")
