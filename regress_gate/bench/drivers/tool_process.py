"""Find and run the executable of another tool. Not for parsing its results."""

import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from regress_gate.bench.load.load_errors import LoadError
from regress_gate.bench.provision.interface import server_variables
from regress_gate.text import excerpt

RUN_TIMEOUT = 4200.0
"""Seconds for one call of a client: the load client's limit for a trial, and ten minutes to start and to write."""
VERSION_TIMEOUT = 300.0
"""Seconds for `--version`. vLLM needs several for its imports."""
CONSOLE_OUTPUT = "output.txt"
"""The tool's output, in its folder."""


def find_tool(name: str, pinned: Path | None, *, todo: str) -> Path:
    """The executable: the pinned one, otherwise the one on PATH. Raises LoadError with what to do."""
    if pinned is None:
        path = shutil.which(name)
        if path is None:
            raise LoadError(f"{name} is not installed: {todo}")
        return Path(path).absolute()
    if not (pinned.is_file() and os.access(pinned, os.X_OK)):
        raise LoadError(f"{excerpt(str(pinned))}: no executable; give the path of {name}, or {todo}")
    return pinned.absolute()


def run_tool(command: Sequence[str], folder: Path, *, tool: str, limit: float = RUN_TIMEOUT) -> None:
    """Run the command in the folder to its end. Raises LoadError if it fails or exceeds the limit.

    It runs in its own process group, which is killed as a whole, because these tools have workers.
    """
    output = folder / CONSOLE_OUTPUT
    with output.open("wb") as file:
        try:
            process = subprocess.Popen(  # noqa: S603 - the user's own tool
                command,
                cwd=folder,
                env=server_variables(os.environ, Path(command[0]).parent.parent),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise LoadError(f"{tool} does not start: {error.strerror}") from None
        try:
            status = process.wait(limit)
        except subprocess.TimeoutExpired:
            raise LoadError(f"{tool} did not end within {limit:g} s{_last_line(output)}") from None
        finally:
            _kill_group(process)
    if status:
        raise LoadError(f"{tool} failed with status {status}{_last_line(output)}")


def read_tool_version(executable: Path, folder: Path, *, tool: str) -> str:
    """The last word of the output of `--version`."""
    run_tool([str(executable), "--version"], folder, tool=tool, limit=VERSION_TIMEOUT)
    words = (folder / CONSOLE_OUTPUT).read_text(encoding="utf-8", errors="replace").split()
    if not words:
        raise LoadError(f"{tool} --version prints nothing")
    return excerpt(words[-1], 60)


def read_result_file(folder: Path, name: str, *, tool: str) -> bytes:
    """The content of a result file. Raises LoadError if it is missing: exit status 0 is no proof of a result."""
    try:
        return (folder / name).read_bytes()
    except OSError:
        raise LoadError(
            f"{tool} ended with status 0 but wrote no result{_last_line(folder / CONSOLE_OUTPUT)}"
        ) from None


def _last_line(output: Path) -> str:
    lines = output.read_text(encoding="utf-8", errors="replace").split("\n")
    last = next((line.strip() for line in reversed(lines) if line.strip()), None)
    return "" if last is None else f": {excerpt(last)}"


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
