"""Samples of GPUs as conditions; what is not certain stays unknown."""

import pytest

from regress_gate.accelerators.interface import DeviceSample
from regress_gate.bench.machine.conditions import gpu_conditions, other_processes
from regress_gate.model.run import Conditions

SERVER, NEIGHBOUR, ANOTHER = 4000, 5000, 6000


def seeing(*lists: set[int] | None) -> list[DeviceSample]:
    return [DeviceSample(0.0, None, None, None, None, None if pids is None else frozenset(pids)) for pids in lists]


def test_samples_of_a_window_become_conditions() -> None:
    samples = [
        DeviceSample(0.0, throttled, clock, watts, celsius, None)
        for throttled, clock, watts, celsius in (
            (False, 1980.0, 500.0, 60.0),
            (True, 1500.0, 700.0, 85.0),
            (False, 1980.0, 600.0, 70.0),
        )
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
def test_other_processes_count_only_in_our_process_namespace(
    lists: list[set[int] | None], sees_all: bool, others: float | None
) -> None:
    samples = seeing(*lists)
    assert other_processes(samples, samples, {SERVER, 4001}, sees_all=sees_all) == others


def test_a_server_in_one_sample_validates_all_samples() -> None:
    loading, serving = seeing({NEIGHBOUR}, {SERVER})
    assert other_processes([loading], [loading, serving], {SERVER}, sees_all=True) == 1.0
    assert other_processes([], [loading, serving], {SERVER}, sees_all=True) is None
