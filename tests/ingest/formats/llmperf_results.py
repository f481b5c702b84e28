"""llmperf's two files of one run: four requests of which one failed, two at a time, in half a second."""

import json
from typing import Any

from tests.factories.serve_results import percentile

Result = dict[str, Any]

TTFT = [0.10, 0.12, 0.14]
E2EL = [0.20, 0.24, 0.30]
TOKENS = [11, 13, 9]
PER_TOKEN = [0.018, 0.019, 0.033]
"""llmperf's own inter_token_latency_s."""
SECONDS = 0.5
STEM = "org-tiny_550_150"


def statistics(key: str, values: list[float]) -> Result:
    quantiles = {f"results_{key}_quantiles_p{at}": percentile(values, at) for at in (25, 50, 75, 90, 95, 99)}
    return {**quantiles, f"results_{key}_mean": sum(values) / len(values), f"results_{key}_min": min(values)}


def summary(**more: Any) -> Result:
    return {
        "version": "2023-08-31",
        "name": f"{STEM}_summary",
        "model": "org/tiny",
        "mean_input_tokens": 550,
        "stddev_input_tokens": 150,
        "mean_output_tokens": 150,
        "stddev_output_tokens": 0,
        "num_concurrent_requests": 2,
        **statistics("inter_token_latency_s", PER_TOKEN),
        **statistics("ttft_s", TTFT),
        **statistics("end_to_end_latency_s", E2EL),
        "results_number_input_tokens_mean": 550.0,
        "results_number_output_tokens_mean": 11.0,
        "results_num_requests_started": 4,
        "results_error_rate": 0.25,
        "results_number_errors": 1,
        "results_error_code_frequency": "{500: 1}",
        "results_mean_output_throughput_token_per_s": sum(TOKENS) / SECONDS,
        "results_num_completed_requests": 3,
        "results_num_completed_requests_per_min": 3 / SECONDS * 60,
        "timestamp": 1795227351,
        **more,
    }


def response(index: int, **more: Any) -> Result:
    return {
        "error_code": None,
        "error_msg": "",
        "inter_token_latency_s": PER_TOKEN[index],
        "ttft_s": TTFT[index],
        "end_to_end_latency_s": E2EL[index],
        "request_output_throughput_token_per_s": TOKENS[index] / E2EL[index],
        "number_total_tokens": 550 + TOKENS[index],
        "number_output_tokens": TOKENS[index],
        "number_input_tokens": 550,
        **more,
    }


def failed() -> Result:
    empty = {"ttft_s": 0, "end_to_end_latency_s": 0, "inter_token_latency_s": 0, "number_output_tokens": 0}
    return response(0, error_code=500, error_msg="boom", **empty)


def responses() -> list[Result]:
    return [response(0), failed(), response(1), response(2)]


def as_json(value: object) -> bytes:
    return json.dumps(value).encode()
