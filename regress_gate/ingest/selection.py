"""From what was named on the command line to the files to read, in natural order, each once.

Folders and archives are looked into; files are not. What is left out is left out with a reason; only hidden entries
are silent.
"""

import glob
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regress_gate.errors import InputError
from regress_gate.ingest.candidate import STDIN, Candidate, Folders, InArchive, OnDisk, OnStandardInput, without_gz
from regress_gate.ingest.shelf import Shelf, is_archive
from regress_gate.ingest.sidecar import SIDECAR_NAME

MAX_FILES = 200_000
"""Files of one import."""
_DIGITS = re.compile(r"([0-9]{1,30})")
_SWEEP_RUN = re.compile(r"run=\d+\.json")


@dataclass(frozen=True, slots=True)
class LeftOut:
    shown: str
    reason: str
    is_error: bool


@dataclass(frozen=True, slots=True)
class Selection:
    candidates: list[Candidate]
    """In natural order."""
    left_out: list[LeftOut]
    """What was named or found but is not to be read."""
    order: Mapping[str, Any]
    """By what is shown of a candidate: `natural_key` of it."""


@dataclass(frozen=True, slots=True)
class _Places:
    """What the candidates of one import share."""

    shelf: Shelf
    folders: Folders


def select(paths: Iterable[str | os.PathLike[str]], shelf: Shelf) -> Selection:
    """Raises InputError where there are more files than anybody means. Archives are kept on the shelf."""
    found: dict[str, Candidate] = {}
    left_out: list[LeftOut] = []
    places = _Places(shelf, Folders())
    for text in dict.fromkeys(os.fspath(path) for path in paths):
        if text == STDIN:
            found.setdefault(STDIN, Candidate(".", STDIN, STDIN, True, OnStandardInput()))
            continue
        for path in _expanded(text, left_out):
            for real, candidate in _below(path, places, left_out):
                if real not in found or (candidate.named and not found[real].named):
                    found[real] = candidate
                if len(found) > MAX_FILES:
                    raise InputError(f"more than {MAX_FILES} files", where=text, todo="import them in parts")
    order = {candidate.shown: natural_key(candidate.shown) for candidate in found.values()}
    ordered = sorted(found.values(), key=lambda candidate: order[candidate.shown])
    beside = {(candidate.folder, candidate.name) for candidate in ordered}
    kept = []
    for candidate in ordered:
        if reason := _companion(candidate.folder, candidate.name, beside):
            left_out.append(LeftOut(candidate.shown, reason, is_error=False))
        else:
            kept.append(candidate)
    return Selection(kept, left_out, order)


def natural_key(text: str) -> tuple[list[Any], str]:
    """Sorts run=10.json after run=9.json."""
    parts: list[Any] = _DIGITS.split(text)
    parts[1::2] = map(int, parts[1::2])  # texts and numbers take turns, so that only like is compared with like
    return parts, text


def _expanded(text: str, left_out: list[LeftOut]) -> list[str]:
    """The path, or what a literal glob matches (a shell expands its own, a configuration file does not)."""
    if os.path.lexists(text):
        return [text]
    if glob.has_magic(text):
        if matches := glob.glob(text, recursive=True):  # noqa: PTH207 - Path.glob takes no absolute pattern
            return matches
        left_out.append(LeftOut(text, "matches no file", is_error=True))
    else:
        left_out.append(LeftOut(text, "does not exist", is_error=True))
    return []


def _below(text: str, places: _Places, left_out: list[LeftOut]) -> Iterator[tuple[str, Candidate]]:
    """What a path stands for: files, each with what it is really called, whatever links lead to it."""
    path = Path(text)
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError) as error:
        reason = "a link to nowhere" if path.is_symlink() else f"not readable: {getattr(error, 'strerror', error)}"
        left_out.append(LeftOut(text, reason, is_error=True))
        return
    if stat.S_ISDIR(mode):
        empty = True
        for real, file in _walk(path, places, left_out):
            empty = False
            if is_archive(file.name):
                yield from _members(real, file.shown, places.shelf, left_out)
            else:
                yield real, file
        if empty:
            left_out.append(LeftOut(text, "a folder without files", is_error=True))
    elif not stat.S_ISREG(mode):
        left_out.append(LeftOut(text, "a pipe or device, not a file; use - for standard input", is_error=True))
    elif is_archive(path.name):
        yield from _members(os.path.realpath(path), text, places.shelf, left_out)
    else:
        folder, name = os.path.split(path)
        yield os.path.realpath(path), _on_disk(folder or ".", name, text, places.folders, named=True)


def _on_disk(folder: str, name: str, shown: str, folders: Folders, *, named: bool) -> Candidate:
    return Candidate(folder, without_gz(name), shown, named, OnDisk(folder, name, folders))


def _members(real: str, shown: str, shelf: Shelf, left_out: list[LeftOut]) -> Iterator[tuple[str, Candidate]]:
    """What is in an archive."""
    path = Path(shown)
    try:
        archive = shelf.take(path)
    except OSError as error:
        left_out.append(LeftOut(shown, error.strerror or type(error).__name__, is_error=True))
        return
    for entry in archive.not_read:
        place = shown if entry.member is None else f"{shown}!{entry.member}"
        left_out.append(LeftOut(place, entry.reason, entry.is_error))
    for member in archive.members:
        folders, name = os.path.split(member)
        inside = InArchive(shelf, path, member)
        yield f"{real}/{member}", Candidate(str(path / folders), without_gz(name), f"{shown}!{member}", False, inside)
    if not archive.members and not archive.not_read:
        left_out.append(LeftOut(shown, "an archive without files", is_error=True))


def _walk(top: Path, places: _Places, left_out: list[LeftOut]) -> Iterator[tuple[str, Candidate]]:
    """Regular files below a folder, each with its real path. Every folder is entered once, by whatever links."""
    folders, entered = [top], set[str]()
    while folders:
        folder = folders.pop()
        real = os.path.realpath(folder)
        if real in entered:
            continue
        entered.add(real)
        try:
            entries = list(os.scandir(folder))
        except OSError as error:
            left_out.append(LeftOut(str(folder), f"not readable: {error.strerror}", is_error=True))
            continue
        inside, begin = str(folder), str(folder / "_")[:-1]
        for entry in _in_order(entries):
            if (name := entry.name).startswith("."):
                continue
            shown = begin + name  # a Path for each file would take longer than all the rest
            try:
                is_file, is_folder = entry.is_file(), entry.is_dir()
                if not is_file and not is_folder:
                    entry.stat()
            except OSError:
                left_out.append(LeftOut(shown, "a link to nowhere", is_error=False))
                continue
            if is_file:
                found = os.path.realpath(shown) if entry.is_symlink() else f"{real}/{name}"
                yield found, _on_disk(inside, name, shown, places.folders, named=False)
            elif is_folder:
                folders.append(folder / name)
            else:
                left_out.append(LeftOut(shown, "a pipe or device, not a file", is_error=False))


def _in_order(entries: list[os.DirEntry[str]]) -> list[os.DirEntry[str]]:
    """By which of several links to one place it is called by its first name. Files alone are put in order later."""
    if any(entry.is_symlink() or entry.is_dir() for entry in entries):
        return sorted(entries, key=lambda entry: natural_key(entry.name))
    return entries


def _companion(folder: str, name: str, names: set[tuple[str, str]]) -> str | None:
    """Why a file that lies beside results is not to be read as one; None for a file that is to be read."""
    if name == SIDECAR_NAME:
        return "the conditions of the results beside it, not a result"
    if name == "warmup.json":
        return "the warm-up of a sweep"
    if name.endswith(".failure.json"):
        return "a failed run of a sweep: it has no result"
    if name in ("summary.json", "summary.csv") and any(
        _SWEEP_RUN.fullmatch(other) for parent, other in names if _is_at_or_below(parent, folder)
    ):
        return "a summary of the sweep's run=N.json files, which are read themselves"
    if name.endswith(".pytorch.json") and (folder, name.removesuffix(".pytorch.json") + ".json") in names:
        return "a copy of the result beside it, in PyTorch-HUD's form"
    if name.endswith(".commands") and (folder, name.removesuffix(".commands") + ".json") in names:
        return "the commands that made the result beside it"
    return None


def _is_at_or_below(folder: str, top: str) -> bool:
    return folder == top or folder.startswith(top.rstrip("/") + "/")
