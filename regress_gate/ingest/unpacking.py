"""The bytes of a file: gzip is unpacked, up to a limit on its growth; and which file names are archives.

Nothing is written to disk. Damaged data raises DamagedError wherever it is read. Archives themselves are opened by
archive.py, which is loaded only if there is one.
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
"""Unpacked bytes for each packed byte. Results grow 5 to 30 times; more growth is an attack."""
GROWTH_FROM = 64 * 1024 * 1024
"""Unpacked bytes from which the limit on growth holds."""
SMALL = 64 * 1024
"""Files with fewer bytes are read at once."""
NO_DATA = "it gives no data now: a log of the system or a device, not a file"
_BUFFER = 256 * 1024


class DamagedError(OSError):
    """`strerror` describes the problem with packed data."""

    def __init__(self, what: str) -> None:
        super().__init__(errno.EIO, what)


def read_small(path: str) -> bytes | None:
    """All bytes of a small regular file that is not packed; None for any other. Raises OSError.

    Most files are small, and making a file object takes longer than reading them.
    """
    handle = os.open(path, READ_REGULAR_FLAGS)
    try:
        size = regular_file_size(handle)
        if size >= SMALL:
            return None
        data = os.read(handle, SMALL)
    except BlockingIOError as error:
        raise OSError(error.errno, NO_DATA) from None
    finally:
        os.close(handle)
    # Fewer or more bytes: the file is being written, or the file system returned only a part.
    return None if len(data) != size or data.startswith(GZIP_MAGIC) else data


def unpacked(file: IO[bytes]) -> IO[bytes]:
    """The file itself, or its unpacked bytes if it is gzip. The file must be at its beginning.

    Raises OSError, after closing the file.
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
    """Unpacks while it is read. Closing it closes the packed file."""

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
            # One step at a time, so that data before the damage is not lost.
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
    """Raise DamagedError if `taken` packed bytes gave too many unpacked bytes."""
    if given > GROWTH_FROM and given > MAX_GROWTH * taken:
        raise DamagedError(f"it unpacks to more than {MAX_GROWTH} times its size; unpack it first if it is meant")


ZIP_ENDINGS, TAR_ENDINGS = (".zip",), (".tar", ".tar.gz", ".tgz")
UNSUPPORTED_ENDINGS = (".tar.zst", ".tzst", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".7z", ".rar")
_ARCHIVE_ENDINGS = ZIP_ENDINGS + TAR_ENDINGS + UNSUPPORTED_ENDINGS


def is_archive(name: str) -> bool:
    """Whether a file of that name is treated as an archive, readable or not."""
    return name.lower().endswith(_ARCHIVE_ENDINGS)


@dataclass(frozen=True, slots=True)
class UnreadMember:
    """A member that is not read, or a problem of the archive itself."""

    member: str | None
    """Its path; None for the archive itself."""
    reason: str
    is_error: bool = True


class Archive(Protocol):
    """An open archive."""

    @property
    def members(self) -> Mapping[str, object]:
        """By path in the archive: each file that may be read."""
        ...

    @property
    def not_read(self) -> list[UnreadMember]: ...

    def open(self, member: str) -> IO[bytes]:
        """Raises OSError (DamagedError is one), also while the bytes are read."""
        ...

    def close(self) -> None: ...
