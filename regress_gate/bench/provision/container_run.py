"""The arguments of `docker run` for one server: devices, shared memory, network, mounts, variables. Pure but for paths.

Not for what runs in the container. Variables are handed over by name, with the value in the environment of the
engine's program, because command lines are public.
"""

import csv
import io
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from regress_gate.bench.provision.containers import LABEL, Container
from regress_gate.errors import InputError

SHM_SIZE = "16g"
"""Of the container's own shared memory. A limit, not a reservation: the engine's default of 64 MB ends vLLM."""
HOST = "host"
"""As shared memory size: share the host's, as `--ipc=host`."""
INNER_HF_HOME = "/root/.cache/huggingface"

_STEERS_THE_ENGINE = re.compile(
    r"PATH|HOME|TMPDIR|USER|LD_\w+|GO\w+|SSL_CERT_\w+|(DOCKER|BUILDKIT|CONTAINERS?|XDG|REGISTRY)_\w+"
    r"|(HTTPS?|NO|ALL)_PROXY",
    re.IGNORECASE,
)
"""Names whose value, meant for the container, would change what the engine's own program does."""


def device_arguments(gpus: str, variant: str | None, *, podman: bool) -> list[str]:
    """`gpus` is `all`, `none`, or numbers and UUIDs with commas between."""
    if variant == "cpu" or gpus == "none":
        # Without it the CPU build may not bind memory to the NUMA node that it computes on.
        return ["--cap-add=SYS_NICE"] if variant == "cpu" else []
    if not re.fullmatch(r"all|[\w:.-]+(,[\w:.-]+)*", gpus):
        raise InputError(f"{gpus!r} names no GPUs", where="gpus", todo="write all, none, or numbers: 0,1")
    if variant is not None and variant.startswith("rocm"):
        if gpus != "all":
            raise InputError("one of AMD's GPUs cannot be given alone", where="gpus", todo="write all")
        return ["--device=/dev/kfd", "--device=/dev/dri", "--group-add=video"]
    if podman:
        return [f"--device=nvidia.com/gpu={each}" for each in gpus.split(",")]
    # The engine reads the value as CSV, in which the commas of a list need quotes.
    return ["--gpus=all" if gpus == "all" else f'--gpus="device={gpus}"']


def memory_arguments(shm_size: str) -> list[str]:
    return ["--ipc=host"] if shm_size == HOST else [f"--shm-size={shm_size}"]


def network_arguments(port: int, *, host_network: bool) -> list[str]:
    """Reachable on 127.0.0.1 alone, either way. On the host's network no proxy stands between client and server."""
    return ["--network=host"] if host_network else [f"--publish=127.0.0.1:{port}:{port}"]


def mount_arguments(model: str, extra: Iterable[Path], hf_home: Path) -> list[str]:
    """A model directory and the extra ones read-only where they are on this machine; for a model that comes from the
    hub, the hub's cache, to which it is downloaded once."""
    readonly = list(extra)
    arguments = []
    if Path(model).is_dir():
        readonly += _with_targets(Path(model).absolute())
    else:
        try:
            hf_home.mkdir(parents=True, exist_ok=True)  # else the engine makes it, as root
        except OSError as error:
            raise InputError(f"the hub's cache cannot be made ({error.strerror})", where=hf_home) from None
        arguments.append(_mount(hf_home, INNER_HF_HOME, readonly=False))
    for path in dict.fromkeys(readonly):
        if not path.exists():
            raise InputError("is to be mounted and does not exist", where=path)
        arguments.append(_mount(path, str(path), readonly=True))
    return arguments


def variable_arguments(container: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
    """The arguments that hand these variables to the container, and what to add to the program's own environment."""
    arguments, added = [], {}
    for name, value in container.items():
        if not re.fullmatch(r"[^=\s\x00]+", name):
            raise InputError(f"{name!r} is no name of a variable")
        if _STEERS_THE_ENGINE.fullmatch(name):
            arguments.append(f"--env={name}={value}")
        else:
            arguments.append(f"--env={name}")
            added[name] = value
    return arguments, added


def identity_arguments(container: Container) -> list[str]:
    """Deleted when it ends, with a first process that ends its children, and marked as ours."""
    return ["--rm", "--init", f"--name={container.name}", f"--label={LABEL}={container.mark}", "--pull=never"]


def _mount(source: Path, target: str, *, readonly: bool) -> str:
    line = io.StringIO()
    fields = ["type=bind", f"source={source}", f"target={target}", *(["readonly"] if readonly else [])]
    csv.writer(line, lineterminator="").writerow(fields)
    return f"--mount={line.getvalue()}"


def _with_targets(directory: Path) -> list[Path]:
    """The directory, and those that links in it lead to: a snapshot in the hub's cache is links to files beside it."""
    found = [directory]
    for path in directory.rglob("*"):
        if path.is_symlink() and path.exists():
            target = path.resolve()
            if not target.is_relative_to(directory):
                found.append(target if target.is_dir() else target.parent)
    return found
