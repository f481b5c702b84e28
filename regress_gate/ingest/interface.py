"""What a reader of one format is, and what it returns. Not for identity: which version and machine comes later.

Adding a format is adding one module under formats/ with a class of this shape, and one line in registry.py.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from regress_gate.ingest.content import Content
from regress_gate.ingest.import_result import FileOutcome
from regress_gate.measurement.plausibility import RefusalError

if TYPE_CHECKING:
    from regress_gate.model.samples import Samples


@dataclass(frozen=True, slots=True)
class Reading:
    """One result of a file, normalised: metrics by their names in the catalogue, times in seconds."""

    position: int
    """Which result in the file, counted from 0."""
    completed: int | None
    """Requests that succeeded; None where the format does not say."""
    failed: int
    """0 also where the format does not say; `failed_requests` is then no metric of it."""
    duration: float | None
    """Seconds of wall time; None where the format does not say."""
    metrics: Mapping[str, float]
    workload: Mapping[str, Any]
    """What the file says was sent. A key that is not there was not stated; None means without limit. Keys of our own
    (`input_len`, `dataset`) become part of a derived scenario name."""
    definitions: str | None = None
    """A key of `model.definitions.DEFINITIONS`: by whose definitions the metrics were made. Results of different
    definitions are not compared. None: by vLLM's own, as far as is known."""
    started: datetime | None = None
    samples: "Samples | None" = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    """Free keys of the file that may speak of its identity (`--metadata version=…`)."""
    trial: int | None = None
    """Which pass of the workload the file says it is, counted from 1."""
    notes: tuple[str, ...] = ()
    """What a reader of the numbers should know."""


@dataclass(frozen=True, slots=True)
class UnusedResult:
    """One result of a file that must not be used (refused), or is none (a warm-up; skipped)."""

    position: int
    outcome: FileOutcome
    reason: str


class Certainty(IntEnum):
    """How sure a reader is that a content is of its format."""

    NO = 0
    LIKELY = 1
    """It has the shape, but nothing in it that only this tool writes."""
    SURE = 2
    """It has a mark of this tool."""


@dataclass(frozen=True, slots=True)
class Context:
    """What a reader may use besides the content."""

    with_samples: bool = True
    """Whether measurements of single requests are wanted, or statistics alone."""
    client_version: str | None = None
    """By `--client-version`, for formats that can only be read rightly when it is known."""
    beside: Callable[[str], Content | None] = lambda _name: None
    """Another file of the same folder by its name, parsed; None where there is none."""


class Reader(Protocol):
    """Recognises and reads one format. Holds no state."""

    name: str
    """Goes into the source of every trial: `vllm-serve`."""
    tool: str
    """The program that writes the format."""

    bare_constants: bool
    """Whether the tool writes NaN and Infinity without quotes, so that they are no sign of a changed file."""

    @property
    def generations(self) -> Sequence["Generation"]:
        """What of the format is read, for docs/importing.md."""
        ...

    def recognises(self, content: Content) -> Certainty:
        """How sure it is that the content is of this format, usable or not. Fast: it is asked of every file."""
        ...

    def read(self, content: Content, context: Context) -> Sequence[Reading | UnusedResult]:
        """Every result in the content, in its order.

        For what stands in the file it raises nothing but RefusalError, and that only where no result can be told from
        another; a content that it does not recognise (`--from`) is such a case.
        """
        ...


@dataclass(frozen=True, slots=True)
class Generation:
    """A line of the table in docs/importing.md."""

    which: str
    """Releases of the tool, or the file: `0.4 and later`."""
    told_by: str
    """By what it is recognised."""
    read: str
    """Which metrics, and whether single requests."""
    traps: str = ""
    """What means something else than its name says, and what is done about it."""


# MERGED regress_gate.ingest.each: The documents of a file one by one: a refused one does not take the others with
# it.


T = TypeVar("T")


def read_documents(
    documents: Iterable[T], read: Callable[[T, int], Reading | UnusedResult]
) -> list[Reading | UnusedResult]:
    """What `read` makes of each document and its place, or the refusal that it raises."""
    return [_read_one(document, place, read) for place, document in enumerate(documents)]


def _read_one(document: T, place: int, read: Callable[[T, int], Reading | UnusedResult]) -> Reading | UnusedResult:
    try:
        return read(document, place)
    except RefusalError as refusal:
        return UnusedResult(place, FileOutcome.REFUSED, str(refusal))
