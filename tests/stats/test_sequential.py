"""Interim analyses: the error budget is spent once, however many analyses there are."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtri
from scipy.stats import binomtest, multivariate_normal

from regress_gate.stats.design import FIRST_ANALYSIS, InterimStage, nominal_level


def levels(asked, most):
    return np.array([nominal_level(asked, InterimStage(blocks, most)) for blocks in range(FIRST_ANALYSIS, most + 1)])


def crossings(rng, asked, most, *, trials):
    """Shape (trials,): which of so many random walks that nothing drives ever cross."""
    walks = rng.normal(size=(trials, most)).cumsum(axis=1)[:, FIRST_ANALYSIS - 1 :]
    z = walks / np.sqrt(np.arange(FIRST_ANALYSIS, most + 1))
    return (z > -ndtri(levels(asked, most))).any(axis=1)


@pytest.mark.parametrize(("asked", "most"), [(0.05, 3), (0.05, 10), (0.025, 15), (0.00125, 10)])
def test_all_looks_together_spend_what_was_asked_for(asked, most):
    rng, trials = np.random.default_rng([most, int(asked * 1e5)]), 200_000
    crossed = int(crossings(rng, asked, most, trials=trials).sum())
    assert binomtest(crossed, trials, asked).pvalue > 1e-4, crossed / trials


def test_after_each_look_as_much_is_spent_as_the_spending_function_says():
    rng, trials, asked, most = np.random.default_rng(1), 400_000, 0.05, 6
    walks = rng.normal(size=(trials, most)).cumsum(axis=1)[:, FIRST_ANALYSIS - 1 :]
    crossed = walks / np.sqrt(np.arange(FIRST_ANALYSIS, most + 1)) > -ndtri(levels(asked, most))
    by_now = np.logical_or.accumulate(crossed, axis=1).sum(axis=0)
    spent = asked * np.log1p((math.e - 1) * np.arange(FIRST_ANALYSIS, most + 1) / most)
    for count, expected in zip(by_now, spent, strict=True):
        assert binomtest(int(count), trials, expected).pvalue > 1e-4


def test_the_first_level_is_what_may_be_spent_by_then():
    assert nominal_level(0.05, InterimStage(2, 5)) == pytest.approx(0.05 * math.log1p((math.e - 1) * 2 / 5), rel=1e-9)


@pytest.mark.parametrize("most", [3, 4, 5])
def test_the_boundaries_are_those_of_the_joint_normal_distribution_of_all_looks(most):
    """scipy integrates the same probabilities in its own way: of not having crossed by the k-th look."""
    asked, blocks = 0.025, np.arange(FIRST_ANALYSIS, most + 1)
    correlation = np.sqrt(np.minimum.outer(blocks, blocks) / np.maximum.outer(blocks, blocks))
    bounds = -ndtri(levels(asked, most))
    for looks in range(1, len(blocks) + 1):
        inside = multivariate_normal(np.zeros(looks), correlation[:looks, :looks], seed=1).cdf(bounds[:looks])
        spent = asked * math.log1p((math.e - 1) * blocks[looks - 1] / most)
        assert 1 - float(inside) == pytest.approx(spent, abs=5e-5)


def test_one_look_costs_nothing():
    assert nominal_level(0.05, None) == 0.05
    assert nominal_level(0.05, InterimStage(2, 2)) == 0.05
    assert nominal_level(0.05, InterimStage(1, 1)) == 0.05


def test_blocks_beyond_the_last_are_seen_at_its_level():
    assert nominal_level(0.05, InterimStage(9, 6)) == nominal_level(0.05, InterimStage(6, 6))


@settings(max_examples=15)
@given(st.floats(1e-5, 0.3), st.integers(3, 10))
def test_no_look_gets_more_than_the_whole(asked, most):
    found = levels(asked, most)
    assert (found > 0).all()
    assert (found < asked).all()


@settings(max_examples=15)
@given(st.integers(3, 10), st.integers(3, 10), st.sampled_from([0.001, 0.025, 0.05]))
def test_more_looks_make_the_last_one_stricter(most, other, asked):
    few, many = sorted((most, other))
    assert levels(asked, many)[-1] <= levels(asked, few)[-1]


@settings(max_examples=15)
@given(st.integers(3, 10), st.sampled_from([0.001, 0.01, 0.03]), st.floats(1.0, 2.0))
def test_who_asks_for_more_gets_more_at_every_look(most, asked, factor):
    assert (levels(factor * asked, most) >= levels(asked, most)).all()
