"""A scenario's name when nobody gives one: made of what the result itself says of its workload, and of nothing else.

`tiny-c8-inf-n48` is model tiny, at most 8 requests at once, no rate limit, 48 requests. The name has to come out the
same for every version, so measured numbers (mean input length…) are not in it.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from regress_gate.ingest.bench_arguments import TEST_KEY
from regress_gate.ingest.text import MAX_NAME, sanitised

_HUB_CACHE = re.compile(r"(?:^|/)models--([^/]+)/snapshots/[0-9a-f]+$")
_STATED = (
    "model",
    "request_rate",
    "max_concurrency",
    "num_prompts",
    "burstiness",
    "mean_input_tokens",
    "mean_output_tokens",
    "ramp_up_strategy",
    "ramp_up_start_rps",
    "ramp_up_end_rps",
)


_NOT_TOLD = frozenset(["mean_input_tokens", "mean_output_tokens"])
"""Measured, so they are not in the name."""


def scenario_name(workload: Mapping[str, Any]) -> str | None:
    """The derived name; None where the result does not even say which model was served.

    A test of vLLM's CI has a name already, which tells its server from others too.
    """
    keys = tuple(key for key in workload if key not in _NOT_TOLD)
    values = [workload[key] for key in keys]
    try:
        return _named(keys, *values)
    except TypeError:  # a value that cannot be remembered
        return _named.__wrapped__(keys, *values)


@lru_cache(maxsize=1000, typed=True)
def _named(keys: tuple[str, ...], *values: Any) -> str | None:
    workload = dict(zip(keys, values, strict=True))
    if isinstance(test := workload.get(TEST_KEY), str) and (name := sanitised(test)):
        return name if len(name) <= MAX_NAME else None
    model = workload.get("model")
    if not model or not (parts := [_model_name(model)])[0]:
        return None
    if "max_concurrency" in workload:
        limit = workload["max_concurrency"]
        parts.append("unlimited" if limit is None else f"c{limit}")
    if "request_rate" in workload:
        rate = workload["request_rate"]
        parts.append("inf" if rate is None else f"r{rate:g}")
    if workload.get("burstiness", 1) != 1:
        parts.append(f"b{workload['burstiness']:g}")
    if strategy := workload.get("ramp_up_strategy"):
        parts.append(f"{strategy}{workload.get('ramp_up_start_rps')}to{workload.get('ramp_up_end_rps')}")
    if "num_prompts" in workload:
        parts.append(f"n{workload['num_prompts']}")
    own = {key: value for key, value in workload.items() if key not in _STATED}
    name = _joined([*parts, *(f"{key}={value}" for key, value in own.items())])
    if len(name) > MAX_NAME:
        name = _joined([*parts, *map(str, own.values())])
    return name if len(name) <= MAX_NAME else None


def _joined(parts: list[str]) -> str:
    return "-".join(filter(None, map(sanitised, parts)))


@lru_cache(maxsize=1000)
def _model_name(model: str) -> str:
    """Last part of a model id or path; the model's own name for a path into the hub's cache."""
    path = model.rstrip("/")
    cached = _HUB_CACHE.search(path)
    name = cached[1].rpartition("--")[2] if cached else path.rpartition("/")[2]
    return sanitised(name)
