"""What `regress-gate.toml`, or `[tool.regress-gate]` in pyproject.toml, may hold."""

from typing import Annotated

from pydantic import Field, StringConstraints

from regress_gate.model.deployment import Deployment
from regress_gate.model.documents import StrictModel, Whole
from regress_gate.model.policy import PolicyOverrides
from regress_gate.model.provisioning import ProvisionConfig
from regress_gate.model.waiver import Waiver

HttpUrl = Annotated[str, StringConstraints(pattern=r"^https?://[^\s<>\"']+$", max_length=500)]


class StoreConfig(StrictModel):
    url: str | None = None
    """SQLAlchemy URL of the store."""


class DefaultsConfig(StrictModel):
    suite: str | None = None
    testbed: str | None = None


class CheckConfig(StrictModel):
    min_release_age_days: Whole = Field(default=7, ge=0, le=365)
    """`check --recommend` passes over younger releases."""
    release_index: HttpUrl | None = None
    """The JSON document of vllm on your package index, asked for releases that are newer than this program."""


class Config(StrictModel):
    store: StoreConfig = StoreConfig()
    defaults: DefaultsConfig = DefaultsConfig()
    deployment: Deployment = Deployment()
    provision: ProvisionConfig = ProvisionConfig()
    check: CheckConfig = CheckConfig()
    gate: PolicyOverrides = PolicyOverrides()
    waivers: list[Waiver] = Field(default_factory=list)
