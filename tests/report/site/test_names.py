"""Names of the dashboard's files: stable, safe and different for different things."""

import re
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from regress_gate.model.run import SuiteRef
from regress_gate.model.version import Version
from regress_gate.report.site.names import comparison_name, place_name, series_name
from regress_gate.store.store_interface import StoredComparison

SAFE = re.compile(r"[a-z0-9](?:[a-z0-9]|-(?!\Z))*")
TEXTS = st.text(max_size=300)


def test_names_never_change() -> None:
    """They are addresses that people keep: whoever changes one of these breaks their links."""
    assert place_name("cpu-2core", SuiteRef("cpu-tiny", "1")) == "cpu-2core--cpu-tiny-1-e73a293bbe"
    assert series_name("c4", "ttft_median") == "c4-ttft-median-1bd3d125ca"
    made = StoredComparison(
        datetime(2026, 11, 23, 3, 36, 13, tzinfo=UTC), "lab", SuiteRef("chat", "1"), Version.parse("0.19.0"),
        Version.parse("0.19.1"), "pass", "2bc7493bda" + "0" * 54,
    )  # fmt: skip
    assert comparison_name(made) == "20261123t033613z-2bc7493bda"


@given(TEXTS, TEXTS, TEXTS)
def test_any_text_becomes_a_safe_name(testbed: str, suite: str, version: str) -> None:
    for name in (place_name(testbed, SuiteRef(suite, version)), series_name(testbed, suite)):
        assert SAFE.fullmatch(name), name
        assert len(name) <= 140


@given(st.lists(st.tuples(TEXTS, TEXTS), unique=True, max_size=20))
def test_different_series_have_different_names_also_where_case_does_not_count(pairs: list[tuple[str, str]]) -> None:
    names = [series_name(*pair).lower() for pair in pairs]
    assert len(set(names)) == len(names)


def test_names_that_differ_only_in_case_or_signs_stay_apart() -> None:
    alike = ["Chat", "chat", "cHAT", "chat ", "chat/", "../chat", "chat\0", "ｃｈａｔ", "", "..", "CON", "<script>"]
    names = {series_name(text, "ttft_median") for text in alike}
    assert len({name.lower() for name in names}) == len(alike)
