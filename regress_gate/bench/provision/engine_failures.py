"""Why docker or podman failed, from what they print: the cause in our words and what to do about it.

Wordings of several versions of both; one that is not recognised is passed on as it is. Not for what went wrong inside
of a container.
"""

import re
from dataclasses import dataclass

from regress_gate.bench.provision.interface import ProvisionError
from regress_gate.bench.provision.sources import redact

MAX_LINES = 6
"""Lines of output that an error quotes."""


class ImageNotThereError(ProvisionError):
    """No image has that name, or none that this user may see: registries do not tell these apart."""


@dataclass(frozen=True, slots=True)
class Cause:
    signs: str
    """Regular expression, whatever the case."""
    what: str
    todo: str


_DAEMON = (
    Cause(
        r"permission denied while trying to connect|dial unix \S+: connect: permission denied",
        "its daemon does not let this user in",
        "join the group that owns its socket, or use podman",
    ),
    Cause(
        r"cannot connect to the docker daemon|is the docker daemon running|failed to connect to the docker api|"
        r"(unable|cannot) to connect to podman|error during connect",
        "its daemon does not answer",
        "start it, or look at DOCKER_HOST",
    ),
)
_NOT_THERE = re.compile(
    r"manifest unknown|manifest for .* not found|repository does not exist|pull access denied|name unknown|"
    r"no such image|image not known|requested access to the resource is denied|: not found$",
    re.IGNORECASE | re.MULTILINE,
)
_OTHERS = (
    Cause(
        r"toomanyrequests|rate limit|too many requests",
        "the registry's rate limit is reached",
        "log in to the registry, wait, or name a mirror's image",
    ),
    Cause(r"no space left on device", "the disk is full", "free some, or delete images that nothing uses"),
    Cause(
        r"could not select device driver|nvidia-container-cli|unknown or invalid runtime name|"
        r"unresolvable CDI devices|failed to discover GPU vendor",
        "it cannot give GPUs to a container",
        "install and configure the NVIDIA Container Toolkit",
    ),
    Cause(
        r"error gathering device information|stat /dev/(kfd|dri)|/dev/(kfd|dri).*no such file",
        "a GPU's device is not on this machine",
        "this image is for AMD's GPUs: choose another variant",
    ),
    Cause(
        r"no matching manifest for|does not match the (specified|detected host) platform|exec format error|"
        r"no image found in manifest list",
        "the image is not made for this machine's processor",
        "name one that is",
    ),
    Cause(
        r"unauthorized|authentication required|no basic auth credentials",
        "the registry wants to know who you are",
        "log in to it",
    ),
    Cause(
        r"i/o timeout|no such host|connection refused|tls handshake|context deadline exceeded|name resolution|"
        r"network is unreachable|x509|server misbehaving|connection reset|request canceled",
        "the registry cannot be reached",
        "look at the engine's network and proxy",
    ),
    Cause(
        r"executable file .*not found|exec: \S+ not found",
        "the image lacks a program that vLLM's images have",
        "name an image of vLLM",
    ),
    Cause(
        r"bind source path does not exist|mounts denied|statfs .*no such file",
        "it cannot mount a directory",
        "look at the mounts; they must exist where the daemon runs",
    ),
)


def failure(what: str, engine: str, output: str) -> ProvisionError:
    """The error for what an engine printed when it failed at `what`."""
    # In this order: without a daemon nothing is known of images, and a missing image is often told as a lack of rights.
    if found := _first(_DAEMON, output):
        return ProvisionError(f"{what}: {engine} says that {found.what}; {found.todo}")
    if _NOT_THERE.search(output):
        return ImageNotThereError(f"{what}: there is no such image, or it is not public")
    if found := _first(_OTHERS, output):
        return ProvisionError(f"{what}: {engine} says that {found.what}; {found.todo}")
    complaints = [line for line in last_words(output) if re.match(r"(docker: )?error", line, re.IGNORECASE)]
    return ProvisionError(what, lines=tuple(complaints) or last_words(output))


def last_words(output: str) -> tuple[str, ...]:
    """The last lines, the very last one first: Python tells there what went wrong."""
    lines = [redact(line.strip()) for line in output.splitlines() if line.strip()][-MAX_LINES:]
    return tuple(lines[-1:] + lines[:-1])


def _first(causes: tuple[Cause, ...], output: str) -> Cause | None:
    return next((cause for cause in causes if re.search(cause.signs, output, re.IGNORECASE)), None)
