"""The interface of a format reader, what it returns, and what an import returns. Not for identity: that is found later.

To add a format, add one module under formats/ with a class of this shape, and one line in registry.py.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import IntEnum, StrEnum
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from regress_gate.ingest.content import Content
from regress_gate.measurement import plausibility
from regress_gate.measurement.plausibility import RefusalError
from regress_gate.measurement.totals import LoadTotals, MeasuredRequest
from regress_gate.model.run import Run

if TYPE_CHECKING:
    from regress_gate.model.samples import Samples


class FileOutcome(StrEnum):
    STORED = "stored"
    """Its numbers are in one of the runs."""
    REFUSED = "refused"
    """It must not be used; `reason` explains why."""
    SKIPPED = "skipped"
    """It is not a result, or a copy of one that was read."""


@dataclass(frozen=True, slots=True)
class FileReport:
    """One file, or one result of a file that holds several."""

    path: str
    outcome: FileOutcome
    format: str | None = None
    """Name of the reader; None if no reader recognised it."""
    reason: str | None = None
    """Why it was refused or skipped."""
    notes: tuple[str, ...] = ()
    position: int | None = None
    """Position in the file, counted from 0; None if the file holds one result or could not be read."""
    version: str | None = None
    scenario: str | None = None
    run: str | None = None
    trial: int | None = None
    metrics: tuple[str, ...] = ()

    @property
    def where(self) -> str:
        """The path, and the number of the result (counted from 1) if the file holds several."""
        return self.path if self.position is None else f"{self.path} (result {self.position + 1})"


@dataclass(frozen=True, slots=True)
class ImportResult:
    """Everything that one call read. Nothing is stored yet."""

    runs: tuple[Run, ...]
    files: tuple[FileReport, ...]
    notes: tuple[str, ...] = ()
    """On the whole import, such as how files were grouped into runs."""

    @property
    def complete(self) -> bool:
        """Whether nothing was refused: all results are in the runs."""
        return not any(report.outcome is FileOutcome.REFUSED for report in self.files)


MAX_RESULTS = 20_000
"""Results of one file."""
SIDECAR_NAME = "conditions.json"
"""The file beside results that states facts about their run (`sidecar`)."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One usable result of a file: metrics by catalogue name, times in seconds."""

    position: int
    """Position in the file, counted from 0."""
    completed: int | None
    """Requests that succeeded; None if not stated."""
    failed: int
    """0 also if not stated; there is no metric `failed_requests` then."""
    duration: float | None
    """Seconds of wall time; None if not stated."""
    metrics: Mapping[str, float]
    workload: Mapping[str, Any]
    """What was sent, as far as the file states it; None means without limit. Keys other than those of vLLM's client
    (`input_len`, `dataset`) become part of a derived scenario name."""
    definitions: str | None = None
    """A key of `model.definitions.DEFINITIONS`: the definitions of the metrics. Results of different definitions
    are not compared. None: vLLM's own, as far as is known."""
    started: datetime | None = None
    samples: "Samples | None" = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    """Other keys of the file that may state its identity (`--metadata version=…`)."""
    trial: int | None = None
    """Which pass of the workload it is, counted from 1; None if not stated."""
    notes: tuple[str, ...] = ()
    """Limits of the numbers, for the user."""


@dataclass(frozen=True, slots=True)
class UnusedResult:
    """One result of a file that must not be used (refused) or is not a result (skipped, such as a warm-up)."""

    position: int
    outcome: FileOutcome
    reason: str


class Certainty(IntEnum):
    """How sure a reader is that a file has its format."""

    NO = 0
    LIKELY = 1
    """It has the shape, but no mark that only this tool writes."""
    SURE = 2
    """It has a mark of this tool."""


@dataclass(frozen=True, slots=True)
class Context:
    """What a reader may use besides the content of the file."""

    with_samples: bool = True
    """Whether to keep single requests, or statistics alone."""
    client_version: str | None = None
    """From `--client-version`; some metrics mean different things in different releases of the client."""
    beside: Callable[[str], Content | None] = lambda _name: None
    """Parses another file of the same folder, by its name; None if there is none."""
    exists: Callable[[str], bool] | None = None
    """Whether another file of that name is in the same folder; None: by parsing it."""

    def is_beside(self, name: str) -> bool:
        return self.beside(name) is not None if self.exists is None else self.exists(name)


class Reader(Protocol):
    """Recognises and reads one format. Has no state."""

    name: str
    """Stored as the source of every trial: `vllm-serve`."""
    tool: str
    """The program that writes the format."""

    bare_constants: bool
    """Whether the tool itself writes NaN and Infinity without quotes; otherwise they mean that the file was changed."""

    @property
    def generations(self) -> Sequence["Generation"]:
        """The generations that are read, for docs/importing.md."""
        ...

    def recognises(self, content: Content) -> Certainty:
        """How sure it is that the content has this format, usable or not. Must be fast: every file is shown to it."""
        ...

    def read(self, content: Content, context: Context) -> Sequence[Reading | UnusedResult]:
        """Every result in the content, in order.

        Raises RefusalError, and no other error whatever the file contains, if the results cannot be separated or the
        content is not of this format (`--from`). A single bad result is an UnusedResult instead.
        """
        ...


@dataclass(frozen=True, slots=True)
class Generation:
    """A line of the table in docs/importing.md."""

    which: str
    """Releases of the tool, or the file: `0.4 and later`."""
    recognised_by: str
    read: str
    """Which metrics, and whether single requests."""
    traps: str = ""
    """Names that mislead, and what the reader does about them."""


T = TypeVar("T")


def read_documents(
    documents: Iterable[T], read: Callable[[T, int], Reading | UnusedResult]
) -> list[Reading | UnusedResult]:
    """The result of `read` for each document and its position. A refusal does not affect the other documents.

    Raises RefusalError if there are more than MAX_RESULTS; the rest is not read then.
    """
    results = [_read_one(document, place, read) for place, document in enumerate(islice(documents, MAX_RESULTS + 1))]
    if len(results) > MAX_RESULTS:
        raise RefusalError(f"holds more than {MAX_RESULTS} results; split it")
    return results


def _read_one(document: T, place: int, read: Callable[[T, int], Reading | UnusedResult]) -> Reading | UnusedResult:
    try:
        return read(document, place)
    except RefusalError as refusal:
        return UnusedResult(place, FileOutcome.REFUSED, str(refusal))


# Readings from single requests


def reading_from_requests(
    requests: Sequence[MeasuredRequest],
    failed: int,
    duration: float,
    concurrency: int | None,
    *,
    position: int = 0,
    with_samples: bool = True,
) -> Reading:
    """A reading of another tool's result by vLLM's definitions, with the checks of its client's results.

    `requests` succeeded, `failed` others did not. `duration`: seconds. `concurrency`: None means without limit.
    Raises RefusalError for what cannot be a measurement, such as no success at all.
    """
    # With numpy, which statistics without requests do without.
    from regress_gate.measurement.request_statistics import pass_metrics, statistics_of_requests

    completed = len(requests)
    if not completed:
        raise RefusalError(f"no request succeeded ({failed} failed); look at the server's log")
    if duration <= 0:
        raise RefusalError(f"its duration is {duration:g} s")
    input_tokens = sum(request.input_tokens for request in requests)
    output_tokens = sum(request.output_tokens for request in requests)
    totals = LoadTotals.from_counts(
        completed=completed,
        num_prompts=completed + failed,
        duration=duration,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        max_concurrency=concurrency,
    )
    statistics = statistics_of_requests(requests, failed)
    plausibility.check_counts(totals, failed)
    metrics, notes = pass_metrics(statistics, totals)
    metrics["failed_requests"] = failed / (completed + failed)
    return Reading(
        position=position,
        completed=completed,
        failed=failed,
        duration=duration,
        metrics=metrics,
        workload={
            "max_concurrency": concurrency,
            "num_prompts": completed + failed,
            "mean_input_tokens": input_tokens / completed,
            "mean_output_tokens": output_tokens / completed,
        },
        samples=statistics.samples if with_samples else None,
        notes=(*notes, *plausibility.failure_notes(completed, failed)),
    )
