"""Reads threads and pull requests at GitHub: how they were closed, by whom, what claims to fix them, what reverts that.
Searches for those that may report a regression.

Facts only, each with the time at which GitHub confirmed it. Texts of posts are searched for references and go no
further. Not for: whether a fix is in a build (`fixes`).
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from itertools import islice
from typing import Any

from github.Issue import Issue
from github.TimelineEvent import TimelineEvent

from regress_gate.github import GitHub, GoneError, UnavailableError, answer_time
from regress_gate.known.threads import (
    ThreadRef,
    closing_references,
    duplicate_references,
    named_versions,
    regression_signs,
    reverted_references,
)
from regress_gate.known.tracker.snapshot import ClosingReason, FoundThread, MergedPull, Pull, Thread, ThreadStatus

CLOSED_BY_MERGE_WITHIN = timedelta(minutes=1)
"""A thread that is closed this soon after the merge of a pull request that names it was closed by that merge."""
MAX_DEPTH = 4
"""A fix, its revert, the revert's revert…"""
MAX_EVENTS = 3000
"""Of one timeline."""
MAX_LABELS = 100
MAX_LABEL_LENGTH = 100
_STALE = "stale"
SEARCHES = ("is:issue", "is:pr regression", "is:pr revert in:title", "is:pr slowdown", "is:pr default in:title")
"""What is searched for in GitHub's words: every new issue, and the pull requests that may have to do with a loss."""
PAGE = 100
MAX_RESULTS = 1000
"""Of one search: GitHub gives no more."""


def read_thread(client: GitHub, ref: ThreadRef) -> Thread:
    """The thread behind an address. Raises UnavailableError; a thread that is gone is a fact."""
    try:
        with client.reading():
            issue = client.api.get_repo(ref.repo).get_issue(ref.number)
            status = _status(client, issue)
    except GoneError:
        return Thread(url=ref.url, state="gone", seen=client.now())
    with client.reading():
        there = ThreadRef.parse(issue.html_url) or ref
        events, complete = _read_timeline(client, there)
        labels = _labels(issue)
        return Thread(
            url=there.url,
            state=status,
            reason=_closing_reason(issue, labels, events),
            labels=labels,
            duplicate_of=_duplicate_of(issue, events, there),
            fixes=_closing_pulls(events, there, issue.closed_at),
            closing_commit=_closing_commit(events),
            complete=complete,
            seen=client.answered_at(issue),
        )


def read_duplicate(client: GitHub, thread: Thread) -> Thread | None:
    """The thread at the end of the chain of "duplicate of"; None for no duplicate. Raises UnavailableError."""
    duplicate, seen = None, set[str]()
    key = thread.duplicate_of
    while key is not None and key not in seen and len(seen) < MAX_DEPTH:
        seen.add(key)
        repo, _, number = key.rpartition("#")
        duplicate = read_thread(client, ThreadRef(repo, int(number)))
        key = duplicate.duplicate_of
    return duplicate


def read_pull(client: GitHub, repo: str, number: int) -> Pull:
    """A pull request with its reverts. Raises UnavailableError, GoneError."""
    with client.reading():
        pull = client.api.get_repo(repo).get_pull(number)
        there = ThreadRef.parse(pull.html_url) or ThreadRef(repo, number)
        if pull.merged_at is None:
            return Pull(repo=there.repo, number=pull.number, seen=client.answered_at(pull))
        events, complete = _read_timeline(client, there)
        reverts = [merged for source, merged in _merged_references(events) if there.key in _reverted_by(source, merged)]
        return Pull(
            repo=there.repo,
            number=pull.number,
            merged=pull.merged_at,
            commit=_sha(pull.merge_commit_sha),
            undone_by=_by_merge_time(reverts),
            complete=complete,
            seen=client.answered_at(pull),
        )


def _status(client: GitHub, issue: Issue) -> ThreadStatus:
    if issue.pull_request is not None and issue.pull_request.merged_at is not None:
        return "merged"
    if issue.state == "open":
        return "open"
    if issue.state == "closed":
        return "closed"
    raise UnavailableError(f"{client.host} gives an answer of an unexpected form")


def _read_timeline(client: GitHub, thread: ThreadRef) -> tuple[list[TimelineEvent], bool]:
    """The events, oldest first, and whether these are all."""
    try:
        with client.reading():
            timeline = client.api.get_repo(thread.repo).get_issue(thread.number).get_timeline()
            events = list(islice(timeline, MAX_EVENTS + 1))
    except UnavailableError:
        if client.stopped is not None or client.offline:
            raise
        return [], False
    return events[:MAX_EVENTS], len(events) <= MAX_EVENTS


def _labels(issue: Issue) -> list[str]:
    """The names, bounded; `stale` is never dropped, because it means something here."""
    names = {label.name[:MAX_LABEL_LENGTH] for label in issue.labels or [] if label.name}
    return sorted(names, key=lambda name: (name != _STALE, name))[:MAX_LABELS]


def _closing_reason(issue: Issue, labels: Sequence[str], events: Sequence[TimelineEvent]) -> ClosingReason | None:
    """How it was closed. GitHub calls a closing by the inactivity bot `not_planned` or `completed`."""
    if issue.state == "open":
        return "reopened" if issue.state_reason == "reopened" else None
    closing = next((event for event in reversed(events) if event.event == "closed"), None)
    actor = None if closing is None else closing.actor
    is_bot = actor is not None and (actor.type == "Bot" or (actor.login or "").endswith("[bot]"))
    if _STALE in labels and (is_bot or (actor is None and issue.state_reason == "not_planned")):
        return "stale"
    match issue.state_reason:
        case "completed" | "not_planned" | "duplicate" as reason:
            return reason
        case _:
            return "unknown"


def _duplicate_of(issue: Issue, events: Iterable[TimelineEvent], thread: ThreadRef) -> str | None:
    if issue.state != "closed":
        return None
    texts = [event.body or "" for event in events if event.event == "commented"]
    keys = [key for text in texts for key in duplicate_references(text, thread.repo) if key != thread.key]
    return keys[-1] if keys else None


def _closing_commit(events: Sequence[TimelineEvent]) -> str | None:
    return next((_sha(e.commit_id) for e in reversed(events) if e.event == "closed" and _sha(e.commit_id)), None)


def _closing_pulls(events: Sequence[TimelineEvent], thread: ThreadRef, closed: datetime | None) -> list[MergedPull]:
    """Merged pull requests whose text closes the thread, or with whose merge it was closed.

    Those from before the thread was reopened did not fix it.
    """
    reopened = max((e.created_at for e in events if e.event == "reopened" and e.created_at), default=None)
    pulls = []
    for source, pull in _merged_references(events):
        at_once = closed is not None and abs(closed - pull.merged) <= CLOSED_BY_MERGE_WITHIN
        names_it = thread.key in closing_references(source.body or "", pull.repo)
        closes = names_it or (at_once and pull.repo.lower() == thread.repo.lower())
        if closes and (reopened is None or pull.merged > reopened):
            pulls.append(pull)
    return _by_merge_time(pulls)


def _reverted_by(source: Issue, pull: MergedPull) -> list[str]:
    return reverted_references(source.title or "", source.body or "", pull.repo)


def _merged_references(events: Iterable[TimelineEvent]) -> list[tuple[Issue, MergedPull]]:
    """The merged pull requests that name the thread."""
    merged = []
    for event in events:
        issue = event.source.issue if event.source is not None else None
        if issue is None or issue.pull_request is None or issue.pull_request.merged_at is None:
            continue
        there = ThreadRef.parse(issue.html_url)
        if there is not None:
            pull = MergedPull(repo=there.repo, number=issue.number, merged=issue.pull_request.merged_at)
            merged.append((issue, pull))
    return merged


def _by_merge_time(pulls: Iterable[MergedPull]) -> list[MergedPull]:
    return sorted({pull.key: pull for pull in pulls}.values(), key=lambda pull: (pull.merged, pull.number))


def _sha(text: str | None) -> str | None:
    return text if text is not None and re.fullmatch(r"[0-9a-f]{40}", text) else None


def search_threads(
    client: GitHub, repo: str, words: str, first: date, last: date
) -> Iterator[tuple[list[FoundThread], bool]]:
    """The threads made from one day to another (both included) that a search finds, a page at a time, newest first.

    With each page, whether GitHub gave all that it should. A search with more than MAX_RESULTS is divided by days.
    Raises UnavailableError.
    """
    query = f"repo:{repo} {words} created:{first.isoformat()}..{last.isoformat()}"
    total, threads, complete = _search_page(client, query, 1)
    if total > MAX_RESULTS and first < last:
        middle = first + (last - first) // 2
        yield from search_threads(client, repo, words, middle + timedelta(days=1), last)
        yield from search_threads(client, repo, words, first, middle)
        return
    yield threads, complete and total <= MAX_RESULTS
    for page in range(2, -(-min(total, MAX_RESULTS) // PAGE) + 1):
        _, threads, complete = _search_page(client, query, page)
        yield threads, complete


def _search_page(client: GitHub, query: str, page: int) -> tuple[int, list[FoundThread], bool]:
    parameters = {"q": query, "sort": "created", "order": "desc", "per_page": str(PAGE), "page": str(page)}
    with client.reading():
        headers, answer = client.api.requester.requestJsonAndCheck("GET", "/search/issues", parameters=parameters)
        threads = [_found(item, answer_time(headers, client.now())) for item in answer["items"]]
        return int(answer["total_count"]), threads, not answer.get("incomplete_results")


def _found(item: dict[str, Any], seen: datetime) -> FoundThread:
    ref = ThreadRef.parse(item["html_url"])
    if ref is None:
        raise ValueError("not the address of a thread")
    pull, title, text = item.get("pull_request"), str(item["title"]), str(item.get("body") or "")
    merged = pull is not None and pull.get("merged_at") is not None
    labels = [str(label["name"])[:MAX_LABEL_LENGTH] for label in item.get("labels") or []][:MAX_LABELS]
    signs = regression_signs(title, text, labels, is_pull=pull is not None)
    state: ThreadStatus = "merged" if merged else "open" if item["state"] == "open" else "closed"
    return FoundThread(
        url=ref.url,
        title=title[:300],
        is_pull=pull is not None,
        state=state,
        labels=labels,
        created=datetime.fromisoformat(item["created_at"]).astimezone(UTC),
        versions=named_versions(f"{title}\n{text}")[:10],
        signs=[*signs, *(["unmerged"] if pull is not None and state == "closed" else [])],
        closes=closing_references(text, ref.repo) if pull is not None else [],
        reverts=reverted_references(title, text, ref.repo) if pull is not None else [],
        seen=seen,
    )
