"""What is believed of an answer: anything may come, and what is kept reads again as what was meant."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from regress_gate.known.tracker.github_shapes import CommitShape, CompareShape, IssueShape, PullShape, TimelinePage
from tests.known.github_server import BOT, closed, comment, named_by, sha

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=10,
)
FIELDS = ("number", "html_url", "title", "state", "labels", "pull_request", "closed_at", "commits", "status", "sha")
STRANGE = JSON | st.dictionaries(st.sampled_from(FIELDS), JSON) | st.lists(st.fixed_dictionaries({"event": JSON}))
EVENTS = [
    closed("2026-06-02T10:00:00Z", BOT, commit_id=sha("a")),
    closed("2026-06-02T10:00:00Z", actor=None),
    named_by(2, merged="2026-06-02T10:00:00Z", body="Fixes #1, reverts #3", title='Revert "x (#4)"'),
    named_by(2, merged=None),
    {"event": "cross-referenced", "source": {"type": "issue", "issue": None}},
    comment("Duplicate of #5"),
    comment("Me too."),
    {"event": "subscribed"},
    {"event": None},
]


@pytest.mark.parametrize("shape", [IssueShape, TimelinePage, PullShape, CompareShape, CommitShape])
@given(data=STRANGE)
def test_whatever_comes_is_read_or_refused(shape: type[BaseModel], data: Any) -> None:
    try:
        found = shape.model_validate(data)
    except ValidationError:
        return
    assert shape.model_validate(found.model_dump(mode="json", exclude_defaults=True)) == found


@given(st.lists(st.sampled_from(EVENTS)))
def test_a_kept_timeline_reads_as_the_one_that_came(events: list[dict[str, Any]]) -> None:
    page = TimelinePage.model_validate(events)
    assert TimelinePage.model_validate_json(page.model_dump_json(exclude_defaults=True)) == page
    assert len(page.root) == sum(event["event"] in ("closed", "cross-referenced") for event in events) + sum(
        event == EVENTS[5] for event in events
    )


def test_of_a_pull_requests_text_only_what_it_names_is_kept() -> None:
    page = TimelinePage.model_validate([named_by(2, merged=None, body="Fixes #1. Reverts #3. My password is tree.")])
    assert page.root[0].source is not None
    issue = page.root[0].source.issue
    assert issue is not None
    assert (issue.closes, issue.reverts) == (["vllm-project/vllm#1"], ["vllm-project/vllm#3"])
    assert "tree" not in page.model_dump_json()


def test_of_a_commit_the_first_line_is_kept() -> None:
    commit = CommitShape.model_validate({"sha": sha("a"), "commit": {"message": "Fix it (#1)\n\nMore."}})
    assert commit.subject == "Fix it (#1)"
    assert CommitShape.model_validate({"sha": sha("a"), "commit": {"message": ""}}).subject == ""
