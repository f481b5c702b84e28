"""The result of matching a known issue with a deployment and a move from one version to another."""

from dataclasses import dataclass
from enum import StrEnum

from regress_gate.model.issue import KnownIssue


class Applies(StrEnum):
    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"
    MITIGATED = "mitigated"


class Status(StrEnum):
    """The status of a fix. `closed` on the tracker alone is never a fix."""

    OPEN = "open"
    CLOSED_UNFIXED = "closed_unfixed"
    FIX_NOT_IN_CANDIDATE = "fix_not_in_candidate"
    FIX_IN_CANDIDATE = "fix_in_candidate"
    MEASURED_FIXED = "measured_fixed"
    UNKNOWN = "unknown"


class Effect(StrEnum):
    """The effect of the move: introduces the issue, keeps it, or resolves it."""

    NEW = "new"
    CARRIED = "carried"
    RESOLVED = "resolved"


@dataclass(frozen=True, slots=True)
class IssueFinding:
    """An issue that affects one of the two versions. Other issues have no finding."""

    issue: KnownIssue
    applies: Applies
    why: str
    """The reason for `applies`: the scope key that does not match, the missing fact, the active workaround."""
    status: Status
    status_why: str
    """The evidence for the status, and its date."""
    effect: Effect
    effect_why: str
    """The affected versions, and the confidence in them."""
    missing: tuple[str, ...] = ()
    """If `applies` is unknown: the flags that would give the missing facts, for example `--model`."""
