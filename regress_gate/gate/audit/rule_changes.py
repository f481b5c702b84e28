"""Which rules of `audit` fire on the servers of the candidate and not on those of the baseline, and the reverse.

A rule is asked for every server start that counts, with what was sent to it in each scenario. It has changed where it
fires at all starts of one side that can tell and at none of the other; a side that cannot tell says nothing, and
neither does one whose starts differ. Not for numbers that changed (`server_changes`).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from regress_gate.gate.audit.engine import RULES, answer
from regress_gate.gate.audit.kept_servers import load_of, observe_run
from regress_gate.gate.audit.observations import Evidence, Observations
from regress_gate.gate.audit.rule import Answer, FindingSeverity, Outcome, Rule
from regress_gate.model.result import AuditEffect, AuditFindingOut
from regress_gate.model.run import Run
from regress_gate.text import clip, plural

_LINE_LENGTH = 300
_MOST_EVIDENCE = 3
_ASKED = [rule for rule in RULES if rule.id != "ARG001"]
"""A server that was measured took all its arguments."""
SAID_BY: Mapping[str, str] = {
    "moe_untuned": "MOE001",
    "fp8_untuned": "FP8001",
    "int8_untuned": "INT8001",
    "ssm_untuned": "SSM001",
    "lora_untuned": "LORA002",
    "async_scheduling_off": "SCHED002",
    "custom_allreduce_off": "TP001",
    "deep_gemm_off": "DG002",
    "graphs_skipped": "CG002",
    "sampler_fallback": "SAMP001",
    "graphs_overridden": "CG002",
    "graphs_capped": "CG004",
    "hybrid_cache_off": "KV005",
    "prefix_caching_off": "PC001",
    "preemptions": "KV003",
}
"""Findings of `server_changes`, and the rule that says the same with why and what to do."""


@dataclass(frozen=True, slots=True)
class _SideAnswer:
    """What a rule says of the servers of one side."""

    fires: bool
    first: Outcome
    """Of the first start that can tell."""
    starts: int
    """That can tell."""


def find_rule_changes(baseline: Sequence[Run], candidate: Sequence[Run]) -> list[AuditFindingOut]:
    """The findings that one side has, and those that both have; of each kind the most severe first."""
    scenarios = list(dict.fromkeys(trial.scenario for run in (*baseline, *candidate) for trial in run.trials))
    before, after = (_ask_side(runs, scenarios) for runs in (baseline, candidate))
    found: list[tuple[AuditEffect, Rule, AuditFindingOut]] = []
    for rule in _ASKED:
        by_effect: dict[AuditEffect, list[tuple[str, _SideAnswer, _SideAnswer]]] = {}
        for scenario in scenarios:
            had, has = before[rule.id, scenario], after[rule.id, scenario]
            if had is not None and has is not None and (had.fires or has.fires):
                effect = (
                    AuditEffect.CARRIED
                    if had.fires and has.fires
                    else AuditEffect.NEW
                    if has.fires
                    else AuditEffect.RESOLVED
                )
                by_effect.setdefault(effect, []).append((scenario, had, has))
        for effect, answers in by_effect.items():
            everywhere = len(answers) == len(scenarios)
            found.append((effect, rule, _finding(rule, effect, answers, everywhere=everywhere)))
    order, severities = list(AuditEffect), list(FindingSeverity)
    found.sort(key=lambda each: (order.index(each[0]), -severities.index(each[1].severity)))
    return [finding for _, _, finding in found]


def _ask_side(runs: Sequence[Run], scenarios: Sequence[str]) -> dict[tuple[str, str], _SideAnswer | None]:
    """By rule and scenario; None where no start can tell, or the starts differ."""
    asked: dict[tuple[str, str], list[Outcome]] = {(rule.id, name): [] for rule in _ASKED for name in scenarios}
    for run in runs:
        if not run.server and not any(trial.server_metrics for trial in run.trials):
            continue  # nothing is kept, as of an imported result
        seen = observe_run(run)
        for scenario, rule, outcome in _ask_run(run, seen, scenarios):
            if outcome.answer is not Answer.CANNOT_TELL:
                asked[rule.id, scenario].append(outcome)
    return {key: _agreed(outcomes) for key, outcomes in asked.items()}


def _ask_run(run: Run, seen: Observations, scenarios: Sequence[str]) -> Iterator[tuple[str, Rule, Outcome]]:
    of_start = [(rule, answer(rule, seen)) for rule in _ASKED if not rule.reads_load]
    for scenario in scenarios:
        metrics, targets = load_of(run, scenario)
        under_load = seen.under_load(metrics, targets)
        yield from ((scenario, rule, outcome) for rule, outcome in of_start)
        yield from ((scenario, rule, answer(rule, under_load)) for rule in _ASKED if rule.reads_load)


def _agreed(outcomes: Sequence[Outcome]) -> _SideAnswer | None:
    fires = {outcome.answer is Answer.FIRES for outcome in outcomes}
    return _SideAnswer(fires.pop(), outcomes[0], len(outcomes)) if len(fires) == 1 else None


def _finding(
    rule: Rule,
    effect: AuditEffect,
    answers: Sequence[tuple[str, _SideAnswer, _SideAnswer]],
    *,
    everywhere: bool,
) -> AuditFindingOut:
    _, had, has = answers[0]
    fired = has if has.fires else had
    where = "" if everywhere else f" ({', '.join(scenario for scenario, _, _ in answers)})"
    evidence = [_evidence_text(one) for one in fired.first.evidence[:_MOST_EVIDENCE]]
    evidence.append(f"{_count(had)} of the baseline, {_count(has)} of the candidate")
    return AuditFindingOut(
        id=rule.id,
        text=f"{rule.title}: {fired.first.why}{where}",
        effect=effect,
        baseline=clip(had.first.why, _LINE_LENGTH),
        candidate=clip(has.first.why, _LINE_LENGTH),
        evidence=evidence,
        severity=rule.severity.value,
        costs=rule.why,
        remedy=fired.first.remedy or rule.remedy,
        url=rule.url,
        same_as=[] if effect is AuditEffect.CARRIED else [name for name, id_ in SAID_BY.items() if id_ == rule.id],
    )


def _evidence_text(one: Evidence) -> str:
    line = f", line {one.line}" if one.line else ""
    return f"{one.source}{line}: {clip(one.text, _LINE_LENGTH)}"


def _count(side: _SideAnswer) -> str:
    return f"{'fires' if side.fires else 'does not fire'} at {plural(side.starts, 'server start')}"
