"""Members of an archive of any kind: which are read, under which path, and what becomes of damaged ones.

Not for opening archives.
"""

import io
import struct
import tarfile
import zipfile
import zlib
from pathlib import PurePosixPath
from typing import IO, TYPE_CHECKING, TypeVar, cast

from regress_gate.ingest.shelf import NotRead, is_archive
from regress_gate.ingest.unpacking import DamagedError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

Info = TypeVar("Info")

DAMAGED = (
    zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, ValueError, OverflowError, NotImplementedError,
    RuntimeError, struct.error, LookupError,
)  # fmt: skip
"""What the standard library raises for archives that somebody changed; RecursionError is a RuntimeError."""


def sort_member(name: str, info: Info, problem: str | None, members: dict[str, Info], not_read: list[NotRead]) -> None:
    """Put a member where it belongs, by its name and by what is wrong with it."""
    parts = [part for part in PurePosixPath(name).parts if part != "."]
    if any(part.startswith(".") and part != ".." for part in parts):
        return  # hidden, as in folders
    if not parts or ".." in parts or parts[0] == "/" or "\0" in name:
        not_read.append(NotRead(name, "its path leads out of the archive"))
    elif problem is not None:
        not_read.append(NotRead(name, problem))
    elif is_archive(parts[-1]):
        not_read.append(NotRead(name, "an archive in an archive; unpack the outer one first"))
    else:
        path = "/".join(parts)
        if path in members:
            not_read.append(NotRead(name, "a later file in the archive has the same path", is_error=False))
        members[path] = info


def guarded(file: IO[bytes]) -> IO[bytes]:
    return cast(IO[bytes], io.BufferedReader(_Guarded(file)))


class _Guarded(io.RawIOBase):
    """A member whose damage is found while it is read."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int:
        view = memoryview(buffer).cast("B")
        try:
            data = self._file.read(len(view))
        except DAMAGED as error:
            raise DamagedError(f"damaged in the archive ({error})") from None
        view[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()
