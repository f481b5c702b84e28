"""Sends requests closed-loop or on schedule, and keeps the times. Not for what the times mean.

In an open loop a request's latency counts from the moment at which it was scheduled, however late it was sent:
otherwise a server that stalls would be spared the requests that its stall delays (coordinated omission).
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from threading import Event, Thread
from types import TracebackType
from typing import Self

from regress_gate.bench.load.http_transport import Transport
from regress_gate.bench.load.load_errors import RequestError, RequestFailure, RequestFailureKind
from regress_gate.bench.load.responses import StreamedResponse, WholeResponse

# MERGED regress_gate.bench.load.alarm: Wake-ups for an event loop at exact times. asyncio's own timers round up to
# the next millisecond on Linux.


class PreciseTimer:
    """While entered, calls `ring(due)` on the running loop at each due time (time.monotonic, ascending).

    A thread sleeps between the times, so that the loop is woken from outside as by a server. Due times that passed
    while the loop or the thread was kept waiting are all rung.
    """

    def __init__(self, times: Iterable[float], ring: Callable[[float], None]) -> None:
        self._times = times
        self._ring = ring
        self._stopped = Event()
        self._loop = asyncio.get_running_loop()
        self._thread = Thread(target=self._run, name="alarm", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        for due in self._times:
            if self._stopped.wait(max(0.0, due - time.monotonic())):
                return
            self._loop.call_soon_threadsafe(self._ring_unless_stopped, due)

    def _ring_unless_stopped(self, due: float) -> None:
        if not self._stopped.is_set():
            self._ring(due)


OPEN_LOOP_LEAD = 0.05
"""Seconds between the start of an open loop and its first request."""


@dataclass(frozen=True, slots=True)
class RequestRecord:
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
    failure: RequestFailure | None

    @property
    def ttft(self) -> float:
        return self.chunks[0] - self.scheduled

    @property
    def e2el(self) -> float:
        return self.chunks[-1] - self.scheduled


@dataclass(frozen=True, slots=True)
class PreparedRequest:
    body: bytes
    expect: Callable[[], StreamedResponse | WholeResponse]
    """Makes what reads its answer."""


@dataclass(frozen=True, slots=True)
class RequestSender:
    """How one request of a trial is sent."""

    transport: Transport
    timeout: float
    """Seconds from sending to the end of the answer."""
    deadline: float
    """When the whole trial ends (time.monotonic): what is in flight is given up, what is not sent stays unsent."""
    finished: Callable[[], None]
    """Called after each request, for progress."""

    async def send(self, request: PreparedRequest, scheduled: float, due: float) -> RequestRecord:
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
            kind = RequestFailureKind.TIMEOUT if sent + self.timeout <= self.deadline else RequestFailureKind.CUT_SHORT
            failure = RequestFailure(kind, f"no end within {limit - sent:.3g} s, {answer.came()} had come")
        ended = time.monotonic()
        self.finished()
        return RequestRecord(
            scheduled, due, sent, ended, answer.chunks, answer.input_tokens, answer.output_tokens, failure
        )

    def unsent(self, scheduled: float) -> RequestRecord:
        now = time.monotonic()
        self.finished()
        failure = RequestFailure(RequestFailureKind.UNSENT, "not sent: the deadline of the trial passed")
        return RequestRecord(scheduled, now, now, now, (), None, None, failure)


async def closed_loop(
    sender: RequestSender, requests: Sequence[PreparedRequest], concurrency: int | None
) -> list[RequestRecord]:
    """Keep `concurrency` requests in flight (None: all) until every one is sent; records in the requests' order."""
    records: list[RequestRecord | None] = [None] * len(requests)
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
    sender: RequestSender, requests: Sequence[PreparedRequest], times: Sequence[float], concurrency: int | None
) -> list[RequestRecord]:
    """Send each request at its time (seconds from the start, ascending), at most `concurrency` at once."""
    start = time.monotonic() + OPEN_LOOP_LEAD
    schedule = [start + at for at in times]
    records: list[RequestRecord | None] = [None] * len(requests)
    seats = asyncio.Semaphore(concurrency or len(requests))
    waiting = iter(enumerate(requests))
    all_sent = asyncio.Event()

    async def send(number: int, request: PreparedRequest, scheduled: float) -> None:
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

        with PreciseTimer(schedule, ring), suppress(TimeoutError):  # what has not been rung by then stays unsent
            async with asyncio.timeout_at(sender.deadline):
                await all_sent.wait()
    return [record or sender.unsent(at) for record, at in zip(records, schedule, strict=True)]
