"""Tables as people have them: what is read, and what one line says of a file that cannot be."""

import gzip
import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regress_gate.errors import InputError
from regress_gate.ingest import table as module
from regress_gate.ingest.table import read_table


def columns(data: bytes) -> dict[str, list[object]]:
    return {name: list(cells) for name, cells in read_table(data, "t").columns.items()}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("date,ms\n2026-01-01,1\n2026-01-02,2\n", {"date": ["2026-01-01", "2026-01-02"], "ms": ["1", "2"]}),
        ("a;b\r\n1,5;2\r\n", {"a": ["1,5"], "b": ["2"]}),
        ("a\tb\n1\t2\n", {"a": ["1"], "b": ["2"]}),
        ('name,ms\n"one, two\nthree",1\n', {"name": ["one, two\nthree"], "ms": ["1"]}),
        ("\n\nms\n\n1\n\n2\n", {"ms": ["1", "2"]}),
        ("1\n2\n3", {"value": ["1", "2", "3"]}),
        ("1,a\n2,b", {"1": ["1", "2"], "2": ["a", "b"]}),
        (",ms\n0,5\n", {"1": ["0"], "ms": ["5"]}),
        ("[1, 2.5, null]", {"value": [1, 2.5, None]}),
        ('[{"t": 1, "ms": 2}, {"ms": 3, "extra": "x"}]', {"t": [1, None], "ms": [2, 3], "extra": [None, "x"]}),
        ('{"t": 1, "ms": 2}\n\n{"t": 2, "ms": NaN}', None),
        ('{"name": "run", "t": [1, 2], "ms": [3, 4]}', {"t": [1, 2], "ms": [3, 4]}),
        ('{"made": "today", "rows": [{"ms": 1}]}', {"ms": [1]}),
    ],
    ids=[
        "csv", "semicolons", "tabs", "quotes", "blank lines", "no header", "no header but columns",
        "index column", "numbers", "objects", "json lines", "object of lists", "rows in an object",
    ],
)  # fmt: skip
def test_tables_are_read_as_they_are_written(text, expected):
    found = columns(text.encode())
    if expected is None:
        assert found["t"] == [1, 2]
        assert str(found["ms"]) == "[2, nan]"
    else:
        assert found == expected
    assert str(columns(b"\xef\xbb\xbf" + text.encode())) == str(found), "with the mark that Windows writes"
    assert str(columns(gzip.compress(text.encode()))) == str(found), "packed"


def test_a_row_knows_its_line():
    table = read_table(b'name,ms\n"two\nlines",1\n\nb,2\n', "x.csv")
    assert list(table.lines) == [2, 5]
    assert str(table.refusal(1, "is odd", "do better")) == "x.csv:5: is odd; do better"
    assert str(read_table(b"[1, 2]", "x.json").refusal(1, "is odd")) == "x.json: entry 2: is odd"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "t: is empty"),
        (b" \n\n", "t: is empty"),
        (b"\x1c", "t: is empty"),
        (b",,\n,,\n", "t: has no rows"),
        (b"date,ms\n", "t: has no rows"),
        (b"[]", "t: has no rows"),
        (b"ms,date\n1,2,3\n", "t:2: has 3 cells where the first row has 2"),
        (b'ms\n1\n"2\n', "t:3: is not valid CSV"),
        (b"ms,ms\n1,2\n", "t:1: has two columns named 'ms'"),
        (b"ms\n1\n\xff\n", "t:3: is not UTF-8 text; save it as UTF-8"),
        ("ms\n1\n".encode("utf-16"), "is UTF-16 text; save it as UTF-8"),
        (b"ms\x00\n1", "is a binary file"),
        (b"PK\x03\x04...", "is a zip file"),
        (b"PAR1....", "is a Parquet file"),
        (gzip.compress(b"ms\n1\n", mtime=0)[:-6], "gzip file that is cut off"),
        (b"\x1f\x8bnonsense", "gzip file that is cut off"),
        (b'{"ms": [1, 2', "t:1: is not valid JSON"),
        (b'{"ms": 1}\n{"ms": 2}\n{"ms": \n', "t:3: is not valid JSON"),
        (b'{"ms": 1}\n5\n', "t:2: is a single value where an object was expected"),
        (b'[{"ms": 1}, [2]]', "t: entry 2: is a list"),
        (b'{"ms": [1, 2], "t": [1]}', "different lengths: ms has 2, t has 1"),
        (b'{"ms": 1}', "holds no table"),
        (b'{"a": [{"ms": 1}], "b": [{"ms": 1}]}', "or more than one"),
        (b"[" * 100_000, "is not readable JSON"),
        (b"[" + b"9" * 5000 + b"]", "is not readable JSON"),
    ],
)
def test_an_unreadable_table_gives_one_line_with_the_position(data, said):
    with pytest.raises(InputError) as refused:
        read_table(data, "t")
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "packed"])
def test_what_would_not_fit_is_refused_before_it_is_parsed(monkeypatch, pack):
    monkeypatch.setattr(module, "MAX_BYTES", 1000)
    with pytest.raises(InputError, match="is larger than"):
        read_table(pack(b"ms\n" + b"1\n" * 1000), "t")


@given(st.binary(max_size=200))
def test_no_bytes_at_all_are_more_than_an_input_error(data):
    with suppress(InputError):
        read_table(data, "t")


numbers = st.floats(allow_nan=False, allow_infinity=False)


@given(st.lists(numbers, min_size=1))
def test_the_same_numbers_are_found_in_every_form(values):
    forms = [
        json.dumps(values),
        json.dumps([{"value": value} for value in values]),
        json.dumps({"value": values}),
        "value\n" + "\n".join(map(repr, values)),
    ]
    assert all([float(cell) for cell in columns(form.encode())["value"]] == values for form in forms)
