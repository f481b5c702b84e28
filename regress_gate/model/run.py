"""Measurements: runs and their trials, the source of each result, and the conditions during the measurement.

A run is one fresh server process and the unit of replication. A trial is one pass of a workload inside a run. Trials
and requests of a run are correlated and never independent evidence.
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from regress_gate.model.testbed import Testbed
from regress_gate.model.version import Version

if TYPE_CHECKING:
    from regress_gate.model.samples import Samples


COUNTER_TEST_MARK = "+counter-test"
"""In the version of the suite of a run that was made for a counter-test. No suite file can have it."""


@dataclass(frozen=True, slots=True)
class SuiteRef:
    """Name and version of the suite that a run measured."""

    name: str
    version: str

    def __str__(self) -> str:
        return f"{self.name}@{self.version}"

    @property
    def is_counter_test(self) -> bool:
        """Whether its runs were made for a counter-test: they are no runs of the suite itself."""
        return COUNTER_TEST_MARK in self.version

    def counter_test(self, setting: str = "beside") -> "SuiteRef":
        """What runs of a counter-test are stored under. `setting`: digest of what its server was given; without it, for
        servers beside it that were started as the suite says."""
        return SuiteRef(self.name, f"{self.version}{COUNTER_TEST_MARK}-{setting}")


IMPORTED_SUITE = SuiteRef("imported", "1")
"""The suite of results imported without one: their scenarios are named after the workload in the files."""

AUTO_LABEL_PREFIX = "import-"
"""Prefix of the label of an imported run without a given name."""
FILE_LABEL_PREFIX = "file-"
"""Prefix of the label of a run that is one file."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """The state of the machine during the measurement. None: not recorded."""

    outside_cpu_cores: float | None = None
    """CPU cores used by processes other than server and client, average over the measured time."""
    steal_cpu_cores: float | None = None
    """CPU cores that the hypervisor gave to other machines (steal time)."""
    gpu_throttled: float | None = None
    """Fraction of the samples in which a GPU was slowed by heat, power brake or hardware protection."""
    gpu_clock_mhz: float | None = None
    """SM clock, mean over samples and devices."""
    gpu_power_watts: float | None = None
    """Per device, mean."""
    gpu_temperature_celsius: float | None = None
    """Maximum over samples and devices."""
    gpu_other_processes: float | None = None
    """Processes on the GPUs that are not the server's, maximum at one time."""


@dataclass(frozen=True, slots=True)
class BlockPosition:
    """The position of a run in its experiment."""

    experiment: str
    """Id. One plan made all runs of an experiment, side by side in time."""
    block: int
    """From 1. The runs of a block were made one after the other."""
    position: int
    """In the block, from 1, in the order of server starts."""
    side: str
    """`baseline` or `candidate`; `counter_test` for one of them with another setting; `single` if the plan has only one
    version."""
    resident: bool = False
    """Whether all servers of the block ran at the same time and their trials alternated."""
    cold: bool = False
    """The first start in an environment, with empty caches: its start-up time is a different metric."""
    group: str = "server"
    """Name for the metrics of the run. A suite with several servers has several groups."""
    suite_digest: str | None = None
    """Digest of the suite's content: runs of a suite that was edited under the same version are not compared."""
    way: str | None = None
    """How the version was installed: venv, docker, command."""
    seconds: float | None = None
    """Wall time from the first start to the last stop, divided by the number of runs made together."""
    most_blocks: int | None = None
    """If an interim analysis after each block may end the experiment: the maximum number of blocks, including those
    stored when this one was planned. None: one analysis, after all blocks."""
    locked_clock_mhz: int | None = None
    """What the clocks of the GPUs were locked to; None: this tool locked nothing."""


@dataclass(frozen=True, slots=True)
class RunFailure:
    """A server failure that the version may have caused. A failed run has no trials."""

    kind: str
    """`died_at_start`, `never_ready`, `died_under_load`, `unresponsive`."""
    text: str
    """One line: what happened."""
    lines: tuple[str, ...] = ()
    """Lines of the server's log; the first is the most likely cause."""
    seconds: float | None = None
    """Time after the start."""


@dataclass(frozen=True, slots=True)
class TrialSource:
    """The source of a trial's numbers. The pair (sha256, position) is its permanent identity."""

    sha256: str
    """Hash of the file's bytes, 64 hexadecimal digits."""
    position: int
    """Index of the result in the file, from 0."""
    path: str
    """Path as given to the import; for people, not an identity."""
    format: str
    """Name of the reader, for example `vllm-serve`."""
    imported_at: datetime
    tool: str | None = None
    """Program that made the file (`vllm bench serve`)."""
    client_version: str | None = None
    command: str | None = None
    """Command line that made the file, if known."""


@dataclass(frozen=True, slots=True)
class Trial:
    scenario: str
    ordinal: int
    """Number of the pass of this scenario in the run, from 1."""
    completed: int | None
    """Successful requests; None if the source has no count."""
    failed: int
    duration: float | None
    """Seconds of wall time."""
    metrics: Mapping[str, float]
    """By metric name, in the units of the catalogue; without per-run metrics."""
    workload: Mapping[str, Any]
    """The sent workload, from the source: model, request_rate (None: unlimited), max_concurrency, num_prompts,
    burstiness, mean_input_tokens, mean_output_tokens…"""
    source: TrialSource
    conditions: Conditions = Conditions()
    started: datetime | None = None
    server_metrics: Mapping[str, float] = field(default_factory=dict)
    """What the server counted meanwhile, by the names of `vllm.server_metrics.metrics_window`; empty: not known."""
    samples: "Samples | None" = None
    """Per-request measurements, if the source has them and they were requested."""

    @property
    def requests(self) -> int | None:
        """Sent requests; None if the source has no count of successes."""
        return None if self.completed is None else self.completed + self.failed


@dataclass(frozen=True, slots=True)
class RunKey:
    """The identity of a run: results with the same key are of the same server process."""

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
    """Versions of libraries installed with the build: torch, triton, flashinfer, transformers…"""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Per-run metrics: startup_time, peak_memory, kv_cache_tokens."""
    place: BlockPosition | None = None
    """None for runs made without a plan of this tool."""
    failure: RunFailure | None = None
    void: str | None = None
    """Why the run does not count, if that was known when it was made: kept, shown, never averaged in."""
    server: Mapping[str, Any] = field(default_factory=dict)
    """Facts from the server's start log: resolved configuration, backends, parts of the start-up time."""
    outputs: "Outputs | None" = None
    """Answers to the fixed prompts, if they were sent."""
    id: int | None = None
    """Id in the user's store (`run:17`); None for shipped runs."""

    @property
    def key(self) -> RunKey:
        return RunKey(self.version, self.testbed.name, self.suite, self.label)

    @property
    def session(self) -> object:
        """What was measured together: its experiment or its day. None if unknown."""
        return session_of(self.place, self.started)


def session_of(place: BlockPosition | None, started: datetime | None) -> object:
    """See `Run.session`."""
    if place is not None:
        return place.experiment
    return None if started is None else started.date()


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one prompt. All tuples have one item per token, in order."""

    prompt: str
    """Name of the prompt in the set."""
    tokens: tuple[str, ...]
    """Names given by the server; for one tokenizer, equal names are equal tokens."""
    logprobs: tuple[float | None, ...]
    """Natural logarithm of each token's probability; None if it is not a number. Empty: the server gives none."""
    prompt_logprobs: tuple[float | None, ...] = ()
    """Of the prompt's tokens after the first: both sides have the same text, so differences do not accumulate."""
    prompt_tokens: tuple[str, ...] = ()
    """These tokens: another tokenizer splits the same text differently."""
    alternatives: tuple[Mapping[str, float], ...] = ()
    """For each token of the answer, the most likely candidates with their log-probabilities."""
    error: str | None = None
    """Why there is no answer, in one line. An answer with an error has no tokens."""


@dataclass(frozen=True, slots=True)
class Outputs:
    """Greedy answers to a fixed set of prompts: evidence of whether an upgrade changed the output."""

    prompt_set: str
    """Name and version of the set. Answers to different sets are not compared."""
    answers: tuple[Answer, ...]

    def as_document(self) -> dict[str, Any]:
        return {"prompt_set": self.prompt_set, "answers": [_answer_document(answer) for answer in self.answers]}

    @classmethod
    def from_document(cls, data: Mapping[str, Any]) -> "Outputs":
        """The inverse of `as_document`. Raises KeyError, TypeError or ValueError for anything else."""
        return cls(str(data["prompt_set"]), tuple(_answer_from(dict(answer)) for answer in data["answers"]))


def _answer_document(answer: Answer) -> dict[str, Any]:
    document: dict[str, Any] = {
        "prompt": answer.prompt,
        "tokens": list(answer.tokens),
        "logprobs": list(answer.logprobs),
        "prompt_logprobs": list(answer.prompt_logprobs),
    }
    # Optional parts are left out if empty.
    if answer.prompt_tokens:
        document["prompt_tokens"] = list(answer.prompt_tokens)
    if answer.alternatives:
        document["alternatives"] = [dict(each) for each in answer.alternatives]
    if answer.error is not None:
        document["error"] = answer.error
    return document


def _answer_from(data: Mapping[str, Any]) -> Answer:
    error = data.get("error")
    return Answer(
        str(data["prompt"]),
        _token_names(data["tokens"]),
        _log_probabilities(data["logprobs"]),
        _log_probabilities(data["prompt_logprobs"]),
        _token_names(data.get("prompt_tokens") or ()),
        tuple(_by_token(each) for each in data.get("alternatives") or ()),
        None if error is None else str(error),
    )


def _token_names(values: Any) -> tuple[str, ...]:
    return tuple(str(value) for value in values)


def _log_probabilities(values: Any) -> tuple[float | None, ...]:
    read = tuple(None if value is None else float(value) for value in values)
    _check_finite([value for value in read if value is not None])
    return read


def _by_token(values: Any) -> dict[str, float]:
    read = {str(token): float(value) for token, value in dict(values).items()}
    _check_finite(read.values())
    return read


def _check_finite(values: Collection[float]) -> None:
    if not all(map(math.isfinite, values)):
        raise ValueError(f"{next(value for value in values if not math.isfinite(value))} is not a log-probability")
