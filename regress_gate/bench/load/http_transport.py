"""HTTP for the load client: kept-alive connections, and the arrival time of every piece taken first of all.

It also resolves the target, which must be on this machine unless the caller allows another one. Not a general client:
no redirects, no 1xx, no TLS. A general parser costs tens of microseconds an event, as much as a token of a fast server.

Measured with benchmarks/client.py on two cores, as chunks/s below 1 ms of p99 loop lag and processor time per chunk at
3,100/s: httpx 1,600 and 74 µs, aiohttp 6,200 and 25 µs, asyncio's streams 3,100 and 27 µs, this 12,500 and 16 µs.
"""

import asyncio
import re
import socket
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum, auto
from ipaddress import ip_address
from math import inf
from typing import Protocol
from urllib.parse import urlsplit

from regress_gate.bench.load.load_errors import LoadError, RequestError, RequestFailureKind
from regress_gate.errors import InputError
from regress_gate.redaction import redact_url

MAX_HEAD = 64 * 1024
_STATUS_LINE = re.compile(rb"HTTP/1\.[01] ([2-5]\d\d)(?: .*)?")
_CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(?:;.*)?")
_CONTENT_LENGTH = re.compile(rb"\d{1,12}")


class InvalidHttpError(Exception):
    """The bytes are no HTTP response that this client reads; the text says why."""


class _ParserState(Enum):
    HEAD = auto()
    LENGTH = auto()
    CHUNK_SIZE = auto()
    CHUNK_DATA = auto()
    CHUNK_END = auto()
    TRAILER = auto()
    UNTIL_CLOSE = auto()
    COMPLETE = auto()


class ResponseParser:
    """Parses one HTTP/1.1 response, however its bytes were cut. `status` is 0 until the head is complete."""

    def __init__(self) -> None:
        self.status = 0
        self.keep_alive = True
        self._state = _ParserState.HEAD
        self._rest = b""
        self._missing = 0

    @property
    def complete(self) -> bool:
        return self._state is _ParserState.COMPLETE

    def feed(self, piece: bytes) -> bytes:
        """The part of the body that the piece holds. Raises NotHttpError."""
        self._rest += piece
        body = []
        while True:
            state = self._state
            if state is _ParserState.CHUNK_SIZE:
                if (line := self._line()) is None:
                    break
                if (size := _CHUNK_SIZE.fullmatch(line)) is None:
                    raise InvalidHttpError("a chunk of the answer has no size")
                self._missing = int(size[1], 16)
                self._state = _ParserState.CHUNK_DATA if self._missing else _ParserState.TRAILER
            elif state in (_ParserState.CHUNK_DATA, _ParserState.LENGTH):
                body.append(self._rest[: self._missing])
                self._rest = self._rest[self._missing :]
                self._missing -= len(body[-1])
                if self._missing:
                    break
                self._state = _ParserState.CHUNK_END if state is _ParserState.CHUNK_DATA else _ParserState.COMPLETE
            elif state is _ParserState.CHUNK_END:
                if len(self._rest) < 2:
                    break
                if self._line() != b"":
                    raise InvalidHttpError("a chunk of the answer is longer than its size")
                self._state = _ParserState.CHUNK_SIZE
            elif state is _ParserState.HEAD:
                if not self._read_head():
                    break
            elif state is _ParserState.TRAILER:
                if (line := self._line()) is None:
                    break
                if not line:
                    self._state = _ParserState.COMPLETE
            elif state is _ParserState.UNTIL_CLOSE:
                body.append(self._rest)
                self._rest = b""
                break
            else:
                if self._rest:  # more than one response: the next one would be out of step
                    self.keep_alive = False
                break
        return b"".join(body)

    def closed(self) -> bool:
        """Whether the response is complete now that the connection is closed."""
        if self._state is _ParserState.UNTIL_CLOSE:
            self._state = _ParserState.COMPLETE
        return self.complete

    def _line(self) -> bytes | None:
        line, end, rest = self._rest.partition(b"\r\n")
        if not end:
            if len(line) > MAX_HEAD:
                raise InvalidHttpError("a line of the answer does not end")
            return None
        self._rest = rest
        return line

    def _read_head(self) -> bool:
        head, end, rest = self._rest.partition(b"\r\n\r\n")
        if not end:
            if not self._rest.startswith(b"HTTP/1."[: len(self._rest)]):
                raise InvalidHttpError("the answer does not begin like HTTP")
            if len(head) > MAX_HEAD:
                raise InvalidHttpError("the head of the answer does not end")
            return False
        self._rest = rest
        first, *lines = head.split(b"\r\n")
        if (status := _STATUS_LINE.fullmatch(first)) is None:
            raise InvalidHttpError("the answer does not begin like HTTP, or with a status that was not asked for")
        self.status = int(status[1])
        fields = {name.strip().lower(): value.strip() for name, _, value in (line.partition(b":") for line in lines)}
        self.keep_alive = first.startswith(b"HTTP/1.1") and fields.get(b"connection", b"").lower() != b"close"
        self._state = self._begin_body(fields)
        return True

    def _begin_body(self, fields: dict[bytes, bytes]) -> _ParserState:
        if self.status in (204, 304):
            return _ParserState.COMPLETE
        if fields.get(b"transfer-encoding", b"").lower() == b"chunked":
            return _ParserState.CHUNK_SIZE
        if (length := fields.get(b"content-length")) is not None:
            if not _CONTENT_LENGTH.fullmatch(length):
                raise InvalidHttpError("the length of the answer is no number")
            self._missing = int(length)
            return _ParserState.LENGTH if self._missing else _ParserState.COMPLETE
        self.keep_alive = False
        return _ParserState.UNTIL_CLOSE


@dataclass(frozen=True, slots=True)
class Target:
    url: str
    """`http://127.0.0.1:8000`; a path is ignored."""
    model: str
    """The name under which the server serves it."""
    api_key: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A target with its resolved address. Names are resolved once, before the measurement."""

    address: str
    port: int
    host_header: str


def resolve_target(target: Target, *, allow_remote: bool) -> Endpoint:
    """Raises InputError for a URL that may not be measured, LoadError for an unknown host."""
    try:
        parts = urlsplit(target.url)
        host, port = parts.hostname, parts.port or 80
    except ValueError:
        raise InputError(f"{redact_url(target.url)!r} is not a URL", todo="write http://HOST:PORT") from None
    if parts.scheme != "http" or not host:
        raise InputError(f"{redact_url(target.url)!r} cannot be measured", todo="write http://HOST:PORT")
    if redact_url(target.url) != target.url or parts.query or parts.fragment:
        what = "holds a secret or more than a host and a port, which are not sent to a measured server"
        raise InputError(f"{redact_url(target.url)!r} {what}", todo="write http://HOST:PORT")
    try:
        entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise LoadError(f"{target.url}: the host is not known ({error.strerror})") from None
    # IPv4 first: `localhost` may mean both, and vLLM listens on IPv4 by default.
    addresses = sorted((str(entry[4][0]) for entry in entries), key=lambda address: ":" in address)
    remote = [address for address in addresses if not ip_address(address.partition("%")[0]).is_loopback]
    if remote and not allow_remote:
        raise InputError(
            f"{target.url} is {remote[0]}, which is not this machine", todo="measure a server on 127.0.0.1"
        )
    return Endpoint(addresses[0], port, f"[{host}]:{port}" if ":" in host else f"{host}:{port}")


IDLE_CONNECTION_LIMIT = 2.0
"""Seconds after which an idle connection is not used again. vLLM's server closes it after 5; a request at that moment
would fail through no fault of the server."""

_LONGEST_OPENING = 5.0
"""Seconds that a schedule waits for the connections that are opened ahead of it."""

BodyReceiver = Callable[[int, bytes, float], None]
"""Called with the HTTP status, a piece of the body and when it arrived (time.monotonic)."""


class Transport(Protocol):
    async def post(self, body: bytes, receive: BodyReceiver) -> int:
        """Send one request and return the status when the response is complete. Raises RequestError."""
        ...

    async def close(self) -> None: ...


class _Connection(asyncio.Protocol):
    def __init__(self) -> None:
        self.idle_since = inf  # while it was never used: servers close after an answer that no request followed
        self._parser = ResponseParser()
        self._receive: BodyReceiver = _discard
        self._transport: asyncio.Transport | None = None
        self._answered: asyncio.Future[int] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - what create_connection promises
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        arrived = time.monotonic()
        if self._answered is None or self._answered.done():
            self.abort()  # bytes without a request
            return
        try:
            if body := self._parser.feed(data):
                self._receive(self._parser.status, body, arrived)
        except InvalidHttpError as error:
            self._fail(RequestFailureKind.GARBAGE, str(error))
            return
        if self._parser.complete:
            self._answered.set_result(self._parser.status)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._answered is None or self._answered.done():
            return
        if exc is None and self._parser.closed():
            self._answered.set_result(self._parser.status)
        elif self._parser.status:
            self._fail(RequestFailureKind.CUT, "the connection broke within the answer")
        else:
            self._fail(RequestFailureKind.RESET, "the connection broke before the answer")

    @property
    def reusable(self) -> bool:
        return (
            self._transport is not None
            and not self._transport.is_closing()
            and self._parser.keep_alive
            and time.monotonic() - self.idle_since < IDLE_CONNECTION_LIMIT
        )

    async def exchange(self, request: bytes, receive: BodyReceiver) -> int:
        self._parser, self._receive = ResponseParser(), receive
        self._answered = asyncio.get_running_loop().create_future()
        if self._transport is None:
            raise RequestError(RequestFailureKind.RESET, "the connection broke before the request")
        self._transport.write(request)
        try:
            return await self._answered
        finally:
            self._receive, self._answered = _discard, None
            self.idle_since = time.monotonic()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _fail(self, kind: RequestFailureKind, text: str) -> None:
        if self._answered is not None:
            self._answered.set_exception(RequestError(kind, text))
        self.abort()


class HttpTransport:
    """Posts to one path of one server, with as many connections as requests in flight."""

    def __init__(self, endpoint: Endpoint, api_key: str | None = None, *, path: str = "/v1/completions") -> None:
        self._endpoint = endpoint
        head = f"POST {path} HTTP/1.1\r\nHost: {endpoint.host_header}\r\nContent-Type: application/json\r\n"
        if api_key is not None:
            head += f"Authorization: Bearer {api_key}\r\n"
        self._head = head.encode("latin-1")
        self._idle: deque[_Connection] = deque()
        """The one that was used least recently first: in turns, so that none of many is idle for too long."""
        self._ahead = 0
        self._opening: set[asyncio.Task[None]] = set()

    async def open_ahead(self, connections: int) -> None:
        """Have so many connections open that no request uses, from now on, so that none of them waits for one."""
        self._ahead = connections
        self._replenish()
        if self._opening:
            await asyncio.wait(self._opening, timeout=_LONGEST_OPENING)

    def _replenish(self) -> None:
        while self._idle and not self._idle[0].reusable:  # the others were used later
            self._idle.popleft().abort()
        for _ in range(self._ahead - len(self._idle) - len(self._opening)):
            task = asyncio.get_running_loop().create_task(self._open())
            self._opening.add(task)
            task.add_done_callback(self._opening.discard)

    async def _open(self) -> None:
        with suppress(RequestError):  # a request finds it, and says so
            connection = await self._connect()
            self._idle.append(connection)

    async def post(self, body: bytes, receive: BodyReceiver) -> int:
        connection = self._kept() or await self._connect()
        if self._ahead:
            asyncio.get_running_loop().call_soon(self._replenish)  # after the request is written
        try:
            status = await connection.exchange(
                b"%bContent-Length: %d\r\n\r\n%b" % (self._head, len(body), body), receive
            )
        except BaseException:
            connection.abort()
            raise
        self._idle.append(connection)
        return status

    async def close(self) -> None:
        self._ahead = 0
        for task in self._opening:
            task.cancel()
        if self._opening:
            await asyncio.wait(self._opening)
        for connection in self._idle:
            connection.abort()
        self._idle.clear()
        await asyncio.sleep(0)  # lets the loop drop the sockets before it is closed

    def _kept(self) -> _Connection | None:
        while self._idle:
            connection = self._idle.popleft()
            if connection.reusable:
                return connection
            connection.abort()
        return None

    async def _connect(self) -> _Connection:
        loop = asyncio.get_running_loop()
        try:
            _, connection = await loop.create_connection(_Connection, self._endpoint.address, self._endpoint.port)
        except ConnectionRefusedError:
            raise RequestError(RequestFailureKind.REFUSED, "connection refused") from None
        except OSError as error:
            raise RequestError(RequestFailureKind.REFUSED, f"no connection ({error.strerror or error})") from None
        return connection


def _discard(status: int, body: bytes, arrived: float) -> None:
    """Receives pieces that arrive without a request."""
