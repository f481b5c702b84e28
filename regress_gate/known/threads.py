"""Finds references between threads and commits in their texts: pure text in, references out.

GitHub's REST API does not contain which pull request closes an issue, which issue a duplicate repeats, or what a revert
reverts. The texts do, in the words on which GitHub itself acts: "Fixes #12"
(docs.github.com/en/issues/tracking-your-work-with-issues/using-issues/linking-a-pull-request-to-an-issue),
"Duplicate of #12", and "Reverts owner/name#12", which its revert button writes.
"""

import re
from dataclasses import dataclass
from typing import Literal, Self

_NAME = r"[\w.-]{1,100}/[\w.-]{1,100}"
_THREAD = re.compile(
    rf"https://(?P<host>[\w.-]+(?::\d+)?)/(?P<repo>{_NAME})/(?P<kind>issues|pull)/(?P<number>[1-9]\d{{0,8}})(?!\d)"
)
_REFERENCE = (
    rf"(?:https://[\w.-]+/(?P<linked>{_NAME})/(?:issues|pull)/|(?P<named>{_NAME})?#)(?P<number>[1-9]\d{{0,8}})(?!\d)"
)
_CLOSES = re.compile(rf"\b(?:close[sd]?|fix(?:e[sd])?|resolve[sd]?):?[ \t]+{_REFERENCE}", re.IGNORECASE)
_DUPLICATE = re.compile(rf"^\s*duplicate of:?[ \t]+{_REFERENCE}", re.IGNORECASE | re.MULTILINE)
_REVERTS = re.compile(rf"\breverts[ \t]+{_REFERENCE}", re.IGNORECASE)
_UNDO = re.compile(r'^\s*(?:\[[^\]]*\]\s*)*(?P<word>revert|reapply|reland)\b[\s:]*"?', re.IGNORECASE)
_PULLS = re.compile(r"\(#([1-9]\d{0,8})\)")
MAX_TEXT = 100_000
"""Characters of a post that are searched; GitHub allows 65,536."""


@dataclass(frozen=True, slots=True, order=True)
class ThreadRef:
    """One issue or pull request."""

    repo: str
    """`owner/name`."""
    number: int
    host: str = "github.com"
    kind: Literal["issues", "pull"] = "issues"
    """As in the address. A pull request is an issue too, so both kinds name the same thread."""

    @classmethod
    def parse(cls, url: str) -> Self | None:
        """The thread that an address names; None for any other address."""
        match = _THREAD.match(url)
        if match is None:
            return None
        kind: Literal["issues", "pull"] = "pull" if match["kind"] == "pull" else "issues"
        return cls(match["repo"], int(match["number"]), match["host"].lower(), kind)

    @property
    def key(self) -> str:
        """`owner/name#12`, the same however the address was written."""
        return reference(self.repo, self.number)

    @property
    def url(self) -> str:
        return f"https://{self.host}/{self.repo}/{self.kind}/{self.number}"


def reference(repo: str, number: int) -> str:
    """`owner/name#12`, in lower case: GitHub ignores the case of repositories."""
    return f"{repo.lower()}#{number}"


def closing_references(text: str, repo: str) -> list[str]:
    """The threads that a pull request's text closes on merge. A bare `#12` is in `repo`."""
    return _references(_CLOSES, text, repo)


def duplicate_references(text: str, repo: str) -> list[str]:
    """The originals that a comment names with "duplicate of"."""
    return _references(_DUPLICATE, text, repo)


def reverted_references(title: str, text: str, repo: str) -> list[str]:
    """The pull requests that a pull request reverts, by its text or else by its title."""
    references = _references(_REVERTS, text, repo)
    if references or not _UNDO.match(title):
        return references
    return [reference(repo, int(number)) for number in _PULLS.findall(title)]


def subject_effect(subject: str, number: int) -> bool | None:
    """Whether a commit with that subject applies (True) or reverts (False) the change of a pull request.

    None if the subject does not name the pull request. `Revert "Fix it (#12)" (#15)` reverts 12; a revert of that, and
    `Reapply "Fix it (#12)"`, apply it again.
    """
    if carries(subject, number):
        return True
    if number not in (int(named) for named in _PULLS.findall(subject)):
        return None
    rest, sign = subject, True
    while (word := _UNDO.match(rest)) is not None:
        sign = not sign if word["word"].lower() == "revert" else sign
        rest = rest[word.end() :]
    return sign


def carries(subject: str, number: int) -> bool:
    """Whether the commit is the pull request's own or a cherry-pick of it, and not a revert or a reapplication.

    In `Revert "…" (#15)`, the number after the closing quote is the commit's own.
    """
    own = subject
    if _UNDO.match(subject):
        end = re.search(r'"\s*((?:\(#\d+\)\s*)+)$', subject)
        own = end[1] if end else ""
    return number in (int(named) for named in _PULLS.findall(own))


def _references(pattern: re.Pattern[str], text: str, repo: str) -> list[str]:
    references = [
        reference(match["linked"] or match["named"] or repo, int(match["number"]))
        for match in pattern.finditer(text[:MAX_TEXT])
    ]
    return list(dict.fromkeys(references))[:100]
