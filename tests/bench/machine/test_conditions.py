"""Load of other processes is separated from that of servers and client."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator

import psutil
import pytest

from regress_gate.bench.machine import conditions as module
from regress_gate.bench.machine.conditions import ConditionsWatch, CpuMeter
from regress_gate.model.run import Conditions
from tests.accelerators.fake_amdsmi import FakeAmdGpu, FakeAmdSmi, violations
from tests.accelerators.fake_nvml import FakeGpu, FakeNvml
from tests.bench.machine.neighbour import neighbour

BURN = "while True: pass"
SLEEP = "import time; time.sleep(600)"


@pytest.fixture
def burner() -> Iterator[psutil.Process]:
    yield from neighbour(BURN)


@pytest.fixture
def sleeper() -> Iterator[psutil.Process]:
    yield from neighbour(SLEEP)


def test_another_process_counts_as_outside_load_and_servers_do_not(
    burner: psutil.Process, sleeper: psutil.Process
) -> None:
    with (
        ConditionsWatch(lambda: [sleeper], gpus=(), interval=0.1) as with_neighbour,
        ConditionsWatch(lambda: [sleeper, burner], gpus=(), interval=0.1) as with_two_servers,
    ):
        begin = time.monotonic()
        used = spent = _cpu_seconds(burner)
        while spent - used < 1.0:
            time.sleep(0.1)
            spent = _cpu_seconds(burner)
        seconds = time.monotonic() - begin
    neighbour, servers = (
        with_neighbour.between(begin, begin + seconds),
        with_two_servers.between(begin, begin + seconds),
    )
    assert neighbour.outside_cpu_cores is not None
    assert servers.outside_cpu_cores is not None
    # Everything else that the machine did is in both.
    difference = (neighbour.outside_cpu_cores - servers.outside_cpu_cores) * seconds
    assert difference == pytest.approx(spent - used, abs=0.3)


def _cpu_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def test_child_processes_of_the_tool_do_not_count_as_outside_load() -> None:
    meter = CpuMeter(tuple)
    begin = meter.read()
    with subprocess.Popen([sys.executable, "-c", BURN]) as client:
        while psutil.Process(client.pid).cpu_times().user < 0.5:
            time.sleep(0.05)
        end = meter.read()
        client.kill()
    assert end.ours - begin.ours >= 0.5


def test_steal_time_is_at_most_all_cores(sleeper: psutil.Process) -> None:
    with ConditionsWatch(lambda: [sleeper], gpus=(), interval=0.05) as watch:
        time.sleep(0.2)
    steal = watch.conditions().steal_cpu_cores
    assert (steal is None) is not hasattr(psutil.cpu_times(), "steal")
    assert steal is None or 0 <= steal <= (os.cpu_count() or 1)


def test_outside_load_is_unknown_if_no_server_process_is_visible() -> None:
    def gone() -> list[psutil.Process]:
        raise psutil.NoSuchProcess(1)

    with (
        ConditionsWatch(list, gpus=(), interval=0.05) as hidden,
        ConditionsWatch(gone, gpus=(), interval=0.05) as ended,
    ):
        time.sleep(0.2)
    for watch in (hidden, ended):
        assert watch.conditions().outside_cpu_cores is None
        assert watch.conditions().steal_cpu_cores is not None or not hasattr(psutil.cpu_times(), "steal")


def test_a_window_outside_of_the_watch_is_empty(sleeper: psutil.Process) -> None:
    with ConditionsWatch(lambda: [sleeper], gpus=(), interval=0.05) as watch:
        time.sleep(0.1)
    assert watch.between(0.0, 1.0) == Conditions()


class TestGpus:
    @pytest.fixture(autouse=True)
    def _on_the_host(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "sees_all_processes", lambda: True)

    def test_a_throttled_and_shared_gpu_is_recorded(
        self, monkeypatch: pytest.MonkeyPatch, sleeper: psutil.Process
    ) -> None:
        gpu = FakeGpu(reasons=0x44, clock=1200, celsius=91, pids=[sleeper.pid, 1])
        library = FakeNvml(FakeGpu(pids=[7, 8, 9]), gpu)
        monkeypatch.setitem(sys.modules, "pynvml", library)
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
        with ConditionsWatch(lambda: [sleeper], interval=0.05) as watch:
            time.sleep(0.2)
        seen = watch.conditions()
        assert (seen.gpu_throttled, seen.gpu_clock_mhz, seen.gpu_power_watts) == (1.0, 1200.0, 512.0)
        assert (seen.gpu_temperature_celsius, seen.gpu_other_processes) == (91.0, 1.0)
        assert seen.outside_cpu_cores is not None
        assert library.open == 0

    def test_all_our_servers_may_be_on_the_gpu(
        self, monkeypatch: pytest.MonkeyPatch, sleeper: psutil.Process, burner: psutil.Process
    ) -> None:
        monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(FakeGpu(pids=[sleeper.pid, burner.pid])))
        with ConditionsWatch(lambda: [sleeper, burner], gpus=[0], interval=0.05) as watch:
            pass
        assert watch.conditions().gpu_other_processes == 0.0

    def test_a_window_holds_only_its_own_samples(
        self, monkeypatch: pytest.MonkeyPatch, sleeper: psutil.Process
    ) -> None:
        gpu = FakeGpu(reasons=0x40, pids=[sleeper.pid])
        monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(gpu))
        with ConditionsWatch(lambda: [sleeper], gpus=[0], interval=600.0) as watch:
            gpu.reasons = 0
            begin = time.monotonic()
        assert watch.conditions().gpu_throttled == 0.5
        assert watch.between(begin, time.monotonic()).gpu_throttled == 0.0

    @pytest.mark.parametrize("gpus", [(), [5]])
    def test_gpu_conditions_are_unknown_without_watched_gpus(
        self, monkeypatch: pytest.MonkeyPatch, sleeper: psutil.Process, gpus: list[int]
    ) -> None:
        monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(FakeGpu(pids=[sleeper.pid])))
        with ConditionsWatch(lambda: [sleeper], gpus=gpus, interval=0.05) as watch:
            time.sleep(0.1)
        seen = watch.conditions()
        assert (seen.gpu_throttled, seen.gpu_clock_mhz, seen.gpu_other_processes) == (None, None, None)
        assert seen.outside_cpu_cores is not None

    def test_amd_gpus_are_watched(self, monkeypatch: pytest.MonkeyPatch, sleeper: psutil.Process) -> None:
        gpu = FakeAmdGpu(violations=violations(hbm_thrm=True), celsius=93, processes=[{"pid": sleeper.pid}, {"pid": 1}])
        library = FakeAmdSmi(FakeAmdGpu(processes=[{"pid": 7}]), gpu)
        monkeypatch.setitem(sys.modules, "pynvml", None)
        monkeypatch.setitem(sys.modules, "amdsmi", library)
        monkeypatch.setenv("HIP_VISIBLE_DEVICES", "1")
        with ConditionsWatch(lambda: [sleeper], interval=0.05) as watch:
            time.sleep(0.1)
        seen = watch.conditions()
        assert (seen.gpu_throttled, seen.gpu_clock_mhz, seen.gpu_power_watts) == (1.0, 2100.0, 680.0)
        assert (seen.gpu_temperature_celsius, seen.gpu_other_processes) == (93.0, 1.0)
        assert library.open == 0
