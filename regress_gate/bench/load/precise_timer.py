"""Planned moments on the running event loop, to some ten microseconds."""

import asyncio
import ctypes
import os
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, suppress
from types import TracebackType
from typing import Self


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
