"""What is reported as what: steps, ramps, changes of the spread, and what is nothing of these."""

import numpy as np
import pytest

from regress_gate.model.samples import Floats
from regress_gate.stats.changepoints import ChangePoint, detect
from tests.stats.simulation import simulated


def noise(seed: int, length: int, cv: float = 0.02) -> Floats:
    return np.random.default_rng(seed).normal(0.0, cv, length)


def of_kind(points: list[ChangePoint], *kinds: str) -> list[ChangePoint]:
    return [point for point in points if point.kind in kinds]


def test_a_step_is_reported_with_its_first_point_its_relative_size_and_intervals() -> None:
    logs = noise(1, 100)
    logs[60:] += np.log(1.10)
    (point,) = detect(50.0 * np.exp(logs))
    assert (point.kind, point.relative) == ("step", True)
    assert abs(point.index - 60) <= 1
    assert point.interval[0] <= point.index <= point.interval[1]
    assert point.change_interval is not None
    assert point.change is not None
    assert point.change_interval[0] < 0.10 < point.change_interval[1]
    assert point.change == pytest.approx(0.10, abs=0.02)
    assert point.probability > 0.99


def test_values_that_are_not_all_positive_change_by_a_difference() -> None:
    values = noise(2, 80, 1.0)
    values[40:] += 6.0
    (point,) = detect(values)
    assert not point.relative
    assert point.change == pytest.approx(6.0, abs=1.0)


def test_several_steps_are_distinguished() -> None:
    logs = noise(3, 200)
    for at, size in ((50, 0.1), (90, -0.2), (150, 0.1)):
        logs[at:] += size
    assert [point.index for point in detect(np.exp(logs))] == pytest.approx([50, 90, 150], abs=2)


@pytest.mark.parametrize("at", [0, 1, 30, 57, 58, 59])
@pytest.mark.parametrize("height", [0.2, -0.5, 3.0])
def test_a_single_spike_is_never_a_change_wherever_it_stands(at: int, height: float) -> None:
    logs = noise(4, 60, 0.01)
    logs[at] += height
    assert detect(100.0 * np.exp(logs)) == []


def test_a_single_spike_in_a_constant_series_is_no_change() -> None:
    values = np.full(40, 7.0)
    values[20] = 9.0
    assert detect(values) == []


def test_a_walk_from_one_level_to_another_is_one_ramp_between_its_ends() -> None:
    logs = noise(5, 200, 0.01) + 0.2 * np.clip((np.arange(200) - 80) / 30, 0.0, 1.0)
    (point,) = detect(np.exp(logs))
    assert point.kind == "ramp"
    assert point.interval[0] == pytest.approx(80, abs=6)
    assert point.interval[1] == pytest.approx(110, abs=6)
    assert 80 < point.index < 110
    assert point.change == pytest.approx(np.expm1(0.2), abs=0.02)


def test_most_ramps_of_clear_size_are_called_ramps_and_most_steps_steps() -> None:
    rng = np.random.default_rng(6)
    called = {"ramp": 0, "step": 0}
    for width, kind in ((25, "ramp"), (0, "step")):
        for _ in range(40):
            logs = rng.normal(0.0, 0.01, 160) + 0.08 * np.clip((np.arange(160) - 70) / max(width, 0.1), 0.0, 1.0)
            called[kind] += [point.kind for point in detect(np.exp(logs))] == [kind]
    assert called["ramp"] >= 32
    assert called["step"] >= 38


def test_a_step_is_found_although_the_new_level_drifts_back_later() -> None:
    rng, found = np.random.default_rng(11), 0
    for _ in range(30):
        logs = rng.normal(0.0, 0.01, 220)
        logs[60:] += 0.06 * np.clip((140 - np.arange(60, 220)) / 80, 0.0, 1.0)
        found += any(abs(point.index - 60) <= 5 for point in detect(np.exp(logs)))
    assert found >= 24


@simulated("histories", quick=8, full=30)
def test_a_drop_before_a_long_climb_is_a_step_at_its_place(histories: int) -> None:
    rng, found = np.random.default_rng(13), 0
    for _ in range(histories):
        logs = rng.normal(0.0, 0.01, 300)
        logs[30:] += -0.05 + 0.1 * np.clip(np.arange(270) / 120, 0.0, 1.0)
        found += any(abs(point.index - 30) <= 3 and point.kind == "step" for point in detect(np.exp(logs)))
    assert found >= 0.9 * histories


def test_an_excursion_of_a_dozen_points_has_a_begin_and_an_end() -> None:
    logs = noise(12, 150, 0.01)
    logs[70:82] += 0.05
    begin, end = detect(np.exp(logs))
    assert (begin.index, end.index) == pytest.approx((70, 82), abs=1)
    assert begin.change is not None
    assert end.change is not None
    assert begin.change > 0.0 > end.change


def test_slow_drift_is_mostly_no_step() -> None:
    rng = np.random.default_rng(7)
    alarms = 0
    for _ in range(60):
        phase, cycles = rng.random(), rng.uniform(0.5, 1.5)
        drift = 0.75 * np.sin(2 * np.pi * (np.arange(200) / 200 * cycles + phase))
        alarms += bool(detect(np.exp(0.02 * (rng.normal(size=200) + drift))))
    assert alarms <= 10  # 3 to 6 % are expected; above 10 of 60 has a chance of 0.1 % at 6 %


@simulated("histories", quick=4, full=16)
def test_a_drift_that_is_looked_at_anew_at_each_point_is_mostly_no_step(histories: int) -> None:
    rng, alarms = np.random.default_rng(14), 0
    for _ in range(histories):
        phase, cycles = rng.random(), rng.uniform(0.5, 1.5)
        drift = 0.75 * np.sin(2 * np.pi * (np.arange(150) / 150 * cycles + phase))
        series = np.exp(0.02 * (rng.normal(size=150) + drift))
        alarms += any(detect(series[:length]) for length in range(20, 151))
    assert alarms <= histories / 4


def test_a_larger_spread_is_a_change_of_variance_and_hardly_ever_a_step() -> None:
    rng, told, steps = np.random.default_rng(8), 0, 0
    for _ in range(30):
        logs = rng.normal(0.0, 0.01, 200)
        logs[100:] *= 3.0
        points = detect(np.exp(logs))
        steps += bool(of_kind(points, "step", "ramp"))
        told += any(abs(point.index - 100) <= 15 and point.change is None for point in of_kind(points, "variance"))
    assert steps <= 2  # 1 % are expected; above 2 of 30 has a chance of 0.3 %
    assert told >= 25


def test_small_changes_are_left_out_on_request_and_only_they() -> None:
    logs = noise(9, 120, 0.005)
    logs[40:] += np.log(1.03)
    logs[80:] += np.log(1.20)
    assert len(detect(np.exp(logs))) == 2
    (large,) = detect(np.exp(logs), min_change=0.05)
    assert abs(large.index - 80) <= 1
