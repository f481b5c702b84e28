"""The builds that a bisect chooses from: those between two versions, in the order in which they came.

Between two releases these are releases. Between commits they are the first-parent commits of main; a release was cut
from main at one of them. Most commits have no wheel for a given machine, and no index lists those that have one, so
each is asked for when it is its turn. Not for measuring them.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from github.Repository import Repository

from regress_gate.errors import InputError
from regress_gate.github import GitHub
from regress_gate.known.threads import ThreadRef
from regress_gate.model.version import Channel, Version
from regress_gate.text import one_line

REPO = "vllm-project/vllm"
MAX_COMMITS = 5000
"""Between two ends: two years of vLLM."""
MOST_FILES = 20
"""Of a commit, that are named."""
_FILES_A_PAGE = 300
"""Files that GitHub gives with a commit."""
_SUBJECT_LENGTH = 200
_PULL = re.compile(r"\(#(\d{1,9})\)\s*$")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A build that may be measured."""

    version: Version
    subject: str = ""
    """First line of its commit's message; empty for a release."""

    @property
    def pull(self) -> ThreadRef | None:
        """The pull request that its commit merged."""
        match = _PULL.search(self.subject)
        return None if match is None else ThreadRef(REPO, int(match[1]), kind="pull")

    @property
    def url(self) -> str:
        """Its page at GitHub."""
        commit = self.version.commit
        place = f"releases/tag/v{self.version.number}" if commit is None else f"commit/{commit}"
        return f"https://github.com/{REPO}/{place}"


def has_order(version: Version) -> bool:
    """Whether the place of the version among releases is in its name."""
    return version.order_key is not None and version.commit is None


def releases_between(good: Version, bad: Version, published: Iterable[str]) -> list[Candidate]:
    """Final releases between two that have an order, and both of them. `published` are numbers."""
    between = [
        version
        for version in map(Version.parse, published)
        if version.channel is Channel.RELEASE and good.is_before(version) and version.is_before(bad)
    ]
    ordered = sorted(between, key=lambda version: version.order_key or 0)
    return [Candidate(version) for version in (good, *ordered, bad)]


def chosen_candidates(good: Version, bad: Version, chosen: Sequence[Version]) -> list[Candidate]:
    """Those that a user names, in the user's order. Raises InputError for one that is named twice."""
    row = [good, *chosen, bad]
    for version in row:
        if row.count(version) > 1:
            raise InputError(f"{version} is named twice", where="--candidate", todo="name each version once")
    return [Candidate(version) for version in row]


def commits_between(client: GitHub, good: Version, bad: Version, variant: str | None) -> list[Candidate]:
    """Commits of main from the one that `good` is or was cut from to that of `bad`, both included.

    Raises UnavailableError where GitHub does not say, InputError where `bad` does not come after `good`.
    """
    with client.reading():
        repo = client.api.get_repo(REPO)
        start, end = _place_on_main(repo, good), _place_on_main(repo, bad)
        compared = repo.compare(start[0], end[0])
        if compared.status != "ahead":
            raise InputError(f"{bad} does not come after {good} on vLLM's main branch", todo="exchange the two")
        found = {
            commit.sha: (commit.commit.message, [parent.sha for parent in commit.parents])
            for commit in islice(compared.commits, MAX_COMMITS)
        }
    row: list[tuple[str, str]] = []
    sha = end[0]
    while sha in found:  # first parents alone: a branch that was merged is not a row of builds
        message, parents = found[sha]
        row.append((sha, message))
        sha = parents[0] if parents else ""
    if sha != start[0]:
        raise InputError(f"{good} and {bad} are more than {MAX_COMMITS} commits apart", todo="name nearer versions")
    return [_commit_candidate(each, variant) for each in (start, *reversed(row))]


@dataclass(frozen=True, slots=True)
class ChangedFiles:
    """The files that a commit changed."""

    names: tuple[str, ...]
    """The first MOST_FILES, texts from outside."""
    count: int
    is_all: bool
    """False: there are more than were counted."""


def changed_files(client: GitHub, one: Candidate) -> ChangedFiles:
    """In one request. Raises UnavailableError where GitHub does not say."""
    with client.reading():
        _, commit = client.api.requester.requestJsonAndCheck("GET", f"/repos/{REPO}/commits/{one.version.commit}")
    names = [str(file["filename"]) for file in commit.get("files", ())]
    return ChangedFiles(tuple(map(one_line, names[:MOST_FILES])), len(names), len(names) < _FILES_A_PAGE)


def _place_on_main(repo: Repository, version: Version) -> tuple[str, str]:
    """The commit of main that a build is, or that its release branch was cut from, with its message."""
    ref = version.commit or f"v{version.number}"
    base = repo.compare(repo.default_branch, ref).merge_base_commit
    return base.sha, base.commit.message


def _commit_candidate(commit: tuple[str, str], variant: str | None) -> Candidate:
    sha, message = commit
    return Candidate(Version(None, sha, variant), one_line(message.split("\n", 1)[0])[:_SUBJECT_LENGTH])
