"""Send requests and conversations in a closed loop or on schedule, and record the times. Not for statistics.

In an open loop a request's latency counts from its scheduled time, however late it was sent. Otherwise the requests
that a stalled server delays would look fast (coordinated omission). A later turn of a conversation waits for the
answer before it, as its user does: its latency counts from when it was sent.
"""

import asyncio
import ctypes
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Self

import numpy as np

from regress_gate.bench.load.http_transport import Transport
from regress_gate.bench.load.load_errors import RequestError, RequestFailure, RequestFailureKind
from regress_gate.bench.load.responses import StreamedResponse, WholeResponse


class PreciseTimer(AbstractContextManager["PreciseTimer"]):
    """A context manager that calls `ring(due)` on the running loop at each due time (time.monotonic, ascending).

    On Linux a timer of the kernel wakes the loop, since asyncio's own are rounded up to the next millisecond there. If
    the loop was delayed, every missed time is rung, and what a ring has started gets its turn before the next ring.
    """

    def __init__(self, times: Iterable[float], ring: Callable[[float], None]) -> None:
        self._times = iter(times)
        self._ring = ring
        self._loop = asyncio.get_running_loop()
        self._due = 0.0
        self._kernel: _KernelTimer | None = None
        self._handle: asyncio.TimerHandle | None = None

    def __enter__(self) -> Self:
        if sys.platform == "linux":
            with suppress(OSError):  # where a sandbox forbids it
                kernel = _KernelTimer()
                try:
                    self._loop.add_reader(kernel.descriptor, self._expired)
                except BaseException:
                    kernel.close()
                    raise
                self._kernel = kernel
        self._arm()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._kernel is not None:
            self._loop.remove_reader(self._kernel.descriptor)
            self._kernel.close()
        if self._handle is not None:
            self._handle.cancel()

    def _arm(self) -> None:
        due = next(self._times, None)
        if due is None:
            return
        self._due = due
        if self._kernel is not None:
            self._kernel.set(due)
        else:
            self._handle = self._loop.call_at(due, self._expired)

    def _expired(self) -> None:
        if self._kernel is not None:
            self._kernel.clear()
        self._ring(self._due)
        self._arm()


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _Itimerspec(ctypes.Structure):
    _fields_ = (("interval", _Timespec), ("value", _Timespec))


_ABSOLUTE = 1
"""TFD_TIMER_ABSTIME of linux/timerfd.h."""


class _KernelTimer:
    """timerfd_create(2), which Python has since 3.13. Raises OSError where the system refuses it."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        flags = os.O_NONBLOCK | os.O_CLOEXEC
        self.descriptor: int = self._checked(self._libc.timerfd_create(time.CLOCK_MONOTONIC, flags))

    def set(self, due: float) -> None:
        """Make the descriptor readable at that time, at once if it has passed."""
        value = _Timespec(*divmod(round(due * 1e9), 10**9))
        spec = _Itimerspec(_Timespec(0, 0), value)
        self._checked(self._libc.timerfd_settime(self.descriptor, _ABSOLUTE, ctypes.byref(spec), None))

    def clear(self) -> None:
        with suppress(BlockingIOError):
            os.read(self.descriptor, 8)

    def close(self) -> None:
        os.close(self.descriptor)

    @staticmethod
    def _checked(answer: int) -> int:
        if answer < 0:
            raise OSError(ctypes.get_errno(), "the kernel gives no timer")
        return answer


OPEN_LOOP_LEAD = 0.05
"""Seconds between the start of an open loop and its first request."""
_OPENING = 0.05
"""Seconds in which connections that are opened ahead of requests are ready, also while the server is busy."""
_MOST_AHEAD = 64


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
    turn: int = 0
    """Turns before it in its conversation."""

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


class SharedWindow:
    """The time in which all workloads of a mix are sending.

    It ends when the first of them has begun its last request or conversation; nothing is sent after that.
    """

    def __init__(self) -> None:
        self.over = asyncio.Event()

    async def pause(self, seconds: float) -> None:
        """Until then, or until the window is over."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.over.wait()


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
    window: SharedWindow | None = None
    """Of a mix of workloads; None for a workload that is sent alone."""

    @property
    def is_over(self) -> bool:
        """Whether the window of a mix has ended."""
        return self.window is not None and self.window.over.is_set()

    async def send(
        self, request: PreparedRequest, scheduled: float, due: float, *, ends_window: bool = False
    ) -> RequestRecord:
        sent = time.monotonic()
        if self.is_over or sent >= self.deadline:
            return self.unsent(scheduled)
        if self.window is not None and ends_window:
            self.window.over.set()
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

    async def converse(
        self, conversation: "Conversation", scheduled: float, due: float, *, is_last: bool
    ) -> list[RequestRecord]:
        """Send turn after turn. A turn that fails ends the conversation: those after it stay unsent."""
        records: list[RequestRecord] = []
        for turn, (request, pause) in enumerate(conversation):
            failure = records[-1].failure if records else None
            if failure is not None:
                why = failure if failure.kind is RequestFailureKind.NOT_NEEDED else _ABANDONED
                record = self.unsent(time.monotonic(), why)
            else:
                if records:
                    await self._think(pause)
                    scheduled = due = time.monotonic()
                record = await self.send(request, scheduled, due, ends_window=is_last)
            records.append(replace(record, turn=turn) if turn else record)
        return records

    async def _think(self, seconds: float) -> None:
        seconds = min(seconds, max(0.0, self.deadline - time.monotonic()))
        if self.window is None:
            await asyncio.sleep(seconds)
        else:
            await self.window.pause(seconds)

    def unsent(self, scheduled: float, failure: RequestFailure | None = None) -> RequestRecord:
        """`failure`: why, if not because the window is over or the deadline passed."""
        now = time.monotonic()
        self.finished()
        failure = failure or (_NOT_NEEDED if self.is_over else _TOO_LATE)
        return RequestRecord(scheduled, now, now, now, (), None, None, failure)


_TOO_LATE = RequestFailure(RequestFailureKind.UNSENT, "not sent: the deadline of the trial passed")
_NOT_NEEDED = RequestFailure(RequestFailureKind.NOT_NEEDED, "not sent: the mix was over")
_ABANDONED = RequestFailure(RequestFailureKind.ABANDONED, "not sent: an earlier turn of its conversation failed")

Conversation = Sequence[tuple[PreparedRequest, float]]
"""Requests that follow one another, at least one, each with the seconds between the answer before it and its turn."""


def lone_requests(requests: Iterable[PreparedRequest]) -> list[Conversation]:
    """Each a conversation of one turn."""
    return [[(request, 0.0)] for request in requests]


async def closed_loop(
    sender: RequestSender, conversations: Sequence[Conversation], concurrency: int | None
) -> list[RequestRecord]:
    """Keep `concurrency` conversations going (None: all) until all are sent. Records in the order of the requests."""
    records: list[list[RequestRecord]] = [[] for _ in conversations]
    waiting = iter(enumerate(conversations))

    async def user() -> None:
        for number, conversation in waiting:
            turn = time.monotonic()
            is_last = number == len(conversations) - 1
            records[number] = await sender.converse(conversation, turn, turn, is_last=is_last)

    async with asyncio.TaskGroup() as group:
        for _ in range(min(concurrency or len(conversations), len(conversations))):
            group.create_task(user())
    return [record for each in records for record in each]


def most_at_once(times: Sequence[float]) -> int:
    """The most requests of an open loop that begin within the time in which the next connections are opened."""
    ends = np.searchsorted(times, np.asarray(times) + _OPENING, side="right")
    return min(_MOST_AHEAD, int(np.max(ends - np.arange(len(times)), initial=0)))


async def open_loop(
    sender: RequestSender, conversations: Sequence[Conversation], times: Sequence[float], concurrency: int | None
) -> list[RequestRecord]:
    """Begin each conversation at its time (seconds from the start, ascending), at most `concurrency` at once."""
    start = time.monotonic() + OPEN_LOOP_LEAD
    schedule = [start + at for at in times]
    records: list[list[RequestRecord]] = [[] for _ in conversations]
    seats = asyncio.Semaphore(concurrency or len(conversations))
    waiting = iter(enumerate(conversations))
    all_sent = asyncio.Event() if sender.window is None else sender.window.over

    async def send(number: int, conversation: Conversation, scheduled: float) -> None:
        full = seats.locked()
        async with seats:
            due = time.monotonic() if full else scheduled
            is_last = number == len(conversations) - 1
            records[number] = await sender.converse(conversation, scheduled, due, is_last=is_last)

    async with asyncio.TaskGroup() as group:

        def ring(due: float) -> None:
            number, conversation = next(waiting)
            group.create_task(send(number, conversation, due))
            if number == len(conversations) - 1 and sender.window is None:
                all_sent.set()

        with PreciseTimer(schedule, ring), suppress(TimeoutError):  # requests that are not due by then stay unsent
            async with asyncio.timeout_at(sender.deadline):
                await all_sent.wait()
    return [
        record
        for each, conversation, at in zip(records, conversations, schedule, strict=True)
        for record in each or [sender.unsent(at) for _ in conversation]
    ]
