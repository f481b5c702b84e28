"""InferenceX aggregates and results of its decode experiment, made up. Times are in seconds."""

from typing import Any


def aggregate(**changes: Any) -> dict[str, Any]:
    """One node of 8 GPUs: 80 output and 160 tokens/s in all."""
    latencies = {
        f"{statistic}_{family}": value
        for family, values in {
            "ttft": (0.3, 0.29, 0.6),
            "tpot": (0.02, 0.019, 0.025),
            "itl": (0.05, 0.045, 0.17),
            "e2el": (16.0, 16.1, 18.0),
        }.items()
        for statistic, value in zip(("mean", "median", "p99"), values, strict=True)
    }
    inverse = {name.replace("tpot", "intvty"): 1 / value for name, value in latencies.items() if "tpot" in name}
    return {
        "hw": "mi355x",
        "conc": 4,
        "image": "vllm/vllm-openai-rocm:v0.21.0",
        "model": "org/Big-1",
        "framework": "vllm",
        "precision": "int4",
        "spec_decoding": "none",
        "disagg": False,
        "isl": 1024,
        "osl": 1024,
        "is_multinode": False,
        "tp": 8,
        "ep": 1,
        "dp_attention": "false",
        "tput_per_gpu": 20.0,
        "output_tput_per_gpu": 10.0,
        "input_tput_per_gpu": 10.0,
        **latencies,
        **inverse,
        "std_intvty": 1414.6,
    } | changes


def several_nodes(**changes: Any) -> dict[str, Any]:
    """4 GPUs for prefill, 8 for decode: 400 tokens/s in, 80 out."""
    single = aggregate()
    for key in ("tp", "ep", "dp_attention"):
        del single[key]
    return (
        single
        | {
            "is_multinode": True,
            "disagg": True,
            "prefill_num_workers": 1,
            "prefill_tp": 4,
            "decode_num_workers": 2,
            "decode_tp": 4,
            "num_prefill_gpu": 4,
            "num_decode_gpu": 8,
            "tput_per_gpu": 40.0,
            "output_tput_per_gpu": 10.0,
            "input_tput_per_gpu": 100.0,
        }
        | changes
    )


def decode(**changes: Any) -> dict[str, Any]:
    """80 requests of 4096 and 128 tokens in 64 s."""
    return {
        "date": "20260214-151011",
        "model_id": "org/Big-1",
        "tokenizer_id": "org/Big-1",
        "num_prompts": 80,
        "request_rate": "inf",
        "burstiness": 1.0,
        "max_concurrency": 8,
        "duration": 64.0,
        "completed": 80,
        "good_completed": None,
        "total_input_tokens": 327680,
        "total_output_tokens": 10240,
        "request_throughput": 1.25,
        "request_goodput": None,
        "input_throughput": 5120.0,
        "output_throughput": 160.0,
        "median_ttft": 1.8,
        "p99_ttft": 4.9,
        "median_e2el": 4.4,
        "p99_e2el": 8.3,
        "median_tpot": 0.0208,
        "p99_tpot": 0.0476,
    } | changes
