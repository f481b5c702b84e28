"""Numbers as people read them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regress_gate.model.metric import METRICS, Scale
from regress_gate.report.views import units


@pytest.mark.parametrize(
    ("means", "unit", "metric", "expected"),
    [
        ((0.1234, 0.1832), "s", "ttft_p99", ("123.4 ms", "183.2 ms")),
        ((9.99, 9.5), "s", "e2el_p99", ("9990 ms", "9500 ms")),
        ((9.99, 10.0), "s", "e2el_p99", ("9.990 s", "10.00 s")),
        ((12345.6, 912.4), "1/s", "output_throughput", ("12.35k tok/s", "912.4 tok/s")),
        ((3.41, 3.38), "1/s", "request_throughput", ("3.410 req/s", "3.380 req/s")),
        ((2**30, 7.62e10), "bytes", "peak_memory", ("1.000 GiB", "70.97 GiB")),
        ((0.0, 0.0105), "fraction", "failed_requests", ("0%", "1.050%")),
        ((412345, None), "tokens", "kv_cache_tokens", ("412.3k tok", "n/a")),
        ((None, None), "s", "ttft_p99", ("n/a", "n/a")),
        ((2.0, 3.0), "furlong", "new_metric", ("2.000 furlong", "3.000 furlong")),
    ],
)
def test_values(means: tuple[float | None, float | None], unit: str, metric: str, expected: tuple[str, str]) -> None:
    assert units.values(means, unit, metric) == expected


@pytest.mark.parametrize(
    ("loss", "expected"),
    [(0.224, "+22.4%"), (-0.017, "−1.7%"), (0.0, "0.0%"), (-0.0001, "0.0%"), (1.5, "+150%"), (None, "n/a")],
)
def test_change(loss: float | None, expected: str) -> None:
    assert units.change(loss, Scale.RATIO) == expected


def test_a_difference_of_fractions_is_shown_in_percentage_points() -> None:
    assert units.change(0.0105, Scale.DIFFERENCE) == "+1.1 pp"
    assert units.margin(0.005, Scale.DIFFERENCE) == "0.5 pp"


def test_interval_with_open_ends() -> None:
    assert units.interval((-0.004, 0.066)) == "[−0.4, +6.6]"
    assert units.interval((None, 0.066)) == "[?, +6.6]"
    assert units.interval(None) == "no interval"


def test_spread_says_when_it_is_not_known() -> None:
    assert units.spread(0.021, 5) == "±2.1% n=5"
    assert units.spread(0.4, 6) == "±40% n=6"
    assert units.spread(None, 1) == "±? n=1"


def test_both_sides_in_one_text() -> None:
    assert units.both_values((0.1234, 0.1832), "s", "ttft_p99") == "123.4 → 183.2 ms"
    assert units.both_values((412345, None), "tokens", "kv_cache_tokens") == "412.3k → n/a tok"
    assert units.spreads((0.021, 0.018), (5, 5)) == "±2.1%, ±1.8%, n=5"
    assert units.spreads((None, 0.4), (1, 6)) == "±? n=1, ±40% n=6"


@given(value=st.floats(allow_nan=False, allow_infinity=False), metric=st.sampled_from(sorted(METRICS)))
def test_no_number_is_wider_than_a_column(value: float, metric: str) -> None:
    assert len(units.values((value, value), METRICS[metric].unit, metric)[0]) <= 16
    assert len(units.change(value / 100, Scale.RATIO)) <= 10
