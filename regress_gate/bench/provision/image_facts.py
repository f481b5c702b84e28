"""What is in an image: its vLLM, its libraries, and whether containers of it can be started here at all.

Which build it holds is asked of the image once and kept by the image's content; that one can be started is tried
every time, because machines lose their GPUs and daemons their configuration.
"""

import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regress_gate.bench.provision.container_run import identity_arguments
from regress_gate.bench.provision.containers import Container
from regress_gate.bench.provision.engine import Engine
from regress_gate.bench.provision.interface import ProvisionError
from regress_gate.bench.provision.verify import IMPORT_TIMEOUT, PROBE, normalised, read_answer

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


def shares_our_network(engine: Engine, image: str, devices: Sequence[str]) -> bool:
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
    if (facts := _read(kept)) is not None:
        return facts
    before, _, after = PROBE.rpartition("print(")
    program = before + _IMAGE_PROBE + "print(" + after
    told = _run_once(
        engine,
        (*devices, "--network=none", "--entrypoint=python3", image, "-I", "-c", program),
        f"vLLM cannot be imported in {image}",
        IMPORT_TIMEOUT,
    )
    said = read_answer(told)
    if said is None:
        raise ProvisionError(f"{image} does not tell what it holds")
    packages = said.pop("packages", None)
    if not isinstance(packages, dict):
        raise ProvisionError(f"{image} does not tell its packages")
    facts = ImageFacts(said, {normalised(str(name)): str(version) for name, version in packages.items()})
    _write(kept, facts)
    return facts


def _run_once(engine: Engine, arguments: Sequence[str], what: str, timeout: float) -> str:
    """What a container prints that ends by itself, or is ended when we cannot wait for it any longer."""
    container = Container.new(engine.program, engine.environ)
    try:
        return engine.ask("run", *identity_arguments(container), *arguments, what=what, timeout=timeout)
    except BaseException:
        container.remove(0.0)
        raise


def _read(path: Path) -> ImageFacts | None:
    """None for what is not there or not readable: it is asked again."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return ImageFacts(dict(found["said"]), {str(name): str(value) for name, value in found["packages"].items()})
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def _write(path: Path, facts: ImageFacts) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=".", delete=False, encoding="utf-8") as draft:
            json.dump({"said": facts.said, "packages": facts.packages}, draft, indent=1)
        Path(draft.name).replace(path)
    except OSError as error:
        raise ProvisionError(f"{path} cannot be written ({error.strerror})") from None
