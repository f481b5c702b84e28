"""The requests of a pass, made before anything is measured, so that sending costs the client only the write."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from typing import Any

import orjson

from regress_gate.bench.load.answer import Answer
from regress_gate.bench.load.choosing import Chosen
from regress_gate.bench.load.sending import Request
from regress_gate.bench.load.whole_answer import WholeAnswer
from regress_gate.bench.load.workload import (
    Api,
    LoadWorkload,
    prompts,
    rerank_texts,
    warmup_prompts,
    warmup_rerank_texts,
)


def measured_requests(workload: LoadWorkload, scenario: str, ordinal: int, model: str) -> list[Request]:
    """Pass `ordinal` (from 1) of generated prompts to the model of that served name, in the order of sending."""
    if workload.api is Api.RERANK:
        return _requests(workload, model, _texts(rerank_texts(workload, scenario, ordinal)))
    return _requests(workload, model, _token_ids(workload, prompts(workload, scenario, ordinal)))


def warmup_requests(workload: LoadWorkload, scenario: str, ordinal: int, model: str) -> list[Request]:
    """The same for the warm-up."""
    if workload.api is Api.RERANK:
        return _requests(workload, model, _texts(warmup_rerank_texts(workload, scenario, ordinal)))
    return _requests(workload, model, _token_ids(workload, warmup_prompts(workload, scenario, ordinal)))


@dataclass(frozen=True, slots=True)
class Prepared:
    """All that a pass sends."""

    warmup: Sequence[Request]
    measured: Sequence[Request]
    prompts_sha256: str | None = None
    """Of the recorded prompts that are measured, with their answers' lengths; None for generated ones."""


def prepare(
    workload: LoadWorkload, scenario: str, ordinal: int, model: str, chosen: Sequence[Chosen] | None
) -> Prepared:
    """Pass `ordinal` (from 1) to the model of that served name. `chosen`: recorded prompts, as `choose` gives them."""
    if chosen is None:
        asked = (workload, scenario, ordinal, model)
        return Prepared(warmup_requests(*asked), measured_requests(*asked))
    measured, warmup = chosen[: workload.num_requests], chosen[workload.num_requests :]
    content = orjson.dumps([[each.prompt, each.output_len] for each in measured])
    return Prepared(
        _recorded(workload, model, warmup), _recorded(workload, model, measured), hashlib.sha256(content).hexdigest()
    )


def _recorded(workload: LoadWorkload, model: str, chosen: Sequence[Chosen]) -> list[Request]:
    """Each with the length of its own answer."""
    return _requests(workload, model, [{"prompt": each.prompt, "max_tokens": each.output_len} for each in chosen])


def _token_ids(workload: LoadWorkload, token_ids: Sequence[list[int]]) -> list[dict[str, Any]]:
    key = "prompt" if workload.api is Api.COMPLETIONS else "input"
    return [{key: prompt} for prompt in token_ids]


def _texts(texts: Sequence[tuple[str, list[str]]]) -> list[dict[str, Any]]:
    return [{"query": query, "documents": documents} for query, documents in texts]


def _requests(workload: LoadWorkload, model: str, own: Sequence[Mapping[str, Any]]) -> list[Request]:
    generation = {
        "max_tokens": workload.output_len,
        "temperature": 0,
        "ignore_eos": workload.ignore_eos,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    shared = {**(generation if workload.api.streamed else {}), **workload.extra_body}
    names = cycle(workload.lora_adapters or (model,))
    bodies = [{"model": name, **shared, **part} for name, part in zip(names, own, strict=False)]
    return [Request(orjson.dumps(body), _expected(workload, body)) for body in bodies]


def _expected(workload: LoadWorkload, body: Mapping[str, Any]) -> Callable[[], Answer | WholeAnswer]:
    match workload.api:
        case Api.COMPLETIONS:
            return partial(Answer, body["max_tokens"], exact=workload.ignore_eos)
        case Api.EMBEDDINGS:
            return partial(WholeAnswer, "data", 1)
        case Api.RERANK:
            return partial(WholeAnswer, "results", workload.documents)
