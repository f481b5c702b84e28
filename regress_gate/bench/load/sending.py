"""Send requests in a closed loop or on schedule, and record the times. Not for statistics.

In an open loop a request's latency counts from its scheduled time, however late it was sent. Otherwise the requests
that a stalled server delays would look fast (coordinated omission).
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


class PreciseTimer:
    """A context manager that calls `ring(due)` on the running loop at each due time (time.monotonic, ascending).

    A thread sleeps between the times and wakes the loop from outside, as a server does: asyncio's own timers round up
    to the next millisecond on Linux. If the loop or the thread was delayed, every missed time is rung.
    """

    def __init__(self, times: Iterable[float], ring: Callable[[float], None]) -> None:
        self._times = times
        self._ring = ring
        self._stopped = Event()
        self._loop = asyncio.get_running_loop()
        self._thread = Thread(target=self._run, name="precise-timer", daemon=True)

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
    """Start of its latency. In a closed loop, when its turn came."""
    due: float
    """The scheduled time, or when the cap on the concurrency allowed it. A later send is the client's lateness."""
    sent: float
    ended: float
    chunks: Sequence[float]
    """When each chunk with tokens arrived; one time for a response in one piece."""
    input_tokens: int | None
    """As the server counts them; None if it does not."""
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
    """Makes the reader of its response."""


@dataclass(frozen=True, slots=True)
class RequestSender:
    """Sends the requests of one trial."""

    transport: Transport
    timeout: float
    """Seconds from the send to the end of the response."""
    deadline: float
    """End of the whole trial (time.monotonic). Requests in flight are cut short then, the others stay unsent."""
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
    """Keep `concurrency` requests in flight (None: all) until all are sent. Records in the order of the requests."""
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

        with PreciseTimer(schedule, ring), suppress(TimeoutError):  # requests that are not due by then stay unsent
            async with asyncio.timeout_at(sender.deadline):
                await all_sent.wait()
    return [record or sender.unsent(at) for record, at in zip(records, schedule, strict=True)]
