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


def test_the_decision_is_the_first_line_and_the_advice_the_second() -> None:
    lines = table(failing()).splitlines()
    assert lines[:2] == ["FAIL: do not move   vLLM 0.19.0 → 0.20.1", failing().advice]


def test_a_reason_that_only_repeats_a_row_of_the_table_is_left_to_the_table() -> None:
    brief, full = (table(failing(), width=140, verbose=verbose) for verbose in (False, True))
    assert "regression: chat-c8/ttft_p99 is 48.5 % worse" not in brief
    assert "regression: chat-c8/ttft_p99 is 48.5 % worse" in full
    for kept in ("server failed: ", "flag removed: ", "known issue: ", "undecided: "):
        assert f"  -  {kept}" in brief


def test_a_long_report_ends_with_the_decision_too() -> None:
    lines = table(failing(), verbose=True, width=200).splitlines()
    assert lines[-1] == f"FAIL: do not move. {failing().advice}"


def test_the_order_is_answer_then_series_then_issues_then_settings() -> None:
    for verbose in (False, True):
        text = table(failing(), verbose=verbose)
        titles = ["Series", "Causes of the regressions", "Known issues", "Changed settings", "Waivers", "Warnings"]
        places = [text.index(f"\n{title}\n") for title in titles]
        assert places == sorted(places)


def test_a_pass_is_one_screen() -> None:
    assert len(table(passing(), width=100).splitlines()) <= 40
    assert "all within margin" not in table(passing()), "the advice says it"
    assert "all within margin" in table(passing(), verbose=True)


def test_an_exit_code_that_is_not_the_decisions_own_is_said() -> None:
    reported_only = a_result(decision=Decision.FAIL, exit_code=0)
    assert table(reported_only).startswith("FAIL: do not move (exit code 0)")


def test_an_undecided_series_says_how_many_more_runs_it_needs() -> None:
    undecided = a_series(verdict=Verdict.UNDECIDED, runs=(3, 5), runs_needed=9)
    result = a_result(series=[undecided])
    assert re.search(r"undecided\n.*needs 6 more$", table(result), re.MULTILINE)
    assert "undecided, needs 6 more (runs a side)" in table(result, width=60)
    assert re.search(r"undecided +needs 6 more$", table(result, width=140), re.MULTILINE)


@pytest.mark.parametrize("runs_needed", [None, 5, 2])
def test_no_number_of_runs_is_promised_where_none_is_known(runs_needed: int | None) -> None:
    result = a_result(series=[a_series(verdict=Verdict.UNDECIDED, runs_needed=runs_needed)])
    assert "needs" not in table(result, width=140)


def test_series_that_do_not_gate_are_counted_unless_they_are_worse_or_asked_for() -> None:
    brief, full = table(failing()), table(failing(), verbose=True)
    assert "itl_p99  " in brief
    assert "e2el_p99" not in brief
    assert "2 more do not gate; -v shows all in full." in " ".join(brief.split())
    assert "e2el_p99" in full
    assert "-v shows" not in full


def test_without_anything_worse_or_undecided_the_series_nearest_to_its_margin_is_shown() -> None:
    brief = table(passing(), width=140)
    rows = re.findall(r"^  (\S+_\S+) +(\S+-c\d+) ", brief, re.MULTILINE)
    assert rows == [("output_throughput", "batch-c256")]


def test_a_change_has_the_sign_of_what_happened_and_says_whether_that_is_good() -> None:
    faster = a_series(name="output_throughput", means=(900.0, 1122.0), change=-0.247, interval=(-0.26, -0.23))
    slower = a_series(name="output_throughput", means=(900.0, 810.0), change=0.1, interval=(0.08, 0.12))
    later = a_series(name="ttft_p99", change=0.1, interval=(0.08, 0.12))
    same = a_series(name="failed_requests", means=(0.0, 0.0), change=0.0, interval=(0.0, 0.0))
    for one, shown in (
        (faster, r"\+24\.7% better \[\+23\.0, \+26\.0\]"),
        (slower, r"−10\.0% worse +\[−12\.0, −8\.0\]"),
        (later, r"\+10\.0% worse +\[\+8\.0, \+12\.0\]"),
        (same, r"0\.0 pp +\[0\.0, 0\.0\]"),
    ):
        assert re.search(shown, table(a_result(series=[one]), width=140, verbose=True))


def test_the_grid_has_a_sign_for_each_gated_series() -> None:
    rows = re.findall(r"^  (scenario|chat-c8|batch-c256)  (.+)$", table(failing()), re.MULTILINE)
    assert [(title, line.split()) for title, line in rows] == [
        ("scenario", ["mean", "p99", "mean", "throughput", "requests"]),
        ("chat-c8", ["?", "✗", "✓"]),
        ("batch-c256", ["✗", "?"]),
    ]
    legend = "5 gated series: ✗ 2 regressions, ? 2 undecided, ✓ 1 within_margin."
    assert legend in table(failing())
    assert legend.replace("✗", "X").replace("✓", "=") in table(failing(), encoding="ascii")


def test_a_grid_that_is_too_wide_goes_on_below_with_the_rows_that_have_something_there() -> None:
    series = [a_series(scenario, name) for scenario in ("c1", "c4") for name in ("ttft_median", "e2el_median")]
    series += [a_series("server", name) for name in ("startup_time", "peak_memory", "kv_cache_tokens")]
    lines = [line.split() for line in table(a_result(series=series), width=40).splitlines()]
    first, second = (number for number, words in enumerate(lines) if words[:1] == ["scenario"])
    assert [words[0] for words in lines[first + 1 : first + 4]] == ["c1", "c4", "server"]
    assert [words[0] for words in lines[second + 1 : second + 2]] == ["server"]
    assert max(map(len, table(a_result(series=series), width=40).splitlines())) <= 40


def test_among_very_many_series_those_that_decide_are_not_drowned() -> None:
    brief = table(crowded())
    assert brief.count("regression\n") == 4
    assert "output_throughput" not in brief
    assert "36 more scenarios with nothing worse or undecided" in brief
    assert "✓ 112 within_margin. 80 more do not gate; -v shows all in full." in " ".join(brief.split())
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
    brief = [*order[:3], "VLLM-27007"]
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
    assert text.splitlines()[1] == EVERY_KIND["check"]().advice
    assert text.index("known issue: applies to you and blocks") < text.index("\nKnown issues\n")


def test_nothing_measured_and_nothing_known_is_not_called_good() -> None:
    text = table(a_result(decision=Decision.INCONCLUSIVE, exit_code=3))
    assert "No series was measured on both sides." in text
    assert "That is not proof that there are none." in text


def test_an_unknown_applicability_is_not_an_answer() -> None:
    result = a_result(known_issues=[an_issue(applies=Applies.UNKNOWN, why="max_model_len is not given")])
    assert "needs more facts: max_model_len is not given" in table(result, verbose=True)
    assert "1 may apply." in table(result)


def test_a_very_long_scenario_keeps_both_its_ends() -> None:
    result = a_result(series=[a_series("begin-" + "x" * 500 + "-end")])
    for verbose, end in ((False, "-end"), (True, "-end\n")):
        text = table(result, verbose=verbose)
        assert "begin-" in text
        assert end in text
        assert text.count("x") < 200
