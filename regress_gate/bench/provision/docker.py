"""Provisioning by container image, with docker or podman: an image that vLLM publishes, or the user's own.

An image that is missing is pulled. It is run by its digest, and must contain the version that was asked for. The build
in an image is read once and cached by the image's content. Whether a container can be started is tried every time,
because machines lose their GPUs and daemons their configuration. Names are those that vLLM's release scripts push
(`.buildkite/scripts/` of vllm-project/vllm: publish-release-images and the nightly ones). Not for building images; the
engine's commands are in `engine`, the arguments of a container in `containers`.
"""

import base64
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Formatter
from typing import Any

from regress_gate.accelerators.registry import default_family, family_of_variant, visible_setting
from regress_gate.bench.provision.containers import (
    INNER_HF_HOME,
    SHM_SIZE,
    Container,
    device_arguments,
    identity_arguments,
    memory_arguments,
    mount_arguments,
    network_arguments,
    variable_arguments,
)
from regress_gate.bench.provision.engine import Engine, ImageNotThereError, find_engine
from regress_gate.bench.provision.interface import (
    Environment,
    Launch,
    Progress,
    Provisioner,
    ProvisionError,
    ServeRequest,
    serve_arguments,
)
from regress_gate.bench.provision.verify import (
    IMPORT_TIMEOUT,
    PROBE,
    identify_build,
    normalised,
    parse_probe_answer,
    result_moving_libraries,
)
from regress_gate.bench.server.processes import TOKEN_VARIABLE
from regress_gate.errors import InputError
from regress_gate.files import replace_file
from regress_gate.model.version import Version
from regress_gate.paths import images_directory
from regress_gate.text import did_you_mean

# Images: their names, and what one contains

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
_SOURCES_MARK = "regress-gate-sources:"
_SOURCES_PROBE = f"""
import base64, importlib.util, io, pathlib, zipfile
top = pathlib.Path(importlib.util.find_spec("vllm").origin).parent
content = io.BytesIO()
with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
    for path in [*top.rglob("*.py"), *top.rglob("*.json"), *top.parent.glob("vllm*.dist-info/METADATA")]:
        archive.write(path, path.relative_to(top.parent).as_posix())
print("{_SOURCES_MARK}" + base64.b64encode(content.getvalue()).decode())
"""
"""Finding a top-level module does not import it."""


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


def image_sources(image: str, environ: Mapping[str, str]) -> bytes:
    """A zip file with the Python sources of the vLLM in an image, which is neither imported nor given a GPU, and with
    the names of its metadata. An image that is missing is pulled. Raises ProvisionError."""
    engine = find_engine(environ)
    name, runnable, _ = _pull_first(engine, (image,), None)
    output = _run_once(
        engine,
        ("--network=none", "--entrypoint=python3", runnable, "-I", "-c", _SOURCES_PROBE),
        f"the sources of vLLM cannot be read in {name}",
        TRIAL_TIMEOUT,
    )
    _, mark, encoded = output.rpartition(_SOURCES_MARK)
    try:
        return base64.b64decode("".join(encoded.split()) if mark else "!", validate=True)
    except ValueError:
        raise ProvisionError(f"{name} does not give the sources of vLLM") from None


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


GRACE = 10.0
"""Seconds between stopping and killing a container that outlived its command."""
_PASSED_VARIABLES = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_ENDPOINT", "HF_HUB_OFFLINE")
"""Variables of the caller for downloading models. No VLLM_* one, because it would change what is measured."""


@dataclass(frozen=True, slots=True)
class ContainerSettings:
    """How containers of all versions are run."""

    devices: tuple[str, ...]
    shm_size: str
    mounts: tuple[Path, ...]
    host_network: bool


class DockerEnvironment(Environment):
    """A verified image. Each launch starts a new container."""

    def __init__(
        self, engine: Engine, image: str, facts: ImageFacts, version: Version, settings: ContainerSettings
    ) -> None:
        self.image = image
        """With the digest if it came from a registry; else the image's id."""
        self.version: Version = version
        self.libraries = result_moving_libraries(facts.packages)
        self._engine = engine
        self._settings = settings

    def launch(self, request: ServeRequest, port: int) -> Launch:
        environ = self._engine.environ
        container = Container.new(self._engine.program, environ)
        hf_home = Path(environ.get("HF_HOME") or Path(environ.get("HOME", "~")).expanduser() / ".cache/huggingface")
        inner = {name: environ[name] for name in _PASSED_VARIABLES if environ.get(name)}
        inner |= {"VLLM_NO_USAGE_STATS": "1"}
        if Path(request.model).is_dir():
            inner.setdefault("HF_HUB_OFFLINE", "1")
            request = ServeRequest(
                str(Path(request.model).absolute()), request.served_model_name, request.engine_args, request.env
            )
        else:
            inner["HF_HOME"] = INNER_HF_HOME
        passed, added = variable_arguments(inner | dict(request.env))
        settings = self._settings
        return Launch(
            (
                *(self._engine.program, "run", *identity_arguments(container)),
                *(*settings.devices, *memory_arguments(settings.shm_size)),
                *network_arguments(port, host_network=settings.host_network),
                *mount_arguments(request.model, settings.mounts, hf_home.absolute()),
                # The server's mark, which identifies its processes if they are visible.
                *(*passed, f"--env={TOKEN_VARIABLE}"),
                # The entry points of images differ; all have the program.
                *("--entrypoint=vllm", self.image, "serve"),
                *serve_arguments(request, port, host="127.0.0.1" if settings.host_network else "0.0.0.0"),  # nosec B104 # noqa: S104 - inside the container; published on 127.0.0.1
            ),
            dict(environ) | added,
            None,
            in_process_group=False,
            container=container,
            after_stop=lambda: _remove_container(container),
        )


class DockerProvisioner(Provisioner):
    """`variant` is for versions that do not name one; None is vLLM's default image, for NVIDIA GPUs.

    `image` is the user's own: `registry/vllm:v{version}`, with placeholders {version}, {commit} and {variant}.
    """

    def __init__(
        self,
        *,
        variant: str | None = None,
        image: str | None = None,
        gpus: str | None = None,
        shm_size: str = SHM_SIZE,
        mounts: Sequence[Path] = (),
        program: str | None = None,
        directory: Path | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self._variant = variant
        self._image = image
        self._environ = dict(os.environ if environ is None else environ)
        # A variable limits the devices as it does for a server without a container.
        self._gpus = gpus or visible_setting(self._environ) or "all"
        self._shm_size = shm_size
        self._mounts = tuple(path.absolute() for path in mounts)
        self._program = program
        self._directory = directory or images_directory()

    def provision(self, version: Version, *, progress: Progress | None = None) -> DockerEnvironment:
        variant = version.variant or self._variant
        wanted = Version(version.number, version.commit, variant)
        if self._image is None:
            names = published_images(version, variant)
        else:
            names = (named_image(self._image, version, variant),)
        engine = find_engine(self._environ, self._program)
        devices = device_arguments(self._gpus, variant, podman=engine.is_podman)
        name, image, content = _pull_first(engine, names, progress)
        host_network = shares_host_network(engine, image, devices)
        if progress and not host_network:
            progress("containers do not share the network of this process; their port is published on 127.0.0.1")
        if progress:
            progress(f"verifying {name}")
        facts = image_facts(engine, image, content, devices, self._directory)
        build = identify_build(facts.answer, wanted)
        if not build.matches(wanted):
            raise ProvisionError(f"{wanted} was asked for, but {name} contains {build}")
        settings = ContainerSettings(tuple(devices), self._shm_size, self._mounts, host_network)
        return DockerEnvironment(engine, image, facts, build, settings)


def _remove_container(container: Container) -> None:
    if not container.remove(GRACE):
        raise ProvisionError(
            f"the container {container.name} may still exist; remove it with `{container.program} rm -f`"
        )


def _pull_first(engine: Engine, names: Sequence[str], progress: Progress | None) -> tuple[str, str, str]:
    """The first image that is there or can be pulled: its name, the name to run it by, and the id of its content."""
    missing: ImageNotThereError | None = None
    for name in names:
        try:
            described = engine.inspect(name)
            if described is None:
                engine.pull(name, progress)
                described = engine.inspect(name)
        except ImageNotThereError as error:
            missing = missing or error
            continue
        if described is None or not isinstance(content := described.get("Id"), str) or not content:
            raise ProvisionError(f"{name} was pulled, but {engine} does not report its id")
        return name, _by_digest(name, content, described.get("RepoDigests")), content
    raise missing or ProvisionError("no image was named")


def _by_digest(name: str, content: str, digests: object) -> str:
    """A name for exactly this content: by digest if the image came from a registry, else its id."""
    for each in digests if isinstance(digests, list) else []:
        if isinstance(each, str) and "@" in each and repository(each) == repository(name):
            return each
    return content
