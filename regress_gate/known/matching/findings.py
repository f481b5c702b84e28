"""Matches records with a deployment and with a move from one version to another. Pure functions.

The deployment alone decides whether a record applies, and the versions alone decide whether the move brings it. Not
for: what a finding means for the decision (the gate decides whether it blocks).
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from regress_gate.known.matching import names
from regress_gate.known.matching.facts import ENGINE_DEFAULTS, UNSET_BY_DEFAULT, ScopeFacts, derive_facts
from regress_gate.known.matching.scope import KeyMatch, match_keys, match_program, value_text
from regress_gate.known.matching.versions import BuildSource, affects, fix_status, introduced_in_series, range_text
from regress_gate.model.deployment import Deployment
from regress_gate.model.issue import Applies, Effect, IssueFinding, IssueKind, KnownIssue, Severity, Workaround
from regress_gate.model.version import Version

if TYPE_CHECKING:
    from regress_gate.model.suite import Suite, Workload

_CHANGE_KINDS = (IssueKind.DEFAULT_CHANGE, IssueKind.REMOVED_FLAG)
"""Kinds that matter only to a move across the change: what was so before and stays so is no news."""


def match_scope(issue: KnownIssue, deployment: Deployment, workloads: "Sequence[Workload]" = ()) -> tuple[Applies, str]:
    """Whether the issue applies to this deployment, and why.

    NO if one scope key does not hold; else UNKNOWN if a fact is missing (the reason names every missing fact with the
    flag that gives it); else MITIGATED if a workaround is fully active; else YES. Without workloads, a workload region
    in the scope is not a missing fact: the reason names the region.
    """
    return match_facts(issue, derive_facts(deployment), workloads)


def match_facts(issue: KnownIssue, facts: ScopeFacts, workloads: "Sequence[Workload]" = ()) -> tuple[Applies, str]:
    """The same for facts that are derived once and matched with many records."""
    return _match_with_flags(issue, facts, workloads)[:2]


def _match_with_flags(
    issue: KnownIssue,
    facts: ScopeFacts,
    workloads: "Sequence[Workload]",
    *,
    is_carried: bool = False,
    base_with_it: Version | None = None,
) -> tuple[Applies, str, tuple[str, ...]]:
    """The answer, its reason, and the flags that would give the missing facts.

    `base_with_it`: the version that runs now, if it has the issue for sure.
    """
    missing: list[KeyMatch] = []
    held: list[str] = []
    for key in chain(match_keys(issue.scope, facts, workloads), match_program(issue, facts)):
        if key.holds is False:
            return Applies.NO, key.why, ()
        if key.holds is None:
            missing.append(key)
        else:
            held.append(key.why)
    active = next((work for work in issue.workarounds if _is_active(work, facts)), None)
    # What could block is never assumed to be off. Else an opt-in is off if the launch line is complete, and where both
    # versions have the issue, which decides nothing.
    if issue.severity.rank < Severity.HIGH.rank and (facts.complete or is_carried):
        off = next((key.opt_in for key in missing if key.opt_in), None)
        if off is not None:
            return Applies.NO, f"nothing mentions {off}, and the default is without", ()
    if missing and base_with_it is not None and _keeps_from_starting(issue):
        return Applies.NO, f"{base_with_it} has it too, and the server that runs now did start", ()
    if missing:
        also = f"; if it applies, a workaround is active: {_settings_text(active)}" if active else ""
        flags = tuple(key.flag for key in missing if key.flag)
        return Applies.UNKNOWN, "; ".join(key.why for key in missing) + also, flags
    if active:
        return Applies.MITIGATED, f"a workaround is active: {_settings_text(active)}", ()
    return Applies.YES, "; ".join(held) or "the record applies to every deployment", ()


def _keeps_from_starting(issue: KnownIssue) -> bool:
    """Not so what makes a start slow."""
    return issue.kind is IssueKind.STARTUP and not any(claim.metric == "startup_time" for claim in issue.signature)


def _is_active(workaround: Workaround, facts: ScopeFacts) -> bool:
    """Whether the deployment's flags and variables contain every setting of the workaround."""
    if not workaround.is_checkable:
        return False
    wanted = names.canonical_args(workaround.engine_args or {})
    return all(key in facts.args and names.same_value(facts.args[key], value) for key, value in wanted.items()) and all(
        key in facts.env and names.same_env_value(facts.env[key], value)
        for key, value in (workaround.env or {}).items()
    )


def match_issues(
    issues: Iterable[KnownIssue],
    deployment: Deployment,
    base: Version | None,
    candidate: Version,
    workloads: "Sequence[Workload]" = (),
    build: BuildSource | None = None,
) -> list[IssueFinding]:
    """Every issue that concerns the move, the most important first, those that do not apply last.

    Without a base an issue of the candidate is `carried`: nothing shows that the move would bring it. Changed defaults
    and removed flags are then listed only if they changed with the candidate's own release series, or if the deployment
    sets the removed flag. If it is not known whether a build is affected, the finding has the worst possible effect and
    applies at most `unknown`. The source of the candidate (`build`) beats the versions: an issue that it does not have
    does not apply, and stays in the list if the versions say otherwise.
    """
    facts = derive_facts(deployment)
    findings = []
    for issue in issues:
        in_code = None if build is None else build.has_fault(issue)
        effect = _effect(issue, base, candidate, in_code)
        is_absent = effect is None and in_code is False
        effect = _effect(issue, base, candidate) if is_absent else effect
        if effect is None:
            continue
        is_carried = base is not None and effect[0] is Effect.CARRIED and effect[2]
        base_with_it = base if base is not None and affects(issue, base) else None
        applies, why, missing = _match_with_flags(
            issue, facts, workloads, is_carried=is_carried, base_with_it=base_with_it
        )
        if base is None and _is_old_change(issue, candidate) and not _sets_removed_flag(issue, applies):
            continue
        kind, effect_why, certain = effect
        if applies is Applies.YES and not certain:
            applies, why = Applies.UNKNOWN, f"{effect_why}; the deployment is in scope: {why}"
        status, status_why = fix_status(issue, candidate, in_code=in_code)
        if build is not None and in_code is not None:
            status_why = f"{status_why}: {build.reason(issue)}"
        if is_absent:
            applies, why, missing = Applies.NO, status_why, ()
        findings.append(IssueFinding(issue, applies, why, status, status_why, kind, effect_why, missing))
    applies_order = [Applies.YES, Applies.UNKNOWN, Applies.MITIGATED, Applies.NO]
    effect_order = [Effect.NEW, Effect.CARRIED, Effect.RESOLVED]
    return sorted(
        findings,
        key=lambda finding: (
            applies_order.index(finding.applies),
            effect_order.index(finding.effect),
            -finding.issue.severity.rank,
            finding.issue.id,
        ),
    )


def _is_old_change(issue: KnownIssue, candidate: Version) -> bool:
    """Whether a default or flag changed in an older release series than the candidate's (0.24.x)."""
    return (
        issue.kind in _CHANGE_KINDS and bool(affects(issue, candidate)) and not introduced_in_series(issue, candidate)
    )


def _sets_removed_flag(issue: KnownIssue, applies: Applies) -> bool:
    return issue.kind is IssueKind.REMOVED_FLAG and applies in (Applies.YES, Applies.MITIGATED)


def _effect(
    issue: KnownIssue, base: Version | None, candidate: Version, in_code: bool | None = None
) -> tuple[Effect, str, bool] | None:
    """The effect, why, and whether it is known for both versions; None if neither version is affected.

    `in_code`: whether the candidate's own source has it.
    """
    after = affects(issue, candidate) if in_code is None else in_code
    if base is None:
        if after is False:
            return None
        return Effect.CARRIED, f"no base version given: {_affected_text(candidate, after, issue)}", after is not None
    before = affects(issue, base)
    if before is False and after is False:
        return None
    if before and after and issue.kind in _CHANGE_KINDS:
        return None
    remains = Effect.CARRIED if before else Effect.NEW
    effect = Effect.RESOLVED if after is False else remains
    why = f"{_affected_text(candidate, after, issue)}, {_affected_text(base, before)}"
    return effect, why, None not in (before, after)


def _affected_text(version: Version, affected: bool | None, issue: KnownIssue | None = None) -> str:
    known = f" (affected: {range_text(issue)})" if issue else ""
    match affected:
        case True:
            return f"{version} has it{known}"
        case False:
            return f"{version} does not have it{known}"
        case None:
            return f"whether {version} has it is not known{known}"


def _settings_text(workaround: Workaround) -> str:
    args = [f"{key}={value_text(value)}" for key, value in (workaround.engine_args or {}).items()]
    return ", ".join([*args, *(f"{key}={value}" for key, value in (workaround.env or {}).items())])


_MAX_FACTS = 3
"""Named in the sentence about missing facts."""
LAUNCH_LINE = "--serve-command or --deployment"
_SERVER_FEATURES = ("lora", "speculative_decoding", "disaggregated_prefill")
"""Features that the launch line switches on."""
_GIVEN_WHEN_COMPLETE = frozenset(
    [f"--engine-arg {key}" for key in (*ENGINE_DEFAULTS, *UNSET_BY_DEFAULT)]
    + [f"--feature {feature}" for feature in _SERVER_FEATURES]
)
"""Facts that are never missing if the whole launch line is given."""


def missing_facts_text(
    findings: Iterable[IssueFinding], deciding: Collection[str] = (), *, complete: bool = False
) -> str:
    """One sentence with the facts that would settle the most issues, each with their number; empty if no issue needs
    more facts.

    `deciding`: ids of issues on which the decision depends; the facts that they need come first. `complete`: whether
    the whole launch line is given.
    """
    waiting = [
        finding
        for finding in findings
        if finding.applies is Applies.UNKNOWN and finding.effect is not Effect.RESOLVED and finding.missing
    ]
    if not waiting:
        return ""
    ranked = rank_missing_facts(
        [(finding.missing, finding.issue.id in deciding) for finding in waiting], complete=complete
    )
    listed = ", ".join(f"{fact} ({count})" for fact, count in ranked[:_MAX_FACTS])
    return f"Known issues need more facts; most wanted: {listed}."


def rank_missing_facts(
    missing: Sequence[tuple[Sequence[str], bool]], *, complete: bool | None = None
) -> list[tuple[str, int]]:
    """What to give, with the number of issues that need it: first what settles issues on which the decision depends,
    then what settles the most. The whole launch line goes before single facts that settle no more.

    `missing`: for each issue the flags that would give its missing facts, and whether the decision depends on it.
    `complete`: whether the launch line is given whole; None: as the missing facts show.
    """
    if complete is None:
        complete = not any(flag == "--model" or flag in _GIVEN_WHEN_COMPLETE for flags, _ in missing for flag in flags)
    facts = [
        ({LAUNCH_LINE if not complete and _is_in_launch_line(flag) else flag for flag in flags}, decides)
        for flags, decides in missing
    ]

    def weight(fact: str) -> tuple[int, int, bool, int, str]:
        needing = [(needed, decides) for needed, decides in facts if fact in needed]
        alone = [decides for needed, decides in needing if len(needed) == 1]
        is_single = fact != LAUNCH_LINE
        return -sum(decides for _, decides in needing), -len(alone), is_single, -len(needing), fact

    counts = Counter(fact for needed, _ in facts for fact in needed)
    return [(fact, counts[fact]) for fact in sorted(counts, key=weight)]


def waits_for_launch_line(missing: Sequence[str]) -> bool:
    """Whether a launch line comes first: it gives one of the missing facts, which most often settles the issue, or all
    of them follow from it and from the variables beside it. The model is not one of them."""
    settings = [flag for flag in missing if _is_in_launch_line(flag) and flag != "--model"]
    return bool(settings) or (
        bool(missing) and all(flag.startswith("--env ") or flag == "--feature structured_output" for flag in missing)
    )


def needs_environment_alone(missing: Sequence[str]) -> bool:
    """Whether all missing facts are about what is installed: the driver, Python, libraries, the image."""
    return "--collect-env" in missing and set(missing) <= {"--collect-env", "--distribution"}


def _is_in_launch_line(flag: str) -> bool:
    name, _, value = flag.partition(" ")
    return name in ("--serve-command", "--model", "--engine-arg") or (name == "--feature" and value in _SERVER_FEATURES)


ExclusionReason = Callable[[KnownIssue, str], str | None]
"""Why a scenario, given by its name, cannot show an issue; None if it can."""


def exclusion_reasons(suite: "Suite | None", accelerator: str | None) -> ExclusionReason:
    """Which scenarios cannot show an issue, because their server on that accelerator is outside of its scope.

    A scenario may have other arguments than the deployment, and run on another machine. Unknown facts exclude nothing.
    """
    servers = {scenario.name: scenario.server for scenario in suite.scenarios} if suite else {}
    # Most scenarios share a server: each server is matched once.
    keys = {name: server.model_dump_json() for name, server in servers.items()}
    facts = {
        keys[name]: derive_facts(
            Deployment(accelerator=accelerator, model=server.model, engine_args=server.engine_args, env=server.env)
        )
        for name, server in servers.items()
    }
    unknown = derive_facts(Deployment(accelerator=accelerator))
    known: dict[tuple[str, str], str | None] = {}

    def why(issue: KnownIssue, scenario: str) -> str | None:
        key = keys.get(scenario, "")
        if (issue.id, key) not in known:
            applies, reason = match_facts(issue, facts.get(key, unknown))[:2]
            known[issue.id, key] = reason if applies is Applies.NO else None
        return known[issue.id, key]

    return why
