"""Running uv or pip in a fresh virtual environment. Not for choosing what to install, nor for believing the result."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from regress_gate.bench.provision.interface import ProvisionError
from regress_gate.bench.provision.isolation import installer_variables
from regress_gate.bench.provision.sources import configured_sources, redact

INSTALL_TIMEOUT = 3600.0
"""Seconds for one call of the installer; vLLM with CUDA is several gigabytes."""
MAX_LINES = 6
"""Lines of an installer's output that an error quotes."""

_NOISE = re.compile(
    r"^\s*(WARNING: .*|\[?notice\]?.*|Collecting .*|Using cached .*|Downloading .*|Downloaded .*|Building .*"
    r"|Prepared .*|Resolved .*|Installing .*|Looking in .*|Requirement already .*|Using Python .*|[-━╸ ]+.*/s.*)$"
)
_COMPLAINT = re.compile(r"^(ERROR:|error:|×)|No space left|Permission denied|Killed")
_CAUSE = re.compile(
    r"^(cause:|╰─▶|├─▶|Caused by:|ERROR: Could not find a version|OSError:)|No space left|Permission denied"
)


def find_uv(environ: Mapping[str, str]) -> Path | None:
    """uv beside the running Python, else on the user's path."""
    beside = Path(sysconfig.get_path("scripts")) / "uv"
    found = str(beside) if os.access(beside, os.X_OK) else shutil.which("uv", path=environ.get("PATH"))
    return Path(found) if found else None


@dataclass(frozen=True, slots=True)
class Installer:
    """Makes one environment at `venv`, writing all output to `log`."""

    venv: Path
    log: Path
    python: Path
    """The interpreter that the environment is made from."""
    uv: Path | None
    """None: pip."""
    environ: Mapping[str, str]
    """The caller's."""
    use_cache: bool
    """Whether the installer may take packages from its own cache. uv links files from there: a file that was damaged in
    an environment is damaged in the cache too."""
    lock: int
    """File handle of the lock on the environment. The installer inherits it: when we are killed it may go on for a
    while, and nobody else may begin in the same place until it has ended."""

    @property
    def interpreter(self) -> Path:
        return self.venv / "bin" / "python"

    def create(self) -> None:
        if self.uv:
            command = [str(self.uv), "venv", "--no-project", "--python", str(self.python), str(self.venv)]
        else:
            command = [str(self.python), "-m", "venv", str(self.venv)]
        self._run(command, "the virtual environment could not be made")

    def install(
        self, *requirements: str, dependencies: bool = True, overrides: Sequence[str] = (), torch: str | None = None
    ) -> None:
        """Install the requirements; `overrides` and `torch` (a torch build) are for uv alone.

        Raises ProvisionError with what the installer complained of.
        """
        sources = configured_sources(self.environ)
        what = requirements[0] if len(requirements) == 1 else "the requirements"
        wanted = self.venv.parent / "requirements.txt"
        wanted.write_text("".join(f"{line}\n" for line in requirements), encoding="utf-8")
        if self.uv:
            command = [str(self.uv), "pip", "install", "--python", str(self.interpreter), "--compile-bytecode"]
            if overrides:
                overriding = self.venv.parent / "overrides.txt"
                overriding.write_text("".join(f"{line}\n" for line in overrides), encoding="utf-8")
                command += ["--override", str(overriding)]
            if not self.use_cache:
                command.append("--no-cache")
            if sources.no_index:
                command.append("--no-index")
            if torch:
                command += ["--torch-backend", torch]
        elif torch:
            raise ProvisionError(f"torch for {torch} is chosen by uv, which is not installed (pip install uv)")
        else:
            command = [str(self.interpreter), "-m", "pip", "install", "--progress-bar", "off"]
            command += [] if self.use_cache else ["--no-cache-dir"]
        command += ["--requirements" if self.uv else "--requirement", str(wanted)]
        variables = sources.uv_variables(self.environ) if self.uv else sources.pip_variables()
        if not dependencies:
            command.append("--no-deps")
        self._run(command, f"{redact(what)} could not be installed", variables)

    def _run(self, command: list[str], failure: str, variables: Mapping[str, str] | None = None) -> None:
        variables = {**installer_variables(self.environ), **(variables or {}), "NO_COLOR": "1", "UV_NO_PROGRESS": "1"}
        with self.log.open("ab") as log:
            begin = log.tell()
            try:
                # In its own directory: uv reads the configuration of a project it stands in.
                code = subprocess.run(  # noqa: S603 - the command is built above
                    command,
                    env=variables,
                    cwd=self.log.parent,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    timeout=INSTALL_TIMEOUT,
                    pass_fds=(self.lock,),
                ).returncode
            except subprocess.TimeoutExpired:
                raise ProvisionError(f"{failure}: no end after {INSTALL_TIMEOUT:.0f} s", log=self.log) from None
            except OSError as error:
                raise ProvisionError(f"{failure}: {error}") from None
        if code:
            with self.log.open("rb") as log:
                log.seek(begin)
                output = log.read().decode("utf-8", "replace")
            raise ProvisionError(failure, lines=useful_lines(output), log=self.log)


def useful_lines(output: str) -> tuple[str, ...]:
    """The lines of an installer's output that say why it failed, causes first: all from its first complaint on, else
    its last words."""
    lines = [redact(line.strip()) for line in output.splitlines() if line.strip() and not _NOISE.match(line)]
    first = next(
        (number for number, line in enumerate(lines) if _COMPLAINT.search(line)), max(0, len(lines) - MAX_LINES)
    )
    told = sorted(lines[first:], key=lambda line: _CAUSE.search(line) is None)
    return tuple(told[:MAX_LINES])


def running_python() -> Path:
    return Path(sys.executable)
