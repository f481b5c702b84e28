"""The state of a thread: who and what closed it, its original if it is a duplicate, and reverts of a fix."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from regress_gate.github import UnavailableError
from regress_gate.known.threads import ThreadRef
from regress_gate.known.tracker import threads
from regress_gate.known.tracker.snapshot import Thread
from regress_gate.known.tracker.threads import read_duplicate, read_pull, read_thread
from tests.fake_github.server import BOT, PERSON, REPO, GitHub, Scripted, closed, comment, named_by
from tests.known.github_session import NOW, session

ONE = ThreadRef(REPO, 1)
DAY = "2026-06-02T10:00:00Z"
STALE = [{"name": "bug"}, {"name": "stale"}]


@pytest.mark.parametrize(
    ("fields", "event", "reason"),
    [
        ({"state_reason": "not_planned", "labels": STALE}, closed(DAY, BOT), "stale"),
        ({"state_reason": "completed", "labels": STALE}, closed(DAY, BOT), "stale"),
        ({"state_reason": "not_planned", "labels": STALE}, closed(DAY, PERSON), "not_planned"),
        ({"state_reason": "completed", "labels": STALE}, closed(DAY, PERSON), "completed"),
        ({"state_reason": "not_planned", "labels": STALE}, {"event": "labeled"}, "stale"),
        ({"state_reason": "not_planned"}, closed(DAY, BOT), "not_planned"),
        ({"state_reason": "duplicate"}, closed(DAY), "duplicate"),
        ({"state_reason": None}, closed(DAY), "unknown"),
        ({"state_reason": "\x1b[31mnew in 2030"}, closed(DAY), "unknown"),
    ],
)
def test_how_an_issue_was_closed(
    github: GitHub, tmp_path: Path, fields: dict[str, Any], event: dict[str, Any], reason: str
) -> None:
    github.issue(1, event, state="closed", closed_at=DAY, **fields)
    thread = read_thread(session(github, tmp_path), ONE)
    assert (thread.state, thread.reason) == ("closed", reason)


def test_an_open_one_may_have_been_closed_before(github: GitHub, tmp_path: Path) -> None:
    github.issue(1, state_reason="reopened", labels=STALE)
    assert read_thread(session(github, tmp_path), ONE).reason == "reopened"


class TestClosingPulls:
    def fixes(self, github: GitHub, tmp_path: Path, *events: dict[str, Any], **fields: Any) -> list[int]:
        github.issue(1, *events, **{"state": "closed", "state_reason": "completed", "closed_at": DAY, **fields})
        return [pull.number for pull in read_thread(session(github, tmp_path), ONE).fixes]

    def test_a_merged_pull_request_that_says_so(self, github: GitHub, tmp_path: Path) -> None:
        event = named_by(2, merged="2026-06-01T00:00:00Z", body="Fixes #1")
        assert self.fixes(github, tmp_path, event, event) == [2]

    def test_a_merge_within_a_minute_of_the_closing_counts(self, github: GitHub, tmp_path: Path) -> None:
        assert self.fixes(github, tmp_path, named_by(2, merged="2026-06-02T09:59:58Z", body="Helps #1")) == [2]

    @pytest.mark.parametrize(
        "event",
        [
            named_by(2, merged="2026-06-01T00:00:00Z", body="Related to #1"),
            named_by(2, merged=None, body="Fixes #1"),
            named_by(2, merged="2026-06-01T00:00:00Z", body="Fixes #11"),
            named_by(2, merged="2026-06-01T00:00:00Z", body="Fixes #1", repo="a/fork"),
            named_by(2, merged="2026-06-02T10:00:00Z", body="See vllm-project/vllm#1", repo="a/fork"),
        ],
        ids=["only related", "not merged", "another issue", "an issue of a fork", "at once, but elsewhere"],
    )
    def test_no_other_reference_counts_as_a_fix(self, github: GitHub, tmp_path: Path, event: dict[str, Any]) -> None:
        assert self.fixes(github, tmp_path, event) == []

    def test_merges_from_before_a_reopening_do_not_count(self, github: GitHub, tmp_path: Path) -> None:
        events = (
            named_by(2, merged="2026-05-01T00:00:00Z", body="Fixes #1"),
            {"event": "reopened", "created_at": "2026-05-03T00:00:00Z"},
            named_by(3, merged="2026-06-02T10:00:00Z", body="Fixes #1"),
        )
        assert self.fixes(github, tmp_path, *events) == [3]

    def test_a_commit_may_close_it_too(self, github: GitHub, tmp_path: Path) -> None:
        github.issue(1, closed(DAY, commit_id="a" * 40), state="closed", closed_at=DAY)
        assert read_thread(session(github, tmp_path), ONE).closing_commit == "a" * 40


class TestDuplicates:
    def test_the_comment_names_the_original(self, github: GitHub, tmp_path: Path) -> None:
        github.issue(1, comment("Duplicate of #5"), closed(DAY), state="closed", state_reason="duplicate")
        github.issue(5)
        api = session(github, tmp_path)
        thread = read_thread(api, ONE)
        assert thread.duplicate_of == f"{REPO}#5"
        original = read_duplicate(api, thread)
        assert original is not None
        assert original.state == "open"

    def test_a_circle_of_duplicates_ends(self, github: GitHub, tmp_path: Path) -> None:
        github.issue(1, comment("Duplicate of #5"), state="closed")
        github.issue(5, comment("Duplicate of #1", number=5), state="closed")
        api = session(github, tmp_path)
        assert read_duplicate(api, read_thread(api, ONE)) is not None
        assert len(github.asked) < 10


class TestMovedAndDeletedThreads:
    @pytest.mark.parametrize("status", [404, 410])
    def test_deleted(self, github: GitHub, tmp_path: Path, status: int) -> None:
        github.gone[f"/repos/{REPO}/issues/1"] = status
        thread = read_thread(session(github, tmp_path), ONE)
        assert (thread.state, thread.seen) == ("gone", NOW)

    def test_transferred(self, github: GitHub, tmp_path: Path) -> None:
        github.issue(77, state="closed", repo="vllm-project/vllm-ascend")
        github.moved[f"/repos/{REPO}/issues/1"] = f"{github.url}/repos/vllm-project/vllm-ascend/issues/77"
        thread = read_thread(session(github, tmp_path), ONE)
        assert (thread.url, thread.state) == ("https://github.com/vllm-project/vllm-ascend/issues/77", "closed")


def test_a_pull_request_that_is_merged(github: GitHub, tmp_path: Path) -> None:
    github.pull(1, merged=DAY, commit="c")
    assert read_thread(session(github, tmp_path), ONE).state == "merged"


def test_reverts_of_a_pull_request(github: GitHub, tmp_path: Path) -> None:
    title = 'Revert "Faster (#1)"'
    github.pull(
        1,
        named_by(8, merged="2026-07-01T00:00:00Z", body=f"Reverts {REPO}#1"),
        named_by(7, merged="2026-06-20T00:00:00Z", title=title),
        named_by(6, merged=None, title=title),
        named_by(5, merged="2026-06-20T00:00:00Z", body="After #1"),
        merged=DAY,
        commit="c",
    )
    pull = read_pull(session(github, tmp_path), REPO, 1)
    assert [undo.number for undo in pull.undone_by] == [7, 8]


def test_a_timeline_that_cannot_be_had_is_said_to_be_missing(github: GitHub, tmp_path: Path) -> None:
    github.issue(1)
    del github.resources[f"/repos/{REPO}/issues/1/timeline"]
    assert not read_thread(session(github, tmp_path), ONE).complete


def test_no_quota_for_the_timeline_is_no_thread_without_one(github: GitHub, tmp_path: Path) -> None:
    github.issue(1)
    api = session(github, tmp_path)
    read_thread(api, ONE)
    github.script = [Scripted(304, {}, b""), Scripted(429, {"Retry-After": "999"})]
    with pytest.raises(UnavailableError, match="used up"):
        read_thread(api, ONE)


def test_ten_thousand_labels_are_a_hundred_and_the_one_that_means_something(github: GitHub, tmp_path: Path) -> None:
    github.issue(1, labels=[{"name": f"label-{number}" * 50} for number in range(10_000)] + [{"name": "stale"}])
    labels = read_thread(session(github, tmp_path), ONE).labels
    assert len(labels) == 100
    assert "stale" in labels
    assert max(map(len, labels)) <= 100


def test_a_timeline_without_end_is_read_in_part(
    github: GitHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "MAX_EVENTS", 150)
    github.issue(1, *[closed(DAY) for _ in range(500)])
    assert not read_thread(session(github, tmp_path), ONE).complete
    assert sum("timeline" in path for path in github.paths()) == 2


def test_no_text_of_a_post_is_in_what_is_kept_of_a_thread(github: GitHub, tmp_path: Path) -> None:
    github.issue(1, named_by(2, merged=DAY, body="Fixes #1. My password is tree."), comment("My password is tree."))
    assert "tree" not in read_thread(session(github, tmp_path), ONE).model_dump_json()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=10,
)
FIELDS = ("number", "html_url", "title", "state", "state_reason", "labels", "pull_request", "closed_at", "url", "body")
STRANGE = JSON | st.dictionaries(st.sampled_from(FIELDS), JSON)
EVENT = st.fixed_dictionaries({"event": st.sampled_from(["closed", "commented", "cross-referenced"]) | JSON}) | JSON
WHOLE = {"number": 1, "html_url": f"https://github.com/{REPO}/issues/1", "state": "closed", "labels": []}


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(fields=STRANGE, events=st.lists(EVENT | JSON, max_size=3) | JSON, is_partly_right=st.booleans())
def test_any_answer_is_read_or_refused(
    github: GitHub, tmp_path: Path, fields: Any, events: Any, is_partly_right: bool
) -> None:
    document = {**WHOLE, **fields} if is_partly_right and isinstance(fields, dict) else fields
    github.resources = {f"/repos/{REPO}/issues/1": document, f"/repos/{REPO}/issues/1/timeline": events}
    github.asked.clear()
    with suppress(UnavailableError):
        thread = read_thread(session(github, tmp_path), ONE)
        assert Thread.model_validate_json(thread.model_dump_json()) == thread
    assert len(github.asked) < 10
