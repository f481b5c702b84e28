"""Match the known issues against a deployment. Not for what they mean for the decision: see `gate.check`."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import cache
from pathlib import Path

from packaging.version import Version as Pep440

from regress_gate.known.matching.facts import derive_facts
from regress_gate.known.matching.findings import match_issues
from regress_gate.known.matching.versions import BuildSource
from regress_gate.known.records.coverage import assess_coverage, load_coverage
from regress_gate.known.records.loading import load_records
from regress_gate.known.records.releases import find_releases
from regress_gate.known.tracker.snapshot import SNAPSHOT_NAME, api_base, api_directory, as_last_seen, read_snapshot
from regress_gate.model.deployment import Deployment
from regress_gate.model.issue import Applies, IssueFinding, IssueKind, KnownIssue
from regress_gate.model.result import CoverageOut
from regress_gate.model.suite import Suite
from regress_gate.model.version import Version
from regress_gate.paths import release_cache_file, tracker_cache_directory

Releases = Mapping[Pep440, date]
"""Release to its day of publication."""


@dataclass(frozen=True, slots=True)
class KnownIssues:
    """What the records say of a move, and whether they reach so far."""

    findings: list[IssueFinding]
    coverage: CoverageOut


FindIssues = Callable[[Version | None, Version], KnownIssues]
"""The known issues of a move from one version (None: not given) to another."""


def find_known_issues(
    deployment: Deployment, baseline: Version | None, candidate: Version, suite: Suite | None, releases: Releases
) -> KnownIssues:
    """The known issues of a move. The suite completes the deployment where the user gave no value."""
    # Prompts of a conversation grow, and images have tokens: before they are measured, they may have any length.
    workloads = [
        scenario.workload.model_copy(update={"input_len": None})
        if scenario.workload.conversation or scenario.workload.images
        else scenario.workload
        for scenario in (suite.scenarios if suite else ())
    ]
    completed = deployment if suite is None else deployment.over(suite.deployment())
    records = load_tracked_records()
    findings = match_issues(records, completed, baseline, candidate, workloads)
    platform = derive_facts(completed).platform
    return KnownIssues(findings, assess_coverage(load_coverage(), releases, platform, baseline, candidate, records))


def issue_finder(deployment: Deployment, releases: Releases, build: BuildSource | None = None) -> FindIssues:
    """The known issues of any number of moves of one deployment without measurements; the records are read once.

    `build`: the source of the candidate, if there is only one.
    Records that are no bug are left out unless they are sure to apply: only a measurement could show a likeness.
    """
    records, reviewed, platform = load_tracked_records(), load_coverage(), derive_facts(deployment).platform

    def find(baseline: Version | None, candidate: Version) -> KnownIssues:
        findings = [
            finding
            for finding in match_issues(records, deployment, baseline, candidate, build=build)
            if finding.issue.kind is not IssueKind.NOT_A_BUG
            or (finding.applies is Applies.YES and finding.issue.scope.names_deployment)
        ]
        return KnownIssues(findings, assess_coverage(reviewed, releases, platform, baseline, candidate, records))

    return cache(find)


def seen_releases(index: str | None, now: datetime) -> Releases:
    """All releases that are known without asking anybody: those shipped, and those of the last answer of the index."""
    return find_releases(index, release_cache_file(), now=now, offline=True).days


def load_tracked_records(directory: Path | None = None) -> list[KnownIssue]:
    """The records with the state of their threads at the last `issues sync`, or else at their last review."""
    records = load_records(directory)
    cache_directory = api_directory(tracker_cache_directory(), api_base(os.environ))
    if not (cache_directory / SNAPSHOT_NAME).exists():
        return records
    snapshot, today = read_snapshot(cache_directory), datetime.now(UTC).date()
    return [as_last_seen(record, snapshot, today) for record in records]
