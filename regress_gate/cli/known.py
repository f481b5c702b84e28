"""The known issues of a move, for a deployment filled in from the suite where the user is silent."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from regress_gate.model.deployment import Deployment
    from regress_gate.model.finding import IssueFinding
    from regress_gate.model.suite import Suite
    from regress_gate.model.version import Version


def find_known_issues(
    deployment: "Deployment", baseline: "Version | None", candidate: "Version", suite: "Suite | None"
) -> "list[IssueFinding]":
    """The findings over the shipped records."""
    from regress_gate.cli.tracked import tracked_records
    from regress_gate.known.match import findings

    workloads = [scenario.workload for scenario in suite.scenarios] if suite else []
    known = deployment if suite is None else deployment.over(suite.deployment())
    return findings(tracked_records(), known, baseline, candidate, workloads)


def deployment_findings(
    deployment: "Deployment",
) -> "Callable[[Version | None, Version], list[IssueFinding]]":
    """The same for one deployment and any number of moves, of which nothing is measured.

    The records are read only once. What was no bug is left out where it takes a measurement to see the likeness.
    """
    from functools import cache

    from regress_gate.cli.tracked import tracked_records
    from regress_gate.known.match import findings
    from regress_gate.model.finding import Applies
    from regress_gate.model.issue import IssueKind

    records = tracked_records()

    def found(baseline: "Version | None", candidate: "Version") -> "list[IssueFinding]":
        return [
            finding
            for finding in findings(records, deployment, baseline, candidate)
            if finding.issue.kind is not IssueKind.NOT_A_BUG
            or (finding.applies is Applies.YES and finding.issue.scope.names_deployment)
        ]

    return cache(found)
