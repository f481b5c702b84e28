"""The known issues of a move, for a deployment filled in from the suite where the user is silent."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from regress_gate.model.deployment import Deployment
    from regress_gate.model.finding import IssueFinding
    from regress_gate.model.suite import Suite
    from regress_gate.model.version import Version


def find_known_issues(
    deployment: "Deployment", baseline: "Version | None", candidate: "Version", suite: "Suite | None"
) -> "list[IssueFinding]":
    """The findings over the shipped records."""
    from regress_gate.known.match import findings
    from regress_gate.known.records import load_records

    workloads = [scenario.workload for scenario in suite.scenarios] if suite else []
    known = deployment if suite is None else deployment.over(suite.deployment())
    return findings(load_records(), known, baseline, candidate, workloads)
