"""What `ci versions --format json` wrote: which pin of a vLLM version moved, in which file and line.

The file may come from a fork. Only what is needed is read: whether anything moved, and one place for annotations.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from regress_gate.errors import InputError
from regress_gate.report.findings import Location

MAX_BYTES = 1024 * 1024
_Text = Annotated[str, Field(max_length=4096)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)


class MovedPin(_Part):
    file: _Text
    line: Annotated[int, Field(ge=1, le=10_000_000)]


class MovedPins(_Part):
    """The keys of `ci versions` that are used here."""

    baseline: _Text | None = None
    candidate: _Text | None = None
    moved: Annotated[list[MovedPin], Field(max_length=10_000)] = Field(default_factory=list)
    why: _Text = ""

    @property
    def place(self) -> Location | None:
        """The first pin that moved, if its path is one that a repository can have."""
        for pin in self.moved:
            parts = pin.file.split("/")
            is_inside = pin.file.isprintable() and ".." not in parts and all(parts) and not pin.file.startswith("-")
            if is_inside and len(pin.file) <= 1024:
                return Location(pin.file, pin.line)
        return None


def read_moved_pins(content: bytes, where: str) -> MovedPins:
    """Raises InputError for anything that `ci versions` did not write."""
    todo = "make it with `regress-gate ci versions --format json`"
    if len(content) > MAX_BYTES:
        raise InputError(f"is larger than {MAX_BYTES >> 20} MiB", where=where, todo=todo)
    try:
        return MovedPins.model_validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise InputError(f"{place or 'the file'}: {first['msg']}", where=where, todo=todo) from None
