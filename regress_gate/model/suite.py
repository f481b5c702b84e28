"""Suites: a named, versioned, fixed list of scenarios. Results of different suite versions are not compared."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints, field_validator, model_validator

from regress_gate.model.deployment import ArgValue, Deployment
from regress_gate.model.documents import Real, StrictModel, Whole
from regress_gate.model.policy import PolicyOverrides

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=80)]


class ServerConfig(StrictModel):
    """How the server of a scenario is started."""

    model: str
    engine_args: dict[str, ArgValue] = Field(default_factory=dict)
    env: dict[str, str] = Field(default_factory=dict)


class Slo(StrictModel):
    """What a request must reach to count as good, in seconds; None: no demand."""

    ttft: Real | None = Field(default=None, gt=0)
    tpot: Real | None = Field(default=None, gt=0)
    e2el: Real | None = Field(default=None, gt=0)


class Workload(StrictModel):
    """What is sent. Lengths in tokens, rate in requests per second (None: as fast as the concurrency allows)."""

    dataset: str = "random"
    input_len: Whole | None = Field(default=None, ge=1)
    output_len: Whole | None = Field(default=None, ge=1)
    concurrency: Whole | None = Field(default=None, ge=1)
    request_rate: Real | None = Field(default=None, gt=0)
    num_requests: Whole | None = Field(default=None, ge=1)
    seed: Whole | None = None
    arrival: Literal["poisson", "constant"] = "poisson"
    """How the requests of a request rate are spread in time."""
    prefix_len: Whole = Field(default=0, ge=0)
    """Tokens at the beginning that all prompts have in common, as part of the input length."""
    warmup_requests: Whole = Field(default=0, ge=0)
    """Sent before and left out of the results."""
    slo: Slo | None = None


class Scenario(StrictModel):
    name: Name
    why: str | None = None
    """Why the scenario is in the suite."""
    server: ServerConfig
    workload: Workload


class ConditionLimits(StrictModel):
    """Conditions beyond which a run is void: kept and shown, never averaged in."""

    max_outside_cpu_cores: Real | None = Field(default=None, ge=0)
    """CPU cores kept busy, on average over the run, by processes other than server and client."""


class Suite(StrictModel):
    name: Name
    version: Name
    description: str
    notice: str | None = None
    """Said wherever results of this suite are reported."""
    accelerator: str | None = None
    """The accelerator that the suite is made for; known issues are matched against it where the user is silent."""
    scenarios: list[Scenario] = Field(min_length=1)
    conditions: ConditionLimits = ConditionLimits()
    gate: PolicyOverrides = PolicyOverrides()
    """What this suite changes in the default policy; the user's own policy goes over it."""

    @field_validator("version", mode="before")
    @classmethod
    def _as_text(cls, version: object) -> object:
        return str(version) if type(version) is int else version

    @model_validator(mode="after")
    def _unique_names(self) -> "Suite":
        names = [scenario.name for scenario in self.scenarios]
        if repeated := {name for name in names if names.count(name) > 1}:
            raise ValueError(f"scenario {min(repeated)!r} is given twice")
        return self

    def deployment(self) -> Deployment:
        """What all scenarios have in common, as far as known issues are matched against it."""
        first, *others = (scenario.server for scenario in self.scenarios)
        return Deployment(
            accelerator=self.accelerator,
            model=first.model if all(server.model == first.model for server in others) else None,
            engine_args={
                key: value
                for key, value in first.engine_args.items()
                if all(key in server.engine_args and server.engine_args[key] == value for server in others)
            },
            env={k: v for k, v in first.env.items() if all(server.env.get(k) == v for server in others)},
        )
