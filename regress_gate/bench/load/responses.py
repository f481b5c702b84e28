"""Responses as they arrive: times of their chunks, token counts, and what is wrong with them.

Streamed completions and chats (server-sent events), and responses in one piece, as for embeddings. Not for the
transport.
"""

from typing import Any

import orjson

from regress_gate.bench.load.load_errors import RequestFailure, RequestFailureKind
from regress_gate.text import excerpt, plural


class SseParser:
    """Server-sent events from pieces of a stream, however it was cut: the data of each complete event.

    Lines end in LF or CRLF. Comments and fields other than `data` are ignored. As the standard demands, an event
    without its closing blank line is never returned. Never raises.
    """

    def __init__(self) -> None:
        self._line = b""
        self._data: list[bytes] = []

    def feed(self, piece: bytes) -> list[bytes]:
        *lines, self._line = (self._line + piece).split(b"\n")
        events = []
        for ended in lines:
            line = ended.removesuffix(b"\r")
            if line.startswith(b"data:"):
                self._data.append(line[5:].removeprefix(b" "))
            elif not line and self._data:
                events.append(b"\n".join(self._data))
                self._data = []
        return events

    @property
    def pending(self) -> int:
        """Bytes of an incomplete event."""
        return len(self._line) + sum(map(len, self._data))


MAX_EVENT_BYTES = 2**20
"""Bytes of one event; a longer one is garbage. A token takes a few hundred."""
MAX_MESSAGE = 160
"""Characters of a server's message that are kept."""


class StreamedResponse:
    """Give `receive` to a transport, and call `failure` when the response is complete."""

    def __init__(self, asked: int, *, exact: bool = True) -> None:
        """`asked`: the requested tokens, exactly or (`exact` false) at most."""
        self.chunks: list[float] = []
        """When each chunk with tokens arrived."""
        self.input_tokens: int | None = None
        """As the server counts them; None before that."""
        self.output_tokens: int | None = None
        self._asked = asked
        self._exact = exact
        self._events = SseParser()
        self._error_body = b""
        self._finished = False
        self._done = False
        self._failure: RequestFailure | None = None

    def receive(self, status: int, body: bytes, arrived: float) -> None:
        if status != 200:
            self._error_body += body[: MAX_EVENT_BYTES - len(self._error_body)]
            return
        for event in self._events.feed(body):
            if self._failure is None:
                self._failure = self._read(event, arrived)
        if self._failure is None and self._events.pending > MAX_EVENT_BYTES:
            self._failure = RequestFailure(RequestFailureKind.GARBAGE, "an event of the stream does not end")

    def failure(self, status: int) -> RequestFailure | None:
        """What is wrong with a complete response; None for a good one, with or without token counts."""
        if status != 200:
            return RequestFailure(
                RequestFailureKind.STATUS, f"HTTP {status}" + error_message(_parse_json(self._error_body))
            )
        if self._failure is not None:
            return self._failure
        if not self._done:
            return RequestFailure(
                RequestFailureKind.CUT, f"the answer ended after {plural(len(self.chunks), 'chunk')} without [DONE]"
            )
        if not self.chunks:
            return RequestFailure(RequestFailureKind.WRONG_LENGTH, "the answer has no token")
        if self.output_tokens is not None and not self._fits(self.output_tokens):
            return RequestFailure(
                RequestFailureKind.WRONG_LENGTH,
                f"{plural(self.output_tokens, 'token')} where {self._asked} were asked for",
            )
        return None

    def came(self) -> str:
        """What had arrived, for a response that was cut short."""
        return f"{plural(len(self.chunks), 'chunk')} of {plural(self._asked, 'token')}"

    def _fits(self, tokens: int) -> bool:
        return tokens == self._asked if self._exact else 0 < tokens <= self._asked

    def _read(self, event: bytes, arrived: float) -> RequestFailure | None:
        if self._done:
            return RequestFailure(RequestFailureKind.DISORDER, "an event after [DONE]")
        if event == b"[DONE]":
            self._done = True
            return None
        data = _parse_json(event)
        if not isinstance(data, dict):
            return RequestFailure(RequestFailureKind.GARBAGE, "an event of the stream is no JSON object")
        if "error" in data:
            return RequestFailure(RequestFailureKind.SERVER_ERROR, "error in the stream" + error_message(data))
        choices = data.get("choices")
        if choices:
            if not isinstance(choices, list) or not isinstance(choices[0], dict):
                return RequestFailure(RequestFailureKind.GARBAGE, "an event of the stream is no completion")
            if self._finished:
                return RequestFailure(RequestFailureKind.DISORDER, "a token after the end of the answer")
            if self._holds_token(choices[0]):
                self.chunks.append(arrived)
            self._finished = choices[0].get("finish_reason") is not None
        usage = data.get("usage")
        if isinstance(usage, dict):
            self.input_tokens = _token_count(usage.get("prompt_tokens"))
            self.output_tokens = _token_count(usage.get("completion_tokens"))
        return None

    def _holds_token(self, choice: dict[str, Any]) -> bool:  # noqa: ARG002 - not every endpoint has other chunks
        return True


_CONTENT = ("content", "reasoning", "reasoning_content", "tool_calls")
"""Keys under which releases of vLLM stream what a model writes."""


class ChatResponse(StreamedResponse):
    """A streamed chat. Its first chunk names the role and holds no token; each other one does, whatever it carries.

    A token may have no text: a special one, or a part of a character.
    """

    def _holds_token(self, choice: dict[str, Any]) -> bool:
        delta = choice.get("delta")
        if self.chunks or not isinstance(delta, dict):
            return True
        is_role = delta.get("role") is not None and choice.get("finish_reason") is None
        return not is_role or any(delta.get(key) for key in _CONTENT)


def _parse_json(text: bytes) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return None


def _token_count(value: object) -> int | None:
    return value if type(value) is int and value >= 0 else None


def error_message(data: object) -> str:
    """The message of an error object, wherever releases of vLLM put it."""
    message: object = data
    if isinstance(message, dict):
        message = message.get("error", message)
    if isinstance(message, dict):
        message = message.get("message", message.get("detail"))
    return f": {excerpt(' '.join(message.split()), MAX_MESSAGE)}" if isinstance(message, str) else ""


MAX_RESPONSE_BYTES = 64 * 2**20
"""Bytes of a response; a longer one is garbage. A thousand embeddings of 4,000 numbers as text are shorter."""


class WholeResponse:
    """Give `receive` to a transport, and call `failure` when the response is complete."""

    def __init__(self, items: str, asked: int) -> None:
        self.chunks: list[float] = []
        """When the last piece arrived: one value, as if the response were one token."""
        self.input_tokens: int | None = None
        self.output_tokens: int | None = None
        """0 in a good response, which generates nothing; None before it is read."""
        self._items = items
        self._asked = asked
        self._pieces: list[bytes] = []
        self._size = 0

    def receive(self, status: int, body: bytes, arrived: float) -> None:  # noqa: ARG002 - as a transport calls it
        self.chunks[:] = [arrived]
        self._size += len(body)
        if self._size <= MAX_RESPONSE_BYTES:
            self._pieces.append(body)

    def failure(self, status: int) -> RequestFailure | None:
        data = self._parsed()
        if status != 200:
            return RequestFailure(RequestFailureKind.STATUS, f"HTTP {status}" + error_message(data))
        if not isinstance(data, dict):
            return RequestFailure(RequestFailureKind.GARBAGE, "the answer is no JSON object")
        if "error" in data:
            return RequestFailure(RequestFailureKind.SERVER_ERROR, "error as an answer" + error_message(data))
        results = data.get(self._items)
        if not isinstance(results, list):
            return RequestFailure(RequestFailureKind.GARBAGE, f"the answer has no {self._items}")
        if len(results) != self._asked:
            return RequestFailure(
                RequestFailureKind.WRONG_LENGTH, f"{plural(len(results), 'result')} where {self._asked} were due"
            )
        usage = data.get("usage")
        counted = usage.get("prompt_tokens", usage.get("total_tokens")) if isinstance(usage, dict) else None
        if type(counted) is int and counted >= 0:
            self.input_tokens, self.output_tokens = counted, 0
        return None

    def came(self) -> str:
        return f"{plural(self._size, 'byte')} of the answer"

    def _parsed(self) -> Any:
        if self._size > MAX_RESPONSE_BYTES:
            return None
        try:
            return orjson.loads(b"".join(self._pieces))
        except orjson.JSONDecodeError:
            return None
