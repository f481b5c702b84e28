"""How late the requests of a replayed trace are, beside what this machine can send at all.

    PYTHONPATH=. python benchmarks/trace_replay.py [--trace FILE --format NAME] [--pairs N] [--requests N] [--rate R]

In turns, to one fake server: the load client replays the trace, and a bare thread sends the same bytes at the same
times on connections that are open already, without reading an answer. A request's lateness is when the server had read
it less when the trace has it due, on one clock. The bound is that the client's p99 is at most 1 ms above the thread's.
"""

import argparse
import asyncio
import json
import socket
import sys
import tempfile
import time
import urllib.request
from collections.abc import Mapping
from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path

import numpy as np
import numpy.typing as npt
import orjson
from client_servers import MODEL, FakeServer

from regress_gate.bench.load.http_transport import HttpTransport, Target, resolve_target
from regress_gate.bench.load.load_workload import Arrival, LoadWorkload, arrival_times
from regress_gate.bench.load.pass_requests import make_pass_requests
from regress_gate.bench.load.sending import (
    OPEN_LOOP_LEAD,
    PreparedRequest,
    RequestSender,
    lone_requests,
    most_at_once,
    open_loop,
)
from regress_gate.bench.load.trace import Trace, open_trace, trace_facts
from regress_gate.model.suite import RecordedTrace

MOST_BEHIND = 0.001
"""Seconds that the client's p99 may be above that of the bare thread."""
MOST_OF_A_THREAD = 0.005
"""Seconds of the thread's own p99 above which others on the machine decide the result."""
ANSWER_TOKENS = 8
Floats = npt.NDArray[np.float64]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trace", help="a recorded one; by default one is made, with bursts")
    parser.add_argument("--format", default="auto")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--requests", type=int, default=400)
    parser.add_argument("--rate", type=float, default=40.0, help="requests a second of the trace that is made")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file = given.trace or made_trace(Path(folder), given.requests, given.rate)
        recorded = RecordedTrace(file=str(file), format=given.format, scale=given.scale)
        trace = open_trace(recorded, warmup=0, requests=given.requests)
    facts = trace_facts(trace)
    print(f"{facts.requests} requests in {facts.seconds:.1f} s, at most {facts.busiest_second} in a second")
    client, thread, stamped = compare(trace, given.pairs)
    print(f"{'lateness, ms':34}{'requests':>10}{'median':>9}{'p90':>9}{'p99':>9}{'max':>9}")
    for name, late in (
        ("bare thread, read by the server", thread),
        ("load client, read by the server", client),
        ("load client, its own stamp", stamped),
    ):
        spread = np.percentile(late, (50, 90, 99, 100)) * 1000
        print(f"{name:34}{len(late):10}" + "".join(f"{value:9.3f}" for value in spread))
    ours, floor = (float(np.percentile(late, 99)) for late in (client, thread))
    print(
        f"p99: {1000 * (ours - floor):+.3f} ms beside what the machine can send ({ours / floor:.2f} times), "
        f"bound {1000 * MOST_BEHIND:+.3f} ms"
    )
    if floor > MOST_OF_A_THREAD:
        sys.exit(f"this machine is too busy to tell: the bare thread itself is above {1000 * MOST_OF_A_THREAD:g} ms")
    sys.exit("the bound is broken" if ours - floor > MOST_BEHIND else 0)


def made_trace(folder: Path, requests: int, rate: float) -> Path:
    workload = LoadWorkload(1, 1, requests, request_rate=rate, arrival=Arrival.GAMMA, burstiness=0.5)
    lengths = np.random.default_rng(7).integers(100, 2000, requests).tolist()
    lines = [
        {"time": at, "input_tokens": length, "output_tokens": ANSWER_TOKENS}
        for at, length in zip(arrival_times(workload, "trace", 1), lengths, strict=True)
    ]
    file = folder / "trace.jsonl"
    file.write_bytes(b"\n".join(map(orjson.dumps, lines)))
    return file


def compare(trace: Trace, pairs: int) -> tuple[Floats, Floats, Floats]:
    """Lateness of the client's requests and the thread's, by the server; and the client's by its own stamps. The first
    pair warms both up."""
    client: list[Floats] = []
    thread: list[Floats] = []
    stamped: list[Floats] = []
    times = trace.measured_times
    with FakeServer(ttft=0.02, tpot=0.005) as server:
        for pair in range(pairs + 1):
            requests = requests_of(trace, pair + 1)
            for ours in (True, False) if pair % 2 else (False, True):
                before = len(seen(server.url))
                start, sent = (
                    asyncio.run(replay(server.url, requests, times)) if ours else by_thread(server.url, requests, times)
                )
                received = {entry["prompt_sha256"]: entry["received"] for entry in seen(server.url)[before:]}
                late = np.array([received[digest(request)] for request in requests]) - start - times
                if pair:
                    (client if ours else thread).append(late)
                    stamped += [sent - start - times] if ours else []
    return np.concatenate(client), np.concatenate(thread), np.concatenate(stamped)


def requests_of(trace: Trace, ordinal: int) -> list[PreparedRequest]:
    workload = LoadWorkload(0, 0, len(trace.times), trace=trace)
    return list(make_pass_requests(workload, "replay", ordinal, MODEL, None).measured)


async def replay(url: str, requests: list[PreparedRequest], times: Floats) -> tuple[float, Floats]:
    """When the trace began (time.monotonic), and when each request was sent by the client's own stamp."""
    transport = HttpTransport(resolve_target(Target(url, MODEL), allow_remote=False))
    await transport.open_ahead(most_at_once(times.tolist()))
    sender = RequestSender(transport, 60.0, time.monotonic() + 600.0, lambda: None)
    records = await open_loop(sender, lone_requests(requests), times.tolist(), None)
    await transport.close()
    if failed := [record.failure for record in records if record.failure]:
        sys.exit(f"{len(failed)} requests failed: {failed[0].text}")
    return records[0].scheduled - times[0], np.array([record.sent for record in records])


def by_thread(url: str, requests: list[PreparedRequest], times: Floats) -> tuple[float, Floats]:
    """As `replay`, by sleeping and writing."""
    host, port = url.removeprefix("http://").split(":")
    head = f"POST /v1/completions HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: application/json\r\n"
    wired = [f"{head}Content-Length: {len(request.body)}\r\n\r\n".encode() + request.body for request in requests]
    with ExitStack() as stack:
        connections = [stack.enter_context(socket.create_connection((host, int(port)))) for _ in wired]
        for connection in connections:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sent = []
        start = time.monotonic() + OPEN_LOOP_LEAD
        for at, connection, request in zip(times.tolist(), connections, wired, strict=True):
            time.sleep(max(0.0, start + at - time.monotonic()))
            sent.append(time.monotonic())
            connection.sendall(request)
        time.sleep(1.0)  # for the last answers
    return start, np.array(sent)


def seen(url: str) -> list[Mapping[str, object]]:
    """The requests that the server has read."""
    with urllib.request.urlopen(f"{url}/fake/requests") as answer:
        found: list[Mapping[str, object]] = json.load(answer)["requests"]
    return found


def digest(request: PreparedRequest) -> str:
    """Of the prompt, as the fake server makes it."""
    return sha256(json.dumps(orjson.loads(request.body)["prompt"]).encode()).hexdigest()


if __name__ == "__main__":
    main()
