"""Tables of statistics with units: what a CSV and a JSON say alike."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regress_gate.ingest.formats.aiperf_values import seconds_in, table_from_csv, table_from_json
from regress_gate.measurement.plausibility import RefusalError


@given(st.integers(-(10**12), 10**12))
def test_a_number_with_thousands_separated_is_read_back(hundredths):
    value = hundredths / 100
    table = table_from_csv(f'Metric,avg\nRequest Latency (ms),"{value:,.2f}"\n')
    assert table.value("request_latency") == value


@given(st.text(max_size=300))
def test_any_text_is_read_or_refused(text):
    for csv in (text, "Metric,avg\n" + text):
        try:
            table = table_from_csv(csv)
        except RefusalError:
            continue
        for tag in table.entries:
            with suppress(RefusalError):
                table.seconds(tag)


def test_json_and_csv_give_the_same_entries():
    found = table_from_json({"request_latency": {"unit": "ms", "avg": 5.0, "p99": 9.0}, "other": 1, "empty": None})
    same = table_from_csv("Metric,avg,p99\nRequest Latency (ms),5.00,9.00\n\nMetric,Value\n")
    assert found.seconds("request_latency") == same.seconds("request_latency")
    assert found.seconds("request_latency") == pytest.approx({"mean": 0.005, "p99": 0.009})


def test_a_cell_that_is_no_number_is_missing_or_refused():
    table = table_from_csv("Metric,avg,p99\nRequest Latency (ms),N/A,soon\n")
    assert table.value("request_latency") is None
    with pytest.raises(RefusalError, match="request_latency p99 is 'soon', not a number"):
        table.seconds("request_latency")


def test_what_follows_another_header_is_no_metric():
    assert not table_from_csv("Metric,Value\n\nEndpoint,GPU\nRequest Latency (ms),1\n").entries


@pytest.mark.parametrize(("unit", "seconds"), [("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3), ("sec", 1.0), ("s", 1.0)])
def test_units_of_time(unit, seconds):
    assert seconds_in(unit) == seconds


@pytest.mark.parametrize("unit", ["", "min", None, 5, ["ms"]])
def test_other_units_are_refused(unit):
    with pytest.raises(RefusalError, match="is no unit of time that is known"):
        seconds_in(unit)
