"""The terminal report: fits its width, obeys nothing that it prints, and says what it does not know."""

import re
import unicodedata
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from regress_gate.model.issue import Applies, Status
from regress_gate.model.result import Decision, Result, Verdict
from regress_gate.report import RenderOptions
from tests.factories.results import (
    EVERY_KIND,
    a_result,
    a_series,
    an_issue,
    crowded,
    failing,
    filled_with,
    passing,
    render_result,
)

from .strategies import hostile_text

kinds = pytest.mark.parametrize("build", EVERY_KIND.values(), ids=EVERY_KIND)
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def table(result: Result, **options: Any) -> str:
    return render_result(result, "table", RenderOptions(**options))


def assert_plain_and_within(text: str, width: int) -> None:
    for line in text.split("\n"):
        assert cell_len(line) <= width, line
        assert line == line.rstrip()
        assert not [char for char in line if unicodedata.category(char) in ("Cc", "Cf", "Cs")], ascii(line)


@kinds
@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "latin-1"])
def test_every_report_fits_every_width(build: Callable[[], Result], width: int, encoding: str) -> None:
    text = table(build(), width=width, encoding=encoding, verbose=True)
    assert_plain_and_within(text, width)
    text.encode(encoding)


@given(text=hostile_text, width=st.integers(40, 200), encoding=st.sampled_from(["utf-8", "ascii"]))
def test_no_text_from_outside_breaks_a_line_or_reaches_the_terminal(text: str, width: int, encoding: str) -> None:
    assert_plain_and_within(table(filled_with(text), width=width, encoding=encoding, verbose=True), width)


@given(text=hostile_text)
def test_in_colour_the_only_escape_sequences_are_our_own_colours(text: str) -> None:
    coloured = table(filled_with(text), color=True, width=100)
    without = COLOUR.sub("", coloured)
    assert [line.rstrip() for line in without.split("\n")] == table(filled_with(text), width=100).split("\n")


def test_markup_of_the_terminal_library_is_shown_and_not_applied() -> None:
    assert "[red]hot[/red]" in table(a_result(advice="[red]hot[/red] :tada:"), color=True)
    assert ":tada:" in table(a_result(advice="[red]hot[/red] :tada:"), color=True)


def test_the_environment_does_not_change_what_the_options_say(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, coloured = table(failing()), table(failing(), color=True)
    for name, value in (("COLUMNS", "33"), ("NO_COLOR", "1"), ("TERM", "dumb"), ("FORCE_COLOR", "1")):
        monkeypatch.setenv(name, value)
        assert table(failing()) == plain
        assert table(failing(), color=True) == coloured


def test_the_advice_is_the_last_line_and_the_decision_the_first() -> None:
    lines = table(failing()).splitlines()
    assert lines[0] == "FAIL: do not move   vLLM 0.19.0 → 0.20.1"
    assert lines[-1] == failing().advice


def test_an_exit_code_that_is_not_the_decisions_own_is_said() -> None:
    reported_only = a_result(decision=Decision.FAIL, exit_code=0)
    assert table(reported_only).startswith("FAIL: do not move (exit code 0)")


def test_an_undecided_series_says_how_many_more_runs_it_needs() -> None:
    undecided = a_series(verdict=Verdict.UNDECIDED, runs=(3, 5), runs_needed=9)
    result = a_result(series=[undecided])
    assert re.search(r"undecided\n.*needs 4 more$", table(result), re.MULTILINE)
    assert "undecided, needs 4 more (runs a side)" in table(result, width=60)
    assert re.search(r"undecided +needs 4 more$", table(result, width=140), re.MULTILINE)


@pytest.mark.parametrize("runs_needed", [None, 5, 2])
def test_no_number_of_runs_is_promised_where_none_is_known(runs_needed: int | None) -> None:
    result = a_result(series=[a_series(verdict=Verdict.UNDECIDED, runs_needed=runs_needed)])
    assert "needs" not in table(result, width=140)


def test_series_that_do_not_gate_are_counted_unless_they_are_worse_or_asked_for() -> None:
    brief, full = table(failing()), table(failing(), verbose=True)
    assert "  itl_p99 " in brief
    assert "e2el_p99" not in brief
    assert "Not shown: 1 not gated; -v shows them." in brief
    assert "e2el_p99" in full
    assert "Not shown" not in full


def test_among_very_many_series_those_that_decide_are_not_drowned() -> None:
    brief = table(crowded())
    assert brief.count("regression\n") == 4
    assert "* output_throughput" not in brief
    assert "Not shown: 112 gated (within_margin or improvement), 80 not gated; -v shows them." in " ".join(
        brief.split()
    )
    assert table(crowded(), verbose=True, width=200).count("ttft_mean") == 40


def test_a_footnote_is_said_once_however_many_series_bear_it() -> None:
    text = table(failing(), verbose=True, width=120)
    assert text.count("rests on its two slowest requests") == 1
    assert len(re.findall(r"\[1\]", text)) == 3


def test_a_closed_issue_is_never_called_fixed() -> None:
    result = a_result(known_issues=[an_issue(status=Status.CLOSED_UNFIXED, status_why="closed as stale")])
    assert "closed, not known to be fixed: closed as stale" in table(result)


def test_issues_that_do_not_apply_are_only_counted() -> None:
    text = table(passing())
    assert "2 do not apply." in text
    assert "VLLM-40111" not in text


def test_issues_are_ordered_by_effect_and_then_by_whether_they_apply() -> None:
    order = ["New with this move", "VLLM-28882", "VLLM-30101", "Carried over", "VLLM-27007", "Resolved", "VLLM-25555"]
    brief = [*order[:2], *order[3:], "May be new", "VLLM-30101"]
    for told, expected in ((table(failing(), verbose=True), order), (table(failing()), brief)):
        _, issues = told.split("\nKnown issues\n")
        places = [issues.index(name) for name in expected]
        assert places == sorted(places)
    assert "VLLM-28882, high performance, BLOCKS" in table(failing())


def test_a_workaround_is_shown_as_it_is_typed() -> None:
    text = table(failing(), verbose=True)
    for typed in (
        "VLLM_MOE_USE_DEEP_GEMM=0",
        "--prefix-caching-hash-algo builtin",
        "--gpu-memory-utilization 0.85",
        "--enforce-eager",
    ):
        assert re.search(rf"^ +{re.escape(typed)}$", text, re.MULTILINE)


def test_a_check_has_no_series_and_starts_with_the_known_issues() -> None:
    text = table(EVERY_KIND["check"]())
    assert "Series" not in text
    assert text.splitlines()[2] == "Known issues"


def test_nothing_measured_and_nothing_known_is_not_called_good() -> None:
    text = table(a_result(decision=Decision.INCONCLUSIVE, exit_code=3))
    assert "No series was measured on both sides." in text
    assert "That is not proof that there are none." in text


def test_an_unknown_applicability_is_not_an_answer() -> None:
    result = a_result(known_issues=[an_issue(applies=Applies.UNKNOWN, why="max_model_len is not given")])
    assert "needs more facts: max_model_len is not given" in table(result, verbose=True)
    assert "1 may apply." in table(result)


def test_a_very_long_scenario_keeps_both_its_ends() -> None:
    text = table(a_result(series=[a_series("begin-" + "x" * 500 + "-end")]))
    assert "begin-" in text
    assert "-end\n" in text
    assert text.count("x") < 200
