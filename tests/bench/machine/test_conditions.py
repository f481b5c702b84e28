"""What others did to the machine is told apart from what the server did."""

import subprocess
import sys
import time
from collections.abc import Iterator

import psutil
import pytest

from regress_gate.bench.machine.conditions import ConditionsWatch, MachineConditions
from regress_gate.model.run import Conditions

BURN = "while True: pass"
SLEEP = "import time; time.sleep(600)"


@pytest.fixture
def burner() -> Iterator[psutil.Process]:
    yield from _running(BURN)


@pytest.fixture
def sleeper() -> Iterator[psutil.Process]:
    yield from _running(SLEEP)


def _running(code: str) -> Iterator[psutil.Process]:
    process = subprocess.Popen([sys.executable, "-c", code])
    yield psutil.Process(process.pid)
    process.kill()
    process.wait()


def test_a_neighbour_counts_as_outside_and_the_server_does_not(burner: psutil.Process, sleeper: psutil.Process) -> None:
    with (
        ConditionsWatch(lambda: [sleeper], interval=0.1) as with_neighbour,
        ConditionsWatch(lambda: [burner], interval=0.1) as with_server,
    ):
        begin = time.monotonic()
        used = burner.cpu_times()
        time.sleep(2.0)
        spent = burner.cpu_times()
        end = time.monotonic()
        burnt = (spent.user + spent.system - used.user - used.system) / (end - begin)
    neighbour, server = with_neighbour.between(begin, end), with_server.between(begin, end)
    assert neighbour.outside_cpu_cores is not None
    assert server.outside_cpu_cores is not None
    assert burnt > 0.1
    # Everything else that the machine did is in both.
    assert neighbour.outside_cpu_cores - server.outside_cpu_cores == pytest.approx(burnt, abs=0.15)
    assert neighbour.seconds == pytest.approx(2.0, abs=0.5)


def test_what_a_server_used_before_the_watch_is_not_subtracted(burner: psutil.Process) -> None:
    time.sleep(1.0)
    burner.suspend()
    with ConditionsWatch(lambda: [burner], interval=0.1) as watch:
        time.sleep(0.3)
    assert watch._samples[-1].ours < 0.5


def test_a_server_that_cannot_be_seen_makes_the_load_of_others_unknown() -> None:
    with ConditionsWatch(list, interval=0.05) as watch:
        time.sleep(0.2)
    assert watch.conditions().outside_cpu_cores is None
    assert watch.conditions().seconds > 0.1


def test_a_window_outside_of_the_watch_is_empty(sleeper: psutil.Process) -> None:
    with ConditionsWatch(lambda: [sleeper], interval=0.05) as watch:
        time.sleep(0.1)
    assert watch.between(0.0, 1.0) == MachineConditions(None, None, 0.0)


def test_a_process_that_is_gone_keeps_what_it_used(burner: psutil.Process) -> None:
    with ConditionsWatch(lambda: [burner], interval=0.05) as watch:
        time.sleep(0.5)
        before = watch._samples[-1].ours
        burner.kill()
        time.sleep(0.2)
    assert watch._samples[-1].ours >= before > 0


def test_the_store_gets_what_the_suite_limits() -> None:
    assert MachineConditions(0.25, 0.0, 9.0).as_conditions() == Conditions(outside_cpu_cores=0.25)
