"""One streamed completion as it arrives: when its chunks came, what it counted, and what is wrong with it."""

from typing import Any

import orjson

from regress_gate.bench.load.errors import Failure, FailureKind
from regress_gate.bench.load.sse import SseParser
from regress_gate.ingest.text import clean, plural

MAX_EVENT = 2**20
"""Bytes of one event beyond which it is garbage: a token is a few hundred."""
MAX_TEXT = 160
"""Characters of a server's message that are kept."""


class Answer:
    """Give `receive` to a transport and ask `failure` when the answer is complete."""

    def __init__(self, asked: int, *, exact: bool = True) -> None:
        """`asked` tokens, or at most so many where the end is the model's to choose (`exact` false)."""
        self.chunks: list[float] = []
        """When each chunk with tokens arrived."""
        self.input_tokens: int | None = None
        """As the server counts them; None while it has not said."""
        self.output_tokens: int | None = None
        self._asked = asked
        self._exact = exact
        self._events = SseParser()
        self._error_body = b""
        self._finished = False
        self._done = False
        self._failure: Failure | None = None

    def receive(self, status: int, body: bytes, arrived: float) -> None:
        if status != 200:
            self._error_body += body[: MAX_EVENT - len(self._error_body)]
            return
        for event in self._events.feed(body):
            if self._failure is None:
                self._failure = self._read(event, arrived)
        if self._failure is None and self._events.pending > MAX_EVENT:
            self._failure = Failure(FailureKind.GARBAGE, "an event of the stream does not end")

    def failure(self, status: int) -> Failure | None:
        """What is wrong with a complete answer; None for a good one, with or without token counts."""
        if status != 200:
            return Failure(FailureKind.STATUS, f"HTTP {status}" + message_of(_parsed(self._error_body)))
        if self._failure is not None:
            return self._failure
        if not self._done:
            return Failure(
                FailureKind.CUT, f"the answer ended after {plural(len(self.chunks), 'chunk')} without [DONE]"
            )
        if not self.chunks:
            return Failure(FailureKind.WRONG_LENGTH, "the answer has no token")
        if self.output_tokens is not None and not self._fits(self.output_tokens):
            return Failure(FailureKind.WRONG_LENGTH, f"{self.output_tokens} tokens where {self._asked} were asked for")
        return None

    def came(self) -> str:
        """What had come, for an answer that was given up."""
        return f"{plural(len(self.chunks), 'chunk')} of {plural(self._asked, 'token')}"

    def _fits(self, tokens: int) -> bool:
        return tokens == self._asked if self._exact else 0 < tokens <= self._asked

    def _read(self, event: bytes, arrived: float) -> Failure | None:
        if self._done:
            return Failure(FailureKind.DISORDER, "an event after [DONE]")
        if event == b"[DONE]":
            self._done = True
            return None
        data = _parsed(event)
        if not isinstance(data, dict):
            return Failure(FailureKind.GARBAGE, "an event of the stream is no JSON object")
        if "error" in data:
            return Failure(FailureKind.SERVER_ERROR, "error in the stream" + message_of(data))
        choices = data.get("choices")
        if choices:
            if not isinstance(choices, list) or not isinstance(choices[0], dict):
                return Failure(FailureKind.GARBAGE, "an event of the stream is no completion")
            if self._finished:
                return Failure(FailureKind.DISORDER, "a token after the end of the answer")
            self.chunks.append(arrived)
            self._finished = choices[0].get("finish_reason") is not None
        usage = data.get("usage")
        if isinstance(usage, dict):
            self.input_tokens = _count(usage.get("prompt_tokens"))
            self.output_tokens = _count(usage.get("completion_tokens"))
        return None


def _parsed(text: bytes) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return None


def _count(value: object) -> int | None:
    return value if type(value) is int and value >= 0 else None


def message_of(data: object) -> str:
    """The message of an error object, in any of the places where releases of vLLM put it."""
    found: object = data
    if isinstance(found, dict):
        found = found.get("error", found)
    if isinstance(found, dict):
        found = found.get("message", found.get("detail"))
    return f": {clean(' '.join(found.split()), MAX_TEXT)}" if isinstance(found, str) else ""
