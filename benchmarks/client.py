"""How much the load client itself costs and distorts, for several ways of reading the stream, on the fake server.

    python benchmarks/client.py [--transport NAME ...] [--levels 8 16 …] [--tokens N]

Needs httpx and aiohttp beside the project's own dependencies. Each line is one fresh server under a closed loop: chunks
per second, client processor time per chunk, p99 lag of the client's loop, and how long after the server sent a chunk
the client stamped it (median, p99; same machine, same clock). The capacity is the largest rate with p99 lag below 1 ms.
"""

import argparse
import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

import aiohttp
import httpx
import numpy as np
from client_servers import FakeServer
from client_truth import delays

from regress_gate.bench.load.client_guards import ClientWatch
from regress_gate.bench.load.http_transport import (
    BodyReceiver,
    HttpTransport,
    ResponseParser,
    Target,
    Transport,
    resolve_target,
)
from regress_gate.bench.load.load_errors import RequestError, RequestFailureKind
from regress_gate.bench.load.load_workload import LoadWorkload
from regress_gate.bench.load.pass_requests import measured_requests
from regress_gate.bench.load.sending import RequestSender, closed_loop

MAX_LAG = 0.001


class Httpx:
    """httpx, as its documentation streams."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}/v1/completions"
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
        self._client = httpx.AsyncClient(trust_env=False, timeout=None, limits=limits)

    async def post(self, body: bytes, receive: BodyReceiver) -> int:
        headers = {"content-type": "application/json"}
        async with self._client.stream("POST", self._url, content=body, headers=headers) as response:
            async for piece in response.aiter_raw():
                receive(response.status_code, piece, time.monotonic())
            return response.status_code

    async def close(self) -> None:
        await self._client.aclose()


class Aiohttp:
    """aiohttp, as vLLM's own client reads."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}/v1/completions"
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(total=None)
        )

    async def post(self, body: bytes, receive: BodyReceiver) -> int:
        headers = {"content-type": "application/json"}
        async with self._session.post(self._url, data=body, headers=headers) as response:
            async for piece in response.content.iter_any():
                receive(response.status, piece, time.monotonic())
            return response.status

    async def close(self) -> None:
        await self._session.close()


class Streams:
    """asyncio's streams and this project's response parser; a connection for each request."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def post(self, body: bytes, receive: BodyReceiver) -> int:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        head = f"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        parser = ResponseParser()
        while not parser.complete:
            if not (piece := await reader.read(2**16)):
                raise RequestError(RequestFailureKind.CUT, "closed")
            arrived = time.monotonic()
            if data := parser.feed(piece):
                receive(parser.status, data, arrived)
        writer.close()
        return parser.status

    async def close(self) -> None:
        pass


TRANSPORTS: dict[str, Callable[[int], Transport]] = {
    "httpx": Httpx,
    "aiohttp": Aiohttp,
    "streams": Streams,
    "own": lambda port: HttpTransport(resolve_target(Target(f"http://127.0.0.1:{port}", "tiny"), allow_remote=False)),
}


@dataclass(frozen=True, slots=True)
class Line:
    transport: str
    concurrency: int
    chunks_per_second: float
    requests_per_second: float
    cpu_per_chunk: float
    lag_p99: float
    delay_median: float
    delay_p99: float
    failed: int

    def __str__(self) -> str:
        return (
            f"{self.transport:8} {self.concurrency:5d} {self.chunks_per_second:9.0f} {self.requests_per_second:8.0f} "
            f"{self.cpu_per_chunk * 1e6:10.1f} {self.lag_p99 * 1e3:10.2f} {self.delay_median * 1e3:10.2f} "
            f"{self.delay_p99 * 1e3:10.2f} {self.failed:6d}"
        )


HEAD = "transport  conc  chunks/s    req/s  µs/chunk  lag p99 ms  delay median ms  p99 ms  failed"


def measure(name: str, concurrency: int, tokens: int, tpot: float, rounds: int) -> Line:
    workload = LoadWorkload(32, tokens, concurrency * rounds, concurrency=concurrency)
    with FakeServer(ttft=tpot, tpot=tpot, jitter=0.2) as server:
        return asyncio.run(_measure(name, server, workload))


async def _measure(name: str, server: FakeServer, workload: LoadWorkload) -> Line:
    requests = measured_requests(workload, "capacity", 1, "tiny")
    transport = TRANSPORTS[name](int(server.url.rpartition(":")[2]))
    sender = RequestSender(transport, 120.0, time.monotonic() + 120, lambda: None)
    with ClientWatch() as watch:
        records = await closed_loop(sender, requests, workload.concurrency)
        load = watch.load()
    await transport.close()
    chunks = sum(len(record.chunks) for record in records)
    _, late = delays(server.pass_record(), [record.chunks for record in records if record.failure is None])
    return Line(
        name,
        workload.concurrency or 0,
        chunks / load.wall_seconds,
        len(records) / load.wall_seconds,
        load.cpu_seconds / max(chunks, 1),
        float(np.percentile(load.lags, 99)),
        float(np.median(late)),
        float(np.percentile(late, 99)),
        sum(record.failure is not None for record in records),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--transport", nargs="+", choices=TRANSPORTS, default=list(TRANSPORTS))
    parser.add_argument("--levels", nargs="+", type=int, default=[8, 16, 32, 64, 128, 256])
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--tpot", type=float, default=0.01)
    parser.add_argument("--rounds", type=int, default=6, help="requests of each user")
    arguments = parser.parse_args()
    print(HEAD)
    for name in arguments.transport:
        capacity, beyond = 0.0, 0
        for concurrency in arguments.levels:
            line = measure(name, concurrency, arguments.tokens, arguments.tpot, arguments.rounds)
            print(line, flush=True)
            if line.lag_p99 <= MAX_LAG:
                capacity, beyond = line.chunks_per_second, 0
            elif (beyond := beyond + 1) == 2:  # one alone may be a neighbour on the machine
                break
        print(f"{name}: {capacity:.0f} chunks/s with p99 lag below 1 ms")


if __name__ == "__main__":
    main()
