"""Match the known issues against a deployment. Not for what they mean for the decision: see `gate.check`."""

import os
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from regress_gate.known.matching.findings import match_issues
from regress_gate.known.records.loading import load_records
from regress_gate.known.tracker.snapshot import SNAPSHOT_NAME, api_base, api_directory, as_last_seen, read_snapshot
from regress_gate.model.deployment import Deployment
from regress_gate.model.issue import Applies, IssueFinding, IssueKind, KnownIssue
from regress_gate.model.suite import Suite
from regress_gate.model.version import Version
from regress_gate.paths import tracker_cache_directory

FindIssues = Callable[[Version | None, Version], list[IssueFinding]]
"""The findings of a move from one version (None: not given) to another."""


def find_known_issues(
    deployment: Deployment, baseline: Version | None, candidate: Version, suite: Suite | None
) -> list[IssueFinding]:
    """The findings of a move. The suite completes the deployment where the user gave no value."""
    workloads = [scenario.workload for scenario in suite.scenarios] if suite else []
    completed = deployment if suite is None else deployment.over(suite.deployment())
    return match_issues(load_tracked_records(), completed, baseline, candidate, workloads)


def issue_finder(deployment: Deployment) -> FindIssues:
    """The findings of any number of moves of one deployment without measurements; the records are read once.

    Records that are no bug are left out unless they are sure to apply: only a measurement could show a likeness.
    """
    records = load_tracked_records()

    def find(baseline: Version | None, candidate: Version) -> list[IssueFinding]:
        return [
            finding
            for finding in match_issues(records, deployment, baseline, candidate)
            if finding.issue.kind is not IssueKind.NOT_A_BUG
            or (finding.applies is Applies.YES and finding.issue.scope.names_deployment)
        ]

    return cache(find)


def load_tracked_records(directory: Path | None = None) -> list[KnownIssue]:
    """The records with the state of their threads at the last `issues sync`, or else at their last review."""
    records = load_records(directory)
    cache_directory = api_directory(tracker_cache_directory(), api_base(os.environ))
    if not (cache_directory / SNAPSHOT_NAME).exists():
        return records
    snapshot, today = read_snapshot(cache_directory), datetime.now(UTC).date()
    return [as_last_seen(record, snapshot, today) for record in records]
