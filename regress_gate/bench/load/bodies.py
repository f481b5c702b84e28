"""The request bodies of a pass, made before anything is measured, so that sending costs the client only the write."""

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import Any

import orjson

from regress_gate.bench.load.workload import (
    Api,
    LoadWorkload,
    prompts,
    rerank_texts,
    warmup_prompts,
    warmup_rerank_texts,
)


def measured_bodies(workload: LoadWorkload, scenario: str, ordinal: int, model: str) -> list[bytes]:
    """The measured requests of pass `ordinal` (from 1) to the model of that served name, in the order of sending."""
    if workload.api is Api.RERANK:
        return _encoded(workload, model, _texts(rerank_texts(workload, scenario, ordinal)))
    return _encoded(workload, model, _token_ids(workload, prompts(workload, scenario, ordinal)))


def warmup_bodies(workload: LoadWorkload, scenario: str, ordinal: int, model: str) -> list[bytes]:
    """The same for the warm-up."""
    if workload.api is Api.RERANK:
        return _encoded(workload, model, _texts(warmup_rerank_texts(workload, scenario, ordinal)))
    return _encoded(workload, model, _token_ids(workload, warmup_prompts(workload, scenario, ordinal)))


def _token_ids(workload: LoadWorkload, token_ids: Sequence[list[int]]) -> list[dict[str, Any]]:
    key = "prompt" if workload.api is Api.COMPLETIONS else "input"
    return [{key: prompt} for prompt in token_ids]


def _texts(texts: Sequence[tuple[str, list[str]]]) -> list[dict[str, Any]]:
    return [{"query": query, "documents": documents} for query, documents in texts]


def _encoded(workload: LoadWorkload, model: str, own: Sequence[Mapping[str, Any]]) -> list[bytes]:
    generation = {
        "max_tokens": workload.output_len,
        "temperature": 0,
        "ignore_eos": workload.ignore_eos,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    shared = {**(generation if workload.api.streamed else {}), **workload.extra_body}
    names = cycle(workload.lora_adapters or (model,))
    return [orjson.dumps({"model": name, **shared, **part}) for name, part in zip(names, own, strict=False)]
