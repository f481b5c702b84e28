"""Planned moments on a real event loop; how late they may be is for benchmarks/trace_replay.py."""

import asyncio
import time

import pytest

from regress_gate.bench.load import sending
from regress_gate.bench.load.sending import PreciseTimer


def refuse() -> None:
    raise OSError(1, "the kernel gives no timer")


@pytest.fixture(params=["by the kernel", "by asyncio"])
def either_timer(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "by asyncio":
        monkeypatch.setattr(sending, "_KernelTimer", refuse)


@pytest.mark.usefixtures("either_timer")
def test_every_time_is_rung_once_in_order_and_not_before_it_is_due() -> None:
    async def ring() -> list[tuple[float, float]]:
        start = time.monotonic()
        # Two at once, one that has passed already, and one during which the loop is busy.
        times = [start - 1.0, start + 0.01, start + 0.01, start + 0.02, start + 0.03]
        rung: list[tuple[float, float]] = []
        done = asyncio.Event()

        def note(due: float) -> None:
            rung.append((due, time.monotonic()))
            if len(rung) == 3:
                time.sleep(0.05)
            if len(rung) == len(times):
                done.set()

        with PreciseTimer(times, note):
            await asyncio.wait_for(done.wait(), 60)
        assert [due for due, _ in rung] == times
        return rung

    for due, at in asyncio.run(ring()):
        assert at >= due - 1e-6


@pytest.mark.usefixtures("either_timer")
def test_nothing_is_rung_after_the_end() -> None:
    async def leave() -> list[float]:
        rung: list[float] = []
        with PreciseTimer([time.monotonic() + 0.01], rung.append):
            pass
        await asyncio.sleep(0.05)
        return rung

    assert asyncio.run(leave()) == []
