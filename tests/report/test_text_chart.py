"""Series as pictures of text, whatever the numbers and the reader's terminal."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regress_gate.report.render.text_chart import ROWS, bar, chart, sparkline

values = st.lists(st.floats(allow_infinity=False), min_size=1, max_size=300).filter(
    lambda found: not np.isnan(found).all()
)


def test_a_line_of_blocks_follows_the_values():
    assert sparkline(np.array([1.0, 2, 3, np.nan, 8]), 10) == "▁▂▃ █"
    assert sparkline(np.array([1.0, 2, 3, np.nan, 8]), 10, "ascii") == "_.- #"


def test_more_points_than_signs_are_drawn_as_medians():
    steps = np.repeat([1.0, 2.0], 500)
    steps[3] = 1000.0
    assert sparkline(steps, 4) == "▁▁██"


def test_what_hardly_moves_is_no_mountain_range():
    level = np.array([100.0, 100.4, 99.6])
    assert sparkline(level, 3) == "▅█▁"
    assert set(sparkline(level, 3, least_span=10)) <= {"▄", "▅"}


def test_equal_values_stand_in_the_middle():
    assert sparkline(np.array([5.0, 5.0]), 9) == "▄▄"


def test_a_bar_is_as_long_as_the_value_and_nothing_for_none():
    assert bar(5, 10, 8) == "████"
    assert bar(1e-9, 10, 8, "ascii") == "#"
    assert bar(0, 10, 8) == bar(-5, 10, 8) == bar(5, 0, 8) == ""


CHART = """\
 2.000 │                    ▀▀▀▀▀▀▀▀▀▀▀▀
       │
       │
       │                ▀▀▀▀
       │
       │
 1.000 │▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄
                        ^1  ^2
        monday                 wednesday"""


def test_a_chart_marks_its_changes():
    found = chart(np.array([1.0, 1, 1, 1, 1.5, 2, 2, 2]), [4, 5], ("monday", "wednesday"), 60)
    assert "\n".join(found) == CHART


def test_a_chart_says_how_many_points_a_column_stands_for():
    assert "medians of 17 points" in chart(np.arange(1000.0), [], ("0", "999"), 70)[-1]


def test_the_labels_are_those_of_what_is_drawn():
    steps = np.repeat([1.0, 2.0], 500)
    steps[3] = 1000.0
    drawn = chart(steps, [], ("0", "999"), 40)
    assert drawn[0].split()[0] == "2.000"
    written = chart(steps, [], ("0", "999"), 40, label=lambda value: f"{value:.0f} ms")
    assert (written[0].split("│")[0], written[ROWS - 1].split("│")[0]) == (" 2 ms ", " 1 ms ")


def test_ends_without_room_beside_each_other_stand_below_each_other():
    first, last = (f"2026-01-{day}T00:00:00.000000+00:00" for day in ("01", "13"))
    assert chart(np.array([1.0, 2.0]), [], (first, last), 50)[ROWS:] == [f"        {first} to", f"        {last}"]
    assert chart(np.array([1.0, 2.0]), [], (first, last), 35)[ROWS:] == [f"{first} to", f"   {last}"]


def test_a_mark_without_room_beside_the_one_before_is_left_out():
    assert chart(np.arange(60.0), [10, 11, 30], ("", ""), 70)[ROWS].split() == ["^1", "^3"]


@given(values, st.integers(10, 200), st.sampled_from(["utf-8", "ascii", "latin-1", "no-such-encoding"]))
def test_any_series_fits_its_width_in_signs_that_the_reader_has(found, width, encoding):
    series = np.array(found)
    lines = chart(series, [len(found) // 2], ("first", "last"), max(width, 40), encoding)
    assert len(lines) == ROWS + 2
    assert all(len(line) <= max(width, 40) for line in lines)
    line = sparkline(series, width, encoding)
    assert len(line) == min(width, len(found))
    if encoding != "utf-8":
        assert "".join([*lines, line]).isascii()


@pytest.mark.parametrize("shift", [0.0, 1e6])
def test_the_highest_and_the_lowest_value_touch_the_ends(shift):
    line = sparkline(np.array([1.0, 4.0, 2.0]) + shift, 3)
    assert (line[0], line[1]) == ("▁", "█")
