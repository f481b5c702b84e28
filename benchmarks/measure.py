"""What the benchmarks share: timing whole commands in turns, their peak memory, and the table with its bounds.

Not for timing parts of a program in the same process; the scripts do that themselves.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

MIB = 1024**2


@dataclass(frozen=True, slots=True)
class Measured:
    """One process, start to end."""

    seconds: float
    """Wall time."""
    peak: int
    """Largest resident memory in bytes. Never less than that of the process that started it."""
    processor: float = 0.0
    """Seconds of processor time, its children's included."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table. A number without a bound is for information."""

    what: str
    measured: str
    compared_with: str = ""
    ratio: float | None = None
    bound: float | None = None

    @property
    def holds(self) -> bool:
        return self.bound is None or self.ratio is None or self.ratio <= self.bound


def run_command(
    command: Sequence[str],
    directory: Path,
    expected: Sequence[int] = (0,),
    output: Path = Path(os.devnull),
    *,
    may_complain: bool = False,
) -> Measured:
    """Run a command in `directory`, without the user's configuration and store.

    Raises RuntimeError when its exit code is not an expected one, or when it complains on standard error, unless it
    may: a command that fails is no measurement.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith("REGRESS_GATE_")}
    # A program is installed with its byte code; to make that at each start takes longer than the start.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    environment["REGRESS_GATE_STORE"] = str(directory / "no-store.db")
    with output.open("wb") as stream, tempfile.TemporaryFile() as errors:
        start = time.perf_counter()
        process = subprocess.Popen(command, cwd=directory, env=environment, stdout=stream, stderr=errors)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        errors.seek(0)
        complaint = errors.read(2000).decode(errors="replace").strip()
    process.returncode = os.waitstatus_to_exitcode(status)
    # An exception that nobody caught exits 1 too, as a decision does; only its complaint tells the two apart.
    if process.returncode not in expected or ("error" in complaint.lower() and not may_complain):
        raise RuntimeError(f"{' '.join(command)}: exit code {process.returncode}: {complaint}")
    peak = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return Measured(seconds, peak, usage.ru_utime + usage.ru_stime)


def in_turns(
    commands: Mapping[str, Sequence[str]], directory: Path, rounds: int, expected: Sequence[int] = (0,)
) -> dict[str, Measured]:
    """Medians over the rounds. Every round runs each command once, so that a busy spell falls on all of them."""
    found: dict[str, list[Measured]] = {name: [] for name in commands}
    for command in commands.values():
        run_command(command, directory, expected)  # fills the caches of files and byte code
    for _ in range(rounds):
        for name, command in commands.items():
            found[name].append(run_command(command, directory, expected))
    return {
        name: Measured(
            statistics.median(run.seconds for run in runs),
            max(run.peak for run in runs),
            statistics.median(run.processor for run in runs),
        )
        for name, runs in found.items()
    }


def milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms"


def mebibytes(size: float) -> str:
    return f"{size / MIB:.0f} MiB"


def report(rows: Sequence[Row]) -> int:
    """Print the table; the exit code: 1 when a bound is broken."""
    head = ("what", "measured", "compared with", "ratio", "bound", "")
    lines = [head]
    for row in rows:
        ratio, bound = (_number(value) for value in (row.ratio, row.bound))
        lines.append((row.what, row.measured, row.compared_with, ratio, bound, "" if row.holds else "BROKEN"))
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
    return 0 if all(row.holds for row in rows) else 1


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"
