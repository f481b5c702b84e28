"""The spread between sessions: compared with a direct computation of the posterior."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from regress_gate.stats.contrasts import NO_SESSIONS, session_spread

squares = st.floats(1e-6, 1e6)
freedoms = st.floats(1, 60)


def spread(ratio, *, sessions=10, runs=2.0):
    return session_spread(ratio, 1.0, between_freedom=sessions - 1, within_freedom=sessions * (runs - 1), runs=runs)


def mean_ratio(found):
    return float(found.ratios @ found.probabilities)


def test_the_posterior_is_the_prior_times_the_likelihood_of_the_two_mean_squares():
    """Directly: both mean squares are chi-squared, and their scale, of which nothing is known, is integrated out."""
    between, within, sessions, runs = 3.0, 1.0, 6, 2
    found = spread(between / within, sessions=sessions, runs=float(runs))
    scales = np.geomspace(1e-3, 1e3, 20_001)
    steps = np.diff(np.log(scales), prepend=np.log(scales[0]))

    def likelihood(ratio):
        lift = 1 + runs * ratio
        left, right = sessions - 1, sessions * (runs - 1)
        of_between = scipy_stats.gamma.pdf(between, left / 2, scale=2 * scales * lift / left)
        of_within = scipy_stats.gamma.pdf(within, right / 2, scale=2 * scales / right)
        return float((of_between * of_within * steps).sum())

    each = 0.3 / (found.ratios[1:] <= 10.001).sum()
    prior = each * np.minimum(1.0, 10 / found.ratios[1:])
    prior = np.concatenate([[1 - prior.sum()], prior])
    weights = prior * [likelihood(ratio) for ratio in found.ratios]
    assert found.probabilities == pytest.approx(weights / weights.sum(), rel=1e-3, abs=1e-6)


def test_sessions_that_lie_no_further_apart_than_runs_have_probably_no_offset():
    found = spread(1.0, sessions=20)
    assert found.ratios[0] == 0
    assert found.probabilities[0] > 0.8


def test_sessions_that_lie_far_apart_surely_have_one_of_about_that_size():
    found = spread(1 + 2 * 3.0, sessions=200)
    assert found.probabilities[0] < 1e-6
    assert mean_ratio(found) == pytest.approx(3.0, rel=0.2)


def test_nothing_known_is_no_offset():
    assert mean_ratio(NO_SESSIONS) == 0
    assert NO_SESSIONS.probabilities.sum() == 1


@given(squares, squares, freedoms, freedoms, st.floats(1, 10))
def test_probabilities_add_up_to_one(between, within, left, right, runs):
    found = session_spread(between, within, between_freedom=left, within_freedom=right, runs=runs)
    assert found.probabilities.sum() == pytest.approx(1.0)
    assert (found.probabilities >= 0).all()


@given(squares, squares, freedoms, freedoms, st.floats(1e-3, 1e3))
def test_the_unit_does_not_matter(between, within, left, right, factor):
    found = session_spread(between, within, between_freedom=left, within_freedom=right, runs=3)
    scaled = session_spread(between * factor, within * factor, between_freedom=left, within_freedom=right, runs=3)
    assert scaled.probabilities == pytest.approx(found.probabilities, rel=1e-6, abs=1e-9)


@given(st.floats(0.01, 100), st.floats(1, 5))
def test_sessions_further_apart_never_make_the_offset_smaller(ratio, factor):
    assert mean_ratio(spread(ratio * factor)) >= mean_ratio(spread(ratio)) - 1e-9
