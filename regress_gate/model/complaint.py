"""What a lint says of a file that people write: records of known issues, suites. Not for errors that stop a command."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from regress_gate.model.documents import Location

Level = Literal["error", "warning"]
Found = tuple[Location, str, Level]
"""Where in the document, what is wrong, how bad."""


@dataclass(frozen=True, slots=True)
class Complaint:
    file: Path
    line: int | None
    what: str
    severity: Level

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line is not None else str(self.file)
        return f"{place}: {self.severity}: {self.what}"
