"""Is an issue really fixed in one build? The evidence is looked up first and judged after, by order of strength.

What was measured goes before what the build's git history holds, and that before what the record's version ranges and
the tracker's state say. Every verdict says on what it rests and when that was seen, and what could not be looked up.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from regress_gate.known.build_history import BuildHistory
from regress_gate.known.fix_chain import Chain, Membership, chain_of, membership
from regress_gate.known.fixes import fixes_of
from regress_gate.known.github import Api, GoneError, UnavailableError
from regress_gate.known.github_refs import ThreadRef
from regress_gate.known.ranges import affects, has_fix_before
from regress_gate.known.status import fix_status
from regress_gate.known.tracker import read_duplicate, read_thread
from regress_gate.known.tracker_facts import Thread
from regress_gate.known.tracker_snapshot import Snapshot, as_last_seen
from regress_gate.model.finding import Status
from regress_gate.model.issue import Fix, KnownIssue
from regress_gate.model.version import Version


@dataclass(frozen=True, slots=True)
class Evidence:
    """What could be looked up about one issue and one build."""

    thread: Thread | None = None
    duplicate: Thread | None = None
    """The thread of which this one is a duplicate."""
    groups: tuple[tuple[Membership, ...], ...] = ()
    """What the build has of the merged fixes, the better source first; members of a group belong together."""
    problems: tuple[str, ...] = ()
    measured: str | None = None
    """On what a measurement of this build rests that shows the issue gone."""


@dataclass
class _Problems:
    texts: list[str] = field(default_factory=list)

    def add(self, what: str, error: UnavailableError) -> None:
        text = str(error) if not what else f"{what}: {error}"
        if text not in self.texts:
            self.texts.append(text)


def look_up(api: Api, issue: KnownIssue, history: BuildHistory | None, measured: str | None = None) -> Evidence:
    """The evidence, as far as GitHub or the cache gives it. What is missing is said as a problem."""
    problems = _Problems()
    thread, duplicate = _threads(api, issue, problems)
    groups: list[tuple[Membership, ...]] = []
    for group in fixes_of(issue, thread, duplicate) if history is not None else []:
        found = [part for fix in group if (part := _membership(api, history, fix, problems)) is not None]
        if found:
            groups.append(tuple(found))
    return Evidence(thread, duplicate, tuple(groups), tuple(problems.texts), measured)


def judge(issue: KnownIssue, candidate: Version, evidence: Evidence) -> tuple[Status, str]:
    """The status of one issue in one build, and on what it rests."""
    if evidence.measured is not None:
        return Status.MEASURED_FIXED, evidence.measured
    ranged, ranged_why = fix_status(_seen(issue, evidence), candidate)
    decided = [_of_group(group) for group in evidence.groups]
    # The better source first: what a thread calls a fix is none where the fix that the curator names is missing.
    best = next((found for found in decided if found[0] is not Status.UNKNOWN), None)
    came_back = affects(issue, candidate) and has_fix_before(issue, candidate)
    if best is not None and best[0] is Status.FIX_IN_CANDIDATE and came_back:
        return Status.FIX_NOT_IN_CANDIDATE, f"{best[1]}, but the issue came back: {ranged_why}"
    if best is not None:
        return best
    open_ends = [why for _, why in decided] + list(evidence.problems)
    why = "; ".join([ranged_why, *_duplicate(evidence), *open_ends])
    if decided and ranged in (Status.OPEN, Status.CLOSED_UNFIXED):
        return Status.UNKNOWN, why  # there is a fix, and it is open whether the build has it
    return ranged, why


def concerns(issue: KnownIssue, candidate: Version) -> bool:
    """Whether there is something to verify: the build has the issue, had it, or may have it."""
    return affects(issue, candidate) is not False or has_fix_before(issue, candidate)


def _of_group(group: Sequence[Membership]) -> tuple[Status, str]:
    """Fixes that belong together: all that last must be there, and one that was taken out is none that lasts."""
    why = "; ".join(part.why + _when(part) for part in group)
    if any(part.present is None for part in group):
        return Status.UNKNOWN, why
    inside = [part for part in group if part.present]
    missing = [part for part in group if not part.present and not part.taken_out]
    if inside and not missing:
        return Status.FIX_IN_CANDIDATE, why
    return Status.FIX_NOT_IN_CANDIDATE, why


def _when(part: Membership) -> str:
    return "" if part.seen is None else f" (seen {part.seen.date().isoformat()})"


def _seen(issue: KnownIssue, evidence: Evidence) -> KnownIssue:
    thread = evidence.thread
    ref = ThreadRef.parse(issue.tracker.url)
    if thread is None or ref is None:
        return issue
    return as_last_seen(issue, Snapshot(threads={ref.key: thread}), thread.seen.date())


def _duplicate(evidence: Evidence) -> list[str]:
    if evidence.duplicate is None:
        return []
    how = evidence.duplicate.state + (f" ({evidence.duplicate.reason})" if evidence.duplicate.reason else "")
    return [f"it is a duplicate of {evidence.duplicate.url}, which is {how}"]


def _threads(api: Api, issue: KnownIssue, problems: _Problems) -> tuple[Thread | None, Thread | None]:
    ref = ThreadRef.parse(issue.tracker.url)
    if ref is None or ref.host not in api.hosts:
        return None, None
    try:
        thread = read_thread(api, ref)
    except UnavailableError as error:
        problems.add("", error)
        return None, None
    if thread.state == "gone":
        problems.texts.append("the thread is gone, or not shown to us")
    try:
        return thread, read_duplicate(api, thread)
    except UnavailableError as error:
        problems.add("what it is a duplicate of", error)
        return thread, None


def _membership(api: Api, history: BuildHistory | None, fix: Fix, problems: _Problems) -> Membership | None:
    """What the build has of a fix; None for one that was never merged, or where that cannot be looked up."""
    if history is None:
        return None
    name = f"#{fix.pull}" if fix.pull is not None else f"commit {fix.commit}"
    try:
        chain: Chain = chain_of(api, fix)
        return membership(history, chain) if chain.merged else None
    except GoneError as error:
        problems.add(f"{name} in {history.name}", error)
    except UnavailableError as error:
        problems.add("" if api.stopped is not None or api.send is None else name, error)
    return None
