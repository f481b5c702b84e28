"""Small valid files of vLLM's own benchmarks and of what its CI makes of them, with round numbers."""

import json
from typing import Any

from tests.factories.serve_results import console, made_up, plain

TIMES = [0.5, 0.5, 0.5, 0.5, 1.0, 1.0, 1.0, 1.0, 1.5, 1.5]
"""Mean 0.9, median 1.0, p90 1.5 s."""

MODEL = "org/tiny"
TEST = "serving_tiny_tp1_qps_inf_concurrency_4"


def latency(**more: Any) -> dict[str, Any]:
    percentiles = {"10": 0.5, "25": 0.5, "50": 1.0, "75": 1.0, "90": 1.5, "99": 1.5}
    return {"avg_latency": 0.9, "latencies": TIMES, "percentiles": percentiles, **more}


def throughput(**more: Any) -> dict[str, Any]:
    return {
        "elapsed_time": 4.0,
        "num_requests": 64,
        "total_num_tokens": 10240,
        "requests_per_second": 16.0,
        "tokens_per_second": 2560.0,
        **more,
    }


def startup(**more: Any) -> dict[str, Any]:
    return {
        "avg_cold_startup_time": 60.0,
        "cold_startup_times": [58.0, 60.0, 62.0],
        "cold_startup_percentiles": {"50": 60.0, "90": 61.6},
        "avg_cold_compilation_time": 20.0,
        "cold_compilation_times": [20.0, 20.0, 20.0],
        "avg_warm_startup_time": 30.0,
        "warm_startup_times": [29.0, 30.0, 31.0],
        "avg_warm_compilation_time": 5.0,
        "warm_compilation_times": [5.0, 5.0, 5.0],
        **more,
    }


def record(name: str, values: Any, rest: dict[str, Any], **arguments: Any) -> dict[str, Any]:
    """One record of a PyTorch-HUD file."""
    return {
        "benchmark": {"name": "vLLM benchmark", "extra_info": {"args": arguments, "use_compile": True}},
        "model": {"name": MODEL},
        "metric": {"name": name, "benchmark_values": values, "extra_info": rest},
    }


def hud_serve(**arguments: Any) -> list[dict[str, Any]]:
    """As `vllm bench serve` writes: the twelve latencies are metrics, all other keys stand in each record."""
    result = plain(made_up(4))
    names = [f"{name}_{family}_ms" for family in ("ttft", "tpot", "itl") for name in ("mean", "median", "std", "p99")]
    rest = {key: value for key, value in result.items() if key not in names}
    given = {"dataset_name": "random", "random_input_len": 128, "random_output_len": 8, **arguments}
    return [record(name, [result[name]], rest, **given) for name in names]


def hud_latency() -> list[dict[str, Any]]:
    result = latency()
    rest = {key: result[key] for key in ("avg_latency", "percentiles")}
    return [record("latency", result["latencies"], rest, input_len=32, output_len=128, batch_size=8)]


def hud_throughput() -> list[dict[str, Any]]:
    result = throughput()
    rest = {key: result[key] for key in ("elapsed_time", "num_requests", "total_num_tokens")}
    names = ("requests_per_second", "tokens_per_second")
    return [record(name, [result[name]], rest, input_len=128, random_input_len=1024) for name in names]


def hud_startup() -> list[dict[str, Any]]:
    result = startup()
    return [record("avg_cold_startup_time", [60.0], {"cold_startup_times": result["cold_startup_times"]})]


def commands(**more: Any) -> dict[str, Any]:
    """The `.commands` file of a serving test."""
    return {
        "server_command": f"VLLM_X=1 vllm serve {MODEL} --tensor-parallel-size 2 --max-model-len 4096",
        "client_command": "vllm bench serve --save-result --request-rate inf --max-concurrency 4 --dataset-name random "
        "--random-input-len 128 --random-output-len 8 --num-prompts 12",
        "gpu_type": "H100\nH100",
        **more,
    }


def table_row(**more: Any) -> dict[str, Any]:
    """A serving row of benchmark_results.json; latencies in ms."""
    return {
        "Test name": TEST,
        "Model": MODEL,
        "Dataset Name": "random",
        "Input Len": 128.0,
        "Output Len": 8.0,
        "TP Size": 2,
        "GPU": "2xH100",
        "# of req.": 100,
        "qps": "inf",
        "# of max concurrency.": 4,
        "Tput (req/s)": 10.0,
        "Total Token Tput (tok/s)": 1360.0,
        "Output Tput (tok/s)": 80.0,
        "Mean TTFT (ms)": 50.0,
        "Median TTFT (ms)": 40.0,
        "P99 TTFT (ms)": 90.0,
        "STD TTFT (ms)": 9.0,
        "Mean TPOT (ms)": 11.0,
        "Median": 10.0,
        "P99": 20.0,
        "Mean ITL (ms)": 11.5,
        "Median ITL (ms)": 10.5,
        "P99 ITL (ms)": 21.0,
        **more,
    }


def table() -> list[dict[str, Any]]:
    """Rows of all three kinds, as of 2025."""
    return [
        {"Test name": "latency_tiny", "GPU": "1xH100", "Mean latency (ms)": 900.0, "Median latency (ms)": 1000.0}
        | {"P99 latency (ms)": 1500.0},
        {"Test name": "throughput_tiny", "GPU": "1xH100", "# of req.": 64, "Total # of tokens": 10240}
        | {"Elapsed time (s)": 4.0, "Tput (req/s)": 16.0, "Tput (tok/s)": 2560.0},
        table_row(),
    ]


def old_table() -> dict[str, Any]:
    """The same as columns of rows."""
    named: dict[str, Any] = {}
    for kind, row in zip(("latency", "throughput", "serving"), table(), strict=True):
        named[kind] = {column: {"0": value} for column, value in row.items()}
    return named


def perf_row(**more: Any) -> dict[str, Any]:
    """What perf-eval sends of one result: seconds, and rates for each of 8 GPUs."""
    return {
        "date": "2026-09-30 17:44:42",
        "device": "mi355x",
        "conc": 32,
        "image": "vllm/vllm-openai-rocm:v0.21.0",
        "model": MODEL,
        "framework": "vllm",
        "precision": "fp8",
        "isl": 1024,
        "osl": 1024,
        "tp": 8,
        "tput_per_gpu": 250.0,
        "output_tput_per_gpu": 125.0,
        "input_tput_per_gpu": 125.0,
        "mean_ttft": 0.5,
        "median_ttft": 0.4,
        "p99_ttft": 1.5,
        "mean_tpot": 0.02,
        "mean_intvty": 50.0,
        **more,
    }


def dashboard() -> dict[str, Any]:
    """`perf_eval.json`: two builds of one configuration."""
    commit = "93d8f834dd8a"
    builds = {
        "617": {"date": "2026-09-30T02:11:00Z", "vllm_commit": commit, "image": "x"},
        "618": {"date": "2026-10-01T02:11:00Z", "vllm_commit": commit[::-1].replace("d", "e"), "image": "x"},
    }

    def series(*values: float) -> dict[str, Any]:
        points = [
            {"build": build, "value": value, "completed_requests": 512, "failed_requests": 0}
            for build, value in zip(builds, values, strict=True)
        ]
        return {"better": "higher", "series": points}

    metrics = {"tput_per_gpu": series(250.0, 240.0), "mean_ttft": series(0.5, 0.6), "mean_intvty": series(50.0, 49.0)}
    config = {"device": "mi355x", "isl": 1024, "osl": 1024, "conc": 32, "gpus": 8, "metrics": metrics}
    return {
        "generated_at": "x",
        "builds": builds,
        "models": [{"model": MODEL, "perf_configs": [config], "accuracy_tasks": []}],
    }


def harness_row(**more: Any) -> dict[str, Any]:
    """The printed numbers under keys of somebody's own, with the client's command."""
    return {
        "concurrency": 4,
        "ok": True,
        "metrics": {
            "successful_requests": 80,
            "benchmark_duration_s": 20.0,
            "total_input_tokens": 8000,
            "total_generated_tokens": 4000,
            "request_throughput_req_s": 4.0,
            "output_token_throughput_tok_s": 200.0,
            "mean_ttft_ms": 83.24,
            "mean_tpot_ms": 8.12,
            "mean_itl_ms": 8.11,
            "spec_acceptance_length": 2.06,
        },
        "command": f"vllm bench serve --model {MODEL} --dataset-name hf --dataset-path someone/mt-bench "
        "--num-prompts 80 --max-concurrency 4 --temperature 1.0".split(),
        **more,
    }


def quoting(**more: Any) -> dict[str, Any]:
    """A record in the manner of ISO-Bench, which quotes the printed block."""
    return {
        "human_commit": "015069b0",
        "parent_commit": "fbefc8a78d22",
        "model": MODEL,
        "status": "success",
        "metrics": {"request_throughput_req_s": 1.0},
        "raw_output": "INFO: ready\n" + console(made_up(6)) + "DONE\n",
        **more,
    }


def as_bytes(data: Any) -> bytes:
    return json.dumps(data).encode()
