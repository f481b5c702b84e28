"""The scope of a known issue: hardware, model, configuration and workload region in which it bites."""

from typing import Annotated

from pydantic import AfterValidator, Field, StringConstraints

from regress_gate.model.deployment import ArgValue, Feature, Platform
from regress_gate.model.documents import StrictModel

Condition = Annotated[str, StringConstraints(pattern=r"^(<=|>=|<|>|==)?\s*\d+(\.\d+)?$")]
"""A bound on one number: `<=8`, `>1024`, `1`."""
Glob = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]
"""A glob pattern, compared without case."""
Globs = Annotated[list[Glob], Field(min_length=1)]
GpuArch = Annotated[str, StringConstraints(pattern=r"^(sm_|gfx)[0-9a-z*?]+$", max_length=20)]
"""`sm_90` or `gfx942`: the level of instructions that a GPU has."""


def _specifiers(text: str) -> str:
    from packaging.specifiers import InvalidSpecifier, SpecifierSet  # hardly any record names a dependency

    try:
        if not SpecifierSet(text):
            raise ValueError("an empty set of versions holds for every version: write a bound")
    except InvalidSpecifier:
        raise ValueError(f"{text!r} is no PEP 440 specifier set: write one like '<0.5.3' or '==3.5.*'") from None
    return text


Specifiers = Annotated[str, StringConstraints(max_length=200), AfterValidator(_specifiers)]
"""A PEP 440 specifier set: `>=0.5,<0.5.3`."""


class WorkloadRegion(StrictModel):
    """The part of the workload space in which an issue bites; keys not given do not matter."""

    concurrency: Condition | None = None
    request_rate: Condition | None = None
    input_len: Condition | None = None
    output_len: Condition | None = None


class ParallelScope(StrictModel):
    """Conditions on the sizes of the parallel groups, and whether experts are spread over them."""

    tensor: Condition | None = None
    pipeline: Condition | None = None
    data: Condition | None = None
    expert: bool | None = None


class BackendScope(StrictModel):
    """Backends as resolved, by the names that the start log prints."""

    attention: Globs | None = None
    moe: Globs | None = None
    sampler: Globs | None = None
    linear: Globs | None = None


class Scope(StrictModel):
    """Every key given must hold; a list means any of. Texts are glob patterns, compared without case."""

    platform: list[Platform] | None = Field(default=None, min_length=1)
    accelerator: list[str] | None = Field(default=None, min_length=1)
    gpu_arch: list[GpuArch] | None = Field(default=None, min_length=1)
    """For evidence that speaks of a level of instructions and not of one card."""
    model: list[str] | None = Field(default=None, min_length=1)
    architecture: Globs | None = None
    """As in the model's `config.json`, where a whole family is hit."""
    features: list[Feature] | None = Field(default=None, min_length=1)
    quantization: list[str] | None = Field(default=None, min_length=1)
    """Of the weights."""
    kv_cache_dtype: Globs | None = None
    moe_quantization: Globs | None = None
    """Of the experts, where it differs from the weights."""
    parallel: ParallelScope | None = None
    backends: BackendScope | None = None
    dependencies: dict[Glob, Specifiers] | None = None
    """Distribution name to the versions of it with which the issue bites."""
    distribution: Globs | None = None
    """Image or fork, where only that one has the issue."""
    engine_args: dict[str, ArgValue | list[ArgValue]] | None = None
    """The argument must be set to this value, or to one of these."""
    env: dict[str, str | list[str]] | None = None
    """The variable must be set to this value, or to one of these."""
    workload: WorkloadRegion | None = None

    @property
    def names_deployment(self) -> bool:
        """Whether any key speaks of the deployment, and not only of what is sent to it."""
        return any(value for name, value in self if name != "workload")
