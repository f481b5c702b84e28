"""Which container images a version may be found as. Pure; whether one is there is for the registry to say.

Names as vLLM's release scripts push them (`.buildkite/scripts/` of vllm-project/vllm: publish-release-images and the
nightly ones).
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Formatter
from typing import Any

from regress_gate.accelerators.registry import default_family, family_of_variant
from regress_gate.bench.provision.containers import Container, identity_arguments
from regress_gate.bench.provision.engine import Engine
from regress_gate.bench.provision.interface import ProvisionError
from regress_gate.bench.provision.verify import IMPORT_TIMEOUT, PROBE, normalised, parse_probe_answer
from regress_gate.errors import InputError
from regress_gate.files import replace_file
from regress_gate.model.version import Version
from regress_gate.text import did_you_mean

IMAGE_FIELDS = ("version", "commit", "variant")
"""What the name of an image may have in braces."""


def published_images(version: Version, variant: str | None) -> tuple[str, ...]:
    """Names to try, in this order. Raises InputError for a build of which no images are published."""
    if version.commit is not None and len(version.commit) != 40:
        raise InputError(
            f"{version} has only {len(version.commit)} digits of its commit",
            todo="write commit: and all 40; images are published by the whole id",
        )
    tag = f"v{version.number}" if version.commit is None else f"nightly-{version.commit}"
    family = default_family() if variant is None else family_of_variant(variant)
    if family is not None and (names := family.images(tag, variant, release=version.commit is None)):
        return names
    raise InputError(f"no images of {version} are published for {variant}", todo="name one with --image")


def named_image(template: str, version: Version, variant: str | None) -> str:
    """The user's own image, with version, commit and variant put in where its name asks for them."""
    values = {"version": version.number, "commit": version.commit, "variant": variant}
    try:
        fields = [name for _, name, _, _ in Formatter().parse(template) if name is not None]
    except ValueError as error:
        raise InputError(f"{template!r} cannot be read: {error}", where="the image") from None
    for name in fields:
        if name not in values:
            raise InputError(f"{{{name}}} is not known{did_you_mean(name, IMAGE_FIELDS)}", where="the image")
        if values[name] is None:
            raise InputError(f"{version} has no {name} to put into {template!r}", where="the image")
    image = template.format_map(values)
    if not re.fullmatch(r"[0-9A-Za-z][\w./:@-]*", image):
        raise InputError(f"{image!r} is no name of an image", where="the image")
    return image


def repository(image: str) -> str:
    """The name without tag, digest and the default registry, by which engines list an image's digests."""
    name = image.partition("@")[0]
    head, slash, tail = name.rpartition("/")
    name = head + slash + tail.partition(":")[0]
    return re.sub(r"^(docker\.io/)?(library/)?", "", name)


# MERGED regress_gate.bench.provision.image_facts: What is in an image: its vLLM, its libraries, and whether
# containers of it can be started here at all.  Which build it holds is asked of the image once and kept by the
# image's content; that one can be started is tried every time, because machines lose their GPUs and daemons their
# configuration.


TRIAL_TIMEOUT = 300.0
"""Seconds for a container that ends at once; the first one of a new image is unpacked before."""
_NAMESPACE = Path("/proc/self/ns/net")
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_IMAGE_PROBE = """
from importlib.metadata import distributions
found["packages"] = {str(each.metadata["Name"]): str(each.version) for each in distributions() if each.metadata["Name"]}
"""


@dataclass(frozen=True, slots=True)
class ImageFacts:
    said: dict[str, Any]
    """What its vLLM says of itself, as `verify.identify` reads it."""
    packages: dict[str, str]
    """Every distribution, by normalised name."""


def shares_host_network(engine: Engine, image: str, devices: Sequence[str]) -> bool:
    """Start a container as a server would be started; whether the host's network is the one that we are in.

    It is not where the daemon is on another machine, in a virtual one, rootless, or started outside of the container
    that we are in. Raises ProvisionError when no container can be started.
    """
    told = _run_once(
        engine,
        (*devices, "--network=host", "--entrypoint=sh", image, "-c", f"readlink {_NAMESPACE}; cat {_BOOT}"),
        f"no container of {image} can be started",
        TRIAL_TIMEOUT,
    )
    try:
        return told.split() == [str(_NAMESPACE.readlink()), _BOOT.read_text().strip()]
    except OSError:  # not Linux: the containers are in a virtual machine
        return False


def image_facts(engine: Engine, image: str, content: str, devices: Sequence[str], directory: Path) -> ImageFacts:
    """`content` is the image's id, by which the answer is kept in `directory`."""
    kept = directory / f"{content.replace(':', '-')}.json"
    if (facts := _read_facts(kept)) is not None:
        return facts
    before, _, after = PROBE.rpartition("print(")
    program = before + _IMAGE_PROBE + "print(" + after
    told = _run_once(
        engine,
        (*devices, "--network=none", "--entrypoint=python3", image, "-I", "-c", program),
        f"vLLM cannot be imported in {image}",
        IMPORT_TIMEOUT,
    )
    said = parse_probe_answer(told)
    if said is None:
        raise ProvisionError(f"{image} does not tell what it holds")
    packages = said.pop("packages", None)
    if not isinstance(packages, dict):
        raise ProvisionError(f"{image} does not tell its packages")
    facts = ImageFacts(said, {normalised(str(name)): str(version) for name, version in packages.items()})
    _write_facts(kept, facts)
    return facts


def _run_once(engine: Engine, arguments: Sequence[str], what: str, timeout: float) -> str:
    """What a container prints that ends by itself, or is ended when we cannot wait for it any longer."""
    container = Container.new(engine.program, engine.environ)
    try:
        return engine.ask("run", *identity_arguments(container), *arguments, what=what, timeout=timeout)
    except BaseException:
        container.remove(0.0)
        raise


def _read_facts(path: Path) -> ImageFacts | None:
    """None for what is not there or not readable: it is asked again."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return ImageFacts(dict(found["said"]), {str(name): str(value) for name, value in found["packages"].items()})
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def _write_facts(path: Path, facts: ImageFacts) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, json.dumps({"said": facts.said, "packages": facts.packages}, indent=1))
    except OSError as error:
        raise ProvisionError(f"{path} cannot be written ({error.strerror})") from None
