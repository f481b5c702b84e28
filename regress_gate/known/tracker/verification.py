"""Decides whether an issue is really fixed in one build: evidence is collected first and judged after.

A measurement counts more than the build's git history, and that more than the record's version ranges and the state of
the thread. Every verdict has its reason, the date of the evidence, and what could not be looked up. Not for: whether
the issue applies (`known.matching`).
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
from regress_gate.model.issue import Applies, Effect, Fix, IssueKind, KnownIssue, Status
from regress_gate.model.result import IssueObservation, Result
from regress_gate.model.version import Version


@dataclass(frozen=True, slots=True)
class FixEvidence:
    """The available evidence about one issue and one build."""

    thread: Thread | None = None
    duplicate: Thread | None = None
    """The original, if the thread is a duplicate."""
    groups: tuple[tuple[FixMembership, ...], ...] = ()
    """Merged fixes and whether the build contains them, the better source first; a group belongs together."""
    problems: tuple[str, ...] = ()
    measured: str | None = None
    """The measurement of this build that shows no issue, in words."""


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
    """The evidence that GitHub or the cache gives; every missing part is named in `problems`."""
    problems = _Problems()
    thread, duplicate = _read_threads(client, issue, problems)
    groups: list[tuple[FixMembership, ...]] = []
    for group in list_fixes(issue, thread, duplicate) if history is not None else []:
        memberships = [part for fix in group if (part := _read_membership(client, history, fix, problems)) is not None]
        if memberships:
            groups.append(tuple(memberships))
    return FixEvidence(thread, duplicate, tuple(groups), tuple(problems.texts), measured)


def judge_fix(issue: KnownIssue, candidate: Version, evidence: FixEvidence) -> tuple[Status, str]:
    """The status of one issue in one build, and its reason."""
    if evidence.measured is not None:
        return Status.MEASURED_FIXED, evidence.measured
    ranged, ranged_why = fix_status(_with_thread(issue, evidence), candidate)
    decided = [_judge_group(group) for group in evidence.groups]
    # The better source first: if the curator's fix is missing, the thread's fixes do not count.
    best = next((verdict for verdict in decided if verdict[0] is not Status.UNKNOWN), None)
    came_back = affects(issue, candidate) and has_fix_before(issue, candidate)
    if best is not None and best[0] is Status.FIX_IN_CANDIDATE and came_back:
        return Status.FIX_NOT_IN_CANDIDATE, f"{best[1]}, but the issue came back: {ranged_why}"
    if best is not None:
        return best
    undecided = [why for _, why in decided] + list(evidence.problems)
    why = "; ".join([ranged_why, *_duplicate_text(evidence), *undecided])
    if decided and ranged in (Status.OPEN, Status.CLOSED_UNFIXED):
        return Status.UNKNOWN, why  # there is a fix, but it is unknown whether the build contains it
    return ranged, why


def is_relevant(issue: KnownIssue, candidate: Version) -> bool:
    """Whether the build has the issue, had it, or may have it."""
    return affects(issue, candidate) is not False or has_fix_before(issue, candidate)


def _judge_group(group: Sequence[FixMembership]) -> tuple[Status, str]:
    """Fixes that belong together: the build must contain all of them that were not reverted, and at least one."""
    why = "; ".join(part.why + _seen_text(part) for part in group)
    if any(part.present is None for part in group):
        return Status.UNKNOWN, why
    inside = [part for part in group if part.present]
    missing = [part for part in group if not part.present and not part.reverted]
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
        problems.texts.append("the thread is gone or not shown")
    try:
        return thread, read_duplicate(client, thread)
    except UnavailableError as error:
        problems.add("the original of the duplicate", error)
        return thread, None


def _read_membership(
    client: GitHub, history: BuildHistory | None, fix: Fix, problems: _Problems
) -> FixMembership | None:
    """Whether the build contains a fix; None if it was never merged or cannot be looked up."""
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
    """Records that were left out because they need more facts about the deployment."""


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
    report_progress: Callable[[int, int], None] | None = None,
) -> VerificationResult:
    """Verifies every issue that applies and that the candidate has, had or may have; unfixed ones come first.

    With `everything`, also issues that may apply.
    """
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
    verified = []
    for done, (issue, applies, why) in enumerate(todo):
        if report_progress is not None:
            report_progress(done, len(todo))
        status, status_why = judge_fix(
            issue, candidate, collect_evidence(client, issue, history, measured.get(issue.id))
        )
        verified.append(VerifiedIssue(issue, applies, why, status, status_why))
    return VerificationResult(
        tuple(
            sorted(verified, key=lambda one: (_STATUS_ORDER.index(one.status), -one.issue.severity.rank, one.issue.id))
        ),
        left_out,
    )


MAX_RESULT_BYTES = 64 * 1024 * 1024


def read_result(path: Path) -> Result:
    """A result that `compare --format json` wrote. Raises InputError."""
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
        raise InputError("is not a result", where=path, todo="write one with `compare … --output json:PATH`") from None


def measured_fixed(results: Iterable[Result], candidate: Version) -> dict[str, str]:
    """By issue id: the measurement that shows the candidate without the issue, in words. The newest result counts.

    Only clear evidence counts: the record applies to the deployment, the baseline is free of the issue and the move
    would bring it, the testbed is comparable, and the smallest claimed loss is excluded in every scenario that can show
    it (`measured: not_observed`).
    """
    reasons: dict[str, str] = {}
    for result in sorted(results, key=lambda result: result.created):
        if not _measures(result, candidate) or result.testbed is None or not result.testbed.comparable:
            continue
        for issue in result.known_issues:
            reasons.pop(issue.id, None)
            free_before = issue.effect is Effect.NEW and issue.applies is Applies.YES
            if free_before and issue.measured is IssueObservation.NOT_OBSERVED:
                reasons[issue.id] = (
                    f"measured on {result.testbed.name} against {_baseline_name(result)}: {issue.measured_why} "
                    f"(measured {result.created.date().isoformat()})"
                )
    return reasons


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
