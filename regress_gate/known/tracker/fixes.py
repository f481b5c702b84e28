"""Finds the changes that fix an issue, and whether a build contains them.

Sources of fixes, the better one first: the record, its references, the thread. The chain of a fix is the fix, its
reverts, their reverts…, in the order of their merges. A build is a tag or commit. It contains a change if the merge is
an ancestor, or if its release branch has a cherry-pick: a commit whose subject has the same `(#number)`. The last
change of the chain in the build decides; cherry-picks come after everything that the branch was cut from. Examples:
vllm#42379, reverted by #46070; #26866, reverted by #28289 and reapplied by #28319. The diff of a fix also proposes
conditions for the `code` of a record. Not for: what that means for the issue (`verification`).
"""

import builtins
import keyword
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from functools import cached_property
from itertools import islice
from urllib.parse import quote

from github.Comparison import Comparison

from regress_gate.github import GitHub, GoneError, UnavailableError
from regress_gate.known.threads import ThreadRef, carries, reference, subject_effect
from regress_gate.known.tracker.snapshot import Thread
from regress_gate.known.tracker.threads import MAX_DEPTH, read_pull, read_thread
from regress_gate.model.issue import VLLM_REPO, Change, CodeCondition, Fix, KnownIssue
from regress_gate.model.version import Channel, Version

MAX_COMMITS = 3000
"""Of a release branch."""


def list_fixes(issue: KnownIssue, thread: Thread | None, duplicate: Thread | None = None) -> list[list[Fix]]:
    """Groups of fixes that belong together, the most reliable group first; the first group that decides counts.

    The curator's fixes come before those in the thread's timeline, and those before the fixes of the original thread of
    a duplicate. Changes of which only the day is known are left out: they lead to no commit.
    """
    named = [fix for fix in issue.changes.fixed_by if fix.pull is not None or fix.commit is not None]
    groups = [named, _fixes_in_references(issue), _fixes_in_thread(thread), _fixes_in_thread(duplicate)]
    distinct: list[list[Fix]] = []
    seen: set[tuple[str, int | str | None]] = set()
    for group in groups:
        new = [fix for fix in group if _fix_key(fix) not in seen]
        seen |= {_fix_key(fix) for fix in group}
        if new:
            distinct.append(new)
    return distinct


def _fix_key(fix: Fix) -> tuple[str, int | str | None]:
    return fix.repo.lower(), fix.commit if fix.pull is None else fix.pull


def _fixes_in_references(issue: KnownIssue) -> list[Fix]:
    refs = [ThreadRef.parse(reference.url) for reference in issue.references if reference.type == "FIX"]
    return [_pull_fix(ref.repo, ref.number) for ref in refs if ref is not None and ref.kind == "pull"]


def _fixes_in_thread(thread: Thread | None) -> list[Fix]:
    """What closed an issue. The merge of a pull request is not a fix of the pull request's own thread."""
    if thread is None or thread.state == "merged":
        return []
    if thread.fixes:
        return [_pull_fix(pull.repo, pull.number) for pull in thread.fixes]
    there = ThreadRef.parse(thread.url)
    if thread.closing_commit is None or there is None:
        return []
    return [Fix(repo=f"https://github.com/{there.repo}", commit=thread.closing_commit)]


def _pull_fix(repo: str, number: int) -> Fix:
    return Fix(repo=f"https://github.com/{repo}", pull=number)


@dataclass(frozen=True)
class BuildHistory:
    """The git history of one build, read from GitHub on demand."""

    client: GitHub
    repo: str
    ref: str
    """Tag or commit."""

    def has_commit(self, commit: str) -> tuple[bool, datetime]:
        """Whether the commit is an ancestor of the build, and when GitHub confirmed it. Raises UnavailableError."""
        with self.client.reading():
            repo = self.client.api.get_repo(self.repo)
            url = f"{repo.url}/compare/{commit}...{quote(self.ref, safe='')}"
            # Not `Repository.compare`: it asks for the first page, whose list of changed files is most of the answer.
            headers, data = repo.requester.requestJsonAndCheck("GET", url, parameters={"per_page": 1, "page": 2})
            comparison = Comparison(repo.requester, headers, data, completed=True)
            if comparison.status not in ("ahead", "behind", "identical", "diverged"):
                raise UnavailableError(f"{self.client.host} gives an answer of an unexpected form")
            return comparison.status in ("ahead", "identical"), self.client.answered_at(comparison)

    @cached_property
    def picked(self) -> tuple[tuple[str, ...], bool]:
        """Subjects of the commits that the release branch has and the main branch has not, oldest first; and if all.

        Raises UnavailableError, and GoneError for a build that the repository does not have.
        """
        with self.client.reading():
            repo = self.client.api.get_repo(self.repo)
            comparison = repo.compare(repo.default_branch, self.ref)
            commits = list(islice(comparison.commits, MAX_COMMITS))
            subjects = tuple((commit.commit.message.splitlines() or [""])[0] for commit in commits)
            return subjects, len(subjects) >= comparison.ahead_by

    @property
    def name(self) -> str:
        return self.ref if len(self.ref) < 40 else self.ref[:10]


def build_history(client: GitHub, repo: str, version: Version) -> BuildHistory | None:
    """The history of a build; None if its name gives neither a tag nor a commit."""
    if version.commit is not None:
        return BuildHistory(client, repo, version.commit)
    if version.number is None or version.channel is Channel.NIGHTLY:
        return None
    return BuildHistory(client, repo, f"v{version.number}")


VLLM_REPO_NAME = VLLM_REPO.removeprefix("https://github.com/")


@dataclass(frozen=True, slots=True)
class ChainLink:
    """One change of a chain."""

    repo: str
    number: int | None
    commit: str | None
    """The merge commit, if known."""
    merged: datetime | None
    applies: bool
    """True for the fix and what reapplies it, False for a revert."""

    @property
    def key(self) -> str:
        """`owner/name#12`, or `owner/name@commit`."""
        return f"{self.repo.lower()}@{self.commit}" if self.number is None else reference(self.repo, self.number)

    @property
    def name(self) -> str:
        if self.number is None:
            return "an unnamed change" if self.commit is None else f"commit {self.commit[:10]}"
        return f"#{self.number}" if self.repo.lower() == VLLM_REPO_NAME else f"{self.repo}#{self.number}"


@dataclass(frozen=True, slots=True)
class FixChain:
    links: tuple[ChainLink, ...]
    """The fix first, then by the time of merging."""
    complete: bool = True
    """False if reverts may be missing."""

    @property
    def fix(self) -> ChainLink:
        return self.links[0]

    @property
    def merged(self) -> bool:
        return self.fix.merged is not None or self.fix.commit is not None


@dataclass(frozen=True, slots=True)
class FixMembership:
    """Whether a build contains a fix."""

    present: bool | None
    """None if undecided."""
    why: str
    seen: datetime | None = None
    """When GitHub confirmed it: the oldest of the answers used."""
    reverted: bool = False
    """Whether the build contained it until a later change reverted it."""


def read_chain(client: GitHub, fix: Fix) -> FixChain:
    """The chain of a fix that a record names. Raises UnavailableError."""
    repo = fix.repo.removeprefix("https://github.com/")
    if fix.pull is None:
        links = [ChainLink(repo, None, fix.commit, _midnight(fix.merged), applies=True)]
        complete = True
    else:
        links, complete = _read_links(client, repo, fix.pull, fix.commit)
    known = {link.number for link in links if link.number is not None}
    if fix.reverted_by is not None and (fix.reverted_by.pull is None or fix.reverted_by.pull not in known):
        more, all_known = _read_reverts(client, fix.reverted_by)
        links, complete = links + more, complete and all_known
    return FixChain((links[0], *sorted(links[1:], key=_merged_at)), complete)


def _read_links(
    client: GitHub, repo: str, number: int, commit: str | None = None, *, applies: bool = True
) -> tuple[list[ChainLink], bool]:
    """The pull request and everything that reverts it, directly or indirectly."""
    links: list[ChainLink] = []
    complete = True
    seen: set[str] = set()
    todo = [(repo, number, applies, 0)]
    while todo:
        at, which, puts_in, depth = todo.pop(0)
        if reference(at, which) in seen:
            continue
        seen.add(reference(at, which))
        pull = read_pull(client, at, which)
        sha = pull.commit or (commit if which == number else None)
        links.append(ChainLink(pull.repo, pull.number, sha, pull.merged, puts_in))
        complete = complete and pull.complete and (depth < MAX_DEPTH or not pull.undone_by)
        if depth < MAX_DEPTH:
            todo += [(undo.repo, undo.number, not puts_in, depth + 1) for undo in pull.undone_by]
    return links, complete


def _read_reverts(client: GitHub, revert: Change) -> tuple[list[ChainLink], bool]:
    repo = revert.repo.removeprefix("https://github.com/")
    if revert.pull is None:
        return [ChainLink(repo, None, revert.commit, _midnight(revert.merged), applies=False)], True
    try:
        return _read_links(client, repo, revert.pull, revert.commit, applies=False)
    except GoneError:
        return [ChainLink(repo, revert.pull, revert.commit, _midnight(revert.merged), applies=False)], False


def find_membership(history: BuildHistory, chain: FixChain) -> FixMembership:
    """Whether the build has the fix. Raises UnavailableError, and GoneError where the repository has no such build."""
    if chain.fix.repo.lower() != history.repo.lower():
        return FixMembership(
            None, f"{chain.fix.name} is not part of {history.repo}: unknown whether your build contains it"
        )
    seen_times: list[datetime] = []
    subjects, complete = history.picked
    present, had, why = False, False, f"{history.name} does not have {chain.fix.name}"
    for link in chain.links:
        if link.merged is None and link.commit is None:
            continue  # never merged: in no build
        if link.commit is None:
            return FixMembership(None, f"the merge commit of {link.name} is not known")
        try:
            inside, seen = history.has_commit(link.commit)
        except GoneError:
            return FixMembership(None, f"{history.repo} has no commit {link.commit[:10]} ({link.name})")
        seen_times.append(seen)
        if inside:
            had, present = had or link.applies, link.applies
            why = _ancestor_text(history, chain, link)
    for subject, effect, by in _find_picks(subjects, chain):
        had, present = had or effect, effect
        verb = "has a cherry-pick of it on its release branch" if effect else "reverted it on its release branch"
        why = f"{by}: {history.name} {verb} ({subject[:80]!r})"
    if not complete:
        return FixMembership(None, f"the release branch of {history.name} has too many commits to read")
    if present and not chain.complete:
        return FixMembership(
            None, f"{why}, but not every later change could be looked up", min(seen_times, default=None)
        )
    return FixMembership(present, why, min(seen_times, default=None), reverted=had and not present)


def _ancestor_text(history: BuildHistory, chain: FixChain, link: ChainLink) -> str:
    if link is chain.fix:
        return f"{history.name} has {link.name}{_merged_text(link.merged)}"
    verb = "reapplies it" if link.applies else "reverts it"
    fix = f"{chain.fix.name}{_merged_text(chain.fix.merged)}"
    return f"{history.name} has {fix}, and {link.name}{_merged_text(link.merged)} {verb}"


def _find_picks(subjects: Sequence[str], chain: FixChain) -> Iterator[tuple[str, bool, str]]:
    """Subject, effect and cause of each commit of the branch that applies or reverts the fix."""
    for subject in subjects:
        if chain.fix.number is not None and (effect := subject_effect(subject, chain.fix.number)) is not None:
            yield subject, effect, chain.fix.name
            continue
        for link in chain.links[1:]:
            if link.number is not None and carries(subject, link.number):
                yield subject, link.applies, f"{chain.fix.name} by {link.name}"
                break


def _merged_text(moment: datetime | None) -> str:
    return "" if moment is None else f" (merged {moment.date().isoformat()})"


def _merged_at(link: ChainLink) -> datetime:
    return link.merged or datetime.max.replace(tzinfo=UTC)


def _midnight(day: date | None) -> datetime | None:
    return None if day is None else datetime.combine(day, time(), UTC)


# Conditions for the code of a record

_MAX_FILES = 100
"""Of a pull request that are read."""
_MAX_PROPOSED_FILES, _MAX_PROPOSED = 4, 3
"""Files, and identifiers of each kind in a file, that are proposed."""
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{5,79}")
_SOURCE = re.compile(r"vllm(/[A-Za-z0-9_][A-Za-z0-9_]*)*/[A-Za-z0-9_]+\.py")
_DEFINED = re.compile(r"\b(?:def|class)\s+(\w+)|\b(\w+)\s*(?::[^=]*)?=[^=]")


@dataclass(frozen=True, slots=True)
class CodeProposal:
    """What tells a build with the fix from one without, by the diff of the fix: a person has to choose."""

    fix: str
    """`owner/name#12`."""
    conditions: tuple[CodeCondition, ...]


def propose_code(client: GitHub, ref: ThreadRef) -> CodeProposal | None:
    """Conditions from the pull request that fixes a thread, or from the thread itself if it is a pull request.

    None if no merged pull request closes the issue. Raises UnavailableError.
    """
    fix = ref
    if ref.kind == "issues":
        merged = [_parsed(fixed.key) for fixed in read_thread(client, ref).fixes]
        if not merged:
            return None
        fix = merged[-1]
    with client.reading():
        files = list(islice(client.api.get_repo(fix.repo).get_pull(fix.number).get_files(), _MAX_FILES))
        diffs = {str(file.filename): str(file.patch or "") for file in files}
    return CodeProposal(fix.key, tuple(_conditions(diffs)))


def _parsed(key: str) -> ThreadRef:
    repo, _, number = key.rpartition("#")
    return ThreadRef(repo, int(number), kind="pull")


def _conditions(diffs: dict[str, str]) -> Iterator[CodeCondition]:
    """For the files that change most: identifiers that the fix removes, and such that it brings."""
    sources = {file: patch for file, patch in diffs.items() if _SOURCE.fullmatch(file)}
    for file in sorted(sources, key=lambda file: -len(sources[file]))[:_MAX_PROPOSED_FILES]:
        lines = sources[file].splitlines()
        added = [line[1:] for line in lines if line.startswith("+")]
        removed = [line[1:] for line in lines if line.startswith("-")]
        kept = [line for line in lines if not line.startswith(("+", "-"))]
        for text in _only_in(removed, [*added, *kept]):
            yield CodeCondition(file=file, present=[text])
        for text in _only_in(added, [*removed, *kept]):
            yield CodeCondition(file=file, absent=[text])


def _only_in(lines: Iterable[str], others: Iterable[str]) -> list[str]:
    """The identifiers of some lines that no other line has: those that are defined there first, then the most frequent.

    Comments do not count.
    """
    code = [line.partition("#")[0] for line in lines]
    found = Counter(name for line in code for name in _IDENTIFIER.findall(line))
    known = {name for line in others for name in _IDENTIFIER.findall(line)} | {*keyword.kwlist, *dir(builtins)}
    defined = {name for line in code for pair in _DEFINED.findall(line) for name in pair if name}
    fresh = sorted((name for name in found if name not in known), key=lambda name: (name not in defined, -found[name]))
    return fresh[:_MAX_PROPOSED]
