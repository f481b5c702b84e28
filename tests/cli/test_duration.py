"""Durations as people type and read them."""

import contextlib

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regress_gate.cli.options import Duration
from regress_gate.text import duration_text


def seconds(text):
    return Duration().convert(text, None, None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("90s", 90),
        ("45m", 2700),
        ("1h30m", 5400),
        ("1.5h", 5400),
        ("30d", 2_592_000),
        ("1d2h3m4s", 93784),
        (" 2H ", 7200),
        (60.0, 60),
    ],
)
def test_what_people_write_is_understood(text, expected):
    assert seconds(text) == expected


@pytest.mark.parametrize(
    "text",
    ["", "45", "m", "0m", "30m1h", "1h 30m", "-5m", "1e3s", "5000d", "9" * 400 + "d", "45min", "\x1b[31m", "nan"],
)
def test_anything_else_is_refused_in_one_printable_line(text):
    with pytest.raises(click.BadParameter) as refused:
        seconds(text)
    assert refused.value.message.isprintable()


@given(st.text() | st.from_regex(r"\A[0-9dhms. ]*\Z"))
def test_no_text_breaks_it(text):
    with contextlib.suppress(click.BadParameter):
        assert 0 < seconds(text) < 1e8


@pytest.mark.parametrize(
    ("given", "words"),
    [(0, "0 s"), (89, "89 s"), (90, "2 min"), (720, "12 min"), (3599, "1 h 00 min"), (3900, "1 h 05 min")],
)
def test_they_are_reported_as_exactly_as_needed(given, words):
    assert duration_text(given) == words


@given(st.integers(0, 23), st.integers(0, 59))
def test_hours_and_minutes_are_read_back_as_they_were_written(hours, minutes):
    total = hours * 3600 + minutes * 60
    if total >= 90:
        assert seconds(duration_text(total).replace(" ", "").replace("min", "m")) == total
