"""What must hold for every series: scale, sign, gaps, ties, extreme values, and the border of what is accepted."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regress_gate.errors import InputError
from regress_gate.model.samples import Floats
from regress_gate.stats.changepoints import detect

finite = st.floats(-1e15, 1e15, allow_nan=False) | st.sampled_from([0.0, 1.0, -1.0, 5e-324, 1e-300, 1e300])
anything = st.lists(finite | st.just(float("nan")), max_size=120)


def stepped(seed: int, at: int = 50, size: float = 0.1, length: int = 100) -> Floats:
    logs = np.random.default_rng(seed).normal(0.0, 0.02, length)
    logs[at:] += size
    return np.exp(logs)


@settings(deadline=None)
@given(anything)
def test_any_series_gets_a_well_formed_answer_and_always_the_same(values: list[float]) -> None:
    series = np.array(values, dtype=float)
    points = detect(series)
    assert points == detect(series.copy())
    for point in points:
        assert 0 < point.index < len(series)
        assert 0 < point.interval[0] <= point.index <= point.interval[1] < len(series)
        assert 0.0 < point.probability <= 1.0
        assert np.isfinite(series[point.index])
        assert (point.change is None) == (point.kind == "variance")


@settings(deadline=None)
@given(st.integers(0, 10_000), st.lists(st.floats(-0.2, 0.2), min_size=2, max_size=8), st.integers(60, 300))
def test_any_chain_of_ramps_gets_changes_that_follow_one_another(seed: int, levels: list[float], length: int) -> None:
    line = np.interp(np.arange(length), np.linspace(0, length - 1, len(levels)), levels)
    points = detect(np.exp(line + np.random.default_rng(seed).normal(0.0, 0.01, length)))
    ramps = [point.interval for point in points if point.kind == "ramp"]
    assert all(begin < end for begin, end in ramps)
    assert all(here[1] <= after[0] for here, after in pairwise(ramps))


@settings(deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([1e-12, 1e-3, 0.1, 7.0, 1e6, 1e15]))
def test_the_unit_does_not_matter(seed: int, factor: float) -> None:
    values = stepped(seed)
    here, there = detect(values), detect(values * factor)
    assert [p.index for p in here] == [p.index for p in there]
    assert [p.change for p in here] == pytest.approx([p.change for p in there], rel=1e-6, abs=1e-9)


@settings(deadline=None)
@given(st.integers(0, 10_000), st.floats(-50.0, 0.0))
def test_the_zero_does_not_matter_where_values_have_no_ratios(seed: int, shift: float) -> None:
    values = np.random.default_rng(seed).normal(size=100)
    values[50:] += 4.0
    values[0] = -1.0
    here, there = detect(values), detect(values + shift)
    assert [p.index for p in here] == [p.index for p in there]
    assert [p.change for p in here] == pytest.approx([p.change for p in there], rel=1e-6)


@settings(deadline=None)
@given(st.integers(0, 10_000), st.floats(0.05, 0.5))
def test_times_and_rates_tell_the_same(seed: int, size: float) -> None:
    values = stepped(seed, size=size)
    slower, faster = detect(values), detect(1.0 / values)
    assert [p.index for p in slower] == [p.index for p in faster]
    for one, other in zip(slower, faster, strict=True):
        if one.change is not None and other.change is not None:
            assert (1.0 + one.change) * (1.0 + other.change) == pytest.approx(1.0)


@settings(deadline=None)
@given(st.integers(0, 10_000))
def test_a_clear_step_is_found_backwards_too(seed: int) -> None:
    values = stepped(seed, at=40, size=0.2)
    (there,) = [p for p in detect(values) if abs(p.index - 40) <= 3]
    (back,) = [p for p in detect(values[::-1]) if abs(p.index - 60) <= 3]
    assert there.change is not None
    assert back.change is not None
    assert (1.0 + there.change) * (1.0 + back.change) == pytest.approx(1.0, abs=0.03)


def test_missing_values_are_passed_over_and_still_counted() -> None:
    values = stepped(1)
    gaps = np.insert(values, [10, 30, 50, 50, 70], np.nan)
    (whole,), (gappy,) = detect(values), detect(gaps)
    assert np.array_equal(gaps[gappy.index], values[whole.index])
    assert gappy.index == whole.index + 4
    assert replace(gappy, index=0, interval=(0, 0)) == replace(whole, index=0, interval=(0, 0))


@pytest.mark.parametrize("values", [[], [1.0], [1.0] * 3 + [9.0] * 4, [float("nan")] * 30])
def test_fewer_than_eight_points_decide_nothing(values: list[float]) -> None:
    assert detect(np.array(values)) == []


@pytest.mark.parametrize("level", [0.0, 1.0, -3.5, 1e300, 1e-300])
def test_a_constant_series_has_no_change(level: float) -> None:
    assert detect(np.full(50, level)) == []


@pytest.mark.parametrize(("low", "high"), [(344.0, 359.0), (0.0, 1.0), (-1.0, 1.0), (1000.0, 1001.0)])
def test_a_step_between_two_exact_values_is_found_at_its_place(low: float, high: float) -> None:
    (point,) = detect(np.r_[np.full(20, low), np.full(20, high)])
    assert (point.index, point.interval) == (20, (20, 20))


def test_coarsely_rounded_noise_raises_no_alarm_and_hides_no_step() -> None:
    rng = np.random.default_rng(3)
    alarms = sum(len(detect(np.round(rng.normal(100.0, 0.6, 150)))) for _ in range(40))
    assert alarms <= 3
    values = np.round(rng.normal(100.0, 0.6, 150))
    values[70:] += 2.0
    assert [p.index for p in detect(values)] == pytest.approx([70], abs=2)


def test_more_is_reported_at_a_lower_probability() -> None:
    rng = np.random.default_rng(5)
    counts = dict.fromkeys((0.5, 0.6, 0.9, 0.99), 0)
    for _ in range(40):
        values = rng.normal(size=100)
        values[50:] += 1.0
        for asked in counts:
            points = detect(values, probability=asked)
            counts[asked] += len(points)
            assert all(point.probability >= asked - 1e-9 for point in points)
    assert sorted(counts.values(), reverse=True) == list(counts.values())
    assert counts[0.5] > counts[0.99]


def test_a_point_that_its_replicates_show_to_be_noisy_weighs_less() -> None:
    rng = np.random.default_rng(4)
    noisy = rng.random(120) < 0.3
    alone = known = 0
    for _ in range(30):
        values = rng.normal(size=120) * np.where(noisy, 6.0, 1.0)
        values[60:] += 1.5
        alone += any(abs(p.index - 60) <= 5 for p in detect(values))
        known += any(abs(p.index - 60) <= 5 for p in detect(values, variances=np.where(noisy, 36.0, 1.0)))
    assert known >= alone + 3


def test_variances_that_are_alike_or_unknown_change_nothing() -> None:
    values = stepped(6)
    assert detect(values, variances=np.full(100, 4e-4)) == detect(values)
    assert detect(values, variances=np.full(100, np.nan)) == detect(values)


@pytest.mark.parametrize(
    ("values", "variances", "says"),
    [
        (np.ones((4, 4)), None, "one dimension"),
        (np.array([1.0] * 9 + [np.inf]), None, "infinite"),
        (np.ones(10), np.ones(9), "variances"),
    ],
)
def test_what_is_no_series_is_refused(values: Floats, variances: Floats | None, says: str) -> None:
    with pytest.raises(InputError, match=says):
        detect(values, variances=variances)


@pytest.mark.parametrize("probability", [0.0, 1.0, -0.1, float("nan")])
def test_a_probability_is_asked_for_between_zero_and_one(probability: float) -> None:
    with pytest.raises(InputError, match="probability"):
        detect(np.ones(10), probability=probability)
