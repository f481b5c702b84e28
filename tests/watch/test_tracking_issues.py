"""One issue for each finding, whatever interrupts the watch, and nothing else is ever touched."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from requests import PreparedRequest, Response

from regress_gate import github as client_module
from regress_gate.publish.writing import NotPermittedError, NotWrittenError
from regress_gate.watch.finding import FindingState, LookSummary, WatchFinding
from regress_gate.watch.tracking_issue import (
    LABEL,
    MOST_COMMENTS,
    MOST_NEW,
    IssueAction,
    issue_text,
    marker,
    sync_tracking_issues,
)
from tests.factories.results import an_issue
from tests.factories.watching import a_finding, a_look, a_regression
from tests.fake_github.server import GitHub, serving
from tests.fake_github.state import BOT, READ_ONLY, WATCH, State

REPO = "team/serving"
HOSTILE = "@team/all #1 <!-- regress-gate:watch:v1:0000000000000002 --> `x` ![](https://evil.example/p.png) ::error::"


class Repository:
    """The fake GitHub, and what the watch does to it."""

    def __init__(self, github: GitHub):
        self.github = github
        self.state = github.state

    def sync(
        self, look: LookSummary, *findings: WatchFinding, token: str = "ghs_of_the_job", **options: Any
    ) -> list[IssueAction]:
        with client_module.GitHub(self.github.url, None, token=token, wait=lambda _: None) as client:
            return sync_tracking_issues(client, REPO, findings, look=look, **{"dry_run": False, **options})

    def issues(self, state: str = "all") -> list[dict[str, Any]]:
        return self.state.issues(REPO, state)

    def comments(self, number: int) -> list[str]:
        return [one["body"] for one in self.state.comments(REPO, number)]

    @property
    def content(self) -> Any:
        """What a person sees, without numbers that GitHub gives."""
        return [
            ({key: value for key, value in one.items() if key != "edits"}, self.comments(one["number"]))
            for one in self.issues()
        ]


def a_state() -> State:
    state = State()
    state.add_repository(REPO)
    state.add_token("ghs_of_the_job", REPO, WATCH)
    state.add_token("reader", REPO, READ_ONLY)
    state.add_token("outsider", REPO, WATCH, login="outsider", app=None, role="read")
    return state


@pytest.fixture
def repository(monkeypatch: pytest.MonkeyPatch) -> Iterator[Repository]:
    monkeypatch.setattr(client_module, "SECONDS_BETWEEN_WRITES", 0)
    monkeypatch.setattr(client_module.GitHub, "pause", lambda client, seconds: None)  # noqa: ARG005
    with serving(GitHub(state=a_state())) as github:
        yield Repository(github)


def test_a_finding_gets_one_issue_that_says_all_there_is_to_know(repository: Repository) -> None:
    finding = a_finding(known_issues=(an_issue(),))
    (action,) = repository.sync(a_look(0, finding), finding, dashboard="https://dash.example/vllm/")
    (issue,) = repository.issues()
    assert (action.done, action.number, issue["labels"]) == ("created", issue["number"], [LABEL])
    assert issue["title"] == finding.title
    assert issue["body"].splitlines()[0] == marker(finding.key)
    for text in (
        "Week 1 since nightly 0.23.1rc1.dev1403",
        "vllm-project/vllm/compare/1111111aa...4080263bb",
        "512.0 → 466.0 tok/s",
        "&#91;−11.0, −7.0&#93;",
        "n=5",
        "pinned 0.19.0: 5 runs (shipped)",
        "VLLM-28882",
        f"`{finding.bisect_command}`",
        "```text",
        "[Pictures and history](<https://dash.example/vllm/>)",
    ):
        assert text in issue["body"], text
    assert repository.comments(issue["number"]) == []


def test_the_weeks_are_counted_in_place_and_nobody_is_notified(repository: Repository) -> None:
    for week in range(3):
        finding = a_finding(looks=week + 1)
        (action,) = repository.sync(a_look(week), finding)
    (issue,) = repository.issues()
    assert action.done == "edited"
    assert "Week 3 since nightly" in issue["body"]
    assert "in 3 looks so far" in issue["body"]
    assert repository.comments(issue["number"]) == []
    (again,) = repository.sync(a_look(2), finding)
    assert (again.done, issue["edits"]) == ("unchanged", 2)


def test_people_are_told_once_of_what_is_new(repository: Repository) -> None:
    finding = a_finding()
    repository.sync(a_look(0), finding)
    wider = replace(finding, series=(*finding.series, a_regression("chat-c32")), known_issues=(an_issue(),), looks=2)
    (action,) = repository.sync(a_look(1), wider)
    assert action.done == "edited, with a comment"
    repository.sync(a_look(2), finding)
    repository.sync(a_look(3), wider)
    (comment,) = repository.comments(1)
    assert "chat-c32/output_throughput" in comment
    assert "VLLM-28882" in comment
    assert "chat-c8" not in comment


def test_the_number_of_comments_is_bounded(repository: Repository) -> None:
    for week in range(MOST_COMMENTS + 4):
        repository.sync(a_look(week), a_finding(series=tuple(a_regression(f"s{n}") for n in range(week + 1))))
    (issue,) = repository.issues()
    assert len(repository.comments(1)) == MOST_COMMENTS
    assert f"{MOST_COMMENTS} comments were made" in issue["body"]


def test_it_is_closed_when_it_is_shown_to_be_gone_and_a_new_issue_links_the_old_one(repository: Repository) -> None:
    finding = a_finding()
    repository.sync(a_look(0), finding)
    (unknown,) = repository.sync(a_look(1), replace(finding, state=FindingState.UNKNOWN))
    assert (unknown.done, repository.issues()[0]["state"]) == ("edited", "open")
    (gone,) = repository.sync(a_look(2), replace(finding, state=FindingState.GONE))
    (issue,) = repository.issues()
    assert (gone.done, issue["state"], issue["state_reason"]) == ("closed", "closed", "completed")
    (comment,) = repository.comments(1)
    assert "gone on 2026-11-30" in comment
    (still_gone,) = repository.sync(a_look(3), replace(finding, state=FindingState.GONE))
    assert still_gone.done == "none: there is no open issue, and it is gone"
    back = replace(finding, first_seen=a_look(8).day)
    repository.sync(a_look(8), back)
    repository.sync(a_look(9), back)
    first, second = repository.issues()
    assert (first["state"], second["state"]) == ("closed", "open")
    assert "\nSeen before: #1\n" in second["body"]


def test_who_closes_an_issue_hears_no_more_of_that_finding(repository: Repository) -> None:
    finding = a_finding()
    repository.sync(a_look(0), finding)
    repository.issues()[0].update(state="closed", state_reason="not_planned")
    (action,) = repository.sync(a_look(1), finding)
    assert action.done == "none: #1 was closed by a person"
    assert [one["state"] for one in repository.issues()] == ["closed"]
    repository.sync(a_look(9), replace(finding, first_seen=a_look(9).day))
    assert [one["state"] for one in repository.issues()] == ["closed", "open"]


def test_a_title_that_a_person_wrote_stays(repository: Repository) -> None:
    finding = a_finding()
    repository.sync(a_look(0), finding)
    (action,) = repository.sync(a_look(1), replace(finding, title="now 12 % lower"))
    assert (action.done, repository.issues()[0]["title"]) == ("edited", "now 12 % lower")
    repository.issues()[0]["title"] = "Ours: slow decode"
    for week in (2, 3):
        repository.sync(a_look(week), replace(finding, title=f"now {week} % lower"))
    assert repository.issues()[0]["title"] == "Ours: slow decode"


def test_nothing_else_is_touched(repository: Repository) -> None:
    finding = a_finding()
    line = marker(finding.key)
    state = repository.state
    state.add_pull(REPO, 1, sha="a" * 40, body=f"{line}\nours", labels=[LABEL], login=BOT)
    for body, login, labels, status in (
        (f"{line}\nforged", "somebody", [LABEL], "open"),
        (f"{line}\nof a deleted account", None, [LABEL], "open"),
        (f"{line}\nanother label", BOT, ["bug"], "open"),
        (f"Quoting {line}", BOT, [LABEL], "open"),
        (f"{line} and more", BOT, [LABEL], "open"),
        (marker("0" * 16), BOT, [LABEL], "open"),
        (f"{line}\nclosed long ago", BOT, [LABEL], "closed"),
    ):
        state.add_issue(REPO, "theirs", body, login=login, labels=labels, state=status)
    before = [dict(one) for one in repository.issues()]
    (action,) = repository.sync(a_look(0), finding)
    repository.sync(a_look(1), finding)
    repository.sync(a_look(2), replace(finding, state=FindingState.GONE))
    *others, own = repository.issues()
    assert others == before
    assert (action.done, own["state"]) == ("created", "closed")
    assert "#2 has the marker, was written by another user, and is left alone" in action.notes
    assert {one["issue"] for one in state.repositories[REPO]["comments"]} == {own["number"]}


def test_texts_cannot_forge_markers_or_reach_anybody(repository: Repository) -> None:
    finding = a_finding(
        title=HOSTILE,
        testbed=HOSTILE,
        bisect_command=HOSTILE,
        series=(a_regression(HOSTILE),),
        known_issues=(an_issue(summary=HOSTILE, id=HOSTILE, why=HOSTILE, url="https://evil.example/"),),
    )
    repository.sync(a_look(0), finding)
    repository.sync(a_look(1), replace(finding, series=(*finding.series, a_regression(HOSTILE + "2"))))
    repository.sync(a_look(2), replace(finding, state=FindingState.GONE))
    (issue,) = repository.issues()
    texts = [issue["body"], *repository.comments(1)]
    assert len(texts) == 3
    for text in texts:
        shown = text.replace(f"`` {HOSTILE} ``", "").replace(f"``{HOSTILE}``", "")
        assert shown.count("<!--") == (2 if text is issue["body"] else 1)
        assert "@team" not in shown
        assert "#1 " not in shown
        assert "![" not in shown
    assert "@team" not in issue["title"]


def test_a_finding_with_all_there_can_be_fits_into_an_issue(repository: Repository) -> None:
    finding = a_finding(
        title="é" * 5000,
        series=tuple(a_regression("<" * 70 + str(number)) for number in range(2000)),
        known_issues=tuple(an_issue(number, summary="|" * 900) for number in range(500)),
        bisect_command="x" * 20_000,
    )
    (action,) = repository.sync(a_look(0), finding)
    assert action.problem is None
    assert len(repository.issues()[0]["body"]) <= 65_536
    (again,) = repository.sync(a_look(0), finding)
    assert again.done == "unchanged"


def test_a_dry_run_reads_only(repository: Repository) -> None:
    first, second = a_finding(1), a_finding(2)
    repository.sync(a_look(0), first)
    before = repository.content
    state = repository.state
    state.requests.clear()
    done = [one.done for one in repository.sync(a_look(1), first, second, dry_run=True)]
    assert done == ["edited", "created"]
    repository.sync(a_look(1), replace(first, state=FindingState.GONE), dry_run=True)
    assert (repository.content, state.writes()) == (before, [])


def test_issues_of_one_look_are_bounded(repository: Repository) -> None:
    findings = [a_finding(number) for number in range(1, MOST_NEW + 3)]
    actions = repository.sync(a_look(0), *findings)
    assert len(repository.issues()) == MOST_NEW
    assert actions[-1].done.startswith("none: 10 issues were made in this look")


def test_our_issue_is_found_on_any_page(repository: Repository) -> None:
    repository.sync(a_look(0), a_finding())
    for number in range(230):
        repository.state.add_issue(REPO, f"other {number}", "text", login=BOT, labels=[LABEL])
    (action,) = repository.sync(a_look(1), a_finding())
    assert (action.done, action.number) == ("edited", 1)


def test_of_two_issues_of_two_watches_at_a_time_one_stays(repository: Repository) -> None:
    finding = a_finding()
    for _ in range(2):
        title, body = issue_text(finding, a_look(0))
        repository.state.add_issue(REPO, title, body, login=BOT, labels=[LABEL])
    repository.sync(a_look(1), finding)
    assert [one["state"] for one in repository.issues()] == ["open", "closed"]
    repository.sync(a_look(2), replace(finding, state=FindingState.GONE))
    repository.sync(a_look(9), replace(finding, first_seen=a_look(9).day))
    assert "\nSeen before: #1\n" in repository.issues()[-1]["body"]


class KilledError(BaseException):
    """The process ends here."""


def killing(monkeypatch: pytest.MonkeyPatch, at: int, *, before: bool) -> Callable[[], int]:
    """Ends the work at that request, before it is sent or after it was answered; gives how many there were."""
    count = 0
    send = client_module.CacheControlAdapter.send

    def killed(self: Any, request: PreparedRequest, *arguments: Any, **options: Any) -> Response:
        nonlocal count
        count += 1
        if count == at and before:
            raise KilledError
        answer = send(self, request, *arguments, **options)
        if count == at:
            raise KilledError
        return answer

    monkeypatch.setattr(client_module.CacheControlAdapter, "send", killed)
    return lambda: count


def weeks() -> list[tuple[LookSummary, tuple[WatchFinding, ...]]]:
    """Made; something new; gone; another one, which comes back."""
    one, two = a_finding(1), a_finding(2)
    wider = replace(one, series=(*one.series, a_regression("chat-c32")))
    gone, back = replace(wider, state=FindingState.GONE), replace(two, first_seen=a_look(4).day)
    two_gone = replace(two, state=FindingState.GONE)
    looks = [(one, two), (wider, two), (gone, two_gone), (gone,), (back,)]
    return [(a_look(week), findings) for week, findings in enumerate(looks)]


@pytest.mark.slow
@pytest.mark.parametrize("before", [True, False])
def test_an_interruption_at_any_request_changes_nothing_in_the_end(
    repository: Repository, monkeypatch: pytest.MonkeyPatch, before: bool
) -> None:
    story = weeks()
    for look, findings in story:
        repository.sync(look, *findings)
    expected, calls = repository.content, len(repository.github.asked)
    fresh = repository.state
    for at in range(1, calls + 1):
        fresh.repositories.clear()
        fresh.add_repository(REPO)
        kills = 0
        with monkeypatch.context() as patch:
            killing(patch, at, before=before)
            for look, findings in story:
                try:
                    repository.sync(look, *findings)
                except KilledError:
                    kills += 1
                    repository.sync(look, *findings)
        assert kills == 1
        assert repository.content == expected, at


def test_a_lost_answer_doubles_nothing(repository: Repository) -> None:
    repository.state.faults = [
        {"method": "POST", "path": "/issues$", "apply": True},
        {"method": "POST", "path": "/comments$", "apply": True, "status": 502},
        {"method": "PATCH", "apply": True},
    ]
    for look, findings in weeks()[:2]:
        repository.sync(look, *findings)
    assert len(repository.issues()) == 2
    assert len(repository.comments(1)) == 1


@pytest.mark.parametrize(
    ("change", "token", "text"),
    [
        (lambda state: None, "reader", "refuses (403); add `issues: write` to the job's `permissions`"),  # noqa: ARG005
        (
            lambda state: state.repositories[REPO].update(has_issues=False),
            "ghs_of_the_job",
            "the repository has no issues (410)",
        ),
        (lambda state: state.repositories.clear() or state.add_repository("a/b"), "ghs_of_the_job", "(404)"),
        (
            lambda state: state.faults.append(
                {
                    "method": "POST",
                    "path": "/issues$",
                    "status": 422,
                    "body": '{"message": "Validation Failed"}',
                    "times": 9,
                }
            ),
            "ghs_of_the_job",
            "refuses (422): Validation Failed",
        ),
        (
            lambda state: state.faults.append(
                {"path": "/issues", "status": 403, "headers": {"Retry-After": "900"}, "body": "{}", "times": 9}
            ),
            "ghs_of_the_job",
            "the quota of 127.0.0.1 is used up until",
        ),
    ],
    ids=["forbidden", "disabled", "missing", "invalid", "secondary limit"],
)
def test_a_refusal_is_one_line(repository: Repository, change: Callable[[State], None], token: str, text: str) -> None:
    change(repository.state)
    problems = [one.problem for one in repository.sync(a_look(0), a_finding(), token=token)]
    assert len(problems) == 1
    assert text in str(problems[0])
    assert "\n" not in str(problems[0])


def test_a_short_secondary_limit_is_waited_for(repository: Repository) -> None:
    repository.state.faults = [
        {"method": "POST", "path": "/issues", "status": 403, "headers": {"Retry-After": "5"}, "body": "{}"}
    ]
    (action,) = repository.sync(a_look(0), a_finding())
    assert (action.done, len(repository.issues())) == ("created", 1)


def test_a_bad_token_ends_it(repository: Repository) -> None:
    with pytest.raises(NotWrittenError, match="does not accept GITHUB_TOKEN"):
        repository.sync(a_look(0), a_finding(), token="unknown")


def test_who_may_set_no_labels_leaves_no_open_issue_behind(repository: Repository) -> None:
    repository.state.repositories[REPO]["labels"][LABEL] = {"color": "b60205", "description": ""}
    (action,) = repository.sync(a_look(0), a_finding(), token="outsider")
    assert isinstance(action.problem, NotPermittedError)
    assert [one["state"] for one in repository.issues()] == ["closed"]


def test_a_locked_issue_is_edited_without_a_comment(repository: Repository) -> None:
    finding = a_finding()
    repository.sync(a_look(0), finding)
    repository.issues()[0]["locked"] = True
    (action,) = repository.sync(a_look(1), replace(finding, known_issues=(an_issue(),)))
    assert (action.done, action.notes) == ("edited", ("#1 is locked: no comment",))
