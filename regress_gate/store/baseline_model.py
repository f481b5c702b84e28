"""Pydantic models of an exported baseline file: they check a file that may have been edited.

`baseline_file` converts them to runs. It also checks the rows of samples, and only when they are needed.
"""

from datetime import datetime
from typing import Annotated, Any

from pydantic import BeforeValidator, ConfigDict, Field

from regress_gate.errors import InputError
from regress_gate.model.documents import StrictModel
from regress_gate.model.version import Version
from regress_gate.store import stored_values


def _time(value: object) -> object:
    return stored_values.time_from(value) if isinstance(value, str) else value


def _number(value: object) -> object:
    """Refuse a version number in another form than regress-gate writes: PEP 440, normalised, without a local part."""
    if isinstance(value, str):
        try:
            normal = Version.parse(value)
        except InputError as error:
            raise ValueError(error.what) from None
        if normal != Version(value):
            raise ValueError(f"{value!r} is not a version in its normal form ({normal.number})")
    return value


Time = Annotated[datetime, BeforeValidator(_time)]
Count = Annotated[int, Field(ge=0, lt=2**63)]


class Part(StrictModel):
    """No value is converted: an export writes every value with its right type."""

    model_config = ConfigDict(strict=True)


class VersionPart(Part):
    number: Annotated[str, BeforeValidator(_number)] | None = None
    commit: Annotated[str, Field(pattern=r"^[0-9a-f]{7,40}$")] | None = None
    variant: str | None = None


class TestbedPart(Part):
    __test__ = False

    name: str
    accelerator: str | None = None
    accelerator_count: int | None = None
    driver: str | None = None
    cpu: str | None = None
    cpu_count: int | None = None
    memory_bytes: int | None = None
    os: str | None = None
    python: str | None = None
    accelerator_sm: str | None = None
    accelerator_memory_bytes: int | None = None
    accelerator_max_clock_mhz: int | None = None
    accelerator_power_limit_watts: int | None = None


class SuitePart(Part):
    name: str
    version: str


class ConditionsPart(Part):
    outside_cpu_cores: float | None = None
    steal_cpu_cores: float | None = None
    gpu_throttled: float | None = None
    gpu_clock_mhz: float | None = None
    gpu_power_watts: float | None = None
    gpu_temperature_celsius: float | None = None
    gpu_other_processes: float | None = None


class PlacePart(Part):
    experiment: str
    block: int
    position: int
    side: str
    resident: bool
    cold: bool
    group: str
    suite_digest: str | None = None
    way: str | None = None
    seconds: float | None = None
    most_blocks: Count | None = None
    locked_clock_mhz: Count | None = None


class FailurePart(Part):
    kind: str
    text: str
    lines: list[str]
    seconds: float | None


class MeasuredPart(Part):
    place: PlacePart | None = None
    failure: FailurePart | None = None
    void: str | None = None
    server: dict[str, Any] = Field(default_factory=dict)


class SourcePart(Part):
    sha256: str
    position: Count
    path: str
    format: str
    imported_at: Time
    tool: str | None = None
    client_version: str | None = None
    command: str | None = None


class SamplesPart(Part):
    columns: list[str]
    requests: list[Any]


class TrialPart(Part):
    scenario: str
    ordinal: Count
    completed: Count | None = None
    failed: Count
    duration: float | None = None
    started: Time | None = None
    conditions: ConditionsPart = ConditionsPart()
    workload: dict[str, Any]
    metrics: dict[str, float]
    server_metrics: dict[str, float] = Field(default_factory=dict)
    source: SourcePart
    samples: SamplesPart | None = None


class RunPart(Part):
    label: str
    started: Time | None = None
    conditions: ConditionsPart = ConditionsPart()
    libraries: dict[str, str]
    metrics: dict[str, float]
    measured: MeasuredPart = MeasuredPart()
    outputs: dict[str, Any] | None = None
    trials: list[TrialPart]


class BaselineFile(Part):
    format: str = Field(alias="schema")
    note: str
    version: VersionPart
    testbed: TestbedPart
    suite: SuitePart
    runs: list[RunPart]
