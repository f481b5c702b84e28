"""Columns of a table as series: guessed where there is nothing to choose, refused with the way out where there is."""

import numpy as np
import pytest

from regress_gate.errors import InputError
from regress_gate.ingest.table import read_table
from regress_gate.ingest.table_series import Layout, choose_columns, series_of


def table(text: str):
    return read_table(text.encode(), "t.csv")


def series(text: str, **asked):
    given = table(text)
    return series_of(given, choose_columns(given, **asked))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ms\n1\n", Layout("ms", None, ())),
        ("date,ms\n2026-01-01,1\n", Layout("ms", "date", ())),
        ("Version,host,ms\n0.9,a,1\n", Layout("ms", "Version", ())),
        ("build,ms,value\nx,1,2\n", Layout("value", None, ())),
        ("date,ms\nyesterday,1\n", Layout("ms", None, ())),
        ("day,time,ms\n1,2,3\n", None),
        ("ms,tokens\n1,2\n", None),
    ],
    ids=["one column", "with a date", "with a version", "called value", "no date at all", "two times", "two numbers"],
)
def test_columns_are_guessed_only_where_there_is_nothing_to_choose(text, expected):
    if expected is None:
        with pytest.raises(InputError, match=r"columns hold numbers .* name the values' column with --value"):
            choose_columns(table(text))
    else:
        assert choose_columns(table(text)) == expected


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"value": "mss"}, "t.csv: has no column 'mss' (did you mean 'ms'?)"),
        ({"time": "x"}, "has no column 'x' (known: date, host, ms)"),
        ({"groups": ["hots"]}, "did you mean 'host'?"),
        ({"value": "ms", "time": "ms"}, "--value: 'ms' is given twice"),
        ({"value": "ms", "groups": ["host", "host"]}, "--group: 'host' is given twice"),
        ({"value": "host"}, "t.csv:2: 'a' in column 'host' is no number"),
        ({"groups": ["ms"]}, "no column holds numbers (host)"),
    ],
)
def test_a_column_that_cannot_be_meant_is_refused_with_the_nearest_name(asked, said):
    with pytest.raises(InputError) as refused:
        series("date,host,ms\n2026-01-01,a,1\n", **asked)
    assert said in str(refused.value)


@pytest.mark.parametrize("cell", ["", "NaN", "null", "None", "n/a", "-", " "])
def test_a_missing_value_keeps_its_place(cell):
    (found,) = series(f"time,ms\n1,5\n2,{cell}\n3,7\n")
    assert np.isnan(found.values).tolist() == [False, True, False]
    assert found.variances is None


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        ("fast", "'fast' in column 'ms' is no number; leave the cell empty if a value is missing"),
        ("12ms", "'12ms'"),
        ("inf", "'inf' in column 'ms' is not finite"),
        ("2026_05", "'2026_05' in column 'ms' is no number"),
        ('"1,5"', "'1,5' in column 'ms' is no number; write decimals with a point"),
    ],
)
def test_text_among_numbers_is_reported_with_its_line(cell, said):
    with pytest.raises(InputError) as refused:
        series(f"ms\n1\n{cell}\n", value="ms")
    assert str(refused.value).startswith("t.csv:3: ")
    assert said in str(refused.value)


def test_text_in_the_only_column_with_numbers_is_reported_without_naming_the_column():
    with pytest.raises(InputError, match=r"t\.csv:3: 'fast' in column 'ms' is no number"):
        series("host,ms\na,1\nb,fast\n")


def test_a_column_without_any_value_is_refused():
    with pytest.raises(InputError, match="column 'ms' holds no value"):
        series("ms\nNaN\nNaN\n", value="ms")


def test_json_cells_that_are_no_numbers_are_refused():
    given = read_table(b'[{"ms": 1}, {"ms": true}]', "t.json")
    with pytest.raises(InputError, match=r"t\.json: entry 2: 'True' in column 'ms' is no number"):
        series_of(given, Layout("ms", None, ()))
    given = read_table(b'[{"ms": 1}, {"ms": {"p50": 1}}]', "t.json")
    with pytest.raises(InputError, match="a nested object"):
        series_of(given, Layout("ms", None, ()))


@pytest.mark.parametrize(
    ("head", "times"),
    [
        ("step", ["9", "10", "100"]),
        ("commit_time", ["2026-01-09T10:00:00Z", "2026-01-09T12:30:00+02:00", "2026-01-10"]),
        ("version", ["0.9", "v0.10rc1", "0.10"]),
        ("release", ["0.9.2", "0.10.0", "0.10.1"]),
    ],
)
def test_rows_are_put_in_the_order_of_numbers_dates_or_versions(head, times):
    text = f"{head},ms\n{times[2]},3\n{times[0]},1\n{times[1]},2\n"
    (found,) = series(text, time=head)
    assert found.values.tolist() == [1, 2, 3]
    assert list(found.times) == times


def test_without_a_time_rows_stay_as_they_are():
    (found,) = series("ms\n3\n1\n2\n")
    assert (found.values.tolist(), found.times) == ([3, 1, 2], None)


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        ("", "t.csv:3: the cell of the time column 'at' is empty"),
        ("soon", "t.csv:3: 'soon' in column 'at' is no number, ISO date or version"),
        ("0.23.1rc1.dev1403", "is a development build, whose version says nothing about order; order by a column"),
    ],
)
def test_a_time_that_cannot_be_ordered_is_reported(cell, said):
    with pytest.raises(InputError) as refused:
        series(f"at,ms\n0.23.0,1\n{cell},2\n", time="at")
    assert said in str(refused.value)


def test_rows_of_one_time_are_replicates():
    (found,) = series("version,ms\n0.2,90\n0.1,100\n0.1,121\nv0.2,90\n")
    assert found.values == pytest.approx([110, 90])
    assert list(found.times) == ["0.1", "0.2"]
    assert found.replicates == 2
    assert found.variances == pytest.approx([np.log(1.21) ** 2 / 8] * 2), "pooled: both points scatter alike"


def test_groups_are_series_of_their_own_in_the_order_of_their_first_rows():
    text = "host,gpu,time,ms\nb,H200,2,4\na,H200,1,1\nb,H200,1,3\nb,L4,1,9\n"
    found = series(text, groups=["host", "gpu"])
    assert [one.group for one in found] == [("b", "H200"), ("a", "H200"), ("b", "L4")]
    assert [one.values.tolist() for one in found] == [[3, 4], [1], [9]]
