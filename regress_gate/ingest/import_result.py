"""What `read_paths` returns: the runs, and what was done with each file."""

from dataclasses import dataclass
from enum import StrEnum

from regress_gate.model.run import Run


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
