"""The threads as the last sync saw them: one small file, which `check` reads quickly and without GitHub.

Not for: GitHub's answers (`regress_gate.github` caches them).
"""

import hashlib
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from regress_gate.files import read_bounded, replace_file
from regress_gate.known.threads import ThreadRef, reference
from regress_gate.model.issue import KnownIssue, Tracker

DEFAULT_API = "https://api.github.com"
MAX_BYTES = 4 * 1024 * 1024
SNAPSHOT_NAME = "threads.snapshot"
"""The file of the last sync, beside the cached answers."""
FOUND_NAME = "found.snapshot"
"""The file of what `issues discover` has found so far, beside it."""
MAX_FOUND = 10_000
"""Found threads that are kept, the newest."""


def api_base(environment: Mapping[str, str]) -> str:
    """The address of the API: GitHub's, or REGRESS_GATE_GITHUB_API."""
    return environment.get("REGRESS_GATE_GITHUB_API") or DEFAULT_API


def api_directory(root: Path, base: str) -> Path:
    """The directory for one API: servers are never mixed."""
    return root / "tracker" / hashlib.sha256(base.rstrip("/").encode()).hexdigest()[:16]


ThreadStatus = Literal["open", "closed", "merged", "gone"]
ClosingReason = Literal["completed", "not_planned", "duplicate", "reopened", "stale", "unknown"]


class _StoredFact(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class MergedPull(_StoredFact):
    """A merged pull request in another thread's timeline."""

    repo: str
    number: int
    merged: AwareDatetime

    @property
    def key(self) -> str:
        return reference(self.repo, self.number)


class Thread(_StoredFact):
    """An issue or pull request, as GitHub showed it last."""

    url: str
    """The present address: the thread may have moved."""
    state: ThreadStatus
    reason: ClosingReason | None = None
    labels: list[str] = Field(default_factory=list)
    duplicate_of: str | None = None
    """`owner/name#12`."""
    fixes: list[MergedPull] = Field(default_factory=list)
    """Merged pull requests that closed it, oldest first."""
    closing_commit: str | None = None
    """The commit that closed it, if a commit did."""
    complete: bool = True
    """False if the timeline was too long or not available."""
    seen: AwareDatetime


class Pull(_StoredFact):
    """A pull request that fixes an issue or reverts a fix."""

    repo: str
    number: int
    merged: AwareDatetime | None = None
    commit: str | None = None
    """The merge commit."""
    undone_by: list[MergedPull] = Field(default_factory=list)
    """Merged pull requests that revert it, oldest first."""
    complete: bool = True
    seen: AwareDatetime


class Snapshot(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    form: Literal[1] = 1
    threads: dict[str, Thread] = Field(default_factory=dict)
    """Key: `owner/name#12`, as the record names the thread."""
    reverts: dict[str, list[str]] = Field(default_factory=dict)
    """Same key: pull requests that revert a fix of it."""


class FoundThread(_StoredFact):
    """A thread that a search has found, with what counts for its rank. Its text is not kept."""

    url: str
    title: str = Field(max_length=300)
    is_pull: bool
    state: ThreadStatus
    labels: list[str] = Field(default_factory=list)
    created: AwareDatetime
    versions: list[str] = Field(default_factory=list)
    """Releases of vLLM that it names."""
    signs: list[str] = Field(default_factory=list)
    """Keys of `threads.SIGNS`."""
    closes: list[str] = Field(default_factory=list)
    """`owner/name#12` of the threads that a pull request says it closes."""
    reverts: list[str] = Field(default_factory=list)
    seen: AwareDatetime


class FoundThreads(BaseModel):
    """What the searches so far have found."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    form: Literal[1] = 1
    threads: dict[str, FoundThread] = Field(default_factory=dict)
    """Key: `owner/name#12`."""


def read_found(directory: Path) -> FoundThreads:
    """What was found so far; nothing if there is no such file or it is damaged."""
    text = _read_snapshot_file(directory / FOUND_NAME)
    try:
        return FoundThreads() if text is None else FoundThreads.model_validate_json(text)
    except (ValidationError, RecursionError):
        return FoundThreads()


def write_found(directory: Path, found: FoundThreads) -> bool:
    newest = sorted(found.threads.items(), key=lambda item: item[1].created, reverse=True)[:MAX_FOUND]
    kept = FoundThreads(threads=dict(newest))
    return _write_snapshot(directory / FOUND_NAME, kept.model_dump_json(exclude_defaults=True))


def read_snapshot(directory: Path) -> Snapshot:
    """The last snapshot; an empty one if there is none or it is damaged."""
    text = _read_snapshot_file(directory / SNAPSHOT_NAME)
    if text is None:
        return Snapshot()
    try:
        return Snapshot.model_validate_json(text)
    except (ValidationError, RecursionError):
        return Snapshot()


def write_snapshot(directory: Path, snapshot: Snapshot) -> bool:
    return _write_snapshot(directory / SNAPSHOT_NAME, snapshot.model_dump_json(exclude_defaults=True))


def as_last_seen(issue: KnownIssue, snapshot: Snapshot, today: date) -> KnownIssue:
    """The record with the newer state of its thread: the curator's or that of the last sync.

    If the thread is gone, the record's own state stays. A sync on a later day than today was made with a wrong clock
    and is ignored.
    """
    ref = ThreadRef.parse(issue.tracker.url)
    thread = snapshot.threads.get(ref.key) if ref is not None else None
    if thread is None or thread.state == "gone":
        return issue
    seen = thread.seen.date()
    if seen < issue.tracker.checked or seen > today:
        return issue
    reason = thread.reason
    if reason == "unknown" and issue.tracker.state == thread.state:
        reason = issue.tracker.state_reason  # a curator may know more than the API
    tracker = Tracker(url=issue.tracker.url, state=thread.state, state_reason=reason, checked=seen)
    return issue.model_copy(update={"tracker": tracker})


def _read_snapshot_file(file: Path) -> bytes | None:
    """A file's content; None if it cannot be read or is larger than any snapshot."""
    try:
        return read_bounded(file, MAX_BYTES)
    except OSError:
        return None


def _write_snapshot(file: Path, text: str) -> bool:
    """Replace a file as a whole or not at all; whether that was possible."""
    content = text.encode("utf-8", "replace")
    if len(content) > MAX_BYTES:
        return False
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        replace_file(file, content, mode=0o600)
    except OSError:
        return False
    return True
