"""Reads the threads of all records from GitHub and finds what has changed since the last sync.

Threads that were seen longest ago come first, so that a small quota reaches all of them in several syncs. The pull
requests that matter to a thread are read too, so that `issues verify` finds them in the cache. And searches for threads
that no record covers yet.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from enum import StrEnum

from regress_gate.github import GitHub, UnavailableError
from regress_gate.known.threads import CANDIDATE_SCORE, SIGNS, ThreadRef, reference, score
from regress_gate.known.tracker.fixes import list_fixes, read_chain
from regress_gate.known.tracker.snapshot import FoundThread, FoundThreads, Snapshot, Thread
from regress_gate.known.tracker.threads import SEARCHES, read_duplicate, read_thread, search_threads
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


# Threads that no record covers


@dataclass
class Discovery:
    """What a search has found since a day."""

    found: FoundThreads
    """With what was found before."""
    searched: int = 0
    """Threads in the answers of this search."""
    incomplete: bool = False
    """GitHub did not give all that it should."""
    stopped: str | None = None
    """Why not everything was searched."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A thread that may deserve a record."""

    thread: FoundThread
    signs: tuple[str, ...]
    """Those that count, the heaviest first."""
    score: float
    fixed_by: tuple[str, ...] = ()
    """Merged pull requests among the found ones that say so, as `owner/name#12`."""
    reverted_by: tuple[str, ...] = ()


def discover(
    client: GitHub,
    repositories: Sequence[str],
    before: FoundThreads,
    *,
    since: date,
    report_progress: Callable[[int, int], None] | None = None,
) -> Discovery:
    """Search for the threads made since a day. What cannot be had now is searched for the next time."""
    threads = dict(before.threads)
    outcome = Discovery(before)
    searches = [(repo, words) for repo in repositories for words in SEARCHES]
    for done, (repo, words) in enumerate(searches):
        if report_progress is not None:
            report_progress(done, len(searches))
        try:
            for page, complete in search_threads(client, repo, words, since, client.now().date()):
                outcome.searched += len(page)
                outcome.incomplete = outcome.incomplete or not complete
                threads |= {key: one for one in page if (key := thread_key(one)) is not None and one.signs}
        except UnavailableError as error:
            outcome.stopped = outcome.stopped or str(error)
            if client.stopped is not None:
                break
    outcome.found = FoundThreads(threads=threads)
    return outcome


def covered_threads(issues: Iterable[KnownIssue]) -> set[str]:
    """The threads and pull requests that the records name, as `owner/name#12`."""
    covered = set[str]()
    for issue in issues:
        urls = [issue.tracker.url, *(link.url for link in issue.references)]
        covered |= {ref.key for url in urls if (ref := ThreadRef.parse(url)) is not None}
        for change in (*issue.changes.introduced_by, *issue.changes.fixed_by):
            undone = getattr(change, "reverted_by", None)
            covered |= {
                reference(one.repo.removeprefix("https://github.com/"), one.pull)
                for one in (change, undone)
                if one is not None and one.pull is not None
            }
    return covered


def rank_candidates(
    found: FoundThreads, covered: set[str], *, since: date, repositories: Sequence[str], least: float = CANDIDATE_SCORE
) -> list[Candidate]:
    """The threads made since a day that no record covers, those with most points first.

    A pull request that closes or reverts what a record covers is no candidate (`sync` reports it), and one that closes
    a candidate is shown with that.
    """
    names = {repo.lower() for repo in repositories}
    recent = {
        key: one
        for key, one in found.threads.items()
        if key.rpartition("#")[0] in names and one.created.date() >= since
    }
    merged = [(key, one) for key, one in recent.items() if one.is_pull and one.state == "merged"]
    candidates: dict[str, Candidate] = {}
    for key, one in recent.items():
        if covered & {key, *one.closes, *one.reverts}:
            continue
        fixed = tuple(other for other, pull in merged if key in pull.closes)
        reverted = tuple(other for other, pull in merged if key in pull.reverts)
        signs = {*one.signs, *(["fixed"] if fixed else [])} & SIGNS.keys()
        if (points := score(signs)) >= least:
            heaviest = sorted(signs, key=lambda name: (-abs(SIGNS[name].points), name))
            candidates[key] = Candidate(one, tuple(heaviest), points, fixed, reverted)
    apart = [one for one in candidates.values() if not candidates.keys() & set(one.thread.closes)]
    return sorted(apart, key=lambda one: (-one.score, -one.thread.created.timestamp(), one.thread.url))


def thread_key(thread: FoundThread) -> str | None:
    ref = ThreadRef.parse(thread.url)
    return None if ref is None else ref.key
