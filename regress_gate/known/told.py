"""What a file tells of a deployment: facts, the version that it was made with, and what its reader should know."""

from collections.abc import Sequence
from dataclasses import dataclass

from regress_gate.model.deployment import Deployment
from regress_gate.model.version import Version


@dataclass(frozen=True, slots=True)
class Told:
    deployment: Deployment
    version: Version | None = None
    """Of the vLLM that the file is from."""
    notes: Sequence[str] = ()
    """One line each. No fact for matching, but worth knowing."""
