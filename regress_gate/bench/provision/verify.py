"""Verifying an installed build: its version, commit and variant, and that it can be imported.

The environment's own Python is asked. Users have got another build than they named without noticing (vllm#27877).
"""

import json
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from regress_gate.accelerators.registry import family_of_device
from regress_gate.bench.provision.interface import ProvisionError
from regress_gate.errors import InputError
from regress_gate.model.version import Version

IMPORT_TIMEOUT = 600.0
"""Seconds; importing vLLM takes 13 to 26 on a small machine, and the first time it also writes bytecode."""

PROBE = """
import json, sys
import vllm
found = {"version": str(vllm.__version__)}
try:
    from vllm._version import __commit_id__ as commit
    found["commit"] = commit
except ImportError:
    pass
try:
    from vllm.platforms import current_platform
    found["device"] = current_platform.device_type
except Exception:  # platforms are found by plugins, which fail in their own ways; the device is then unknown
    pass
try:
    import torch
    found["cuda"], found["hip"] = torch.version.cuda, torch.version.hip
except ImportError:
    pass
print("\\nregress-gate-probe:" + json.dumps(found))
"""
"""A program for the Python of a build. `parse_probe_answer` finds its answer in the output."""
_ANSWER = re.compile(r"^regress-gate-probe:(.*)$", re.MULTILINE)
_LIBRARIES = re.compile(
    r"torch|triton|pytorch-triton.*|flashinfer-python|flashinfer-cubin|flash-attn|transformers|tokenizers|numpy"
    r"|xgrammar|compressed-tensors|numba|nvidia-nccl-cu\d+|nvidia-cublas.*|nvidia-cudnn.*|deep-gemm|fastapi|uvloop"
)
"""Distributions that have changed results; an upgrade of vLLM upgrades some of them."""


@dataclass(frozen=True, slots=True)
class Installed:
    version: Version
    packages: dict[str, str]
    """Every distribution, by normalised name."""


def result_moving_libraries(packages: Mapping[str, str]) -> dict[str, str]:
    """The packages that are known to change results."""
    return {name: version for name, version in sorted(packages.items()) if _LIBRARIES.fullmatch(name)}


def installed_packages(site_packages: Path) -> dict[str, str]:
    packages = {}
    for distribution in distributions(path=[str(site_packages)]):
        name = distribution.metadata["Name"]
        if name:
            packages[normalised(str(name))] = str(distribution.version)
    return packages


def normalised(name: str) -> str:
    """A distribution's name as package indexes compare names."""
    return re.sub(r"[-_.]+", "-", name).lower()


def verify_build(interpreter: Path, site_packages: Path, wanted: Version, env: Mapping[str, str]) -> Installed:
    """Import vLLM in the environment. Raises ProvisionError if it is another build than `wanted`, or not importable."""
    try:
        probe = subprocess.run(  # noqa: S603 - the environment that was just made
            [str(interpreter), "-I", "-c", PROBE],
            env=dict(env),
            cwd=site_packages,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=IMPORT_TIMEOUT,
        )
    except subprocess.TimeoutExpired:
        raise ProvisionError(f"importing {wanted} did not end within {IMPORT_TIMEOUT:.0f} s") from None
    except OSError as error:
        raise ProvisionError(f"the Python of {wanted} does not start: {error}") from None
    answer = parse_probe_answer(probe.stdout)
    if probe.returncode or answer is None:
        lines = [line.strip() for line in probe.stderr.splitlines() if line.strip()]
        raise ProvisionError(f"{wanted} is installed but cannot be imported", lines=tuple(lines[-1:] + lines[-6:-1]))
    # A wheel of a tagged commit does not name its commit; its place on the index does.
    version = identify_build(answer, wanted, silent_commit=wanted.commit)
    if not version.matches(wanted):
        raise ProvisionError(f"{wanted} was asked for, but {version} was installed")
    return Installed(version, installed_packages(site_packages))


def parse_probe_answer(output: str) -> dict[str, Any] | None:
    """What the build reports about itself; None if there is no answer."""
    answer = _ANSWER.search(output)
    try:
        document = json.loads(answer[1]) if answer else None
    except ValueError:
        return None
    return document if isinstance(document, dict) else None


def identify_build(answer: Mapping[str, Any], wanted: Version, *, silent_commit: str | None = None) -> Version:
    """The build by its own report. A variant that it does not name follows from its device, a commit that it does not
    name is `silent_commit`.

    Raises ProvisionError if it reports no version, or no commit where only the commit was asked for.
    """
    try:
        reported = Version.parse(str(answer.get("version")))
    except InputError:
        raise ProvisionError(f"the build calls itself {answer.get('version')!r}, which is not a version") from None
    inner = re.fullmatch(r"g?([0-9a-f]{7,40})", str(answer.get("commit") or ""))
    commit = reported.commit or (inner[1] if inner else silent_commit)
    if commit and wanted.commit and wanted.commit.startswith(commit):
        commit = wanted.commit  # the same commit, with all digits
    if wanted.number is None:
        if commit is None:
            raise ProvisionError(f"{wanted} was asked for, but the build, {reported}, does not name its commit")
        # A build that was asked for by commit keeps that name, so that it is found again.
        return Version(None, commit, reported.variant or _variant(answer, wanted))
    return Version(
        reported.number, commit if wanted.commit else reported.commit, reported.variant or _variant(answer, wanted)
    )


def _variant(answer: Mapping[str, Any], wanted: Version) -> str | None:
    if wanted.variant is None:
        return None
    family = family_of_device(str(answer.get("device")))
    if family is not None:
        return wanted.variant if family.is_variant(wanted.variant) else family.variant
    if answer.get("hip"):
        return wanted.variant if wanted.variant.startswith("rocm") else "rocm"
    return "cu" + str(answer["cuda"]).replace(".", "") if answer.get("cuda") else None
