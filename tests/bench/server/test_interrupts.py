"""An interrupt that comes at the wrong moment waits for the right one."""

import signal
from threading import Thread

import pytest

from regress_gate.bench.server.lifecycle import interrupts_deferred


def work(done: list[str]) -> None:
    with interrupts_deferred():
        signal.raise_signal(signal.SIGINT)
        done.append("all")


def test_a_deferred_signal_is_delivered_at_the_end_of_the_block() -> None:
    done: list[str] = []
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            work(done)
        assert done == ["all"]
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)


def test_an_error_of_its_own_is_not_swallowed() -> None:
    with pytest.raises(OSError, match="full"), interrupts_deferred():
        raise OSError("full")


def test_other_threads_have_no_signals_to_defer() -> None:
    reached = []

    def reach() -> None:
        with interrupts_deferred():
            reached.append(True)

    thread = Thread(target=reach)
    thread.start()
    thread.join()
    assert reached == [True]
