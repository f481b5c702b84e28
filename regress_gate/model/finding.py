"""What is found when a known issue is held against a deployment and a move from one version to another."""

from dataclasses import dataclass
from enum import StrEnum

from regress_gate.model.issue import KnownIssue


class Applies(StrEnum):
    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"
    MITIGATED = "mitigated"


class Status(StrEnum):
    """What is known about a fix. `closed` on the tracker alone is never a fix."""

    OPEN = "open"
    CLOSED_UNFIXED = "closed_unfixed"
    FIX_NOT_IN_CANDIDATE = "fix_not_in_candidate"
    FIX_IN_CANDIDATE = "fix_in_candidate"
    MEASURED_FIXED = "measured_fixed"
    UNKNOWN = "unknown"


class Effect(StrEnum):
    """What the move does to the user: brings the issue, keeps it, or leaves it behind."""

    NEW = "new"
    CARRIED = "carried"
    RESOLVED = "resolved"


@dataclass(frozen=True, slots=True)
class IssueFinding:
    """One issue that touches the move. Issues that touch neither version have no finding."""

    issue: KnownIssue
    applies: Applies
    why: str
    """The fact on which `applies` rests: the scope key that fails, the fact that is missing, the active workaround."""
    status: Status
    status_why: str
    """On what the status rests, and when it was seen."""
    effect: Effect
    effect_why: str
    """Which versions are affected, and how sure that is."""
    missing: tuple[str, ...] = ()
    """The flags that would give the facts for want of which `applies` is unknown: `--model`."""
