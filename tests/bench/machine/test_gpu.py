"""What is told of GPUs, and that it is left unknown rather than wrong."""

import pytest

from regress_gate.bench.machine.conditions import DeviceSample, NvmlDevices, gpu_conditions, other_processes
from regress_gate.model.run import Conditions
from tests.bench.machine.fake_nvml import FakeGpu, FakeNvml

SERVER, NEIGHBOUR, ANOTHER = 4000, 5000, 6000


def look(*gpus: FakeGpu) -> DeviceSample:
    library = FakeNvml(*gpus)
    library.nvmlInit()
    return NvmlDevices(library, range(len(gpus))).sample()


def seeing(*lists: set[int] | None) -> list[DeviceSample]:
    return [DeviceSample(0.0, None, None, None, None, None if pids is None else frozenset(pids)) for pids in lists]


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
    assert look(FakeGpu(reasons=reasons)).slowed is harmful
    assert look(FakeGpu(), FakeGpu(reasons=reasons)).slowed is harmful


def test_a_look_takes_all_gpus_together() -> None:
    sample = look(FakeGpu(clock=1980, celsius=61, pids=[1]), FakeGpu(clock=1755, celsius=70, milliwatts=700_000))
    assert (sample.clock_mhz, sample.power_watts, sample.temperature_celsius) == (1867.5, 606.0, 70.0)
    assert sample.processes == {1}


def test_what_one_gpu_does_not_tell_is_unknown_of_all() -> None:
    sample = look(FakeGpu(), FakeGpu(reasons=None, clock=None, milliwatts=None, celsius=None, pids=None))
    told = (sample.slowed, sample.clock_mhz, sample.power_watts, sample.temperature_celsius, sample.processes)
    assert told == (None,) * 5


def test_samples_of_a_window_become_conditions() -> None:
    samples = [
        look(FakeGpu(reasons=reasons, clock=clock, milliwatts=watts * 1000, celsius=celsius))
        for reasons, clock, watts, celsius in ((0, 1980, 500, 60), (0x20, 1500, 700, 85), (4, 1980, 600, 70))
    ]
    unknown = DeviceSample(0.0, None, None, None, None, None)
    assert gpu_conditions([*samples, unknown], 2.0) == Conditions(
        gpu_throttled=pytest.approx(1 / 3),
        gpu_clock_mhz=1820.0,
        gpu_power_watts=600.0,
        gpu_temperature_celsius=85.0,
        gpu_other_processes=2.0,
    )
    assert gpu_conditions([], None) == gpu_conditions([unknown], None) == Conditions()


@pytest.mark.parametrize(
    ("lists", "sees_all", "others"),
    [
        ([{SERVER}, {SERVER, NEIGHBOUR}, {SERVER, ANOTHER}], True, 1.0),
        ([{SERVER}, {SERVER, NEIGHBOUR, ANOTHER}, None], True, 2.0),
        ([{SERVER}], True, 0.0),
        ([{SERVER}], False, None),  # in a container the others may be hidden
        ([{SERVER, NEIGHBOUR}], False, 1.0),
        ([{NEIGHBOUR}], True, None),  # numbers of another namespace: the neighbour may be our server
        ([set()], True, None),
        ([None], True, None),
        ([], True, None),
    ],
)
def test_others_are_counted_only_where_the_list_is_of_our_namespace(
    lists: list[set[int] | None], sees_all: bool, others: float | None
) -> None:
    samples = seeing(*lists)
    assert other_processes(samples, samples, {SERVER, 4001}, sees_all=sees_all) == others


def test_a_server_seen_at_any_time_speaks_for_all_lists() -> None:
    loading, serving = seeing({NEIGHBOUR}, {SERVER})
    assert other_processes([loading], [loading, serving], {SERVER}, sees_all=True) == 1.0
    assert other_processes([], [loading, serving], {SERVER}, sees_all=True) is None


def test_a_gpu_that_is_not_there_is_not_watched() -> None:
    library = FakeNvml(FakeGpu())
    library.nvmlInit()
    assert NvmlDevices(library, [0])
    assert not NvmlDevices(library, [0, 7])
    assert not NvmlDevices(library, [])
