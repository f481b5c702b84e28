"""Is an issue really fixed in one build? The evidence is looked up first and judged after, by order of strength.

What was measured goes before what the build's git history holds, and that before what the record's version ranges and
the tracker's state say. Every verdict says on what it rests and when that was seen, and what could not be looked up.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from pydantic import ValidationError

from regress_gate.errors import InputError
from regress_gate.github import GitHub, GoneError, UnavailableError
from regress_gate.known.matching.findings import match_scope
from regress_gate.known.matching.versions import affects, fix_status, has_fix_before
from regress_gate.known.threads import ThreadRef
from regress_gate.known.tracker.fixes import (
    VLLM_REPO_NAME,
    BuildHistory,
    FixChain,
    FixMembership,
    build_history,
    find_membership,
    list_fixes,
    read_chain,
)
from regress_gate.known.tracker.snapshot import Snapshot, Thread, as_last_seen
from regress_gate.known.tracker.threads import read_duplicate, read_thread
from regress_gate.model.deployment import Deployment
from regress_gate.model.finding import Applies, Effect, Status
from regress_gate.model.issue import Fix, IssueKind, KnownIssue
from regress_gate.model.result import IssueObservation, Result
from regress_gate.model.version import Version


@dataclass(frozen=True, slots=True)
class FixEvidence:
    """What could be looked up about one issue and one build."""

    thread: Thread | None = None
    duplicate: Thread | None = None
    """The thread of which this one is a duplicate."""
    groups: tuple[tuple[FixMembership, ...], ...] = ()
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


def collect_evidence(
    client: GitHub, issue: KnownIssue, history: BuildHistory | None, measured: str | None = None
) -> FixEvidence:
    """The evidence, as far as GitHub or the cache gives it. What is missing is said as a problem."""
    problems = _Problems()
    thread, duplicate = _read_threads(client, issue, problems)
    groups: list[tuple[FixMembership, ...]] = []
    for group in list_fixes(issue, thread, duplicate) if history is not None else []:
        found = [part for fix in group if (part := _read_membership(client, history, fix, problems)) is not None]
        if found:
            groups.append(tuple(found))
    return FixEvidence(thread, duplicate, tuple(groups), tuple(problems.texts), measured)


def judge_fix(issue: KnownIssue, candidate: Version, evidence: FixEvidence) -> tuple[Status, str]:
    """The status of one issue in one build, and on what it rests."""
    if evidence.measured is not None:
        return Status.MEASURED_FIXED, evidence.measured
    ranged, ranged_why = fix_status(_with_thread(issue, evidence), candidate)
    decided = [_judge_group(group) for group in evidence.groups]
    # The better source first: what a thread calls a fix is none where the fix that the curator names is missing.
    best = next((found for found in decided if found[0] is not Status.UNKNOWN), None)
    came_back = affects(issue, candidate) and has_fix_before(issue, candidate)
    if best is not None and best[0] is Status.FIX_IN_CANDIDATE and came_back:
        return Status.FIX_NOT_IN_CANDIDATE, f"{best[1]}, but the issue came back: {ranged_why}"
    if best is not None:
        return best
    open_ends = [why for _, why in decided] + list(evidence.problems)
    why = "; ".join([ranged_why, *_duplicate_text(evidence), *open_ends])
    if decided and ranged in (Status.OPEN, Status.CLOSED_UNFIXED):
        return Status.UNKNOWN, why  # there is a fix, and it is open whether the build has it
    return ranged, why


def is_relevant(issue: KnownIssue, candidate: Version) -> bool:
    """Whether there is something to verify: the build has the issue, had it, or may have it."""
    return affects(issue, candidate) is not False or has_fix_before(issue, candidate)


def _judge_group(group: Sequence[FixMembership]) -> tuple[Status, str]:
    """Fixes that belong together: all that last must be there, and one that was taken out is none that lasts."""
    why = "; ".join(part.why + _seen_text(part) for part in group)
    if any(part.present is None for part in group):
        return Status.UNKNOWN, why
    inside = [part for part in group if part.present]
    missing = [part for part in group if not part.present and not part.taken_out]
    if inside and not missing:
        return Status.FIX_IN_CANDIDATE, why
    return Status.FIX_NOT_IN_CANDIDATE, why


def _seen_text(part: FixMembership) -> str:
    return "" if part.seen is None else f" (seen {part.seen.date().isoformat()})"


def _with_thread(issue: KnownIssue, evidence: FixEvidence) -> KnownIssue:
    thread = evidence.thread
    ref = ThreadRef.parse(issue.tracker.url)
    if thread is None or ref is None:
        return issue
    return as_last_seen(issue, Snapshot(threads={ref.key: thread}), thread.seen.date())


def _duplicate_text(evidence: FixEvidence) -> list[str]:
    if evidence.duplicate is None:
        return []
    how = evidence.duplicate.state + (f" ({evidence.duplicate.reason})" if evidence.duplicate.reason else "")
    return [f"it is a duplicate of {evidence.duplicate.url}, which is {how}"]


def _read_threads(client: GitHub, issue: KnownIssue, problems: _Problems) -> tuple[Thread | None, Thread | None]:
    ref = ThreadRef.parse(issue.tracker.url)
    if ref is None or ref.host not in client.hosts:
        return None, None
    try:
        thread = read_thread(client, ref)
    except UnavailableError as error:
        problems.add("", error)
        return None, None
    if thread.state == "gone":
        problems.texts.append("the thread is gone, or not shown to us")
    try:
        return thread, read_duplicate(client, thread)
    except UnavailableError as error:
        problems.add("what it is a duplicate of", error)
        return thread, None


def _read_membership(
    client: GitHub, history: BuildHistory | None, fix: Fix, problems: _Problems
) -> FixMembership | None:
    """What the build has of a fix; None for one that was never merged, or where that cannot be looked up."""
    if history is None:
        return None
    name = f"#{fix.pull}" if fix.pull is not None else f"commit {fix.commit}"
    try:
        chain: FixChain = read_chain(client, fix)
        return find_membership(history, chain) if chain.merged else None
    except GoneError as error:
        problems.add(f"{name} in {history.name}", error)
    except UnavailableError as error:
        problems.add("" if client.stopped is not None or client.offline else name, error)
    return None


# MERGED regress_gate.known.verified: `verify` for every record that applies to a deployment, what is not fixed
# first.


_STATUS_ORDER = (
    Status.OPEN,
    Status.CLOSED_UNFIXED,
    Status.FIX_NOT_IN_CANDIDATE,
    Status.UNKNOWN,
    Status.FIX_IN_CANDIDATE,
    Status.MEASURED_FIXED,
)


@dataclass(frozen=True, slots=True)
class VerifiedIssue:
    issue: KnownIssue
    applies: Applies
    why: str
    status: Status
    status_why: str


@dataclass(frozen=True, slots=True)
class VerificationResult:
    issues: tuple[VerifiedIssue, ...]
    may_apply: int
    """Records that were left out because it is not known whether they apply."""


def verify_issues(
    client: GitHub,
    issues: Iterable[KnownIssue],
    deployment: Deployment,
    candidate: Version,
    *,
    snapshot: Snapshot,
    measured: Mapping[str, str],
    everything: bool,
    today: date,
    tell: Callable[[int, int], None] | None = None,
) -> VerificationResult:
    """Every issue that the candidate has, had or may have and that applies; with `everything` also where it may."""
    todo, left_out = [], 0
    for issue in issues:
        if issue.kind is IssueKind.NOT_A_BUG or not is_relevant(issue, candidate):
            continue
        applies, why = match_scope(issue, deployment)
        if applies is Applies.UNKNOWN and not everything:
            left_out += 1
        elif applies is not Applies.NO:
            todo.append((as_last_seen(issue, snapshot, today), applies, why))
    history = build_history(client, VLLM_REPO_NAME, candidate)
    found = []
    for done, (issue, applies, why) in enumerate(todo):
        if tell is not None:
            tell(done, len(todo))
        status, status_why = judge_fix(
            issue, candidate, collect_evidence(client, issue, history, measured.get(issue.id))
        )
        found.append(VerifiedIssue(issue, applies, why, status, status_why))
    return VerificationResult(
        tuple(sorted(found, key=lambda one: (_STATUS_ORDER.index(one.status), -one.issue.severity.rank, one.issue.id))),
        left_out,
    )


# MERGED regress_gate.known.measured: What comparisons show of known issues in the build that they measured: the
# strongest evidence that one is gone.  Only what cannot be mistaken counts: the record applies to the deployment,
# the move from the baseline would bring the issue (so the baseline is free of it), the testbed is comparable, and
# the smallest loss that the record claims is excluded wherever it claims one (`measured: not_observed`).


MAX_RESULT_BYTES = 64 * 1024 * 1024


def read_result(path: Path) -> Result:
    """What `compare --format json` wrote. Raises InputError."""
    try:
        with path.open("rb") as file:
            text = file.read(MAX_RESULT_BYTES + 1)
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror})", where=path) from None
    try:
        if len(text) > MAX_RESULT_BYTES:
            raise ValueError
        return Result.model_validate(json.loads(text))
    except (ValidationError, ValueError, RecursionError):
        raise InputError("is no result", where=path, todo="write one with `compare … --output json:PATH`") from None


def measured_fixed(results: Iterable[Result], candidate: Version) -> dict[str, str]:
    """By issue: on what it rests that the candidate was measured without it. The newest result counts."""
    found: dict[str, str] = {}
    for result in sorted(results, key=lambda result: result.created):
        if not _measures(result, candidate) or result.testbed is None or not result.testbed.comparable:
            continue
        for issue in result.known_issues:
            found.pop(issue.id, None)
            free_before = issue.effect is Effect.NEW and issue.applies is Applies.YES
            if free_before and issue.measured is IssueObservation.NOT_OBSERVED:
                found[issue.id] = (
                    f"measured on {result.testbed.name} against {_baseline_name(result)}: {issue.measured_why} "
                    f"(measured {result.created.date().isoformat()})"
                )
    return found


def _measures(result: Result, candidate: Version) -> bool:
    side = result.candidate
    try:
        version = Version.parse(side.version)
    except InputError:
        return False
    commit = side.commit or version.commit
    return Version(version.number, commit, side.variant or version.variant).matches(candidate)


def _baseline_name(result: Result) -> str:
    return "no baseline" if result.baseline is None else result.baseline.version
