"""The fake GitHub refuses what GitHub refuses: else the tests that publish to it would show nothing."""

import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fake_github.server import GitHub, serving
from tests.fake_github.state import READ_ONLY, State

ROOT = Path(__file__).parents[2]
REPO = "team/serving"
SHA = "a" * 40


@pytest.fixture
def github() -> Iterator[GitHub]:
    state = State()
    state.add_repository(REPO)
    state.add_token("writer", REPO)
    state.add_token("reader", REPO, READ_ONLY)
    state.add_token("person", REPO, login="somebody", app=None)
    state.add_pull(REPO, 7, sha=SHA)
    with serving(GitHub(state=state)) as server:
        yield server


def ask(github: GitHub, method: str, path: str, body: Any = None, *, token: str = "writer") -> tuple[int, Any]:
    headers = {"Authorization": f"token {token}"} if token else {}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(github.url + path, data, headers, method=method)
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, json.loads(answer.read() or b"null")
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


COMMENTS = f"/repos/{REPO}/issues/7/comments"
CHECKS = f"/repos/{REPO}/check-runs"


def a_check(**changes: Any) -> dict[str, Any]:
    output = {"title": "t", "summary": "s"}
    return {"name": "gate", "head_sha": SHA, "status": "in_progress", "output": output, **changes}


def an_annotation(**changes: Any) -> dict[str, Any]:
    place = {"path": "a.txt", "start_line": 1, "end_line": 1}
    return {**place, "annotation_level": "warning", "message": "m", **changes}


def test_a_comment_may_have_65536_characters(github: GitHub) -> None:
    assert ask(github, "POST", COMMENTS, {"body": "x" * 65_536})[0] == 201
    status, answer = ask(github, "POST", COMMENTS, {"body": "x" * 65_537})
    assert (status, answer["errors"][0]["message"]) == (422, "Body is too long (maximum is 65536 characters)")


@pytest.mark.parametrize(
    "output",
    [
        {"title": "t"},
        {"title": "t", "summary": "x" * 65_536},
        {"title": "t", "summary": "s", "annotations": [an_annotation()] * 51},
        {"title": "t", "summary": "s", "annotations": [an_annotation(start_line=0)]},
        {"title": "t", "summary": "s", "annotations": [an_annotation(annotation_level="error")]},
    ],
)
def test_an_unfit_check_run_is_refused(github: GitHub, output: dict[str, Any]) -> None:
    assert ask(github, "POST", CHECKS, a_check(output=output))[0] == 422


def test_a_check_run_needs_a_known_commit(github: GitHub) -> None:
    assert ask(github, "POST", CHECKS, a_check())[0] == 201
    assert ask(github, "POST", CHECKS, a_check(head_sha="b" * 40))[0] == 422


def test_a_completed_check_run_is_not_reopened_and_annotations_add_up(github: GitHub) -> None:
    output = {"title": "t", "summary": "s", "annotations": [an_annotation()]}
    _, made = ask(github, "POST", CHECKS, a_check(output=output))
    path = f"{CHECKS}/{made['id']}"
    assert ask(github, "PATCH", path, {"conclusion": "failure", "output": output})[1]["status"] == "completed"
    after = ask(github, "PATCH", path, {"status": "in_progress"})[1]
    assert (after["status"], after["conclusion"]) == ("completed", "failure")
    assert after["output"]["annotations_count"] == 2


@pytest.mark.parametrize(
    ("token", "path", "body", "status", "message"),
    [
        ("reader", COMMENTS, {"body": "x"}, 403, "Resource not accessible by integration"),
        ("reader", CHECKS, a_check(), 403, "Resource not accessible by integration"),
        ("person", CHECKS, a_check(), 403, "You must authenticate via a GitHub App."),
        ("", COMMENTS, {"body": "x"}, 401, "Requires authentication"),
        ("unknown", COMMENTS, {"body": "x"}, 401, "Bad credentials"),
        ("writer", f"/repos/{REPO}/issues/8/comments", {"body": "x"}, 404, "Not Found"),
    ],
)
def test_a_token_can_do_only_what_it_may(
    github: GitHub, token: str, path: str, body: Any, status: int, message: str
) -> None:
    assert ask(github, "POST", path, body, token=token) == (status, {"message": message})
    assert github.state.comments(REPO, 7) == []


def test_a_fault_is_met_once_and_may_have_happened_after_all(github: GitHub) -> None:
    github.state.faults = [{"method": "POST", "status": 502, "body": '{"message": "Bad Gateway"}', "apply": True}]
    assert ask(github, "POST", COMMENTS, {"body": "x"})[0] == 502
    assert [one["body"] for one in github.state.comments(REPO, 7)] == ["x"]
    assert ask(github, "POST", COMMENTS, {"body": "y"})[0] == 201


def test_references_move_forward_only(github: GitHub) -> None:
    def commit(parents: list[str]) -> str:
        _, tree = ask(github, "POST", f"{git}/trees", {"tree": [{"path": "a", "mode": "100644", "content": "x"}]})
        sha: str = ask(github, "POST", f"{git}/commits", {"tree": tree["sha"], "parents": parents})[1]["sha"]
        return sha

    git = f"/repos/{REPO}/git"
    first = commit([])
    second, other = commit([first]), commit([first])
    assert ask(github, "POST", f"{git}/refs", {"ref": "refs/heads/data", "sha": first})[0] == 201
    assert ask(github, "POST", f"{git}/refs", {"ref": "refs/heads/data", "sha": first})[0] == 422
    assert ask(github, "PATCH", f"{git}/refs/heads/data", {"sha": second})[0] == 200
    status, answer = ask(github, "PATCH", f"{git}/refs/heads/data", {"sha": other})
    assert (status, answer["message"]) == (422, "Update is not a fast forward")


def test_it_runs_as_a_program_that_keeps_its_state_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "state.json"
    command = [sys.executable, "-m", "tests.fake_github", "--state", str(file), "--repository", REPO]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            github = GitHub(url=process.stdout.readline().strip())
            state = json.loads(file.read_text())
            assert state["tokens"]["ghs_fake"]["repository"] == REPO
            assert ask(github, "GET", f"/repos/{REPO}", token="ghs_fake")[1]["full_name"] == REPO
            assert json.loads(file.read_text())["requests"][0]["token"] == "github-actions[bot]"
        finally:
            process.terminate()
