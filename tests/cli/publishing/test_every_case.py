"""Pass, fail, inconclusive and could not measure; from the repository, a fork and Dependabot; once and twenty times."""

import pytest

from tests.cli.publishing.conftest import FORK, PINS, PULL, REPO, SHA, UNMOVED, Workflow, result_of

CONCLUSIONS = {
    "pass": "success",
    "fail": "failure",
    "inconclusive": "neutral",
    "could_not_measure": "action_required",
}
ORIGINS = ("same", "fork", "dependabot")


def add_pull(workflow: Workflow, origin: str) -> None:
    workflow.state.add_pull(REPO, PULL, sha=SHA, head=FORK if origin == "fork" else REPO)
    workflow.state.add_pull(REPO, 8, sha="b" * 40, branch="other")


def run_all(workflow: Workflow, origin: str, case: str) -> None:
    """The whole of one run, in one workflow or in two."""
    pins = workflow.file("versions.json", PINS)
    workflow.pull_request(origin)
    assert workflow("--started", "--pins", pins).code == 0
    if case == "could_not_measure":
        done = workflow("--could-not-measure", "The server did not start.", "--pins", pins)
    else:
        done = workflow("--result", workflow.file("gate.json", result_of(case)), "--pins", pins)
    assert done.code == 0, done.ended.err
    assert done.outputs["decision"] == case
    assert done.summary.startswith("## ")
    if origin != "same":
        files = {"versions.json": pins.read_bytes()}
        if case != "could_not_measure":
            files["gate.json"] = result_of(case)
        workflow.workflow_run(origin, files)
        done = workflow()
        assert done.code == 0, done.ended.err
        assert done.outputs["decision"] == case


@pytest.mark.parametrize("origin", ORIGINS)
@pytest.mark.parametrize("case", CONCLUSIONS)
def test_the_check_concludes_rightly_with_one_comment_and_silence_after_it(
    workflow: Workflow, origin: str, case: str
) -> None:
    add_pull(workflow, origin)
    run_all(workflow, origin, case)
    assert (workflow.check["status"], workflow.check["conclusion"]) == ("completed", CONCLUSIONS[case])
    assert len(workflow.comments) == (0 if case == "pass" else 1)
    first = [one["body"] for one in workflow.comments]
    run_all(workflow, origin, case)
    for _ in range(18):
        run_all(workflow, origin, case)
    assert [one["body"] for one in workflow.comments] == first
    assert sum(one["edits"] for one in workflow.comments) == 0
    assert {one["status"] for one in workflow.checks} == {"completed"}
    assert {one["conclusion"] for one in workflow.checks} == {CONCLUSIONS[case]}
    assert workflow.written_elsewhere() == []
    if origin != "same":  # nothing is opened there that would have to be closed
        assert len(workflow.checks) == 1


@pytest.mark.parametrize("origin", ORIGINS)
def test_a_changed_decision_edits_the_comment(workflow: Workflow, origin: str) -> None:
    add_pull(workflow, origin)
    for number, case in enumerate(("fail", "pass", "inconclusive", "fail")):
        run_all(workflow, origin, case)
        (comment,) = workflow.comments
        assert comment["edits"] == number
        assert case.upper() in comment["body"]
        assert workflow.check["conclusion"] == CONCLUSIONS[case]


@pytest.mark.parametrize("origin", ["fork", "dependabot"])
def test_a_token_that_can_only_read_is_said_and_changes_no_exit_code(workflow: Workflow, origin: str) -> None:
    add_pull(workflow, origin)
    workflow.pull_request(origin)
    pins = workflow.file("versions.json", PINS)
    done = workflow("--result", workflow.file("gate.json", result_of("fail")), "--pins", pins)
    assert done.code == 0
    assert ("can only read" if origin == "fork" else "of Dependabot") in done.ended.err
    assert "FAIL" in done.summary
    assert {one["status"] for one in workflow.state.writes()} <= {403}
    commands = [line for line in done.ended.out.splitlines() if line.startswith("::")]
    assert 2 <= len(commands) <= 10
    assert commands[0].startswith("::error file=deploy/vllm.yaml,line=12,")


@pytest.mark.parametrize("event", ["push", "workflow_dispatch", "schedule"])
def test_without_a_pull_request_there_is_a_check_run_and_no_comment(workflow: Workflow, event: str) -> None:
    workflow.state.repositories[REPO]["commits"].append(SHA)
    workflow.set(event, {"ref": "refs/heads/main"})
    done = workflow("--result", workflow.file("gate.json", result_of("fail")))
    assert (done.code, workflow.check["conclusion"], workflow.check["head_sha"]) == (0, "failure", SHA)
    assert "comment-url" not in done.outputs
    assert [one["path"] for one in workflow.state.writes()] == [f"/repos/{REPO}/check-runs"]


def test_the_group_of_a_merge_queue_gets_the_answer_of_the_other_half(workflow: Workflow) -> None:
    workflow.state.repositories[REPO]["commits"].append(SHA)
    workflow.workflow_run("same", {"gate.json": result_of("fail")}, event="merge_group")
    assert workflow().code == 0
    assert (workflow.check["head_sha"], workflow.check["conclusion"]) == (SHA, "failure")
    assert workflow.state.repositories[REPO]["comments"] == []


def test_where_nothing_moved_the_check_passes_and_only_an_existing_comment_says_so(pull: Workflow) -> None:
    pull.pull_request()
    unmoved = pull.file("unmoved.json", UNMOVED)
    done = pull("--pins", unmoved, "--comment", "always")
    assert (pull.check["conclusion"], pull.comments) == ("success", [])
    assert done.outputs["decision"] == "nothing_moved"
    assert "no pin of a vLLM version moved" in done.summary
    pull("--result", pull.file("gate.json", result_of("fail")))
    pull("--pins", unmoved)
    (comment,) = pull.comments
    assert "no vLLM version moved" in comment["body"]


def test_a_pin_that_names_no_version_is_inconclusive(pull: Workflow) -> None:
    pull.pull_request()
    done = pull("--pins", pull.file("p.json", {**PINS, "candidate": None, "why": "deploy/vllm.yaml: latest is none"}))
    assert (done.code, done.outputs["decision"], pull.check["conclusion"]) == (0, "inconclusive", "neutral")
    assert "latest is none" in pull.comments[0]["body"]


def test_dependabot_writes_where_the_workflow_lets_it(pull: Workflow) -> None:
    pull.pull_request("dependabot")
    pull.environment.setenv("GITHUB_TOKEN", "writer")
    done = pull("--result", pull.file("gate.json", result_of("fail")))
    assert (done.code, len(pull.comments), pull.check["conclusion"]) == (0, 1, "failure")


def test_comments_can_be_wanted_always_or_never(pull: Workflow) -> None:
    pull.pull_request()
    failing, passing = (pull.file(f"{name}.json", result_of(name)) for name in ("fail", "pass"))
    pull("--result", failing, "--comment", "off")
    assert pull.comments == []
    done = pull("--result", passing, "--comment", "always")
    (comment,) = pull.comments
    assert comment["body"].splitlines()[1] == "## PASS: you may move"
    assert done.outputs["comment-url"].endswith(str(comment["id"]))
    assert done.outputs["check-url"].endswith(str(pull.check["id"]))


def test_report_only_is_shown_and_does_not_block(pull: Workflow) -> None:
    pull.pull_request()
    result = result_of("fail").replace(b'"exit_code": 1', b'"exit_code": 0')
    done = pull("--result", pull.file("gate.json", result))
    assert pull.check["conclusion"] == "neutral"
    assert (done.outputs["decision"], done.outputs["exit-code"]) == ("fail", "0")


def test_two_gates_of_one_repository_do_not_meet(pull: Workflow) -> None:
    pull.pull_request()
    for name in ("chat", "batch", "chat"):
        pull("--result", pull.file("gate.json", result_of("fail")), "--name", name)
    assert {one["name"] for one in pull.checks} == {"regress-gate: chat", "regress-gate: batch"}
    assert len(pull.comments) == 2
