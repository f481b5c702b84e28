"""Requests over kept-alive connections, with the arrival time of every piece taken before anything else happens.

Measured with benchmarks/client.py on two cores, as chunks/s below 1 ms of p99 loop lag and processor time per chunk at
3,100/s: httpx 1,600 and 74 µs, aiohttp 6,200 and 25 µs, asyncio's streams 3,100 and 27 µs, this 12,500 and 16 µs.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Protocol

from regress_gate.bench.load.errors import FailureKind, RequestError
from regress_gate.bench.load.http_response import NotHttpError, ResponseParser
from regress_gate.bench.load.target import Endpoint

IDLE_LIMIT = 2.0
"""Seconds after which an idle connection is not used again. vLLM's server closes at 5; a request that meets the
closing would fail without the server being at fault."""

Receive = Callable[[int, bytes, float], None]
"""Called with the HTTP status, a piece of the body and when it arrived (time.monotonic)."""


class Transport(Protocol):
    async def post(self, body: bytes, receive: Receive) -> int:
        """Send one request; returns the status when the answer is complete. Raises RequestError."""
        ...

    async def close(self) -> None: ...


class _Connection(asyncio.Protocol):
    def __init__(self) -> None:
        self.idle_since = 0.0
        self._parser = ResponseParser()
        self._receive: Receive = _nowhere
        self._transport: asyncio.Transport | None = None
        self._answered: asyncio.Future[int] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - what create_connection promises
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        arrived = time.monotonic()
        if self._answered is None or self._answered.done():
            self.abort()  # bytes that nobody asked for
            return
        try:
            if body := self._parser.feed(data):
                self._receive(self._parser.status, body, arrived)
        except NotHttpError as error:
            self._fail(FailureKind.GARBAGE, str(error))
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
            self._fail(FailureKind.CUT, "the connection broke within the answer")
        else:
            self._fail(FailureKind.RESET, "the connection broke before the answer")

    @property
    def reusable(self) -> bool:
        return (
            self._transport is not None
            and not self._transport.is_closing()
            and self._parser.keep_alive
            and time.monotonic() - self.idle_since < IDLE_LIMIT
        )

    async def exchange(self, request: bytes, receive: Receive) -> int:
        self._parser, self._receive = ResponseParser(), receive
        self._answered = asyncio.get_running_loop().create_future()
        if self._transport is None:
            raise RequestError(FailureKind.RESET, "the connection broke before the request")
        self._transport.write(request)
        try:
            return await self._answered
        finally:
            self._receive, self._answered = _nowhere, None
            self.idle_since = time.monotonic()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _fail(self, kind: FailureKind, text: str) -> None:
        if self._answered is not None:
            self._answered.set_exception(RequestError(kind, text))
        self.abort()


class HttpTransport:
    """Posts to one path of one server. Opens as many connections as there are requests in flight."""

    def __init__(self, endpoint: Endpoint, api_key: str | None = None, *, path: str = "/v1/completions") -> None:
        self._endpoint = endpoint
        head = f"POST {path} HTTP/1.1\r\nHost: {endpoint.host_header}\r\nContent-Type: application/json\r\n"
        if api_key is not None:
            head += f"Authorization: Bearer {api_key}\r\n"
        self._head = head.encode("latin-1")
        self._idle: list[_Connection] = []

    async def post(self, body: bytes, receive: Receive) -> int:
        connection = self._kept() or await self._connect()
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
        for connection in self._idle:
            connection.abort()
        self._idle.clear()
        await asyncio.sleep(0)  # lets the loop drop the sockets before somebody closes it

    def _kept(self) -> _Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.reusable:
                return connection
            connection.abort()
        return None

    async def _connect(self) -> _Connection:
        loop = asyncio.get_running_loop()
        try:
            _, connection = await loop.create_connection(_Connection, self._endpoint.address, self._endpoint.port)
        except ConnectionRefusedError:
            raise RequestError(FailureKind.REFUSED, "connection refused") from None
        except OSError as error:
            raise RequestError(FailureKind.REFUSED, f"no connection ({error.strerror or error})") from None
        return connection


def _nowhere(status: int, body: bytes, arrived: float) -> None:
    """Where the pieces go that arrive while no request waits."""
