"""Files of recorded prompts, in the formats that vLLM's own client calls `sharegpt` and `custom`.

Reads them and reports what is wrong. Not for choosing prompts or counting tokens.
"""

import codecs
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeGuard

import orjson

from regress_gate.errors import InputError
from regress_gate.files import open_regular
from regress_gate.text import quoted

MAX_DATASET_BYTES = 2 * 2**30
"""Bytes of a file, which is read at once. The ShareGPT file of vLLM's CI has 0.7 GB."""
MAX_OUTPUT_TOKENS = 1_000_000
"""Tokens that a line may request. No known model generates more."""


class DatasetFormat(StrEnum):
    SHAREGPT = "sharegpt"
    CUSTOM = "custom"


@dataclass(frozen=True, slots=True)
class Dataset:
    """A file that was read and must not change."""

    format: DatasetFormat
    file: Path
    sha256: str


@dataclass(frozen=True, slots=True)
class RecordedTexts:
    """The content of a file by column: two long tuples, which the garbage collector need not scan."""

    sha256: str
    """Of the file."""
    prompts: tuple[str, ...]
    answers: tuple[str | int | None, ...]
    """A recorded answer, whose length is requested again; or that length in tokens; None if unknown."""


def open_dataset(format_: DatasetFormat, file: Path) -> Dataset:
    """Read a file. Raises InputError if it cannot be used."""
    return Dataset(format_, file, _read_checked(format_, file).sha256)


def read_texts(dataset: Dataset) -> RecordedTexts:
    """Raises InputError if the file has changed."""
    texts = _read_checked(dataset.format, dataset.file)
    if texts.sha256 != dataset.sha256:
        raise InputError("was changed while it was in use", where=dataset.file, todo="measure again")
    return texts


def _read_checked(format_: DatasetFormat, file: Path) -> RecordedTexts:
    try:
        status = file.stat()
        if status.st_size > MAX_DATASET_BYTES:
            raise InputError(f"{status.st_size:,} bytes are more than {MAX_DATASET_BYTES:,}", where=file, todo="cut it")
        return _read_cached(format_, file, status.st_size, status.st_mtime_ns)
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)
        todo = "a suite's file is looked for in the folder where the tool is started" if missing else None
        raise InputError(f"cannot be read ({error.strerror or error})", where=file, todo=todo) from None


@lru_cache(maxsize=8)
def _read_cached(format_: DatasetFormat, file: Path, size: int, changed: int) -> RecordedTexts:  # noqa: ARG001 - part of the cache's key
    with open_regular(file) as opened:
        content = opened.read(MAX_DATASET_BYTES + 1)
    text = content.removeprefix(codecs.BOM_UTF8)
    pairs = list(_sharegpt_texts(file, text) if format_ is DatasetFormat.SHAREGPT else _custom_texts(file, text))
    if not pairs:
        what = "no conversation of two turns" if format_ is DatasetFormat.SHAREGPT else "no prompt"
        raise InputError(f"holds {what}", where=file, todo=f"give a file in the format {format_}")
    prompts, answers = zip(*pairs, strict=True)
    return RecordedTexts(hashlib.sha256(content).hexdigest(), prompts, answers)


def _sharegpt_texts(file: Path, content: bytes) -> Iterator[tuple[str, str]]:
    """The first two turns of each conversation that has them, without images and videos."""
    for entry in _sharegpt_entries(file, content):
        turns = entry.get("conversations") if isinstance(entry, dict) else None
        if not isinstance(turns, list) or len(turns) < 2 or entry.get("image") or entry.get("video"):
            continue
        prompt, answer = (turn.get("value") if isinstance(turn, dict) else None for turn in turns[:2])
        if _is_sendable_text(prompt) and _is_sendable_text(answer):
            yield prompt, answer


def _sharegpt_entries(file: Path, content: bytes) -> list[Any]:
    todo = "give a file in the format sharegpt"
    try:
        try:
            data = orjson.loads(content)
        except orjson.JSONDecodeError:
            data = json.loads(content)  # as vLLM's client does: it accepts lone surrogates, orjson does not
    except (ValueError, RecursionError) as error:
        raise InputError(f"is no JSON: {error}", where=file, todo=todo) from None
    if not isinstance(data, list):
        raise InputError("is no list of conversations", where=file, todo=todo)
    return data


def _is_sendable_text(value: object) -> TypeGuard[str]:
    """Whether it can be sent."""
    if not isinstance(value, str):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _custom_texts(file: Path, content: bytes) -> Iterator[tuple[str, int | None]]:
    for number, line in enumerate(content.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            entry: Any = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise InputError(f"is no JSON: {error}", where=file, line=number) from None
        prompt = entry.get("prompt") if isinstance(entry, dict) else None
        if not isinstance(prompt, str) or not prompt:
            todo = 'write {"prompt": "…", "output_tokens": 128}'
            raise InputError("has no text as prompt", where=file, line=number, todo=todo)
        tokens = entry.get("output_tokens")
        if isinstance(tokens, float) and tokens.is_integer():  # tables with gaps write integers like this
            tokens = int(tokens)
        if tokens is not None and (type(tokens) is not int or not 1 <= tokens <= MAX_OUTPUT_TOKENS):
            what = f"output_tokens is {quoted(tokens)}, not a whole number from 1 to {MAX_OUTPUT_TOKENS:,}"
            raise InputError(what, where=file, line=number)
        yield prompt, tokens
