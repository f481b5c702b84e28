"""Running a program of an environment for what it says: apart from the user's settings, within a time, leaving nothing
behind. Not for understanding what it says, and not for servers.
"""

import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from regress_gate.bench.provision.interface import ProvisionError
from regress_gate.bench.provision.isolation import server_variables

_MAX_LOG = 100_000
_LINES = 4


@dataclass(frozen=True, slots=True)
class Said:
    """What a program said."""

    code: int | None
    """Exit code; None: it had not ended at the time limit."""
    output: bytes
    log: str
    """The end of its standard error."""

    @property
    def last_lines(self) -> tuple[str, ...]:
        """The last lines of the log, the very last, which names the error, first."""
        lines = [line.strip() for line in self.log.splitlines() if line.strip()]
        return tuple(lines[-1:] + lines[-_LINES:-1])


def run_program(
    command: Sequence[str], venv: Path, *, environ: Mapping[str, str], time_limit: float, max_output: int
) -> Said:
    """What a program of the environment `venv` says, its output cut off after `max_output` bytes.

    Raises ProvisionError when it does not start.
    """
    with tempfile.TemporaryDirectory(prefix="regress-gate-inspect-") as name:
        directory = Path(name)
        output, log = directory / "output", directory / "log"
        with output.open("wb") as out, log.open("wb") as errors:
            code = _run(command, _variables(environ, venv, directory), directory, out, errors, time_limit)
        with output.open("rb") as file:
            kept = file.read(max_output)
        return Said(code, kept, _end(log).decode("utf-8", "replace"))


def _run(
    command: Sequence[str],
    variables: Mapping[str, str],
    directory: Path,
    out: IO[bytes],
    errors: IO[bytes],
    time_limit: float,
) -> int | None:
    """The exit code, or None at the time limit, at which the whole process group is ended."""
    try:
        process = subprocess.Popen(  # noqa: S603 - a program of the environment that the caller chose
            command,
            env=dict(variables),
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=errors,
            start_new_session=True,
        )
    except OSError as error:
        raise ProvisionError(f"{command[0]} does not start: {error}") from None
    try:
        return process.wait(time_limit)
    except subprocess.TimeoutExpired:
        return None
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _variables(environ: Mapping[str, str], venv: Path, directory: Path) -> dict[str, str]:
    """A home of its own: neither the user's settings nor their directories shall be in what is said."""
    kept = {
        name: value
        for name, value in server_variables(environ, venv).items()
        if not name.startswith(("VLLM_", "XDG_", "HF_", "REGRESS_GATE_"))
    }
    return kept | {
        "HOME": str(directory),
        "TMPDIR": str(directory),
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "NO_COLOR": "1",
    }


def _end(log: Path) -> bytes:
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _MAX_LOG))
        return file.read(_MAX_LOG)
