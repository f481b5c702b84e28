"""Which known issues a person is shown, how many of them, and in which words: the same for table and Markdown."""

import re
from typing import Any

import pytest

from regress_gate.gate.reasons import issue_tally
from regress_gate.model.issue import Applies, Effect, IssueKind, Severity
from regress_gate.model.result import Decision, IssueObservation, KnownIssueOut, Reason, ReasonCode, Result
from regress_gate.report import RenderOptions
from regress_gate.report.views import issues_view
from tests.factories.results import a_result, an_issue, render_result, unsettled

both = pytest.mark.parametrize("format_", ["table", "markdown"])


def shown(result: Result, format_: str = "table", *, verbose: bool = False, width: int = 80) -> str:
    return render_result(result, format_, RenderOptions(verbose=verbose, width=width))


def unknown(number: int, why: str = "the model is not known (--model)", **changes: Any) -> KnownIssueOut:
    missing = re.findall(r"\((--(?:engine-arg )?[\w-]+)", why)
    return an_issue(number, **{"applies": Applies.UNKNOWN, "why": why, "missing": missing, **changes})


def compared(*issues: KnownIssueOut, **changes: Any) -> Result:
    return a_result(known_issues=list(issues), **changes)


def checked(*issues: KnownIssueOut, **changes: Any) -> Result:
    return a_result(command="check", suite=None, testbed=None, known_issues=list(issues), **changes)


@both
@pytest.mark.parametrize(("make", "most"), [(checked, 10), (compared, 5)], ids=["check", "compare"])
def test_issues_that_need_more_facts_get_few_lines_and_the_rest_is_counted(make: Any, most: int, format_: str) -> None:
    text = shown(make(*map(unknown, range(101, 131))), format_)
    if (make, format_) == (compared, "table"):  # one screen
        assert len(set(re.findall(r"VLLM-1\d\d", text))) == 2
        assert "30 may apply; -v shows 28 more." in text
        return
    assert len(set(re.findall(r"VLLM-1\d\d", text))) == most
    assert f"and {30 - most} more: -v shows them" in text


def test_a_comparison_on_a_terminal_cuts_nothing_that_is_severe_or_that_the_move_brings() -> None:
    severe = [an_issue(number, effect=Effect.CARRIED) for number in range(1, 4)]
    brought = [an_issue(number, severity=Severity.MEDIUM) for number in range(4, 9)]
    text = shown(compared(*severe, *brought, *map(unknown, range(101, 131))), "table")
    assert text.count("VLLM_MOE_USE_DEEP_GEMM=0") == 3
    assert all(f"VLLM-{number}, medium performance, new: " in text for number in range(4, 9))
    assert "VLLM-101" not in text


@both
def test_verbose_shows_all_of_them_in_full(format_: str) -> None:
    text = shown(checked(*map(unknown, range(101, 131))), format_, verbose=True)
    assert len(set(re.findall(r"VLLM-1\d\d", text))) == 30
    assert text.count("needs more facts: the model is not known") == 30
    assert "-v" not in text


def test_what_the_move_may_bring_comes_first_and_then_the_most_severe() -> None:
    issues = [
        unknown(1, effect=Effect.CARRIED, severity=Severity.CRITICAL),
        unknown(2, severity=Severity.LOW),
        unknown(3, severity=Severity.CRITICAL),
        unknown(4, effect=Effect.RESOLVED, severity=Severity.CRITICAL),
    ]
    groups = issues_view.select_issues(checked(*issues)).undecided
    assert [[line.id for line in group.short] for group in groups] == [["VLLM-3", "VLLM-2"], ["VLLM-1"], ["VLLM-4"]]


@pytest.mark.parametrize("width", [80, 100, 140])
def test_an_issue_that_needs_more_facts_is_one_line_with_the_missing_fact(width: int) -> None:
    why = "the engine argument tensor_parallel_size is not known (--engine-arg tensor_parallel_size=…); x (--model)"
    lines = shown(checked(unknown(1, why=why)), width=width).splitlines()
    (line,) = [line for line in lines if "VLLM-1" in line]
    assert line.startswith("  VLLM-1, high performance: DeepGEMM")
    assert line.endswith("(tensor_parallel_size +1)")


def test_without_a_flag_the_reason_itself_is_shown() -> None:
    assert "(0.20.0 is not known)" in shown(checked(unknown(1, why="0.20.0 is not known")), width=140)


def test_markdown_names_every_missing_fact() -> None:
    why = "the platform is not known (--accelerator or --platform); the variable A is not known (--env A=…)"
    assert "--accelerator, --env)" in shown(checked(unknown(1, why=why)), "markdown")


@both
def test_a_comparison_names_the_facts_that_would_settle_most(format_: str) -> None:
    both_missing = "the model is not known (--model); the platform is not known (--accelerator or --platform)"
    resolved = unknown(4, effect=Effect.RESOLVED)
    text = shown(
        compared(
            unknown(1),
            unknown(2),
            unknown(3, both_missing),
            unknown(5, both_missing),
            resolved,
            decision=Decision.INCONCLUSIVE,
        ),
        format_,
    )
    assert "facts that would settle most: --serve-command or --deployment (4), --accelerator (2)" in " ".join(
        text.split()
    )
    assert "settle" not in shown(compared(unknown(1)), format_)


@both
def test_what_the_baseline_has_too_is_a_line_unless_it_blocks(format_: str) -> None:
    light = an_issue(1, effect=Effect.CARRIED, severity=Severity.MEDIUM)
    text = shown(compared(light, an_issue(2, effect=Effect.CARRIED, blocks=True)), format_)
    assert "closed as stale" in text.partition("VLLM-2")[2].partition("VLLM-1")[0]
    assert "closed as stale" not in text.partition("VLLM-1")[2]
    without_baseline = checked(an_issue(1, effect=Effect.CARRIED), baseline=None)
    assert "closed as stale" in shown(without_baseline, format_)


def test_the_line_of_a_carried_issue_says_what_a_short_one_must_not_hide() -> None:
    changes: dict[str, Any] = {
        "effect": Effect.CARRIED,
        "severity": Severity.MEDIUM,
        "applies": Applies.MITIGATED,
        "version_regression": False,
    }
    assert "(mitigated, no version is free of it)" in shown(compared(an_issue(1, **changes)), "markdown")


@both
def test_a_record_that_is_no_bug_is_shown_only_if_it_applies_or_matches_the_measurements(format_: str) -> None:
    def told(**changes: Any) -> bool:
        return "VLLM-38576" in shown(compared(unknown(38576, kind=IssueKind.NOT_A_BUG, **changes)), format_)

    assert not told()
    assert told(applies=Applies.YES)
    assert told(measured=IssueObservation.EXPLAINS, matched_series=["chat/ttft_p99"])


@both
def test_an_issue_that_matches_the_measurements_is_shown_in_full_without_all_facts(format_: str) -> None:
    text = shown(compared(unknown(1, measured=IssueObservation.EXPLAINS, matched_series=["chat/ttft_p99"])), format_)
    assert "needs more facts: the model is not known" in text


LOW = {"severity": Severity.LOW, "kind": IssueKind.DEFAULT_CHANGE}


def deciding(*numbers: int) -> list[Reason]:
    return [Reason(code=ReasonCode.UNDECIDED, issue=f"VLLM-{n}", text=f"VLLM-{n} would block") for n in numbers]


@both
def test_what_decides_stands_in_full_with_link_and_workaround_though_a_fact_is_missing(format_: str) -> None:
    issues = [unknown(1), unknown(2), unknown(3, severity=Severity.CRITICAL)]
    text = shown(checked(*issues, reasons=deciding(2, 3)), format_).partition("Reasons")[0]
    assert text.count("Use the Triton kernels") == 2
    assert text.count("VLLM_MOE_USE_DEEP_GEMM") == 2
    assert text.rindex("VLLM-3") < text.rindex("VLLM-2") < text.rindex("VLLM-1")


OPT_IN: dict[str, Any] = {"severity": Severity.MEDIUM, "missing": ["--engine-arg enable_sleep_mode"]}


@both
def test_what_only_the_launch_line_could_tell_is_one_line_of_a_check(format_: str) -> None:
    opt_ins = [unknown(number, **OPT_IN) for number in range(101, 104)]
    opt_ins += [unknown(104, **{**OPT_IN, "missing": ["--env VLLM_MXFP4_USE_MARLIN"]})]
    opt_ins += [unknown(105, **{**OPT_IN, "missing": ["--feature structured_output"]})]
    others = [unknown(201), unknown(202, **{**OPT_IN, "severity": Severity.HIGH}), unknown(203, severity=Severity.LOW)]
    text = shown(checked(*opt_ins, *others), format_)
    assert set(re.findall(r"VLLM-\d+", text)) == {"VLLM-201", "VLLM-202", "VLLM-203"}
    assert "3 may apply; 5 more wait for --serve-command or --deployment." in " ".join(text.split())
    assert shown(checked(*opt_ins, *others), format_, verbose=True).count("VLLM-10") >= 5
    assert "VLLM-101" in shown(checked(*opt_ins, reasons=deciding(101)), format_)
    assert "VLLM-101" in shown(checked(*opt_ins[:1]), format_)


@both
def test_a_launch_line_that_was_given_is_not_asked_for(format_: str) -> None:
    given = checked(*[unknown(number, **OPT_IN) for number in range(101, 106)], launch_line_is_complete=True)
    text = shown(given, format_)
    assert "--serve-command" not in text
    assert len(set(re.findall(r"VLLM-\d+", text))) == 5


@both
def test_what_only_the_environment_could_tell_is_one_line_of_a_check(format_: str) -> None:
    driver: dict[str, Any] = {"severity": Severity.MEDIUM, "missing": ["--collect-env", "--distribution"]}
    python: dict[str, Any] = {"severity": Severity.LOW, "missing": ["--collect-env"]}
    others = [
        unknown(201, **{**driver, "severity": Severity.HIGH}),
        unknown(202, **{**python, "missing": ["--collect-env", "--model"]}),
        unknown(203, **{**python, "missing": ["--distribution"]}),
    ]
    result = checked(unknown(101, **driver), unknown(102, **python), *others, launch_line_is_complete=True)
    text = " ".join(shown(result, format_).split())
    assert set(re.findall(r"VLLM-\d+", text)) == {"VLLM-201", "VLLM-202", "VLLM-203"}
    assert "3 may apply; 2 more depend on the driver, Python or libraries, which --collect-env gives." in text
    assert "VLLM-101" in shown(checked(unknown(101, **driver)), format_)


@both
def test_one_report_has_one_number_of_issues_that_may_apply(format_: str) -> None:
    resolved = [unknown(number, effect=Effect.RESOLVED) for number in (4, 5)]
    result = compared(unknown(1), unknown(2), an_issue(3, severity=Severity.LOW), *resolved)
    counted = "1 applies, 4 may apply (2 resolved)"
    assert issue_tally(result.known_issues) == counted
    assert counted in " ".join(shown(result, format_).split())
    assert issue_tally([an_issue(1, effect=Effect.RESOLVED)]) == "1 applies (resolved)"


@both
def test_what_decides_is_never_cut_where_the_accelerator_is_known(format_: str) -> None:
    text = shown(checked(*map(unknown, range(101, 131)), reasons=deciding(*range(101, 121))), format_)
    assert len(set(re.findall(r"VLLM-1\d\d", text))) == 20
    assert "and 10 more: -v shows them" in text


@both
def test_low_findings_come_last_in_one_line_each(format_: str) -> None:
    text = shown(checked(an_issue(1, **LOW), an_issue(2, effect=Effect.CARRIED), unknown(3)), format_)
    assert text.rindex("VLLM-2") < text.rindex("VLLM-3") < text.rindex("VLLM-1")
    assert text.count("closed as stale") == 1
    assert "Of low severity" in text
    assert shown(checked(an_issue(1, **LOW)), format_, verbose=True).count("closed as stale") == 1


@both
def test_a_low_finding_that_blocks_or_was_measured_is_no_small_matter(format_: str) -> None:
    measured = {"measured": IssueObservation.EXPLAINS, "matched_series": ["chat/ttft_p99"]}
    assert "closed as stale" in shown(checked(an_issue(1, **LOW, blocks=True)), format_)
    assert "closed as stale" in shown(compared(an_issue(1, **LOW, **measured)), format_)


@both
def test_a_finding_of_medium_severity_is_a_line_unless_it_blocks(format_: str) -> None:
    assert "closed as stale" not in shown(checked(an_issue(1, severity=Severity.MEDIUM)), format_)
    assert "closed as stale" in shown(checked(an_issue(1, severity=Severity.MEDIUM, blocks=True)), format_)


@both
def test_what_the_move_resolves_is_a_line(format_: str) -> None:
    text = shown(checked(an_issue(1, effect=Effect.RESOLVED)), format_)
    assert "VLLM-1" in text
    assert "closed as stale" not in text


@both
def test_a_severe_issue_that_the_baseline_has_too_stands_in_full(format_: str) -> None:
    text = shown(checked(an_issue(1, effect=Effect.CARRIED)), format_)
    assert "VLLM_MOE_USE_DEEP_GEMM" in text.partition("Known issues")[2].partition("<details>")[0]


def test_a_page_that_is_too_long_keeps_the_severe_issues_longest() -> None:
    issues = [an_issue(n, severity=Severity.MEDIUM) for n in range(200, 300)] + [an_issue(n, **LOW) for n in range(50)]
    text = render_result(checked(*issues, an_issue(1000)), "markdown", RenderOptions(max_bytes=10_000))
    assert "VLLM-1000" in text
    assert "known issues of low severity" in text


@both
def test_where_there_is_no_thread_the_page_is_called_what_it_is(format_: str) -> None:
    file = "https://github.com/vllm-project/vllm/blob/v0.24.0/vllm/config/vllm.py"
    text = "".join(shown(checked(an_issue(1, url=f"{file}#REL-0240-91")), format_, width=200).split())
    assert "source" in text
    assert "/vllm/config/vllm.py" in text.replace("\\", "")
    assert "thread" not in text
    assert "REL-0240-91" not in text


@both
def test_many_reasons_that_ask_for_a_fact_are_one(format_: str) -> None:
    asked = [
        Reason(code=ReasonCode.UNDECIDED, issue=f"VLLM-{number}", text=f"VLLM-{number} would block if it applies: x")
        for number in range(5)
    ]
    few = shown(checked(reasons=asked[:3]), format_)
    assert few.count("would block if it applies") == 3
    many = " ".join(shown(checked(reasons=asked), format_).split())
    assert "5 known issues would block if they apply: VLLM-0, VLLM-1, VLLM-2 and 2 more" in many
    assert "would block if it applies" not in many
    assert shown(checked(reasons=asked), format_, verbose=True).count("would block if it applies") == 5


def test_a_report_on_a_deployment_with_few_known_facts_fits_a_screen() -> None:
    assert len(shown(unsettled()).splitlines()) <= 40
