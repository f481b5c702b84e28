"""The keys of `regress-gate.toml`, or of `[tool.regress-gate]` in pyproject.toml. Not for finding or merging files."""

from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints

from regress_gate.model.deployment import Deployment
from regress_gate.model.documents import StrictFloat, StrictInt, StrictModel
from regress_gate.model.policy import PolicyOverrides, Waiver


class ProvisionMethod(StrEnum):
    """How a vLLM version is installed."""

    VENV = "venv"
    """A virtual environment, created by uv or pip."""
    DOCKER = "docker"
    """A container image, run by docker or podman."""
    COMMAND = "command"
    """The user's own launch line."""


class ProvisionConfig(StrictModel):
    """`[provision]`: how versions are installed. Every key is optional; keys of another method are ignored."""

    way: ProvisionMethod | None = None
    variant: str | None = Field(default=None, pattern=r"^[a-z0-9]+(\.[a-z0-9]+)*$")
    """cpu, cu129, rocm…, for versions that do not name a variant; default: follows from the accelerator."""
    python: str | None = None
    """venv: the interpreter of new environments; default: the one that runs the tool."""
    torch_backend: str | None = None
    """venv: uv's name of a torch build; default: the one that fits the wheel."""
    wheel_index: str | None = Field(default=None, pattern=r"^(https?|file)://")
    """venv: the index of wheels by commit and variant; default: vLLM's own."""
    engine: str | None = None
    """docker: the program, docker or podman; default: the first that is installed."""
    image: str | None = None
    """docker: an image instead of vLLM's own; {version}, {commit} and {variant} are replaced."""
    gpus: str | None = None
    """docker: all, none, or numbers and UUIDs separated by commas."""
    shm_size: str | None = Field(default=None, pattern=r"^(host|[0-9]+[kmgKMG]?)$")
    """docker: shared memory of a container, or `host`."""
    mounts: list[str] = Field(default_factory=list)
    """docker: paths to mount besides the model, read-only and under the same name."""
    command: str | None = None
    """command: the line; {version}, {port}, {model}, {served_model_name} and {engine_args} are replaced."""

    def over(self, lower: Self) -> Self:
        """These settings; keys that are not set are taken from `lower`."""
        return lower.model_copy(update=self.model_dump(exclude_defaults=True))


GpuHour = Annotated[StrictFloat, Field(gt=0, le=1e6, allow_inf_nan=False)]
HttpUrl = Annotated[str, StringConstraints(pattern=r"^https?://[^\s<>\"']+$", max_length=500)]


class StoreConfig(StrictModel):
    url: str | None = None
    """SQLAlchemy URL of the store."""


class DefaultsConfig(StrictModel):
    suite: str | None = None
    testbed: str | list[str] | None = None
    """A name; for `compare` also a pattern, or several of both."""


class DeploymentConfig(Deployment):
    """`[deployment]`: what known issues are matched with."""

    file: str | None = None
    """Docker run line, Compose file, manifests, Helm values, Dockerfile or systemd unit, which goes before the other
    keys; FILE#NAME for one server of several."""

    @property
    def facts(self) -> Deployment:
        """The keys that are facts themselves."""
        return Deployment.model_validate(self.model_dump(exclude={"file"}))


class CheckConfig(StrictModel):
    min_release_age_days: StrictInt = Field(default=7, ge=0, le=365)
    """`check --recommend` skips younger releases."""
    release_index: HttpUrl | None = None
    """URL of vllm's JSON document on your package index: lists releases that are newer than this program."""


class CostConfig(StrictModel):
    """`[cost]`: what a measured throughput is worth."""

    gpu_hour: GpuHour | None = None
    """Price of one GPU for an hour, in any currency."""


class WatchConfig(StrictModel):
    """`[watch]`: what the watch follows, and whom it tells."""

    channels: list[Literal["release", "candidate", "nightly"]] = Field(default=["release", "nightly"], min_length=1)
    """Builds to look at."""
    every_days: StrictInt = Field(default=7, ge=1, le=365)
    """A look is overdue after one and a half times this."""
    nightly_max_age_days: StrictInt = Field(default=3, ge=1, le=365)
    """An older nightly is an alarm: nothing new is built, or the index lags."""
    image: str | None = Field(default=None, pattern=r"^[\w.-]+(:[0-9]{1,5})?(/[\w.-]+)+$")
    """Repository of containers (`vllm/vllm-openai`) whose newest nightly image is looked at; default: the newest
    wheel."""
    repository: str | None = Field(default=None, pattern=r"^[\w.-]+/[\w.-]+$")
    """`owner/name` for tracking issues; default: the repository of the workflow."""
    dashboard: HttpUrl | None = None
    """Linked from issues and notifications."""


class Config(StrictModel):
    store: StoreConfig = StoreConfig()
    defaults: DefaultsConfig = DefaultsConfig()
    deployment: DeploymentConfig = DeploymentConfig()
    provision: ProvisionConfig = ProvisionConfig()
    check: CheckConfig = CheckConfig()
    cost: CostConfig = CostConfig()
    watch: WatchConfig = WatchConfig()
    gate: PolicyOverrides = PolicyOverrides()
    waivers: list[Waiver] = Field(default_factory=list)
