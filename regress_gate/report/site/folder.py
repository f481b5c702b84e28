"""The folder of a dashboard: files are written one by one, each as a whole, and only a build's own are deleted.

A list of its own files marks the folder. Whatever a build is killed at, the pages that are there are whole and lead to
pages that are there: new pages are written before those that link to them, old ones are deleted at the end.
"""

import json
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from regress_gate.errors import InputError
from regress_gate.files import read_bounded, replace_file

MARKER = ".regress-gate-site.json"
_MAX_MARKER_BYTES = 64 * 2**20


class SiteFolder:
    """Where a dashboard is built. Names are relative, with slashes."""

    def __init__(self, directory: Path, *, force: bool = False):
        """Makes the folder. Raises InputError for one that holds anything but a dashboard, unless that is wanted."""
        self.directory = directory
        try:
            directory.mkdir(parents=True, exist_ok=True)
            is_empty = not any(directory.iterdir())
        except OSError as error:
            raise InputError(f"is no folder that can be written ({error.strerror})", where=directory) from None
        before = self._read_marker()
        if before is None and not is_empty and not force:
            raise InputError(
                "holds files that are no dashboard",
                where=directory,
                todo="name an empty folder, or give --force: files of the same names are replaced, others are left",
            )
        self._known = before or set()
        self._written: set[str] = set()
        self.changed = 0
        """Files that are new or have another content than before."""

    def announce(self, names: Iterable[str]) -> None:
        """Names that are about to be written: a build that is killed leaves no file that the next one does not know."""
        self._known.update(names)
        self._write_marker(self._known)

    def write(self, name: str, content: str | bytes) -> None:
        """Raises InputError if it cannot be written."""
        path = self.directory / name
        data = content.encode("utf-8", "backslashreplace") if isinstance(content, str) else content
        self._written.add(name)
        try:
            if path.is_file() and path.stat().st_size == len(data) and path.read_bytes() == data:
                return
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(path, data)
        except OSError as error:
            raise InputError(f"cannot be written ({error.strerror})", where=path) from None
        self.changed += 1

    def finish(self) -> int:
        """Delete the files of earlier builds that this one did not write; their number."""
        gone = self._known - self._written
        for name in sorted(gone):
            path = self.directory / name
            path.unlink(missing_ok=True)
            for parent in list(path.relative_to(self.directory).parents)[:-1]:
                try:
                    (self.directory / parent).rmdir()
                except OSError:
                    break  # it holds something
        self._write_marker(self._written)
        return len(gone)

    @property
    def files(self) -> int:
        return len(self._written)

    def _read_marker(self) -> set[str] | None:
        """Names of the files of earlier builds; None without a marker that a build has written."""
        try:
            content = read_bounded(self.directory / MARKER, _MAX_MARKER_BYTES)
            document = json.loads(content or b"")
            return {name for name in document["files"] if _is_inside(name)}
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def _write_marker(self, names: Iterable[str]) -> None:
        text = json.dumps({"made_by": "regress-gate site", "files": sorted(names)}, indent=0)
        try:
            replace_file(self.directory / MARKER, text + "\n")
        except OSError as error:
            raise InputError(f"cannot be written ({error.strerror})", where=self.directory / MARKER) from None


def _is_inside(name: object) -> bool:
    """Whether a name in a marker, which anybody may have edited, is that of a file below the folder."""
    if not isinstance(name, str) or "\\" in name or "\0" in name:
        return False
    path = PurePosixPath(name)
    return bool(path.parts) and not path.is_absolute() and ".." not in path.parts
