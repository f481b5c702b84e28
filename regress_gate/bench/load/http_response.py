"""One HTTP/1.1 response out of bytes, however they were cut on the way. Not a general client: no redirects, no 1xx.

Written for the meter: a general parser costs tens of microseconds an event, as much as a fast server's whole token.
"""

import re
from enum import Enum, auto

MAX_HEAD = 64 * 1024
_STATUS = re.compile(rb"HTTP/1\.[01] ([2-5]\d\d)(?: .*)?")
_SIZE = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(?:;.*)?")
_LENGTH = re.compile(rb"\d{1,12}")


class NotHttpError(Exception):
    """The bytes are no HTTP response that this tool reads. `str()` of it says what is wrong."""


class _State(Enum):
    HEAD = auto()
    LENGTH = auto()
    CHUNK_SIZE = auto()
    CHUNK_DATA = auto()
    CHUNK_END = auto()
    TRAILER = auto()
    UNTIL_CLOSE = auto()
    COMPLETE = auto()


class ResponseParser:
    """Reads one response. `status` is 0 until its head is complete."""

    def __init__(self) -> None:
        self.status = 0
        self.keep_alive = True
        self._state = _State.HEAD
        self._rest = b""
        self._missing = 0

    @property
    def complete(self) -> bool:
        return self._state is _State.COMPLETE

    def feed(self, piece: bytes) -> bytes:
        """The part of the body that the piece holds. Raises NotHttpError."""
        self._rest += piece
        body = []
        while True:
            state = self._state
            if state is _State.CHUNK_SIZE:
                if (line := self._line()) is None:
                    break
                if (size := _SIZE.fullmatch(line)) is None:
                    raise NotHttpError("a chunk of the answer has no size")
                self._missing = int(size[1], 16)
                self._state = _State.CHUNK_DATA if self._missing else _State.TRAILER
            elif state in (_State.CHUNK_DATA, _State.LENGTH):
                body.append(self._rest[: self._missing])
                self._rest = self._rest[self._missing :]
                self._missing -= len(body[-1])
                if self._missing:
                    break
                self._state = _State.CHUNK_END if state is _State.CHUNK_DATA else _State.COMPLETE
            elif state is _State.CHUNK_END:
                if len(self._rest) < 2:
                    break
                if self._line() != b"":
                    raise NotHttpError("a chunk of the answer is longer than its size")
                self._state = _State.CHUNK_SIZE
            elif state is _State.HEAD:
                if not self._read_head():
                    break
            elif state is _State.TRAILER:
                if (line := self._line()) is None:
                    break
                if not line:
                    self._state = _State.COMPLETE
            elif state is _State.UNTIL_CLOSE:
                body.append(self._rest)
                self._rest = b""
                break
            else:
                if self._rest:  # more than was asked for: whose answer comes next is not known
                    self.keep_alive = False
                break
        return b"".join(body)

    def closed(self) -> bool:
        """The connection was closed: whether that makes the response complete."""
        if self._state is _State.UNTIL_CLOSE:
            self._state = _State.COMPLETE
        return self.complete

    def _line(self) -> bytes | None:
        line, end, rest = self._rest.partition(b"\r\n")
        if not end:
            if len(line) > MAX_HEAD:
                raise NotHttpError("a line of the answer does not end")
            return None
        self._rest = rest
        return line

    def _read_head(self) -> bool:
        head, end, rest = self._rest.partition(b"\r\n\r\n")
        if not end:
            if not self._rest.startswith(b"HTTP/1."[: len(self._rest)]):
                raise NotHttpError("the answer does not begin like HTTP")
            if len(head) > MAX_HEAD:
                raise NotHttpError("the head of the answer does not end")
            return False
        self._rest = rest
        first, *lines = head.split(b"\r\n")
        if (status := _STATUS.fullmatch(first)) is None:
            raise NotHttpError("the answer does not begin like HTTP, or with a status that was not asked for")
        self.status = int(status[1])
        fields = {name.strip().lower(): value.strip() for name, _, value in (line.partition(b":") for line in lines)}
        self.keep_alive = first.startswith(b"HTTP/1.1") and fields.get(b"connection", b"").lower() != b"close"
        self._state = self._begin_body(fields)
        return True

    def _begin_body(self, fields: dict[bytes, bytes]) -> _State:
        if self.status in (204, 304):
            return _State.COMPLETE
        if fields.get(b"transfer-encoding", b"").lower() == b"chunked":
            return _State.CHUNK_SIZE
        if (length := fields.get(b"content-length")) is not None:
            if not _LENGTH.fullmatch(length):
                raise NotHttpError("the length of the answer is no number")
            self._missing = int(length)
            return _State.LENGTH if self._missing else _State.COMPLETE
        self.keep_alive = False
        return _State.UNTIL_CLOSE
