"""What a reader of one format is, and what it returns. Not for identity: which version and machine comes later.

Adding a format is adding one module with a class of this shape, and one line in registry.py.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from regress_gate.ingest.content import Content
from regress_gate.ingest.reports import Outcome
from regress_gate.model.samples import Samples


class RefusalError(Exception):
    """This result must not be used. `str()` of it is the reason: what is wrong and what to do."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One result of a file, normalised: metrics by their names in the catalogue, times in seconds."""

    position: int
    """Which result in the file, counted from 0."""
    completed: int
    failed: int
    duration: float
    """Seconds of wall time."""
    metrics: Mapping[str, float]
    workload: Mapping[str, Any]
    """What the file says was sent. A key that is not there was not stated; None means without limit."""
    started: datetime | None = None
    samples: Samples | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    """Free keys of the file that may speak of its identity (`--metadata version=…`)."""
    trial: int | None = None
    """Which pass of the workload the file says it is, counted from 1."""
    notes: tuple[str, ...] = ()
    """What a reader of the numbers should know."""


@dataclass(frozen=True, slots=True)
class NoReading:
    """One result of a file that must not be used (refused), or is none (a warm-up; skipped)."""

    position: int
    outcome: Outcome
    reason: str


class Reader(Protocol):
    """Recognises and reads one format. Holds no state."""

    name: str
    """Goes into the source of every trial: `vllm-serve`."""
    tool: str
    """The program that writes the format."""

    def recognises(self, content: Content) -> bool:
        """Whether the content is of this format, usable or not."""
        ...

    def read(self, content: Content, *, with_samples: bool) -> Sequence[Reading | NoReading]:
        """Every result in the content, in its order. Never raises for what stands in the file."""
        ...
