"""The one comment of a pull request: found by a hidden marker and its author, edited in place, silent when it can be.

The marker stands at the very start of the comment, where no text of a result can be: texts come after it and are
escaped. Not for how a report looks, which is the Markdown renderer's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from regress_gate.github import GitHub, UnavailableError
from regress_gate.publish.writing import written
from regress_gate.text import one_line

PERMISSION = "pull-requests: write"
_MOST_PAGES = 100
_QUERY = """
query($owner: String!, $name: String!, $number: Int!, $after: String) {
  viewer { login }
  repository(owner: $owner, name: $name) {
    pullRequest(number: $number) {
      headRefOid
      comments(first: 100, after: $after) {
        pageInfo { hasNextPage endCursor }
        nodes { databaseId url body isMinimized viewerDidAuthor author { __typename login } }
      }
    }
  }
}
"""
"""REST shows neither who the token belongs to nor which comments are hidden."""


class _MovedOnError(Exception):
    """The pull request has another head by now, which is named."""


class CommentMode(StrEnum):
    """When a comment is made."""

    OFF = "off"
    ON_CHANGE = "on-change"
    """Where there is something to say; a first pass is silent."""
    ALWAYS = "always"


@dataclass(frozen=True, slots=True)
class Marker:
    """`<!-- regress-gate:v1:upgrade fail 0123456789abcdef -->`."""

    name: str
    outcome: str
    digest: str

    def __str__(self) -> str:
        return f"<!-- regress-gate:v1:{self.name} {self.outcome} {self.digest} -->"

    @classmethod
    def find(cls, body: str) -> Marker | None:
        found = _MARKER.match(body)
        return None if found is None else cls(*found.groups())


_MARKER = re.compile(r"<!-- regress-gate:v1:([A-Za-z0-9][A-Za-z0-9._-]*) ([a-z_]+) ([0-9a-f]{16}) -->")


@dataclass(frozen=True, slots=True)
class OwnComment:
    id: int
    url: str
    marker: Marker


@dataclass(frozen=True, slots=True)
class CommentOutcome:
    """What was done, in a word, and the address of the comment if there is one."""

    done: str
    url: str = ""


def write_comment(
    client: GitHub, repository: str, number: int, head: str, name: str, body: str, *, is_wanted: bool
) -> CommentOutcome:
    """Make, edit or leave the comment, so that in the end there is one at most. `body` begins with its marker.

    `head`: the commit that it speaks of. If that is no longer the head of the pull request, a run for the newer one
    speaks, and a slow older run has nothing to add. `is_wanted`: where there is none, one is made. Raises
    NotWrittenError. May be called again after any interruption.
    """

    def act() -> CommentOutcome:
        issue = client.api.get_repo(repository).get_issue(number)
        try:
            own = sorted(find_own_comments(client, repository, number, head, name), key=lambda one: one.id)
        except _MovedOnError as newer:
            return CommentOutcome(f"left alone: #{number} has moved on to {newer} from {head[:12]}")
        if not own:
            if not is_wanted:
                return CommentOutcome("none: there is no bad news")
            return CommentOutcome("created", issue.create_comment(body).html_url)
        kept, *copies = own
        for copy in copies:  # two runs at the same time each made one
            issue.get_comment(copy.id).delete()
        if kept.marker == Marker.find(body):
            return CommentOutcome("unchanged", kept.url)
        issue.get_comment(kept.id).edit(body)
        return CommentOutcome("edited", kept.url)

    return written(client, f"the comment on #{number}", PERMISSION, act)


def find_own_comments(client: GitHub, repository: str, number: int, head: str, name: str) -> Iterator[OwnComment]:
    """Comments of this token's owner that begin with the marker of that name and are not hidden.

    Whoever else writes the marker, or quotes it, has written another comment. Raises _MovedOnError.
    """
    owner, _, short = repository.partition("/")
    after: str | None = None
    for _ in range(_MOST_PAGES):
        variables = {"owner": owner, "name": short, "number": number, "after": after}
        _, answer = client.api.requester.graphql_query(_QUERY, variables)
        viewer = answer["data"]["viewer"]["login"]
        pull = answer["data"]["repository"]["pullRequest"]
        if pull["headRefOid"] != head:
            raise _MovedOnError(one_line(str(pull["headRefOid"]))[:12])
        page = pull["comments"]
        for node in page["nodes"]:
            is_own = node["viewerDidAuthor"] or _is_app(node["author"], viewer)
            marker = Marker.find(node["body"]) if is_own and not node["isMinimized"] else None
            if marker is not None and marker.name == name:
                yield OwnComment(node["databaseId"], node["url"], marker)
        if not page["pageInfo"]["hasNextPage"]:
            return
        after = page["pageInfo"]["endCursor"]
    raise UnavailableError(f"#{number} has more than {100 * _MOST_PAGES} comments")


def _is_app(author: dict[str, str] | None, viewer: str) -> bool:
    """Whether an app is the author: the name of one as viewer ends in [bot], as author not. None: it is gone."""
    return author is not None and author["__typename"] == "Bot" and f"{author['login']}[bot]" == viewer
