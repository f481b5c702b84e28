"""Equal numbers are one measurement, if there are so many digits of them that chance cannot make them equal."""

import random
from dataclasses import dataclass, field, replace
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regress_gate.measurement.same_measurement import (
    MeasurementIndex,
    first_key,
    is_same_measurement,
    measurement_keys,
    significant_digits,
)

EXACT = {"ttft_mean": 0.05123948572, "tpot_mean": 0.0123948571, "output_throughput": 512.3948571}
ROUNDED = {"ttft_mean": 0.12345, "ttft_median": 0.12201, "ttft_p99": 0.15002, "output_throughput": 512.34}


@dataclass(frozen=True)
class Numbers:
    metrics: dict[str, float] = field(default_factory=dict)
    duration: float | None = None
    completed: int | None = 100
    failed: int = 0


@pytest.mark.parametrize("values", [EXACT, ROUNDED])
def test_equal_times_are_one_measurement(values):
    assert is_same_measurement(Numbers(values), Numbers(dict(values)))


@pytest.mark.parametrize("values", [EXACT, ROUNDED])
def test_one_value_more_or_less_changes_nothing(values):
    more = Numbers({**values, "goodput": 3.999123, "itl_p95": 0.0207})
    assert is_same_measurement(Numbers(values), more)
    assert is_same_measurement(more, Numbers(values))
    index = MeasurementIndex[str]()
    index.add(Numbers(values), "first")
    assert list(index.matches(more)) == ["first"]


def test_a_last_digit_that_differs_everywhere_is_another_measurement():
    other = Numbers({name: value * (1 + 1e-6) for name, value in EXACT.items()})
    assert not is_same_measurement(Numbers(EXACT), other)


def test_what_a_conversion_of_units_leaves_is_no_difference():
    other = Numbers({name: value * 1000 / 1000 * (1 + 1e-15) for name, value in EXACT.items()})
    assert is_same_measurement(Numbers(EXACT), other)
    assert first_key(Numbers(EXACT)) == first_key(other)


@pytest.mark.parametrize(
    "values",
    [
        {"failed_requests": 0.0},
        {"accuracy_gsm8k": 0.8123456789012},
        {"peak_memory": 123456789012.0},
        {"ttft_median": 0.125, "output_throughput": 168.8},
        # What a console prints: of two decimals the first digits are those of every run.
        {"ttft_mean": 0.05123, "ttft_median": 0.05011, "tpot_mean": 0.00951, "output_throughput": 209.84},
        # The rates and the duration are one number in three forms.
        {"output_throughput": 409.04, "request_throughput": 1.63, "total_throughput": 818.08},
    ],
)
def test_scores_sizes_and_coarse_times_come_again_by_chance(values):
    assert not is_same_measurement(Numbers(values, duration=61.23), Numbers(values, duration=61.23))
    assert first_key(Numbers(values, duration=61.23)) is None


def test_another_number_of_requests_is_another_measurement():
    assert not is_same_measurement(Numbers(EXACT, completed=100), Numbers(EXACT, completed=99, failed=1))
    assert is_same_measurement(Numbers(EXACT, completed=100), Numbers(EXACT, completed=None))


def test_a_value_that_is_computed_otherwise_now_hides_no_copy():
    assert is_same_measurement(Numbers(EXACT), Numbers({**EXACT, "tpot_mean": 0.0131}))


def test_two_parts_of_one_result_are_no_copies():
    left, right = Numbers({"ttft_mean": 0.0512}, duration=61.2398457), Numbers({"tpot_mean": 0.0123}, 61.2398457)
    assert not is_same_measurement(left, right)


def test_the_first_key_of_a_result_is_among_the_keys_of_one_with_more_values():
    more = Numbers({**EXACT, "e2el_mean": 1.2345678901, "itl_mean": 0.0123456789}, duration=61.2398457)
    assert first_key(Numbers(EXACT)) in measurement_keys(more)


@given(st.dictionaries(st.sampled_from([*EXACT, "ttft_p99", "goodput", "accuracy_x"]), st.floats(0, 1e9)))
def test_a_result_is_found_by_its_own_keys(values):
    numbers = Numbers(values)
    keys = measurement_keys(numbers)
    assert (first_key(numbers) is None) == (not keys)
    assert not keys or keys[0] == first_key(numbers)
    if keys:
        assert is_same_measurement(numbers, replace(numbers, completed=None))


@pytest.mark.parametrize(("value", "digits"), [(0.5, 1), (12.50, 3), (1e6, 1), (0.1 + 0.2, 1), (123456.789, 9)])
def test_digits_are_counted_without_noise(value, digits):
    assert significant_digits(value) == digits


@pytest.mark.parametrize("decimals", [1, 2, 3])
def test_rounded_results_of_a_quiet_machine_are_not_taken_for_copies(decimals):
    """Console output of 300 starts whose spread is 0.3 %: about 45,000 pairs."""
    luck = random.Random(decimals)

    def draw():
        run = luck.gauss(0, 0.003)
        duration = round(61.0 * (1 + run), decimals)
        values = {"request_throughput": round(100 / duration, 2), "output_throughput": round(12800 / duration, 2)}
        for family, base in (("ttft", 51.0), ("tpot", 9.5)):
            for statistic, factor in (("mean", 1.0), ("median", 0.97), ("p99", 1.6)):
                time = base * factor * (1 + run + luck.gauss(0, 0.0015))
                values[f"{family}_{statistic}"] = round(time, decimals) / 1000
        return Numbers(values, duration=duration)

    starts = [draw() for _ in range(300)]
    assert not any(is_same_measurement(*pair) for pair in combinations(starts, 2))
