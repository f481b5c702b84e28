"""Error rates on simulated histories, with fixed seeds; the bounds leave room for chance (binomial, 1 in 1,000)."""

import numpy as np
import pytest

from regress_gate.model.samples import Floats
from regress_gate.stats.changepoints import detect
from tests.stats.simulation import simulated


def independent(rng: np.random.Generator, length: int) -> Floats:
    return rng.normal(size=length)


def heavy_tailed(rng: np.random.Generator, length: int) -> Floats:
    return rng.standard_t(3, length) / np.sqrt(3.0)


def spiky(rng: np.random.Generator, length: int) -> Floats:
    return np.where(rng.random(length) < 0.02, rng.uniform(5.0, 20.0, length), rng.normal(size=length))


def remembering(rng: np.random.Generator, length: int) -> Floats:
    made = rng.normal(size=length)
    for i in range(1, length):
        made[i] = 0.5 * made[i - 1] + np.sqrt(0.75) * made[i]
    return made


NOISES = (independent, heavy_tailed, spiky, remembering)


@pytest.mark.parametrize("noise", NOISES)
def test_histories_without_a_change_raise_few_alarms(noise) -> None:  # type: ignore[no-untyped-def]
    rng, alarms, points = np.random.default_rng(21), 0, 0
    for length in (60, 200, 400) * 30:
        alarms += len(detect(100.0 * np.exp(0.02 * noise(rng, length))))
        points += length
    assert 1000 * alarms / points <= 0.4


@pytest.mark.parametrize("noise", [independent, heavy_tailed, spiky])
def test_a_step_of_three_noises_is_nearly_always_found_at_its_place(noise) -> None:  # type: ignore[no-untyped-def]
    rng, found, wrong = np.random.default_rng(22), 0, 0
    for _ in range(60):
        at, logs = int(rng.integers(15, 65)), noise(rng, 80)
        logs[at:] += 3.0 * rng.choice([-1.0, 1.0])
        near = [abs(point.index - at) <= 5 for point in detect(np.exp(0.02 * logs)) if point.kind != "variance"]
        found, wrong = found + any(near), wrong + near.count(False)
    assert found >= 56
    assert wrong <= 4


def test_reported_probability_is_how_often_a_change_is_there() -> None:
    rng, rows = np.random.default_rng(23), []
    for _ in range(400):
        logs, at = rng.normal(size=100), int(rng.integers(20, 80))
        logs[at:] += rng.choice([0.0, 0.7, 1.0, 1.5, 2.5], p=[0.3, 0.2, 0.2, 0.2, 0.1])
        changed = abs(float(logs[at:].mean() - logs[:at].mean())) > 0.5
        for point in detect(logs, probability=0.5):
            if point.kind == "step":
                rows.append((point.probability, changed and abs(point.index - at) <= 5))
    told, true = np.array(rows, dtype=float).T
    for low, high in ((0.5, 0.8), (0.8, 1.0)):
        chosen = (told >= low) & (told < high)
        assert chosen.sum() >= 20
        assert abs(true[chosen].mean() - told[chosen].mean()) <= 0.15 + 2.0 * np.sqrt(0.25 / chosen.sum())


def test_interval_of_the_place_covers_it() -> None:
    rng, covered, seen = np.random.default_rng(24), 0, 0
    for _ in range(150):
        logs = rng.normal(size=100)
        logs[50:] += 2.0
        for point in detect(logs):
            if abs(point.index - 50) <= 15:
                seen += 1
                covered += point.interval[0] <= 50 <= point.interval[1]
    assert seen >= 140
    assert covered / seen >= 0.90


@pytest.mark.parametrize(("height", "most"), [(2.0, 11.0), (3.0, 5.0), (5.0, 2.0)])
def test_a_new_level_is_reported_after_few_points(height: float, most: float) -> None:
    rng, delays = np.random.default_rng(25), []
    for _ in range(15):
        logs = rng.normal(size=90)
        logs[60:] += height
        series = 100.0 * np.exp(0.01 * logs)
        told = (k for k in range(1, 31) if any(abs(p.index - 60) <= 5 for p in detect(series[: 60 + k])))
        delays.append(next(told, 99))
    assert min(delays) >= 2
    assert np.median(delays) <= most


@simulated("rounds", quick=1, full=3)
def test_a_growing_history_without_a_change_stays_quiet(rounds: int) -> None:
    rng, alarms, seen = np.random.default_rng(26), 0, 0
    for noise in NOISES:
        for _ in range(rounds):
            series, old = 100.0 * np.exp(0.02 * noise(rng, 120)), list[int]()
            for length in range(20, 121):
                for point in detect(series[:length]):
                    if all(abs(point.index - other) > 5 for other in old):
                        old.append(point.index)
            alarms, seen = alarms + len(old), seen + 100
    assert 1000 * alarms / seen <= 5.0  # about 1 is expected of 1,200 points
