"""Wake-ups for an event loop at exact times. asyncio's own timers round up to the next millisecond on Linux."""

import asyncio
import time
from collections.abc import Callable, Iterable
from threading import Event, Thread
from types import TracebackType
from typing import Self


class Alarm:
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
