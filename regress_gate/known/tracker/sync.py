"""Reads the threads of all records from GitHub and finds what has changed since the last sync.

Threads that were seen longest ago come first, so that a small quota reaches all of them in several syncs. The pull
requests that matter to a thread are read too, so that `issues verify` finds them in the cache.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum

from regress_gate.github import GitHub, UnavailableError
from regress_gate.known.threads import ThreadRef
from regress_gate.known.tracker.fixes import list_fixes, read_chain
from regress_gate.known.tracker.snapshot import Snapshot, Thread
from regress_gate.known.tracker.threads import read_duplicate, read_thread
from regress_gate.model.issue import KnownIssue

_NEVER = datetime.min.replace(tzinfo=UTC)


class ChangeKind(StrEnum):
    NEW = "new"
    """Never seen before."""
    CLOSED = "closed"
    REOPENED = "reopened"
    MERGED = "merged"
    """The thread is a pull request."""
    FIXED = "fixed"
    """A merged pull request that closes it is newly known."""
    REVERTED = "reverted"
    """A merged pull request that reverts a fix is newly known."""
    MOVED = "moved"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class ThreadChange:
    """A change of one thread since the last sync."""

    issue: KnownIssue
    kind: ChangeKind
    thread: Thread
    reverts: tuple[str, ...] = ()
    """For REVERTED: the reverting pull requests, as `owner/name#12`."""


@dataclass
class SyncResult:
    snapshot: Snapshot
    looked: int = 0
    """Threads that were read in this sync."""
    wanted: int = 0
    changes: list[ThreadChange] = field(default_factory=list)
    problems: list[tuple[KnownIssue, str]] = field(default_factory=list)
    """What could not be looked up, thread by thread."""
    stopped: str | None = None
    """Why not all threads were read."""

    @property
    def complete(self) -> bool:
        return self.stopped is None and not self.problems


def sync(
    client: GitHub,
    issues: Sequence[KnownIssue],
    before: Snapshot,
    report_progress: Callable[[int, int], None] | None = None,
) -> SyncResult:
    """Reads every thread. One that cannot be read keeps its former state. `report_progress` gets (done, total)."""
    threads, reverts = dict(before.threads), dict(before.reverts)
    result = SyncResult(before)
    todo = sorted(_tracked_threads(issues, client), key=lambda pair: _last_seen(threads, pair[1]))
    result.wanted = len(todo)
    for done, (issue, ref) in enumerate(todo):
        if client.stopped is not None:
            break
        if report_progress is not None:
            report_progress(done, len(todo))
        former = threads.get(ref.key)
        try:
            thread = read_thread(client, ref)
        except UnavailableError as error:
            if client.stopped is not None:
                break
            result.problems.append((issue, str(error)))
            continue
        result.looked += 1
        result.changes += [ThreadChange(issue, kind, thread) for kind in find_changes(former, thread, ref)]
        threads[ref.key] = thread
        known = set(reverts.get(ref.key, []))
        now = known | _prefetch_fixes(client, issue, thread)
        if former is not None and now > known:
            result.changes.append(ThreadChange(issue, ChangeKind.REVERTED, thread, tuple(sorted(now - known))))
        if now:
            reverts[ref.key] = sorted(now)
    if result.looked + len(result.problems) < result.wanted:
        result.stopped = client.stopped
    result.snapshot = Snapshot(threads=threads, reverts=reverts)
    return result


def find_changes(before: Thread | None, now: Thread, ref: ThreadRef) -> Iterator[ChangeKind]:
    """The changes of a thread between two syncs."""
    if before is None:
        yield ChangeKind.NEW
    else:
        if before.state != "gone" and now.state == "gone":
            yield ChangeKind.GONE
        if before.state != "closed" and now.state == "closed":
            yield ChangeKind.CLOSED
        if before.state != "merged" and now.state == "merged":
            yield ChangeKind.MERGED
        if before.state in ("closed", "merged") and now.state == "open":
            yield ChangeKind.REOPENED
        if {pull.key for pull in now.fixes} - {pull.key for pull in before.fixes}:
            yield ChangeKind.FIXED
    there = ThreadRef.parse(now.url)
    if now.state != "gone" and there is not None and there.key != ref.key and (before is None or before.url != now.url):
        yield ChangeKind.MOVED


def _tracked_threads(issues: Iterable[KnownIssue], client: GitHub) -> list[tuple[KnownIssue, ThreadRef]]:
    """The records whose threads this API knows, each thread once."""
    tracked: dict[str, tuple[KnownIssue, ThreadRef]] = {}
    for issue in issues:
        ref = ThreadRef.parse(issue.tracker.url)
        if ref is not None and ref.host in client.hosts:
            tracked.setdefault(ref.key, (issue, ref))
    return list(tracked.values())


def _last_seen(threads: dict[str, Thread], ref: ThreadRef) -> datetime:
    thread = threads.get(ref.key)
    return _NEVER if thread is None else thread.seen


def _prefetch_fixes(client: GitHub, issue: KnownIssue, thread: Thread) -> set[str]:
    """Have in the cache what `verify` will want; what cannot be had now is asked for then. Gives the reverts found."""
    duplicate, reverts = None, set[str]()
    with suppress(UnavailableError):
        duplicate = read_duplicate(client, thread)
    for fix in (fix for group in list_fixes(issue, thread, duplicate) for fix in group):
        with suppress(UnavailableError):
            reverts |= {
                link.key for link in read_chain(client, fix).links if not link.applies and link.merged is not None
            }
    return reverts
