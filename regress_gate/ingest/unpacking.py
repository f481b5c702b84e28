"""The bytes of a file: only of a regular one, unpacked where they are gzip, and never more than little may grow to.

Nothing is written anywhere. What is damaged raises DamagedError, which says how, from wherever it is read.
"""

import errno
import gzip
import io
import os
import stat
import zlib
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

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


_MODE = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC


class DamagedError(OSError):
    """`strerror` says what is wrong with packed data."""

    def __init__(self, what: str) -> None:
        super().__init__(errno.EIO, what)


def open_regular(path: str | Path) -> IO[bytes]:
    """Open a file that is neither a pipe nor a device; opening those may wait for ever. Raises OSError."""
    handle = os.open(path, _MODE)
    try:
        _size_of_regular(handle)
        return open(handle, "rb")  # noqa: PTH123 - a handle has no path, and the caller closes it
    except BaseException:
        os.close(handle)
        raise


def read_small(path: str) -> bytes | None:
    """All bytes of a small regular file that is not packed; None for any other. Raises OSError.

    Most files are such, and a file object takes longer to make than they take to read.
    """
    handle = os.open(path, _MODE)
    try:
        size = _size_of_regular(handle)
        if size >= SMALL:
            return None
        data = os.read(handle, SMALL)
    finally:
        os.close(handle)
    # Fewer or more bytes: a file that is being written, or a file system that gives less than there is.
    return None if len(data) != size or data.startswith(GZIP_MAGIC) else data


def _size_of_regular(handle: int) -> int:
    found = os.fstat(handle)
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "not a regular file")
    return found.st_size


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
