"""Requests that are collected one by one; gaps that are too many to be kept go into a histogram."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regress_gate.measurement import request_collector
from regress_gate.measurement.plausibility import RefusalError
from regress_gate.measurement.request_collector import PRECISION, Histogram, RequestCollector


@given(
    st.lists(st.floats(1e-9, 1e6), min_size=1, max_size=300),
    st.sampled_from([0, 1, 50, 90, 99, 100]),
)
def test_a_percentile_lies_between_the_neighbours_of_its_rank(values: list[float], percent: float) -> None:
    histogram = Histogram()
    for part in np.array_split(np.array(values), 3):
        histogram.add(part)
    low, high = (np.percentile(values, percent, method=method) for method in ("lower", "higher"))
    assert low * (1 - PRECISION) <= histogram.percentile(percent) <= high * (1 + PRECISION)
    assert histogram.mean == pytest.approx(np.mean(values))


def test_gaps_of_zero_stay_zero() -> None:
    histogram = Histogram()
    histogram.add(np.array([0.0, 0.0, 0.0, 1.0]))
    assert histogram.percentile(50) == 0
    assert histogram.percentile(100) == pytest.approx(1, rel=PRECISION)


@pytest.mark.parametrize("bad", [-1e-9, float("nan"), float("inf")])
def test_what_is_no_gap_is_refused(bad: float) -> None:
    with pytest.raises(RefusalError, match="negative or not a finite number"):
        Histogram().add(np.array([0.01, bad]))


def test_more_gaps_than_are_kept_give_the_same_statistics_and_no_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    def collect() -> RequestCollector:
        made = RequestCollector()
        generator = np.random.default_rng(20261122)
        for _ in range(100):
            gaps = generator.gamma(9, 2.0, 64).tolist()
            made.add(ttft=0.05, e2el=0.05 + sum(gaps) / 1000, gaps=gaps, gap_unit=1e-3, output_tokens=65)
        return made

    exact = collect()
    kept = exact.latencies(exact.statistics())
    monkeypatch.setattr(request_collector, "MAX_KEPT_GAPS", 1000)
    bounded = collect()
    found = bounded.latencies(bounded.statistics())
    assert len(bounded.itl) == 0
    assert bounded.notes
    assert not exact.notes
    assert found["itl"] == pytest.approx(kept["itl"], rel=2e-4)
    assert {name: found[name] for name in ("ttft", "tpot", "e2el")} == {
        name: kept[name] for name in ("ttft", "tpot", "e2el")
    }
