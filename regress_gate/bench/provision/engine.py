"""docker and podman through their program: one command at a time, and the cause if it fails.

Causes are recognised by the wordings of several versions of both; other output is quoted as it is. Not for failures
inside of a container, and not for the life of a server's container.
"""

import json
import re
import shutil
import subprocess
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regress_gate.bench.provision.interface import Progress, ProvisionError
from regress_gate.redaction import redact

PULL_TIMEOUT = 7200.0
"""Seconds; vLLM's images are about ten gigabytes."""
QUESTION_TIMEOUT = 120.0
_ENGINE_EXIT_STATUSES = (125, 126, 127)
"""Exit statuses of `run` that mean a failure of the engine; others are those of the program it ran."""
MAX_LINES = 6
"""Lines of output that an error quotes."""


class ImageNotThereError(ProvisionError):
    """No image has that name, or this user may not see it: registries give the same answer for both."""


@dataclass(frozen=True, slots=True)
class _KnownFailure:
    signs: str
    """Regular expression, ignoring case."""
    what: str
    todo: str


_DAEMON_FAILURES = (
    _KnownFailure(
        r"permission denied while trying to connect|dial unix \S+: connect: permission denied",
        "this user has no access to its daemon",
        "join the group that owns its socket, or use podman",
    ),
    _KnownFailure(
        r"cannot connect to the docker daemon|is the docker daemon running|failed to connect to the docker api|"
        r"(unable|cannot) to connect to podman|error during connect",
        "its daemon does not answer",
        "start it, or check DOCKER_HOST",
    ),
)
_IMAGE_NOT_THERE = re.compile(
    r"manifest unknown|manifest for .* not found|repository does not exist|pull access denied|name unknown|"
    r"no such image|image not known|requested access to the resource is denied|: not found$",
    re.IGNORECASE | re.MULTILINE,
)
_OTHER_FAILURES = (
    _KnownFailure(
        r"toomanyrequests|rate limit|too many requests",
        "the registry's rate limit is reached",
        "log in to the registry, wait, or name a mirror's image",
    ),
    _KnownFailure(r"no space left on device", "the disk is full", "free space, or delete unused images"),
    _KnownFailure(
        r"could not select device driver|nvidia-container-cli|unknown or invalid runtime name|"
        r"unresolvable CDI devices|failed to discover GPU vendor",
        "it cannot give GPUs to a container",
        "install and configure the NVIDIA Container Toolkit",
    ),
    _KnownFailure(
        r"error gathering device information|stat /dev/(kfd|dri)|/dev/(kfd|dri).*no such file",
        "a GPU's device is not on this machine",
        "this image is for AMD or Intel GPUs: choose another variant",
    ),
    _KnownFailure(
        r"no matching manifest for|does not match the (specified|detected host) platform|exec format error|"
        r"no image found in manifest list",
        "the image is for another processor architecture",
        "name an image for this one",
    ),
    _KnownFailure(
        r"unauthorized|authentication required|no basic auth credentials",
        "the registry requires a login",
        "log in to it",
    ),
    _KnownFailure(
        r"i/o timeout|no such host|connection refused|tls handshake|context deadline exceeded|name resolution|"
        r"network is unreachable|x509|server misbehaving|connection reset|request canceled",
        "the registry cannot be reached",
        "check the engine's network and proxy",
    ),
    _KnownFailure(
        r"executable file .*not found|exec: \S+ not found",
        "the image lacks a program that vLLM's images have",
        "name an image of vLLM",
    ),
    _KnownFailure(
        r"bind source path does not exist|mounts denied|statfs .*no such file",
        "it cannot mount a directory",
        "check the mounts: they must exist where the daemon runs",
    ),
)


def engine_error(what: str, engine: str, output: str) -> ProvisionError:
    """The error for an engine's output when it failed at `what`."""
    # In this order: without a daemon nothing is known about images, and a missing image is often reported as missing
    # rights.
    if failure := _first_failure(_DAEMON_FAILURES, output):
        return ProvisionError(f"{what}: {engine} says that {failure.what}; {failure.todo}")
    if _IMAGE_NOT_THERE.search(output):
        return ImageNotThereError(f"{what}: there is no such image, or it is not public")
    if failure := _first_failure(_OTHER_FAILURES, output):
        return ProvisionError(f"{what}: {engine} says that {failure.what}; {failure.todo}")
    complaints = [line for line in last_lines(output) if re.match(r"(docker: )?error", line, re.IGNORECASE)]
    return ProvisionError(what, lines=tuple(complaints) or last_lines(output))


def last_lines(output: str) -> tuple[str, ...]:
    """The last lines, the very last one first, because a Python traceback ends with the error."""
    lines = [redact(line.strip()) for line in output.splitlines() if line.strip()][-MAX_LINES:]
    return tuple(lines[-1:] + lines[:-1])


def _first_failure(causes: tuple[_KnownFailure, ...], output: str) -> _KnownFailure | None:
    return next((cause for cause in causes if re.search(cause.signs, output, re.IGNORECASE)), None)


@dataclass(frozen=True, slots=True)
class Engine:
    program: str
    environ: Mapping[str, str] = field(repr=False)
    is_podman: bool

    def run(self, *arguments: str, what: str, timeout: float = QUESTION_TIMEOUT) -> str:
        """Standard output of one command. Raises ProvisionError with `what` could not be done and why."""
        try:
            finished = subprocess.run(  # noqa: S603 - the engine that the caller chose
                [self.program, *arguments],
                env=dict(self.environ),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=timeout,
            )
        except subprocess.TimeoutExpired:
            raise ProvisionError(f"{what}: {self} does not end within {timeout:.0f} s") from None
        except OSError as error:
            raise ProvisionError(f"{what}: {self} cannot be run ({error.strerror or error})") from None
        if finished.returncode:
            output = finished.stderr + "\n" + finished.stdout
            if arguments[0] == "run" and finished.returncode not in _ENGINE_EXIT_STATUSES:
                raise ProvisionError(what, lines=last_lines(output))
            raise engine_error(what, str(self), output)
        return finished.stdout

    def inspect(self, image: str) -> dict[str, Any] | None:
        """The engine's description of a local image; None if the image is not there."""
        what = f"{image} cannot be inspected"
        try:
            described = json.loads(self.run("image", "inspect", image, what=what))
        except ImageNotThereError:
            return None
        except ValueError:
            raise ProvisionError(f"{what}: {self} gives an answer that is not JSON") from None
        if not isinstance(described, list) or not described or not isinstance(described[0], dict):
            raise ProvisionError(f"{what}: {self} gives an unexpected answer")
        return described[0]

    def pull(self, image: str, progress: Progress | None) -> None:
        """Pull an image. Raises ImageNotThereError, or ProvisionError for other failures."""
        what = f"{image} cannot be pulled"
        if progress:
            progress(f"pulling {image} with {self}")
        try:
            pulling = subprocess.Popen(  # noqa: S603 - the engine that the caller chose
                [self.program, "pull", image],
                env=dict(self.environ),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
            )
        except OSError as error:
            raise ProvisionError(f"{what}: {self} cannot be run ({error.strerror or error})") from None
        limit = threading.Timer(PULL_TIMEOUT, pulling.kill)
        limit.start()
        try:
            with pulling:
                output = _follow(pulling, progress)
        finally:
            limit.cancel()
            if pulling.poll() is None:
                pulling.kill()
        if pulling.returncode:
            raise engine_error(what, str(self), output)

    def __str__(self) -> str:
        return Path(self.program).name


def find_engine(environ: Mapping[str, str], named: str | None = None) -> Engine:
    """docker if it is installed, else podman; or the program `named`. Raises ProvisionError."""
    for name in [named] if named else ["docker", "podman"]:
        if path := shutil.which(name, path=environ.get("PATH")):
            engine = Engine(path, environ, is_podman=False)
            version = engine.run("--version", what=f"{name} cannot be used")
            return Engine(path, environ, is_podman="podman" in version.lower())
    missing = f"{named} is not" if named else "neither docker nor podman is"
    raise ProvisionError(f"{missing} installed; install one of them, or provision with `venv` or `command`")


def _follow(pulling: subprocess.Popen[str], progress: Progress | None) -> str:
    """The whole output, while `progress` receives the number of layers."""
    lines: list[str] = []
    layers = done = 0
    for line in pulling.stdout or ():
        lines.append(line)
        layers += line.rstrip().endswith((": Pulling fs layer", ": Already exists"))
        if line.rstrip().endswith((": Pull complete", ": Already exists")):
            done += 1
            if progress and done < layers:
                progress(f"{done} of {layers} layers")
    return "".join(lines)
