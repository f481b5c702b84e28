"""What a result of `vllm bench serve` says besides its numbers: the load, what a sweep varied, and who it is of.

Not for reading numbers: vllm_serve.py does.
"""

import re
from collections.abc import Mapping
from typing import Any

from regress_gate.ingest import fields
from regress_gate.ingest.identity import IDENTITY_KEYS
from regress_gate.ingest.interface import RefusalError
from regress_gate.ingest.plausibility import Scalars
from regress_gate.ingest.text import clean, shown

# Keys that the client writes; what else stands at the top level of a sweep's result are the swept parameters.
_KNOWN = frozenset(
    """
    date endpoint_type backend label model_id tokenizer_id best_of use_beam_search num_prompts request_rate
    burstiness max_concurrency ramp_up_strategy ramp_up_start_rps ramp_up_end_rps rps_change_events duration
    completed failed total_input_tokens total_output_tokens request_throughput request_goodput request_goodput:
    output_throughput total_token_throughput input_lens output_lens ttfts itls generated_texts errors start_times
    latencies queue_times server_queue_times server_ttfts max_output_tokens_per_s max_concurrent_requests rtfx
    total_input_sequences input_sequence_throughput run_number
    """.split()  # noqa: SIM905 - one name a line would be a page
)
_KNOWN_PATTERN = re.compile(r".*_ms|spec_decode_.*|diffusion_.*|probe_.*")


def workload_of(data: Mapping[str, Any], scalars: Scalars, *, sweep: bool) -> dict[str, Any]:
    """Raises RefusalError for a load that no client sends. `sweep`: what the client did not write was swept."""
    workload: dict[str, Any] = {}
    if (model := fields.text(data, "model_id")) is not None:
        workload["model"] = clean(model)
    if "request_rate" in data:
        workload["request_rate"] = _request_rate(data)
    # Clients before 0.6.4 know no limit and do not write the key; console text without it may have been cut.
    if "max_concurrency" in data or not scalars.rounding:
        workload["max_concurrency"] = scalars.max_concurrency
    if scalars.num_prompts is not None:
        workload["num_prompts"] = scalars.num_prompts
    if (burstiness := fields.number(data, "burstiness")) is not None:
        if burstiness <= 0:
            raise RefusalError(f"burstiness is {burstiness:g}")
        workload["burstiness"] = burstiness
    if (strategy := fields.text(data, "ramp_up_strategy")) is not None:
        workload["ramp_up_strategy"] = clean(strategy)
        for key in ("ramp_up_start_rps", "ramp_up_end_rps"):
            workload[key] = fields.number(data, key)
    for name, total in (("input", scalars.input_tokens), ("output", scalars.output_tokens)):
        if total is not None:
            workload[f"mean_{name}_tokens"] = total / scalars.completed
    if sweep:
        swept = {key: data[key] for key in sorted(_swept(data))}
        workload |= {key: clean(value) if isinstance(value, str) else value for key, value in swept.items()}
    return workload


def _request_rate(data: Mapping[str, Any]) -> float | None:
    if data["request_rate"] == "inf":
        return None
    rate = fields.number(data, "request_rate")
    if rate is None or rate <= 0:
        raise RefusalError(f'request_rate is {shown(data["request_rate"])}, neither a positive number nor "inf"')
    return rate


def _swept(data: Mapping[str, Any]) -> list[str]:
    scalar = (str, int, float, bool)
    return [
        key
        for key, value in data.items()
        if isinstance(value, scalar)
        and key.isidentifier()
        and key not in _KNOWN
        and key not in IDENTITY_KEYS
        and not _KNOWN_PATTERN.fullmatch(key)
    ]


def sweep_trial(data: Mapping[str, Any]) -> int:
    """Which pass of a sweep's cell it is, counted from 1."""
    number = fields.count(data, "run_number")
    if number is None:
        raise RefusalError("run_number is missing")
    return number + 1


def metadata_of(data: Mapping[str, Any], unknown: tuple[str, ...]) -> dict[str, str]:
    """Texts at the top level that the client did not write itself: `--metadata key=value`. `unknown`: their keys."""
    return {key: value for key in unknown if isinstance(value := data[key], str)}


def unknown_keys(keys: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(key for key in keys if key not in _KNOWN)
