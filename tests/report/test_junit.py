"""JUnit XML: what Jenkins, GitLab and publish-unit-test-result make of it, whatever a text contains."""

import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given
from junitparser import JUnitXml
from syrupy.assertion import SnapshotAssertion

from regress_gate.model.result import Decision, Reason, ReasonCode, Verdict
from regress_gate.report import render
from regress_gate.report.document import View
from regress_gate.report.views.result_view import ResultView
from regress_gate.text import one_line
from tests.factories.findings import VIEWS_WITH_FINDINGS, a_calibration, a_history, some_servers, views_filled_with
from tests.factories.results import a_result, a_series, an_issue, crowded, failing

from .golden import golden
from .strategies import hostile_text

SHAPE: dict[str, tuple[set[str], set[str], set[str]]] = {
    # element: attributes that it must have, that it may have, children
    "testsuites": (set(), {"name", "time", "tests", "failures", "errors"}, {"testsuite"}),
    "testsuite": (
        {"name", "tests", "failures", "errors"},
        {"skipped", "timestamp", "time", "hostname", "id", "package"},
        {"testcase", "properties", "system-out", "system-err"},
    ),
    "properties": (set(), set(), {"property"}),
    "property": ({"name", "value"}, set(), set()),
    "testcase": ({"name"}, {"classname", "time"}, {"skipped", "error", "failure", "system-out", "system-err"}),
    "failure": (set(), {"type", "message"}, set()),
    "error": (set(), {"type", "message"}, set()),
    "skipped": (set(), {"type", "message"}, set()),
    "system-out": (set(), set(), set()),
}
"""What the XSD of Jenkins' xunit plugin (junit-10.xsd) takes, without the parts of it that only Surefire writes. GitLab
reads testcase's classname and name, failure, error, skipped and system-out, and ignores the rest."""


def written(view: View) -> ET.Element:
    return ET.fromstring(render(view, "junit"))


def outcomes(view: View) -> dict[str, str]:
    return {
        f"{case.get('classname')}/{case.get('name')}": next(
            (child.tag for child in case if child.tag != "system-out"), "passed"
        )
        for case in written(view).iter("testcase")
    }


def message(view: View, name: str) -> str:
    (case,) = (case for case in written(view).iter("testcase") if f"{case.get('classname')}/{case.get('name')}" == name)
    (child,) = case
    return child.get("message") or child.text or ""


def check_shape(element: ET.Element) -> None:
    needed, allowed, children = SHAPE[element.tag]
    assert needed <= set(element.attrib) <= needed | allowed, element.tag
    for child in element:
        assert child.tag in children, f"{child.tag} in {element.tag}"
        check_shape(child)


def check(view: View) -> None:
    """Well-formed, of the common shape, and the counts are those of the cases, which have names of their own."""
    root = written(view)
    check_shape(root)
    names = [(case.get("classname"), case.get("name")) for case in root.iter("testcase")]
    assert len(names) == len(set(names)) > 0
    for part in (root, *root.iter("testsuite")):
        tags = Counter(child.tag for case in part.iter("testcase") for child in case)
        assert int(part.get("tests", "")) == len(list(part.iter("testcase")))
        assert int(part.get("failures", "")) == tags["failure"]
        assert int(part.get("errors", "")) == tags["error"]
    parsed = JUnitXml.fromstring(render(view, "junit"))
    assert [(case.classname, case.name) for suite in parsed for case in suite] == names


@pytest.mark.parametrize("build", VIEWS_WITH_FINDINGS.values(), ids=VIEWS_WITH_FINDINGS)
def test_every_report_has_the_shape_that_all_readers_take(build: Callable[[], View]) -> None:
    check(build())


@pytest.mark.parametrize("kind", [kind for kind in VIEWS_WITH_FINDINGS if kind != "crowded"])
def test_junit(kind: str, snapshot: SnapshotAssertion) -> None:
    assert render(VIEWS_WITH_FINDINGS[kind](), "junit") == golden(snapshot, "xml")


@given(text=hostile_text)
def test_no_text_breaks_the_report(text: str) -> None:
    for view in views_filled_with(text):
        check(view)


@given(text=hostile_text)
def test_texts_are_read_as_they_were(text: str) -> None:
    view = ResultView(a_result(series=[a_series(scenario=f"x{text}x", notes=[f"y{text}y"])]))
    case = next(case for case in written(view).iter("testcase") if case.get("name") == "ttft_p99")
    assert case.get("classname") == one_line(f"x{text}x")
    assert one_line(f"y{text}y") in (case.findtext("system-out") or "")


def test_what_was_shown_decides_the_outcome() -> None:
    told = outcomes(ResultView(failing()))
    assert told["regress-gate/decision"] == "failure"
    assert told["chat-c8/ttft_p99"] == "failure"
    assert told["chat-c8/ttft_mean"] == "skipped", "undecided"
    assert told["chat-c8/tpot_mean"] == "passed"
    assert told["chat-c8/itl_p99"] == "skipped", "worse, but it does not gate"
    assert told["servers/candidate run:17 (20261121T0900Z-1f2e/03-candidate)"] == "failure", "the candidate crashed"
    assert told["known issues/VLLM-28882"] == "failure", "it blocks"
    assert told["known issues/VLLM-30101"] == "skipped", "it may apply"
    assert told["known issues/VLLM-27007"] == "passed", "mitigated"
    assert "known issues/VLLM-40111" not in told, "a record that does not apply is no test"
    assert told["regress-gate/flag_removed"] == "failure"


def test_numbers_are_properties_of_the_scenario() -> None:
    suite = next(one for one in written(ResultView(failing())).iter("testsuite") if one.get("name") == "chat-c8")
    told = {one.get("name"): one.get("value") for one in suite.iter("property")}
    assert told["ttft_p99.change"] == "0.485"
    assert told["ttft_p99.interval.low"] == "0.402"
    assert told["ttft_p99.candidate.runs"] == "6"
    assert told["ttft_p99.verdict"] == "regression"


@pytest.mark.parametrize(("exit_code", "outcome"), [(3, "failure"), (1, "failure"), (0, "skipped")])
def test_an_inconclusive_decision_passes_only_where_the_team_lets_it(exit_code: int, outcome: str) -> None:
    reasons = [Reason(code=ReasonCode.NOT_COVERED, text="0.33.0 was not reviewed")]
    view = ResultView(a_result(decision=Decision.INCONCLUSIVE, exit_code=exit_code, reasons=reasons))
    assert outcomes(view) == {"regress-gate/decision": outcome, "regress-gate/not_covered": "skipped"}


def test_a_series_that_a_reason_doubts_has_not_passed() -> None:
    reason = Reason(
        code=ReasonCode.MISSING_SERIES, text="chat/ttft_p99 gates but one side lacks it", series="chat/ttft_p99"
    )
    for series in ([a_series("chat")], []):
        view = ResultView(a_result(decision=Decision.INCONCLUSIVE, exit_code=3, reasons=[reason], series=series))
        assert outcomes(view)["chat/ttft_p99"] == "skipped"


def test_a_waived_finding_is_skipped_and_says_by_whom_and_until_when() -> None:
    waiver = failing().waivers[0].model_copy(update={"state": "used", "finding": "chat-*/ttft_p99"})
    issue_waiver = waiver.model_copy(update={"finding": "VLLM-28882"})
    reasons = [
        Reason(code=ReasonCode.WAIVED, text="chat-c8/ttft_p99 +48.5%", series="chat-c8/ttft_p99"),
        Reason(code=ReasonCode.WAIVED, text="VLLM-28882", issue="VLLM-28882"),
    ]
    worse = a_series(verdict=Verdict.REGRESSION, change=0.485, interval=(0.4, 0.5))
    result = a_result(reasons=reasons, series=[worse], known_issues=[an_issue()], waivers=[waiver, issue_waiver])
    for name in ("chat-c8/ttft_p99", "known issues/VLLM-28882"):
        assert outcomes(ResultView(result))[name] == "skipped"
        assert "waived until 2026-12-31 by ml-infra: kernel update under way" in message(ResultView(result), name)


def test_a_crash_of_which_the_baseline_may_have_its_share_is_no_failure() -> None:
    result = failing().model_copy(update={"reasons": [], "decision": Decision.INCONCLUSIVE})
    assert outcomes(ResultView(result))["servers/candidate run:17 (20261121T0900Z-1f2e/03-candidate)"] == "skipped"


def test_servers_of_one_file_have_cases_of_their_own() -> None:
    told = outcomes(some_servers())
    assert told["chat: regress-gate/decision"] == "passed"
    assert told["embed: regress-gate/decision"] == "failure"


def test_what_was_not_searched_has_not_passed() -> None:
    assert set(outcomes(a_history(searched=False)).values()) == {"skipped"}
    assert set(outcomes(a_history()).values()) == {"passed"}


def test_a_calibration_in_which_servers_failed_is_an_error() -> None:
    assert outcomes(a_calibration(failed_runs=2))["servers/runs"] == "error"
    assert outcomes(a_calibration()) == {
        "regress-gate/decision": "passed",
        "c4/ttft_median": "passed",
        "c8/ttft_median": "skipped",
    }


def test_many_cases_of_one_name_are_told_apart_at_once() -> None:
    result = crowded().model_copy(update={"known_issues": [an_issue() for _ in range(3_000)]})
    assert len(outcomes(ResultView(result))) > 3_000
