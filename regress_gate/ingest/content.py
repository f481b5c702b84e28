"""One file's bytes, hashed once and parsed once, as the readers see them. Not for deciding what the file is."""

import hashlib
import re
from dataclasses import dataclass
from typing import Any

from regress_gate.ingest import json_text

MAX_BYTES = 512 * 1024 * 1024
"""Largest file that is read. Parsing takes about five times the file's size in memory."""

_UTF8_MARK = b"\xef\xbb\xbf"
_BEGINS_LIKE_JSON = re.compile(rb'\{\s*"|\[\s*[\[{]')
_MAGIC = (
    (b"SQLite format 3\x00", "an SQLite database (evalscope's benchmark_data.db is one)"),
    (b"\x1f\x8b", "a gzip file; unpack it first"),
    (b"PK\x03\x04", "a zip file; unpack it first"),
    (b"PAR1", "a Parquet file"),
    (b"\xff\xfe", "UTF-16 text; save it as UTF-8"),
    (b"\xfe\xff", "UTF-16 text; save it as UTF-8"),
)


@dataclass(frozen=True, slots=True, eq=False)
class Content:
    """A file as JSON documents or as text, never both."""

    name: str
    """File name without folders."""
    sha256: str
    documents: tuple[Any, ...] = ()
    text: str | None = None
    problem: str | None = None
    """Why the bytes are not JSON, or are nothing readable; text that only begins like JSON has both."""
    is_result_like: bool = True
    """Whether the problem lies in what seems to be a result (broken JSON), not in some other file (a picture)."""


def parse_content(name: str, data: bytes) -> Content:
    """Look at the bytes of a file. Never raises for what stands in them."""
    sha256 = hashlib.sha256(data).hexdigest()
    if len(data) > MAX_BYTES:
        limit = f"{MAX_BYTES // 1024**2} MiB"
        return Content(name, sha256, problem=f"larger than {limit}; split it, or save without --save-detailed")
    data = data.removeprefix(_UTF8_MARK)
    head = data[:4096].lstrip()
    if not head and not data.strip():
        return Content(name, sha256, problem="empty; the benchmark did not write its result")
    for magic, what in _MAGIC:
        if data.startswith(magic):
            return Content(name, sha256, problem=what, is_result_like=False)
    if b"\x00" in head:
        return Content(name, sha256, problem="a binary file", is_result_like=False)
    problem = None
    if head[:1] in (b"{", b"["):
        try:
            return Content(name, sha256, documents=tuple(json_text.parse(data)))
        except json_text.NotJsonError as error:
            problem = f"{error}; the file was cut off or changed: make the result again"
            if name.lower().endswith((".json", ".jsonl")):
                return Content(name, sha256, problem=problem)
            if not _BEGINS_LIKE_JSON.match(head):
                problem = None  # a log line in brackets
    try:
        return Content(name, sha256, text=data.decode("utf-8"), problem=problem)
    except UnicodeDecodeError as error:
        what = f"not UTF-8 text (byte {error.start})"
        return Content(name, sha256, problem=problem or what, is_result_like=problem is not None)
