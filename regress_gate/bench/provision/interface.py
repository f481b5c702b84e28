"""What the ways of provisioning share: a version goes in, an environment that knows how to serve it comes out.

Not for the life of the server: an environment makes the command line and starts nothing.
"""

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from regress_gate.bench.provision.containers import Container
from regress_gate.errors import ExitCode, InputError, RegressGateError
from regress_gate.model.deployment import ArgValue
from regress_gate.model.version import Version

Progress = Callable[[str], None]
"""Takes one line on what takes time now."""


class ProvisionError(RegressGateError):
    """The version could not be had or is not what was asked for: no verdict on it.

    `lines` are the decisive lines of the program that failed, `log` its whole output.
    """

    exit_code = ExitCode.COULD_NOT_MEASURE

    def __init__(self, what: str, *, lines: tuple[str, ...] = (), log: Path | None = None):
        self.what, self.lines, self.log = what, lines, log
        cause = f": {lines[0]}" if lines else ""
        super().__init__(what + cause + (f" (whole output: {log})" if log else ""))


@dataclass(frozen=True, slots=True)
class ServeRequest:
    """What a scenario wants served, whichever way the version is provisioned."""

    model: str
    """A hub id or a directory."""
    served_model_name: str
    engine_args: Mapping[str, ArgValue] = field(default_factory=dict)
    """Keys with underscores; true and false are switches."""
    env: Mapping[str, str] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """Of what caches are filled for: the model, the arguments and the variables, whatever their order."""
        told = [self.model, dict(self.engine_args), dict(self.env)]
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Launch:
    """How to start a server; the whole environment, not an addition to the caller's."""

    command: tuple[str, ...]
    env: Mapping[str, str] = field(repr=False)
    directory: Path | None = None
    in_process_group: bool = True
    """Whether all of the server runs in the process group that the command starts. A container does not."""
    container: Container | None = None
    """Where the server runs; as plain values, so that what a killed tool left can be found and ended by a later one."""
    after_stop: Callable[[], None] | None = None
    """Ends what ending the processes does not reach, such as a container. Called once, however the server ended."""


class Environment(ABC):
    """One provisioned version. As a context manager it is held: `prune` leaves what is held alone."""

    version: Version | None
    """The build as verified; None while only the running server can tell."""
    libraries: Mapping[str, str]
    """Versions of what came with the build, where they can be read: torch, triton, transformers…"""

    @abstractmethod
    def launch(self, request: ServeRequest, port: int) -> Launch:
        """How to serve on 127.0.0.1:port. Raises InputError for a request that this way cannot carry out."""

    def has_served(self, request: ServeRequest) -> bool:
        """Whether this was served in it before: the first start finds caches empty. True where that is unknown."""
        del request
        return True

    def note_served(self, request: ServeRequest) -> None:
        """Remember that this was served in it."""
        del request

    def close(self) -> None:
        """Let go of it."""
        return

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Provisioner(ABC):
    """One way to get a version."""

    @abstractmethod
    def provision(self, version: Version, *, progress: Progress | None = None) -> Environment:
        """Get the version. Raises ProvisionError when it cannot be had, InputError when it cannot be meant."""


# MERGED regress_gate.bench.provision.serve_line: A serve request as arguments of `vllm serve`. Not for deciding
# which arguments a scenario has.


_RESERVED_ARGUMENTS = ("model", "host", "port", "served_model_name")


def serve_arguments(request: ServeRequest, port: int, *, host: str = "127.0.0.1") -> list[str]:
    """Everything after `vllm serve`. Raises InputError for an engine argument that the tool must set itself."""
    arguments = [
        request.model,
        f"--host={host}",
        f"--port={port}",
        f"--served-model-name={request.served_model_name}",
    ]
    for key, value in request.engine_args.items():
        if key in _RESERVED_ARGUMENTS:
            raise InputError(f"engine argument {key!r} is set by the tool; leave it out")
        # A dotted key reaches into a group (`compilation_config.mode`); only the group's name is a flag.
        group, dot, inner = key.partition(".")
        flag = group.replace("_", "-") + dot + inner
        if isinstance(value, bool):
            arguments.append(f"--{flag}" if value else f"--no-{flag}")
        else:
            arguments.append(f"--{flag}={value}")
    return arguments
