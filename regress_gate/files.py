"""Files that are replaced as a whole; files and web pages that are read up to a limit.

Not for the form of a file's content, and not for where files belong: that is in `paths`.
"""

import errno
import os
import secrets
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any
from urllib.parse import unquote, urlsplit, urlunsplit

from regress_gate.errors import InputError

READ_REGULAR_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC


@contextmanager
def draft_of(path: Path) -> Iterator[Path]:
    """A path beside `path` for the new content: renamed to `path` when the block ends, removed when it raises."""
    draft = path.with_name(f".regress-gate-{secrets.token_hex(8)}")
    try:
        yield draft
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def replace_file(path: Path, content: str | bytes, *, mode: int | None = None) -> None:
    """Write a file as a whole or not at all: readers see the old content or the new one, also when this is killed.

    A symbolic link stays a link: its target is replaced. The directory must exist. `mode` sets the permissions; None
    keeps those of the file that is replaced, and leaves a new file to the umask. Text is written as UTF-8, with the
    line ends that it has. Raises OSError.
    """
    data = content.encode() if isinstance(content, str) else content
    target = Path(os.path.realpath(path))
    if mode is None and target.exists():
        mode = target.stat().st_mode & 0o777
    with draft_of(target) as draft:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666 if mode is None else mode)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
        if mode is not None:
            draft.chmod(mode)  # the umask may have taken some of it away


def write_output_file(path: Path, content: str | bytes) -> None:
    """Write a file that a user named: as `replace_file` does, and a device or a pipe is written to in place.

    Raises InputError with the path and the reason.
    """
    try:
        if str(path).startswith(("/dev/", "/proc/")) or (path.exists() and not path.is_file()):
            with suppress(BrokenPipeError):  # the reader has what it wanted; the decision stands
                path.write_bytes(content.encode() if isinstance(content, str) else content)
            return
        replace_file(path, content)
    except OSError as error:
        raise InputError(f"cannot be written ({error.strerror})", where=path) from None


def append_output_file(path: Path, text: str, limit: int) -> bool:
    """Add lines to the end of a file that others write to as well, and make it if it is not there.

    False, and nothing is written, if the file would then have more than `limit` bytes. Raises InputError.
    """
    try:
        with path.open("a+b") as stream:
            size = stream.seek(0, os.SEEK_END)
            data = text.encode()
            if size:
                stream.seek(-1, os.SEEK_END)
                data = data if stream.read(1) == b"\n" else b"\n" + data
            if size + len(data) > limit:
                return False
            stream.write(data)
    except OSError as error:
        raise InputError(f"cannot be written ({error.strerror})", where=path) from None
    return True


def create_file(path: Path, text: str, *, todo: str, with_folder: bool = False) -> None:
    """Write a new file that a user named, as UTF-8, and its folder if that is wanted.

    Raises InputError if the file exists (`todo` says what to do then) or cannot be written.
    """
    if with_folder:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"cannot be made ({error.strerror})", where=path.parent) from None
    try:
        with path.open("x", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
    except FileExistsError:
        raise InputError("is there already and is left as it is", where=path, todo=todo) from None
    except OSError as error:
        raise InputError(f"cannot be written ({error.strerror})", where=path) from None


def read_bounded(path: Path, limit: int) -> bytes | None:
    """The content of a file of at most `limit` bytes; None for a larger one, of which no more is read.

    Raises OSError.
    """
    with path.open("rb") as stream:
        content = stream.read(limit + 1)
    return content if len(content) <= limit else None


def read_url(url: str, limit: int, *, timeout: float) -> bytes:
    """At most `limit` bytes from an address, as `open_url` opens it; the same errors."""
    import http.client  # a part of the time that `check` needs to start

    with open_url(url, timeout=timeout) as answer:
        try:
            return bytes(answer.read(limit))
        except http.client.HTTPException as error:
            raise OSError(f"the answer is not HTTP ({type(error).__name__})") from None


def open_url(url: str, *, timeout: float, headers: Mapping[str, str] | None = None) -> Any:
    """Open a web address or `file://`, as `urllib.request.urlopen` does. `timeout`: seconds without a byte.

    User and password in the address are sent as HTTP's basic authentication, to this host alone. Raises OSError whose
    text does not quote the address; for an HTTP status it is `urllib.error.HTTPError`.
    """
    import http.client  # these four are a tenth of the time that `check` needs to start
    import urllib.error  # see above
    import urllib.request  # see above
    from base64 import b64encode  # see above

    try:
        parts = urlsplit(url)
        credentials, _, host = parts.netloc.rpartition("@")
        address = urlunsplit(parts._replace(netloc=host, fragment=""))
        request = urllib.request.Request(address, headers=dict(headers or {}))  # noqa: S310 - the user's index
        if credentials:
            user, _, password = credentials.partition(":")
            token = b64encode(f"{unquote(user)}:{unquote(password)}".encode()).decode()
            request.add_unredirected_header("Authorization", f"Basic {token}")
        return urllib.request.urlopen(request, timeout=timeout)  # nosec B310 # noqa: S310 - file: is meant
    except urllib.error.HTTPError as error:
        error.close()  # it holds the connection, and no caller reads what the server says beside the status
        raise
    except http.client.HTTPException as error:
        raise OSError(f"the answer is not HTTP ({type(error).__name__})") from None
    except ValueError:
        raise OSError("not a web address") from None


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
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "not a regular file")
    return status.st_size
