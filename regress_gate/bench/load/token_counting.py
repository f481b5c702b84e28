"""How many tokens a text has: the measured server counts (/tokenize), so that no tokenizer is needed here."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import orjson

from regress_gate.bench.load.http_transport import Target, Transport
from regress_gate.bench.load.load_errors import LoadError, RequestError
from regress_gate.bench.load.responses import error_message

COUNTED_AT_ONCE = 32
"""Texts counted at the same time."""
MAX_TOKENIZE_BYTES = 64 * 2**20
TOKENIZE_PATH = "/tokenize"

CountTokens = Callable[[str], Awaitable[int]]
_Found = TypeVar("_Found")


async def count_at_once(counting: Iterable[Coroutine[Any, Any, _Found]]) -> list[_Found]:
    """What each of a few finds. The first failure cancels the others, so that no connection outlives it."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(each) for each in counting]
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return [task.result() for task in tasks]


@dataclass(frozen=True, slots=True)
class TokenCounter:
    """Asks the server for the number of tokens of a text, including those that its tokenizer or template adds."""

    transport: Transport
    """To TOKENIZE_PATH."""
    target: Target
    timeout: float
    """Seconds for one text."""
    template: Mapping[str, Any] | None = None
    """The text is a chat's only message, in the template with these keys of a request; None: a prompt."""

    async def __call__(self, text: str) -> int:
        """Raises LoadError if the server does not count."""
        answer = _TokenizeBody()
        template = self.template
        own = {"prompt": text} if template is None else {"messages": [{"role": "user", "content": text}], **template}
        body = orjson.dumps({"model": self.target.model, **own})
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
            raise self._failed("no count in its answer" if status == 200 else f"HTTP {status}{error_message(data)}")
        return counted

    def _failed(self, why: str) -> LoadError:
        return LoadError(f"{self.target.url}: its {TOKENIZE_PATH} does not count the tokens of a prompt ({why})")


class _TokenizeBody:
    """The whole body of one response."""

    def __init__(self) -> None:
        self._pieces = bytearray()

    def receive(self, status: int, body: bytes, arrived: float) -> None:  # noqa: ARG002 - as a transport calls it
        self._pieces += body[: MAX_TOKENIZE_BYTES - len(self._pieces)]

    def parsed(self) -> Any:
        try:
            return orjson.loads(self._pieces)
        except orjson.JSONDecodeError:
            return None
