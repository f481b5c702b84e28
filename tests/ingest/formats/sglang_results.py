"""Writes lines of SGLang's `bench_serving` for four requests of 5 tokens, with numbers that can be checked by hand.

Request i of 0…3: TTFT 40, 50, 60, 70 ms; four gaps of 10 ms; the stream ends 1 ms after the last token.
"""

import json
from typing import Any

TTFTS = (0.040, 0.050, 0.060, 0.070)
GAPS = 4
GAP = 0.010
TAIL = 0.001


def old_line(**changes: Any) -> dict[str, Any]:
    """As 0.4 to 0.5.2 write it."""
    made: dict[str, Any] = {
        "backend": "vllm",
        "dataset_name": "random",
        "request_rate": float("inf"),
        "max_concurrency": 2,
        "sharegpt_output_len": None,
        "random_input_len": 16,
        "random_output_len": 5,
        "random_range_ratio": 1.0,
        "duration": 0.25,
        "completed": 4,
        "total_input_tokens": 64,
        "total_output_tokens": 20,
        "total_output_tokens_retokenized": 19,
        "request_throughput": 16.0,
        "input_throughput": 256.0,
        "output_throughput": 80.0,
        "concurrency": 1.536,
        "accept_length": None,
    }
    # e2el 81, 91, 101, 111 ms; tpot (e2el − ttft) / 4 = 10.25 ms.
    made |= {"mean_e2e_latency_ms": 96.0, "median_e2e_latency_ms": 96.0, "p99_e2e_latency_ms": 110.7}
    made |= {"mean_ttft_ms": 55.0, "median_ttft_ms": 55.0, "p99_ttft_ms": 69.7}
    made |= {"mean_tpot_ms": 10.25, "median_tpot_ms": 10.25, "p99_tpot_ms": 10.25}
    made |= {"mean_itl_ms": 10.0, "median_itl_ms": 10.0, "p95_itl_ms": 10.0, "p99_itl_ms": 10.0}
    made |= {f"std_{family}_ms": 1.0 for family in ("e2e_latency", "ttft", "tpot", "itl")}
    return made | changes


def new_line(**changes: Any) -> dict[str, Any]:
    """As 0.5.23 writes it."""
    added = {"tag": None, "server_info": None, "total_throughput": 336.0}
    added |= {"max_output_tokens_per_s": 20.0, "max_concurrent_requests": 4}
    added |= {"p90_e2e_latency_ms": 108.0, "p95_e2e_latency_ms": 109.5, "p90_ttft_ms": 67.0, "p95_ttft_ms": 68.5}
    added |= {"p90_tpot_ms": 10.25, "p95_tpot_ms": 10.25, "p90_itl_ms": 10.0}
    return old_line() | added | changes


def details() -> dict[str, Any]:
    """What `--output-details` adds, and a fifth request that failed."""
    return {
        "input_lens": [16] * 5,
        "output_lens": [5, 5, 5, 5, 0],
        "ttfts": [*TTFTS, 0.0],
        "itls": [[GAP] * GAPS] * 4 + [[]],
        "generated_texts": [""] * 5,
        "errors": [""] * 4 + ["503 Service Unavailable"],
    }


def lines(*results: dict[str, Any]) -> bytes:
    return "".join(json.dumps(result) + "\n" for result in results).encode()
