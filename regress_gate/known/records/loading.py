"""Finds and loads the records: one YAML file per issue, named by its id. Stops at the first file that does not load.

A directory may contain an index: all its records as one JSON file, because parsing a thousand YAML files takes most of
a second. An index is used only if it was made from exactly these files; its data is validated like any other. It is
made when a wheel is built (hatch_build.py), never by a command. Not for: whether a record is consistent (`lint`).
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from regress_gate.errors import InputError
from regress_gate.model.documents import Document, KeyPath, parse_yaml, validate
from regress_gate.model.issue import KnownIssue
from regress_gate.paths import shipped_directory
from regress_gate.text import did_you_mean

SUFFIX = ".yaml"
COVERAGE_NAME = "coverage.yaml"
"""Among the records, and none: how far they reach (`coverage`)."""
INDEX_NAME = "index.json"
MAX_BYTES = 256 * 1024
"""Far above the size of any record."""

# Control characters steer terminals, bidirectional ones disguise a text. No record needs them.
_HIDDEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]")


def load_records(directory: Path | None = None) -> list[KnownIssue]:
    """All records of a directory (by default the one that comes with the program), ordered by file name.

    Raises InputError, with file and line, for the first record that cannot be used.
    """
    directory = directory or shipped_directory("known_issues")
    files = record_files(directory)
    if (indexed := _load_index(directory, files)) is not None:
        return indexed
    return [load_record(path) for path in files]


def _load_index(directory: Path, files: list[Path]) -> list[KnownIssue] | None:
    """The records from the index; None if there is no index of exactly these files."""
    if not (directory / INDEX_NAME).is_file():
        return None
    try:
        data = read_index(directory, {path.name: path.read_bytes() for path in files})
        return None if data is None else [KnownIssue.model_validate(record) for record in data]
    except (OSError, ValidationError):
        return None  # reading the files gives the error


def index_of(directory: Path) -> str:
    """The text of an index of a directory's records. Raises InputError for the first record that cannot be used."""
    files = record_files(directory)
    for path in files:
        load_record(path)
    return index_text({path.name: path.read_bytes() for path in files}, [read_document(path).data for path in files])


def find_record(name: str, directory: Path | None = None) -> KnownIssue:
    """The record of an id or alias; `28882` and `#28882` mean VLLM-28882. Raises InputError with the nearest id."""
    records = {known: record for record in load_records(directory) for known in (record.id, *record.aliases)}
    wanted = name.upper() if name.upper() in records else f"VLLM-{name.lstrip('#')}"
    if wanted not in records:
        raise InputError(f"no record {name!r}" + did_you_mean(name.upper(), records))
    return records[wanted]


def record_files(directory: Path) -> list[Path]:
    """The record files of a directory, ordered by name. Raises InputError when it cannot be listed."""
    try:
        return sorted(
            path
            for path in directory.iterdir()
            if path.suffix == SUFFIX and not path.name.startswith(".") and path.name != COVERAGE_NAME
        )
    except OSError as error:
        raise InputError(f"cannot list the records: {error.strerror or error}", where=directory) from None


def load_record(path: Path) -> KnownIssue:
    """One record. Raises InputError when the file cannot be read, breaks the schema or is not named by its id."""
    return _parse_record(path, _read_text(path))


# A program that checks many deployments parses each text once. With room for fewer than there are, none would be kept.
@lru_cache(maxsize=16_384)
def _parse_record(path: Path, text: str) -> KnownIssue:
    return _check_file_name(path, parse_yaml(text, path))


def _check_file_name(path: Path, document: Document) -> KnownIssue:
    issue = read_issue(document)
    if path.name != issue.id + SUFFIX:
        raise InputError(
            f"the file is not named by its id {issue.id}",
            where=path,
            line=document.line(("id",)),
            todo=f"call it {issue.id}{SUFFIX}",
        )
    return issue


def read_issue(document: Document) -> KnownIssue:
    """The record in a document with any file name. Raises InputError for the first problem."""
    texts = list(_texts(document.data, ()))
    # Fast path: hardly any record has hidden characters, so all texts are searched at once.
    if _HIDDEN.search("\n".join(text for _, text in texts)):
        location, hidden = next((place, match[0]) for place, text in texts if (match := _HIDDEN.search(text)))
        what = f"hidden character U+{ord(hidden):04X} in a text"
        raise InputError(what, where=document.where, line=document.line(location))
    return validate(KnownIssue, document)


def _texts(data: Any, location: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    if isinstance(data, str):
        yield location, data
    elif isinstance(data, list):
        for index, item in enumerate(data):
            yield from _texts(item, (*location, index))
    elif isinstance(data, dict):
        for key, value in data.items():
            yield location, key
            yield from _texts(value, (*location, key))


def read_document(path: Path) -> Document:
    """The file's data with line numbers, not yet validated."""
    return parse_yaml(_read_text(path), path)


def _read_text(path: Path) -> str:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise InputError(f"larger than {MAX_BYTES // 1024} KiB: not a record", where=path)
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"not UTF-8 at byte {error.start}", where=path) from None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", where=path) from None


def index_digest(files: Mapping[str, bytes]) -> str:
    """A digest of names and contents, in the order of the names."""
    digest = hashlib.sha256()
    for name, content in sorted(files.items()):
        for part in (name.encode("utf-8", "surrogateescape"), content):
            digest.update(len(part).to_bytes(8, "big"))
            digest.update(part)
    return digest.hexdigest()


def read_index(directory: Path, files: Mapping[str, bytes]) -> list[Any] | None:
    """The records' data in the order of the file names; None if there is no index of exactly these files."""
    try:
        document = json.loads((directory / INDEX_NAME).read_bytes())
        return list(document["records"]) if document["digest"] == index_digest(files) else None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def index_text(files: Mapping[str, bytes], records: list[Any]) -> str:
    """The text of an index. `records` are the files' data, in the order of their names."""
    return (
        json.dumps({"digest": index_digest(files), "records": records}, ensure_ascii=False, separators=(",", ":"))
        + "\n"
    )
