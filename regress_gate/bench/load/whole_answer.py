"""One answer that comes in one piece, as embeddings do: when it was there, what it counted, what is wrong with it."""

from typing import Any

import orjson

from regress_gate.bench.load.answer import message_of
from regress_gate.bench.load.errors import Failure, FailureKind
from regress_gate.ingest.text import plural

MAX_BODY = 64 * 2**20
"""Bytes beyond which an answer is garbage: a thousand embeddings of four thousand numbers as text are fewer."""


class WholeAnswer:
    """Give `receive` to a transport and ask `failure` when the answer is complete."""

    def __init__(self, items: str, asked: int) -> None:
        self.chunks: list[float] = []
        """When the last piece arrived; one value, as if the answer were one token."""
        self.input_tokens: int | None = None
        self.output_tokens: int | None = None
        """0 in a good answer: nothing is generated. None while it has not been read."""
        self._items = items
        self._asked = asked
        self._pieces: list[bytes] = []
        self._size = 0

    def receive(self, status: int, body: bytes, arrived: float) -> None:  # noqa: ARG002 - as a transport calls it
        self.chunks[:] = [arrived]
        self._size += len(body)
        if self._size <= MAX_BODY:
            self._pieces.append(body)

    def failure(self, status: int) -> Failure | None:
        data = self._parsed()
        if status != 200:
            return Failure(FailureKind.STATUS, f"HTTP {status}" + message_of(data))
        if not isinstance(data, dict):
            return Failure(FailureKind.GARBAGE, "the answer is no JSON object")
        if "error" in data:
            return Failure(FailureKind.SERVER_ERROR, "error as an answer" + message_of(data))
        found = data.get(self._items)
        if not isinstance(found, list):
            return Failure(FailureKind.GARBAGE, f"the answer has no {self._items}")
        if len(found) != self._asked:
            return Failure(FailureKind.WRONG_LENGTH, f"{plural(len(found), 'result')} where {self._asked} were due")
        usage = data.get("usage")
        counted = usage.get("prompt_tokens", usage.get("total_tokens")) if isinstance(usage, dict) else None
        if type(counted) is int and counted >= 0:
            self.input_tokens, self.output_tokens = counted, 0
        return None

    def came(self) -> str:
        return f"{plural(self._size, 'byte')} of the answer"

    def _parsed(self) -> Any:
        if self._size > MAX_BODY:
            return None
        try:
            return orjson.loads(b"".join(self._pieces))
        except orjson.JSONDecodeError:
            return None
