"""Reads zip files, tar files and gzipped tar files as if they were folders; nothing is unpacked to disk.

Members with a path that leads out of the archive, and members that are not plain files, are reported and not read. Not
for the content of members.
"""

import io
import stat
import struct
import tarfile
import zipfile
import zlib
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, TypeVar, cast

from regress_gate.files import open_regular
from regress_gate.ingest.unpacking import (
    UNSUPPORTED_ENDINGS,
    ZIP_ENDINGS,
    Archive,
    DamagedError,
    UnreadMember,
    check_growth,
    is_archive,
    unpacked,
)
from regress_gate.text import plural

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


Info = TypeVar("Info")

DAMAGE_ERRORS = (
    zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, ValueError, OverflowError, NotImplementedError,
    RuntimeError, struct.error, LookupError,
)  # fmt: skip
"""What the standard library raises for damaged archives; RecursionError is a RuntimeError."""


def sort_member(
    name: str, info: Info, problem: str | None, members: dict[str, Info], not_read: list[UnreadMember]
) -> None:
    """Add a member to `members` or, if its name or `problem` forbids it, to `not_read`."""
    parts = [part for part in PurePosixPath(name).parts if part != "."]
    if any(part.startswith(".") and part != ".." for part in parts):
        return  # hidden, as in folders
    if not parts or ".." in parts or parts[0] == "/" or "\0" in name:
        not_read.append(UnreadMember(name, "its path leads out of the archive"))
    elif problem is not None:
        not_read.append(UnreadMember(name, problem))
    elif is_archive(parts[-1]):
        not_read.append(UnreadMember(name, "an archive in an archive; unpack the outer one first"))
    else:
        path = "/".join(parts)
        if path in members:
            not_read.append(UnreadMember(name, "a later file in the archive has the same path", is_error=False))
        members[path] = info


def guard_reads(file: IO[bytes]) -> IO[bytes]:
    return cast(IO[bytes], io.BufferedReader(_GuardedReader(file)))


class _GuardedReader(io.RawIOBase):
    """A member that raises DamagedError if damage is found while it is read."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int:
        view = memoryview(buffer).cast("B")
        try:
            data = self._file.read(len(view))
        except DAMAGE_ERRORS as error:
            raise DamagedError(f"damaged in the archive ({error})") from None
        view[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


MAX_MEMBERS = 100_000
MAX_UNPACKED = 64 * 1024**3
"""Bytes of all members of a zip file."""
MAX_IN_MEMORY = 512 * 1024**2
"""Bytes of a gzipped tar file: it is unpacked in memory, because its members cannot be found otherwise."""


def open_archive(path: Path) -> Archive:
    """Raises OSError. Of a damaged archive, the members that can be found are offered."""
    name = path.name.lower()
    if name.endswith(UNSUPPORTED_ENDINGS):
        raise DamagedError("archives of this kind are not read; unpack it first")
    file = open_regular(path)
    try:
        return _Zip(file) if name.endswith(ZIP_ENDINGS) else _Tar(file)
    except DAMAGE_ERRORS as error:
        file.close()
        raise DamagedError(f"no readable archive, or cut off ({error})") from None
    except BaseException:
        file.close()
        raise


class _Zip:
    def __init__(self, file: IO[bytes]) -> None:
        self.members: dict[str, zipfile.ZipInfo] = {}
        self.not_read: list[UnreadMember] = []
        if _directory_size(file) > MAX_MEMBERS * 512:
            raise DamagedError(f"holds more than {MAX_MEMBERS} files; unpack it first")
        self._zip = zipfile.ZipFile(file)
        self._file = file
        infos = self._zip.infolist()
        if len(infos) > MAX_MEMBERS:
            raise DamagedError(f"holds more than {MAX_MEMBERS} files; unpack it first")
        if sum(info.file_size for info in infos) > MAX_UNPACKED:
            raise DamagedError(f"unpacks to more than {MAX_UNPACKED // 1024**3} GiB; unpack it first if it is meant")
        for info in infos:
            if not info.is_dir():
                sort_member(
                    info.filename.replace("\\", "/"), info, _zip_member_problem(info), self.members, self.not_read
                )

    def open(self, member: str) -> IO[bytes]:
        try:
            return guard_reads(self._zip.open(self.members[member]))
        except DAMAGE_ERRORS as error:
            raise DamagedError(f"damaged in the archive ({error})") from None

    def close(self) -> None:
        self._zip.close()
        self._file.close()


def _directory_size(file: IO[bytes]) -> int:
    """Bytes of the list of members, by the records at the end of the file. The whole list is read into memory."""
    end = file.seek(0, io.SEEK_END)
    file.seek(max(0, end - 66_000))
    tail = file.read()
    at, at64 = tail.rfind(b"PK\x05\x06"), tail.rfind(b"PK\x06\x06")
    sizes = [0]
    if 0 <= at <= len(tail) - 22:
        (size,) = struct.unpack_from("<L", tail, at + 12)
        sizes.append(0 if size == 0xFFFFFFFF else size)
    if 0 <= at64 <= len(tail) - 56:
        sizes += struct.unpack_from("<Q", tail, at64 + 40)
    return max(sizes)


def _zip_member_problem(info: zipfile.ZipInfo) -> str | None:
    mode = info.external_attr >> 16
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
        return "a link or device in an archive is not read"
    if info.flag_bits & 0x1:
        return "encrypted; unpack the archive first"
    try:
        check_growth(info.file_size, info.compress_size)
    except DamagedError as error:
        return error.strerror
    return None


class _Tar:
    def __init__(self, file: IO[bytes]) -> None:
        self.members: dict[str, tarfile.TarInfo] = {}
        self.not_read: list[UnreadMember] = []
        self._file = file
        self._stream = _BoundedFile(file)
        if (unpacking := unpacked(file)) is not file:
            self._stream = _BoundedFile(io.BytesIO(self._unpack(unpacking)))
        self._tar = tarfile.TarFile(fileobj=cast(IO[bytes], self._stream))
        try:
            for info in self._tar:
                if len(self.members) + len(self.not_read) >= MAX_MEMBERS:
                    raise DamagedError(f"holds more than {MAX_MEMBERS} files; unpack it first")
                if not info.isdir():
                    sort_member(info.name, info, self._member_problem(info), self.members, self.not_read)
        except DAMAGE_ERRORS as error:
            self._note(f"damaged: {plural(len(self.members), 'file of it was', 'files of it were')} found ({error})")
        self._stream.reads_left = None

    def _unpack(self, unpacking: IO[bytes]) -> bytes:
        """The bytes up to the end or to the damage. Raises DamagedError if they are too many."""
        held = io.BytesIO()
        try:
            while chunk := cast(io.BufferedReader, unpacking).read1():
                held.write(chunk)
                if held.tell() > MAX_IN_MEMORY:
                    break
        except DamagedError as error:
            self._note(str(error.strerror))
        if held.tell() > MAX_IN_MEMORY:
            raise DamagedError(f"unpacks to more than {MAX_IN_MEMORY // 1024**2} MiB; unpack it first")
        return held.getvalue()

    def _note(self, reason: str) -> None:
        if not any(entry.member is None for entry in self.not_read):
            self.not_read.append(UnreadMember(None, reason))

    def _member_problem(self, info: tarfile.TarInfo) -> str | None:
        if not info.isreg():
            return "a link or device in an archive is not read"
        if info.issparse():
            return "a sparse file in an archive is not read"
        if info.size < 0 or info.offset_data + info.size > self._stream.size:
            return "cut off in the archive"
        return None

    def open(self, member: str) -> IO[bytes]:
        try:
            file = self._tar.extractfile(self.members[member])
        except DAMAGE_ERRORS as error:
            raise DamagedError(f"damaged in the archive ({error})") from None
        if file is None:
            raise DamagedError("no file in the archive")
        return guard_reads(file)

    def close(self) -> None:
        self._tar.close()
        self._file.close()


class _BoundedFile:
    """A file for tarfile that bounds what it reads: forged headers could make it read everything, or without end."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.size = file.seek(0, io.SEEK_END)
        self.reads_left: int | None = 10 * MAX_MEMBERS
        """While members are listed; None afterwards."""
        file.seek(0)

    def read(self, size: int = -1) -> bytes:
        if self.reads_left is not None:
            self.reads_left -= 1
            if self.reads_left < 0 or not 0 <= size <= MAX_IN_MEMORY:
                raise tarfile.ReadError("invalid headers")
        return self._file.read(size)

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()
