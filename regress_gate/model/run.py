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
    from regress_gate.model.outputs import Outputs
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

AUTO_LABEL_PREFIX = "import-"
"""Begins the label of a run of results that were imported together, where nobody named the run."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """What the machine was doing meanwhile. None: not recorded."""

    outside_cpu_cores: float | None = None
    """CPU cores kept busy by processes other than server and client, averaged over the measured time."""
    steal_cpu_cores: float | None = None
    """CPU cores that the hypervisor gave to others while we wanted them."""
    gpu_throttled: float | None = None
    """Share of the samples in which a GPU was slowed by heat, power brake or hardware protection."""
    gpu_clock_mhz: float | None = None
    """SM clock, mean over samples and devices."""
    gpu_power_watts: float | None = None
    """Per device, mean."""
    gpu_temperature_celsius: float | None = None
    """The hottest that a device was seen."""
    gpu_other_processes: float | None = None
    """Processes on our GPUs that are not the server's, the most at once."""


@dataclass(frozen=True, slots=True)
class BlockPosition:
    """Where a run stands in the experiment that it was made for."""

    experiment: str
    """Runs of one experiment were made by one plan, side by side in time."""
    block: int
    """From 1. The runs of a block were made next to each other."""
    position: int
    """In the block, from 1, by the moment of the server's start."""
    side: str
    """`baseline` or `candidate`; `single` where the plan has one version only."""
    resident: bool = False
    """Whether all servers of the block were up at once and their trials took turns."""
    cold: bool = False
    """The first start in an environment: caches were empty, so its start-up time is another metric."""
    group: str = "server"
    """Under which the run's own metrics are reported; a suite that wants several servers has several."""
    suite_digest: str | None = None
    """Of what the suite said; runs of a suite that was edited under the same version are not compared."""
    way: str | None = None
    """How the version was got: venv, docker, command."""
    seconds: float | None = None
    """Wall time from the first start to the last stop, shared out over the runs that were made together."""
    most_blocks: int | None = None
    """Where the decision is asked for after every block and may end the experiment: the blocks that it can rest on at
    most, with those that were stored when this one was planned. None: looked at once, when all blocks are made."""


@dataclass(frozen=True, slots=True)
class RunFailure:
    """A server that failed where it could have been the version's doing. A failed run has no trials."""

    kind: str
    """`died_at_start`, `never_ready`, `died_under_load`, `unresponsive`."""
    text: str
    """One line: what happened."""
    lines: tuple[str, ...] = ()
    """Why, in the server's own words; the first is the likeliest cause."""
    seconds: float | None = None
    """After the start."""


@dataclass(frozen=True, slots=True)
class TrialSource:
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
    completed: int | None
    """Requests that succeeded; None where the source does not say."""
    failed: int
    duration: float | None
    """Seconds of wall time."""
    metrics: Mapping[str, float]
    """By metric name, in the units of the catalogue; per-run metrics are not here."""
    workload: Mapping[str, Any]
    """What the source says was sent: model, request_rate (None: unlimited), max_concurrency, num_prompts,
    burstiness, mean_input_tokens, mean_output_tokens…"""
    source: TrialSource
    conditions: Conditions = Conditions()
    started: datetime | None = None
    samples: "Samples | None" = None
    """Per-request measurements where the source has them and they were asked for."""

    @property
    def requests(self) -> int | None:
        """Sent in all; None where the source does not say how many succeeded."""
        return None if self.completed is None else self.completed + self.failed


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
    place: BlockPosition | None = None
    """None for runs that no plan of ours made."""
    failure: RunFailure | None = None
    void: str | None = None
    """Why it does not count, where that was known when it was made: kept, shown, never averaged in."""
    server: Mapping[str, Any] = field(default_factory=dict)
    """What the server said of itself when it started: resolved configuration, backends, where start-up time went."""
    outputs: "Outputs | None" = None
    """What it answered to the fixed prompts, where they were asked."""
    id: int | None = None
    """Number in the user's store (`run:17`); None for shipped runs."""

    @property
    def key(self) -> RunKey:
        return RunKey(self.version, self.testbed.name, self.suite, self.label)
