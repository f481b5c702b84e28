"""Reads a thread or pull request at GitHub: how it was closed, by whom, what claims to fix it, what reverts that.

Facts only, each with the time at which GitHub confirmed it. Texts of posts are searched for references and go no
further. Not for: whether a fix is in a build (`fixes`).
"""

import re
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import islice

from github.Issue import Issue
from github.TimelineEvent import TimelineEvent

from regress_gate.github import GitHub, GoneError, UnavailableError
from regress_gate.known.threads import ThreadRef, closing_references, duplicate_references, reverted_references
from regress_gate.known.tracker.snapshot import ClosingReason, MergedPull, Pull, Thread, ThreadStatus

CLOSED_BY_MERGE_WITHIN = timedelta(minutes=1)
"""A thread that is closed this soon after the merge of a pull request that names it was closed by that merge."""
MAX_DEPTH = 4
"""A fix, its revert, the revert's revert…"""
MAX_EVENTS = 3000
"""Of one timeline."""
MAX_LABELS = 100
MAX_LABEL_LENGTH = 100
_STALE = "stale"


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
