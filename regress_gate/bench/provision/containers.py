"""The containers that servers run in: the arguments of `docker run`, and removing a container for certain.

Killing the program `docker run` leaves its container running. A container is found by a random label and never by its
name alone, so that no other container is touched. Variables are passed by name, with the value in the environment of
the engine's program, because other users can read command lines. Not for starting a container.
"""

import csv
import io
import os
import re
import secrets
import subprocess
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from regress_gate.accelerators.registry import default_family, family_of_variant
from regress_gate.errors import InputError

LABEL = "regress-gate.server"
ENGINE_TIMEOUT = 60.0
"""Seconds for one command of the engine, beyond the grace period of the container."""
REMOVAL_TIMEOUT = 30.0
"""Seconds that the engine has to remove a container that has ended."""
REMOVAL_POLL = 0.2
_ENGINE_ADDRESS_VARIABLES = (
    *("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH"),
    *("CONTAINER_HOST", "CONTAINERS_CONF", "CONTAINERS_STORAGE_CONF", "XDG_RUNTIME_DIR"),
)
"""Variables that select an engine; none of them holds a secret."""


SHM_SIZE = "16g"
"""The size of the container's shared memory. A limit, not a reservation: vLLM crashes with the default of 64 MB."""
HOST_SHARED_MEMORY = "host"
"""A size of shared memory that means: share the host's, as `--ipc=host` does."""
INNER_HF_HOME = "/root/.cache/huggingface"

_ENGINE_VARIABLES = re.compile(
    r"PATH|HOME|TMPDIR|USER|LD_\w+|GO\w+|SSL_CERT_\w+|(DOCKER|BUILDKIT|CONTAINERS?|XDG|REGISTRY)_\w+"
    r"|(HTTPS?|NO|ALL)_PROXY",
    re.IGNORECASE,
)
"""Variables that would change what the engine's own program does."""


@dataclass(frozen=True, slots=True)
class Container:
    """Plain values, so that a later process can find and end it."""

    program: str
    """docker or podman."""
    name: str
    mark: str
    """Random; the value of its label."""
    address: tuple[tuple[str, str], ...] = ()
    """Variables that select its engine."""

    @classmethod
    def new(cls, program: str, environ: Mapping[str, str]) -> Self:
        """A container to be started, with a unique name and mark."""
        mark = secrets.token_hex(16)
        address = tuple((name, environ[name]) for name in _ENGINE_ADDRESS_VARIABLES if environ.get(name))
        return cls(program, f"regress-gate-{mark[:12]}", mark, address)

    def is_there(self) -> bool | None:
        """Whether it exists; None if the engine does not answer."""
        ids = self._find()
        return None if ids is None else bool(ids)

    def remove(self, grace: float) -> bool:
        """End it, by force after `grace` seconds. Returns whether it is certainly gone."""
        ids = self._find()
        if ids and grace > 0:
            self._run("stop", "-t", str(max(1, round(grace))), *ids, timeout=grace + ENGINE_TIMEOUT)
            ids = self._find()
        deadline = time.monotonic() + REMOVAL_TIMEOUT
        while ids:
            # Fails while the engine itself is removing the container.
            self._run("rm", "--force", "--volumes", *ids)
            ids = self._find()
            if not ids or time.monotonic() >= deadline:
                break
            time.sleep(REMOVAL_POLL)
        return ids == []

    def _find(self) -> list[str] | None:
        output = self._run("ps", "--all", "--quiet", "--no-trunc", "--filter", f"label={LABEL}={self.mark}")
        return None if output is None else output.split()

    def _run(self, *arguments: str, timeout: float = ENGINE_TIMEOUT) -> str | None:
        try:
            finished = subprocess.run(  # noqa: S603 - the engine that started it
                [self.program, *arguments],
                env={**os.environ, **dict(self.address)},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=timeout,
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        return finished.stdout if finished.returncode == 0 else None


def device_arguments(devices: str, variant: str | None, *, podman: bool) -> list[str]:
    """The arguments that give accelerators to a container; `devices` is `all`, `none`, or ids with commas between.

    A build of an unknown variant is taken for one for NVIDIA GPUs, as the default build is.
    """
    if not re.fullmatch(r"all|[\w:.-]+(,[\w:.-]+)*", devices):
        raise InputError(f"{devices!r} names no GPUs", where="gpus", todo="write all, none, or numbers: 0,1")
    family = family_of_variant(variant) or default_family()
    return [] if devices == "none" and family.platform != "cpu" else family.container_arguments(devices, podman=podman)


def memory_arguments(shm_size: str) -> list[str]:
    return ["--ipc=host"] if shm_size == HOST_SHARED_MEMORY else [f"--shm-size={shm_size}"]


def network_arguments(port: int, *, host_network: bool) -> list[str]:
    """Reachable on 127.0.0.1 alone in both cases. On the host's network there is no proxy before the server."""
    return ["--network=host"] if host_network else [f"--publish=127.0.0.1:{port}:{port}"]


def mount_arguments(model: str, extra: Iterable[Path], hf_home: Path) -> list[str]:
    """The model directory and the `extra` ones, read-only under their own paths; for a model of the hub, its cache.

    Raises InputError for a path that does not exist.
    """
    readonly = list(extra)
    arguments = []
    if Path(model).is_dir():
        readonly += _with_targets(Path(model).absolute())
    else:
        try:
            hf_home.mkdir(parents=True, exist_ok=True)  # otherwise the engine creates it, as root
        except OSError as error:
            raise InputError(f"the hub's cache cannot be created ({error.strerror})", where=hf_home) from None
        arguments.append(_mount(hf_home, INNER_HF_HOME, readonly=False))
    for path in dict.fromkeys(readonly):
        if not path.exists():
            raise InputError("cannot be mounted: it does not exist", where=path)
        arguments.append(_mount(path, str(path), readonly=True))
    return arguments


def variable_arguments(container: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
    """The arguments that pass these variables to the container, and what to add to the program's environment."""
    arguments, added = [], {}
    for name, value in container.items():
        if not re.fullmatch(r"[^=\s\x00]+", name):
            raise InputError(f"{name!r} is not a valid name of a variable")
        if _ENGINE_VARIABLES.fullmatch(name):
            arguments.append(f"--env={name}={value}")
        else:
            arguments.append(f"--env={name}")
            added[name] = value
    return arguments, added


def identity_arguments(container: Container) -> list[str]:
    """Remove the container when it ends, run an init process in it, and label it."""
    return ["--rm", "--init", f"--name={container.name}", f"--label={LABEL}={container.mark}", "--pull=never"]


def _mount(source: Path, target: str, *, readonly: bool) -> str:
    line = io.StringIO()
    fields = ["type=bind", f"source={source}", f"target={target}", *(["readonly"] if readonly else [])]
    csv.writer(line, lineterminator="").writerow(fields)
    return f"--mount={line.getvalue()}"


def _with_targets(directory: Path) -> list[Path]:
    """The directory, and the targets of links in it: a snapshot in the hub's cache links to files beside it."""
    directories = [directory]
    for path in directory.rglob("*"):
        if path.is_symlink() and path.exists():
            target = path.resolve()
            if not target.is_relative_to(directory):
                directories.append(target if target.is_dir() else target.parent)
    return directories
