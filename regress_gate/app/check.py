"""Check a version, or a move, for the known issues of a deployment. Measures nothing."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from regress_gate.accelerators.registry import unknown_accelerator
from regress_gate.app.deployment_facts import deployment_out, launch_deployment
from regress_gate.app.known_issues import Releases, issue_finder
from regress_gate.app.settings import Settings
from regress_gate.app.store_queries import resolve_stored_build, stored_versions
from regress_gate.errors import InputError, NoDataError
from regress_gate.gate.check import decide_check, recommend_release, recommendation_text
from regress_gate.gate.launch_line import LaunchTest, try_launch_line
from regress_gate.known.matching.findings import exclusion_reasons, missing_facts_text
from regress_gate.known.records.coverage import never_released, refuse_never_released
from regress_gate.known.records.releases import find_releases
from regress_gate.model.issue import IssueFinding
from regress_gate.model.policy import PolicyOverrides
from regress_gate.model.result import ReasonCode, Result
from regress_gate.model.version import Ref, RefKind, Version
from regress_gate.paths import release_cache_file
from regress_gate.suites import load_suite
from regress_gate.vllm import release_tables

if TYPE_CHECKING:
    from regress_gate.app.build_code import CandidateBuild


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
    candidate_env: str | None = None,
) -> CheckedVersion:
    """The known issues of a move to `version`; with `recommend` also the newest release that no issue blocks, which is
    checked if `version` is None.

    Without `baseline`, the version in the start log or `collect-env` output of the settings is taken, if there is one.
    `candidate_env` is the build to move to, a path or an image: what its source says of an issue beats the versions.
    Without `version` its own is checked. Raises InputError without `version`, `recommend` and `candidate_env`, and if
    they contradict each other.
    """
    build: CandidateBuild | None = None
    asks_latest = [text is not None and Ref.parse(text).kind is RefKind.LATEST for text in (version, baseline)]
    if candidate_env is not None:
        # With the readers of wheels and images, which a plain check does not need.
        from regress_gate.app.build_code import open_build

        build = open_build(candidate_env, os.environ)
        if recommend:
            raise InputError("one build is given", where="--candidate-env", todo="leave out --recommend")
        if asks_latest[0]:
            raise InputError("one build is given", where="--candidate-env", todo="leave out latest")
        version = _version_of_build(build, version)
    if version is None and not recommend:
        raise InputError("no version is given", todo="name a VERSION, or let --recommend choose one")
    facts, now = settings.deployment_facts, datetime.now(UTC)
    # The package index is asked only for a recommendation, and for the newest release.
    index, asks = settings.config.check.release_index, recommend or any(asks_latest)
    published = find_releases(index, release_cache_file(), now=now, offline=offline or not asks)
    before = facts.version if baseline is None else _find_build(baseline, settings, published.days)
    if baseline is not None and before is not None:
        _refuse_never_released(before, published.days, settings)
    notes = list(facts.notes)
    if baseline is None and before is not None:
        notes.append(f"checked against {before}, the version that runs now according to the given file")
    find = issue_finder(facts.deployment, published.days, None if build is None else build.source)
    policy = settings.policy(flags=overrides)
    running = None if before is None else release_tables.build_config(before)

    def try_line(candidate: Version) -> LaunchTest:
        config = release_tables.build_config(candidate) or (None if build is None else build.config())
        builds = [build for build in (config, running) if build is not None]
        deployment = launch_deployment(
            settings.deployment_flags,
            settings.config.deployment.facts,
            launch_line=settings.launch_line,
            server=settings.deployed_server,
            builds=builds,
        )
        return try_launch_line(running, config, candidate, deployment)

    def decide(candidate: Version) -> Result:
        known = find(before, candidate)
        return decide_check(
            before,
            candidate,
            policy=policy,
            waivers=settings.waivers,
            findings=known.findings,
            coverage=known.coverage,
            launch=try_line(candidate),
            now=now,
            report_only=report_only,
            unknown_accelerator=unknown_accelerator(facts.deployment.accelerator),
        )

    best, recommended, recommendation = None, None, ""
    if recommend:
        age = settings.config.check.min_release_age_days if min_age_days is None else min_age_days
        best = recommend_release(published.days, decide, baseline=before, today=now.date(), min_age_days=age)
        recommended = best.version or Version.parse(str(max(published.days)))
        recommendation = recommendation_text(best, before)
    notes += [published.note] if published.note and asks else []
    candidate = recommended if version is None else _find_build(version, settings, published.days)
    assert candidate is not None  # noqa: S101 - one of both was asked for
    # The file of a pull request names the candidate already.
    named = {build.number for build in (before, candidate) if build is not None}
    if baseline is not None and facts.version is not None and facts.version.number not in named:
        notes.append(f"--from {before} is used; the given file says that {facts.version} runs")
    result, findings = decide(candidate), find(before, candidate).findings
    deciding = {reason.issue for reason in result.reasons if reason.code is ReasonCode.UNDECIDED and reason.issue}
    advice = [
        "" if version is None else result.advice,
        recommendation,
        missing_facts_text(findings, deciding, complete=facts.deployment.complete),
        _without_baseline(candidate) if before is None else "",
    ]
    deployment = deployment_out(settings.deployed_server)
    release = None if best is None or best.version is None else str(best.version)
    update = {
        "advice": " ".join(filter(None, advice)),
        "deployment": deployment,
        "launch_line_is_complete": facts.deployment.complete,
        "recommended": release,
    }
    result = result.model_copy(update=update)
    return CheckedVersion(result, before, candidate, findings, tuple(notes))


def _without_baseline(candidate: Version) -> str:
    """Where changed settings are found: with --from, those on which there is a record, and elsewhere all of them."""
    return (
        "With --from, the records of defaults and flags that changed since the version that you run now count, too; "
        f"`regress-gate diff-config BASE {candidate}` lists all that changed."
    )


def _version_of_build(build: "CandidateBuild", version: str | None) -> str:
    """The version to check: the one that was given, else the build's own. Raises InputError if they differ."""
    own, given = build.version, None if version is None else Ref.parse(version).version
    if version is None:
        if own is None:
            raise InputError("does not say its version", where=build.name, todo="name a VERSION beside it")
        return str(own)
    keys = [one.order_key for one in (own, given) if one is not None]
    if None not in keys and len(set(keys)) > 1:
        raise InputError(f"is vLLM {own}, not {given}", where=build.name, todo="leave out VERSION")
    return version


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


def _refuse_never_released(version: Version, releases: Releases, settings: Settings) -> None:
    """Raises InputError for a baseline version that was never released: a typing error. A stored build exists."""
    if never_released(version, releases) is None:
        return
    if not any(holding.version.matches(version) for holding in stored_versions(settings, everything=True)):
        refuse_never_released(version, releases, where="--from")


def _find_build(text: str, settings: Settings, releases: Releases) -> Version:
    """The build that a ref means; `latest` is the newest release, whatever was measured. Raises NoDataError for another
    ref that is no version and has no stored runs."""
    ref = Ref.parse(text)
    if ref.version is not None:
        return ref.version
    if ref.kind is RefKind.LATEST:
        return Version.parse(str(max(releases)))
    try:
        return resolve_stored_build(ref, settings)
    except NoDataError:
        if ref.kind is RefKind.PINNED:
            raise  # it says how to pin one
        todo = "name a version, which needs no stored runs: v0.33.0, latest or commit:SHA"
        raise NoDataError(f"nothing that is stored is {ref}; {todo}") from None
