"""The words of a report that do not depend on its format: what a decision, a status or a group is called."""

import json
import shlex
from collections.abc import Sequence
from typing import Any

from regress_gate.errors import ExitCode
from regress_gate.model.issue import Applies, Effect, Status
from regress_gate.model.metric import Direction
from regress_gate.model.result import CoverageOut, Decision, Move, PlanOut, Reason, ReasonCode, Result, ReviewDepth
from regress_gate.report.document import Paragraph, Style, Styled
from regress_gate.text import plural

_COMPARE = {
    Decision.PASS: "PASS: you may move",
    Decision.FAIL: "FAIL: do not move",
    Decision.INCONCLUSIVE: "INCONCLUSIVE: not decided",
}
_CHECK = {
    Decision.PASS: "PASS: no blocking known issue",
    Decision.FAIL: "FAIL: a known issue blocks",
    Decision.INCONCLUSIVE: "INCONCLUSIVE: not decided",
}

STATUS = {
    Status.OPEN: "open",
    Status.CLOSED_UNFIXED: "closed, not known to be fixed",
    Status.FIX_NOT_IN_CANDIDATE: "a fix exists, but not in the candidate",
    Status.FIX_IN_CANDIDATE: "a fix is in the candidate, not measured",
    Status.MEASURED_FIXED: "measured: gone in the candidate",
    Status.ABSENT_IN_CODE: "not in the candidate's code",
    Status.UNKNOWN: "not known",
}
APPLIES = {
    Applies.YES: "yes",
    Applies.UNKNOWN: "needs more facts",
    Applies.MITIGATED: "mitigated",
    Applies.NO: "no",
}
DIRECTION_TEXT = {Direction.LOWER: "lower is better", Direction.HIGHER: "higher is better"}
ORIGIN = {"shipped": "shipped baseline", "store": "your store"}
_EFFECT_OF_A_MOVE = {
    Effect.NEW: "New with this move",
    Effect.CARRIED: "Carried over, the baseline has them too",
    Effect.RESOLVED: "Resolved by this move",
}
_EFFECT_WITHOUT_BASELINE = {
    Effect.NEW: "In this version",
    Effect.CARRIED: "In this version and before it",
    Effect.RESOLVED: "Resolved in this version",
}
_EFFECT_OF_A_DOWNGRADE = {
    Effect.NEW: "Comes back with the older version",
    Effect.CARRIED: "In both versions",
    Effect.RESOLVED: "Only in the newer version, left behind",
}
_MAY_OF_A_MOVE = {
    Effect.NEW: "May be new with this move",
    Effect.CARRIED: "May be carried over",
    Effect.RESOLVED: "May be resolved by this move",
}
_MAY_OF_A_DOWNGRADE = {
    Effect.NEW: "May come back with the older version",
    Effect.CARRIED: "May be in both versions",
    Effect.RESOLVED: "May be only in the newer version",
}
_MAY_WITHOUT_BASELINE = dict.fromkeys(Effect, "May be in this version")
_MOST_REASONS = 3
"""Reasons that only name a missing fact, up to which each gets a line; the known issues name it too."""


_LAUNCH_LINE = "FAIL: your launch line has to change"


def decision(result: Result) -> str:
    """The decision as an answer; says so when the exit code is not the decision's own."""
    words = (_COMPARE if result.command == "compare" else _CHECK)[result.decision]
    failing = {reason.code for reason in result.reasons} & {ReasonCode.LAUNCH_LINE, ReasonCode.KNOWN_ISSUE}
    if result.command != "compare" and failing == {ReasonCode.LAUNCH_LINE}:
        words = _LAUNCH_LINE
    if result.exit_code != ExitCode[result.decision.name]:
        words += f" (exit code {result.exit_code})"
    return words


def evidence(plan: PlanOut) -> str:
    """How the runs were made, and what else their uncertainty rests on."""
    if plan.paired:
        parts = ["in pairs, each made in one block"]
    else:
        parts = ["two sides that were measured on different days" if plan.apart else "two sides"]
    if plan.looks is not None:
        made, most = plan.looks.blocks, plan.looks.most_blocks
        parts.append(f"interim analysis after each block, {made} of at most {most}")
    if plan.earlier_runs:
        runs = plural(plan.earlier_runs, "earlier pair" if plan.paired else "earlier run")
        parts.append(f"spread estimated also from {runs} of {plural(plan.earlier_sessions, 'session')}")
    else:
        parts.append("spread estimated from these runs alone")
    return "; ".join(parts)


def versions(result: Result) -> str:
    if result.baseline is None:
        return f"vLLM {result.candidate.version}"
    remark = {Move.DOWNGRADE: " (a downgrade)", Move.SAME: " (the same release)"}.get(result.move or Move.UPGRADE, "")
    return f"vLLM {result.baseline.version} → {result.candidate.version}{remark}"


def effect(effect: Effect, result: Result) -> str:
    if result.baseline is None:
        return _EFFECT_WITHOUT_BASELINE[effect]
    return (_EFFECT_OF_A_DOWNGRADE if result.move is Move.DOWNGRADE else _EFFECT_OF_A_MOVE)[effect]


def possible_effect(effect: Effect, result: Result) -> str:
    """The title of issues that need more facts: whether they apply is not known."""
    if result.baseline is None:
        return _MAY_WITHOUT_BASELINE[effect]
    return (_MAY_OF_A_DOWNGRADE if result.move is Move.DOWNGRADE else _MAY_OF_A_MOVE)[effect]


def coverage(coverage: CoverageOut, *, with_baseline: bool, is_brief: bool = False) -> str:
    """How many records lie in the interval, and how far the review reaches. What else was done, unless it is brief."""
    where = "" if coverage.platform is None else f" for {coverage.platform}"
    held = "begin or end between the two versions" if with_baseline else "are about this version"
    one = held.replace("begin or end", "begins or ends").replace("are about", "is about")
    counted = f"{plural(coverage.records_in_interval, f'record{where} {one}', f'records{where} {held}')}"
    if not coverage.covered:
        sources = (
            f" The sources of {coverage.sources} were compared, and no thread was read." if coverage.sources else ""
        )
        text = f"Not covered: {coverage.why}. {counted}; the absence of others means nothing."
        return text if is_brief else text + sources
    if coverage.depth is None:
        return f"{counted}."
    how = {ReviewDepth.SWEEP: "the whole tracker was read", ReviewDepth.SEARCH: "found by searching threads"}
    reach = f"reviewed through {coverage.reviewed_through}"
    return f"{counted}; {reach} ({how[coverage.depth]}, {coverage.reviewed})."


def reason(reason: Reason) -> str:
    """`regression: text (scenario/metric)`; the name is added if the text does not contain it."""
    named = [name for name in (reason.series, reason.issue) if name and name not in reason.text]
    return f"{reason.code.replace('_', ' ')}: {reason.text}" + (f" ({', '.join(named)})" if named else "")


def reasons(every: Sequence[Reason], *, verbose: bool = False) -> list[str]:
    """A line for each reason; many known issues that only lack a fact share one line."""
    lacking = [one for one in every if one.code is ReasonCode.UNDECIDED and one.issue]
    left = len(lacking) - _MOST_REASONS
    if verbose or left <= 0:
        return [reason(one) for one in every]
    names = ", ".join(str(one.issue) for one in lacking[:_MOST_REASONS])
    together = f"undecided: {len(lacking)} known issues would block if they apply: {names} and {left} more"
    others = {id(one) for one in lacking[1:]}
    return [together if one is lacking[0] else reason(one) for one in every if id(one) not in others]


def flags(engine_args: dict[str, Any], env: dict[str, str]) -> list[str]:
    """What to type, exactly: variables first, as they stand before the command."""
    return [f"{name}={shlex.quote(value)}" for name, value in env.items()] + [
        _flag(name, value) for name, value in engine_args.items()
    ]


def _flag(name: str, value: object) -> str:
    dashed = name.replace("_", "-")
    if value is True:
        return f"--{dashed}"
    if value is False:
        return f"--no-{dashed}"
    return f"--{dashed} {shlex.quote(value if isinstance(value, str) else json.dumps(value))}"


def setting(value: Any) -> str:
    """A default or an argument's value as people write it."""
    if value is None:
        return "none"
    if value == "<_UnsetType>":  # vLLM's own marker, as the tables of its releases have it
        return "not set"
    if value == "" or isinstance(value, (bool, list, dict)):
        return json.dumps(value, ensure_ascii=False)
    return str(value)


def bisect_command(
    good: str,
    bad: str,
    *,
    scenario: str,
    metric: str,
    suite: str | None = None,
    testbed: str | None = None,
    variant: str | None = None,
) -> str:
    """The command that finds the build which brought a regression."""
    words = ["regress-gate", "bisect", good, bad, "--scenario", scenario, "--metric", metric]
    for flag, value in (("--suite", suite), ("--testbed", testbed), ("--variant", variant)):
        words += [flag, value] if value else []
    return shlex.join(words)


def what_to_do(advice: str) -> Paragraph:
    """The one sentence below the answer."""
    return Paragraph((Styled("What to do:", Style.STRONG), f" {advice}"), is_lead=True)
