"""Container images of vLLM: the names a version is published by, and what an image contains.

Names are those that vLLM's release scripts push (`.buildkite/scripts/` of vllm-project/vllm: publish-release-images and
the nightly ones). The build in an image is read once and cached by the image's content. Whether a container can be
started is tried every time, because machines lose their GPUs and daemons their configuration.
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
"""Placeholders in the name of an image."""


TRIAL_TIMEOUT = 300.0
"""Seconds for a container that ends at once; for a new image this includes unpacking."""
_NAMESPACE = Path("/proc/self/ns/net")
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_IMAGE_PROBE = """
from importlib.metadata import distributions
found["packages"] = {str(each.metadata["Name"]): str(each.version) for each in distributions() if each.metadata["Name"]}
"""


@dataclass(frozen=True, slots=True)
class ImageFacts:
    answer: dict[str, Any]
    """What its vLLM reports about itself, for `verify.identify_build`."""
    packages: dict[str, str]
    """Every distribution, by normalised name."""


def published_images(version: Version, variant: str | None) -> tuple[str, ...]:
    """Names to try, in this order. Raises InputError if no images of the build are published."""
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
    """The user's own image, with its placeholders for version, commit and variant filled in. Raises InputError."""
    values = {"version": version.number, "commit": version.commit, "variant": variant}
    try:
        fields = [name for _, name, _, _ in Formatter().parse(template) if name is not None]
    except ValueError as error:
        raise InputError(f"{template!r} cannot be read: {error}", where="the image") from None
    for name in fields:
        if name not in values:
            raise InputError(f"unknown {{{name}}}{did_you_mean(name, IMAGE_FIELDS)}", where="the image")
        if values[name] is None:
            raise InputError(f"{version} has no {name} for {template!r}", where="the image")
    image = template.format_map(values)
    if not re.fullmatch(r"[0-9A-Za-z][\w./:@-]*", image):
        raise InputError(f"{image!r} is not a valid name of an image", where="the image")
    return image


def repository(image: str) -> str:
    """The name without tag, digest and the default registry, by which engines list an image's digests."""
    name = image.partition("@")[0]
    head, slash, tail = name.rpartition("/")
    name = head + slash + tail.partition(":")[0]
    return re.sub(r"^(docker\.io/)?(library/)?", "", name)


def shares_host_network(engine: Engine, image: str, devices: Sequence[str]) -> bool:
    """Whether a container on the host's network shares the network of this process. Starts one to find out.

    It does not if the daemon is on another machine, in a virtual one, rootless, or outside of the container that this
    process is in. Raises ProvisionError if no container can be started.
    """
    output = _run_once(
        engine,
        (*devices, "--network=host", "--entrypoint=sh", image, "-c", f"readlink {_NAMESPACE}; cat {_BOOT}"),
        f"no container of {image} can be started",
        TRIAL_TIMEOUT,
    )
    try:
        return output.split() == [str(_NAMESPACE.readlink()), _BOOT.read_text().strip()]
    except OSError:  # not Linux: the containers are in a virtual machine
        return False


def image_facts(engine: Engine, image: str, content: str, devices: Sequence[str], directory: Path) -> ImageFacts:
    """What the image contains. `content` is the image's id; the answer is cached under it in `directory`."""
    kept = directory / f"{content.replace(':', '-')}.json"
    if (facts := _read_facts(kept)) is not None:
        return facts
    before, _, after = PROBE.rpartition("print(")
    program = before + _IMAGE_PROBE + "print(" + after
    output = _run_once(
        engine,
        (*devices, "--network=none", "--entrypoint=python3", image, "-I", "-c", program),
        f"vLLM cannot be imported in {image}",
        IMPORT_TIMEOUT,
    )
    answer = parse_probe_answer(output)
    if answer is None:
        raise ProvisionError(f"{image} does not report its vLLM version")
    packages = answer.pop("packages", None)
    if not isinstance(packages, dict):
        raise ProvisionError(f"{image} does not list its packages")
    facts = ImageFacts(answer, {normalised(str(name)): str(version) for name, version in packages.items()})
    _write_facts(kept, facts)
    return facts


def _run_once(engine: Engine, arguments: Sequence[str], what: str, timeout: float) -> str:
    """The output of a container that ends by itself. The container is removed if waiting for it fails."""
    container = Container.new(engine.program, engine.environ)
    try:
        return engine.run("run", *identity_arguments(container), *arguments, what=what, timeout=timeout)
    except BaseException:
        container.remove(0.0)
        raise


def _read_facts(path: Path) -> ImageFacts | None:
    """None if the file is missing or not readable."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        return ImageFacts(
            dict(document["said"]), {str(name): str(value) for name, value in document["packages"].items()}
        )
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def _write_facts(path: Path, facts: ImageFacts) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, json.dumps({"said": facts.answer, "packages": facts.packages}, indent=1))
    except OSError as error:
        raise ProvisionError(f"{path} cannot be written ({error.strerror})") from None
