"""inference-perf's reports of one small stage: 20 requests in 2 s, ten a second asked for."""

import json
from typing import Any

import yaml

Result = dict[str, Any]


def statistics(mean: float, spread: float = 1.0) -> Result:
    """A distribution of the tool's own keys; `spread` is p99 over mean."""
    at = {"min": 0.5, "p0.1": 0.5, "p1": 0.6, "p5": 0.7, "p10": 0.8, "p25": 0.9, "median": 1.0}
    below = {name: mean * share for name, share in at.items()}
    above = {"p75": 0.25, "p90": 0.5, "p95": 0.75, "p99": 1.0, "p99.9": 1.1, "max": 1.2}
    return {"mean": mean, **below, **{name: mean * (1 + (spread - 1) * share) for name, share in above.items()}}


def stage(**more: Any) -> Result:
    """`stage_N_lifecycle_metrics.json` before April 2026: times per token are per chunk."""
    return {
        "load_summary": {
            "count": 21,
            "schedule_delay": statistics(0.001),
            "send_duration": 2.0,
            "requested_rate": 10.0,
            "achieved_rate": 10.5,
        },
        "successes": {
            "count": 20,
            "latency": {
                "request_latency": statistics(0.5, 1.4),
                "normalized_time_per_output_token": statistics(0.01),
                "time_per_output_token": statistics(0.004),
                "time_to_first_token": statistics(0.1, 2.0),
                "inter_token_latency": {**statistics(0.004), "median": 0.00004},
            },
            "throughput": {
                "input_tokens_per_sec": 2000.0,
                "output_tokens_per_sec": 500.0,
                "total_tokens_per_sec": 2500.0,
                "requests_per_sec": 10.0,
            },
            "prompt_len": statistics(200.0),
            "output_len": statistics(50.0),
        },
        "failures": {"count": 1, "request_latency": statistics(0.2), "prompt_len": statistics(200.0)},
        **more,
    }


def later(**load: Any) -> Result:
    """The same since: times per token are of tokens; `load` changes its load_summary."""
    made = stage()
    successes = {**made["successes"], "token_count_mismatches": 0, "prompt_tokens": {"total": 4000.0, "mean": 200.0}}
    successes["latency"] = {**successes["latency"], "time_per_output_token": statistics(0.008)}
    summary = {**made["load_summary"], **load}
    return {"benchmark_time_seconds": 2.0, **made, "successes": successes, "load_summary": summary}


def summary() -> Result:
    made = later()
    made["load_summary"] = {key: made["load_summary"][key] for key in ("count", "schedule_delay")}
    return made


def prometheus() -> Result:
    """`stage_N_prometheus_metrics.json`: what the server says of itself."""
    successes = {"count": 40, "rate": 10.0, "request_latency": {"mean": 0.5, "p90": 0.6}}
    return {"load_summary": {}, "successes": successes, "failures": {}}


def requests() -> list[Result]:
    return [{"start_time": 1.0, "end_time": 1.5, "request": "{}", "response": "{}", "info": {}, "error": None}]


def config(kind: str = "constant", stages: int = 1, **load: Any) -> bytes:
    lengths = {"min": 200, "max": 200, "mean": 200.0, "std_dev": 0.0}
    loads = [{"rate": 10.0, "duration": 2, "concurrency_level": 8, "num_requests": 20} for _ in range(stages)]
    return as_yaml(
        {
            "data": {"type": "random", "input_distribution": lengths, "output_distribution": {"mean": 50.0}},
            "load": {"type": kind, "stages": loads, "sweep": None, **load},
            "server": {"type": "vllm", "model_name": "org/tiny"},
        }
    )


def manifests(
    image: str = "vllm/vllm-openai:v0.11.0", copies: int = 1, args: tuple[str, ...] = ("--max-num-seqs=128",)
) -> bytes:
    """Kubernetes objects of the server."""
    container = {
        "name": "server",
        "image": image,
        "command": ["python3", "-m", "vllm.entrypoints.openai.api_server"],
        "args": ["--model=$(MODEL_ID)", *args],
        "env": [{"name": "MODEL_ID", "value": "org/served"}, {"name": "TOKEN", "valueFrom": {"secretKeyRef": {}}}],
    }
    pod = {"containers": [container] * copies, "nodeSelector": {"cloud.google.com/gke-accelerator": "nvidia-h100-80gb"}}
    deployment = {"kind": "Deployment", "spec": {"template": {"spec": pod}}}
    return as_yaml(deployment) + b"---\n" + as_yaml({"kind": "Service", "spec": {"ports": [{"port": 8000}]}})


def as_json(value: object) -> bytes:
    return json.dumps(value).encode()


def as_yaml(value: object) -> bytes:
    class Plain(yaml.SafeDumper):
        def ignore_aliases(self, data: object) -> bool:
            del data
            return True

    return yaml.dump(value, Dumper=Plain).encode()
