"""Holm's rule with weights: by hand, and against the definition as a closed test."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regress_gate.stats.multiplicity import holm, weighted_holm

P_VALUES = st.lists(st.tuples(st.floats(1e-9, 1), st.floats(0.01, 1)), min_size=1, max_size=6)


def closed(p_values, weights):
    """A hypothesis falls when every set of hypotheses that holds it is rejected by the weighted Bonferroni test.

    The adjusted p-value is the least budget at which that happens. By brute force over all sets.
    """
    everything = range(len(p_values))
    sets = [chosen for size in range(1, len(p_values) + 1) for chosen in combinations(everything, size)]

    def bonferroni(chosen):
        total = sum(weights[index] for index in chosen)
        return min(p_values[index] * total / weights[index] for index in chosen)

    return [min(1.0, max(bonferroni(chosen) for chosen in sets if index in chosen)) for index in everything]


def test_a_weighted_example_by_hand():
    # p / weight: 0.02, 0.03, 0.2. Steps: 0.01 / 0.5 of the whole; 0.009 / 0.3 of half of it; 0.04 / 0.2 of a fifth.
    found = weighted_holm(np.array([0.04, 0.01, 0.009]), np.array([0.2, 0.5, 0.3]))
    assert found == pytest.approx([0.04, 0.02, 0.02])


def test_a_question_with_most_of_the_budget_pays_little_for_the_others():
    found = weighted_holm(np.array([0.04, 0.5]), np.array([0.9, 0.1]))
    assert found[0] == pytest.approx(0.04 / 0.9)


@given(P_VALUES)
def test_it_is_the_closed_test(pairs):
    p_values, weights = np.array(pairs).T
    assert weighted_holm(p_values, weights) == pytest.approx(closed(p_values, weights), rel=1e-9)


@given(P_VALUES, st.floats(1e-3, 1e3))
def test_only_the_proportion_of_the_weights_matters(pairs, factor):
    p_values, weights = np.array(pairs).T
    assert weighted_holm(p_values, factor * weights) == pytest.approx(weighted_holm(p_values, weights))


@given(P_VALUES)
def test_equal_weights_are_plain_holm(pairs):
    p_values, _ = np.array(pairs).T
    assert weighted_holm(p_values, np.full(len(p_values), 0.3)) == pytest.approx(holm(p_values))


@given(P_VALUES, st.randoms())
def test_the_order_of_the_questions_does_not_matter(pairs, random):
    p_values, weights = np.array(pairs).T
    order = random.sample(range(len(pairs)), len(pairs))
    assert weighted_holm(p_values[order], weights[order]) == pytest.approx(weighted_holm(p_values, weights)[order])


def test_no_question_has_no_answer():
    assert holm([]) == []
