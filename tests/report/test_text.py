"""Text from outside as harmless text."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regress_gate.text import clip, for_encoding, one_line


@pytest.mark.parametrize(
    ("text", "told"),
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
def test_clean(text: str, told: str) -> None:
    assert one_line(text) == told


@given(text=st.text(st.characters()))
def test_clean_text_stays_as_it_is(text: str) -> None:
    once = one_line(text)
    assert one_line(once) == once
    assert not [char for char in once if unicodedata.category(char) in ("Cc", "Cf", "Cs")]


@given(text=st.text(max_size=50), limit=st.integers(1, 60))
def test_a_clipped_text_keeps_its_ends(text: str, limit: int) -> None:
    clipped = clip(text, limit)
    assert len(clipped) <= limit
    assert clipped == text or "…" in clipped


@pytest.mark.parametrize(
    ("text", "encoding", "told"),
    [
        ("0.19 → 0.20, −1 ± 2 × 3…", "ascii", "0.19 -> 0.20, -1 +/- 2 x 3..."),
        ("±é→", "latin-1", "±é->"),
        ("é中", "ascii", "e?"),
        ("é中", "utf-8", "é中"),
        ("→", "no-such-encoding", "->"),
    ],
)
def test_for_encoding(text: str, encoding: str, told: str) -> None:
    assert for_encoding(text, encoding) == told
