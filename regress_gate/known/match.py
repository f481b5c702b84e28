"""Hold records against a deployment and a move from one version to another: pure functions, no files, no network.

Whether a record applies is decided by the deployment alone; whether the move brings it, by the versions alone.
What a finding means for the decision (does it block?) is the gate's matter.
"""

import operator
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from regress_gate.known import names
from regress_gate.known.ranges import affects, range_text
from regress_gate.known.status import fix_status
from regress_gate.model.deployment import ArgValue, Deployment
from regress_gate.model.finding import Applies, Effect, IssueFinding
from regress_gate.model.issue import KnownIssue, Workaround, WorkloadRegion
from regress_gate.model.version import Version

if TYPE_CHECKING:
    from regress_gate.model.suite import Workload

_COMPARE = {"<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt, "==": operator.eq}


@dataclass(frozen=True, slots=True)
class _Key:
    """One scope key held against the deployment. `holds` is None for a fact that is missing."""

    holds: bool | None
    why: str


def match_scope(issue: KnownIssue, deployment: Deployment, workloads: "Sequence[Workload]" = ()) -> tuple[Applies, str]:
    """Whether the issue bites this deployment, and the one fact on which that rests.

    NO as soon as one scope key is known not to hold; else UNKNOWN while a fact is missing, naming every missing fact
    and the flag that gives it; else MITIGATED when a workaround is fully active; else YES. A workload region says
    where an issue bites, not whom: without workloads it may bite, which `why` says and which is no missing fact.
    """
    keys = list(_keys(issue, deployment, workloads))
    for key in keys:
        if key.holds is False:
            return Applies.NO, key.why
    active = next((work for work in issue.workarounds if is_active(work, deployment)), None)
    if missing := [key.why for key in keys if key.holds is None]:
        also = f"; should it apply, a workaround is active: {_settings(active)}" if active else ""
        return Applies.UNKNOWN, "; ".join(missing) + also
    if active:
        return Applies.MITIGATED, f"a workaround is active: {_settings(active)}"
    return Applies.YES, "; ".join(key.why for key in keys) or "the record applies to every deployment"


def is_active(workaround: Workaround, deployment: Deployment) -> bool:
    """Whether the deployment's own flags and variables show every setting of the workaround."""
    if not workaround.is_checkable:
        return False
    args = names.canonical_args(deployment.engine_args)
    wanted = names.canonical_args(workaround.engine_args or {})
    return all(key in args and names.same_value(args[key], value) for key, value in wanted.items()) and all(
        key in deployment.env and names.same_variable(deployment.env[key], value)
        for key, value in (workaround.env or {}).items()
    )


def in_region(region: WorkloadRegion, workload: "Workload") -> bool:
    """Whether the workload lies in the region; a number that the workload does not give may be any."""
    for field, condition in region:
        given = getattr(workload, field)
        if condition is not None and given is not None and not _meets(condition, given):
            return False
    return True


def findings(
    issues: Iterable[KnownIssue],
    deployment: Deployment,
    base: Version | None,
    candidate: Version,
    workloads: "Sequence[Workload]" = (),
) -> list[IssueFinding]:
    """Every issue that touches the move, first what matters most; those that do not apply are kept, at the end.

    Without a base an issue of the candidate is `carried`: nothing shows that the move would bring it. Where it is
    not known whether a build is affected, the finding stays with the worst effect possible and applies at most
    `unknown`.
    """
    found = []
    for issue in issues:
        effect = _effect(issue, base, candidate)
        if effect is None:
            continue
        applies, why = match_scope(issue, deployment, workloads)
        kind, effect_why, certain = effect
        if applies is Applies.YES and not certain:
            applies, why = Applies.UNKNOWN, f"{effect_why}; the deployment is in scope: {why}"
        status, status_why = fix_status(issue, candidate)
        found.append(IssueFinding(issue, applies, why, status, status_why, kind, effect_why))
    applies_order = [Applies.YES, Applies.UNKNOWN, Applies.MITIGATED, Applies.NO]
    effect_order = [Effect.NEW, Effect.CARRIED, Effect.RESOLVED]
    return sorted(
        found,
        key=lambda finding: (
            applies_order.index(finding.applies),
            effect_order.index(finding.effect),
            -finding.issue.severity.rank,
            finding.issue.id,
        ),
    )


def _effect(issue: KnownIssue, base: Version | None, candidate: Version) -> tuple[Effect, str, bool] | None:
    """The effect, why, and whether both memberships are known; None when the move has nothing to do with the issue."""
    after = affects(issue, candidate)
    if base is None:
        if after is False:
            return None
        return Effect.CARRIED, f"no base version given: {_membership(candidate, after, issue)}", after is not None
    before = affects(issue, base)
    if before is False and after is False:
        return None
    remains = Effect.CARRIED if before else Effect.NEW
    effect = Effect.RESOLVED if after is False else remains
    why = f"{_membership(candidate, after, issue)}, {_membership(base, before)}"
    return effect, why, None not in (before, after)


def _membership(version: Version, affected: bool | None, issue: KnownIssue | None = None) -> str:
    known = f" (affected: {range_text(issue)})" if issue else ""
    match affected:
        case True:
            return f"{version} has it{known}"
        case False:
            return f"{version} does not have it{known}"
        case None:
            return f"whether {version} has it is not known{known}"


def _keys(issue: KnownIssue, deployment: Deployment, workloads: "Sequence[Workload]") -> Iterator[_Key]:
    scope = issue.scope
    if scope.accelerator:
        yield _accelerator(scope.accelerator, deployment.accelerator)
    if scope.model:
        yield _model(scope.model, deployment.model)
    args = names.canonical_args(deployment.engine_args)
    if scope.quantization:
        yield _quantization(scope.quantization, deployment.quantization, args.get("quantization"))
    for key, value in (scope.engine_args or {}).items():
        yield _engine_arg(key, value if isinstance(value, list) else [value], args.get(key))
    for key, variable in (scope.env or {}).items():
        yield _variable(key, variable if isinstance(variable, list) else [variable], deployment.env.get(key))
    if scope.workload:
        yield _workload(scope.workload, workloads)


def _accelerator(patterns: list[str], given: str | None) -> _Key:
    if given is None:
        return _Key(None, "the accelerator is not known (--accelerator)")
    holds = any(names.accelerator_matches(pattern, given) for pattern in patterns)
    return _Key(holds, _said("accelerator", given, patterns, holds))


def _model(patterns: list[str], given: str | None) -> _Key:
    if given is None:
        return _Key(None, "the model is not known (--model)")
    holds = _any_holds(names.model_matches(pattern, given) for pattern in patterns)
    if holds is None:
        return _Key(None, f"model {given} has the name of {_listed(patterns)} but another publisher (--model)")
    return _Key(holds, _said("model", given, patterns, holds))


def _quantization(patterns: list[str], stated: str | None, argument: ArgValue | None) -> _Key:
    """Both the deployment's own word and vLLM's argument are facts; one that fits is enough."""
    given = [str(fact) for fact in (stated, argument) if fact is not None]
    if not given:
        return _Key(None, "the quantization is not known (--quantization)")
    shown = " / ".join(dict.fromkeys(given))
    verdicts = [names.quantization_matches(pattern, fact) for fact in given for pattern in patterns]
    holds = _any_holds(verdicts)
    if holds is None and stated and not _unclear(stated, patterns):
        holds = False  # the argument names a container, the deployment says what is in it
    if holds is None:
        return _Key(None, f"quantization {shown} does not say whether it is {_listed(patterns)} (--quantization)")
    return _Key(holds, _said("quantization", shown, patterns, holds))


def _unclear(stated: str, patterns: list[str]) -> bool:
    return any(names.quantization_matches(pattern, stated) is None for pattern in patterns)


def _engine_arg(key: str, wanted: list[ArgValue], given: ArgValue | None) -> _Key:
    if given is None:
        return _Key(None, f"the engine argument {key} is not known (--engine-arg {key}=…)")
    holds = any(names.same_value(given, value) for value in wanted)
    return _Key(holds, _said(f"engine argument {key}", _shown(given), [_shown(value) for value in wanted], holds))


def _variable(key: str, wanted: list[str], given: str | None) -> _Key:
    if given is None:
        return _Key(None, f"the variable {key} is not known (--env {key}=…)")
    holds = any(names.same_variable(given, value) for value in wanted)
    return _Key(holds, _said(f"variable {key}", given, wanted, holds))


def _workload(region: WorkloadRegion, workloads: "Sequence[Workload]") -> _Key:
    bites = ", ".join(f"{field} {condition}" for field, condition in region if condition is not None)
    if not workloads:
        return _Key(True, f"bites at {bites}; no workload given, so it may")
    holds = any(in_region(region, workload) for workload in workloads)
    return _Key(holds, f"bites at {bites}, {'where a workload is' if holds else 'where no workload is'}")


def _said(what: str, given: str, wanted: list[str], holds: bool) -> str:
    return f"{what} {given}" if holds else f"{what} {given} is not {_listed(wanted)}"


def _listed(values: list[str]) -> str:
    return " or ".join(values)


def _shown(value: ArgValue) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _settings(workaround: Workaround) -> str:
    args = [f"{key}={_shown(value)}" for key, value in (workaround.engine_args or {}).items()]
    return ", ".join([*args, *(f"{key}={value}" for key, value in (workaround.env or {}).items())])


def _any_holds(verdicts: Iterable[bool | None]) -> bool | None:
    """True if one is, else None if one is unknown, else False."""
    seen = set(verdicts)
    return True if True in seen else None if None in seen else False


def _meets(condition: str, given: float) -> bool:
    found = re.fullmatch(r"(<=|>=|<|>|==)?\s*(\d+(?:\.\d+)?)", condition.strip())
    if found is None:
        raise ValueError(f"{condition!r} is no condition on a number")
    return bool(_COMPARE[found[1] or "=="](given, float(found[2])))
