"""What GitHub said, on disk: one small file per address, with what is needed to ask whether it still holds.

An entry that is damaged, too large or of another form counts as not there, and is fetched again. Entries are replaced
as a whole. A cache that cannot be written costs speed, never a result.
"""

import hashlib
import os
import tempfile
import time
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

FORM = 1
"""Of the entries. Another number makes all of them be fetched anew."""
MAX_BYTES = 4 * 1024 * 1024
"""Of a file here; what is kept of an answer has a hundredth."""
UNUSED_DAYS = 180

Validator = Annotated[str, Field(pattern=r"^[ -~]{1,500}$")]
"""An ETag or a date, which goes back to the server in a header."""


class Entry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    form: int = FORM
    path: str
    """Below the API's base, with the query."""
    etag: Validator | None = None
    last_modified: Validator | None = None
    next: str | None = None
    """The path of the next page."""
    moved: str | None = None
    """Where this path leads to for good; such an entry has no body."""
    seen: AwareDatetime
    """When the server last said so."""
    body: Any = None


class TrackerCache:
    """The entries of one API. The directory is made when the first one is written."""

    def __init__(self, directory: Path):
        self.directory = directory

    def read(self, path: str) -> Entry | None:
        text = read_small(self._file(path))
        if text is None:
            return None
        try:
            entry = Entry.model_validate_json(text)
        except (ValidationError, RecursionError):
            return None
        return entry if entry.form == FORM and entry.path == path else None

    def write(self, entry: Entry) -> None:
        write_whole(self._file(entry.path), entry.model_dump_json(exclude_none=True))

    def prune(self, now: float | None = None) -> None:
        """Remove what nobody has asked for in half a year."""
        oldest = (time.time() if now is None else now) - UNUSED_DAYS * 86400
        with suppress(OSError):
            for file in self.directory.glob("*.json"):
                with suppress(OSError):
                    if file.stat().st_mtime < oldest:
                        file.unlink()

    def _file(self, path: str) -> Path:
        return self.directory / f"{hashlib.sha256(path.encode()).hexdigest()}.json"


def read_small(file: Path) -> bytes | None:
    """A file's content; None where it cannot be had or is larger than anything written here."""
    try:
        with file.open("rb") as stream:
            content = stream.read(MAX_BYTES + 1)
    except OSError:
        return None
    return content if len(content) <= MAX_BYTES else None


def write_whole(file: Path, text: str) -> bool:
    """Replace a file as a whole or not at all; whether that was possible."""
    content = text.encode("utf-8", "replace")
    if len(content) > MAX_BYTES:
        return False
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, temporary = tempfile.mkstemp(dir=file.parent, prefix=".", suffix=".tmp")
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(content)
            Path(temporary).replace(file)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError:
        return False
    return True


def since(moment: datetime) -> str:
    """`2026-11-21 14:05 UTC`."""
    return moment.strftime("%Y-%m-%d %H:%M UTC")
