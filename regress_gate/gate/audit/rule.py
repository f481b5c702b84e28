"""What a rule of `audit` is, and its four answers. Not for what is known of a deployment (`observations`), nor for any
single rule.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from regress_gate.gate.audit.observations import Evidence, Observations
from regress_gate.model.issue import Severity
from regress_gate.model.policy import Policy


class Answer(StrEnum):
    """The order here is the order of a report."""

    FIRES = "fires"
    CANNOT_TELL = "cannot_tell"
    CLEAR = "clear"
    NOT_APPLICABLE = "not_applicable"


class FindingSeverity(StrEnum):
    """The severities of known issues, and `note` below them: worth measuring, and no more."""

    NOTE = "note"
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    CRITICAL = "critical"

    @property
    def rank(self) -> int:
        return list(FindingSeverity).index(self)

    def blocks(self, policy: Policy) -> bool:
        """Whether a finding of this severity fails the audit: as for known issues, but a note or a low one never."""
        if policy.block_severity == "never" or self.rank <= FindingSeverity.LOW.rank:
            return False
        return self.rank >= FindingSeverity(Severity(policy.block_severity).value).rank


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a rule says of one deployment."""

    answer: Answer
    why: str
    """One sentence, for this deployment."""
    evidence: tuple[Evidence, ...] = ()
    needs: tuple[str, ...] = ()
    """The options that would settle it, where it cannot be told."""
    remedy: str = ""
    """What to do, where more can be said than the rule says of all deployments."""


def fires(why: str, *evidence: Evidence, remedy: str = "") -> Outcome:
    return Outcome(Answer.FIRES, why, evidence, remedy=remedy)


def clear(why: str, *evidence: Evidence) -> Outcome:
    return Outcome(Answer.CLEAR, why, evidence)


def not_applicable(why: str) -> Outcome:
    return Outcome(Answer.NOT_APPLICABLE, why)


@dataclass(frozen=True, slots=True)
class Rule:
    id: str
    """`MOE001`; never used again for another rule, because waivers name it."""
    title: str
    severity: FindingSeverity
    why: str
    """What it costs, and how."""
    remedy: str
    cost: str
    """What the remedy costs; empty: nothing."""
    url: str
    """Where it is documented or reported."""
    check: Callable[[Observations], Outcome]
    """Raises MissingFact where it cannot be told."""
    versions: str = ""
    """Releases in which it can fire, as a PEP 440 specifier; empty: all."""
    signals: tuple[str, ...] = ()
    """Log lines that it reads, by their names in `log_signals`."""
    metrics: tuple[str, ...] = ()
    """Samples of /metrics that it reads, by their names there."""
    reads_targets: bool = False
    """Whether its answer depends on what is sent to the server, beside what the server counts of it."""

    @property
    def reads_load(self) -> bool:
        """Whether the answer may differ between two loads of one server."""
        return bool(self.metrics) or self.reads_targets


@dataclass(frozen=True, slots=True)
class RuleResult:
    """A rule and its answer."""

    rule: Rule
    outcome: Outcome

    @property
    def remedy(self) -> str:
        return self.outcome.remedy or self.rule.remedy
