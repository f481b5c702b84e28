"""The JSON object of `audit` as types, from which `audit.schema.json` and the tables in docs/audit.md are made.

Not for how it is filled (`views.audit_view`), and not for the findings of an audit in a comparison's result.
"""

from typing import Literal

from pydantic import AwareDatetime, Field

from regress_gate.gate.audit.observations import Source
from regress_gate.gate.audit.rule import Answer, FindingSeverity
from regress_gate.model.result import Decision, DeploymentOut, ResultModel, WaiverOut


class AuditEvidenceOut(ResultModel):
    """One thing that was seen."""

    source: Source
    """Where."""
    text: str
    """What: a line of the log without its prefix, numbers with their window, an argument, a variable. It comes from
    outside: escape it before you show it."""
    line: int | None
    """Of the log, from 1; null for anything else."""


class AuditRuleOut(ResultModel):
    """A rule and its answer for this deployment."""

    id: str
    """Never used again for another rule; what waivers name."""
    title: str
    """What it finds, without this deployment's numbers."""
    severity: FindingSeverity
    """Of the finding, if it fires."""
    answer: Answer
    """Only `fires` is a finding; `cannot_tell` is not `clear`."""
    blocks: bool
    """Whether it fails the audit: it fires, is severe enough, and no waiver holds."""
    why: str
    """One sentence for this deployment: what was seen, or why it cannot be told."""
    evidence: list[AuditEvidenceOut]
    """What the answer rests on; of a finding at least one."""
    needs: list[str]
    """The options that would settle it, where it cannot be told."""
    effect: str
    """What it costs a deployment where it fires, and how."""
    remedy: str
    """What to do."""
    general_remedy: str | None = None
    """What the rule says to do for every deployment, where `remedy` says more of this one; null: the same."""
    cost: str | None
    """What the remedy costs; null: nothing."""
    url: str
    """Where it is documented or reported."""


class AnswerCounts(ResultModel):
    """How many rules gave which answer."""

    fires: int = Field(ge=0)
    """Findings."""
    cannot_tell: int = Field(ge=0)
    """A fact is missing."""
    clear: int = Field(ge=0)
    """Looked for, and not so."""
    not_applicable: int = Field(ge=0)
    """Cannot be so for this release, platform or model."""


class AuditOut(ResultModel):
    """The audit of one server."""

    schema_version: Literal["1"] = "1"
    """Of this object: keys are added, never removed or renamed, within one."""
    tool_version: str
    """Of regress-gate."""
    created: AwareDatetime
    """When it was decided, UTC."""
    decision: Decision
    """`fail` with a finding that blocks, `inconclusive` without any answer."""
    exit_code: int
    """Of the command; not the decision's own with `--report-only` or `--on-inconclusive`."""
    version: str | None
    """The vLLM that runs; null: not known."""
    deployment: DeploymentOut | None
    """The server of a deployment file; null without --deployment."""
    log: str | None = None
    """The log that was read, to which the lines of `evidence` belong; null without --server-log."""
    rules: AnswerCounts
    """How many of all rules have which answer."""
    audit: list[AuditRuleOut]
    """Every rule: findings first, the most severe of them first; then what cannot be told; then the rest."""
    waivers: list[WaiverOut]
    """Those that a finding needed."""


class AuditServersOut(ResultModel):
    """The audits of several servers of one deployment file."""

    schema_version: Literal["1"] = "1"
    """Of this object."""
    tool_version: str
    """Of regress-gate."""
    decision: Decision
    """The worst: fail before inconclusive before pass."""
    exit_code: int
    """The worst, in the same order."""
    deployments: list[AuditOut] = Field(min_length=2)
    """An audit for each server, whose `deployment` names it."""
