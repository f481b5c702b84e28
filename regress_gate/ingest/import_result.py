"""What an import did with each file: the values that read_paths returns beside the runs."""

from dataclasses import dataclass
from enum import StrEnum

from regress_gate.model.run import Run


class FileOutcome(StrEnum):
    STORED = "stored"
    """Its numbers are in one of the runs."""
    REFUSED = "refused"
    """It must not be used; the reason says why."""
    SKIPPED = "skipped"
    """It is no result, or one that is read already."""


@dataclass(frozen=True, slots=True)
class FileReport:
    """One file, or one result of a file that holds several."""

    path: str
    outcome: FileOutcome
    format: str | None = None
    """Name of the reader; None where none recognised it."""
    reason: str | None = None
    """Why it was refused or skipped."""
    notes: tuple[str, ...] = ()
    position: int | None = None
    """Which result, counted from 0; None where the file holds one, or could not be read at all."""
    version: str | None = None
    scenario: str | None = None
    run: str | None = None
    trial: int | None = None
    metrics: tuple[str, ...] = ()

    @property
    def where(self) -> str:
        """The path, and which result in it (counted from 1) where it holds several."""
        return self.path if self.position is None else f"{self.path} (result {self.position + 1})"


@dataclass(frozen=True, slots=True)
class ImportResult:
    """Everything one call read. Nothing is stored by it."""

    runs: tuple[Run, ...]
    files: tuple[FileReport, ...]
    notes: tuple[str, ...] = ()
    """What holds for the whole import, such as how files were grouped into runs."""

    @property
    def complete(self) -> bool:
        """Whether nothing was refused: everything that is a result is in the runs."""
        return not any(report.outcome is FileOutcome.REFUSED for report in self.files)
