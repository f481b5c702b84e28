"""The known issues of a move, for a deployment filled in from the suite where the user is silent."""

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from regress_gate.app.settings import Settings
    from regress_gate.model.deployment import Deployment
    from regress_gate.model.finding import IssueFinding
    from regress_gate.model.issue import KnownIssue
    from regress_gate.model.suite import Suite
    from regress_gate.model.version import Version


def find_known_issues(
    deployment: "Deployment", baseline: "Version | None", candidate: "Version", suite: "Suite | None"
) -> "list[IssueFinding]":
    """The findings over the shipped records."""
    from regress_gate.known.matching.findings import match_issues

    workloads = [scenario.workload for scenario in suite.scenarios] if suite else []
    known = deployment if suite is None else deployment.over(suite.deployment())
    return match_issues(tracked_records(), known, baseline, candidate, workloads)


def deployment_findings(
    deployment: "Deployment",
) -> "Callable[[Version | None, Version], list[IssueFinding]]":
    """The same for one deployment and any number of moves, of which nothing is measured.

    The records are read only once. What was no bug is left out where it takes a measurement to see the likeness.
    """
    from functools import cache

    from regress_gate.known.matching.findings import match_issues
    from regress_gate.model.finding import Applies
    from regress_gate.model.issue import IssueKind

    records = tracked_records()

    def found(baseline: "Version | None", candidate: "Version") -> "list[IssueFinding]":
        return [
            finding
            for finding in match_issues(records, deployment, baseline, candidate)
            if finding.issue.kind is not IssueKind.NOT_A_BUG
            or (finding.applies is Applies.YES and finding.issue.scope.names_deployment)
        ]

    return cache(found)


# MERGED regress_gate.cli.tracked: The records with their trackers as they were last seen: by the curator, or by a
# later `issues sync`.


def tracked_records(directory: Path | None = None) -> "list[KnownIssue]":
    """As `load_records`; where there never was a sync, exactly that."""
    from regress_gate.known.records.loading import load_records
    from regress_gate.known.tracker.snapshot import SNAPSHOT_NAME, api_base, api_directory
    from regress_gate.paths import tracker_cache_directory

    records = load_records(directory)
    cache = api_directory(tracker_cache_directory(), api_base(os.environ))
    if not (cache / SNAPSHOT_NAME).exists():
        return records
    from regress_gate.known.tracker.snapshot import as_last_seen, read_snapshot

    snapshot, today = read_snapshot(cache), datetime.now(UTC).date()
    return [as_last_seen(record, snapshot, today) for record in records]


# MERGED regress_gate.cli.suggesting: What `check --suggest-scenarios` prints: a suite in which the known issues of
# the move would show.


def suggested_suite(
    settings: "Settings",
    deployment: "Deployment",
    findings: "Sequence[IssueFinding]",
    baseline: "Version | None",
    candidate: "Version",
) -> str:
    """Its text. Issues that the suite of the settings, where there is one, can show already are left out."""
    from regress_gate.known.joining.suggestions import is_testable, suggest_scenarios, suite_text
    from regress_gate.known.matching.findings import exclusion_reasons
    from regress_gate.suites import load_suite

    suite = None if settings.suite.value is None else load_suite(str(settings.suite.value))
    accelerator = deployment.accelerator or (suite.accelerator if suite else None)
    excluded = exclusion_reasons(suite, accelerator)
    scenarios = suite.scenarios if suite else []
    found = suggest_scenarios(
        findings,
        deployment,
        lambda issue: is_testable(issue, scenarios, excluded),
        has_baseline=baseline is not None,
    )
    return suite_text(found, deployment, str(candidate))
