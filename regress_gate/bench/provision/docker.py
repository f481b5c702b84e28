"""Provisioning by container image, with docker or podman: an image that vLLM publishes, or the user's own.

An image that is missing is pulled. It is run by its digest, and must contain the version that was asked for. Not for
building images; the engine's commands are in `engine`, the arguments of a container in `containers`.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from regress_gate.accelerators.registry import visible_setting
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
from regress_gate.bench.provision.images import (
    ImageFacts,
    image_facts,
    named_image,
    published_images,
    repository,
    shares_host_network,
)
from regress_gate.bench.provision.interface import (
    Environment,
    Launch,
    Progress,
    Provisioner,
    ProvisionError,
    ServeRequest,
    serve_arguments,
)
from regress_gate.bench.provision.verify import identify_build, result_moving_libraries
from regress_gate.bench.server.processes import TOKEN_VARIABLE
from regress_gate.model.version import Version
from regress_gate.paths import images_directory

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
                *serve_arguments(request, port, host="127.0.0.1" if settings.host_network else "0.0.0.0"),  # noqa: S104 - inside the container; published on 127.0.0.1
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
