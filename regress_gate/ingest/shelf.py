"""Archives as an import meets them: which names are theirs, and the one that is open. Opening is archive.py's, which is
not loaded where nothing is packed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

ZIP, TAR = (".zip",), (".tar", ".tar.gz", ".tgz")
NOT_READ = (".tar.zst", ".tzst", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".7z", ".rar")
_ENDINGS = ZIP + TAR + NOT_READ


def is_archive(name: str) -> bool:
    """Whether a file of that name is taken for an archive, readable or not."""
    return name.lower().endswith(_ENDINGS)


@dataclass(frozen=True, slots=True)
class NotRead:
    member: str | None
    """None: the archive itself."""
    reason: str
    is_error: bool = True


class Archive(Protocol):
    """An open archive."""

    @property
    def members(self) -> Mapping[str, object]:
        """Path in the archive of each file that may be read."""
        ...

    @property
    def not_read(self) -> list[NotRead]: ...

    def open(self, member: str) -> IO[bytes]:
        """Raises OSError, of which DamagedError is one. The bytes may raise it too while they are read."""
        ...

    def close(self) -> None: ...


class Shelf:
    """Keeps the archive that was used last open: members come one after another, and most archives come alone."""

    def __init__(self) -> None:
        self._path: Path | None = None
        self._archive: Archive | None = None

    def take(self, path: Path) -> Archive:
        """Raises OSError."""
        if self._archive is None or self._path != path:
            self.close()
            from regress_gate.ingest.archive import open_archive

            self._archive, self._path = open_archive(path), path
        return self._archive

    def close(self) -> None:
        if self._archive is not None:
            self._archive.close()
        self._archive = None
