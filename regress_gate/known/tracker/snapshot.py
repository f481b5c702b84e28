"""Whom to ask, and where what it said is kept. Cheap to import, for who only wants to know if anything is there."""

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
"""The file beside the entries in which the last sync keeps what it saw."""


def api_base(environment: Mapping[str, str]) -> str:
    """The address of the interface: GitHub's own, or the one that REGRESS_GATE_GITHUB_API names."""
    return environment.get("REGRESS_GATE_GITHUB_API") or DEFAULT_API


def api_directory(root: Path, base: str) -> Path:
    """Where what the API at `base` said is kept: servers are never mixed."""
    return root / "tracker" / hashlib.sha256(base.rstrip("/").encode()).hexdigest()[:16]


# MERGED regress_gate.known.tracker_facts: What was seen of a thread or pull request: facts as small values, which
# are kept from one sync to the next.


ThreadStatus = Literal["open", "closed", "merged", "gone"]
ClosingReason = Literal["completed", "not_planned", "duplicate", "reopened", "stale", "unknown"]


class _StoredFact(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class MergedPull(_StoredFact):
    """A merged pull request, as another thread's timeline shows it."""

    repo: str
    number: int
    merged: AwareDatetime

    @property
    def key(self) -> str:
        return reference(self.repo, self.number)


class Thread(_StoredFact):
    """An issue or pull request as last seen."""

    url: str
    """As it is now: it may have moved."""
    state: ThreadStatus
    reason: ClosingReason | None = None
    labels: list[str] = Field(default_factory=list)
    duplicate_of: str | None = None
    """`owner/name#12`."""
    fixes: list[MergedPull] = Field(default_factory=list)
    """Merged pull requests that closed it, oldest first."""
    closing_commit: str | None = None
    """The commit that closed it, where it was one."""
    complete: bool = True
    """False where the timeline was too long to be read, or could not be had."""
    seen: AwareDatetime


class Pull(_StoredFact):
    """A pull request that changes what a build holds."""

    repo: str
    number: int
    merged: AwareDatetime | None = None
    commit: str | None = None
    """What the merge made."""
    undone_by: list[MergedPull] = Field(default_factory=list)
    """Merged pull requests that take it back, oldest first."""
    complete: bool = True
    seen: AwareDatetime


# MERGED regress_gate.known.tracker_snapshot: The state of every thread as the last sync saw it: one file, which
# `check` can read quickly.


class Snapshot(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    form: Literal[1] = 1
    threads: dict[str, Thread] = Field(default_factory=dict)
    """By `owner/name#12`, as the record names it."""
    reverts: dict[str, list[str]] = Field(default_factory=dict)
    """By the same: what takes back a fix of it."""


def read_snapshot(directory: Path) -> Snapshot:
    """The last one; an empty one where there is none that can be used."""
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
    """The record with its tracker as it was seen last: by the curator or by a sync, whichever is later.

    A thread that is gone says nothing, so the record's own word stands. A sync on a later day than today was made with
    a wrong clock and does not count.
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
        reason = issue.tracker.state_reason  # a curator may know more than the interface tells
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
