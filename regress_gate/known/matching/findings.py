"""Hold records against a deployment and a move from one version to another: pure functions, no files, no network.

Whether a record applies is decided by the deployment alone; whether the move brings it, by the versions alone.
What a finding means for the decision (does it block?) is the gate's matter.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from regress_gate.known.matching import names
from regress_gate.known.matching.facts import ScopeFacts, derive_facts
from regress_gate.known.matching.scope import KeyMatch, match_keys, value_text
from regress_gate.known.matching.versions import affects, fix_status, introduced_in_series, range_text
from regress_gate.model.deployment import Deployment
from regress_gate.model.finding import Applies, Effect, IssueFinding
from regress_gate.model.issue import IssueKind, KnownIssue, Workaround
from regress_gate.model.suite import Suite
from regress_gate.model.version import Version
from regress_gate.text import plural

if TYPE_CHECKING:
    from regress_gate.model.suite import Workload


_CHANGE_KINDS = (IssueKind.DEFAULT_CHANGE, IssueKind.REMOVED_FLAG)
"""Kinds that matter to who crosses the turn: what was so before the move and stays so is no news to anybody."""


def match_scope(issue: KnownIssue, deployment: Deployment, workloads: "Sequence[Workload]" = ()) -> tuple[Applies, str]:
    """Whether the issue bites this deployment, and the one fact on which that rests.

    NO as soon as one scope key is known not to hold; else UNKNOWN while a fact is missing, naming every missing fact
    and the flag that gives it; else MITIGATED when a workaround is fully active; else YES. A workload region says
    where an issue bites, not whom: without workloads it may bite, which `why` says and which is no missing fact.
    """
    return match_facts(issue, derive_facts(deployment), workloads)


def match_facts(issue: KnownIssue, facts: ScopeFacts, workloads: "Sequence[Workload]" = ()) -> tuple[Applies, str]:
    """The same for who holds many records against one deployment."""
    return _match_with_flags(issue, facts, workloads)[:2]


def _match_with_flags(
    issue: KnownIssue, facts: ScopeFacts, workloads: "Sequence[Workload]"
) -> tuple[Applies, str, tuple[str, ...]]:
    """The answer, the fact on which it rests, and the flags that would give what is missing."""
    missing: list[KeyMatch] = []
    held: list[str] = []
    for key in match_keys(issue.scope, facts, workloads):
        if key.holds is False:
            return Applies.NO, key.why, ()
        if key.holds is None:
            missing.append(key)
        else:
            held.append(key.why)
    active = next((work for work in issue.workarounds if _is_active(work, facts)), None)
    if missing:
        also = f"; should it apply, a workaround is active: {_settings_text(active)}" if active else ""
        flags = tuple(key.flag for key in missing if key.flag)
        return Applies.UNKNOWN, "; ".join(key.why for key in missing) + also, flags
    if active:
        return Applies.MITIGATED, f"a workaround is active: {_settings_text(active)}", ()
    return Applies.YES, "; ".join(held) or "the record applies to every deployment", ()


def is_active(workaround: Workaround, deployment: Deployment) -> bool:
    """Whether the deployment's own flags and variables show every setting of the workaround."""
    return _is_active(workaround, derive_facts(deployment))


def _is_active(workaround: Workaround, facts: ScopeFacts) -> bool:
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
) -> list[IssueFinding]:
    """Every issue that touches the move, first what matters most; those that do not apply are kept, at the end.

    Without a base an issue of the candidate is `carried`: nothing shows that the move would bring it. Of the defaults
    and flags only those are then told that changed with the candidate's own series of releases, and removed flags that
    the deployment sets. Where it is not known whether a build is affected, the finding stays with the worst effect
    possible and applies at most `unknown`.
    """
    facts = derive_facts(deployment)
    found = []
    for issue in issues:
        effect = _effect(issue, base, candidate)
        if effect is None:
            continue
        applies, why, missing = _match_with_flags(issue, facts, workloads)
        if base is None and _is_old_change(issue, candidate) and not _sets_removed_flag(issue, applies):
            continue
        kind, effect_why, certain = effect
        if applies is Applies.YES and not certain:
            applies, why = Applies.UNKNOWN, f"{effect_why}; the deployment is in scope: {why}"
        status, status_why = fix_status(issue, candidate)
        found.append(IssueFinding(issue, applies, why, status, status_why, kind, effect_why, missing))
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


def _is_old_change(issue: KnownIssue, candidate: Version) -> bool:
    """Whether the record is about a default or flag that changed in an older series than the candidate's (0.24.x)."""
    return (
        issue.kind in _CHANGE_KINDS and bool(affects(issue, candidate)) and not introduced_in_series(issue, candidate)
    )


def _sets_removed_flag(issue: KnownIssue, applies: Applies) -> bool:
    return issue.kind is IssueKind.REMOVED_FLAG and applies in (Applies.YES, Applies.MITIGATED)


def _effect(issue: KnownIssue, base: Version | None, candidate: Version) -> tuple[Effect, str, bool] | None:
    """The effect, why, and whether both memberships are known; None when the move has nothing to do with the issue."""
    after = affects(issue, candidate)
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


# MERGED regress_gate.known.missing: Which facts about a deployment would settle most of what cannot be told.


_MAX_FLAGS = 3


def missing_facts_text(findings: Iterable[IssueFinding], deciding: Collection[str] = ()) -> str:
    """One sentence with the flags that the most undecided issues wait for; empty where there are none.

    `deciding` are the ids of issues on which the decision waits: what they ask for is named first.
    """
    waiting = [
        finding
        for finding in findings
        if finding.applies is Applies.UNKNOWN and finding.effect is not Effect.RESOLVED and finding.missing
    ]
    if not waiting:
        return ""
    counts = Counter(flag for finding in waiting for flag in set(finding.missing))
    first = Counter(flag for finding in waiting if finding.issue.id in deciding for flag in set(finding.missing))
    ranked = sorted(counts.items(), key=lambda item: (-first[item[0]], -item[1], item[0]))[:_MAX_FLAGS]
    listed = ", ".join(f"{flag} ({count})" for flag, count in ranked)
    return f"{plural(len(waiting), 'known issue')} cannot be told without more facts; most wanted: {listed}."


# MERGED regress_gate.known.joining_servers: Which scenarios cannot show an issue, because their own server is not
# in its scope.  An issue is matched against the deployment as a whole; a suite may have scenarios with other
# arguments, and the machine of the measurement may be another than that of the deployment.


ExclusionReason = Callable[[KnownIssue, str], str | None]
"""Why the server of a scenario, by its name, cannot show an issue; None where it may."""


def exclusion_reasons(suite: Suite | None, accelerator: str | None) -> ExclusionReason:
    """By what the suite says of its servers, on that accelerator. Facts that neither tells exclude nothing."""
    servers = {scenario.name: scenario.server for scenario in suite.scenarios} if suite else {}
    # Scenarios mostly share a server, and a record is held against each of these once.
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
