"""A deployment's facts from the text of `vllm collect-env`, or of the `collect_env.py` that was before it.

Its layout is that of vllm/collect_env.py: labels and values, a list of packages, and the variables last; older ones
have no headings. Variables whose names are those of secrets are never taken.
"""

import re
from collections.abc import Mapping
from typing import cast, get_args

from packaging.utils import canonicalize_name

from regress_gate.accelerators.identification import identify
from regress_gate.errors import InputError
from regress_gate.model.deployment import Deployment, DeploymentFacts, Platform
from regress_gate.model.version import Version
from regress_gate.vllm.secrets import names_secret

_LABEL = re.compile(r"([A-Za-z][\w /()-]*?)\s*:\s*(.*)")
_GPU = re.compile(r"\s*GPU \d+: (.+)")
_PACKAGE = re.compile(r"\[(?:pip3?|conda)\]\s+([A-Za-z0-9][\w.-]*)(?:==|\s+)([0-9][\w.+!]*)")
_VARIABLE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)")
_AMD_LEVEL = re.compile(r"\s*\((gfx[0-9a-f]{3,4})\b[^)]*\)\s*$")
_UUID = re.compile(r" \(UUID: [^)]*\)")
_NOTHING = ("", "n/a", "none", "could not collect", "no cuda", "no xpu")
_GPUS = ("GPU models and configuration", "Intel GPU models")
_MAX_VARIABLES = 1000


def deployment_from_collect_env(text: str, where: str) -> DeploymentFacts:
    """The facts. Raises InputError for a text that tells none."""
    head, variables = _parts(text)
    labels = _labels(head)
    gpus = sorted({_UUID.sub("", found[1]).strip() for line in head if (found := _GPU.fullmatch(line))})
    gpus = gpus or [value for label in _GPUS if (value := labels.get(label))]
    notes = []
    if len(gpus) > 1:
        notes.append(f"{where} lists GPUs of several kinds ({', '.join(gpus)}): say which one serves (--accelerator)")
    accelerator = gpus[0] if len(gpus) == 1 else None
    level = None
    if accelerator and (found := _AMD_LEVEL.search(accelerator)):
        accelerator, level = accelerator[: found.start()].strip(), found[1]
    dependencies: dict[str, str] = {
        canonicalize_name(found[1]): found[2] for line in head if (found := _PACKAGE.match(line.strip()))
    }
    if driver := labels.get("Nvidia driver version"):
        dependencies["nvidia-driver"] = driver
    version = _version(labels.get("vLLM Version"))
    deployment = Deployment(
        accelerator=accelerator,
        platform=_platform(labels, accelerator, version),
        gpu_arch=level,
        dependencies=dependencies,
        env=variables,
    )
    if version is None and deployment == Deployment(env=variables):
        raise InputError("tells nothing about a deployment", where=where, todo="give the output of `vllm collect-env`")
    return DeploymentFacts(deployment, version, tuple(notes))


def _parts(text: str) -> tuple[list[str], dict[str, str]]:
    """The lines before the variables, and the variables. Without headings the variables stand at the end."""
    lines = text.splitlines()
    titles = [number for number, line in enumerate(lines) if line.strip() == "Environment Variables"]
    if titles:
        head, tail = lines[: titles[-1]], lines[titles[-1] + 1 :]
    else:
        last = max((number for number, line in enumerate(lines) if _LABEL.match(line)), default=-1)
        head, tail = lines[: last + 1], lines[last + 1 :]
    found = (_VARIABLE.fullmatch(line.strip()) for line in tail[:_MAX_VARIABLES])
    return head, {match[1]: match[2] for match in found if match and not names_secret(match[1])}


def _labels(lines: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in lines:
        match = _LABEL.fullmatch(line.strip())
        if match and match[2].strip().casefold() not in _NOTHING:
            found.setdefault(match[1], match[2].strip())
    return found


def _platform(labels: Mapping[str, str], accelerator: str | None, version: Version | None) -> Platform | None:
    """By what the build is for; what merely lies in the machine does not count."""
    variant = (version.variant if version else None) or ""
    if named := next((platform for platform in get_args(Platform) if variant.startswith(platform)), None):
        return cast(Platform, named)
    if "ROCM used to build PyTorch" in labels:
        return "rocm"
    if "XPU used to build PyTorch" in labels:
        return "xpu"
    if "CUDA used to build PyTorch" in labels:
        return "cuda"
    return identify(accelerator or "").platform


def _version(text: str | None) -> Version | None:
    """`0.9.2.dev6+gabc1234 (git sha: abc1234)`; the part in brackets repeats the commit."""
    try:
        return Version.parse(text.split()[0]) if text else None
    except InputError:
        return None
