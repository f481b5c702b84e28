"""`verify` for every record that applies to a deployment, what is not fixed first."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import date

from regress_gate.known.build_history import build_history
from regress_gate.known.fix_chain import REPO
from regress_gate.known.github import Api
from regress_gate.known.match import match_scope
from regress_gate.known.tracker_snapshot import Snapshot, as_last_seen
from regress_gate.known.verify import concerns, judge, look_up
from regress_gate.model.deployment import Deployment
from regress_gate.model.finding import Applies, Status
from regress_gate.model.issue import IssueKind, KnownIssue
from regress_gate.model.version import Version

_ORDER = (
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
class Verified:
    issues: tuple[VerifiedIssue, ...]
    may_apply: int
    """Records that were left out because it is not known whether they apply."""


def verify_all(
    api: Api,
    issues: Iterable[KnownIssue],
    deployment: Deployment,
    candidate: Version,
    *,
    snapshot: Snapshot,
    measured: Mapping[str, str],
    everything: bool,
    today: date,
    tell: Callable[[int, int], None] | None = None,
) -> Verified:
    """Every issue that the candidate has, had or may have and that applies; with `everything` also where it may."""
    todo, left_out = [], 0
    for issue in issues:
        if issue.kind is IssueKind.NOT_A_BUG or not concerns(issue, candidate):
            continue
        applies, why = match_scope(issue, deployment)
        if applies is Applies.UNKNOWN and not everything:
            left_out += 1
        elif applies is not Applies.NO:
            todo.append((as_last_seen(issue, snapshot, today), applies, why))
    history = build_history(api, REPO, candidate)
    found = []
    for done, (issue, applies, why) in enumerate(todo):
        if tell is not None:
            tell(done, len(todo))
        status, status_why = judge(issue, candidate, look_up(api, issue, history, measured.get(issue.id)))
        found.append(VerifiedIssue(issue, applies, why, status, status_why))
    return Verified(
        tuple(sorted(found, key=lambda one: (_ORDER.index(one.status), -one.issue.severity.rank, one.issue.id))),
        left_out,
    )
