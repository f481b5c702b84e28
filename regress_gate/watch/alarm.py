"""Alarms: what the watch itself lacks, so that its silence is not taken for good news.

Not for what a build does worse: that is a finding.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class AlarmKind(StrEnum):
    OVERDUE = "overdue"
    """The watch has not run."""
    UNFINISHED = "unfinished"
    """A look did not end."""
    NO_ANSWER = "no_answer"
    """An index did not say what it has."""
    STALE_BUILD = "stale_build"
    """The newest nightly is too old to be one."""
    TESTBED_CHANGED = "testbed_changed"
    NEVER_QUIET = "never_quiet"
    """All runs are void by the conditions of the machine."""
    NOT_MEASURED = "not_measured"
    """A build that was to be measured was not, for another reason."""


@dataclass(frozen=True, slots=True)
class WatchAlarm:
    kind: AlarmKind
    text: str
    """One sentence, raw."""
    todo: str
    """What to do about it."""

    def __str__(self) -> str:
        return f"{self.text}; {self.todo}"

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind.value, "text": self.text, "todo": self.todo}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "WatchAlarm":
        """The inverse. Raises KeyError or ValueError for anything else."""
        return cls(AlarmKind(data["kind"]), str(data["text"]), str(data["todo"]))
