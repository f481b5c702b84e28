"""What a build's git history holds: whether a change is in it, and what was picked onto its release branch.

A build is a tag or commit. A change is in it when its merge is an ancestor, or when the release branch has a pick of
it: a commit whose subject carries the same `(#number)`. What is between a tag and a commit never changes, so it is
asked for only once.
"""

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from urllib.parse import quote

from regress_gate.known.github import Api
from regress_gate.known.github_shapes import CommitShape, CompareShape, RepositoryShape
from regress_gate.model.version import Channel, Version


@dataclass(frozen=True)
class BuildHistory:
    """The history of one build, asked for as it is needed."""

    api: Api
    repo: str
    ref: str
    """Tag or commit."""

    def has_commit(self, commit: str) -> tuple[bool, datetime]:
        """Whether the commit is an ancestor of the build, and when that was seen. Raises UnavailableError."""
        # The list of changed files, which is most of an answer, comes with the first page only.
        path = f"/repos/{self.repo}/compare/{commit}...{quote(self.ref, safe='')}?per_page=1&page=2"
        found, seen = self.api.get(path, CompareShape, fixed=True)
        return found.status in ("ahead", "identical"), seen

    @cached_property
    def picked(self) -> tuple[tuple[CommitShape, ...], bool]:
        """The commits of the release branch that the main branch does not have, oldest first; and if that is all.

        Raises UnavailableError, and GoneError where the
        repository has no such build.
        """
        main, _ = self.api.get(f"/repos/{self.repo}", RepositoryShape, fixed=True)
        path = f"/repos/{self.repo}/compare/{quote(main.default_branch, safe='')}...{quote(self.ref, safe='')}"
        pages, complete = self.api.pages(f"{path}?per_page=100", CompareShape, fixed=True)
        commits = tuple(commit for page in pages for commit in page.commits)
        return commits, complete and len(commits) >= pages[0].ahead_by

    @property
    def name(self) -> str:
        return self.ref if len(self.ref) < 40 else self.ref[:10]


def build_history(api: Api, repo: str, version: Version) -> BuildHistory | None:
    """The history of a build; None for one whose name leads to no tag and no commit."""
    if version.commit is not None:
        return BuildHistory(api, repo, version.commit)
    if version.number is None or version.channel is Channel.NIGHTLY:
        return None
    return BuildHistory(api, repo, f"v{version.number}")
