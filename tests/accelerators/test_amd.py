"""AMD GPUs: what is read of them through amdsmi, and a machine without the module or a driver."""

import sys
from typing import Any

import pytest

from regress_gate.accelerators.amd import AmdSmiWatcher, amd_smi, find_gpus
from regress_gate.accelerators.interface import Accelerators, DeviceSample
from regress_gate.accelerators.registry import find_accelerators, visible_devices, watch_devices
from tests.accelerators.fake_amdsmi import FakeAmdGpu, FakeAmdSmi, violations


@pytest.fixture(autouse=True)
def no_nvidia(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    monkeypatch.setenv("PATH", "")


def read(*gpus: FakeAmdGpu) -> DeviceSample:
    library = FakeAmdSmi(*gpus)
    library.amdsmi_init()
    watcher = AmdSmiWatcher.of(library, range(len(gpus)))
    assert watcher is not None
    return watcher.sample()


def test_the_gpus_of_a_machine_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    library = FakeAmdSmi(FakeAmdGpu(), FakeAmdGpu())
    monkeypatch.setitem(sys.modules, "amdsmi", library)
    assert find_accelerators() == Accelerators(
        "AMD Instinct MI300X",
        2,
        "6.12.12",
        memory_bytes=196_592 * 2**20,
        max_clock_mhz=2100,
        power_limit_watts=750,
    )
    assert library.open == 0


@pytest.mark.parametrize("library", [None, FakeAmdSmi(), FakeAmdSmi(FakeAmdGpu(), driver=False)])
def test_without_module_driver_or_gpu_none_is_found(
    monkeypatch: pytest.MonkeyPatch, library: FakeAmdSmi | None
) -> None:
    monkeypatch.setitem(sys.modules, "amdsmi", library)
    assert find_gpus() is None
    assert visible_devices({}) == ()
    with watch_devices([0]) as watcher:
        assert watcher is None


@pytest.mark.parametrize("name", [None, "N/A"])
def test_a_gpu_without_a_name_is_not_reported(monkeypatch: pytest.MonkeyPatch, name: str | None) -> None:
    monkeypatch.setitem(sys.modules, "amdsmi", FakeAmdSmi(FakeAmdGpu(name=name)))
    assert find_gpus() is None


@pytest.mark.parametrize(
    ("environment", "visible"),
    [
        ({}, (0, 1, 2)),
        ({"HIP_VISIBLE_DEVICES": "2,1"}, (2, 1)),
        ({"CUDA_VISIBLE_DEVICES": "1"}, (1,)),
        ({"HIP_VISIBLE_DEVICES": "0", "CUDA_VISIBLE_DEVICES": "1"}, (0,)),
        ({"HIP_VISIBLE_DEVICES": "0, 9"}, (0,)),
        ({"HIP_VISIBLE_DEVICES": ""}, ()),
        ({"HIP_VISIBLE_DEVICES": "GPU-8932f937"}, (0, 1, 2)),
    ],
)
def test_a_server_uses_what_its_environment_leaves_it(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], visible: tuple[int, ...]
) -> None:
    monkeypatch.setitem(sys.modules, "amdsmi", FakeAmdSmi(FakeAmdGpu(), FakeAmdGpu(), FakeAmdGpu()))
    assert visible_devices(environment) == visible
    assert visible_devices(environment, first=1) == visible[:1]


@pytest.mark.parametrize("reason", ["socket_thrm", "prochot_thrm", "vr_thrm", "hbm_thrm"])
def test_heat_and_protections_throttle(reason: str) -> None:
    assert read(FakeAmdGpu(), FakeAmdGpu(violations=violations(**{reason: True}))).throttled is True


def test_the_power_limit_of_a_full_load_does_not_count_as_throttling() -> None:
    assert read(FakeAmdGpu(violations=violations(ppt_pwr=True))).throttled is False


def test_a_sample_is_of_all_gpus_together() -> None:
    hot = FakeAmdGpu(clock={"clk": 1900}, celsius=90, power={"average_socket_power": 720}, processes=[{"pid": 7}])
    sample = read(FakeAmdGpu(processes=[{"pid": 1}]), hot)
    assert (sample.clock_mhz, sample.power_watts, sample.temperature_celsius) == (2000.0, 700.0, 90.0)
    assert sample.processes == {1, 7}


@pytest.mark.parametrize(
    "unknown",
    [
        {"violations": None, "clock": None, "power": None, "celsius": None, "processes": None},
        {
            "violations": {"active_socket_thrm": "N/A"},
            "clock": {"clk": "N/A"},
            "power": {"current_socket_power": "N/A"},
            "celsius": "N/A",
            "processes": [object()],
        },
    ],
)
def test_what_one_gpu_does_not_report_is_unknown_for_all(unknown: dict[str, Any]) -> None:
    sample = read(FakeAmdGpu(), FakeAmdGpu(**unknown))
    assert (sample.throttled, sample.clock_mhz, sample.power_watts, sample.temperature_celsius) == (None,) * 4
    assert sample.processes is None


def test_a_gpu_that_is_not_there_is_not_watched() -> None:
    library = FakeAmdSmi(FakeAmdGpu())
    library.amdsmi_init()
    assert AmdSmiWatcher.of(library, [0])
    assert AmdSmiWatcher.of(library, [0, 7]) is None
    assert AmdSmiWatcher.of(library, []) is None


def test_the_library_is_closed_after_watching(monkeypatch: pytest.MonkeyPatch) -> None:
    library = FakeAmdSmi(FakeAmdGpu())
    monkeypatch.setitem(sys.modules, "amdsmi", library)
    with watch_devices([0]) as watcher:
        assert watcher is not None
        assert watcher.sample().temperature_celsius == 61.0
    assert library.open == 0
    with amd_smi() as opened:
        assert opened is library
