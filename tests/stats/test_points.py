"""Replicates as points: correct means and variances."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regress_gate.stats.changepoints.series import pool_points

groups = st.lists(st.lists(st.floats(1e-3, 1e6), min_size=1, max_size=5), min_size=1, max_size=20)


def points(per_point, **how):
    starts = np.cumsum([0, *map(len, per_point)])[:-1]
    return pool_points(np.concatenate([np.asarray(each, dtype=float) for each in per_point]), starts, **how)


def test_positive_values_are_averaged_as_ratios_and_others_as_they_are():
    assert points([[1, 4], [9]]).values == pytest.approx([2, 9])
    assert points([[1, 4], [-9]]).values == pytest.approx([2.5, -9])
    assert points([[1, 4], [9]], relative=False).values == pytest.approx([2.5, 9])


def test_the_variance_is_pooled_and_shrinks_with_the_replicates_of_a_point():
    found = points([[-1, 1], [3, 5], [7]])
    assert found.variances == pytest.approx([1, 1, 2])


def test_without_a_second_replicate_nothing_is_known_of_the_variance():
    assert points([[1], [2]]).variances is None


def test_missing_values_are_no_replicates():
    found = points([[np.nan, 5], [np.nan], [2, 8]])
    assert found.values == pytest.approx([5, np.nan, 4], nan_ok=True)
    assert np.isnan(found.variances).tolist() == [False, True, False]


@given(groups)
def test_a_mean_lies_within_its_replicates(per_point):
    found = points(per_point)
    assert all(
        min(each) * (1 - 1e-9) <= value <= max(each) * (1 + 1e-9)
        for value, each in zip(found.values, per_point, strict=True)
    )


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1))
def test_what_was_measured_once_comes_back_as_it_was(values):
    assert points([[value] for value in values]).values.tolist() == values


@given(groups, st.floats(0.1, 10))
def test_variances_of_positive_values_are_relative(per_point, factor):
    found, scaled = points(per_point), points([[value * factor for value in each] for each in per_point])
    if found.variances is not None:
        assert scaled.variances == pytest.approx(found.variances, rel=1e-3, abs=1e-9)
