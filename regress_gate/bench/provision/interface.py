"""The interface of all ways of provisioning: from a version to an environment that can serve it.

An environment makes the command line of a server and starts nothing: the life of the server is in `bench.server`. Also
the environment variables of installers and servers: the user's, without those that would inject other code.
"""

import hashlib
import json
import re
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
"""Receives one line about the step that takes time now."""


_RESERVED_ARGUMENTS = ("model", "host", "port", "served_model_name")
"""Engine arguments that the tool sets itself."""
_LISTS = ("lora_modules",)
"""Engine arguments of which vLLM takes several, as words of their own. One in JSON stays one word."""
_INJECTS_CODE = re.compile(
    r"PYTHON(PATH|HOME|STARTUP|USERBASE|SAFEPATH|PLATLIBDIR|PYCACHEPREFIX|NOUSERSITE)|VIRTUAL_ENV(_PROMPT)?"
    r"|__PYVENV_LAUNCHER__|CONDA_(PREFIX|DEFAULT_ENV|SHLVL|PROMPT_MODIFIER)(_\d+)?|POETRY_ACTIVE|PIPENV_ACTIVE"
)
_SLOWS_EXECUTION = frozenset(
    {"PYTHONDONTWRITEBYTECODE", "PYTHONDEVMODE", "PYTHONTRACEMALLOC", "PYTHONPROFILEIMPORTTIME"}
)
"""Without bytecode every start of vLLM takes twice the time, and that would be measured."""

_KEPT_INSTALLER_VARIABLES = re.compile(
    r"PIP_(INDEX_URL|EXTRA_INDEX_URL|FIND_LINKS|NO_INDEX|TRUSTED_HOST|CERT|CLIENT_CERT|PROXY|(DEFAULT_)?TIMEOUT"
    r"|RETRIES|CACHE_DIR|NO_CACHE_DIR|CONFIG_FILE|KEYRING_PROVIDER|DISABLE_PIP_VERSION_CHECK)"
    r"|UV_(DEFAULT_INDEX|INDEX|INDEX_URL|EXTRA_INDEX_URL|INDEX_\w+_(USERNAME|PASSWORD)|INDEX_STRATEGY|FIND_LINKS"
    r"|OFFLINE|CACHE_DIR|NO_CACHE|NATIVE_TLS|SYSTEM_CERTS|INSECURE_HOST|HTTP_TIMEOUT|HTTP_RETRIES"
    r"|KEYRING_PROVIDER|CONFIG_FILE|CONCURRENT_\w+|LINK_MODE)"
)
"""Package sources and network access. Any other setting of an installer (a target directory,
constraints, pre-releases…) would change what is installed or where."""

_KEPT_VLLM_VARIABLES = frozenset({"VLLM_CACHE_ROOT", "VLLM_CONFIG_ROOT"})


class ProvisionError(RegressGateError):
    """The version cannot be installed, or is not the one that was asked for: no verdict on it.

    `lines` are the decisive lines of the program that failed, `log` is its whole output.
    """

    exit_code = ExitCode.COULD_NOT_MEASURE

    def __init__(self, what: str, *, lines: tuple[str, ...] = (), log: Path | None = None):
        self.what, self.lines, self.log = what, lines, log
        cause = f": {lines[0]}" if lines else ""
        super().__init__(what + cause + (f" (whole output: {log})" if log else ""))


class NotPublishedError(ProvisionError):
    """There is no build of the version for this machine: asking again does not help."""


@dataclass(frozen=True, slots=True)
class ServeRequest:
    """What a scenario serves, for every way of provisioning."""

    model: str
    """A hub id or a directory."""
    served_model_name: str
    engine_args: Mapping[str, ArgValue] = field(default_factory=dict)
    """Keys with underscores; true and false are switches."""
    env: Mapping[str, str] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """Identifies what caches are filled for: model, arguments and variables, in any order."""
        content = [self.model, dict(self.engine_args), dict(self.env)]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Launch:
    """How to start a server. `env` is the whole environment, not an addition to the caller's."""

    command: tuple[str, ...]
    env: Mapping[str, str] = field(repr=False)
    directory: Path | None = None
    in_process_group: bool = True
    """Whether the whole server runs in the process group of the command. A container does not."""
    container: Container | None = None
    """Where the server runs. Plain values, so that a later process can end what a killed one left."""
    after_stop: Callable[[], None] | None = None
    """Ends what is not a child process, such as a container. Called once, however the server ended."""


class Environment(ABC):
    """One provisioned version. While it is entered as a context manager, `prune` does not delete it."""

    version: Version | None
    """The verified build; None if only the running server reports it."""
    libraries: Mapping[str, str]
    """Versions of libraries that came with the build, if they can be read: torch, triton, transformers…"""

    @abstractmethod
    def launch(self, request: ServeRequest, port: int) -> Launch:
        """How to serve on 127.0.0.1:port. Raises InputError for a request that this way does not support."""

    def has_served(self, request: ServeRequest) -> bool:
        """Whether this was served in it before: the first start has empty caches. True if unknown."""
        del request
        return True

    def note_served(self, request: ServeRequest) -> None:
        """Record that this was served in it."""
        del request

    def close(self) -> None:
        """Release it."""
        return

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Provisioner(ABC):
    """One way of provisioning."""

    @abstractmethod
    def provision(self, version: Version, *, progress: Progress | None = None) -> Environment:
        """Get the version. Raises ProvisionError if that fails, InputError for a version that this way cannot have."""


def serve_arguments(request: ServeRequest, port: int, *, host: str = "127.0.0.1") -> list[str]:
    """Everything after `vllm serve`. Raises InputError for an engine argument that the tool sets itself."""
    arguments = [
        request.model,
        f"--host={host}",
        f"--port={port}",
        f"--served-model-name={request.served_model_name}",
    ]
    for key, value in request.engine_args.items():
        if key in _RESERVED_ARGUMENTS:
            raise InputError(f"engine argument {key!r} is set by the tool; leave it out")
        # A dotted key sets one key of a group (`compilation_config.mode`); only the group's name is a flag.
        group, dot, inner = key.partition(".")
        flag = group.replace("_", "-") + dot + inner
        if isinstance(value, bool):
            arguments.append(f"--{flag}" if value else f"--no-{flag}")
        elif key in _LISTS and not str(value).startswith("{") and len(words := str(value).split()) > 1:
            arguments += [f"--{flag}", *words]
        else:
            arguments.append(f"--{flag}={value}")
    return arguments


def installer_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of an installer: certificates, proxies and package sources stay."""
    return {
        name: value
        for name, value in environ.items()
        if not _is_foreign(name) and (not name.startswith(("PIP_", "UV_")) or _KEPT_INSTALLER_VARIABLES.fullmatch(name))
    }


def server_variables(environ: Mapping[str, str], venv: Path) -> dict[str, str]:
    """The environment of a server in `venv`.

    VLLM_* variables of the caller's shell are left out: they would change the deployment, and the suite would not show
    it.
    """
    kept = {
        name: value
        for name, value in environ.items()
        if not _is_foreign(name)
        and not name.startswith(("PIP_", "UV_"))
        and (not name.startswith("VLLM_") or name in _KEPT_VLLM_VARIABLES)
    }
    path = environ.get("PATH", "")
    return kept | {
        "VIRTUAL_ENV": str(venv),
        "PATH": f"{venv / 'bin'}:{path}" if path else str(venv / "bin"),
        "PYTHONNOUSERSITE": "1",
        "VLLM_NO_USAGE_STATS": "1",
    }


def _is_foreign(name: str) -> bool:
    return name in _SLOWS_EXECUTION or bool(_INJECTS_CODE.fullmatch(name))
