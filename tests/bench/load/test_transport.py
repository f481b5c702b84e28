"""Connections: what is used again, what is not, and how each way of breaking is told apart."""

import asyncio
import socket
from collections.abc import Callable

import pytest

from regress_gate.bench.load import http_transport as module
from regress_gate.bench.load.http_transport import HttpTransport, Target, resolve_target
from regress_gate.bench.load.load_errors import LoadError, RequestError, RequestFailureKind
from regress_gate.errors import InputError

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


def transport_to(port: int, api_key: str | None = None) -> HttpTransport:
    return HttpTransport(resolve_target(Target(f"http://127.0.0.1:{port}", "m"), allow_remote=False), api_key)


def post_to(answers: list[bytes], *, close: bool = False, posts: int = 1, between: Callable[[], None] = lambda: None):
    """Post to a server that gives these answers, one for each request of a connection; how many it was connected to."""
    heads: list[bytes] = []

    async def talk() -> tuple[list[bytes], int]:
        connections = 0

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal connections
            connections += 1
            try:
                for answer in answers:
                    heads.append(await reader.readuntil(b"\r\n\r\n"))
                    await reader.readexactly(2)
                    writer.write(answer)
                    await writer.drain()
                    if close:
                        return
            except (asyncio.IncompleteReadError, ConnectionError):
                pass
            finally:
                writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        transport = transport_to(port, "secret")
        bodies: list[bytes] = []

        def receive(_: int, body: bytes, __: float) -> None:
            bodies.append(body)

        try:
            for _ in range(posts):
                await transport.post(b"{}", receive)
                between()
        finally:
            await transport.close()
            server.close()
            await server.wait_closed()
        return bodies, connections

    return (*asyncio.run(talk()), heads)


def test_a_connection_is_used_again():
    bodies, connections, heads = post_to([OK] * 3, posts=3)
    assert (bodies, connections) == ([b"ok"] * 3, 1)
    assert b"\r\nAuthorization: Bearer secret\r\n" in heads[0]
    assert b"\r\nHost: 127.0.0.1:" in heads[0]


def test_a_connection_that_the_server_closes_is_not():
    _, connections, _ = post_to([OK.replace(b"OK\r\n", b"OK\r\nConnection: close\r\n")], posts=3)
    assert connections == 3


def test_an_idle_connection_is_not_used_after_its_limit(monkeypatch):
    _, connections, _ = post_to(
        [OK] * 2, posts=2, between=lambda: monkeypatch.setattr(module, "IDLE_CONNECTION_LIMIT", 0.0)
    )
    assert connections == 2


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (b"", RequestFailureKind.RESET),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nab", RequestFailureKind.CUT),
        (b"SSH-2.0-OpenSSH_9.6\r\n", RequestFailureKind.GARBAGE),
    ],
)
def test_each_way_of_breaking_has_its_name(answer, kind):
    with pytest.raises(RequestError) as raised:
        post_to([answer], close=True)
    assert raised.value.failure.kind is kind


def test_an_answer_may_end_with_the_connection():
    bodies, _, _ = post_to([b"HTTP/1.1 200 OK\r\n\r\nok"], close=True)
    assert bodies == [b"ok"]


@pytest.mark.parametrize("url", ["http://192.0.2.1:8000", "http://[2001:db8::1]:8000"])
def test_another_machine_is_measured_only_when_allowed(url):
    with pytest.raises(InputError, match="not this machine"):
        resolve_target(Target(url, "m"), allow_remote=False)
    assert resolve_target(Target(url, "m"), allow_remote=True).port == 8000


@pytest.mark.parametrize("url", ["http://127.0.0.1:8000/v1", "http://localhost:8000", "http://127.8.8.8:8000"])
def test_this_machine_needs_no_permission(url):
    endpoint = resolve_target(Target(url, "m"), allow_remote=False)
    assert endpoint.port == 8000
    assert endpoint.address.startswith("127.")


@pytest.mark.parametrize("url", ["https://127.0.0.1", "127.0.0.1:8000", "http://", "http://127.0.0.1:port", ""])
def test_what_is_no_http_url_is_refused(url):
    with pytest.raises(InputError):
        resolve_target(Target(url, "m"), allow_remote=False)


def test_an_unknown_host_is_no_measurement(monkeypatch):
    def unknown(*_: object, **__: object) -> None:
        raise OSError(-2, "Name or service not known")

    monkeypatch.setattr("socket.getaddrinfo", unknown)
    with pytest.raises(LoadError, match="not known"):
        resolve_target(Target("http://nowhere.invalid", "m"), allow_remote=False)


def test_connections_are_open_before_they_are_needed_and_all_are_closed_in_the_end():
    async def talk() -> tuple[int, int, int]:
        accepted: list[asyncio.StreamWriter] = []

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            accepted.append(writer)
            try:
                while await reader.readuntil(b"\r\n\r\n"):
                    await reader.readexactly(2)
                    writer.write(OK)
            except (asyncio.IncompleteReadError, ConnectionError):
                pass
            finally:
                writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        transport = transport_to(port)
        await transport.open_ahead(3)
        while len(accepted) < 3:
            await asyncio.sleep(0)
        before = len(accepted)
        await asyncio.gather(*(transport.post(b"{}", lambda *_: None) for _ in range(3)))
        while len(accepted) < 6:  # for those that are used, others are opened
            await asyncio.sleep(0)
        await transport.close()
        server.close()
        await server.wait_closed()
        while not all(writer.is_closing() for writer in accepted):
            await asyncio.sleep(0)
        return before, len(accepted), sum(writer.is_closing() for writer in accepted)

    assert asyncio.run(asyncio.wait_for(talk(), 60)) == (3, 6, 6)


def test_a_server_that_is_away_is_found_by_the_request_and_not_by_what_is_opened_ahead():
    async def talk() -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
        transport = transport_to(port)
        await transport.open_ahead(2)
        try:
            await transport.post(b"{}", lambda *_: None)
        finally:
            await transport.close()

    with pytest.raises(RequestError, match="connection refused"):
        asyncio.run(talk())
