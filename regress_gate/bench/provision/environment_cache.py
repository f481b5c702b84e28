"""The cache of environments: each is made once, by one process, and used only if it is complete.

An environment is complete if its marker is there, which is written last, and if every file still has the size it had
then. A lock per environment is held exclusively while it is made and shared while it is used, so that two processes do
not make it twice and `prune` does not delete it under a running server.
"""

import fcntl
import hashlib
import json
import os
import shutil
import time
from collections.abc import Container, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from regress_gate.bench.provision.interface import Progress, ProvisionError
from regress_gate.files import replace_file

_MARKER = "complete.json"
_FILES = "files.txt"
LOCK_POLL = 0.2


@dataclass(frozen=True, slots=True)
class Marker:
    """What is recorded about a finished environment."""

    version: str
    """As reported by importing it."""
    distribution: str
    requirement: str
    python: str
    installer: str
    created: float
    """Unix time."""
    size_bytes: int
    packages: dict[str, str]
    """Every distribution that is installed."""


class EntryState(StrEnum):
    IN_USE = "in use"
    WHOLE = "whole"
    DAMAGED = "damaged"
    """Finished once; files are missing or changed since. It is made again when it is needed."""
    HALF_MADE = "half-made"


@dataclass(frozen=True, slots=True)
class CacheEntry:
    """One entry of the cache, for listing."""

    key: str
    path: Path
    marker: Marker | None
    """None for an entry that was not finished."""
    last_used: float
    in_use: bool
    """Or being made, which cannot be distinguished."""

    @property
    def id(self) -> str:
        """Short enough to type."""
        return hashlib.sha256(self.key.encode()).hexdigest()[:8]


class EntryLock:
    """A lock on one entry. Closing the file, or the end of the process, releases it."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def acquire(self, *, exclusive: bool, wait: float, progress: Progress | None = None, what: str = "") -> bool:
        """Acquire the lock within `wait` seconds; returns whether it worked. Changing its kind releases it briefly."""
        deadline = time.monotonic() + wait
        reported = False
        while True:
            try:
                fcntl.flock(self._file, (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    return False
                if progress and not reported:
                    progress(f"another process makes or deletes {what}; waiting for it")
                    reported = True
                time.sleep(LOCK_POLL)
            else:
                return True

    def fileno(self) -> int:
        return self._file

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


class EnvironmentCache:
    """The entries in one directory, by key."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def path(self, key: str) -> Path:
        return self.directory / key

    def lock(self, key: str) -> EntryLock:
        # Outside of the entries and never deleted: a lock file that is replaced locks nothing.
        return EntryLock(self.directory / ".locks" / key)

    def complete_marker(self, key: str) -> Marker | None:
        """The marker of a complete entry; None if the entry is missing, half-made or damaged."""
        marker = self._marker(key)
        try:
            listing = (self.path(key) / _FILES).read_text(encoding="utf-8")
        except (OSError, UnicodeError):
            return None
        if marker is None or not listing:
            return None
        for line in listing.splitlines():
            size, _, name = line.partition("\t")
            try:
                if str((self.path(key) / name).stat().st_size) != size:
                    return None
            except OSError:
                return None
        return marker

    def is_finished(self, key: str) -> bool:
        """Whether it was finished once; if it is not complete now, it has been damaged since."""
        return self._marker(key) is not None

    def clear(self, key: str) -> Path:
        """Create an empty directory for the entry. Earlier content is deleted, the marker first."""
        path = self.path(key)
        (path / _MARKER).unlink(missing_ok=True)
        if path.exists():
            shutil.rmtree(path)
        path.mkdir(parents=True)
        return path

    def finish(self, key: str, fields: dict[str, Any]) -> Marker:
        """Record the files of the entry and mark it as complete."""
        path = self.path(key)
        files = [(name, size) for name, size in _walk(path / "venv", path) if not name.endswith(".pyc")]
        marker = Marker(created=time.time(), size_bytes=sum(size for _, size in files), **fields)
        (path / _FILES).write_text("".join(f"{size}\t{name}\n" for name, size in files), encoding="utf-8")
        replace_file(path / _MARKER, json.dumps(asdict(marker), indent=1))
        return marker

    def state(self, entry: CacheEntry) -> EntryState:
        """The state of an entry. Checks every file of it."""
        if entry.in_use:
            return EntryState.IN_USE
        if entry.marker is None:
            return EntryState.HALF_MADE
        return EntryState.WHOLE if self.complete_marker(entry.key) else EntryState.DAMAGED

    def touch(self, key: str) -> None:
        """Record that the entry is used now."""
        os.utime(self.path(key) / _MARKER)

    def entries(self) -> list[CacheEntry]:
        """All entries, the longest unused first."""
        if not self.directory.is_dir():
            return []
        entries = []
        for path in self.directory.iterdir():
            if path.is_dir() and not path.name.startswith("."):
                with self._if_unused(path.name) as unused:
                    entries.append(
                        CacheEntry(path.name, path, self._marker(path.name), self._last_used(path), in_use=not unused)
                    )
        return sorted(entries, key=lambda entry: entry.last_used)

    def prune(
        self, *, unused_for: float = 0.0, keys: Container[str] | None = None, dry_run: bool = False
    ) -> list[CacheEntry]:
        """Delete entries (or only those with `keys`) that were unused for so many seconds; returns the deleted ones.

        Entries in use or being made stay. With `dry_run` nothing is deleted.
        """
        deleted = []
        for entry in self.entries():
            if (keys is not None and entry.key not in keys) or time.time() - entry.last_used < unused_for:
                continue
            with self._if_unused(entry.key) as unused:
                if unused and dry_run:
                    deleted.append(entry)
                elif unused:
                    (entry.path / _MARKER).unlink(missing_ok=True)
                    try:
                        shutil.rmtree(entry.path)
                    except OSError as error:
                        raise ProvisionError(f"{entry.path} cannot be deleted: {error}") from None
                    deleted.append(entry)
        return deleted

    @contextmanager
    def _if_unused(self, key: str) -> Iterator[bool]:
        lock = self.lock(key)
        try:
            yield lock.acquire(exclusive=True, wait=0.0)
        finally:
            lock.close()

    def _marker(self, key: str) -> Marker | None:
        try:
            return Marker(**json.loads((self.path(key) / _MARKER).read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return None

    def _last_used(self, path: Path) -> float:
        marker = path / _MARKER
        return (marker if marker.exists() else path).stat().st_mtime


def _walk(top: Path, base: Path) -> Iterator[tuple[str, int]]:
    for folder, _, names in os.walk(top):
        for name in names:
            file = Path(folder) / name
            try:
                yield str(file.relative_to(base)), file.stat().st_size
            except FileNotFoundError:  # a link to nowhere
                continue
