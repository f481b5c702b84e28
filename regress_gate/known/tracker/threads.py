"""What a thread says of an issue's end: how it was closed, by whom, what claims to fix it, what took that back.

Facts only, with the day on which they were seen. Whether a fix is in a build is not decided here.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from regress_gate.known.threads import ThreadRef
from regress_gate.known.tracker.github import Api, GoneError, UnavailableError
from regress_gate.known.tracker.github_shapes import STALE, EventShape, IssueShape, PullShape, SourceIssue, TimelinePage
from regress_gate.known.tracker.snapshot import ClosingReason, MergedPull, Pull, Thread, ThreadStatus

CLOSED_BY_MERGE_WITHIN = timedelta(minutes=1)
"""A thread that is closed this soon after a merge of what names it was closed by it."""
MAX_DEPTH = 4
"""A fix, its revert, the revert's revert…"""


def read_thread(api: Api, thread: ThreadRef) -> Thread:
    """The thread behind an address. Raises UnavailableError; a thread that is gone is a fact."""
    try:
        issue, seen = api.get(f"/repos/{thread.repo}/issues/{thread.number}", IssueShape)
    except GoneError:
        return Thread(url=thread.url, state="gone", seen=api.now())
    there = ThreadRef.parse(issue.html_url) or thread
    events, complete = _timeline(api, there)
    state: ThreadStatus = issue.state
    if issue.pull_request is not None and issue.pull_request.merged_at is not None:
        state = "merged"
    return Thread(
        url=issue.html_url,
        state=state,
        reason=_closing_reason(issue, events),
        labels=issue.labels,
        duplicate_of=_duplicate_of(issue, events, there),
        fixes=_closing_pulls(events, there, issue.closed_at),
        closing_commit=next((e.commit_id for e in reversed(events) if e.event == "closed" and e.commit_id), None),
        complete=complete,
        seen=seen,
    )


def read_duplicate(api: Api, thread: Thread) -> Thread | None:
    """The thread that stands at the end of "is a duplicate of"; None where it stands alone. Raises UnavailableError."""
    found, seen = None, set[str]()
    key = thread.duplicate_of
    while key is not None and key not in seen and len(seen) < MAX_DEPTH:
        seen.add(key)
        repo, _, number = key.rpartition("#")
        found = read_thread(api, ThreadRef(repo, int(number)))
        key = found.duplicate_of
    return found


def read_pull(api: Api, repo: str, number: int) -> Pull:
    """A pull request with its reverts. Raises UnavailableError, GoneError."""
    found, seen = api.get(f"/repos/{repo}/pulls/{number}", PullShape)
    there = ThreadRef.parse(found.html_url) or ThreadRef(repo, number)
    if found.merged_at is None:
        return Pull(repo=there.repo, number=found.number, seen=seen)
    events, complete = _timeline(api, there)
    undone = [pull for source, pull in _merged_references(events) if there.key in source.reverts]
    return Pull(
        repo=there.repo,
        number=found.number,
        merged=found.merged_at,
        commit=found.merge_commit_sha,
        undone_by=_by_merge_time(undone),
        complete=complete,
        seen=seen,
    )


def _timeline(api: Api, thread: ThreadRef) -> tuple[list[EventShape], bool]:
    path = f"/repos/{thread.repo}/issues/{thread.number}/timeline?per_page=100"
    try:
        pages, complete = api.pages(path, TimelinePage)
    except UnavailableError:
        if api.stopped is not None or api.send is None:
            raise
        return [], False
    return [event for page in pages for event in page.root], complete


def _closing_reason(issue: IssueShape, events: Sequence[EventShape]) -> ClosingReason | None:
    """How it was closed. GitHub calls a closing by the inactivity bot `not_planned` or `completed`."""
    if issue.state == "open":
        return "reopened" if issue.state_reason == "reopened" else None
    closed = next((event for event in reversed(events) if event.event == "closed"), None)
    by_bot = closed is not None and closed.actor is not None and closed.actor.is_bot
    by_nobody_known = closed is None or closed.actor is None
    if STALE in issue.labels and (by_bot or (by_nobody_known and issue.state_reason == "not_planned")):
        return "stale"
    match issue.state_reason:
        case "completed" | "not_planned" | "duplicate" as known:
            return known
        case _:
            return "unknown"


def _duplicate_of(issue: IssueShape, events: Iterable[EventShape], thread: ThreadRef) -> str | None:
    if issue.state != "closed":
        return None
    said = [key for event in events for key in event.duplicates if key != thread.key]
    return said[-1] if said else None


def _closing_pulls(events: Sequence[EventShape], thread: ThreadRef, closed: datetime | None) -> list[MergedPull]:
    """Merged pull requests whose text closes the thread, or with whose merge it was closed.

    Those from before it was opened again did not do.
    """
    reopened = max((e.created_at for e in events if e.event == "reopened" and e.created_at), default=None)
    found = []
    for source, pull in _merged_references(events):
        at_once = closed is not None and abs(closed - pull.merged) <= CLOSED_BY_MERGE_WITHIN
        closes = thread.key in source.closes or (at_once and pull.repo.lower() == thread.repo.lower())
        if closes and (reopened is None or pull.merged > reopened):
            found.append(pull)
    return _by_merge_time(found)


def _merged_references(events: Iterable[EventShape]) -> list[tuple[SourceIssue, MergedPull]]:
    """The merged pull requests that name the thread."""
    found = []
    for event in events:
        source = event.source.issue if event.source is not None else None
        if source is None or source.pull_request is None or source.pull_request.merged_at is None:
            continue
        there = ThreadRef.parse(source.html_url)
        if there is not None:
            merged = source.pull_request.merged_at
            found.append((source, MergedPull(repo=there.repo, number=source.number, merged=merged)))
    return found


def _by_merge_time(pulls: Iterable[MergedPull]) -> list[MergedPull]:
    return sorted({pull.key: pull for pull in pulls}.values(), key=lambda pull: (pull.merged, pull.number))
