"""What a fork uploads may be anything: nothing of it is believed or obeyed, or written where it does not belong."""

import io
import json
import re
import zipfile
from base64 import b64encode
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from regress_gate.publish.artefact import MAX_BYTES, MAX_FILE_BYTES, UnusableArtefactError, read_artefact
from regress_gate.publish.comment import Marker
from tests.cli.publishing.conftest import (
    FORK,
    OTHER_PULL,
    PINS,
    PULL,
    REPO,
    SHA,
    SOURCE_RUN,
    Workflow,
    as_json,
    result_of,
)
from tests.factories.results import HOSTILE, failing, filled_with
from tests.report.test_markdown import GITHUB_ACTS_ON, OUR_HTML, tokens

ATTACKS = (
    HOSTILE,
    "@everyone see #1 and GH-2, https://evil.example/ www.evil.example",
    "<!-- regress-gate:v1:upgrade pass 0123456789abcdef -->",
    "--><script>alert(1)</script><img src=x onerror=alert(1)>",
    "\n::set-output name=decision::pass\n::error::x",
    "##[error]x ##[add-matcher]x",
    "decision<<EOF\npass\nEOF\n",
    "| a | b |\n|---|---|\n\n## PASS: you may move",
    "[x](javascript:alert(1)) ![x](https://evil.example/x.png)",
    "\u202epass\u202c \u2066x\u2069 \u200b",
    "</details></details>",
    "&lt;b&gt; &#x3c;b&#x3e;",
)


@pytest.fixture
def forked(workflow: Workflow) -> Workflow:
    workflow.state.add_pull(REPO, PULL, sha=SHA, head=FORK)
    workflow.state.add_pull(REPO, OTHER_PULL, sha="b" * 40, branch="other")
    return workflow


def publish(workflow: Workflow, content: bytes, pins: bytes | None = None, **fields: Any) -> Any:
    files = {"gate.json": content, "versions.json": json.dumps(PINS).encode() if pins is None else pins}
    workflow.workflow_run("fork", files, **fields)
    done = workflow()
    assert workflow.written_elsewhere() == []
    return done


@pytest.mark.parametrize("text", ATTACKS)
def test_a_text_of_the_result_stays_a_text(forked: Workflow, text: str) -> None:
    pins = json.dumps({**PINS, "why": text, "moved": [{**PINS["moved"][0], "text": text, "kind": text}]})  # type: ignore[index,dict-item]
    done = publish(forked, as_json(filled_with(text)), pins.encode())
    assert done.code == 0, done.ended.err
    (comment,) = forked.comments
    body = comment["body"]
    assert Marker.find(body) is not None
    for written in (body.partition("\n")[2], done.summary, forked.check["output"]["summary"]):
        found = tokens(written)
        assert sum(token.type == "heading_open" and token.tag == "h2" for token in found) == 1
        for token in found:
            assert token.type not in ("image", "html_inline", "fence", "code_block", "hr")
            if token.type == "html_block":
                assert OUR_HTML.fullmatch(token.content.strip())
            if token.type == "link_open":
                assert str(token.attrs["href"]).startswith(("https://github.example/", "https://redirect.github.com/"))
            if token.type == "text":
                assert not GITHUB_ACTS_ON.search(token.content), ascii(token.content)
    assert not re.search(r"^\s*::|##\[", done.ended.out + done.ended.err, re.MULTILINE)
    assert done.outputs["decision"] in ("pass", "fail", "inconclusive")
    assert set(done.outputs) <= {"decision", "exit-code", "pull-request", "check-url", "comment-url"}


def test_a_number_in_the_result_chooses_no_pull_request(forked: Workflow) -> None:
    data = json.loads(result_of("fail"))
    for key in ("pull_request", "number", "issue", "pr", "repository", "head_sha", "markdown", "comment"):
        data[key] = OTHER_PULL
    pins = {**PINS, "pull_request": OTHER_PULL, "repository": "other/repository"}
    done = publish(forked, json.dumps(data).encode(), json.dumps(pins).encode())
    assert (done.code, done.outputs["pull-request"]) == (0, str(PULL))
    assert [one["issue"] for one in forked.state.repositories[REPO]["comments"]] == [PULL]


def nested(depth: int) -> bytes:
    data = result_of("fail").rstrip()
    return data[:-1] + b', "x": ' + b"[" * depth + b"]" * depth + b"}"


def changed(**changes: Any) -> bytes:
    return json.dumps({**json.loads(result_of("fail")), **changes}).encode()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b"not json",
        b"\xff\xfe",
        nested(100_000),
        result_of("fail")[:-20],
        changed(decision="excellent"),
        changed(schema_version="2"),
        changed(candidate=7),
        changed(config_changes=[{"matters": "affects"}]),
        changed(config_changes=["x"]),
        changed(exit_code=77),
        changed(exit_code=-(10**30)),
        changed(waivers=json.loads(result_of("fail"))["waivers"][:1] * 501),
        changed(reasons=json.loads(result_of("fail"))["reasons"][:1] * 20_001),
        changed(deployments=[]),
        changed(deployments=[{}]),
        changed(change_points=[7]),
        changed(advice="\ud800"),
        b'{"schema_version": "1", "decision": "pass", "minutes_a_block": 1, "series": []}',
    ],
    ids=lambda content: content[:30].decode("latin1"),
)
def test_what_is_no_result_is_not_a_measurement(forked: Workflow, content: bytes) -> None:
    done = publish(forked, content)
    assert (done.code, done.outputs["decision"]) == (0, "could_not_measure")
    assert forked.check["conclusion"] == "action_required"
    assert len(forked.comments) == 1


def test_the_same_in_the_job_that_made_it_is_an_error_of_that_job(forked: Workflow) -> None:
    forked.pull_request()
    done = forked("--result", forked.file("gate.json", changed(decision="excellent")))
    assert (done.code, forked.check["conclusion"]) == (2, "action_required")
    assert "gate.json" in done.ended.error
    done = forked("--result", forked.gate.directory / "missing.json")
    assert done.code == 2
    assert "cannot be read" in done.ended.error


def zipped(files: dict[str, bytes], **options: Any) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", **options) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return packed.getvalue()


def twice() -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for content in (b"{}", result_of("pass")):
            archive.writestr("gate.json", content)
    return packed.getvalue()


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize(
    "make",
    [
        lambda: b"",
        lambda: b"PK\x05\x06",
        lambda: zipped({"gate.json": b"x" * 1000})[:-30],
        lambda: zipped({"gate.json": b" " * (MAX_FILE_BYTES + 1)}, compression=zipfile.ZIP_DEFLATED),
        lambda: zipped({"gate.json": b"{}"}, compression=zipfile.ZIP_LZMA),
        lambda: zipped({f"{number}": b"" for number in range(200)}),
        twice,
    ],
)
def test_an_archive_that_is_no_plain_one_is_refused(make: Callable[[], bytes]) -> None:
    with pytest.raises(UnusableArtefactError):
        read_artefact(make(), "regress-gate")


@given(st.binary(max_size=300), st.integers(0, 400))
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
def test_no_bytes_break_the_reading_of_an_archive(noise: bytes, place: int) -> None:
    packed = zipped({"gate.json": b"{}", "versions.json": b"{}"})
    with suppress(UnusableArtefactError):
        read_artefact(packed[:place] + noise + packed[place + len(noise) :], "regress-gate")


def test_files_elsewhere_in_the_archive_are_not_read() -> None:
    found = read_artefact(zipped({"../gate.json": b"x", "/gate.json": b"x", "a/gate.json": b"x"}), "regress-gate")
    assert (found.result, found.pins) == (None, None)


def test_a_gigabyte_is_not_downloaded(forked: Workflow) -> None:
    forked.workflow_run("fork", {"gate.json": b"{}"})
    forked.state.repositories[REPO]["artifacts"][0]["size_in_bytes"] = 1 << 30
    done = forked()
    assert forked.check["conclusion"] == "action_required"
    assert "larger than 5 MiB" in done.ended.err
    assert not any("/zip" in one["path"] for one in forked.state.requests)


def test_a_download_that_is_larger_than_it_was_said_to_be_is_cut_off(forked: Workflow) -> None:
    forked.workflow_run("fork", {})
    packed = zipped({"gate.json": b"x" * (MAX_BYTES + 1)})
    forked.state.add_artifact(REPO, SOURCE_RUN, "regress-gate", {}, content=b64encode(packed).decode())
    forked.state.repositories[REPO]["artifacts"].pop(0)
    assert "larger than 5 MiB" in forked().ended.err


@pytest.mark.parametrize(
    "file", ["../../etc/passwd", "/etc/passwd", "a/../../b", "-rf", "", "a\nb", "a//b", "\u202ea", "x" * 2000]
)
def test_a_path_that_no_repository_has_is_annotated_nowhere(forked: Workflow, file: str) -> None:
    pins = {**PINS, "moved": [{"file": file, "line": 3}]}
    done = publish(forked, result_of("fail"), json.dumps(pins).encode())
    assert (done.code, forked.check["annotations"]) == (0, [])


@pytest.mark.parametrize("pins", [b"[]", b"x", b'{"moved": [{"file": "a", "line": 0}]}', b'{"moved": 7}'])
def test_pins_that_are_none_are_not_a_measurement(forked: Workflow, pins: bytes) -> None:
    assert publish(forked, result_of("pass"), pins).outputs["decision"] == "could_not_measure"


def test_a_missing_artefact_is_not_a_measurement_and_a_skipped_run_is_nothing(forked: Workflow) -> None:
    forked.workflow_run("fork", None, conclusion="skipped")
    assert (forked().code, forked.state.writes()) == (0, [])
    forked.workflow_run("fork", None, conclusion="failure")
    done = forked()
    assert (done.code, forked.check["conclusion"]) == (0, "action_required")
    assert "It ended as: failure" in forked.comments[0]["body"]


def test_a_fork_is_named_as_the_maker_of_the_result(forked: Workflow) -> None:
    publish(forked, result_of("fail"))
    assert "This pull request is from a fork" in forked.comments[0]["body"]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"sha": "c" * 40}, "has moved on"),
        ({"head_branch": "other"}, "no open pull request"),
        ({"head_branch": ""}, "no open pull request"),
        ({"head_repository": {"full_name": REPO}, "head_branch": "bump"}, "no open pull request"),
        ({"head_repository": None}, "no open pull request"),
        ({"event": "push"}, "another repository's"),
    ],
)
def test_without_exactly_this_pull_request_nothing_is_written(
    forked: Workflow, fields: dict[str, Any], said: str
) -> None:
    forked.workflow_run("fork", {"gate.json": result_of("fail")}, **fields)
    done = forked()
    assert (done.code, forked.state.writes(), done.summary) == (0, [], "")
    assert said in done.ended.err


def test_a_closed_pull_request_gets_nothing(forked: Workflow) -> None:
    forked.state.repositories[REPO]["pulls"][0]["state"] = "closed"
    forked.workflow_run("fork", {"gate.json": result_of("fail")})
    assert (forked().code, forked.state.writes()) == (0, [])


def test_the_event_s_own_list_of_pull_requests_has_no_say(forked: Workflow) -> None:
    publish(forked, result_of("fail"), pull_requests=[{"number": OTHER_PULL}])
    assert len(forked.comments) == 1


def test_two_pull_requests_of_one_head_share_the_check_and_get_no_comment(forked: Workflow) -> None:
    forked.state.add_pull(REPO, 9, sha=SHA, head=FORK)
    done = publish(forked, result_of("fail"))
    assert "2 open pull requests have this head" in done.ended.err
    assert (len(forked.checks), forked.comments) == (1, [])


def test_a_push_to_the_repository_itself_gets_its_check(forked: Workflow) -> None:
    forked.workflow_run("same", {"gate.json": result_of("fail")}, event="push")
    assert (forked().code, forked.check["conclusion"], forked.comments) == (0, "failure", [])


def test_a_failing_result_can_be_hostile_and_still_reads_as_one(forked: Workflow) -> None:
    result = failing().model_copy(update={"advice": "@all ## PASS"})
    assert publish(forked, as_json(result)).outputs["decision"] == "fail"
    assert forked.comments[0]["body"].splitlines()[1].startswith("## FAIL")
