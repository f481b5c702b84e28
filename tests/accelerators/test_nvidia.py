"""NVIDIA GPUs: which of them a server may use, by CUDA's rules; what is read of them; a machine without them."""

import sys
from dataclasses import replace

import pytest

from regress_gate.accelerators.interface import DeviceSample
from regress_gate.accelerators.nvidia import Nvidia, NvmlWatcher, nvml, visible_gpus
from regress_gate.accelerators.registry import accelerator_matches
from regress_gate.model.testbed import Testbed, compare_testbeds
from tests.accelerators.fake_nvml import FakeGpu, FakeNvml

FOUR = [FakeGpu(uuid=f"GPU-{digit}932f937-d72c-4106-c12f-20bd9faed9f6") for digit in "aab3"]


@pytest.mark.parametrize(
    ("asked", "visible"),
    [
        (None, (0, 1, 2, 3)),
        ("2,1", (2, 1)),
        ("0,2,-1,1", (0, 2)),
        ("0, 9, 1", (0,)),
        ("", ()),
        ("NoDevFiles", ()),
        ("1,1", (1,)),
        ("GPU-b932f937-d72c-4106-c12f-20bd9faed9f6,GPU-3", (2, 3)),
        ("GPU-a,1", ()),  # two begin like this
        ("MIG-of-the-second", (1,)),
        ("MIG-of-nobody", ()),
    ],
)
def test_a_server_sees_what_its_environment_leaves_it(
    monkeypatch: pytest.MonkeyPatch, asked: str | None, visible: tuple[int, ...]
) -> None:
    library = FakeNvml(*FOUR)
    monkeypatch.setitem(sys.modules, "pynvml", library)
    assert visible_gpus({} if asked is None else {"CUDA_VISIBLE_DEVICES": asked}) == visible
    assert library.open == 0


def test_a_number_among_unlike_gpus_means_something_only_in_the_order_of_the_bus(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(FakeGpu(), FakeGpu(name="NVIDIA L4", uuid="GPU-4")))
    assert visible_gpus({"CUDA_VISIBLE_DEVICES": "1"}) == (0, 1)
    assert visible_gpus({"CUDA_VISIBLE_DEVICES": "1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}) == (1,)
    assert visible_gpus({"CUDA_VISIBLE_DEVICES": "GPU-4"}) == (1,)


@pytest.mark.parametrize("module", [None, FakeNvml(FakeGpu(), driver=False)])
def test_without_the_module_or_a_driver_there_are_none(
    monkeypatch: pytest.MonkeyPatch, module: FakeNvml | None
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", module)
    with nvml() as library:
        assert library is None
    assert visible_gpus({}) == ()
    assert module is None or module.open == 0


def read(*gpus: FakeGpu) -> DeviceSample:
    library = FakeNvml(*gpus)
    library.nvmlInit()
    watcher = NvmlWatcher.of(library, range(len(gpus)))
    assert watcher is not None
    return watcher.sample()


@pytest.mark.parametrize(
    ("reasons", "harmful"),
    [
        (0x000, False),  # none
        (0x001, False),  # idle
        (0x002, False),  # clocks set by an administrator
        (0x004, False),  # the power cap of a GPU under full load
        (0x008, True),  # hardware slowdown
        (0x010, False),  # clocks of a group
        (0x020, True),  # heat, by software
        (0x040, True),  # heat, by hardware
        (0x080, True),  # the power supply's brake
        (0x100, False),  # a display
        (0x004 | 0x048, True),
    ],
)
def test_only_some_reasons_for_a_lower_clock_are_harmful(reasons: int, harmful: bool) -> None:
    assert read(FakeGpu(reasons=reasons)).throttled is harmful
    assert read(FakeGpu(), FakeGpu(reasons=reasons)).throttled is harmful


def test_a_sample_is_of_all_gpus_together() -> None:
    sample = read(FakeGpu(clock=1980, celsius=61, pids=[1]), FakeGpu(clock=1755, celsius=70, milliwatts=700_000))
    assert (sample.clock_mhz, sample.power_watts, sample.temperature_celsius) == (1867.5, 606.0, 70.0)
    assert sample.processes == {1}


def test_what_one_gpu_does_not_report_is_unknown_for_all() -> None:
    sample = read(FakeGpu(), FakeGpu(reasons=None, clock=None, milliwatts=None, celsius=None, pids=None))
    values = (sample.throttled, sample.clock_mhz, sample.power_watts, sample.temperature_celsius, sample.processes)
    assert values == (None,) * 5


def test_a_gpu_that_is_not_there_is_not_watched() -> None:
    library = FakeNvml(FakeGpu())
    library.nvmlInit()
    assert NvmlWatcher.of(library, [0])
    assert NvmlWatcher.of(library, [0, 7]) is None
    assert NvmlWatcher.of(library, []) is None


def test_slices_of_a_gpu_are_less_than_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    slices = [FakeGpu(name="NVIDIA H200 MIG 1g.18gb", memory=16 * 2**30, clock=None, limit=None) for _ in range(7)]
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(FakeGpu(slices=slices)))
    found = Nvidia().find()
    assert found is not None
    assert (found.name, found.count, found.memory_bytes) == ("NVIDIA H200 MIG 1g.18gb", 7, 16 * 2**30)
    assert (found.max_clock_mhz, found.power_limit_watts) == (1980, 700)
    whole = Testbed("a", "NVIDIA H200", 1, cpu="x", cpu_count=8, memory_bytes=2**37)
    cut = replace(whole, name="b", accelerator=found.name, accelerator_count=found.count)
    assert not compare_testbeds(whole, cut).comparable
    assert accelerator_matches("H200", found.name)
