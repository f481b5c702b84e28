"""All requests of a pass, made before the measurement, so that sending costs the client only the write.

Recorded conversations are chosen as vLLM's own client does it: in a shuffled order, those whose first two turns are
neither short nor long (vllm/benchmarks/datasets, `is_valid_sequence`). The measured server counts their tokens.
The order follows from the workload's seed and the scenario's name. Every pass uses its own part of the file: with
prefix caching a repeated prompt is another workload.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, cycle, islice, repeat
from pathlib import Path
from typing import Any

import orjson

from regress_gate.bench.load.chat_prompts import MAX_PIXELS, chat_bodies, pixels_of_pass
from regress_gate.bench.load.dataset import Dataset, DatasetFormat, RecordedTexts, open_dataset, read_texts
from regress_gate.bench.load.load_workload import (
    Arrival,
    LoadWorkload,
    RequestSlo,
    ServingApi,
    TurnTaking,
    conversation_prompts,
    measured_prompts,
    measured_rerank_texts,
    shuffled_order,
    trace_prompts,
    warmup_prompts,
    warmup_rerank_texts,
)
from regress_gate.bench.load.responses import ChatResponse, StreamedResponse, WholeResponse
from regress_gate.bench.load.sending import PreparedRequest
from regress_gate.bench.load.token_counting import COUNTED_AT_ONCE, CountTokens, count_at_once
from regress_gate.bench.load.trace import Trace, open_trace
from regress_gate.errors import InputError
from regress_gate.model.deployment import engine_arg_key
from regress_gate.model.suite import MAX_CONVERSATION_TOKENS, RecordedPrompts, Scenario, Suite, Workload
from regress_gate.text import plural

MIN_TOKENS = 4
"""Of a conversation's prompt, and of its answer."""
MAX_PROMPT_TOKENS = 1024
MAX_CHARACTERS = 128 * MAX_CONVERSATION_TOKENS
"""Of a text whose tokens are counted. A longer one is assumed to have more than LONGEST_CONVERSATION tokens."""
ENTRIES_PER_REQUEST = 2
"""Conversations that a pass may try for each that it sends, because some do not fit."""


@dataclass(frozen=True, slots=True)
class ChosenPrompt:
    """One prompt to be sent that a server has counted: a recorded one, or the text of a chat."""

    prompt: str
    output_len: int
    """Requested tokens."""


def check_recorded_prompts(
    dataset: Dataset, texts: RecordedTexts, workload: LoadWorkload, max_model_len: int | None = None
) -> None:
    """Raises InputError if the file cannot make a trial on any server, before a server starts."""
    needed, held = workload.num_requests + workload.warmup_requests, len(texts.prompts)
    if held < needed:
        what = f"holds {plural(held, 'prompt')}, {needed} are needed in a trial"
        raise InputError(what, where=dataset.file, todo="send fewer requests")
    if dataset.format is DatasetFormat.SHAREGPT:
        if workload.output_len > MAX_CONVERSATION_TOKENS - MIN_TOKENS:
            what = (
                f"output_len is {workload.output_len}, and a conversation may have "
                f"{MAX_CONVERSATION_TOKENS} tokens in all"
            )
            raise InputError(what, where=dataset.file, todo="ask for shorter answers")
    elif not workload.output_len and None in texts.answers:
        what = f"prompt {texts.answers.index(None) + 1} has no output_tokens, and the workload has no output_len"
        raise InputError(what, where=dataset.file, todo="give one of them")
    elif max_model_len is not None and not workload.output_len:
        longest = max(range(held), key=lambda number: _recorded_tokens(texts.answers[number]))
        if (requested := _recorded_tokens(texts.answers[longest])) >= max_model_len:
            what = f"prompt {longest + 1} asks for {requested} tokens, and max_model_len is {max_model_len}"
            raise InputError(what, where=dataset.file, todo="leave it out")


def may_repeat_prompts(dataset: Dataset, texts: RecordedTexts, workload: LoadWorkload, ordinal: int) -> bool:
    """Whether pass `ordinal` may send prompts that an earlier pass of its scenario sent."""
    return ordinal > 1 and ordinal * _entries_per_pass(dataset, workload) > len(texts.prompts)


async def choose_prompts(
    dataset: Dataset, texts: RecordedTexts, workload: LoadWorkload, scenario: str, ordinal: int, count: CountTokens
) -> list[ChosenPrompt]:
    """The measured requests of pass `ordinal` (from 1) in the order of sending, then those of the warm-up.

    Each is another entry of the file. Raises InputError if too few entries fit or the lengths of the responses are
    unknown, and what `count` raises.
    """
    check_recorded_prompts(dataset, texts, workload)
    needed = workload.num_requests + workload.warmup_requests
    order = shuffled_order(workload, scenario, len(texts.prompts))
    begin = (ordinal - 1) * _entries_per_pass(dataset, workload) % len(order)
    waiting = iter(order[begin:] + order[:begin])
    chosen: list[ChosenPrompt] = []
    while len(chosen) < needed:
        some = list(islice(waiting, COUNTED_AT_ONCE))
        if not some:
            what = f"{len(chosen)} of {len(texts.prompts)} prompts can be sent, {needed} are needed in a trial"
            raise InputError(what, where=dataset.file, todo="send fewer requests")
        found = await count_at_once(
            _prompt_if_fitting(dataset, texts, number, workload.output_len, count) for number in some
        )
        chosen += [prompt for prompt in found if prompt is not None]
    return chosen[:needed]


async def _prompt_if_fitting(
    dataset: Dataset, texts: RecordedTexts, number: int, output_len: int, count: CountTokens
) -> ChosenPrompt | None:
    """The prompt of an entry; None for a conversation that is too short or too long. `output_len` 0: its own length."""
    prompt, answer = texts.prompts[number], texts.answers[number]
    if dataset.format is DatasetFormat.CUSTOM:
        return ChosenPrompt(prompt, output_len or _recorded_tokens(answer))
    if len(prompt) > MAX_CHARACTERS or len(str(answer)) > MAX_CHARACTERS:
        return None
    answer_len, length = output_len or await count(str(answer)), await count(prompt)
    short = length < MIN_TOKENS or (answer_len < MIN_TOKENS and not output_len)
    return (
        None
        if short or length > MAX_PROMPT_TOKENS or length + answer_len > MAX_CONVERSATION_TOKENS
        else ChosenPrompt(prompt, answer_len)
    )


def _recorded_tokens(answer: str | int | None) -> int:
    """A line's `output_tokens`; 0 if it has none."""
    return answer if isinstance(answer, int) else 0


def _entries_per_pass(dataset: Dataset, workload: LoadWorkload) -> int:
    """Entries of the file that belong to one pass."""
    needed = workload.num_requests + workload.warmup_requests
    return needed * ENTRIES_PER_REQUEST if dataset.format is DatasetFormat.SHAREGPT else needed


def measured_requests(workload: LoadWorkload, scenario: str, ordinal: int, model: str) -> list[PreparedRequest]:
    """Pass `ordinal` (from 1) of generated prompts to the model of that served name, in the order of sending."""
    if workload.api is ServingApi.RERANK:
        return _build_requests(workload, model, _rerank_bodies(measured_rerank_texts(workload, scenario, ordinal)))
    return _build_requests(workload, model, _prompt_bodies(workload, measured_prompts(workload, scenario, ordinal)))


def warmup_requests(workload: LoadWorkload, scenario: str, ordinal: int, model: str) -> list[PreparedRequest]:
    """The same for the warm-up."""
    if workload.api is ServingApi.RERANK:
        return _build_requests(workload, model, _rerank_bodies(warmup_rerank_texts(workload, scenario, ordinal)))
    return _build_requests(workload, model, _prompt_bodies(workload, warmup_prompts(workload, scenario, ordinal)))


@dataclass(frozen=True, slots=True)
class PassRequests:
    """All requests of a pass."""

    warmup: Sequence[PreparedRequest]
    measured: Sequence[PreparedRequest]
    prompts_sha256: str | None = None
    """Of the measured prompts and requested lengths, where a server counted them; None for random tokens."""


def make_pass_requests(
    workload: LoadWorkload, scenario: str, ordinal: int, model: str, chosen: Sequence[ChosenPrompt] | None
) -> PassRequests:
    """Pass `ordinal` (from 1) to the model of that served name. `chosen`: what was counted, the warm-up last."""
    if workload.trace is not None:
        requests = _build_requests(workload, model, _trace_bodies(workload, workload.trace, scenario, ordinal))
        return PassRequests(requests[: workload.warmup_requests], requests[workload.warmup_requests :])
    if workload.conversation is not None:
        bodies = ({"prompt": prompt} for prompt in conversation_prompts(workload, scenario, ordinal))
        requests = _build_requests(workload, model, bodies)
        return PassRequests(requests[: workload.warmup_requests], requests[workload.warmup_requests :])
    if chosen is None:
        arguments = (workload, scenario, ordinal, model)
        return PassRequests(warmup_requests(*arguments), measured_requests(*arguments))
    measured, warmup = chosen[: workload.num_requests], chosen[workload.num_requests :]
    content = orjson.dumps([[each.prompt, each.output_len] for each in measured])
    return PassRequests(
        _counted_requests(workload, model, warmup, f"{scenario}/{ordinal}/warm-up"),
        _counted_requests(workload, model, measured, f"{scenario}/{ordinal}/request"),
        hashlib.sha256(content).hexdigest(),
    )


def _counted_requests(
    workload: LoadWorkload, model: str, chosen: Sequence[ChosenPrompt], stream: str
) -> list[PreparedRequest]:
    """Each with its own requested length."""
    if workload.api is ServingApi.CHAT:
        prompts: Iterable[dict[str, Any]] = chat_bodies(workload, [each.prompt for each in chosen], stream)
    else:
        prompts = ({"prompt": each.prompt} for each in chosen)
    limit = _limit_key(workload.api)
    bodies = ({**prompt, limit: each.output_len} for prompt, each in zip(prompts, chosen, strict=True))
    return _build_requests(workload, model, bodies)


def _limit_key(api: ServingApi) -> str:
    """Of a body: where the length of the answer stands."""
    return "max_completion_tokens" if api is ServingApi.CHAT else "max_tokens"


def _prompt_bodies(workload: LoadWorkload, token_ids: Sequence[list[int]]) -> list[dict[str, Any]]:
    key = "prompt" if workload.api is ServingApi.COMPLETIONS else "input"
    return [{key: prompt} for prompt in token_ids]


def _trace_bodies(workload: LoadWorkload, trace: Trace, scenario: str, ordinal: int) -> Iterable[dict[str, Any]]:
    """One after another: all prompts as numbers would take many times the memory of the requests."""
    prompts = trace_prompts(workload, trace, scenario, ordinal)
    for prompt, tokens in zip(prompts, trace.output_tokens.tolist(), strict=True):
        yield {"prompt": prompt, "max_tokens": tokens}


def _rerank_bodies(texts: Sequence[tuple[str, list[str]]]) -> list[dict[str, Any]]:
    return [{"query": query, "documents": documents} for query, documents in texts]


def _build_requests(workload: LoadWorkload, model: str, own: Iterable[Mapping[str, Any]]) -> list[PreparedRequest]:
    generation = {
        _limit_key(workload.api): workload.output_len,
        "temperature": 0,
        "ignore_eos": workload.ignore_eos,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    shared = {**(generation if workload.api.streamed else {}), **workload.extra_body}
    # All turns of a conversation have one adapter. Those of the warm-up may be no whole conversations.
    names = cycle(chain.from_iterable(repeat(name, workload.turns) for name in workload.lora_adapters or (model,)))
    bodies = ({"model": name, **shared, **part} for name, part in zip(names, own, strict=False))
    return [
        PreparedRequest(orjson.dumps(body, option=orjson.OPT_SERIALIZE_NUMPY), _response_reader(workload, body))
        for body in bodies
    ]


def _response_reader(workload: LoadWorkload, body: Mapping[str, Any]) -> Callable[[], StreamedResponse | WholeResponse]:
    match workload.api:
        case ServingApi.COMPLETIONS:
            return partial(StreamedResponse, body["max_tokens"], exact=workload.ignore_eos)
        case ServingApi.CHAT:
            return partial(ChatResponse, body["max_completion_tokens"], exact=workload.ignore_eos)
        case ServingApi.EMBEDDINGS:
            return partial(WholeResponse, "data", 1)
        case ServingApi.RERANK:
            return partial(WholeResponse, "results", workload.documents)


def load_workloads(suite: Suite) -> list[tuple[Scenario, LoadWorkload]]:
    """The scenarios of a suite with their workloads. Raises InputError for an incomplete one."""
    return [(scenario, _scenario_workload(scenario)) for scenario in suite.scenarios]


def _scenario_workload(scenario: Scenario) -> LoadWorkload:
    workload = scenario.workload
    dataset = _scenario_dataset(scenario)
    if workload.num_requests is None or workload.missing:
        raise InputError(f"scenario {scenario.name}: the workload does not say {', '.join(workload.missing)}")
    load = LoadWorkload(
        input_len=workload.input_len or 0,
        output_len=workload.output_len or 0,
        num_requests=workload.num_requests,
        concurrency=workload.concurrency,
        request_rate=workload.request_rate,
        arrival=Arrival(workload.arrival),
        **_bursts(workload),
        prefix_len=workload.prefix_len,
        warmup_requests=workload.warmup_requests,
        seed=workload.seed or 0,
        slo=None if workload.slo is None else RequestSlo(workload.slo.ttft, workload.slo.tpot, workload.slo.e2el),
        api=ServingApi(workload.api),
        images=workload.images,
        documents=workload.documents or 0,
        ignore_eos=workload.ignore_eos,
        extra_body=workload.extra_body,
        lora_adapters=tuple(workload.lora_adapters),
        dataset=dataset,
        trace=read_scenario_trace(scenario),
        conversation=_turn_taking(workload),
    )
    arguments = {engine_arg_key(key): value for key, value in scenario.server.engine_args.items()}
    longest = arguments.get("max_model_len")
    limit = longest if type(longest) is int else None
    if (pixels := pixels_of_pass(load)) > MAX_PIXELS:
        what = f"scenario {scenario.name}: the images of a trial have {pixels:,} pixels, more than {MAX_PIXELS:,}"
        raise InputError(what, todo="send fewer requests, or smaller images")
    if dataset is not None:
        check_recorded_prompts(dataset, read_texts(dataset), load, limit)
    if scenario.workload.trace is not None and load.trace is not None and limit is not None:
        _check_trace_lengths(Path(scenario.workload.trace.file), load.trace, limit)
    return load


def _turn_taking(workload: Workload) -> TurnTaking | None:
    talk = workload.conversation
    return None if talk is None else TurnTaking(talk.turns, talk.think_time)


def _bursts(workload: Workload) -> dict[str, Any]:
    given: dict[str, Any] = {} if workload.burstiness is None else {"burstiness": workload.burstiness}
    return given if workload.phases is None else {**given, "phases": (workload.phases.on, workload.phases.off)}


def read_scenario_trace(scenario: Scenario) -> Trace | None:
    """None for a workload without one, or without a number of requests. Raises InputError for an unusable file."""
    workload = scenario.workload
    if workload.trace is None or workload.num_requests is None:
        return None
    return open_trace(workload.trace, warmup=workload.warmup_requests, requests=workload.num_requests)


def _check_trace_lengths(file: Path, trace: Trace, max_model_len: int) -> None:
    """Raises InputError for a request that fails on any server."""
    lengths = trace.input_tokens + trace.output_tokens
    longest = int(lengths.argmax())
    if lengths[longest] > max_model_len:
        what = f"request {longest + 1} needs {lengths[longest]} tokens, and max_model_len is {max_model_len}"
        raise InputError(what, where=file, todo="leave it out")


def _scenario_dataset(scenario: Scenario) -> Dataset | None:
    """Reads the file, so that an unusable one is reported before a server starts."""
    given = scenario.workload.dataset
    if given == "random":
        return None
    if not isinstance(given, RecordedPrompts):
        raise InputError(f"scenario {scenario.name}: dataset {given!r} cannot be sent", todo="use random, or a file")
    return open_dataset(DatasetFormat(given.format), Path(given.file))
