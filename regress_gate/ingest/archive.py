"""Archives as folders that are never unpacked: which members may be read, why others may not, and their bytes.

Zip files and tar files, the latter also packed by gzip. A member that would climb out of the folder it is unpacked
in, and every member that is no plain file, is named and not read. Not for what stands in the members.
"""

import io
import stat
import struct
import tarfile
import zipfile
from pathlib import Path
from typing import IO, cast

from regress_gate.ingest.archive_members import DAMAGED, guarded, sort_member
from regress_gate.ingest.shelf import NOT_READ, ZIP, Archive, NotRead
from regress_gate.ingest.unpacking import DamagedError, check_growth, open_regular, unpacked

MAX_MEMBERS = 100_000
MAX_UNPACKED = 64 * 1024**3
"""Bytes of all members of an archive whose members can be read one by one."""
MAX_HELD = 512 * 1024**2
"""Bytes of a tar file that is packed as a whole: it is held in memory, as nothing in it can be found otherwise."""


def open_archive(path: Path) -> Archive:
    """Raises OSError; of a damaged archive as much as can be found is a member."""
    name = path.name.lower()
    if name.endswith(NOT_READ):
        raise DamagedError("archives of this kind are not read; unpack it first")
    file = open_regular(path)
    try:
        return _Zip(file) if name.endswith(ZIP) else _Tar(file)
    except DAMAGED as error:
        file.close()
        raise DamagedError(f"no readable archive, or cut off ({error})") from None
    except BaseException:
        file.close()
        raise


class _Zip:
    def __init__(self, file: IO[bytes]) -> None:
        self.members: dict[str, zipfile.ZipInfo] = {}
        self.not_read: list[NotRead] = []
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
                    info.filename.replace("\\", "/"), info, _why_no_zip_member(info), self.members, self.not_read
                )

    def open(self, member: str) -> IO[bytes]:
        try:
            return guarded(self._zip.open(self.members[member]))
        except DAMAGED as error:
            raise DamagedError(f"damaged in the archive ({error})") from None

    def close(self) -> None:
        self._zip.close()
        self._file.close()


def _directory_size(file: IO[bytes]) -> int:
    """Bytes of the list of members, which is read into memory as a whole; by the records at the end of the file."""
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


def _why_no_zip_member(info: zipfile.ZipInfo) -> str | None:
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
        self.not_read: list[NotRead] = []
        self._file = file
        self._stream = _Bounded(file)
        if (unpacking := unpacked(file)) is not file:
            self._stream = _Bounded(io.BytesIO(self._held(unpacking)))
        self._tar = tarfile.TarFile(fileobj=cast(IO[bytes], self._stream))
        try:
            for info in self._tar:
                if len(self.members) + len(self.not_read) >= MAX_MEMBERS:
                    raise DamagedError(f"holds more than {MAX_MEMBERS} files; unpack it first")
                if not info.isdir():
                    sort_member(info.name, info, self._why_no_member(info), self.members, self.not_read)
        except DAMAGED as error:
            self._note(f"damaged: {len(self.members)} files of it were found ({error})")
        self._stream.reads_left = None

    def _held(self, unpacking: IO[bytes]) -> bytes:
        """As much as can be unpacked. Raises DamagedError where it is too large."""
        held = io.BytesIO()
        try:
            while chunk := cast(io.BufferedReader, unpacking).read1():
                held.write(chunk)
                if held.tell() > MAX_HELD:
                    break
        except DamagedError as error:
            self._note(str(error.strerror))
        if held.tell() > MAX_HELD:
            raise DamagedError(f"unpacks to more than {MAX_HELD // 1024**2} MiB; unpack it first")
        return held.getvalue()

    def _note(self, reason: str) -> None:
        if not any(entry.member is None for entry in self.not_read):
            self.not_read.append(NotRead(None, reason))

    def _why_no_member(self, info: tarfile.TarInfo) -> str | None:
        if not info.isreg():
            return "a link or device in an archive is not read"
        if info.issparse():
            return "a sparse file in an archive is not read"
        if info.size < 0 or info.offset_data + info.size > self._stream.size:
            return "cut off in the archive"
        return None

    def open(self, member: str) -> IO[bytes]:
        try:
            found = self._tar.extractfile(self.members[member])
        except DAMAGED as error:
            raise DamagedError(f"damaged in the archive ({error})") from None
        if found is None:
            raise DamagedError("no file in the archive")
        return guarded(found)

    def close(self) -> None:
        self._tar.close()
        self._file.close()


class _Bounded:
    """A file for tarfile, which trusts what headers say of sizes: they can ask it to read everything, or for ever."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.size = file.seek(0, io.SEEK_END)
        self.reads_left: int | None = 10 * MAX_MEMBERS
        """While members are looked for."""
        file.seek(0)

    def read(self, size: int = -1) -> bytes:
        if self.reads_left is not None:
            self.reads_left -= 1
            if self.reads_left < 0 or not 0 <= size <= MAX_HELD:
                raise tarfile.ReadError("its headers make no sense")
        return self._file.read(size)

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()
