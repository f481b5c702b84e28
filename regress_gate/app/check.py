"""Check a version, or a move, for the known issues of a deployment. Measures nothing."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from regress_gate.app.known_issues import issue_finder
from regress_gate.app.settings import Settings
from regress_gate.app.store_queries import resolve_stored_build
from regress_gate.errors import InputError
from regress_gate.gate.check import decide_check, recommend_release, recommendation_text
from regress_gate.known.matching.findings import exclusion_reasons, missing_facts_text
from regress_gate.known.records.releases import beyond_records_text, find_releases
from regress_gate.model.issue import IssueFinding
from regress_gate.model.policy import PolicyOverrides
from regress_gate.model.result import DeploymentOut, ReasonCode, Result
from regress_gate.model.version import Ref, Version
from regress_gate.paths import release_cache_file
from regress_gate.suites import load_suite

WITHOUT_BASELINE = "With --from, changed defaults and removed flags since the version that you run now are listed too."


@dataclass(frozen=True, slots=True)
class CheckedVersion:
    result: Result
    baseline: Version | None
    """The version that runs now, if it is known."""
    candidate: Version
    findings: Sequence[IssueFinding]
    notes: tuple[str, ...]
    """Remarks about the files that describe the deployment, and about the list of releases."""


def check_servers(settings: Settings, version: str | None, **options: Any) -> list[CheckedVersion]:
    """`check_version` for each server of the deployment file; without one, or with one server, one result."""
    return [check_version(one, version, **options) for one in settings.for_each_server()]


def check_version(
    settings: Settings,
    version: str | None,
    *,
    baseline: str | None = None,
    recommend: bool = False,
    min_age_days: int | None = None,
    overrides: PolicyOverrides | None = None,
    report_only: bool = False,
    offline: bool = False,
) -> CheckedVersion:
    """The known issues of a move to `version`; with `recommend` also the newest release that no issue blocks, which is
    checked if `version` is None.

    Without `baseline`, the version in the start log or `collect-env` output of the settings is taken, if there is one.
    Raises InputError without `version` and `recommend`.
    """
    if version is None and not recommend:
        raise InputError("no version is given", todo="name a VERSION, or let --recommend choose one")
    facts = settings.deployment_facts
    before = facts.version if baseline is None else _find_build(baseline, settings)
    notes = list(facts.notes)
    if baseline is None and before is not None:
        notes.append(f"checked against {before}, the version that runs now according to the given file")
    elif facts.version is not None and before is not None and before.number != facts.version.number:
        notes.append(f"--from {before} is used; the given file says that {facts.version} runs")
    find = issue_finder(facts.deployment)
    policy, now = settings.policy(flags=overrides), datetime.now(UTC)

    def decide(candidate: Version) -> Result:
        return decide_check(
            before,
            candidate,
            policy=policy,
            waivers=settings.waivers,
            findings=find(before, candidate),
            now=now,
            report_only=report_only,
        )

    recommended, recommendation = None, ""
    if recommend:
        recommended, recommendation, note = _recommend(
            settings, decide, before, now, min_age_days=min_age_days, offline=offline
        )
        notes += [note] if note else []
    candidate = recommended if version is None else _find_build(version, settings)
    assert candidate is not None  # noqa: S101 - one of both was asked for
    result, findings = decide(candidate), find(before, candidate)
    deciding = {reason.issue for reason in result.reasons if reason.code is ReasonCode.UNDECIDED and reason.issue}
    advice = [
        "" if version is None else result.advice,
        recommendation,
        beyond_records_text(candidate),
        missing_facts_text(findings, deciding),
        WITHOUT_BASELINE if before is None else "",
    ]
    server = settings.deployed_server
    deployment = None if server is None else DeploymentOut(name=server.name, where=server.where)
    result = result.model_copy(update={"advice": " ".join(filter(None, advice)), "deployment": deployment})
    return CheckedVersion(result, before, candidate, findings, tuple(notes))


def suggest_suite(settings: Settings, checked: CheckedVersion) -> str:
    """The text of a suite in which the known issues of the move would show, without those that the suite of the
    settings shows already."""
    # Needs YAML, which a plain check does not load.
    from regress_gate.known.joining.suggestions import is_testable, suggest_scenarios, suite_text

    deployment = settings.deployment
    suite = None if settings.suite.value is None else load_suite(str(settings.suite.value))
    excluded = exclusion_reasons(suite, deployment.accelerator or (suite.accelerator if suite else None))
    scenarios = suite.scenarios if suite else []
    suggested = suggest_scenarios(
        checked.findings,
        deployment,
        lambda issue: is_testable(issue, scenarios, excluded),
        has_baseline=checked.baseline is not None,
    )
    return suite_text(suggested, deployment, str(checked.candidate))


def _recommend(
    settings: Settings,
    decide: Callable[[Version], Result],
    baseline: Version | None,
    now: datetime,
    *,
    min_age_days: int | None,
    offline: bool,
) -> tuple[Version, str, str | None]:
    """The best release, else the newest known one; the advice; what is unknown about the releases."""
    rules = settings.config.check
    releases = find_releases(rules.release_index, release_cache_file(), now=now, offline=offline)
    age = rules.min_release_age_days if min_age_days is None else min_age_days
    best = recommend_release(releases.days, decide, baseline=baseline, today=now.date(), min_age_days=age)
    return best.version or Version.parse(str(max(releases.days))), recommendation_text(best, baseline), releases.note


def _find_build(text: str, settings: Settings) -> Version:
    """The build that a ref means. Only a ref that is no version needs the store."""
    ref = Ref.parse(text)
    return ref.version or resolve_stored_build(ref, settings)
