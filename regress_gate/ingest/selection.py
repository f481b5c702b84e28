"""From what was named on the command line to the files to read, in natural order, each once.

Not for looking into files. What is left out is left out with a reason; only hidden entries of folders are silent.
"""

import glob
import os
import re
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from regress_gate.ingest.sidecar import SIDECAR_NAME

STDIN = "-"
_SWEEP_RUN = re.compile(r"run=\d+\.json")


@dataclass(frozen=True, slots=True)
class Candidate:
    path: Path
    shown: str
    """As the user would write it."""
    named: bool
    """Named by the user, not found in a folder: what cannot be read is then an error rather than a bystander."""

    @property
    def is_stdin(self) -> bool:
        return self.shown == STDIN

    def open(self) -> IO[bytes]:
        """The file's bytes, unpacked, from their beginning. Raises OSError."""
        return self.path.open("rb")

    def beside(self, name: str) -> "Candidate | None":
        """The file of that name in the same folder; None where there is none."""
        path = self.path.with_name(name)
        return None if self.is_stdin or not path.is_file() else Candidate(path, str(path), named=False)


@dataclass(frozen=True, slots=True)
class LeftOut:
    shown: str
    reason: str
    is_error: bool


def select(paths: Iterable[str | os.PathLike[str]]) -> tuple[list[Candidate], list[LeftOut]]:
    """Candidates in natural order, and what was named or found but is not to be read."""
    found: dict[str, Candidate] = {}
    left_out: list[LeftOut] = []
    for text in dict.fromkeys(os.fspath(path) for path in paths):
        if text == STDIN:
            found.setdefault(STDIN, Candidate(Path(STDIN), STDIN, named=True))
            continue
        for path in _expanded(text, left_out):
            for candidate in _below(path, left_out):
                real = os.path.realpath(candidate.path)
                if real not in found or (candidate.named and not found[real].named):
                    found[real] = candidate
    ordered = sorted(found.values(), key=lambda candidate: natural_key(candidate.shown))
    names = {(str(candidate.path.parent), candidate.path.name) for candidate in ordered}
    kept = []
    for candidate in ordered:
        if reason := _companion(candidate.path, names):
            left_out.append(LeftOut(candidate.shown, reason, is_error=False))
        else:
            kept.append(candidate)
    return kept, left_out


def natural_key(text: str) -> tuple[list[tuple[int, int, str]], str]:
    """Sorts run=10.json after run=9.json."""
    parts = re.split(r"([0-9]{1,30})", text)
    return [(1, int(part), "") if part.isdecimal() and part.isascii() else (0, 0, part) for part in parts], text


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


def _below(text: str, left_out: list[LeftOut]) -> Iterator[Candidate]:
    path = Path(text)
    if not path.is_dir():
        yield Candidate(path, text, named=True)
        return
    empty = True
    for file in _walk(path, left_out):
        empty = False
        yield Candidate(file, str(file), named=False)
    if empty:
        left_out.append(LeftOut(text, "a folder without files", is_error=True))


def _walk(top: Path, left_out: list[LeftOut]) -> Iterator[Path]:
    """Regular files below a folder. Every folder is entered once, by whatever links it is reached."""
    folders, entered = [top], set[str]()
    while folders:
        folder = folders.pop()
        real = os.path.realpath(folder)
        if real in entered:
            continue
        entered.add(real)
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: natural_key(entry.name))
        except OSError as error:
            left_out.append(LeftOut(str(folder), f"not readable: {error.strerror}", is_error=True))
            continue
        for entry in entries:
            if entry.name.startswith("."):
                continue
            path = folder / entry.name
            try:
                mode = entry.stat().st_mode
            except OSError:
                left_out.append(LeftOut(str(path), "a link to nowhere", is_error=False))
                continue
            if stat.S_ISDIR(mode):
                folders.append(path)
            elif stat.S_ISREG(mode):
                yield path


def _companion(path: Path, names: set[tuple[str, str]]) -> str | None:
    """Why a file that lies beside results is not to be read as one; None for a file that is to be read."""
    folder, name = str(path.parent), path.name
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
