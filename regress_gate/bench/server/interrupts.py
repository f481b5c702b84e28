"""Keeps Ctrl-C and its like waiting while something is half-done that nobody could undo: a process between its start
and the moment at which it is known."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def interrupts_deferred() -> Iterator[None]:
    """What comes while this is entered is delivered when it is left. A signal without a handler of ours is not kept."""
    if threading.current_thread() is not threading.main_thread():  # signals are handled in the main thread only
        yield
        return
    came: list[int] = []

    def note(number: int, _: FrameType | None) -> None:
        came.append(number)

    before = {number: signal.getsignal(number) for number in _NUMBERS}
    kept = {number: handler for number, handler in before.items() if callable(handler)}
    for number in kept:
        signal.signal(number, note)
    try:
        yield
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)
        for caught in came:
            signal.raise_signal(caught)
