"""From the paths on the command line to the files to read, in natural order, each once.

Lists folders and archives, but does not look into files. Every excluded entry has a reason; hidden entries are left out
silently. Not for recognising results.
"""

import errno
import fnmatch
import glob
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import IO, Any, Protocol

from regress_gate.errors import InputError
from regress_gate.files import open_regular
from regress_gate.ingest.interface import SIDECAR_NAME
from regress_gate.ingest.unpacking import Archive, is_archive, read_small, unpacked
from regress_gate.text import clip, natural_key


class OpenArchives:
    """Keeps the last used archive open: its members are read one after another, and most imports have one archive."""

    def __init__(self) -> None:
        self._path: Path | None = None
        self._archive: Archive | None = None

    def take(self, path: Path) -> Archive:
        """Raises OSError."""
        if self._archive is None or self._path != path:
            self.close()
            # With zipfile and tarfile, and few imports have an archive.
            from regress_gate.ingest.archive import open_archive

            self._archive, self._path = open_archive(path), path
        return self._archive

    def close(self) -> None:
        if self._archive is not None:
            self._archive.close()
        self._archive = None


STDIN = "-"
GZIPPED = ".gz"


class ByteSource(Protocol):
    """Where the bytes of a file are: on disk, in an archive, or on standard input."""

    def open(self) -> IO[bytes]:
        """The bytes as they are stored, from their beginning. Raises OSError."""
        ...

    def read_small(self) -> bytes | None:
        """All bytes of a small file on disk that is not packed; None for any other. Raises OSError."""
        ...

    def beside(self, name: str) -> "ByteSource | None":
        """The file of that name in the same folder; None if there is none."""
        ...


@dataclass(frozen=True, slots=True)
class Candidate:
    """A file that may hold results."""

    folder: str
    """Its folder; for a member of an archive, the folder it would be unpacked to."""
    name: str
    """Without `.gz`."""
    shown: str
    """As the user would write it; `archive.zip!member` for a member of an archive."""
    named: bool
    """Named by the user, not found in a folder: it must then be a result."""
    place: ByteSource

    @property
    def path(self) -> Path:
        return Path(self.folder, self.name)

    @property
    def is_stdin(self) -> bool:
        return self.shown == STDIN

    def open(self) -> IO[bytes]:
        """The file's bytes, unpacked, from their beginning. Raises OSError, also while they are read."""
        return unpacked(self.place.open())

    def beside(self, name: str) -> "Candidate | None":
        """The file of that name in the same folder, packed by gzip or not; None if there is none."""
        if name in ("", ".", "..") or "/" in name or "\0" in name:
            return None
        for spelled in (name, name + GZIPPED, name + GZIPPED.upper()):
            if (place := self.place.beside(spelled)) is not None:
                return Candidate(self.folder, name, str(Path(self.folder, name)), False, place)
        return None


class FolderListings:
    """The files of each folder, listed once: readers look for several files beside each result."""

    def __init__(self) -> None:
        self._names: dict[str, frozenset[str] | None] = {}
        """None for a folder that cannot be listed; its files may still be readable."""

    def holds(self, folder: str, name: str) -> bool:
        """Whether the folder has a regular file of that name."""
        if folder not in self._names:
            try:
                self._names[folder] = frozenset(os.listdir(folder))  # noqa: PTH208 - names are what is asked for
            except OSError:
                self._names[folder] = None
        names = self._names[folder]
        return (names is None or name in names) and os.path.isfile(f"{folder}/{name}")  # noqa: PTH113 - of any name


@dataclass(frozen=True, slots=True)
class DiskFile:
    folder: str
    name: str
    folders: FolderListings

    def open(self) -> IO[bytes]:
        return open_regular(f"{self.folder}/{self.name}")

    def read_small(self) -> bytes | None:
        return read_small(f"{self.folder}/{self.name}")

    def beside(self, name: str) -> "DiskFile | None":
        return DiskFile(self.folder, name, self.folders) if self.folders.holds(self.folder, name) else None


@dataclass(frozen=True, slots=True)
class ArchivedFile:
    archives: OpenArchives
    archive: Path
    member: str

    def open(self) -> IO[bytes]:
        return self.archives.take(self.archive).open(self.member)

    def read_small(self) -> None:
        return None

    def beside(self, name: str) -> "ArchivedFile | None":
        folder, slash, _ = self.member.rpartition("/")
        member = f"{folder}{slash}{name}"
        try:
            exists = member in self.archives.take(self.archive).members
        except OSError:
            return None
        return ArchivedFile(self.archives, self.archive, member) if exists else None


class StandardInput:
    """Standard input, which can be read only once; importer.py reads it."""

    def open(self) -> IO[bytes]:
        raise OSError("standard input cannot be opened again")

    def read_small(self) -> None:
        return None

    def beside(self, name: str) -> None:  # noqa: ARG002 - the protocol's signature
        return None


def without_gz(name: str) -> str:
    """A file's name when it is unpacked."""
    return name[: -len(GZIPPED)] if name.lower().endswith(GZIPPED) and len(name) > len(GZIPPED) else name


MAX_FILES = 200_000
"""Files of one import, also those that are not read."""
MAX_EXAMINED = 250_000
"""Entries of folders that one pattern may look at; a few seconds."""
_SHOWN_NAME = 200
"""Characters of a name that is too long for any file."""
_DIGITS = re.compile(r"([0-9]{1,30})")
_SWEEP_RUN = re.compile(r"run=\d+\.json")


@dataclass(frozen=True, slots=True)
class ExcludedEntry:
    shown: str
    reason: str
    is_error: bool


@dataclass(frozen=True, slots=True)
class Selection:
    candidates: list[Candidate]
    """In natural order."""
    left_out: list[ExcludedEntry]
    """Named or found, and not to be read."""
    order: Mapping[str, Any]
    """`natural_key` of each candidate, by its `shown`."""
    below: Mapping[str, list[str]]
    """The `shown` of everything in each folder and archive that was named, to be read or not."""


@dataclass(frozen=True, slots=True)
class _SharedAccess:
    """What the candidates of one import share."""

    archives: OpenArchives
    folders: FolderListings


Entry = tuple[str, Candidate | ExcludedEntry]
"""An entry with its resolved path."""


def select_files(paths: Iterable[str | os.PathLike[str]], archives: OpenArchives) -> Selection:
    """Raises InputError if there are more than MAX_FILES."""
    candidates: dict[str, Candidate] = {}
    left_out: dict[tuple[str, str], ExcludedEntry] = {}
    below: dict[str, dict[str, None]] = {}
    places = _SharedAccess(archives, FolderListings())
    for text in dict.fromkeys(os.fspath(path) for path in paths):
        if text == STDIN:
            candidates.setdefault(STDIN, Candidate(".", STDIN, STDIN, True, StandardInput()))
            continue
        inside: dict[str, None] = {}
        if is_archive(text) or os.path.isdir(text):  # noqa: PTH112 - Path.is_dir raises for a name that is too long
            below[text] = inside
        for real, entry in _entries_of_argument(text, places):
            inside[real] = None
            if isinstance(entry, ExcludedEntry):
                left_out.setdefault((real, entry.reason), entry)
            elif real not in candidates or (entry.named and not candidates[real].named):
                candidates[real] = entry
            if len(candidates) + len(left_out) > MAX_FILES:
                raise InputError(f"more than {MAX_FILES} files", where=text, todo="import them in parts")
    order = {candidate.shown: natural_key(candidate.shown) for candidate in candidates.values()}
    shown = {real: candidate.shown for real, candidate in candidates.items()}
    shown |= {real: entry.shown for (real, _), entry in left_out.items()}
    kept, companions = _drop_auxiliary_files(sorted(candidates.values(), key=lambda candidate: order[candidate.shown]))
    return Selection(
        kept,
        [*left_out.values(), *companions],
        order,
        {text: [shown[real] for real in inside] for text, inside in below.items()},
    )


def _entries_of_argument(text: str, places: _SharedAccess) -> Iterator[Entry]:
    """The entries of a path, or of the matches of a glob; configuration files may hold globs that no shell expands."""
    try:
        os.lstat(text)
    except (OSError, ValueError) as error:
        if getattr(error, "errno", None) == errno.ENAMETOOLONG:
            yield text, ExcludedEntry(clip(text, _SHOWN_NAME), "the name is too long for a file", is_error=True)
            return
    else:
        yield from _below(text, places)
        return
    if not glob.has_magic(text):
        yield text, ExcludedEntry(text, "does not exist", is_error=True)
        return
    found = False
    for path in _matches(text):
        found = True
        yield from _below(path, places)
    if not found:
        yield text, ExcludedEntry(text, "matches no file", is_error=True)


def _matches(pattern: str) -> Iterator[str]:
    """The paths that match a glob; hidden ones only where the pattern begins with a dot, as in a shell.

    `**` means any number of folders, none of them a link; as the last part it means the folder itself, with everything
    below. Not the standard library's, which follows links and lists everything first: from the root it never ends.
    Raises InputError if there is too much to look at.
    """
    parts = [part for part in pattern.split("/") if part]
    parts = [part for place, part in enumerate(parts) if part != "**" or parts[place - 1 : place] != ["**"]]
    entered: set[tuple[str, int]] = set()
    examined = 0
    todo = [("/" if pattern.startswith("/") else "", 0)]
    while todo:
        folder, place = todo.pop()
        if (folder, place) in entered:
            continue
        entered.add((folder, place))
        if place == len(parts) or (parts[place] == "**" and place == len(parts) - 1):
            yield folder or "."
            continue
        part, rest = parts[place], place + 1
        if not glob.has_magic(part):
            if os.path.lexists(path := os.path.join(folder, part)):  # noqa: PTH118 - the path as it was written
                todo.append((path, rest))
            continue
        if part == "**":
            todo.append((folder, rest))
        for entry in _entries(folder):
            examined += 1
            if examined > MAX_EXAMINED:
                what = f"more than {MAX_EXAMINED} files and folders to look through"
                raise InputError(what, where=pattern, todo="name a smaller folder")
            path = os.path.join(folder, entry.name)  # noqa: PTH118
            if part == "**":
                if entry.is_dir(follow_symlinks=False) and not entry.name.startswith("."):
                    todo.append((path, place))
            elif fnmatch.fnmatchcase(entry.name, part) and (not entry.name.startswith(".") or part.startswith(".")):
                todo.append((path, rest))


def _entries(folder: str) -> list["os.DirEntry[str]"]:
    """Empty for a folder that cannot be listed, and for a file."""
    try:
        return list(os.scandir(folder or "."))
    except OSError:
        return []


def _below(text: str, places: _SharedAccess) -> Iterator[Entry]:
    """The entries of one path: a file, or all files of a folder or archive."""
    path, real = Path(text), os.path.realpath(text)
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError) as error:
        reason = "a broken link" if path.is_symlink() else f"not readable: {getattr(error, 'strerror', error)}"
        yield real, ExcludedEntry(text, reason, is_error=True)
        return
    if stat.S_ISDIR(mode):
        empty = True
        for place, entry in _walk(path, places):
            if isinstance(entry, ExcludedEntry):
                yield place, entry
                continue
            empty = False
            if is_archive(entry.shown):
                yield from _members(place, entry.shown, places.archives)
            else:
                yield place, entry
        if empty:
            yield real, ExcludedEntry(text, "a folder without files", is_error=True)
    elif not stat.S_ISREG(mode):
        yield real, ExcludedEntry(text, "a pipe or device, not a file; use - for standard input", is_error=True)
    elif is_archive(path.name):
        yield from _members(real, text, places.archives)
    else:
        folder, name = os.path.split(path)
        yield real, _on_disk(folder or ".", name, text, places.folders, named=True)


def _on_disk(folder: str, name: str, shown: str, folders: FolderListings, *, named: bool) -> Candidate:
    return Candidate(folder, without_gz(name), shown, named, DiskFile(folder, name, folders))


def _members(real: str, shown: str, archives: OpenArchives) -> Iterator[Entry]:
    """The members of an archive."""
    path = Path(shown)
    try:
        archive = archives.take(path)
    except OSError as error:
        yield real, ExcludedEntry(shown, error.strerror or type(error).__name__, is_error=True)
        return
    for entry in archive.not_read:
        within, place = (real, shown) if entry.member is None else (f"{real}/{entry.member}", f"{shown}!{entry.member}")
        yield within, ExcludedEntry(place, entry.reason, entry.is_error)
    for member in archive.members:
        folders, name = os.path.split(member)
        inside = ArchivedFile(archives, path, member)
        yield f"{real}/{member}", Candidate(str(path / folders), without_gz(name), f"{shown}!{member}", False, inside)
    if not archive.members and not archive.not_read:
        yield real, ExcludedEntry(shown, "an archive without files", is_error=True)


def _walk(top: Path, places: _SharedAccess) -> Iterator[Entry]:
    """Regular files below a folder. Every folder is entered once, by whatever links."""
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
            yield real, ExcludedEntry(str(folder), f"not readable: {error.strerror}", is_error=True)
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
                yield f"{real}/{name}", ExcludedEntry(shown, "a broken link", is_error=False)
                continue
            if is_file:
                real_path = os.path.realpath(shown) if entry.is_symlink() else f"{real}/{name}"
                yield real_path, _on_disk(inside, name, shown, places.folders, named=False)
            elif is_folder:
                folders.append(folder / name)
            else:
                yield f"{real}/{name}", ExcludedEntry(shown, "a pipe or device, not a file", is_error=False)


def _in_order(entries: list[os.DirEntry[str]]) -> list[os.DirEntry[str]]:
    """In natural order if there are folders or links, so that of several links to one file the first is taken.

    Plain files alone are put in order later.
    """
    if any(entry.is_symlink() or entry.is_dir() for entry in entries):
        return sorted(entries, key=lambda entry: natural_key(entry.name))
    return entries


def _drop_auxiliary_files(candidates: list[Candidate]) -> tuple[list[Candidate], list[ExcludedEntry]]:
    """The candidates to be read, and the auxiliary files among them as excluded entries."""
    # One folder may be reached by several paths: relative, absolute, or by a link.
    real = {folder: os.path.realpath(folder) for folder in {candidate.folder for candidate in candidates}}
    names = {(real[candidate.folder], candidate.name) for candidate in candidates}
    swept = _sweep_folders(names)
    kept, companions = [], []
    for candidate in candidates:
        if reason := _auxiliary_reason(real[candidate.folder], candidate.name, names, swept):
            companions.append(ExcludedEntry(candidate.shown, reason, is_error=False))
        else:
            kept.append(candidate)
    return kept, companions


def _sweep_folders(names: set[tuple[str, str]]) -> set[str]:
    """Folders that hold runs of a sweep, and all their parents."""
    swept: set[str] = set()
    for folder in {folder for folder, name in names if _SWEEP_RUN.fullmatch(name)}:
        swept.update((folder, *map(str, PurePath(folder).parents)))
    return swept


def _auxiliary_reason(folder: str, name: str, names: set[tuple[str, str]], swept: set[str]) -> str | None:
    """Why a file beside results is not read as a result; None for a file to be read."""
    if name == SIDECAR_NAME:
        return "the conditions of the results beside it, not a result"
    if name == "warmup.json":
        return "the warm-up of a sweep"
    if name.endswith(".failure.json"):
        return "a failed run of a sweep: it has no result"
    if name in ("summary.json", "summary.csv") and folder in swept:
        return "a summary of the sweep's run=N.json files, which are read themselves"
    if name.endswith(".pytorch.json") and (folder, name.removesuffix(".pytorch.json") + ".json") in names:
        return "a copy of the result beside it, in PyTorch-HUD's form"
    if name.endswith(".commands") and (folder, name.removesuffix(".commands") + ".json") in names:
        return "the commands that made the result beside it"
    return None
