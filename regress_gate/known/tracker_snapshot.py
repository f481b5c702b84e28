"""The state of every thread as the last sync saw it: one file, which `check` can read quickly."""

from datetime import date
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from regress_gate.known.github_refs import ThreadRef
from regress_gate.known.tracker_cache import read_small, write_whole
from regress_gate.known.tracker_facts import Thread
from regress_gate.known.tracker_place import SNAPSHOT
from regress_gate.model.issue import KnownIssue, Tracker


class Snapshot(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    form: Literal[1] = 1
    threads: dict[str, Thread] = Field(default_factory=dict)
    """By `owner/name#12`, as the record names it."""
    reverts: dict[str, list[str]] = Field(default_factory=dict)
    """By the same: what takes back a fix of it."""


def read_snapshot(directory: Path) -> Snapshot:
    """The last one; an empty one where there is none that can be used."""
    text = read_small(directory / SNAPSHOT)
    if text is None:
        return Snapshot()
    try:
        return Snapshot.model_validate_json(text)
    except (ValidationError, RecursionError):
        return Snapshot()


def write_snapshot(directory: Path, snapshot: Snapshot) -> bool:
    return write_whole(directory / SNAPSHOT, snapshot.model_dump_json(exclude_defaults=True))


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
