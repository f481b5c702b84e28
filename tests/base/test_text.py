"""Text from outside becomes harmless, and people's text comes out as people write it."""

import random
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regress_gate.text import (
    MAX_NAME,
    clip,
    did_you_mean,
    drop_escapes,
    excerpt,
    for_encoding,
    is_valid_name,
    natural_key,
    one_line,
    plural,
    quoted,
    sanitise,
    slugify,
)

ESCAPES = ("\x1b[1;31m", "\x1b[2J", "\x1b]0;title\x07", "\x1b]8;;https://evil.example\x1b\\", "\x9b5A", "\x1bc")
INVISIBLE = (
    "\x00",
    "\x07",
    "\x08",
    "\x7f",
    "\x85",
    "\u200b",
    "\u200d",
    "\u202e",
    "\u2066",
    "\ufeff",
    "\ud800",
    "\udfff",
)
SPACES = ("\t", "\n", "\r\n", "\v", "\f", "\x1c", "\u2028", "\u2029", "\xa0", "\u3000")

hostile = st.lists(
    st.one_of(st.sampled_from(["\x1b", *ESCAPES, *INVISIBLE, *SPACES]), st.text(st.characters(), max_size=5)),
    max_size=12,
).map("".join)
"""Text with what a log, a file name or a service may hold, surrogates too."""


def harmless(text: str) -> bool:
    return not any(unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp") for char in text)


@given(text=hostile)
def test_sanitised_text_is_harmless_and_stays_as_it_is(text: str) -> None:
    once = sanitise(text)
    assert harmless(once)
    assert once.splitlines() in ([], [once])
    assert sanitise(once) == once


@given(text=hostile)
def test_one_line_has_no_space_too_many(text: str) -> None:
    line = one_line(text)
    assert harmless(line)
    assert line == " ".join(line.split())
    assert one_line(line) == line


@given(text=hostile, limit=st.integers(1, 30))
def test_an_excerpt_is_harmless_and_short(text: str, limit: int) -> None:
    short = excerpt(text, limit)
    assert harmless(short)
    assert len(short) <= limit + 1
    assert short.endswith("…") or len(text) <= limit


@given(
    value=st.one_of(
        hostile, st.floats(), st.integers(), st.none(), st.lists(hostile), st.dictionaries(hostile, hostile)
    )
)
def test_a_quoted_value_is_harmless_and_short(value: object) -> None:
    assert harmless(quoted(value))
    assert len(quoted(value)) <= 61


@given(text=st.text(st.characters(categories=("L", "N", "P", "S")), max_size=40))
def test_visible_text_is_left_alone(text: str) -> None:
    assert sanitise(text) == one_line(text) == text


@pytest.mark.parametrize("escape", ESCAPES)
def test_what_an_escape_sequence_would_do_is_gone(escape: str) -> None:
    assert sanitise(f"{escape}OOM").lstrip("\ufffd") == "OOM"


def test_escapes_can_be_dropped_alone() -> None:
    assert drop_escapes("\x1b[31ma\tb\x1b[0m\n") == "a\tb\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("  a \r\n\t b  ", "a b"),
        ("\x1b[1;31mOOM\x1b[0m", "OOM"),
        ("\x1b]8;;https://evil.example\x07click\x1b]8;;\x07", "click"),
        ("\x1b]0;title\x1b\\x", "x"),
        ("\x1b\x1b[31m[2J", "\ufffd[2J"),
        ("a\x00b", "a\ufffdb"),
        ("safe\u202eexe.gpj", "safe\ufffdexe.gpj"),
        ("a\u200bb", "a\ufffdb"),
        ("a\ud800b", "a\ufffdb"),
    ],
)
def test_one_line(text: str, expected: str) -> None:
    assert one_line(text) == expected


def test_two_texts_that_differ_in_what_is_invisible_still_differ() -> None:
    assert len({sanitise(text) for text in ("model", "mo\u200bdel", "model\u202e")}) == 3


def test_a_path_keeps_its_spaces() -> None:
    assert sanitise("two  spaces .json ") == "two  spaces .json "


@given(text=st.text(max_size=50), limit=st.integers(1, 60))
def test_a_clipped_text_keeps_its_ends(text: str, limit: int) -> None:
    clipped = clip(text, limit)
    assert len(clipped) <= limit
    assert clipped == text or "…" in clipped


@pytest.mark.parametrize(
    ("text", "encoding", "expected"),
    [
        ("0.19 → 0.20, −1 ± 2 × 3…", "ascii", "0.19 -> 0.20, -1 +/- 2 x 3..."),
        ("±é→", "latin-1", "±é->"),
        ("é中", "ascii", "e?"),
        ("é中", "utf-8", "é中"),
        ("→", "no-such-encoding", "->"),
    ],
)
def test_for_encoding(text: str, encoding: str, expected: str) -> None:
    assert for_encoding(text, encoding) == expected


@given(text=hostile, encoding=st.sampled_from(["ascii", "latin-1", "cp1252", "utf-8", "no-such-encoding"]))
def test_text_for_an_encoding_can_be_written_in_it(text: str, encoding: str) -> None:
    shown = for_encoding(sanitise(text), encoding)
    shown.encode("ascii" if encoding.startswith("no-") else encoding)


@pytest.mark.parametrize(
    ("count", "expected"), [(0, "0 runs"), (1, "1 run"), (2, "2 runs"), (1_000_000, "1000000 runs")]
)
def test_plural(count: int, expected: str) -> None:
    assert plural(count, "run") == expected


def test_a_plural_of_its_own() -> None:
    assert plural(1, "entry", "entries") == "1 entry"
    assert plural(3, "entry", "entries") == "3 entries"
    assert plural(2, "of them is", "of them are") == "2 of them are"


def test_names_are_in_the_order_of_their_numbers() -> None:
    expected = ["", "run", "run1", "run01x", "run2", "run2-1", "run10", "run10a"]
    names = expected.copy()
    random.Random(1).shuffle(names)
    assert sorted(names, key=natural_key) == sorted(expected, key=natural_key)
    assert sorted(["run10", "run9", "run"], key=natural_key) == ["run", "run9", "run10"]
    assert sorted(["2.10", "2.9", "10.1"], key=natural_key) == ["2.9", "2.10", "10.1"]


@given(one=hostile, other=hostile)
def test_any_two_names_have_an_order_and_only_equal_ones_are_equal(one: str, other: str) -> None:
    assert (natural_key(one) < natural_key(other)) + (natural_key(other) < natural_key(one)) == (one != other)


def test_a_number_of_any_length_has_its_place() -> None:
    assert natural_key("run" + "9" * 10_000) < natural_key("run1" + "0" * 10_000)


@given(text=hostile)
def test_a_slug_is_a_name_or_empty(text: str) -> None:
    slug = slugify(text)
    assert slugify(slug) == slug
    assert not slug or is_valid_name(slug[:MAX_NAME].rstrip("-._+="))


@pytest.mark.parametrize("name", ["a", "A100 x8", "run=3", "0.19.1+cpu", "x" * MAX_NAME])
def test_a_valid_name(name: str) -> None:
    assert is_valid_name(name)


@pytest.mark.parametrize("name", ["", " a", "a ", "-a", "a/b", "a\nb", "a\u202eb", "é", "x" * (MAX_NAME + 1)])
def test_an_invalid_name(name: str) -> None:
    assert not is_valid_name(name)


def test_the_nearest_name_is_suggested() -> None:
    assert did_you_mean("ttft_p9", ["ttft_p99", "itl_p99"]) == " (did you mean 'ttft_p99'?)"
    assert did_you_mean("zzz", ["a", "b"]) == " (known: a, b)"
    assert did_you_mean("zzz", ["a", "b", "c"], limit=2) == " (known: a, b, …)"
    assert did_you_mean("zzz", []) == ""
