"""What `check --suggest-scenarios` prints: a suite in which the known issues of the move would show."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from regress_gate.cli.settings import Settings
    from regress_gate.model.deployment import Deployment
    from regress_gate.model.finding import IssueFinding
    from regress_gate.model.version import Version


def suggested_suite(
    settings: "Settings",
    deployment: "Deployment",
    findings: "Sequence[IssueFinding]",
    baseline: "Version | None",
    candidate: "Version",
) -> str:
    """Its text. Issues that the suite of the settings, where there is one, can show already are left out."""
    from regress_gate.known.joining_servers import exclusions
    from regress_gate.known.suggest import is_testable, suggest
    from regress_gate.known.suggest_suite import suite_text
    from regress_gate.suites import load_suite

    suite = None if settings.suite.value is None else load_suite(str(settings.suite.value))
    accelerator = deployment.accelerator or (suite.accelerator if suite else None)
    excluded = exclusions(suite, accelerator)
    scenarios = suite.scenarios if suite else []
    found = suggest(
        findings,
        deployment,
        lambda issue: is_testable(issue, scenarios, excluded),
        has_baseline=baseline is not None,
    )
    return suite_text(found, deployment, str(candidate))
