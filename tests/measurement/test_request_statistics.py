"""Means and percentiles of the requests of a pass."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regress_gate.measurement.request_statistics import compute_request_statistics, percentile
from regress_gate.model.samples import Samples


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=300), st.floats(0, 100))
def test_a_percentile_is_that_of_numpy_to_the_last_digit(values, percent):
    assert percentile(np.sort(np.array(values)), percent) == np.percentile(values, percent)


def test_percentiles_interpolate_linearly_between_values():
    ascending = np.array([1.0, 2.0, 4.0])
    assert [percentile(ascending, percent) for percent in (0, 25, 50, 75, 100)] == [1.0, 1.5, 2.0, 3.0, 4.0]


@given(st.lists(st.floats(1e-6, 1e6), max_size=300))
def test_statistics_of_requests_are_those_of_numpy_and_none_without_requests(times):
    size, none = len(times), np.zeros(0)
    ttft = np.array(times, dtype=np.float64)
    tokens, no_gaps = np.ones(size, dtype=np.int64), np.zeros(size + 1, dtype=np.int64)
    requests = compute_request_statistics(
        Samples(ttft, none, no_gaps, tokens, tokens, np.ones(size, dtype=np.bool_)), ttft
    )
    assert requests.statistic("ttft", None) == (ttft.mean() if size else None)
    assert requests.statistic("ttft", 99) == (np.percentile(ttft, 99) if size else None)
    assert requests.statistics("ttft", [50, 90]) == (np.percentile(ttft, [50, 90]).tolist() if size else [])
    assert requests.statistic("itl", None) is None


def test_a_failed_request_counts_in_no_statistic():
    samples = Samples(
        ttft=np.array([0.1, 9.0, 0.2]),
        itl=np.array([0.01, 5.0, 6.0, 0.02, 0.03]),
        itl_start=np.array([0, 1, 3, 5]),
        input_tokens=np.array([8, 8, 8]),
        output_tokens=np.array([2, 3, 3]),
        ok=np.array([True, False, True]),
    )
    values = compute_request_statistics(samples, latency=np.array([0.11, 20.0, 0.25])).values
    assert {family: each.tolist() for family, each in values.items()} == {
        "ttft": [0.1, 0.2],
        "tpot": pytest.approx([0.01, 0.025]),
        "itl": [0.01, 0.02, 0.03],
        "e2el": [0.11, 0.25],
    }
