"""Which recorded prompts a pass sends, and how many tokens each answer may have.

Conversations are chosen as vLLM's own client chooses them: in a shuffled order, those whose first two turns have
neither few tokens nor many (vllm/benchmarks/datasets, `is_valid_sequence`). Tokens are counted by the server that is
measured, through its /tokenize, so that nobody else needs the model's tokenizer. The order follows from the
workload's seed, the scenario's name and the pass, as random tokens do.
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

LEAST_TOKENS = 4
"""Of a conversation's prompt, and of its answer."""
MAX_PROMPT_TOKENS = 1024
MAX_TOKENS = 2048
"""Of prompt and answer together."""
AT_ONCE = 32
"""Texts that are counted at a time."""
MAX_BODY = 64 * 2**20
PATH = "/tokenize"

CountTokens = Callable[[str], Awaitable[int]]


@dataclass(frozen=True, slots=True)
class Chosen:
    """One request to be sent."""

    prompt: str
    output_len: int
    """Tokens that are asked for."""


async def choose(
    dataset: Dataset, texts: Texts, workload: LoadWorkload, scenario: str, ordinal: int, count: CountTokens
) -> list[Chosen]:
    """The measured requests of pass `ordinal` (from 1) in the order of sending, then those of the warm-up; each is
    another entry of the file.

    Raises InputError where the file has too few that fit, or does not say how long answers are, and what `count`
    raises.
    """
    needed = workload.num_requests + workload.warmup_requests
    order = iter(shuffled(workload, scenario, ordinal, len(texts.prompts)))
    chosen: list[Chosen] = []
    while len(chosen) < needed:
        some = list(islice(order, AT_ONCE))
        if not some:
            what = f"{len(chosen)} of {len(texts.prompts)} prompts can be sent, {needed} are needed in a trial"
            raise InputError(what, where=dataset.file, todo="send fewer requests")
        chosen += await _fitting_of(some, lambda number: _fitting(dataset, texts, number, workload.output_len, count))
    return chosen[:needed]


async def _fitting_of(numbers: list[int], fitting: Callable[[int], Coroutine[Any, Any, Chosen | None]]) -> list[Chosen]:
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
    if dataset.format is DatasetFormat.SHAREGPT:
        asked = output_len or (await count(answer) if isinstance(answer, str) else 0)
        length = await count(prompt)
        short = length < LEAST_TOKENS or (asked < LEAST_TOKENS and not output_len)
        return None if short or length > MAX_PROMPT_TOKENS or length + asked > MAX_TOKENS else Chosen(prompt, asked)
    if not output_len and answer is None:
        what = "a line without output_tokens, and the workload has no output_len"
        raise InputError(what, where=dataset.file, todo="give one of them")
    return Chosen(prompt, output_len or int(answer or 0))


@dataclass(frozen=True, slots=True)
class TokenCounter:
    """Asks the server how many tokens a text is, with those that its tokenizer adds."""

    transport: Transport
    """To PATH."""
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
            raise self._failed(f"HTTP {status}{message_of(data)}")
        return counted

    def _failed(self, why: str) -> LoadError:
        return LoadError(f"{self.target.url}: its {PATH} does not count the tokens of a recorded prompt ({why})")


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
