"""Sends requests closed-loop or on schedule, and keeps the times. Not for what the times mean.

In an open loop a request's latency counts from the moment at which it was scheduled, however late it was sent:
otherwise a server that stalls would be spared the requests that its stall delays (coordinated omission).
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from regress_gate.bench.load.alarm import Alarm
from regress_gate.bench.load.answer import Answer
from regress_gate.bench.load.errors import Failure, FailureKind, RequestError
from regress_gate.bench.load.transport import Transport
from regress_gate.bench.load.whole_answer import WholeAnswer

LEAD = 0.05
"""Seconds between the start of an open loop and its first request."""


@dataclass(frozen=True, slots=True)
class Record:
    """One request; times by time.monotonic."""

    scheduled: float
    """From when its latency counts. In a closed loop, when its turn came."""
    due: float
    """When it was scheduled and the concurrency let it go: what is sent later than that is the client's lateness."""
    sent: float
    ended: float
    chunks: Sequence[float]
    """When each chunk with tokens arrived; of an answer in one piece, when that was complete."""
    input_tokens: int | None
    """As the server counts them; None where it does not say."""
    output_tokens: int | None
    failure: Failure | None

    @property
    def ttft(self) -> float:
        return self.chunks[0] - self.scheduled

    @property
    def e2el(self) -> float:
        return self.chunks[-1] - self.scheduled


@dataclass(frozen=True, slots=True)
class Request:
    body: bytes
    expect: Callable[[], Answer | WholeAnswer]
    """Makes what reads its answer."""


@dataclass(frozen=True, slots=True)
class Sender:
    """How one request of a trial is sent."""

    transport: Transport
    timeout: float
    """Seconds from sending to the end of the answer."""
    deadline: float
    """When the whole trial ends (time.monotonic): what is in flight is given up, what is not sent stays unsent."""
    finished: Callable[[], None]
    """Called after each request, for progress."""

    async def send(self, request: Request, scheduled: float, due: float) -> Record:
        sent = time.monotonic()
        if sent >= self.deadline:
            return self.unsent(scheduled)
        answer = request.expect()
        limit = min(sent + self.timeout, self.deadline)
        try:
            async with asyncio.timeout_at(limit):
                failure = answer.failure(await self.transport.post(request.body, answer.receive))
        except RequestError as error:
            failure = error.failure
        except TimeoutError:
            kind = FailureKind.TIMEOUT if sent + self.timeout <= self.deadline else FailureKind.CUT_SHORT
            failure = Failure(kind, f"no end within {limit - sent:.3g} s, {answer.came()} had come")
        ended = time.monotonic()
        self.finished()
        return Record(scheduled, due, sent, ended, answer.chunks, answer.input_tokens, answer.output_tokens, failure)

    def unsent(self, scheduled: float) -> Record:
        now = time.monotonic()
        self.finished()
        failure = Failure(FailureKind.UNSENT, "not sent: the deadline of the trial passed")
        return Record(scheduled, now, now, now, (), None, None, failure)


async def closed_loop(sender: Sender, requests: Sequence[Request], concurrency: int | None) -> list[Record]:
    """Keep `concurrency` requests in flight (None: all) until every one is sent; records in the requests' order."""
    records: list[Record | None] = [None] * len(requests)
    waiting = iter(enumerate(requests))

    async def user() -> None:
        for number, request in waiting:
            turn = time.monotonic()
            records[number] = await sender.send(request, turn, turn)

    async with asyncio.TaskGroup() as group:
        for _ in range(min(concurrency or len(requests), len(requests))):
            group.create_task(user())
    return [record for record in records if record is not None]


async def open_loop(
    sender: Sender, requests: Sequence[Request], times: Sequence[float], concurrency: int | None
) -> list[Record]:
    """Send each request at its time (seconds from the start, ascending), at most `concurrency` at once."""
    start = time.monotonic() + LEAD
    schedule = [start + at for at in times]
    records: list[Record | None] = [None] * len(requests)
    seats = asyncio.Semaphore(concurrency or len(requests))
    waiting = iter(enumerate(requests))
    all_sent = asyncio.Event()

    async def send(number: int, request: Request, scheduled: float) -> None:
        full = seats.locked()
        async with seats:
            due = time.monotonic() if full else scheduled
            records[number] = await sender.send(request, scheduled, due)

    async with asyncio.TaskGroup() as group:

        def ring(due: float) -> None:
            number, request = next(waiting)
            group.create_task(send(number, request, due))
            if number == len(requests) - 1:
                all_sent.set()

        with Alarm(schedule, ring), suppress(TimeoutError):  # what has not been rung by then stays unsent
            async with asyncio.timeout_at(sender.deadline):
                await all_sent.wait()
    return [record or sender.unsent(at) for record, at in zip(records, schedule, strict=True)]
