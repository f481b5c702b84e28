"""What is known about a fix, from the record alone: its ranges, and the tracker's state when it was last seen.

`closed` by itself never means fixed. Whether a fix is really in a build is looked up by `verify`.
"""

from regress_gate.known.github_refs import ThreadRef
from regress_gate.known.ranges import affects, has_fix_before, is_fixed_somewhere, range_text
from regress_gate.model.finding import Status
from regress_gate.model.issue import VLLM_REPO, Change, IssueKind, KnownIssue
from regress_gate.model.version import Version

_CLOSINGS = {
    "stale": "closed by the inactivity bot",
    "not_planned": "closed as not planned",
    "duplicate": "closed as a duplicate",
    "completed": "closed as completed",
}


def fix_status(issue: KnownIssue, candidate: Version) -> tuple[Status, str]:
    """The status for that candidate, and what it rests on, with the date on which that was seen."""
    if is_fixed_somewhere(issue):
        return _against_fix(issue, candidate)
    seen = f"(tracker seen {issue.tracker.checked.isoformat()})"
    match issue.tracker.state:
        case "open" if issue.tracker.state_reason == "reopened":
            return Status.OPEN, f"opened again, no fix known {seen}"
        case "open":
            return Status.OPEN, f"open, no fix known {seen}"
        case "closed":
            how = _CLOSINGS.get(issue.tracker.state_reason or "", "closed, reason not known")
            return Status.CLOSED_UNFIXED, f"{how}, no fix known {seen}"
        case "merged" if tracks_the_change(issue):
            return Status.CLOSED_UNFIXED, f"the thread is the change itself; nothing is known to take it back {seen}"
        case "merged":
            return Status.UNKNOWN, f"merged, but no fixed release is recorded {seen}"
        case _:
            return Status.UNKNOWN, f"state of the tracker not known {seen}"


def tracks_the_change(issue: KnownIssue) -> bool:
    """Whether the thread is the pull request that brought what the record is about: its merge is no fix."""
    thread = ThreadRef.parse(issue.tracker.url)
    if thread is None or thread.kind != "pull":
        return False
    if any(_is(change, thread) for change in issue.changes.fixed_by):
        return False
    if any(_is(change, thread) for change in issue.changes.introduced_by):
        return True
    urls = {(reference.type, reference.url) for reference in issue.references}
    if ("FIX", issue.tracker.url) in urls:
        return False
    return ("INTRODUCED", issue.tracker.url) in urls or issue.kind is IssueKind.DEFAULT_CHANGE


def _is(change: Change, thread: ThreadRef) -> bool:
    return change.pull == thread.number and (change.repo or VLLM_REPO).lower().endswith("/" + thread.repo.lower())


def _against_fix(issue: KnownIssue, candidate: Version) -> tuple[Status, str]:
    record = f"(affected: {range_text(issue)}; record reviewed {issue.reviewed.isoformat()})"
    fixed, fix = ("taken back", "change back") if issue.kind is IssueKind.DEFAULT_CHANGE else ("fixed", "fix")
    match affects(issue, candidate):
        case None:
            return Status.UNKNOWN, f"whether {candidate} has the {fix} is not known {record}"
        case True if has_fix_before(issue, candidate):
            return Status.FIX_NOT_IN_CANDIDATE, f"{fixed} earlier, but back in {candidate} {record}"
        case True:
            return Status.FIX_NOT_IN_CANDIDATE, f"{candidate} does not have the recorded {fix} {record}"
        case False if has_fix_before(issue, candidate):
            return Status.FIX_IN_CANDIDATE, f"{candidate} has the recorded {fix} {record}"
        case _:
            return Status.FIX_NOT_IN_CANDIDATE, f"{candidate} has neither the issue nor the {fix} {record}"
