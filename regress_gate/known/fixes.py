"""Which changes are said to fix an issue, the better source first: the record, its references, the thread."""

from regress_gate.known.github_refs import ThreadRef
from regress_gate.known.tracker_facts import Thread
from regress_gate.model.issue import Fix, KnownIssue


def fixes_of(issue: KnownIssue, thread: Thread | None, duplicate: Thread | None = None) -> list[list[Fix]]:
    """Groups of fixes, of which the first that decides is believed; all members of a group belong together.

    What the curator names goes before what the thread's timeline shows, and that before what fixed the thread of which
    it is a duplicate. Changes known by their day alone lead to no commit and are left out.
    """
    named = [fix for fix in issue.changes.fixed_by if fix.pull is not None or fix.commit is not None]
    groups = [named, _references(issue), _of_thread(thread), _of_thread(duplicate)]
    found: list[list[Fix]] = []
    seen: set[tuple[str, int | str | None]] = set()
    for group in groups:
        new = [fix for fix in group if _key(fix) not in seen]
        seen |= {_key(fix) for fix in group}
        if new:
            found.append(new)
    return found


def _key(fix: Fix) -> tuple[str, int | str | None]:
    return fix.repo.lower(), fix.commit if fix.pull is None else fix.pull


def _references(issue: KnownIssue) -> list[Fix]:
    found = [ThreadRef.parse(reference.url) for reference in issue.references if reference.type == "FIX"]
    return [_pull(ref.repo, ref.number) for ref in found if ref is not None and ref.kind == "pull"]


def _of_thread(thread: Thread | None) -> list[Fix]:
    """What closed an issue. A pull request's own merge closes nothing but itself."""
    if thread is None or thread.state == "merged":
        return []
    if thread.fixes:
        return [_pull(pull.repo, pull.number) for pull in thread.fixes]
    there = ThreadRef.parse(thread.url)
    if thread.closing_commit is None or there is None:
        return []
    return [Fix(repo=f"https://github.com/{there.repo}", commit=thread.closing_commit)]


def _pull(repo: str, number: int) -> Fix:
    return Fix(repo=f"https://github.com/{repo}", pull=number)
