"""Suggested scenarios as the text of a suite file."""

import yaml

from regress_gate.known.suggest import Suggestions
from regress_gate.model.deployment import Deployment
from regress_gate.model.suite import Suite

NAME = "suggested"


def suite_text(found: Suggestions, deployment: Deployment, candidate: str) -> str:
    """YAML that loads as a suite; without a scenario only comments, which do not."""
    lines = [f"# {text}" for text in (*_head(found), *(f"No scenario for {why}" for why in found.impossible))]
    if not found.scenarios:
        return "\n".join(lines) + "\n"
    suite = Suite(
        name=NAME,
        version="1",
        description=f"Scenarios in which known issues of {candidate} would show on this deployment.",
        accelerator=deployment.accelerator,
        scenarios=list(found.scenarios),
    )
    data = suite.model_dump(mode="json", exclude_defaults=True)
    return "\n".join(lines) + "\n" + yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=110)


def _head(found: Suggestions) -> list[str]:
    if not found.scenarios:
        return ["No known issue that applies claims a loss that is not measured already."] * (not found.impossible)
    return ["Made from the records, never measured: look at sizes and times before you run it."]
