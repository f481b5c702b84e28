"""The comment: our own, one, and only touched when there is something new."""

import json
import re

import pytest

from regress_gate.model.result import DeploymentOut, Reason, ReasonCode, Verdict
from regress_gate.publish.comment import Marker
from regress_gate.report.views.servers_view import ServersView
from tests.cli.publishing.conftest import PINS, PULL, REPO, UNMOVED, Workflow, as_json, result_of
from tests.factories.results import crowded, failing
from tests.fake_github.state import BOT

BODY_OF_A_STRANGER = "<!-- regress-gate:v1:upgrade fail 0123456789abcdef -->\nI am not a bot."


def fail(workflow: Workflow, *arguments: object) -> None:
    done = workflow("--result", workflow.file("gate.json", result_of("fail")), *arguments)
    assert done.code == 0, done.ended.err


def test_a_stranger_who_copies_the_marker_keeps_his_comment(pull: Workflow) -> None:
    pull.state.add_comment(REPO, PULL, BODY_OF_A_STRANGER, login="stranger")
    pull.state.add_comment(REPO, PULL, BODY_OF_A_STRANGER, login="github-actions")
    pull.pull_request()
    fail(pull)
    assert [one["body"] for one in pull.comments[:2]] == [BODY_OF_A_STRANGER] * 2
    assert pull.comments[2]["login"] == BOT


@pytest.mark.parametrize(
    ("body", "minimised"),
    [
        (f"Somebody wrote:\n{BODY_OF_A_STRANGER}", False),  # the marker does not begin it
        (BODY_OF_A_STRANGER.replace("upgrade", "other"), False),
        (BODY_OF_A_STRANGER, True),  # somebody hid it
    ],
)
def test_another_comment_of_the_same_bot_is_not_taken_for_ours(pull: Workflow, body: str, minimised: bool) -> None:
    pull.state.add_comment(REPO, PULL, body, login=BOT, minimised=minimised)
    pull.pull_request()
    fail(pull)
    assert [one["edits"] for one in pull.comments] == [0, 0]
    fail(pull)
    assert len(pull.comments) == 2


def test_it_is_found_behind_hundreds_of_others(pull: Workflow) -> None:
    for number in range(250):
        pull.state.add_comment(REPO, PULL, f"Comment {number}", login="somebody")
    pull.pull_request()
    fail(pull)
    fail(pull)
    assert [one["login"] for one in pull.comments].count(BOT) == 1
    pull("--result", pull.file("gate.json", result_of("pass")))
    assert pull.comments[-1]["edits"] == 1


def test_copies_that_two_runs_made_at_once_become_one(pull: Workflow) -> None:
    pull.pull_request()
    fail(pull)
    (ours,) = pull.comments
    pull.state.add_comment(REPO, PULL, ours["body"], login=BOT)
    fail(pull)
    assert pull.comments == [ours]


@pytest.mark.parametrize("is_first", [True, False])
def test_a_slow_run_for_an_older_commit_leaves_the_comment_to_the_newer_one(pull: Workflow, is_first: bool) -> None:
    pull.pull_request()
    if not is_first:
        fail(pull)
    before = json.dumps(pull.comments)
    pull.state.repositories[REPO]["pulls"][0]["head"]["sha"] = "c" * 40  # somebody pushed meanwhile
    done = pull("--result", pull.file("gate.json", result_of("inconclusive")))
    assert (done.code, json.dumps(pull.comments)) == (0, before)
    assert f"left alone: #{PULL} has moved on to {'c' * 12} from {'a' * 12}" in done.ended.out + done.ended.err
    assert (pull.check["head_sha"], pull.check["conclusion"]) == ("a" * 40, "neutral")
    assert "comment-url" not in done.outputs


def test_the_comment_of_a_person_is_found_by_its_author(pull: Workflow) -> None:
    pull.state.add_token("person", REPO, login="somebody", app=None)
    pull.pull_request()
    pull.environment.setenv("GITHUB_TOKEN", "person")
    fail(pull, "--no-check")
    fail(pull, "--no-check")
    assert [one["login"] for one in pull.comments] == ["somebody"]


def test_new_numbers_edit_nothing_and_new_findings_do(pull: Workflow) -> None:
    pull.pull_request()
    result = failing()
    fail(pull)
    other_numbers = result.model_copy(
        update={"series": [one.model_copy(update={"change": (one.change or 0) + 0.001}) for one in result.series]}
    )
    pull("--result", pull.file("gate.json", as_json(other_numbers)))
    assert pull.comments[0]["edits"] == 0
    fewer = result.model_copy(update={"reasons": result.reasons[1:]})
    pull("--result", pull.file("gate.json", as_json(fewer)))
    assert pull.comments[0]["edits"] == 1
    assert pull.check["conclusion"] == "failure"


def test_other_versions_are_another_comment_text_even_if_nothing_else_differs(pull: Workflow) -> None:
    pull.pull_request()
    fail(pull)
    result = failing()
    candidate = result.candidate.model_copy(update={"version": "0.19.9"})
    pull("--result", pull.file("gate.json", as_json(result.model_copy(update={"candidate": candidate}))))
    assert "0.19.9" in pull.comments[0]["body"]


def test_the_body_says_which_commit_and_links_only_to_our_own_pages(pull: Workflow) -> None:
    pull.pull_request()
    fail(pull, "--report-url", "https://team.example/report/7")
    body = pull.comments[0]["body"]
    marker = Marker.find(body)
    assert marker is not None
    assert (marker.name, marker.outcome) == ("upgrade", "fail")
    assert f"Commit {'a' * 12}" in body
    links = re.findall(r"\]\((https?://[^/)]*)", body)
    assert set(links) <= {"https://team.example", "https://github.example", "https://redirect.github.com"}


@pytest.mark.parametrize("url", ["javascript:alert(1)", "https://x/)[a](b", "https://user:pw@x/", "x", "https://x/ y"])
def test_a_report_address_that_is_none_is_refused(pull: Workflow, url: str) -> None:
    pull.pull_request()
    done = pull("--result", pull.file("gate.json", result_of("fail")), "--report-url", url)
    assert (done.code, pull.state.requests) == (2, [])
    assert done.ended.error.startswith("--report-url: ")


@pytest.mark.parametrize("name", ["a b", "a--b", "-a", "a-", "x" * 41, "a>b", ""])
def test_a_name_that_could_break_the_marker_is_refused(pull: Workflow, name: str) -> None:
    pull.pull_request()
    assert pull("--pins", pull.file("p.json", UNMOVED), "--name", name).code == 2


def test_five_thousand_series_fit_everywhere_with_the_worst_in_sight(pull: Workflow) -> None:
    result = crowded(1000)
    worst = next(one for one in reversed(result.series) if one.verdict is Verdict.REGRESSION)
    change = worst.model_copy(update={"change": 9.0, "interval": (8.0, 10.0)})
    series = [change if one is worst else one for one in result.series]
    reasons = [
        Reason(code=ReasonCode.REGRESSION, text=f"{one.name} is worse", series=one.name)
        for one in series
        if one.verdict is Verdict.REGRESSION
    ]
    content = as_json(result.model_copy(update={"series": series, "reasons": reasons}))
    assert len(series) == 5000
    pins = pull.file("versions.json", PINS)
    pull.pull_request()
    done = pull("--result", pull.file("gate.json", content), "--pins", pins)
    assert done.code == 0, done.ended.err
    body = pull.comments[0]["body"]
    assert len(body) < 65_536
    assert len(done.summary.encode()) < 1 << 20
    for text in (body, done.summary, pull.check["output"]["summary"]):
        assert change.scenario in text
    assert "Left out, too long for this place" in body
    assert len(pull.check["annotations"]) <= 10
    assert change.name in pull.check["annotations"][0]["title"]
    pull.pull_request("dependabot")
    done = pull("--result", pull.file("gate.json", content), "--pins", pins)
    assert sum(line.startswith("::") for line in done.ended.out.splitlines()) <= 10


def test_many_servers_fit_too(pull: Workflow) -> None:
    result = failing()
    servers = [
        result.model_copy(update={"deployment": DeploymentOut(name=f"server-{number}", where=f"compose.yaml:{number}")})
        for number in range(110)
    ]
    pull.pull_request()
    content = json.dumps(ServersView(servers).data()).encode()
    done = pull("--result", pull.file("gate.json", content))
    assert done.code == 0, done.ended.err
    body = pull.comments[0]["body"]
    assert len(body) < 65_536
    assert body.splitlines()[1] == "## FAIL: 110 servers, 110 fail"
    assert "and 10 more servers" in body
    assert len(done.summary.encode()) < 1 << 20


def test_a_summary_that_is_nearly_full_is_not_overrun(pull: Workflow) -> None:
    pull.pull_request()
    result = pull.file("gate.json", as_json(crowded(100)))
    for used in (100, (1 << 20) - 60_000, (1 << 20) - 1000):
        summary = pull.gate.directory / f"summary-{used}"
        summary.write_text("x" * used)
        pull.environment.setenv("GITHUB_STEP_SUMMARY", str(summary))
        done = pull.gate("ci", "publish", "--result", result)
        assert done.code == 0
        written = summary.read_text()
        assert len(written.encode()) < 1 << 20
        assert written.startswith("x" * used)
        assert ("FAIL" in written) is (used < (1 << 20) - 2000)
        assert ("job summary: not written" in done.out) is (used > (1 << 20) - 2000)
