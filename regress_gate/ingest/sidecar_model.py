"""The fields of `conditions.json`. Apart from sidecar.py, as it needs pydantic, which most imports can do without."""

from typing import Annotated

from pydantic import ConfigDict, Field

from regress_gate.model.documents import StrictModel

MAX_UNIX_TIME = 253_402_300_800
"""The year 10000."""

Positive = Annotated[float, Field(gt=0)]
Cores = Annotated[float, Field(ge=0)]


class TestbedFacts(StrictModel):
    """A testbed with what is known of it; the fields of model.testbed.Testbed."""

    __test__ = False
    model_config = ConfigDict(strict=True)

    name: str
    accelerator: str | None = None
    accelerator_count: Annotated[int, Field(ge=0)] | None = None
    driver: str | None = None
    cpu: str | None = None
    cpu_count: Annotated[int, Field(ge=1)] | None = None
    memory_bytes: Annotated[int, Field(ge=1)] | None = None
    os: str | None = None
    python: str | None = None


class Sidecar(StrictModel):
    """One server run. Everything may be left out; null means: not recorded."""

    model_config = ConfigDict(strict=True)

    version: str | None = None
    run: int | str | None = None
    testbed: str | TestbedFacts | None = None
    suite: str | None = None
    """`NAME@VERSION`."""
    started_unix: Annotated[float, Field(gt=0, lt=MAX_UNIX_TIME)] | None = None
    """When the server was started, in seconds since 1970 UTC."""
    startup_s: Positive | None = None
    """Seconds from the start of the process until it was ready."""
    client: str | None = None
    """Name and version of the load generator."""
    outside_cpu_cores_mean: Cores | None = None
    """CPU cores that processes other than server and client kept busy, on average over the run."""
    outside_cpu_cores: dict[str, Cores | None] = Field(default_factory=dict)
    """The same for each result file, by its name without `.json`."""
    memory_mb_total: Positive | None = None
    """Largest memory use of the server, summed over its processes, in units of 1e6 bytes."""
    libraries: dict[str, str] = Field(default_factory=dict)
    """Versions of torch, triton, transformers…"""
