"""Percentiles of the requests of a result."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from regress_gate.ingest.request_samples import percentile


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=300), st.floats(0, 100))
def test_they_are_those_of_numpy_to_the_last_digit(values, percent):
    assert percentile(np.sort(np.array(values)), percent) == np.percentile(values, percent)


def test_between_two_values_lies_their_straight_line():
    ascending = np.array([1.0, 2.0, 4.0])
    assert [percentile(ascending, percent) for percent in (0, 25, 50, 75, 100)] == [1.0, 1.5, 2.0, 3.0, 4.0]
