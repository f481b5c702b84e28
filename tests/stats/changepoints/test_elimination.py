"""What a boundary has to show before it is believed."""

import numpy as np
import pytest

from regress_gate.model.samples import Floats
from regress_gate.stats.changepoints import detect
from regress_gate.stats.changepoints.elimination import BackwardElimination
from regress_gate.stats.changepoints.noise import NoiseModel

SD, HEIGHT = 0.01, 4.0
LEVEL, YOUNG = 50, 10
"""Points before the step, and after it."""


def stepped(after: int) -> Floats:
    """A step of four noises; the first points are the same however many follow."""
    values = np.random.default_rng(3).normal(0.0, SD, 80)
    values[LEVEL:] += HEIGHT * SD
    return values[: LEVEL + after]


def margin(values: Floats, stop: int) -> float:
    return BackwardElimination(values, values, NoiseModel(SD, 0.0)).margin(0, LEVEL, stop)


@pytest.mark.parametrize("young", [5, 10, 20])
def test_a_step_at_the_end_of_the_series_has_to_show_more_the_younger_it_is(young: int) -> None:
    """Three units of the log likelihood at once, none after thirty points. The same points in the middle need none."""
    at_the_end = margin(stepped(young), LEVEL + young)
    in_the_middle = margin(stepped(30), LEVEL + young)
    assert in_the_middle - at_the_end == pytest.approx(3.0 * (1 - young / 30))


@pytest.mark.parametrize("seed", [0, 13, 22])
def test_a_step_of_six_points_that_the_noise_could_have_made_is_reported_once_it_is_older(seed: int) -> None:
    values = np.random.default_rng(seed).normal(0.0, SD, 120)
    values[80:] += 3.0 * SD
    series = np.exp(values)
    assert detect(series[:86]) == []
    (found,) = detect(series)
    assert abs(found.index - 80) <= 1
