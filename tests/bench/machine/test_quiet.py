"""Waiting until other processes leave the machine idle, up to a time limit."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest

from regress_gate.bench.machine import conditions as module
from regress_gate.bench.machine.conditions import CpuReading, wait_until_quiet
from tests.bench.machine.neighbour import neighbour


@pytest.fixture
def burner() -> Iterator[psutil.Process]:
    yield from neighbour("while True: pass")


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Cores that others keep busy in each coming half second, then none; no real time passes."""
    loads: list[float] = []

    class Scripted:
        def __init__(self, _: object) -> None:
            self.at = self.busy = 0.0

        def read(self) -> CpuReading:
            reading = CpuReading(self.at, self.busy, 0.0, None)
            self.at += 0.5
            self.busy += 0.5 * (loads.pop(0) if loads else 0.0)
            return reading

    monkeypatch.setattr(module, "CpuMeter", Scripted)
    monkeypatch.setattr(module.time, "sleep", lambda _: None)
    return loads


def test_an_idle_machine_takes_one_window(load: list[float]) -> None:
    seen = wait_until_quiet(0.1, within=60)
    assert (seen.quiet, seen.outside_cpu_cores, seen.waited) == (True, 0.0, 3.0)
    assert load == []


def test_waiting_reports_the_load_of_other_processes(load: list[float]) -> None:
    load += [1.0] * 20
    told: list[tuple[float, float]] = []
    seen = wait_until_quiet(0.1, 60, lambda cores, waited: told.append((cores, waited)))
    assert seen.quiet
    assert seen.waited == 13.0
    assert told[0] == (1.0, 0.5)
    assert [waited for _, waited in told] == [0.5 * n for n in range(1, 26)]


def test_a_short_pause_is_not_quiet(load: list[float]) -> None:
    load += ([1.0] * 4 + [0.0] * 4) * 3
    assert wait_until_quiet(0.1, 60).waited > 12.0


def test_the_result_after_the_time_limit_has_the_remaining_load(load: list[float]) -> None:
    load += [0.5] * 100
    seen = wait_until_quiet(0.1, within=10)
    assert (seen.quiet, seen.outside_cpu_cores, seen.waited) == (False, 0.5, 10.0)


def test_a_time_limit_of_zero_still_takes_one_window(load: list[float]) -> None:
    load += [0.5] * 100
    seen = wait_until_quiet(1.0, within=0)
    assert (seen.quiet, seen.waited) == (True, 3.0)


def test_a_real_process_counts_and_a_server_of_the_tool_does_not(burner: psutil.Process) -> None:
    with ThreadPoolExecutor() as side_by_side:
        before = burner.cpu_times()
        neighbour = side_by_side.submit(wait_until_quiet, 0.0, 0, over=2.0)
        ours = side_by_side.submit(wait_until_quiet, 100.0, 0, find_server_processes=lambda: [burner], over=2.0)
        waited = neighbour.result().waited
        after = burner.cpu_times()
    burnt = (after.user + after.system - before.user - before.system) / waited
    assert (neighbour.result().quiet, ours.result().quiet) == (False, True)
    # Everything else that the machine did is in both.
    assert neighbour.result().outside_cpu_cores - ours.result().outside_cpu_cores == pytest.approx(burnt, abs=0.2)
