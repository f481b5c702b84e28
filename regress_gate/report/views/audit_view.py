"""The report of `audit`: the verdict, the findings with their evidence, what could not be told, what is clear."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC
from typing import Any, ClassVar

from regress_gate import __version__
from regress_gate.gate.audit.engine import Audit
from regress_gate.gate.audit.observations import Evidence
from regress_gate.gate.audit.rule import Answer, FindingSeverity, Rule, RuleResult
from regress_gate.gate.audit.rule import Outcome as RuleOutcome
from regress_gate.model.issue import Severity
from regress_gate.model.result import Decision
from regress_gate.model.version import Version
from regress_gate.report.audit_document import AnswerCounts, AuditEvidenceOut, AuditOut, AuditRuleOut, AuditServersOut
from regress_gate.report.document import (
    Block,
    Column,
    Detail,
    Document,
    Entry,
    EntryList,
    Inline,
    Link,
    Pair,
    Pairs,
    Paragraph,
    Row,
    Section,
    Style,
    Styled,
    Table,
    View,
)
from regress_gate.report.findings import (
    Case,
    Finding,
    Findings,
    Level,
    Location,
    Outcome,
    Suppression,
    at_most,
    deployment_key,
    place_in_deployment,
    severity_level,
    worst_first,
    worst_level,
)
from regress_gate.report.findings import Rule as FindingRule
from regress_gate.report.views.wording import what_to_do
from regress_gate.text import plural

_GROUP = "audit"
_WORST_FIRST = (Decision.FAIL, Decision.INCONCLUSIVE, Decision.PASS)
_SEVERITY_STYLE = {
    FindingSeverity.CRITICAL: Style.BAD,
    FindingSeverity.HIGH: Style.BAD,
    FindingSeverity.MEDIUM: Style.WARNING,
}


@dataclass(frozen=True, slots=True)
class AuditView(View):
    """At least one audit: of each server of a deployment file, or of one deployment."""

    audits: Sequence[Audit]
    tool_version: str = __version__
    """Of the regress-gate that decided."""
    ascii_json: ClassVar[bool] = True

    @classmethod
    def of(cls, documents: Sequence[AuditOut]) -> AuditView:
        """The view that these are the JSON of."""
        return cls([_audit(one) for one in documents], documents[0].tool_version)

    @property
    def decision(self) -> Decision:
        return next(one for one in _WORST_FIRST if any(audit.decision is one for audit in self.audits))

    @property
    def exit_code(self) -> int:
        """Of the worst decision; of equal ones, the largest, because a policy may change the code."""
        return max(audit.exit_code for audit in self.audits if audit.decision is self.decision)

    def document(self, detail: Detail) -> Document:
        if len(self.audits) == 1:
            (audit,) = self.audits
            title = _title([audit], _headline(audit), detail)
            return Document(title, tuple(_blocks(audit, detail)), subtitle=_subtitle(audit), name="Audit")
        parts = tuple(
            Section(_name(audit), (Paragraph(_title([audit], _headline(audit), detail)), *_blocks(audit, detail)))
            for audit in self.audits
        )
        return Document(_title(self.audits, self._headline(), detail), parts, name="Audit")

    def _headline(self) -> str:
        if len(self.audits) == 1:
            return _headline(self.audits[0])
        found = sum(len(audit.of(Answer.FIRES)) for audit in self.audits)
        answered, asked = (
            sum(counts) for counts in zip(*((one.answered, one.applicable) for one in self.audits), strict=True)
        )
        count = f"{plural(found, 'finding')} in {plural(len(self.audits), 'server')}"
        return f"{self.decision.upper()}: {count}; {answered} of {plural(asked, 'answer')} could be given"

    def data(self) -> dict[str, Any]:
        """One object; for several servers, one around theirs."""
        audits = [_audit_out(audit, self.tool_version) for audit in self.audits]
        if len(audits) == 1:
            return _plain(audits[0])
        several = AuditServersOut(
            tool_version=self.tool_version, decision=self.decision, exit_code=self.exit_code, deployments=audits
        )
        return several.model_dump(mode="json") | {"deployments": [_plain(audit) for audit in audits]}

    def findings(self) -> Findings:
        return Findings(
            name="audit",
            headline=self._headline(),
            advice=_advice(self.audits),
            level=worst_level(_DECISION_LEVEL[audit.decision] for audit in self.audits),
            cases=tuple(case for audit in self.audits for case in _cases(audit, several=len(self.audits) > 1)),
            findings=worst_first(_finding(audit, one) for audit in self.audits for one in audit.of(Answer.FIRES)),
            created=self.audits[0].created,
            category="audit",
            tool_version=self.tool_version,
        )


_DECISION_LEVEL = {Decision.FAIL: Level.ERROR, Decision.INCONCLUSIVE: Level.WARNING, Decision.PASS: Level.NOTE}


def _name(audit: Audit) -> str:
    return "" if audit.deployment is None else f"{audit.deployment.name} ({audit.deployment.where})"


def _headline(audit: Audit) -> str:
    found = audit.of(Answer.FIRES)
    count = plural(len(found), "finding") if found else "no finding"
    if found:
        count += f", {len(audit.blocking)} of them blocking" if audit.blocking else ", none of them blocking"
    answered = f"{audit.answered} of {plural(audit.applicable, 'rule')} could be answered"
    return f"{audit.decision.upper()}: {count}; {answered}"


def _style(audits: Sequence[Audit]) -> Style:
    """A pass that left questions open is no clean pass, and does not look like one."""
    if any(audit.decision is Decision.FAIL for audit in audits):
        return Style.BAD
    whole = all(audit.decision is Decision.PASS and not audit.of(Answer.CANNOT_TELL) for audit in audits)
    return Style.GOOD if whole else Style.WARNING


def _title(audits: Sequence[Audit], headline: str, detail: Detail) -> Styled:
    """On a page a style is a shape, too: `PASS` does not stand beside the sign of an open question."""
    style = _style(audits)
    if detail.is_page and style is Style.WARNING:
        headline = headline.removeprefix(f"{Decision.PASS.upper()}: ")
    return Styled(headline, style)


def _subtitle(audit: Audit) -> str:
    version = "vLLM of an unknown version" if audit.version is None else f"vLLM {audit.version}"
    return version if audit.deployment is None else f"{version}, {_name(audit)}"


def _advice(audits: Sequence[Audit]) -> str:
    needs = _needs(one for audit in audits for one in audit.of(Answer.CANNOT_TELL))
    first = [one for audit in audits for one in audit.of(Answer.FIRES)]
    parts = [f"Begin with {first[0].rule.id}: {first[0].remedy}." if first else ""]
    parts += [f"Most is answered by {next(iter(needs))}." if needs else ""]
    return " ".join(filter(None, parts)) or "Nothing is to be done."


def _needs(results: Iterator[RuleResult] | Sequence[RuleResult]) -> dict[str, list[RuleResult]]:
    """What would settle which rules; what settles most comes first."""
    needs: dict[str, list[RuleResult]] = {}
    for one in results:
        for need in one.outcome.needs:
            needs.setdefault(need, []).append(one)
    return dict(sorted(needs.items(), key=lambda item: -len(item[1])))


def _blocks(audit: Audit, detail: Detail) -> Iterator[Block]:
    yield what_to_do(_advice([audit])) if detail.is_page else Paragraph(_advice([audit]), is_lead=True)
    for severity in reversed(FindingSeverity):
        found = [one for one in audit.of(Answer.FIRES) if one.rule.severity is severity]
        if found:
            yield EntryList(tuple(_entry(audit, one) for one in found))
    if unknown := audit.of(Answer.CANNOT_TELL):
        rows = tuple(
            Pair(need, ", ".join(one.rule.id for one in settled), _titles(settled) if detail.verbose else ())
            for need, settled in _needs(unknown).items()
        )
        text = f"{plural(len(unknown), 'rule')} could not be answered. What they need:"
        yield Section("Could not be told", (Paragraph(text), Pairs(rows)))
    for answer, title in ((Answer.CLEAR, "Clear"), (Answer.NOT_APPLICABLE, "Not applicable")):
        if not (rest := audit.of(answer)):
            continue
        if detail.verbose or detail.is_full:
            columns = (Column("rule"), Column("title"), Column("why"))
            table = Table.of(columns, tuple(Row((one.rule.id, one.rule.title, one.outcome.why)) for one in rest))
            yield Section(title, (table,), is_folded=detail.is_page)
        else:
            yield Paragraph(f"{title.lower()}: {', '.join(one.rule.id for one in rest)}")
    for waiver in audit.waivers:
        yield Paragraph(
            Styled(f"waiver {waiver.finding} of {waiver.owner} until {waiver.until}: {waiver.detail}", Style.MUTED)
        )


def _titles(results: Sequence[RuleResult]) -> tuple[str, ...]:
    return tuple(f"{one.rule.id} {one.rule.title}: {one.outcome.why}" for one in results)


def _entry(audit: Audit, one: RuleResult) -> Entry:
    rule = one.rule
    head: tuple[Inline, ...] = (
        Styled(rule.id, _SEVERITY_STYLE.get(rule.severity, Style.STRONG)),
        f", {rule.severity.value}",
    )
    note = "blocks" if rule.id in audit.blocking else "waived" if audit.waiver_of(rule) else ""
    seen = [evidence_text(each) for each in one.outcome.evidence]
    pairs = [Pair("found", one.outcome.why)]
    pairs += [Pair("seen", seen[0], tuple(seen[1:]))] if seen else []
    pairs += [Pair("costs you", rule.why), Pair("do", one.remedy)]
    pairs += [Pair("which costs", rule.cost)] if rule.cost else []
    pairs.append(Pair("source", Link(rule.url)))
    return Entry(head, rule.title, note, tuple(pairs))


def evidence_text(evidence: Evidence) -> str:
    """`line 12 of the log: …`."""
    if evidence.source == "log":
        place = "the log" if evidence.line is None else f"line {evidence.line} of the log"
        return f"{place}: {evidence.text}"
    return f"{evidence.source}: {evidence.text}"


# For programs


def _audit_out(audit: Audit, tool_version: str) -> AuditOut:
    return AuditOut(
        tool_version=tool_version,
        created=audit.created,
        decision=audit.decision,
        exit_code=audit.exit_code,
        version=None if audit.version is None else str(audit.version),
        deployment=audit.deployment,
        log=audit.log,
        rules=AnswerCounts(**{answer.value: len(audit.of(answer)) for answer in Answer}),
        audit=[rule_out(one, blocks=one.rule.id in audit.blocking) for one in audit.results],
        waivers=list(audit.waivers),
    )


def _plain(audit: AuditOut) -> dict[str, Any]:
    return audit.model_dump(mode="json") | {"created": audit.created.strftime("%Y-%m-%dT%H:%M:%SZ")}


def rule_out(one: RuleResult, *, blocks: bool) -> AuditRuleOut:
    """An answer as the JSON has it."""
    rule, outcome = one.rule, one.outcome
    return AuditRuleOut(
        id=rule.id,
        title=rule.title,
        severity=rule.severity,
        answer=outcome.answer,
        blocks=blocks,
        why=outcome.why,
        evidence=[AuditEvidenceOut(source=each.source, text=each.text, line=each.line) for each in outcome.evidence],
        needs=list(outcome.needs),
        effect=rule.why,
        remedy=one.remedy,
        general_remedy=None if one.remedy == rule.remedy else rule.remedy,
        cost=rule.cost or None,
        url=rule.url,
    )


def _audit(document: AuditOut) -> Audit:
    """What `_audit_out` was made of, for a report: its rules have answered and cannot be asked again."""
    return Audit(
        version=None if document.version is None else Version.parse(document.version),
        deployment=document.deployment,
        log=document.log,
        created=document.created.astimezone(UTC),
        decision=document.decision,
        exit_code=document.exit_code,
        results=tuple(map(_rule_result, document.audit)),
        blocking=frozenset(one.id for one in document.audit if one.blocks),
        waivers=tuple(document.waivers),
    )


def _rule_result(one: AuditRuleOut) -> RuleResult:
    evidence = tuple(Evidence(each.source, each.text, each.line) for each in one.evidence)
    outcome = RuleOutcome(one.answer, one.why, evidence, tuple(one.needs), remedy=one.remedy)
    remedy = one.remedy if one.general_remedy is None else one.general_remedy
    return RuleResult(
        Rule(one.id, one.title, one.severity, one.effect, remedy, one.cost or "", one.url, lambda _: outcome), outcome
    )


def _level(audit: Audit, one: RuleResult) -> Level:
    if one.rule.severity is FindingSeverity.NOTE:
        return Level.NOTE
    level = severity_level(Severity(one.rule.severity.value))
    return level if one.rule.id in audit.blocking else at_most(level, Level.WARNING)


def _cases(audit: Audit, *, several: bool) -> Iterator[Case]:
    group = f"{_name(audit)}: {_GROUP}" if several else _GROUP
    failed = audit.decision is not Decision.PASS and audit.exit_code != 0
    outcome = Outcome.PASSED if audit.decision is Decision.PASS else Outcome.FAILURE if failed else Outcome.SKIPPED
    message = f"{_headline(audit)}. {_advice([audit])}"
    yield Case(group, "decision", outcome, "" if outcome is Outcome.PASSED else audit.decision.value, message)
    for one in audit.results:
        answer = one.outcome.answer
        if answer is Answer.NOT_APPLICABLE:
            continue
        name, details = one.rule.id, tuple(evidence_text(each) for each in one.outcome.evidence)
        text = f"{one.rule.title}: {one.outcome.why}"
        if answer is Answer.CANNOT_TELL:
            yield Case(group, name, Outcome.SKIPPED, answer.value, f"{text}; needs {'; '.join(one.outcome.needs)}")
        elif one.rule.id in audit.blocking:
            yield Case(group, name, Outcome.FAILURE, answer.value, text, details=(*details, one.remedy))
        elif (waiver := audit.waiver_of(one.rule)) is not None and answer is Answer.FIRES:
            suppression = Suppression(waiver.owner, waiver.until, waiver.reason)
            yield Case(group, name, Outcome.SKIPPED, "waived", f"{text}; {suppression.text}", details=details)
        else:
            yield Case(group, name, Outcome.PASSED, message=text, details=details)


def _finding(audit: Audit, one: RuleResult) -> Finding:
    rule, level = one.rule, _level(audit, one)
    waiver = audit.waiver_of(rule)
    line = next((each.line for each in one.outcome.evidence if each.line is not None), None)
    if line is not None and audit.log is not None:
        location: Location | None = Location.parse(f"{audit.log}:{line}")
    else:
        arguments = (each.text for each in one.outcome.evidence if each.source == "argument")
        location = place_in_deployment(audit.deployment, *arguments)
    return Finding(
        FindingRule(rule.id, rule.title, level, f"{rule.why} {rule.remedy}", rule.url, ("audit", rule.severity.value)),
        level,
        f"{rule.id}: {rule.title}",
        one.outcome.why,
        details=(*(evidence_text(each) for each in one.outcome.evidence), f"do: {one.remedy}"),
        subject="" if audit.deployment is None else audit.deployment.name,
        location=location,
        fingerprint=(rule.id, *deployment_key(audit.deployment)),
        suppression=None if waiver is None else Suppression(waiver.owner, waiver.until, waiver.reason),
    )
