"""The bytes of a file: only of a regular one, unpacked where they are gzip, and never more than little may grow to.

Nothing is written anywhere. What is damaged raises DamagedError, which says how, from wherever it is read.
"""

import errno
import gzip
import io
import os
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Protocol, cast

from regress_gate.files import READ_REGULAR_FLAGS, regular_file_size

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


GZIP_MAGIC = b"\x1f\x8b"
MAX_GROWTH = 200
"""Unpacked bytes for each packed one. Results grow by 5 to 30; what grows more was made to fill a disk."""
GROWTH_FROM = 64 * 1024 * 1024
"""Unpacked bytes up to which growth does not matter."""
SMALL = 64 * 1024
"""Bytes below which a file is read at once."""
_BUFFER = 256 * 1024


class DamagedError(OSError):
    """`strerror` says what is wrong with packed data."""

    def __init__(self, what: str) -> None:
        super().__init__(errno.EIO, what)


def read_small(path: str) -> bytes | None:
    """All bytes of a small regular file that is not packed; None for any other. Raises OSError.

    Most files are such, and a file object takes longer to make than they take to read.
    """
    handle = os.open(path, READ_REGULAR_FLAGS)
    try:
        size = regular_file_size(handle)
        if size >= SMALL:
            return None
        data = os.read(handle, SMALL)
    finally:
        os.close(handle)
    # Fewer or more bytes: a file that is being written, or a file system that gives less than there is.
    return None if len(data) != size or data.startswith(GZIP_MAGIC) else data


def unpacked(file: IO[bytes]) -> IO[bytes]:
    """The file itself, or what it unpacks to where it begins as gzip does. The file stands at its beginning.

    Raises OSError, and closes the file then.
    """
    try:
        if _peeked(file) != GZIP_MAGIC:
            return file
    except OSError:
        file.close()
        raise
    return cast(IO[bytes], io.BufferedReader(_Gunzipped(file), _BUFFER))


def _peeked(file: IO[bytes]) -> bytes:
    if isinstance(file, io.BufferedReader):
        return file.peek(2)[:2]
    head = file.read(2)
    file.seek(0)
    return head


class _Gunzipped(io.RawIOBase):
    """Unpacks as it is read. Closes the packed file when it is closed."""

    def __init__(self, packed: IO[bytes]) -> None:
        self._packed = packed
        self._gzip = gzip.GzipFile(fileobj=packed)
        self._given = 0

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._packed.fileno()

    def readinto(self, buffer: "WriteableBuffer") -> int:
        view = memoryview(buffer).cast("B")
        try:
            # One step at a time: what was unpacked before the damage is not lost.
            data = self._gzip.read1(len(view))
        except EOFError:
            raise DamagedError("the gzip data is cut off") from None
        except (zlib.error, gzip.BadGzipFile) as error:
            raise DamagedError(f"the gzip data is damaged ({error})") from None
        self._given += len(data)
        check_growth(self._given, self._packed.tell())
        view[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._gzip.close()
            self._packed.close()
        super().close()


def check_growth(given: int, taken: int) -> None:
    """Raises DamagedError where `taken` packed bytes became too many."""
    if given > GROWTH_FROM and given > MAX_GROWTH * taken:
        raise DamagedError(f"it unpacks to more than {MAX_GROWTH} times its size; unpack it first if it is meant")


# MERGED regress_gate.ingest.shelf: Archives as an import meets them: which names are theirs, and the one that is
# open. Opening is archive.py's, which is not loaded where nothing is packed.


ZIP_ENDINGS, TAR_ENDINGS = (".zip",), (".tar", ".tar.gz", ".tgz")
UNSUPPORTED_ENDINGS = (".tar.zst", ".tzst", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".7z", ".rar")
_ARCHIVE_ENDINGS = ZIP_ENDINGS + TAR_ENDINGS + UNSUPPORTED_ENDINGS


def is_archive(name: str) -> bool:
    """Whether a file of that name is taken for an archive, readable or not."""
    return name.lower().endswith(_ARCHIVE_ENDINGS)


@dataclass(frozen=True, slots=True)
class UnreadMember:
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
    def not_read(self) -> list[UnreadMember]: ...

    def open(self, member: str) -> IO[bytes]:
        """Raises OSError, of which DamagedError is one. The bytes may raise it too while they are read."""
        ...

    def close(self) -> None: ...
