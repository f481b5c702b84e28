"""`conditions.json`: facts about a run that the result files beside it do not state, written by a measuring script.

The format is regress-gate's own, described in docs/importing.md. It is never a result itself. This module needs
pydantic, so it is imported only if there is such a file.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Annotated

import orjson
from pydantic import ConfigDict, Field

from regress_gate.errors import InputError
from regress_gate.ingest.interface import SIDECAR_NAME
from regress_gate.model.documents import Document, StrictModel, validate

MAX_SIDECAR_BYTES = 1024 * 1024
MAX_UNIX_TIME = 253_402_300_800
"""The year 10000."""

Positive = Annotated[float, Field(gt=0)]
Cores = Annotated[float, Field(ge=0)]


class TestbedFacts(StrictModel):
    """A testbed and its known facts; the fields of model.testbed.Testbed."""

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
    """The content: one server run. All fields are optional; null means not recorded."""

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
    """The same for each result file, by its name with or without `.json`."""
    steal_cpu_cores_mean: Cores | None = None
    """CPU cores that the machine's host gave to others, on average over the run."""
    gpu_throttled: Annotated[float, Field(ge=0, le=1)] | None = None
    """Fraction of the run in which a GPU was slowed by heat, power brake or hardware protection."""
    gpu_other_processes: Annotated[int, Field(ge=0)] | None = None
    """Processes on the GPUs that were not the server's, maximum at one time."""
    memory_mb_total: Positive | None = None
    """Largest memory use of the server, summed over its processes, in units of 1e6 bytes."""
    libraries: dict[str, str] = Field(default_factory=dict)
    """Versions of torch, triton, transformers…"""


@dataclass(frozen=True, slots=True)
class SidecarFile:
    """A sidecar and its path."""

    path: Path
    content: Sidecar


def read_sidecar(path: Path, opened: Callable[[], IO[bytes]]) -> SidecarFile:
    """Read and validate a sidecar. Raises InputError that names the file."""
    try:
        with opened() as file:
            data = file.read(MAX_SIDECAR_BYTES + 1)
        if len(data) > MAX_SIDECAR_BYTES:
            raise InputError("larger than 1 MiB", where=path, todo=f"only run conditions belong in {SIDECAR_NAME}")
        document = Document(orjson.loads(data), path, {})
    except OSError as error:
        raise InputError(f"not readable: {error.strerror}", where=path) from None
    except orjson.JSONDecodeError as error:
        raise InputError(f"not valid JSON: {error.msg}", where=path, line=error.lineno) from None
    return SidecarFile(path, validate(Sidecar, document))
