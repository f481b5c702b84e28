"""What measurements leave on a machine beside the store, found by its age and deleted: logs of servers, and directories
of tasks that were killed.

Opens no database: hosts of a fleet have none, and are told what the store keeps.
"""

import os
import re
import shutil
import tempfile
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from regress_gate.errors import InputError
from regress_gate.paths import fleet_directory, logs_directory
from regress_gate.text import plural

LEFTOVER_AGE = timedelta(days=1)
"""What a task leaves is never younger: a block may take hours in which nothing is written."""
_TASK_NAME = re.compile(r"regress-gate-(block-)?[a-z0-9_]{8}")
_TASK_FILES = ("task.json", "block.db")
"""One of them is in the directory of every task (`worker_files`, `block_worker`)."""


@dataclass(frozen=True, slots=True)
class OldFiles:
    """Directories that may go, with their bytes."""

    logs: Mapping[Path, int] = field(default_factory=dict)
    """Of experiments."""
    leftovers: Mapping[Path, int] = field(default_factory=dict)
    """Of tasks of a fleet that were killed."""

    def __bool__(self) -> bool:
        return bool(self.logs or self.leftovers)

    def counts(self) -> dict[str, int]:
        """Of both, and their bytes together."""
        size = sum((*self.logs.values(), *self.leftovers.values()))
        return {"logs": len(self.logs), "leftovers": len(self.leftovers), "bytes": size}

    def delete(self, kept: Container[str]) -> "OldFiles":
        """Delete all but the logs of experiments that are kept now; what was deleted. Raises InputError for what cannot
        be deleted."""
        logs = {path: size for path, size in self.logs.items() if path.name not in kept}
        for path in (*logs, *self.leftovers):
            try:
                shutil.rmtree(path)
            except FileNotFoundError:  # another host that shares the directory was faster
                continue
            except OSError as error:
                raise InputError(f"cannot be deleted ({error.strerror})", where=path) from None
        return OldFiles(logs, self.leftovers)


def find_old_files(before: datetime, kept: Container[str]) -> OldFiles:
    """In which nothing was written since: logs of experiments that are not kept, and what killed tasks have left. Links
    and what belongs to other users is left alone."""
    logs = (path for path in _directories(logs_directory()) if path.name not in kept)
    tasks = [*_directories(fleet_directory()), *filter(_is_of_task, _directories(Path(tempfile.gettempdir())))]
    return OldFiles(dict(_old(logs, before)), dict(_old(tasks, min(before, datetime.now(UTC) - LEFTOVER_AGE))))


def old_files_text(counts: Mapping[str, int], where: str) -> str:
    """`logs of 3 experiments on this machine, 12.1 MiB`."""
    left = counts["leftovers"]
    tasks = f" and directories of {plural(left, 'killed task')}" if left else ""
    return f"logs of {plural(counts['logs'], 'experiment')}{tasks} on {where}, {counts['bytes'] / 2**20:.1f} MiB"


def _directories(parent: Path) -> list[Path]:
    try:
        return sorted(path for path in parent.iterdir() if _is_own_directory(path))
    except OSError:  # nothing was measured on this machine
        return []


def _is_own_directory(path: Path) -> bool:
    try:
        return path.is_dir() and not path.is_symlink() and path.stat().st_uid == os.getuid()
    except OSError:  # gone meanwhile
        return False


def _is_of_task(path: Path) -> bool:
    """Whether a directory among those of all programs is a task's."""
    return bool(_TASK_NAME.fullmatch(path.name)) and any((path / name).is_file() for name in _TASK_FILES)


def _old(paths: Iterator[Path] | list[Path], before: datetime) -> Iterator[tuple[Path, int]]:
    for path in paths:
        try:
            files = [entry.lstat() for entry in path.rglob("*")]
            newest = max([path.lstat().st_mtime, *(file.st_mtime for file in files)])
        except FileNotFoundError:  # in use: something of it has just gone
            continue
        if newest < before.timestamp():
            yield path, sum(file.st_size for file in files)
