"""`detect`: change points in whatever table a user has."""

import gzip
import json
import random

import pytest

from tests.factories.tables import STEP_AT, nightly_rows, write_nightly


@pytest.fixture
def nightly(gate):
    return write_nightly(gate.directory / "nightly.csv")


def found(gate, *arguments, **how):
    done = gate("detect", *arguments, "--format", "json", **how)
    assert (done.code, done.err) == (0, "")
    return done.json["change_points"]


def test_the_step_in_a_nightly_table_is_named_by_its_day(gate, nightly):
    (change,) = found(gate, nightly)
    assert abs(change["index"] - STEP_AT) <= 1
    assert change["time"] == nightly_rows()[change["index"]][0]
    assert change["kind"] == "step"
    assert change["change"] == pytest.approx(0.3, abs=0.02)
    low, high = change["change_interval"]
    assert low < 0.3 < high
    assert change["interval"][0] <= STEP_AT <= change["interval"][1]
    assert change["probability"] > 0.9


def test_the_table_fits_eighty_columns_without_colour_and_says_what_it_saw(gate, nightly):
    shown = gate("detect", nightly.name, "--direction", "lower")
    assert shown.code == 0
    assert all(len(line) <= 80 for line in shown.out.splitlines())
    assert "\x1b" not in shown.out
    assert shown.out.startswith("nightly.csv: 60 points of ttft_ms by date; lower is better\n")
    assert "worse" in shown.out
    assert "^1" in shown.out
    assert "\n1 change point; [95% intervals]\n" in shown.out


def test_markdown_can_be_asked_for(gate, nightly):
    shown = gate("detect", nightly.name, "--format", "markdown")
    assert shown.out.startswith("## 1 change point\n\nnightly.csv: 60 points")
    assert "1. step of +" in shown.out


def as_csv(rows):
    return "".join(["t;ms\n", *(f"{day};{value}\n" for day, value in rows)])


def as_objects(rows):
    return json.dumps([{"t": day, "ms": value} for day, value in rows])


def as_lines(rows):
    return "\n".join(json.dumps({"t": day, "ms": value}) for day, value in rows)


@pytest.mark.parametrize("form", [as_csv, as_objects, as_lines])
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_every_form_of_a_table_gives_the_same_answer_in_whatever_order_its_rows_stand(gate, nightly, form, packed):
    rows = nightly_rows()
    random.Random(3).shuffle(rows)
    data = form(rows).encode()
    (gate.directory / "other").write_bytes(gzip.compress(data) if packed else data)
    assert found(gate, "other", "--time", "t") == found(gate, nightly)


def test_numbers_may_be_piped_in(gate):
    (change,) = found(gate, "-", stdin="\n".join(str(value) for _, value in nightly_rows()))
    assert (abs(change["index"] - STEP_AT) <= 1, change["time"]) == (True, None)


def test_groups_are_looked_at_one_by_one(gate):
    rows = [
        f"{host},{day},{value}" for host, step in (("a", 0.0), ("b", 0.3)) for day, value in nightly_rows(step=step)
    ]
    random.Random(5).shuffle(rows)
    table = "\n".join(["host,date,ms", *rows])
    (change,) = found(gate, "-", "--group", "host", stdin=table)
    assert change["group"] == {"host": "b"}
    shown = gate("detect", "-", "--group", "host", stdin=table)
    assert "\nhost=b: 60 points\n" in shown.out
    assert "1 change point in 1 of 2 series" in shown.out


def test_rows_of_one_version_are_replicates(gate):
    values = [value for _, value in nightly_rows()]
    table = "version,ms\n" + "\n".join(f"0.{place // 3}.0,{value}" for place, value in enumerate(values))
    done = gate("detect", "-", "--format", "json", stdin=table).json
    (series,) = done["series"]
    assert (series["points"], series["replicates"]) == (20, 3)
    (change,) = done["change_points"]
    assert change["time"] in ("0.13.0", "0.14.0")


def test_improvements_are_reported_when_asked_for(gate, nightly):
    quiet = gate("detect", nightly, "--direction", "higher")
    assert "no change points for the worse\n1 improvement is not shown; --improvements shows it\n" in quiet.out
    (change,) = found(gate, nightly, "--direction", "higher", "--improvements")
    assert change["worse"] is False


@pytest.mark.parametrize(("size", "count"), [("20%", 1), ("40 %", 0), ("20", 1), ("40", 0), ("0", 1)])
def test_changes_that_do_not_matter_are_not_reported(gate, nightly, size, count):
    assert len(found(gate, nightly, "--min-change", size)) == count


def test_a_few_values_are_too_few(gate):
    shown = gate("detect", "-", stdin="ms\n1\n2\n3\n")
    assert (shown.code, shown.err) == (0, "")
    assert "no change points\nfewer than 8 values: too few for change points\n" in shown.out


@pytest.mark.parametrize(
    ("arguments", "stdin", "said"),
    [
        ([], "", "standard input: is empty"),
        ([], "ms\nfast\n", "no column holds numbers (ms); name the values' column with --value"),
        ([], "ms,tokens\n1,2\n", "2 columns hold numbers (ms, tokens); name the values' column with --value"),
        (["--value", "mss"], "ms\n1\n", "has no column 'mss' (did you mean 'ms'?)"),
        (["--time", "dat"], "date,ms\n1,1\n", "has no column 'dat' (did you mean 'date'?)"),
        (["--value", "ms"], "ms\n1\nfast\n", "standard input:3: 'fast' in column 'ms' is no number"),
        (["--time", "date"], "date,ms\n2026-01-01,1\nsoon,2\n", "standard input:3: 'soon' in column 'date' is no"),
        (["--min-change", "much"], "ms\n1\n", "--min-change: 'much' is not a size; write 2%"),
        (["--min-change", "-1%"], "ms\n1\n", "--min-change: '-1%' is not a size"),
        (["--min-change", "nan"], "ms\n1\n", "--min-change: 'nan' is not a size"),
        (["--min-change", "2%"], "ms\n1\n-1\n", "--min-change: a value is zero or negative"),
        (["--improvements"], "ms\n1\n", "--improvements: needs --direction; say which direction is better"),
    ],
)
def test_what_cannot_be_looked_at_is_one_line_that_says_what_to_do(gate, arguments, stdin, said):
    refused = gate("detect", "-", *arguments, stdin=stdin)
    assert (refused.code, refused.out) == (2, "")
    assert said in refused.error


@pytest.mark.parametrize(("name", "data", "said"), [
    ("no.csv", None, "does not exist"),
    ("wrong.csv", b"ms\n1\n\xe9\n", "wrong.csv:3: is not UTF-8 text; save it as UTF-8"),
    ("cut.csv.gz", gzip.compress(b"ms\n1\n2\n", mtime=0)[:-9], "cut.csv.gz: is a gzip file that is cut off or damaged"),
    ("cut.json", b'[{"ms": 1}, {"ms"', "cut.json:1: is not valid JSON"),
])  # fmt: skip
def test_a_file_that_cannot_be_read_is_named(gate, name, data, said):
    if data is not None:
        (gate.directory / name).write_bytes(data)
    refused = gate("detect", name)
    assert (refused.code, refused.out) == (2, "")
    assert said in refused.error


def test_a_hostile_table_reaches_no_terminal(gate):
    table = "host,da\x1b[31mte,ms\n" + "\n".join(f"\x1b]0;owned\x07,{day}\x9b,{value}" for day, value in nightly_rows())
    shown = gate("detect", "-", "--group", "host", "--value", "ms", stdin=table)
    assert shown.code == 0
    assert all(sign.isprintable() or sign == "\n" for sign in shown.out)
    refused = gate("detect", "-", "--value", "host", stdin=table)
    assert refused.error.isprintable()


def test_it_needs_no_store_and_makes_none(gate, nightly):
    gate("detect", nightly)
    assert gate.bytes_of_store() is None
