"""The output of `vllm collect-env`, and of `collect_env.py` before it: a deployment's facts, and library versions.

Its layout is that of vllm/collect_env.py: labels and values, a list of packages, and the environment variables last;
older versions print no headings (vllm#18285). Variables whose names are those of secrets are never taken.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from packaging.utils import canonicalize_name

from regress_gate.accelerators.registry import family_of_variant, identify
from regress_gate.errors import InputError
from regress_gate.model.deployment import Deployment, DeploymentFacts, Platform
from regress_gate.model.version import Version
from regress_gate.redaction import names_secret

_VARIABLES_HEADING = "Environment Variables"
_LABEL = re.compile(r"([A-Za-z][\w /()-]*?)\s*:\s*(.*)")
_GPU = re.compile(r"\s*GPU \d+: (.+)")
_GPU_LABELS = ("GPU models and configuration", "Intel GPU models")
_GPU_UUID = re.compile(r" \(UUID: [^)]*\)")
_AMD_LEVEL = re.compile(r"\s*\((gfx[0-9a-f]{3,4})\b[^)]*\)\s*$")
_PACKAGE = re.compile(r"\[(?:pip3?|conda)\]\s+([A-Za-z0-9][\w.-]*)(?:==|\s+)([0-9][\w.+!]*)")
_VARIABLE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)")
_NO_VALUE = ("", "n/a", "none", "could not collect", "no cuda", "no xpu")
_MAX_VARIABLES = 1000

_BUILT_FOR: Mapping[str, Platform] = {
    "ROCM used to build PyTorch": "rocm",
    "XPU used to build PyTorch": "xpu",
    "CUDA used to build PyTorch": "cuda",
}
_LIBRARY_LABELS = {
    "Libc version": "libc",
    "CUDA used to build PyTorch": "cuda of torch",
    "ROCM used to build PyTorch": "rocm of torch",
    "CUDA runtime version": "cuda runtime",
    "HIP runtime version": "hip runtime",
    "MIOpen runtime version": "miopen runtime",
}
SYSTEM_LIBRARIES = frozenset([*_LIBRARY_LABELS.values(), "cudnn"])
"""Names that no installer of packages knows."""
_PYTHON = re.compile(r"\d{1,3}(?:\.\d{1,3}){1,2}", re.ASCII)
"""`3.12.3 (main, Aug 14 2025, 17:47:21) [GCC 13.3.0] (64-bit runtime)`: the build follows."""
_ONLY_WITH_CUDA = ("cuda runtime", "cudnn")
_LIBRARY_VERSION = re.compile(r"(?:glibc-)?\d[\w.+-]{0,63}", re.ASCII)
_CUDNN = re.compile(r"libcudnn\w{0,40}\.so\.(\d{1,4}(?:\.\d{1,4}){1,3})", re.ASCII)
"""The files of cuDNN that the system's linker knows, one for each of its parts."""
_MAX_CUDNN = 4


@dataclass(frozen=True, slots=True)
class CollectEnv:
    """What the output says, not yet interpreted."""

    labels: Mapping[str, str]
    """The first value of each label that has one: `Could not collect` and `N/A` are none."""
    gpus: tuple[str, ...]
    """Kinds of GPUs, without their identities."""
    packages: Mapping[str, str]
    """Versions by canonical name."""
    cudnn: tuple[str, ...]
    """Versions of cuDNN on the machine; the build need not use them."""
    variables: Mapping[str, str]


def parse_collect_env(text: str) -> CollectEnv:
    """Any text has a result; a text of another kind has an empty one."""
    head, variables = _split(text.splitlines())
    labels: dict[str, str] = {}
    for line in head:
        match = _LABEL.fullmatch(line.strip())
        if match and match[2].strip().casefold() not in _NO_VALUE:
            labels.setdefault(match[1], match[2].strip())
    # A machine with one GPU has it on the line of the label.
    lines = [*head, *(labels[label] for label in _GPU_LABELS if label in labels)]
    gpus = {_GPU_UUID.sub("", match[1]).strip() for line in lines if (match := _GPU.fullmatch(line))}
    packages = (_PACKAGE.match(line.strip()) for line in head)
    assignments = (_VARIABLE.fullmatch(line.strip()) for line in variables[:_MAX_VARIABLES])
    return CollectEnv(
        labels=labels,
        gpus=tuple(sorted(gpus) or [value for label in _GPU_LABELS if (value := labels.get(label))]),
        packages={canonicalize_name(match[1]): match[2] for match in packages if match},
        cudnn=tuple(sorted({version for line in head for version in _CUDNN.findall(line)})),
        variables={match[1]: match[2] for match in assignments if match and not names_secret(match[1])},
    )


def library_versions(output: CollectEnv) -> dict[str, str]:
    """Versions, by plain names, of what the metadata of packages does not have: CUDA, cuDNN, ROCm, the C library."""
    versions = {
        name: value
        for label, name in _LIBRARY_LABELS.items()
        if _LIBRARY_VERSION.fullmatch(value := output.labels.get(label, ""))
    }
    if output.cudnn:
        versions["cudnn"] = ", ".join(output.cudnn[:_MAX_CUDNN])
    if "cuda of torch" not in versions:  # on the machine, and not used by this build
        versions = {name: version for name, version in versions.items() if name not in _ONLY_WITH_CUDA}
    return versions


def deployment_from_collect_env(text: str, where: str) -> DeploymentFacts:
    """The facts of the deployment that the command ran in. Raises InputError if the text has none."""
    output = parse_collect_env(text)
    notes = []
    if len(output.gpus) > 1:
        kinds = ", ".join(output.gpus)
        notes.append(f"{where} lists GPUs of several kinds ({kinds}): name the one that serves (--accelerator)")
    accelerator = output.gpus[0] if len(output.gpus) == 1 else None
    level = None
    if accelerator and (match := _AMD_LEVEL.search(accelerator)):
        accelerator, level = accelerator[: match.start()].strip(), match[1]
    dependencies = dict(output.packages)
    if driver := output.labels.get("Nvidia driver version"):
        dependencies["nvidia-driver"] = driver
    if python := _PYTHON.match(output.labels.get("Python version", "")):
        dependencies["python"] = python[0]
    version = _version(output.labels.get("vLLM Version"))
    deployment = Deployment(
        accelerator=accelerator,
        platform=_platform(output.labels, accelerator, version),
        gpu_arch=level,
        dependencies=dependencies,
        env=dict(output.variables),
    )
    if version is None and deployment == Deployment(env=dict(output.variables)):
        raise InputError("no facts about a deployment found", where=where, todo="give the output of `vllm collect-env`")
    return DeploymentFacts(deployment, version, tuple(notes))


def _split(lines: list[str]) -> tuple[list[str], list[str]]:
    """The lines before the environment variables, and those from there on."""
    headings = [number for number, line in enumerate(lines) if line.strip() == _VARIABLES_HEADING]
    if headings:
        return lines[: headings[0]], lines[headings[0] + 1 :]
    # Without headings the variables follow the last label.
    last_label = max((number for number, line in enumerate(lines) if _LABEL.match(line)), default=-1)
    for number in range(last_label + 1, len(lines)):
        if _VARIABLE.fullmatch(lines[number].strip()):
            return lines[:number], lines[number:]
    return lines, []


def _platform(labels: Mapping[str, str], accelerator: str | None, version: Version | None) -> Platform | None:
    """By what the build is for; other software on the machine does not count."""
    family = family_of_variant(version.variant if version else None)
    if family is not None:
        return family.platform
    built_for = next((platform for label, platform in _BUILT_FOR.items() if label in labels), None)
    return built_for or identify(accelerator or "").platform


def _version(text: str | None) -> Version | None:
    """`0.9.2.dev6+gabc1234 (git sha: abc1234)`: the part in brackets repeats the commit."""
    try:
        return Version.parse(text.split()[0]) if text else None
    except InputError:
        return None
