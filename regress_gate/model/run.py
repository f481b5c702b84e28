"""What was measured: runs, their trials, where each number came from, and the conditions it was made under.

A run is one fresh server process and the unit of replication. A trial is one pass of a workload inside a run;
trials and requests share the run's luck and are never independent evidence.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from regress_gate.model.testbed import Testbed
from regress_gate.model.version import Version

if TYPE_CHECKING:
    from regress_gate.model.samples import Samples


@dataclass(frozen=True, slots=True)
class SuiteRef:
    """Which suite, in which version, a run measured."""

    name: str
    version: str

    def __str__(self) -> str:
        return f"{self.name}@{self.version}"


IMPORTED_SUITE = SuiteRef("imported", "1")
"""The suite of results that were imported without one: scenarios are named by what the files say of the workload."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """What the machine was doing meanwhile. None: not recorded."""

    outside_cpu_cores: float | None = None
    """CPU cores kept busy by processes other than server and client, averaged over the measured time."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where a trial's numbers came from. The pair (sha256, position) identifies it for ever."""

    sha256: str
    """Hash of the file's bytes, 64 hexadecimal digits."""
    position: int
    """Which result in the file, counted from 0."""
    path: str
    """As given to the import; for people, not an identity."""
    format: str
    """Name of the reader, for example `vllm-serve`."""
    imported_at: datetime
    tool: str | None = None
    """Program that made the file (`vllm bench serve`)."""
    client_version: str | None = None
    command: str | None = None
    """Command line that made the file, where it is known."""


@dataclass(frozen=True, slots=True)
class Trial:
    scenario: str
    ordinal: int
    """Which pass of this scenario in its run, counted from 1."""
    completed: int
    failed: int
    duration: float | None
    """Seconds of wall time."""
    metrics: Mapping[str, float]
    """By metric name, in the units of the catalogue; per-run metrics are not here."""
    workload: Mapping[str, Any]
    """What the source says was sent: model, request_rate (None: unlimited), max_concurrency, num_prompts,
    burstiness, mean_input_tokens, mean_output_tokens…"""
    source: Source
    conditions: Conditions = Conditions()
    started: datetime | None = None
    samples: "Samples | None" = None
    """Per-request measurements where the source has them and they were asked for."""

    @property
    def requests(self) -> int:
        return self.completed + self.failed


@dataclass(frozen=True, slots=True)
class RunKey:
    """What identifies a run: two sources that give the same key speak of the same server process."""

    version: Version
    testbed: str
    suite: SuiteRef
    label: str
    """Unique among the runs of this version, testbed and suite."""


@dataclass(frozen=True, slots=True)
class Run:
    version: Version
    testbed: Testbed
    suite: SuiteRef
    label: str
    trials: tuple[Trial, ...]
    started: datetime | None = None
    conditions: Conditions = Conditions()
    libraries: Mapping[str, str] = field(default_factory=dict)
    """Versions of what came with the build: torch, triton, flashinfer, transformers…"""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Per-run metrics: startup_time, peak_memory, kv_cache_tokens."""
    id: int | None = None
    """Number in the user's store (`run:17`); None for shipped runs."""

    @property
    def key(self) -> RunKey:
        return RunKey(self.version, self.testbed.name, self.suite, self.label)
