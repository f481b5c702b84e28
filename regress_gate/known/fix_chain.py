"""Is a fix in a build? Its merge, what took it back, what put it in again, and the picks of the release branch.

The chain of a fix is the fix, its reverts, their reverts…, in the order of their merges; what happened last among
those that the build has is what counts. Picks come after everything that the branch was cut from. Models: vllm#42379,
which #46070 took out again; #26866, reverted by #28289 and re-applied by #28319.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time

from regress_gate.known.build_history import BuildHistory
from regress_gate.known.github import Api, GoneError
from regress_gate.known.github_refs import carries, reference, subject_effect
from regress_gate.known.tracker import DEPTH, read_pull
from regress_gate.model.issue import VLLM_REPO, Change, Fix

REPO = VLLM_REPO.removeprefix("https://github.com/")


@dataclass(frozen=True, slots=True)
class Link:
    """One change of a chain."""

    repo: str
    number: int | None
    commit: str | None
    """What the merge made, where known."""
    merged: datetime | None
    applies: bool
    """Whether it puts the fix in; else it takes it out."""

    @property
    def key(self) -> str:
        """`owner/name#12`, or `owner/name@commit`."""
        return f"{self.repo.lower()}@{self.commit}" if self.number is None else reference(self.repo, self.number)

    @property
    def name(self) -> str:
        if self.number is None:
            return "a change without a name" if self.commit is None else f"commit {self.commit[:10]}"
        return f"#{self.number}" if self.repo.lower() == REPO else f"{self.repo}#{self.number}"


@dataclass(frozen=True, slots=True)
class Chain:
    links: tuple[Link, ...]
    """The fix first, then by the time of merging."""
    complete: bool = True
    """False where not every revert may be known."""

    @property
    def fix(self) -> Link:
        return self.links[0]

    @property
    def merged(self) -> bool:
        return self.fix.merged is not None or self.fix.commit is not None


@dataclass(frozen=True, slots=True)
class Membership:
    """What a build has of a fix."""

    present: bool | None
    """None where it cannot be decided."""
    why: str
    seen: datetime | None = None
    """The oldest of the looks on which it rests."""
    taken_out: bool = False
    """Whether the build had it and a later change took it out."""


def chain_of(api: Api, fix: Fix) -> Chain:
    """The chain of a fix that a record names. Raises UnavailableError."""
    repo = fix.repo.removeprefix("https://github.com/")
    if fix.pull is None:
        links = [Link(repo, None, fix.commit, _midnight(fix.merged), applies=True)]
        complete = True
    else:
        links, complete = _links(api, repo, fix.pull, fix.commit)
    known = {link.number for link in links if link.number is not None}
    if fix.reverted_by is not None and (fix.reverted_by.pull is None or fix.reverted_by.pull not in known):
        more, all_known = _undoing(api, fix.reverted_by)
        links, complete = links + more, complete and all_known
    return Chain((links[0], *sorted(links[1:], key=_merged_at)), complete)


def _links(
    api: Api, repo: str, number: int, commit: str | None = None, *, applies: bool = True
) -> tuple[list[Link], bool]:
    """The pull request and everything that undoes it, directly or not."""
    links: list[Link] = []
    complete = True
    seen: set[str] = set()
    todo = [(repo, number, applies, 0)]
    while todo:
        at, which, puts_in, depth = todo.pop(0)
        if reference(at, which) in seen:
            continue
        seen.add(reference(at, which))
        pull = read_pull(api, at, which)
        sha = pull.commit or (commit if which == number else None)
        links.append(Link(pull.repo, pull.number, sha, pull.merged, puts_in))
        complete = complete and pull.complete and (depth < DEPTH or not pull.undone_by)
        if depth < DEPTH:
            todo += [(undo.repo, undo.number, not puts_in, depth + 1) for undo in pull.undone_by]
    return links, complete


def _undoing(api: Api, revert: Change) -> tuple[list[Link], bool]:
    repo = revert.repo.removeprefix("https://github.com/")
    if revert.pull is None:
        return [Link(repo, None, revert.commit, _midnight(revert.merged), applies=False)], True
    try:
        return _links(api, repo, revert.pull, revert.commit, applies=False)
    except GoneError:
        return [Link(repo, revert.pull, revert.commit, _midnight(revert.merged), applies=False)], False


def membership(history: BuildHistory, chain: Chain) -> Membership:
    """Whether the build has the fix. Raises UnavailableError, and GoneError where the repository has no such build."""
    if chain.fix.repo.lower() != history.repo.lower():
        return Membership(None, f"{chain.fix.name} is no part of {history.repo}: whether your build carries it is open")
    looks: list[datetime] = []
    commits, complete = history.picked
    present, had, why = False, False, f"{history.name} does not have {chain.fix.name}"
    for link in chain.links:
        if link.merged is None and link.commit is None:
            continue  # never merged, so in no build
        if link.commit is None:
            return Membership(None, f"what the merge of {link.name} made is not known")
        try:
            inside, seen = history.has_commit(link.commit)
        except GoneError:
            return Membership(None, f"{history.repo} has no commit {link.commit[:10]} ({link.name})")
        looks.append(seen)
        if inside:
            had, present = had or link.applies, link.applies
            why = _inside(history, chain, link)
    for subject, effect, by in _picks([commit.subject for commit in commits], chain):
        had, present = had or effect, effect
        verb = "has a pick of it on its release branch" if effect else "took it out on its release branch"
        why = f"{by}: {history.name} {verb} ({subject[:80]!r})"
    if not complete:
        return Membership(None, f"the release branch of {history.name} has more commits than could be read")
    if present and not chain.complete:
        return Membership(None, f"{why}, but not every later change could be looked up", min(looks, default=None))
    return Membership(present, why, min(looks, default=None), taken_out=had and not present)


def _inside(history: BuildHistory, chain: Chain, link: Link) -> str:
    if link is chain.fix:
        return f"{history.name} has {link.name}{_on(link.merged)}"
    verb = "puts it in again" if link.applies else "takes it out again"
    return f"{history.name} has {chain.fix.name}{_on(chain.fix.merged)}, and {link.name}{_on(link.merged)} {verb}"


def _picks(subjects: Sequence[str], chain: Chain) -> Iterator[tuple[str, bool, str]]:
    """Subject, effect and cause for each commit of the branch that does something to the fix."""
    for subject in subjects:
        if chain.fix.number is not None and (effect := subject_effect(subject, chain.fix.number)) is not None:
            yield subject, effect, chain.fix.name
            continue
        for link in chain.links[1:]:
            if link.number is not None and carries(subject, link.number):
                yield subject, link.applies, f"{chain.fix.name} by {link.name}"
                break


def _on(moment: datetime | None) -> str:
    return "" if moment is None else f" (merged {moment.date().isoformat()})"


def _merged_at(link: Link) -> datetime:
    return link.merged or datetime.max.replace(tzinfo=UTC)


def _midnight(day: date | None) -> datetime | None:
    return None if day is None else datetime.combine(day, time(), UTC)
