"""Puts all rules of `audit` to one deployment, and decides what their answers mean. Knows no single rule."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase

from packaging.specifiers import SpecifierSet

from regress_gate.gate.audit import cache, graphs, kernels, parallelism, scheduling, settings
from regress_gate.gate.audit.observations import NEEDS_KNOWN_RELEASE, NEEDS_VERSION, MissingFact, Observations
from regress_gate.gate.audit.rule import Answer, Outcome, Rule, RuleResult, not_applicable
from regress_gate.gate.reasons import WaiverBook, exit_code
from regress_gate.model.policy import Policy, Waiver
from regress_gate.model.result import Decision, DeploymentOut, WaiverOut
from regress_gate.model.version import Version
from regress_gate.vllm.log_signals import RELEASES

RULES: tuple[Rule, ...] = (
    *cache.RULES,
    *scheduling.RULES,
    *graphs.RULES,
    *kernels.RULES,
    *parallelism.RULES,
    *settings.RULES,
)
"""In the order of a report, among findings of one severity."""


def run_rules(seen: Observations, rules: Sequence[Rule] = RULES) -> list[RuleResult]:
    """The answer of every rule."""
    return [RuleResult(rule, answer(rule, seen)) for rule in rules]


def answer(rule: Rule, seen: Observations) -> Outcome:
    """What the rule says; `cannot_tell` where a fact is missing that it asks for."""
    number = None if seen.version is None else seen.version.number
    if rule.versions and number is not None and not SpecifierSet(rule.versions).contains(number, prereleases=True):
        return not_applicable(f"vLLM {number} is not among the releases of this rule ({rule.versions})")
    try:
        outcome = rule.check(seen)
    except MissingFact as missing:
        return Outcome(Answer.CANNOT_TELL, missing.why, needs=missing.needs)
    if outcome.answer is not Answer.CLEAR or not rule.signals:
        return outcome
    if rule.versions and number is None:
        why = "an unknown release may not print what this rule reads"
        return Outcome(Answer.CANNOT_TELL, why, needs=(NEEDS_VERSION,))
    if number is not None and not outcome.evidence and not seen.is_release(RELEASES):
        why = f"what vLLM {number} prints is not known: that a line is missing says nothing"
        return Outcome(Answer.CANNOT_TELL, why, needs=(NEEDS_KNOWN_RELEASE,))
    return outcome


@dataclass(frozen=True, slots=True)
class Audit:
    """The answers for one server, and what they mean together."""

    version: Version | None
    deployment: DeploymentOut | None
    """The server of a deployment file; None without one."""
    log: str | None
    """The name of its log."""
    created: datetime
    decision: Decision
    exit_code: int
    results: tuple[RuleResult, ...]
    """The findings first, the most severe of them first; then what cannot be told; then the rest."""
    blocking: frozenset[str]
    """Ids of the rules whose findings fail the audit."""
    waivers: tuple[WaiverOut, ...] = ()
    """Those that a finding needed."""

    def of(self, answer: Answer) -> list[RuleResult]:
        return [one for one in self.results if one.outcome.answer is answer]

    @property
    def answered(self) -> int:
        """Rules that gave an answer about this deployment: they fire or are clear."""
        return len(self.of(Answer.FIRES)) + len(self.of(Answer.CLEAR))

    @property
    def applicable(self) -> int:
        return len(self.results) - len(self.of(Answer.NOT_APPLICABLE))

    def waiver_of(self, rule: Rule) -> WaiverOut | None:
        """The waiver that holds for a finding of the rule."""
        return next((one for one in self.waivers if one.state == "used" and fnmatchcase(rule.id, one.finding)), None)


def audit(
    seen: Observations,
    policy: Policy,
    waivers: Sequence[Waiver],
    *,
    now: datetime,
    deployment: DeploymentOut | None = None,
    report_only: bool = False,
) -> Audit:
    """Findings of the severity that blocks fail, unless they are waived. No answer at all is inconclusive."""
    order, book = list(Answer), WaiverBook(waivers, now.date())
    results = sorted(run_rules(seen), key=lambda one: (order.index(one.outcome.answer), -one.rule.severity.rank))
    fired = [one.rule for one in results if one.outcome.answer is Answer.FIRES]
    waived = {rule.id for rule in fired if book.covers(rule.id, None)}
    blocking = frozenset(rule.id for rule in fired if rule.severity.blocks(policy)) - waived
    answered = any(one.outcome.answer in (Answer.FIRES, Answer.CLEAR) for one in results)
    decision = Decision.FAIL if blocking else Decision.PASS if answered else Decision.INCONCLUSIVE
    return Audit(
        version=seen.version,
        deployment=deployment,
        log=None if seen.log is None else seen.log.name,
        created=now,
        decision=decision,
        exit_code=exit_code(decision, policy, report_only=report_only),
        results=tuple(results),
        blocking=blocking,
        waivers=tuple(waiver for waiver in book.outcome() if waiver.state != "unused"),
    )
