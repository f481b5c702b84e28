"""Which scenarios cannot show an issue, because their own server is not in its scope.

An issue is matched against the deployment as a whole; a suite may have scenarios with other arguments, and the machine
of the measurement may be another than that of the deployment.
"""

from collections.abc import Callable

from regress_gate.known.facts import derive
from regress_gate.known.match import match_facts
from regress_gate.model.deployment import Deployment
from regress_gate.model.finding import Applies
from regress_gate.model.issue import KnownIssue
from regress_gate.model.suite import Suite

Excluded = Callable[[KnownIssue, str], str | None]
"""Why the server of a scenario, by its name, cannot show an issue; None where it may."""


def exclusions(suite: Suite | None, accelerator: str | None) -> Excluded:
    """By what the suite says of its servers, on that accelerator. Facts that neither tells exclude nothing."""
    servers = {scenario.name: scenario.server for scenario in suite.scenarios} if suite else {}
    # Scenarios mostly share a server, and a record is held against each of these once.
    keys = {name: server.model_dump_json() for name, server in servers.items()}
    facts = {
        keys[name]: derive(
            Deployment(accelerator=accelerator, model=server.model, engine_args=server.engine_args, env=server.env)
        )
        for name, server in servers.items()
    }
    unknown = derive(Deployment(accelerator=accelerator))
    known: dict[tuple[str, str], str | None] = {}

    def why(issue: KnownIssue, scenario: str) -> str | None:
        key = keys.get(scenario, "")
        if (issue.id, key) not in known:
            applies, reason = match_facts(issue, facts.get(key, unknown))[:2]
            known[issue.id, key] = reason if applies is Applies.NO else None
        return known[issue.id, key]

    return why
