"""The content of one file as the readers see it: hashed and parsed once; long files are parsed line by line.

Not for recognising the format, and not for where the file lies.
"""

import errno
import hashlib
import os
import re
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from typing import IO, Any

from regress_gate.ingest import parsing
from regress_gate.ingest.unpacking import NO_DATA, SMALL

MAX_BYTES = 512 * 1024 * 1024
"""Largest file that is read whole; parsing.py refuses smaller ones whose values would need too much memory."""
MAX_TEXT = 128 * 1024 * 1024
"""Largest file of another text, such as CSV."""
MAX_WIDE_TEXT = 16 * 1024 * 1024
"""Largest text with a character beyond U+FFFF, because Python holds all its characters in four bytes each then."""
MAX_STREAMED = 64 * 1024**3
"""Largest file of JSON lines; it is never in memory as a whole."""
STREAMED_FROM = 1024 * 1024
"""Size from which a file of JSON lines is read line by line."""
MAX_LINE = 64 * 1024 * 1024
_FIRST_LINES = 8
"""Documents of a streamed file that are shown to readers for recognition."""
_CHUNK = 1024 * 1024
_PROGRESS_LINES = 1000
_NUL = "holds NUL bytes: it was cut off while it was written; make the result again"
_BINARY = "a binary file"
_TOO_LARGE = f"larger than {MAX_BYTES // 1024**2} MiB; split it, or save without the arrays of single requests"
_TEXT_TOO_LARGE = f"text larger than {MAX_TEXT // 1024**2} MiB; split it"
_WIDE = re.compile(rb"[\xf0-\xf7]")
_WIDE_TOO_LARGE = f"text larger than {MAX_WIDE_TEXT // 1024**2} MiB with emoji or the like; split it, or remove them"
_CHANGED = "the file changed while it was read; import it when it is finished"

_UTF8_MARK = b"\xef\xbb\xbf"
_RESULT_NAMES = (".json", ".jsonl", ".csv", ".yaml", ".yml")
_JSON = (b"{", b"[")
_BEGINS_LIKE_JSON = re.compile(rb'\{\s*"|\[\s*[\[{]')
_MAGIC = (
    (b"SQLite format 3\x00", "an SQLite database (evalscope's benchmark_data.db is one)"),
    (b"\x1f\x8b", "a gzip file in a gzip file; unpack it first"),
    (b"PK\x03\x04", "a zip file; give it a name that ends with .zip"),
    (b"\x28\xb5\x2f\xfd", "a Zstandard file; unpack it first"),
    (b"\xfd7zXZ\x00", "an xz file; unpack it first"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z file; unpack it first"),
    (b"BZh", "a bzip2 file; unpack it first"),
    (b"PAR1", "a Parquet file"),
    (b"\xff\xfe", "UTF-16 text; save it as UTF-8"),
    (b"\xfe\xff", "UTF-16 text; save it as UTF-8"),
)

Open = Callable[[], IO[bytes]]
"""Opens the file's bytes, unpacked, from their beginning; may be called again."""


@dataclass(frozen=True, slots=True, eq=False)
class Content:
    """A file as JSON documents or as text, never both."""

    name: str
    """File name without folders, and without `.gz`."""
    sha256: str
    documents: tuple[Any, ...] = ()
    """All JSON values of the file; of a streamed file the first few, for recognition."""
    text: str | None = None
    problem: str | None = None
    """Why the bytes are not JSON or not readable; text that begins like JSON has both text and problem."""
    is_result_like: bool = True
    """Whether a file with a problem seems to be a result (broken JSON), not another file (a picture)."""
    constant: str | None = None
    """Describes the first NaN or Infinity without quotes, which is invalid JSON that some tools write."""
    stream: Callable[[], Iterator[Any]] | None = None
    """All values of a long file of JSON lines, read again at each call. Raises NotJsonError if it is broken."""

    @property
    def beginning(self) -> "Content":
        """What readers recognise it by: a streamed file without its rest."""
        return self if self.stream is None else replace(self, stream=None)

    def each(self) -> Iterator[Any]:
        """Every JSON value of the file. Raises json_text.NotJsonError, which the import reports as a refusal."""
        return iter(self.documents) if self.stream is None else self.stream()


def read_content(name: str, opened: Open, alive: Callable[[], None] = lambda: None) -> Content:
    """The content of a file; a long file of JSON lines is streamed. Raises OSError if it cannot be read.

    `alive` is called regularly while a long file is read.
    """
    with opened() as file:
        before = _stamp(file)
        is_small = _is_small(file)
        # Allocating STREAMED_FROM bytes takes longer than reading a small file.
        data = bytearray(_read(file, SMALL if is_small else STREAMED_FROM + 1))
        if is_small and len(data) == SMALL:  # it is packed, or grew
            data += _read(file, STREAMED_FROM + 1 - SMALL)
        if len(data) <= STREAMED_FROM:
            return parse_content(name, bytes(data))
        if not _is_lines(data):
            return _read_whole(name, file, data, alive)
        sha256 = hashlib.sha256(data)
        size = len(data)
        while chunk := _read(file, _CHUNK):
            alive()
            if b"\0" in chunk:
                return Content(name, sha256.hexdigest(), problem=_NUL)
            sha256.update(chunk)
            size += len(chunk)
            if size > MAX_STREAMED:
                return Content(name, sha256.hexdigest(), problem=f"larger than {MAX_STREAMED // 1024**3} GiB; split it")
        if _stamp(file) != before:
            return Content(name, sha256.hexdigest(), problem=_CHANGED)

    def stream() -> Generator[Any, None, None]:
        with opened() as lines:
            for number, value in enumerate(parsing.json_lines(lines, MAX_LINE)):
                if not number % _PROGRESS_LINES:
                    alive()
                yield value
            # The bytes read now must be those that were hashed: the file may still be written.
            if _stamp(lines) != before:
                raise parsing.NotJsonError(_CHANGED)

    with closing(stream()) as values:
        first = tuple(value for _, value in zip(range(_FIRST_LINES), values, strict=False))
    return Content(name, sha256.hexdigest(), documents=first, stream=stream)


def _read_whole(name: str, file: IO[bytes], data: bytearray, alive: Callable[[], None]) -> Content:
    """The content of a file that begins with `data`; not read to its end if it is too large or holds NUL bytes."""
    is_json = data.removeprefix(_UTF8_MARK).lstrip()[:1] in _JSON
    limit = MAX_BYTES if is_json else MAX_TEXT
    chunk = bytes(data)
    while chunk:
        alive()
        if b"\0" in chunk:
            problem = _NUL if is_json else _BINARY
            return Content(name, hashlib.sha256(data).hexdigest(), problem=problem, is_result_like=is_json)
        if len(data) > limit or _larger_on_disk(file, limit):
            problem = _TOO_LARGE if is_json else _TEXT_TOO_LARGE
            return Content(name, hashlib.sha256(data).hexdigest(), problem=problem)
        chunk = _read(file, _CHUNK)
        data += chunk
    return parse_content(name, data)


def _larger_on_disk(file: IO[bytes], limit: int) -> bool:
    """Whether the file itself, packed or not, has more bytes; False if not known."""
    stamp = _stamp(file)
    return stamp is not None and stamp[2] > limit


def _read(file: IO[bytes], size: int) -> bytes:
    data: bytes | None = file.read(size)
    if data is None:  # a file that is not a real one, opened without waiting: /proc/kmsg
        raise OSError(errno.EAGAIN, NO_DATA)
    return data


def _is_small(file: IO[bytes]) -> bool:
    """Whether the file, packed or not, has less than SMALL bytes; False if not known."""
    try:
        return os.fstat(file.fileno()).st_size < SMALL
    except OSError:
        return False


def _stamp(file: IO[bytes]) -> tuple[int, ...] | None:
    """Identifies the open file and its state; None for a member of an archive."""
    try:
        status = os.fstat(file.fileno())
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _is_lines(head: bytes | bytearray) -> bool:
    """Whether a file with this beginning has one JSON value on each line; its first lines decide."""
    lines_read, at = 0, len(_UTF8_MARK) if head.startswith(_UTF8_MARK) else 0
    while lines_read < _FIRST_LINES and (end := head.find(b"\n", at)) >= 0:
        if line := head[at:end].strip():
            if not parsing.is_json_value(line):
                return False
            lines_read += 1
        at = end + 1
    return lines_read > 1


def parse_content(name: str, data: bytes | bytearray) -> Content:
    """The content of a file from its bytes. Never raises, whatever they hold."""
    sha256 = hashlib.sha256(data).hexdigest()
    if len(data) > MAX_BYTES:
        return Content(name, sha256, problem=_TOO_LARGE)
    if data[:1] in _JSON:  # nearly all files begin so: no check is needed before parsing
        return _parsed(name, sha256, data)
    if data.startswith(_UTF8_MARK):  # else removeprefix would copy a bytearray
        data = data.removeprefix(_UTF8_MARK)
    head = data[:4096].lstrip()
    if not head and not data.strip():
        if not name.lower().endswith(_RESULT_NAMES):
            return Content(name, sha256, problem="empty", is_result_like=False)  # stderr.txt of a good run
        return Content(name, sha256, problem="empty; the benchmark did not write its result")
    if head[:1] in _JSON:
        return _parsed(name, sha256, data)
    for magic, what in _MAGIC:
        if data.startswith(magic):
            return Content(name, sha256, problem=what, is_result_like=False)
    return _text(name, sha256, data)


def _parsed(name: str, sha256: str, data: bytes | bytearray) -> Content:
    """The content of a file that begins like JSON."""
    try:
        parsed = parsing.parse_json(data)
        return Content(name, sha256, documents=tuple(parsed.documents), constant=parsed.constant)
    except parsing.LargeJsonError as error:
        return Content(name, sha256, problem=str(error))
    except parsing.NotJsonError as error:
        problem = f"{error}; the file was cut off or changed: make the result again"
    if name.lower().endswith((".json", ".jsonl")) and not _is_binary(data):
        return Content(name, sha256, problem=problem)
    # A log line in brackets is not broken JSON.
    return _text(name, sha256, data, problem if _BEGINS_LIKE_JSON.match(data[:4096].lstrip()) else None)


def _text(name: str, sha256: str, data: bytes | bytearray, problem: str | None = None) -> Content:
    if _is_binary(data):
        return Content(name, sha256, problem=_BINARY, is_result_like=False)
    if len(data) > MAX_WIDE_TEXT and _WIDE.search(data):
        return Content(name, sha256, problem=_WIDE_TOO_LARGE)
    try:
        return Content(name, sha256, text=data.decode("utf-8"), problem=problem)
    except UnicodeDecodeError as error:
        what = f"not UTF-8 text (byte {error.start})"
        return Content(name, sha256, problem=problem or what, is_result_like=problem is not None)


def _is_binary(data: bytes | bytearray) -> bool:
    return b"\x00" in data[:4096].lstrip()
