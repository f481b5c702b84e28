"""What GitHub refuses, and what goes wrong on the way: named, tried again where that helps, never done twice."""

from typing import Any

import pytest

from tests.cli.publishing.conftest import PINS, PULL, REPO, SHA, Workflow, result_of
from tests.fake_github.server import GitHub, serving

LIMITED = {"message": "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."}


def fail(workflow: Workflow, *arguments: object) -> Any:
    workflow.pull_request()
    return workflow("--result", workflow.file("gate.json", result_of("fail")), *arguments)


@pytest.mark.parametrize(
    ("missing", "named", "done"),
    [
        ("checks", "`checks: write`", "comment"),
        ("pull-requests", "`pull-requests: write", "check run"),
    ],
)
def test_a_missing_permission_is_named_and_the_rest_is_done(
    pull: Workflow, missing: str, named: str, done: str
) -> None:
    pull.state.tokens["writer"]["permissions"][missing] = "read"
    ended = fail(pull)
    assert ended.code == 4
    assert named in ended.ended.error
    assert f"{done}: " in ended.ended.out
    assert "FAIL" in ended.summary
    assert ended.outputs["decision"] == "fail"
    assert (len(pull.comments), len(pull.checks)) == ((1, 0) if missing == "checks" else (0, 1))


def test_without_a_check_run_the_annotations_are_workflow_commands(pull: Workflow) -> None:
    pull.state.tokens["writer"]["permissions"]["checks"] = "read"
    ended = fail(pull, "--pins", pull.file("versions.json", PINS))
    assert "::error file=deploy/vllm.yaml,line=12" in ended.ended.out


def test_a_person_cannot_write_check_runs(pull: Workflow) -> None:
    pull.state.add_token("person", REPO, login="somebody", app=None)
    pull.pull_request()
    pull.environment.setenv("GITHUB_TOKEN", "person")
    ended = pull("--result", pull.file("gate.json", result_of("fail")))
    assert ended.code == 4
    assert "GitHub App" in ended.ended.error
    assert "--no-check" in ended.ended.error


def test_an_unknown_token_is_not_shown(pull: Workflow) -> None:
    pull.pull_request()
    pull.environment.setenv("GITHUB_TOKEN", "ghs_unknown_0123456789")
    ended = pull("--result", pull.file("gate.json", result_of("fail")))
    assert ended.code == 4
    assert "does not accept GITHUB_TOKEN" in ended.ended.err
    assert "ghs_unknown" not in ended.ended.err + ended.ended.out + ended.summary


@pytest.mark.parametrize("token", ["", "with blank"])
def test_an_unusable_token_is_an_error_of_the_workflow(pull: Workflow, token: str) -> None:
    pull.pull_request()
    pull.environment.setenv("GITHUB_TOKEN", token)
    ended = pull("--result", pull.file("gate.json", result_of("fail")))
    assert (ended.code, pull.state.requests) == (2, [])
    assert ended.ended.error.startswith("GITHUB_TOKEN: ")


@pytest.mark.parametrize("method", ["POST", "GET"])
@pytest.mark.parametrize("apply", [False, True])
@pytest.mark.parametrize("body", ['{"message": "Server Error"}', "<html><h1>Unicorn!</h1></html>"])
def test_a_server_error_is_tried_again_and_nothing_is_there_twice(
    pull: Workflow, method: str, apply: bool, body: str
) -> None:
    for path in ("check-runs", "comments"):
        pull.state.faults.append({"method": method, "path": path, "status": 502, "body": body, "apply": apply})
    ended = fail(pull)
    assert ended.code == 0, ended.ended.err
    assert (len(pull.comments), len(pull.checks)) == (1, 1)
    assert pull.check["conclusion"] == "failure"


def test_a_secondary_limit_is_waited_for(pull: Workflow) -> None:
    limit = {"status": 403, "headers": {"Retry-After": "1"}, "body": '{"message": "secondary rate limit"}'}
    pull.state.faults.append({"method": "POST", "path": "check-runs", **limit})
    ended = fail(pull)
    assert ended.code == 0, ended.ended.err
    assert len(pull.checks) == 1


def test_a_long_limit_is_not_waited_for_and_is_no_decision(pull: Workflow) -> None:
    limit = {"status": 403, "headers": {"Retry-After": "3000"}, "body": '{"message": "secondary rate limit"}'}
    pull.state.faults.append({"method": "POST", **limit})
    ended = fail(pull)
    assert ended.code == 4
    assert "quota" in ended.ended.err
    assert (ended.outputs["decision"], ended.outputs["exit-code"]) == ("fail", "1")


def test_an_outage_ends_with_4_and_the_summary_is_there(pull: Workflow) -> None:
    pull.state.faults.append({"status": 503, "times": 1000})
    ended = fail(pull)
    assert ended.code == 4
    assert "FAIL" in ended.summary


def test_a_lost_connection_in_the_middle_of_a_write_leaves_one_comment(pull: Workflow) -> None:
    pull.state.faults.append({"method": "POST", "path": "comments", "apply": True})
    ended = fail(pull)
    assert ended.code == 0, ended.ended.err
    assert len(pull.comments) == 1


def test_a_locked_pull_request_is_named(pull: Workflow) -> None:
    pull.state.repositories[REPO]["pulls"][0]["locked"] = True
    ended = fail(pull)
    assert ended.code == 4
    assert "locked" in ended.ended.error
    assert pull.check["conclusion"] == "failure"


def test_a_commit_that_is_gone_is_an_error_of_its_check_run_alone(pull: Workflow) -> None:
    pull.state.repositories[REPO]["commits"].remove(SHA)
    ended = fail(pull)
    assert ended.code == 4
    assert "No commit found" in ended.ended.error
    assert len(pull.comments) == 1


def test_an_enterprise_server_is_written_to_below_its_own_address(pull: Workflow) -> None:
    with serving(GitHub(state=pull.state, prefix="/api/v3")) as server:
        pull.environment.setenv("GITHUB_API_URL", server.url)
        fail(pull)
        ended = fail(pull)
    assert ended.code == 0, ended.ended.err
    assert (len(pull.comments), len({one["conclusion"] for one in pull.checks})) == (1, 1)


def test_a_token_never_goes_to_a_server_in_clear_text(pull: Workflow) -> None:
    pull.pull_request()
    pull.environment.setenv("GITHUB_API_URL", "http://github.example/api/v3")
    ended = pull("--result", pull.file("gate.json", result_of("fail")))
    assert ended.code == 2
    assert ended.ended.error.startswith("GITHUB_API_URL: ")


def test_an_open_check_is_concluded_and_a_completed_one_is_replaced(pull: Workflow) -> None:
    pull.pull_request()
    pull("--started")
    pull("--started")
    (opened,) = pull.checks
    assert (opened["status"], opened["conclusion"]) == ("in_progress", None)
    fail(pull, "--pins", pull.file("versions.json", PINS))
    fail(pull)
    assert len(pull.checks) == 1
    annotations = len(opened["annotations"])
    assert 0 < annotations <= 10
    pull("--started")
    assert pull.check["status"] == "in_progress"
    pull("--could-not-measure", "Cancelled.")
    assert [one["conclusion"] for one in pull.checks] == ["failure", "action_required"]
    assert len(opened["annotations"]) == annotations


def test_every_open_check_is_concluded_where_two_runs_opened_one_each(pull: Workflow) -> None:
    pull.pull_request()
    pull("--started")
    pull.checks.append({**pull.checks[0], "id": pull.state.new_id(), "annotations": [], "output": {}})
    fail(pull)
    assert [one["conclusion"] for one in pull.checks] == ["failure", "failure"]


@pytest.mark.parametrize(
    "arguments", [(), ("--started", "--could-not-measure", "x"), ("--result", "gate.json", "--could-not-measure", "x")]
)
def test_contradictions_are_refused_before_anything_is_asked(pull: Workflow, arguments: tuple[str, ...]) -> None:
    pull.pull_request()
    pull.file("gate.json", result_of("fail"))
    assert (pull(*arguments).code, pull.state.requests) == (2, [])


@pytest.mark.parametrize("variable", ["GITHUB_REPOSITORY", "GITHUB_EVENT_PATH"])
@pytest.mark.parametrize("value", ["", "no/such/thing"])
def test_outside_of_a_workflow_the_variable_is_named(pull: Workflow, variable: str, value: str) -> None:
    pull.pull_request()
    pull.environment.setenv(variable, value)
    ended = pull("--result", pull.file("gate.json", result_of("fail")))
    assert (ended.code, pull.state.requests) == (2, [])
    assert ended.ended.error.startswith(f"{variable}: ")


def test_a_dry_run_asks_nobody_and_needs_no_workflow(pull: Workflow) -> None:
    for name in ("GITHUB_REPOSITORY", "GITHUB_API_URL"):
        pull.environment.delenv(name)
    result, pins = pull.file("gate.json", result_of("fail")), pull.file("versions.json", PINS)
    ended = pull("--result", result, "--pins", pins, "--dry-run")
    assert ended.code == 0
    assert ended.ended.out.startswith("check run: failure: FAIL: do not move")
    assert "annotations: deploy/vllm.yaml:12" in ended.ended.out
    assert (ended.summary, ended.outputs, pull.state.requests) == ("", {}, [])


def test_the_number_of_another_pull_request_is_nowhere(pull: Workflow) -> None:
    fail(pull)
    assert {one["issue"] for one in pull.state.repositories[REPO]["comments"]} == {PULL}
