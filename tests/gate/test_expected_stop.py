"""After which block a plan will probably stop: sooner for quiet series, never before what is stored."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from regress_gate.gate.early_stopping import ExpectedStop, expect_stop
from regress_gate.model.metric import Direction, Scale
from regress_gate.stats.design import POWER, ExpectedSeries, InterimStage, nominal_level
from regress_gate.stats.estimate import SeriesData, estimate, margin_as_loss

QUIET = ExpectedSeries(Direction.LOWER, Scale.RATIO, margin=0.05, run_sd=0.01)
LOUD = replace(QUIET, run_sd=0.03)


def ends(*series: ExpectedSeries, have: int = 0, most: int = 8) -> ExpectedStop:
    return expect_stop(series, have=have, most=most, error=0.05 / 10, confidence=0.95)


def test_a_quiet_series_ends_it_soon_and_a_loud_one_late() -> None:
    quiet, loud = ends(QUIET, most=20), ends(LOUD, most=20)
    assert quiet.unchanged is not None
    assert loud.unchanged is not None
    assert 2 < quiet.unchanged < loud.unchanged < 20


def test_the_series_that_takes_longest_says_when() -> None:
    assert ends(QUIET, LOUD, QUIET, most=20) == ends(LOUD, most=20)


def test_what_the_last_block_will_not_show_has_no_end() -> None:
    assert ends(replace(QUIET, run_sd=0.3)) == ExpectedStop(None, None)


def test_what_is_stored_is_not_measured_again() -> None:
    found = ends(QUIET, have=6)
    assert (found.unchanged, found.lost) == (7, 7)


def test_a_plan_that_is_one_block_too_short_has_no_end() -> None:
    last = ends(QUIET, most=20).unchanged
    assert last is not None
    for most in range(2, last + 1):
        end = ends(QUIET, most=most).unchanged
        assert end is None or end <= most
    assert ends(QUIET, have=8, most=8) == ExpectedStop(None, None)


@pytest.mark.parametrize("most", [0, 1])
def test_a_plan_without_a_look_has_no_end(most: int) -> None:
    assert ends(QUIET, most=most) == ExpectedStop(None, None)


@given(spread=st.floats(0.002, 0.2), louder=st.floats(1.0, 3.0), most=st.integers(2, 12))
def test_more_spread_never_ends_it_sooner(spread: float, louder: float, most: int) -> None:
    quiet, loud = (ends(replace(QUIET, run_sd=each), most=most) for each in (spread, spread * louder))
    assert (quiet.unchanged or 99) <= (loud.unchanged or 99)
    assert (quiet.lost or 99) <= (loud.lost or 99)


def test_by_then_an_unchanged_series_is_mostly_shown_to_be_one() -> None:
    """By the plain interval that the prediction is made from, at the level of that look."""
    most = 12
    at = ends(LOUD, most=most).unchanged
    assert at is not None
    rng = np.random.default_rng(20261121)
    confidence = 1 - 2 * nominal_level(0.025, InterimStage(at, most))
    shown = 0
    for _ in range(400):
        baseline, candidate = np.exp(rng.normal(0, LOUD.run_sd, (2, at)))
        data = SeriesData(baseline, candidate, LOUD.direction, LOUD.scale, LOUD.margin)
        found = estimate(data)
        limits = None if found is None else found.interval(confidence)
        assert limits is not None
        shown += limits[1] < margin_as_loss(data)
    low, high = binomtest(shown, 400).proportion_ci(0.99)
    assert high > POWER
    assert low < POWER + 0.12, "a block earlier would have done"
