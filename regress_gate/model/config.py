"""What `regress-gate.toml`, or `[tool.regress-gate]` in pyproject.toml, may hold."""

from pydantic import Field

from regress_gate.model.deployment import Deployment
from regress_gate.model.documents import StrictModel
from regress_gate.model.policy import PolicyOverrides
from regress_gate.model.provisioning import ProvisionConfig
from regress_gate.model.waiver import Waiver


class StoreConfig(StrictModel):
    url: str | None = None
    """SQLAlchemy URL of the store."""


class DefaultsConfig(StrictModel):
    suite: str | None = None
    testbed: str | None = None


class Config(StrictModel):
    store: StoreConfig = StoreConfig()
    defaults: DefaultsConfig = DefaultsConfig()
    deployment: Deployment = Deployment()
    provision: ProvisionConfig = ProvisionConfig()
    gate: PolicyOverrides = PolicyOverrides()
    waivers: list[Waiver] = Field(default_factory=list)
