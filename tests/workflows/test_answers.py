"""What a pull request gets to see, run by run: the workflows as they are copied, on a machine, against GitHub."""

from base64 import b64encode
from typing import Any

import pytest

from tests.factories.large_artifacts import GIGABYTE, zip_of_gigabytes
from tests.workflows.conftest import CHANGES, NAME, Team, deployment
from tests.workflows.runner import Run

pytestmark = pytest.mark.workflows

CONCLUSION = {
    "pass": "success",
    "fail": "failure",
    "inconclusive": "neutral",
    "could not measure": "action_required",
    "no pin moved": "success",
}
EXIT_CODE = {"pass": 0, "fail": 1, "inconclusive": 3, "could not measure": 2, "no pin moved": 0}
HAS_COMMENT = ("fail", "inconclusive", "could not measure")
"""A first pass, or a change that is no business of the gate, is worth none."""


def assert_answered(run: Run, answer: str) -> None:
    """The step is red or green as the answer says, and nothing else is."""
    assert run.failed == (["OWNER/regress-gate"] if EXIT_CODE[answer] else []), run.text
    assert bool(run.code) == bool(EXIT_CODE[answer])
    if EXIT_CODE[answer]:
        assert f"exit status {EXIT_CODE[answer]}" in run.text


def test_the_tool_is_installed_once_and_comes_from_the_cache_after_that(installations: dict[str, Any]) -> None:
    first, restored = installations["first"], installations["restored"]
    assert (first["code"], restored["code"]) == (0, 0), restored["text"]
    assert "gate.gate.save.0" in first["steps"]
    assert "gate.gate.save.0" not in restored["steps"]


def shown(team: Team, answer: str) -> tuple[dict[str, str], list[tuple[int, int]]]:
    """The conclusion of each check of the pull request, and each comment with the number of its edits."""
    assert team.conclusions == {"regress-gate: upgrade": CONCLUSION[answer]}
    assert len(team.comments) == (answer in HAS_COMMENT)
    return team.conclusions, [(one["id"], one["edits"]) for one in team.comments]


@pytest.mark.parametrize("who", ["same", "fork", "dependabot"])
@pytest.mark.parametrize("answer", ["pass", "fail", "inconclusive", "could not measure"])
def test_two_workflows_answer_whoever_asks_the_first_the_second_and_the_twentieth_time(
    team: Team, answer: str, who: str
) -> None:
    def run_both() -> Run:
        run = team.run("upgrade-gate.yml")
        assert_answered(run, answer)
        assert team.state.writes() == []  # the half that runs the pull request's files
        written = team.answer(run)
        assert written.code == 0, written.text
        team.state.requests.clear()
        return written

    team.open_pull_request(*CHANGES[answer], who=who)
    run_both()
    first = shown(team, answer)
    # The same commit again, as when somebody presses the button: nothing new to say.
    second = run_both()
    assert shown(team, answer) == first
    team.repeat(second, 17)
    run_both()
    assert shown(team, answer) == first


@pytest.mark.parametrize("who", ["same", "fork", "dependabot"])
def test_two_workflows_pass_a_change_that_moves_no_pin(team: Team, who: str) -> None:
    team.open_pull_request(*CHANGES["no pin moved"], who=who)
    assert team.answer(team.run("upgrade-gate.yml")).code == 0
    shown(team, "no pin moved")


@pytest.mark.parametrize("who", ["same", "dependabot"])
@pytest.mark.parametrize("answer", CHANGES)
def test_one_workflow_is_enough_where_nobody_comes_from_a_fork(team: Team, answer: str, who: str) -> None:
    """The first, the second and the twentieth time; what is shown stays as it was."""
    team.open_pull_request(*CHANGES[answer], who=who)
    run = team.run("shown.yml", write=True)
    assert_answered(run, answer)
    assert run.summary.startswith("## ")
    first = shown(team, answer)
    files = None if run.code else team.run("upgrade-gate.yml").artifact("regress-gate")
    second = team.run("shown.yml", write=True)
    assert_answered(second, answer)
    assert shown(team, answer) == first
    team.repeat(second, 18, files)
    assert shown(team, answer) == first


def test_the_check_run_is_open_before_the_question_is_asked(team: Team) -> None:
    team.open_pull_request(*CHANGES["fail"])
    run = team.run("shown.yml", write=True)
    said = [line for line in run.log.splitlines() if line.startswith("$ regress-gate ")]
    assert [line.split()[2:5] for line in said] == [
        ["ci", "versions", "--format"],
        ["ci", "publish", "--started"],
        ["check", "0.20.0", "--from"],
        ["ci", "publish", "--result"],
    ]
    assert [one["method"] for one in team.state.writes() if "/check-runs" in one["path"]] == ["POST", "PATCH"]


def test_a_fork_cannot_write_with_the_one_workflow_and_the_job_says_its_answer(team: Team) -> None:
    team.open_pull_request(*CHANGES["fail"], who="fork")
    run = team.run("shown.yml")
    assert_answered(run, "fail")
    assert [one for one in team.state.writes() if one["status"] < 400] == []
    assert (team.comments, team.conclusions) == ([], {})
    assert "a pull request from a fork" in run.log


def test_the_answer_follows_the_pull_request_and_stays_one_comment(team: Team) -> None:
    team.open_pull_request(*CHANGES["fail"])
    for _ in range(2):
        team.run("shown.yml", write=True)
    (comment,) = team.comments
    assert comment["edits"] == 0
    team.push(deployment("0.19.0"))  # back to a release before the fault
    team.run("shown.yml", write=True)
    assert [one["id"] for one in team.comments] == [comment["id"]]
    assert team.comments[0]["edits"] == 1
    assert team.comments[0]["body"] != comment["body"]


def test_outputs_and_artifacts_are_for_later_steps(team: Team) -> None:
    team.open_pull_request(*CHANGES["fail"])
    run = team.run("upgrade-gate.yml")
    assert set(run.artifact("regress-gate")) == {"gate.json", "versions.json"}
    assert run.artifact("regress-gate-report")["report.html"].startswith(b"<!DOCTYPE html>")
    outputs = run.outputs("gate")
    assert {name: outputs[name] for name in ("moved", "decision", "exit-code", "base", "candidate")} == {
        "moved": "true",
        "decision": "fail",
        "exit-code": "1",
        "base": "0.19.1",
        "candidate": "0.20.0",
    }
    assert outputs["recommended"].startswith("0.")


def test_a_forged_artifact_writes_nowhere_but_on_its_own_pull_request(team: Team) -> None:
    team.open_pull_request(*CHANGES["fail"], who="fork")
    run = team.run("upgrade-gate.yml")
    team.state.add_pull(NAME, 1, sha="1" * 40)
    genuine = run.artifact("regress-gate")
    hostile = b"<script>alert(1)</script> @octocat ::set-output name=x::y\\n::error::z"
    forged = {
        "gate.json": genuine["gate.json"].replace(b"blocked by", hostile.replace(b"\\n", b"\\\\n")),
        "versions.json": genuine["versions.json"],
        "number": b"1",
        "comment.md": b"@everyone",
    }
    assert team.answer(run, forged).code == 0
    assert team.state.comments(NAME, 1) == []
    assert {one["head_sha"] for one in team.state.repositories[NAME]["check_runs"]} == {team.head}
    (comment,) = team.comments
    assert "<script>" not in comment["body"]
    assert " @octocat" not in comment["body"]


@pytest.mark.parametrize(
    ("files", "fields"),
    [
        ({"gate.json": b""}, {"content": b64encode(zip_of_gigabytes("gate.json")).decode()}),
        ({"gate.json": b""}, {"zeros": GIGABYTE}),
        ({"gate.json": b"{}"}, {}),
        ({"gate.json": b"not JSON", "versions.json": b"[]"}, {}),
        ({}, {}),
    ],
    ids=["a gigabyte unpacked", "a gigabyte sent", "of another schema", "broken", "missing"],
)
def test_an_artifact_that_cannot_be_used_is_said_to_be_none(team: Team, files: Any, fields: dict[str, Any]) -> None:
    team.open_pull_request(*CHANGES["fail"], who="fork")
    run = Run(1, {}, "", team.directory)
    written = team.answer(run, files, **fields)
    assert written.code == 0, written.text
    assert team.conclusions == {"regress-gate: upgrade": "action_required"}
    assert [one["sent"] for one in team.state.repositories[NAME]["artifacts"] if one["sent"] > GIGABYTE // 8] == []
