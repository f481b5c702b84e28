"""The parts of GitHub's answers that matter here, as far as they are believed: small frozen values.

An answer is reduced to its shape before it is kept, and what is kept is read through the same shape, so that neither
a strange answer nor a damaged cache gets any further. Texts of posts are never kept, only the threads that they name.
Fields as in docs.github.com/en/rest (issues, timeline, pulls, commits; version 2022-11-28).
"""

from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field, RootModel, model_validator

from regress_gate.known.threads import ThreadRef, closing_references, duplicate_references, reverted_references

MAX_LABELS = 100
MAX_LABEL = 100
"""Characters."""
MAX_LINE = 300
STALE = "stale"


def _line(value: Any) -> Any:
    return value[:MAX_LINE] if isinstance(value, str) else value


def _labels(value: Any) -> Any:
    """Names of labels. What is beyond the limit is dropped, never the one label that means something here."""
    if not isinstance(value, list):
        return []
    names = [label.get("name") if isinstance(label, dict) else label for label in value]
    kept = sorted({name[:MAX_LABEL] for name in names if isinstance(name, str)}, key=lambda name: (name != STALE, name))
    return kept[:MAX_LABELS]


Line = Annotated[str, BeforeValidator(_line)]
Sha = Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]
Number = Annotated[int, Field(ge=1, lt=10**9)]
Ref = Annotated[str, Field(max_length=220)]


class Shape(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class PullMark(Shape):
    """Of an issue that is a pull request."""

    merged_at: AwareDatetime | None = None


class IssueShape(Shape):
    number: Number
    html_url: Line
    title: Line = ""
    state: Literal["open", "closed"]
    state_reason: Line | None = None
    closed_at: AwareDatetime | None = None
    labels: Annotated[list[str], BeforeValidator(_labels)] = []
    pull_request: PullMark | None = None


class SourceIssue(Shape):
    """The thread from which another one was named."""

    number: Number
    html_url: Line
    title: Line = ""
    pull_request: PullMark | None = None
    closes: list[Ref] = []
    """Threads that its text closes, as `owner/name#12`."""
    reverts: list[Ref] = []

    @model_validator(mode="before")
    @classmethod
    def _read_the_text(cls, raw: Any) -> Any:
        if not isinstance(raw, dict) or "body" not in raw:
            return raw
        found = ThreadRef.parse(str(raw.get("html_url")))
        body, title = raw["body"] if isinstance(raw["body"], str) else "", str(raw.get("title") or "")
        if found is None:
            return raw
        return {
            **raw,
            "closes": closing_references(body, found.repo),
            "reverts": reverted_references(title, body, found.repo),
        }


class Source(Shape):
    issue: SourceIssue | None = None


class Actor(Shape):
    login: Line | None = None
    type: Line | None = None

    @property
    def is_bot(self) -> bool:
        return self.type == "Bot" or (self.login or "").endswith("[bot]")


class EventShape(Shape):
    """One event of a timeline."""

    event: Line
    created_at: AwareDatetime | None = None
    commit_id: Sha | None = None
    actor: Actor | None = None
    source: Source | None = None
    duplicates: list[Ref] = []
    """Threads of which a comment says that this one is a duplicate."""

    @model_validator(mode="before")
    @classmethod
    def _read_the_comment(cls, raw: Any) -> Any:
        if not isinstance(raw, dict) or not isinstance(raw.get("body"), str):
            return raw
        found = ThreadRef.parse(str(raw.get("html_url")))
        return {**raw, "duplicates": duplicate_references(raw["body"], found.repo) if found else []}


def _telling(raw: Any) -> Any:
    """The events that tell something here; the others (subscriptions, mentions, plain comments) are most of them."""
    if not isinstance(raw, list):
        return raw
    return [event for event in raw if isinstance(event, dict) and _tells(event)]


def _tells(event: dict[str, Any]) -> bool:
    kind = event.get("event")
    if kind == "commented":
        return bool(event.get("duplicates")) or "duplicate of" in str(event.get("body")).lower()
    return kind in ("closed", "reopened", "cross-referenced")


class TimelinePage(RootModel[Annotated[list[EventShape], BeforeValidator(_telling)]]):
    """One page of a thread's timeline, oldest event first."""


class Branch(Shape):
    ref: Line = ""


class PullShape(Shape):
    number: Number
    html_url: Line
    title: Line = ""
    state: Literal["open", "closed"]
    merged_at: AwareDatetime | None = None
    merge_commit_sha: Sha | None = None
    """Of an unmerged pull request it is a commit for trial, which means nothing."""
    base: Branch = Branch()


class RepositoryShape(Shape):
    default_branch: Annotated[str, Field(pattern=r"^[\w./-]{1,200}$")]


class CommitShape(Shape):
    sha: Sha
    subject: Line = ""

    @model_validator(mode="before")
    @classmethod
    def _first_line(cls, raw: Any) -> Any:
        commit = raw.get("commit") if isinstance(raw, dict) else None
        if not isinstance(commit, dict):
            return raw
        lines = str(commit.get("message") or "").splitlines()
        return {**raw, "subject": lines[0] if lines else ""}


class CompareShape(Shape):
    """What separates two commits: `status` is that of the head, as seen from the base."""

    status: Literal["ahead", "behind", "identical", "diverged"]
    ahead_by: Annotated[int, Field(ge=0)] = 0
    commits: list[CommitShape] = []
    """Of the head only, oldest first; one page of them."""
