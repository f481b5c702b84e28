"""llm-d benchmark reports, made up: 100 requests, 20 s where the report has a time of the measurement itself."""

from typing import Any

import yaml

MILLISECONDS = {"time_to_first_token": 50.0, "request_latency": 900.0}
PER_TOKEN = {"time_per_output_token": 12.0, "inter_token_latency": 11.0, "normalized_time_per_output_token": 14.0}


def latency(**changes: Any) -> dict[str, Any]:
    """Mean as above in ms, p99 twice that."""
    return {
        name: {"units": "ms" if name in MILLISECONDS else "ms/token", "mean": mean, "p99": mean * 2, "stddev": 1.0}
        for name, mean in {**MILLISECONDS, **PER_TOKEN}.items()
    } | changes


def early(**metrics: Any) -> dict[str, Any]:
    """0.1."""
    return {
        "version": "0.1",
        "scenario": {
            "host": {"type": ["replica"], "accelerator": [{"model": "H100", "memory": 80, "count": 1}]},
            "platform": {"engine": [{"name": "vllm", "version": "0.9.0", "args": {}}]},
            "model": {"name": "org/tiny"},
            "load": {"name": "vllm-benchmark", "args": {}},
        },
        "metrics": {
            "time": {"duration": 20.0, "start": 1777636800.0, "stop": 1777636820.0},
            "requests": {
                "total": 100,
                "failures": 0,
                "input_length": {"units": "count", "mean": 128.0},
                "output_length": {"units": "count", "mean": 70.0},
            },
            "latency": latency(),
            "throughput": {"output_tokens_per_sec": 350.0, "total_tokens_per_sec": 990.0, "requests_per_sec": 5.0},
        }
        | metrics,
    }


def late(tool: str = "vllm-benchmark", **aggregate: Any) -> dict[str, Any]:
    """0.2."""
    return {
        "version": "0.2",
        "run": {"uid": "u-1", "time": {"start": "2026-05-01T12:00:00Z", "duration": "PT500S"}},
        "scenario": {
            "stack": [
                {
                    "metadata": {"label": "vllm-0", "cfg_id": "a"},
                    "standardized": {
                        "kind": "inference_engine",
                        "tool": "vllm-openai",
                        "tool_version": "docker.io/vllm/vllm-openai:v0.11.0",
                        "role": "replica",
                        "replicas": 1,
                        "model": {"name": "org/tiny"},
                        "accelerator": {"model": "H100", "count": 1, "parallelism": {"tp": 1}},
                    },
                    "native": {},
                }
            ],
            "load": {
                "metadata": {},
                "standardized": {
                    "tool": tool,
                    "tool_version": "1",
                    "source": "random",
                    "input_seq_len": {"distribution": "fixed", "value": 128},
                    "rate_qps": 5.0,
                    "concurrency": 8,
                },
                "native": {},
            },
        },
        "results": {
            "request_performance": {
                "aggregate": {
                    "requests": {"total": 100, "failures": 4, "incomplete": 1},
                    "latency": latency(),
                    "throughput": {
                        "request_rate": {"units": "queries/s", "mean": 5.0},
                        "output_token_rate": {"units": "tokens/s", "mean": 350.0},
                        "total_token_rate": {"units": "tokens/s", "mean": 990.0},
                    },
                }
                | aggregate
            }
        },
    }


def as_yaml(report: dict[str, Any]) -> bytes:
    return bytes(yaml.safe_dump(report), "utf-8")
