"""`[provision]` of the configuration: in which way versions are got and with which settings. Not for doing it."""

from enum import StrEnum
from typing import Annotated, Self

from pydantic import Field, StringConstraints

from regress_gate.model.deployment import Deployment
from regress_gate.model.documents import StrictInt, StrictModel
from regress_gate.model.policy import PolicyOverrides, Waiver


class ProvisionMethod(StrEnum):
    VENV = "venv"
    """A virtual environment of our own, made by uv or pip."""
    DOCKER = "docker"
    """A container image, run by docker or podman."""
    COMMAND = "command"
    """The user's own launch line."""


class ProvisionConfig(StrictModel):
    """Everything may be left out; what belongs to another way than the chosen one is not looked at."""

    way: ProvisionMethod | None = None
    variant: str | None = Field(default=None, pattern=r"^[a-z0-9]+(\.[a-z0-9]+)*$")
    """cpu, cu129, rocm…, of versions that do not name their own; left out, it follows from the accelerator."""
    python: str | None = None
    """venv: the interpreter that environments are made from; left out, the one that runs the tool."""
    torch_backend: str | None = None
    """venv: uv's name of a torch build; left out, the one that fits the wheel."""
    wheel_index: str | None = Field(default=None, pattern=r"^(https?|file)://")
    """venv: where wheels by commit and variant are; left out, vLLM's own."""
    engine: str | None = None
    """docker: the program, docker or podman; left out, the first that is installed."""
    image: str | None = None
    """docker: another image than vLLM's own, with {version}, {commit} and {variant} put in."""
    gpus: str | None = None
    """docker: all, none, or numbers and UUIDs with commas between."""
    shm_size: str | None = Field(default=None, pattern=r"^(host|[0-9]+[kmgKMG]?)$")
    """docker: shared memory of a container, or `host`."""
    mounts: list[str] = Field(default_factory=list)
    """docker: what else than the model is mounted, read-only and under the same name."""
    command: str | None = None
    """command: the line, with {version}, {port}, {model}, {served_model_name} and {engine_args} put in."""

    def over(self, lower: Self) -> Self:
        """These settings, filled in from the lower ones where they are silent."""
        return lower.model_copy(update=self.model_dump(exclude_defaults=True))


# MERGED regress_gate.model.config: What `regress-gate.toml`, or `[tool.regress-gate]` in pyproject.toml, may hold.


HttpUrl = Annotated[str, StringConstraints(pattern=r"^https?://[^\s<>\"']+$", max_length=500)]


class StoreConfig(StrictModel):
    url: str | None = None
    """SQLAlchemy URL of the store."""


class DefaultsConfig(StrictModel):
    suite: str | None = None
    testbed: str | None = None


class CheckConfig(StrictModel):
    min_release_age_days: StrictInt = Field(default=7, ge=0, le=365)
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
