"""Which recorded prompts a pass sends, and how many tokens each answer may have.

Conversations are chosen as vLLM's own client chooses them: in a shuffled order, those whose first two turns have
neither few tokens nor many (vllm/benchmarks/datasets, `is_valid_sequence`). Tokens are counted by the server that is
measured, through its /tokenize, so that nobody else needs the model's tokenizer. The order follows from the
workload's seed and the scenario's name, and each pass has a part of it for itself: with prefix caching a prompt that
was sent before is another workload.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from itertools import islice
from typing import Any

import orjson

from regress_gate.bench.load.answer import message_of
from regress_gate.bench.load.dataset import Dataset, DatasetFormat, Texts
from regress_gate.bench.load.errors import LoadError, RequestError
from regress_gate.bench.load.target import Target
from regress_gate.bench.load.transport import Transport
from regress_gate.bench.load.workload import LoadWorkload, shuffled
from regress_gate.errors import InputError
from regress_gate.ingest.text import plural
from regress_gate.model.suite import LONGEST_CONVERSATION

LEAST_TOKENS = 4
"""Of a conversation's prompt, and of its answer."""
MAX_PROMPT_TOKENS = 1024
MAX_CHARACTERS = 128 * LONGEST_CONVERSATION
"""Of a text that is counted at all; one with more is taken to have more than LONGEST_CONVERSATION tokens."""
STRIDE = 2
"""Conversations that a pass may look at for each that it sends: some are left out."""
AT_ONCE = 32
"""Texts that are counted at a time."""
MAX_BODY = 64 * 2**20
TOKENIZE_PATH = "/tokenize"

CountTokens = Callable[[str], Awaitable[int]]


@dataclass(frozen=True, slots=True)
class Chosen:
    """One request to be sent."""

    prompt: str
    output_len: int
    """Tokens that are asked for."""


def check(dataset: Dataset, texts: Texts, workload: LoadWorkload, max_model_len: int | None = None) -> None:
    """Raises InputError where no server could make a trial of the file, so that it can be told before one starts."""
    needed, held = workload.num_requests + workload.warmup_requests, len(texts.prompts)
    if held < needed:
        what = f"holds {plural(held, 'prompt')}, {needed} are needed in a trial"
        raise InputError(what, where=dataset.file, todo="send fewer requests")
    if dataset.format is DatasetFormat.SHAREGPT:
        if workload.output_len > LONGEST_CONVERSATION - LEAST_TOKENS:
            what = (
                f"output_len is {workload.output_len}, and a conversation may have {LONGEST_CONVERSATION} tokens in all"
            )
            raise InputError(what, where=dataset.file, todo="ask for shorter answers")
    elif not workload.output_len and None in texts.answers:
        what = f"prompt {texts.answers.index(None) + 1} has no output_tokens, and the workload has no output_len"
        raise InputError(what, where=dataset.file, todo="give one of them")
    elif max_model_len is not None and not workload.output_len:
        longest = max(range(held), key=lambda number: _tokens(texts.answers[number]))
        if (asked := _tokens(texts.answers[longest])) >= max_model_len:
            what = f"prompt {longest + 1} asks for {asked} tokens, and max_model_len is {max_model_len}"
            raise InputError(what, where=dataset.file, todo="leave it out")


def sends_again(dataset: Dataset, texts: Texts, workload: LoadWorkload, ordinal: int) -> bool:
    """Whether pass `ordinal` may send what an earlier one of its scenario has sent."""
    return ordinal > 1 and ordinal * _entries(dataset, workload) > len(texts.prompts)


async def choose(
    dataset: Dataset, texts: Texts, workload: LoadWorkload, scenario: str, ordinal: int, count: CountTokens
) -> list[Chosen]:
    """The measured requests of pass `ordinal` (from 1) in the order of sending, then those of the warm-up; each is
    another entry of the file.

    Raises InputError where the file has too few that fit, or does not say how long answers are, and what `count`
    raises.
    """
    check(dataset, texts, workload)
    needed = workload.num_requests + workload.warmup_requests
    order = shuffled(workload, scenario, len(texts.prompts))
    begin = (ordinal - 1) * _entries(dataset, workload) % len(order)
    waiting = iter(order[begin:] + order[:begin])
    chosen: list[Chosen] = []
    while len(chosen) < needed:
        some = list(islice(waiting, AT_ONCE))
        if not some:
            what = f"{len(chosen)} of {len(texts.prompts)} prompts can be sent, {needed} are needed in a trial"
            raise InputError(what, where=dataset.file, todo="send fewer requests")
        chosen += await _all_fitting(some, lambda number: _fitting(dataset, texts, number, workload.output_len, count))
    return chosen[:needed]


async def _all_fitting(
    numbers: list[int], fitting: Callable[[int], Coroutine[Any, Any, Chosen | None]]
) -> list[Chosen]:
    """Asked for all at a time. The first failure ends them all, so that no connection outlives it, and is raised."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(fitting(number)) for number in numbers]
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return [request for task in tasks if (request := task.result()) is not None]


async def _fitting(dataset: Dataset, texts: Texts, number: int, output_len: int, count: CountTokens) -> Chosen | None:
    """The request with that text; None for a conversation that is too short or too long. `output_len` 0: its own."""
    prompt, answer = texts.prompts[number], texts.answers[number]
    if dataset.format is DatasetFormat.CUSTOM:
        return Chosen(prompt, output_len or _tokens(answer))
    if len(prompt) > MAX_CHARACTERS or len(str(answer)) > MAX_CHARACTERS:
        return None
    asked, length = output_len or await count(str(answer)), await count(prompt)
    short = length < LEAST_TOKENS or (asked < LEAST_TOKENS and not output_len)
    return (
        None if short or length > MAX_PROMPT_TOKENS or length + asked > LONGEST_CONVERSATION else Chosen(prompt, asked)
    )


def _tokens(answer: str | int | None) -> int:
    """Of a line's `output_tokens`; 0 where there is none."""
    return answer if isinstance(answer, int) else 0


def _entries(dataset: Dataset, workload: LoadWorkload) -> int:
    """That a pass has for itself."""
    needed = workload.num_requests + workload.warmup_requests
    return needed * STRIDE if dataset.format is DatasetFormat.SHAREGPT else needed


@dataclass(frozen=True, slots=True)
class TokenCounter:
    """Asks the server how many tokens a text is, with those that its tokenizer adds."""

    transport: Transport
    """To TOKENIZE_PATH."""
    target: Target
    timeout: float
    """Seconds for one text."""

    async def __call__(self, text: str) -> int:
        """Raises LoadError when the server does not say."""
        answer = _Body()
        body = orjson.dumps({"model": self.target.model, "prompt": text})
        try:
            async with asyncio.timeout(self.timeout):
                status = await self.transport.post(body, answer.receive)
        except TimeoutError:
            raise self._failed(f"no answer within {self.timeout:g} s") from None
        except RequestError as error:
            raise self._failed(error.failure.text) from None
        data = answer.parsed()
        counted = data.get("count") if isinstance(data, dict) else None
        if status != 200 or type(counted) is not int or counted < 0:
            raise self._failed("no count in its answer" if status == 200 else f"HTTP {status}{message_of(data)}")
        return counted

    def _failed(self, why: str) -> LoadError:
        return LoadError(
            f"{self.target.url}: its {TOKENIZE_PATH} does not count the tokens of a recorded prompt ({why})"
        )


class _Body:
    """The whole body of one answer."""

    def __init__(self) -> None:
        self._pieces = bytearray()

    def receive(self, status: int, body: bytes, arrived: float) -> None:  # noqa: ARG002 - as a transport calls it
        self._pieces += body[: MAX_BODY - len(self._pieces)]

    def parsed(self) -> Any:
        try:
            return orjson.loads(self._pieces)
        except orjson.JSONDecodeError:
            return None
