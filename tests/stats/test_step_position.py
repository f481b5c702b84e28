"""Versions between the ends of a step: put on a side only where their runs show it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regress_gate.stats.linear_models import StepEnds, StepPosition, step_positions


def runs(level, count=5, sd=0.01):
    """Evenly spread around the level, with that standard deviation."""
    shape = np.linspace(-1, 1, count)
    return level + shape / shape.std(ddof=1) * sd


STEP = StepEnds(runs(0.0), runs(0.3))


def sides(*versions, step=STEP, error=0.05, **how):
    return step_positions(step, versions, error=error, least_sd=1e-3, **how)


def test_versions_stand_where_their_runs_show_them():
    assert sides(runs(0.01), runs(0.31), runs(0.15)) == [StepPosition.BEFORE, StepPosition.AFTER, StepPosition.UNKNOWN]


def test_a_step_down_is_a_step_too():
    down = StepEnds(runs(0.3), runs(0.0))
    assert sides(runs(0.31), runs(0.01), step=down) == [StepPosition.BEFORE, StepPosition.AFTER]


def test_a_step_of_the_size_of_the_days_offsets_gives_no_position():
    small = StepEnds(runs(0.0, sd=1e-3), runs(0.02, sd=1e-3))
    assert sides(runs(0.02, sd=1e-3), step=small) == [StepPosition.UNKNOWN]
    assert sides(runs(0.02, sd=1e-3), step=small, between_days=0.0) == [StepPosition.AFTER]


def test_single_runs_show_nothing():
    assert sides(np.array([0.3]), step=StepEnds(np.array([0.0]), np.array([0.3]))) == [StepPosition.UNKNOWN]


def test_a_single_run_borrows_the_spread_of_the_others():
    assert sides(np.array([0.3])) == [StepPosition.AFTER]


levels = st.floats(-1, 1)


@given(st.lists(levels, min_size=1, max_size=4), levels, st.floats(0.01, 1))
def test_the_scale_and_the_zero_do_not_matter(found, shift, size):
    versions = [runs(size * level) for level in found]
    step = StepEnds(runs(0.0), runs(size))
    moved = StepEnds(step.before + shift, step.after + shift)
    assert sides(*versions, step=step) == sides(*(each + shift for each in versions), step=moved)


def simulated(step, histories):
    """Share of histories with a version on the wrong side, and with all on the right one: three versions that stand
    before the step, four runs each that scatter by 2 %, days by 1 %."""
    random, wrong, right = np.random.default_rng(20261121), 0, 0

    def measured(level):
        return level + random.normal(0, 0.01) + random.normal(0, 0.02, 4)

    for _ in range(histories):
        found = sides(*(measured(0.0) for _ in range(3)), step=StepEnds(measured(0.0), measured(step)))
        wrong += StepPosition.AFTER in found
        right += found == [StepPosition.BEFORE] * 3
    return wrong / histories, right / histories


def test_at_most_the_promised_share_is_put_on_the_wrong_side():
    wrong, _ = simulated(0.04, 2000)
    assert wrong <= 0.05 / 2 + 3 * (0.025 * 0.975 / 2000) ** 0.5


def test_the_sides_of_a_large_step_are_reported():
    wrong, right = simulated(0.2, 500)
    assert (wrong, right) == (0.0, pytest.approx(1.0, abs=0.02))
