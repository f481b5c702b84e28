"""What a watch follows and what one of its looks found: the values that issues, notifications and drafts are made of.

A look is one visit to the published builds, with the measurement of the newest one. A finding is one regression over
all looks. Texts are raw: whoever writes them somewhere escapes them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from enum import StrEnum

from regress_gate.model.result import Decision, KnownIssueOut, Result, SeriesResult
from regress_gate.model.version import Version
from regress_gate.report.document import Chart


class FindingState(StrEnum):
    """What the newest look shows of a finding."""

    SEEN = "seen"
    GONE = "gone"
    """Shown to be within the margin; of a suspicion: measured, and not seen again."""
    UNKNOWN = "unknown"
    """Not measured, or the runs do not decide it."""


@dataclass(frozen=True, slots=True)
class WatchFinding:
    """One regression that the watch follows, over all looks."""

    key: str
    """Stable and unique: hexadecimal digest of testbed, suite name, scenario family and metric family."""
    title: str
    """`output_throughput of chat-c8 is 9 % lower since nightly 2026-11-16 on h100-a`."""
    testbed: str
    suite: str
    """`NAME@VERSION`."""
    first_bad: Version
    last_good: Version | None
    """None: no build without it was measured."""
    first_seen: date
    looks: int
    """In which it was seen; the newest one counts."""
    series: tuple[SeriesResult, ...]
    """Of the newest look that measured them, the worst first."""
    known_issues: tuple[KnownIssueOut, ...]
    """Those that apply to the deployment and may be the cause."""
    bisect_command: str
    """To be typed into a shell, with everything that it needs."""
    state: FindingState
    charts: tuple[tuple[str, Chart], ...] = ()
    """Name and levels over the builds, for the worst series."""


@dataclass(frozen=True, slots=True)
class LookSummary:
    """What one look found out."""

    look: str
    """Names the look, the same after a restart; letters, digits, dots, underscores and hyphens."""
    day: date
    """On which it began, UTC."""
    candidate: Version | None
    """The newest build; None: none could be found."""
    pinned: Version | None
    """With which it was compared."""
    result: Result | None
    """Of the comparison or the check; None: nothing new, or it could not be measured."""
    headline: str
    """One sentence: what is to be known of the look."""
    alarms: tuple[str, ...]
    """What the watch itself lacks, a sentence each: a stale nightly, a machine that was never quiet…"""
    findings: tuple[WatchFinding, ...]
    """All that are followed, also those that are gone since the look before."""
    checked: Decision | None = None
    """Of a check, whose result is not kept."""

    @property
    def decision(self) -> Decision | None:
        """None where nothing was decided."""
        return self.checked if self.result is None else self.result.decision
