"""Moderated variances: compared with a direct computation, and limited by the shared luck of runs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats
from scipy.special import digamma, polygamma

from regress_gate.stats.contrasts import mean_square_correlation, moderate_variances

INDEPENDENT = 1e-9
"""So many like series that the cap on the degrees of freedom never binds."""

variances = st.lists(st.floats(1e-8, 1e2), min_size=3, max_size=12).map(np.array)


def prior_by_hand(values, freedom):
    """Smyth 2004, section 6.2, with the inverse of trigamma found by bisection."""
    logs = np.log(values) - digamma(freedom / 2) + np.log(freedom / 2)
    excess = logs.var(ddof=1) - polygamma(1, freedom / 2)
    low, high = 1e-6, 1e6
    for _ in range(200):
        middle = np.sqrt(low * high)
        low, high = (middle, high) if polygamma(1, middle) > excess else (low, middle)
    return 2 * low, np.exp(logs.mean() + digamma(low) - np.log(low))


def test_posterior_variances_are_those_of_a_direct_computation():
    values, freedom = np.array([0.1, 1.0, 1.2, 1.3, 1.4]), 4.0
    prior_freedom, prior = prior_by_hand(values, freedom)
    found, total = moderate_variances(values, freedom, alike=INDEPENDENT)
    assert total == pytest.approx([prior_freedom + freedom] * 5, rel=1e-6)
    assert found == pytest.approx((prior_freedom * prior + freedom * values) / (prior_freedom + freedom), rel=1e-6)


def test_the_prior_that_variances_were_drawn_from_is_found_again():
    """Then a found variance, divided by the prior's scale, follows an F distribution: scipy's own fit agrees."""
    rng, freedom, prior_freedom, scale = np.random.default_rng(1), 4, 8.0, 0.03
    true = scale * prior_freedom / rng.chisquare(prior_freedom, 4000)
    values = true * rng.chisquare(freedom, 4000) / freedom
    total = moderate_variances(values, freedom, alike=INDEPENDENT)[1].max()
    assert total - freedom == pytest.approx(prior_freedom, rel=0.2)
    _, fitted, _, fitted_scale = scipy_stats.f.fit(values, f0=freedom, floc=0)
    assert total - freedom == pytest.approx(fitted, rel=0.2)
    assert scale == pytest.approx(fitted_scale, rel=0.1)


def test_variances_that_differ_no_more_than_by_chance_become_one():
    found, total = moderate_variances(np.array([1.0, 1.1, 0.9, 1.05]), 3.0, alike=INDEPENDENT)
    assert np.ptp(found) < 0.01
    assert (total > 100).all()


def test_fewer_than_three_borrow_nothing():
    values = np.array([1.0, 1.1])
    found, total = moderate_variances(values, 3.0, alike=0.5)
    assert found.tolist() == values.tolist()
    assert (total == 3.0).all()


def test_series_that_are_one_and_the_same_borrow_nothing():
    values = np.array([1.0, 1.1, 0.9, 1.05])
    found, total = moderate_variances(values, 3.0, alike=1.0)
    assert found.tolist() == values.tolist()
    assert (total == 3.0).all()


def test_no_more_degrees_of_freedom_than_the_mean_of_the_variances_has():
    _, total = moderate_variances(np.array([1.0, 1.1, 0.9, 1.05]), 3.0, alike=0.5)
    assert total == pytest.approx([6.0] * 4)


def test_one_that_is_plainly_noisier_keeps_what_is_its_own():
    values = np.array([1.0, 1.1, 0.9, 1.05, 1.0, 0.95, 30.0])
    found, total = moderate_variances(values, 4.0, alike=INDEPENDENT)
    assert found[-1] == 30.0
    assert total[-1] == 4.0
    assert (total[:-1] > 4.0).all()


def test_one_that_may_be_noisier_borrows_less():
    like_the_others, doubtful = (
        moderate_variances(np.array([1.0, 1.1, 0.9, 1.05, 1.0, 0.95, last]), 4.0, alike=INDEPENDENT)
        for last in (1.0, 3.0)
    )
    assert 4.0 < doubtful[1][-1] < like_the_others[1][-1]
    assert 1.0 < doubtful[0][-1] < 3.0


@given(variances, st.floats(1, 50), st.floats(0.05, 1.0), st.floats(1e-6, 1e6))
def test_the_unit_does_not_matter(values, freedom, alike, factor):
    found, total = moderate_variances(values, freedom, alike=alike)
    scaled, same = moderate_variances(factor * values, freedom, alike=alike)
    assert scaled == pytest.approx(factor * found, rel=1e-5)
    assert same == pytest.approx(total, rel=1e-5)


@given(variances, st.floats(1, 50), st.floats(0.05, 1.0))
def test_what_is_borrowed_keeps_the_order(values, freedom, alike):
    found, total = moderate_variances(values, freedom, alike=alike)
    assert (total >= freedom).all()
    assert np.isfinite(found).all()
    assert (np.diff(found[np.argsort(values)]) >= -1e-9 * found.max()).all()


class TestAlike:
    def test_independent_series_are_as_alike_as_their_number_says(self):
        rng = np.random.default_rng(2)
        found = np.mean([mean_square_correlation(_deviations(rng.normal(size=(12, 5))), 11.0) for _ in range(200)])
        assert found == pytest.approx(1 / 5, abs=0.02)

    def test_series_that_move_as_one_are_one(self):
        rng = np.random.default_rng(3)
        run = rng.normal(size=(12, 1))
        assert mean_square_correlation(_deviations(run * [1.0, 2.0, -3.0]), 11.0) == pytest.approx(1.0)

    def test_a_correlation_of_seven_tenths_counts_half(self):
        rng = np.random.default_rng(4)
        runs = rng.normal(size=(4000, 1)) + rng.normal(size=(4000, 5)) * np.sqrt(np.sqrt(2) - 1)
        assert mean_square_correlation(_deviations(runs), 3999.0) == pytest.approx((1 + 4 * 0.5) / 5, abs=0.02)

    def test_a_single_series_is_like_itself(self):
        assert mean_square_correlation(np.ones((4, 1)), 3.0) == 1.0

    @pytest.mark.parametrize("size", [0.0, 1e-16])
    def test_a_series_that_never_differs_is_left_out(self, size):
        """But for rounding. Else it would pass for independent of the others, which move as one."""
        rng = np.random.default_rng(5)
        moving = _deviations(rng.normal(size=(8, 1)) + 0.1 * rng.normal(size=(8, 3)))
        still = size * _deviations(rng.normal(size=(8, 2)))
        assert mean_square_correlation(np.hstack([still, moving]), 7.0) == mean_square_correlation(moving, 7.0)

    def test_series_of_which_none_ever_differs_are_one(self):
        assert mean_square_correlation(np.zeros((8, 4)), 7.0) == 1.0

    def test_two_values_of_each_tell_nothing_so_they_are_taken_for_one(self):
        assert mean_square_correlation(np.array([[1.0, -1.0, 2.0], [-1.0, 1.0, -2.0]]), 1.0) == 1.0


def _deviations(values):
    return values - values.mean(axis=0)
