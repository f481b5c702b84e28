"""Writing files so that a reader never sees half of one."""

import errno
import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING

from regress_gate.errors import InputError

if TYPE_CHECKING:
    pass


def write_output_file(path: Path, text: str) -> None:
    """Replace the file as a whole or not at all; a link stays a link, and a device or pipe is written to.

    Raises InputError with the reason.
    """
    try:
        if str(path).startswith(("/dev/", "/proc/")) or (path.exists() and not path.is_file()):
            with suppress(BrokenPipeError):  # the reader has what it wanted; the decision stands
                path.write_text(text, encoding="utf-8", newline="\n")
            return
        target = Path(os.path.realpath(path))
        mode = target.stat().st_mode & 0o777 if target.exists() else None
        handle, temporary = tempfile.mkstemp(prefix=".regress-gate-", dir=target.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as stream:
                stream.write(text)
            umask = os.umask(0)
            os.umask(umask)
            Path(temporary).chmod(0o666 & ~umask if mode is None else mode)
            Path(temporary).replace(target)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise InputError(f"cannot be written ({error.strerror})", where=path) from None


def open_regular(path: str | Path) -> IO[bytes]:
    """Open a file that is neither a pipe nor a device; opening those may wait for ever. Raises OSError."""
    handle = os.open(path, READ_REGULAR_FLAGS)
    try:
        regular_file_size(handle)
        return open(handle, "rb")  # noqa: PTH123 - a handle has no path, and the caller closes it
    except BaseException:
        os.close(handle)
        raise


def regular_file_size(handle: int) -> int:
    found = os.fstat(handle)
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "not a regular file")
    return found.st_size


READ_REGULAR_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
