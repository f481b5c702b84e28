"""A file that may hold results, wherever it lies: on disk, packed by gzip, in an archive, on standard input.

Not for choosing which files are looked at.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

from regress_gate.ingest.shelf import Shelf
from regress_gate.ingest.unpacking import open_regular, read_small, unpacked

STDIN = "-"
GZIPPED = ".gz"


class Place(Protocol):
    """Where the bytes are."""

    def open(self) -> IO[bytes]:
        """As they are there, from their beginning. Raises OSError."""
        ...

    def read_small(self) -> bytes | None:
        """All bytes where they are few, on disk and not packed; None where they are not. Raises OSError."""
        ...

    def beside(self, name: str) -> "Place | None":
        """The file of that name in the same folder; None where there is none."""
        ...


@dataclass(frozen=True, slots=True)
class Candidate:
    folder: str
    """Where it lies, or would lie if it were unpacked: under an archive as under a folder."""
    name: str
    """Without `.gz`."""
    shown: str
    """As the user would write it; `archive.zip!member` for what is in an archive."""
    named: bool
    """Named by the user, not found in a folder: what cannot be read is then an error rather than a bystander."""
    place: Place

    @property
    def path(self) -> Path:
        return Path(self.folder, self.name)

    @property
    def is_stdin(self) -> bool:
        return self.shown == STDIN

    def open(self) -> IO[bytes]:
        """The file's bytes, unpacked, from their beginning. Raises OSError, also while they are read."""
        return unpacked(self.place.open())

    def beside(self, name: str) -> "Candidate | None":
        """The file of that name in the same folder, packed by gzip or not; None where there is none."""
        if name in ("", ".", "..") or "/" in name or "\0" in name:
            return None
        for spelled in (name, name + GZIPPED, name + GZIPPED.upper()):
            if (place := self.place.beside(spelled)) is not None:
                return Candidate(self.folder, name, str(Path(self.folder, name)), False, place)
        return None


class Folders:
    """What lies in the folders that were looked at, each listed once: most files are asked for several neighbours."""

    def __init__(self) -> None:
        self._names: dict[str, frozenset[str] | None] = {}
        """None: it cannot be listed, which does not mean that nothing in it can be read."""

    def holds(self, folder: str, name: str) -> bool:
        """Whether a regular file of that name lies in the folder."""
        if folder not in self._names:
            try:
                self._names[folder] = frozenset(os.listdir(folder))  # noqa: PTH208 - names are what is asked for
            except OSError:
                self._names[folder] = None
        names = self._names[folder]
        return (names is None or name in names) and os.path.isfile(f"{folder}/{name}")  # noqa: PTH113 - of any name


@dataclass(frozen=True, slots=True)
class OnDisk:
    folder: str
    name: str
    folders: Folders

    def open(self) -> IO[bytes]:
        return open_regular(f"{self.folder}/{self.name}")

    def read_small(self) -> bytes | None:
        return read_small(f"{self.folder}/{self.name}")

    def beside(self, name: str) -> "OnDisk | None":
        return OnDisk(self.folder, name, self.folders) if self.folders.holds(self.folder, name) else None


@dataclass(frozen=True, slots=True)
class InArchive:
    shelf: Shelf
    archive: Path
    member: str

    def open(self) -> IO[bytes]:
        return self.shelf.take(self.archive).open(self.member)

    def read_small(self) -> None:
        return None

    def beside(self, name: str) -> "InArchive | None":
        folder, slash, _ = self.member.rpartition("/")
        member = f"{folder}{slash}{name}"
        try:
            found = member in self.shelf.take(self.archive).members
        except OSError:
            return None
        return InArchive(self.shelf, self.archive, member) if found else None


class OnStandardInput:
    """Read by who imports; it can be read once only."""

    def open(self) -> IO[bytes]:
        raise OSError("standard input cannot be opened again")

    def read_small(self) -> None:
        return None

    def beside(self, name: str) -> None:  # noqa: ARG002 - the protocol's signature
        return None


def without_gz(name: str) -> str:
    """A file's name when it is unpacked."""
    return name[: -len(GZIPPED)] if name.lower().endswith(GZIPPED) and len(name) > len(GZIPPED) else name
