"""The effective configuration and the origin of each value: flag > REGRESS_GATE_* variable > file > default.

Also what long work reports its progress to. Not for how progress is shown.
"""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote

from regress_gate.errors import InputError
from regress_gate.model.testbed import asks_for_several
from regress_gate.store.store_interface import default_store_url

if TYPE_CHECKING:
    from regress_gate.model.config import Config
    from regress_gate.model.deployment import Deployment, DeploymentFacts
    from regress_gate.model.policy import Policy, PolicyLayer, PolicyOverrides, Waiver
    from regress_gate.vllm.deployed_server import DeployedServer


CONFIG_NAME = "regress-gate.toml"
PYPROJECT = "pyproject.toml"
TABLE = ("tool", "regress-gate")


@dataclass(frozen=True, slots=True)
class SettingValue:
    """A value and its origin: a flag, a variable, a file, or the default."""

    value: Any
    source: str


@dataclass(frozen=True)
class Settings:
    """The flags. Everything else is looked up on demand, once."""

    store_flag: str | None = None
    config_flag: Path | None = None
    suite_flag: str | None = None
    testbed_flag: str | tuple[str, ...] | None = None
    """A name, or the names and patterns of several; an empty tuple: not given."""
    deployment_flag: "Deployment | None" = None
    """From single flags such as --model."""
    launch_line: str | None = None
    deployment_target: str | None = None
    """A deployment file, or one server of it: FILE#NAME."""
    chosen_server: "DeployedServer | None" = None
    """One server of a file that holds several."""
    server_log: Path | None = None
    collect_env: Path | None = None
    gate_flags: tuple[str, ...] = ()
    """Metrics or patterns that gate, in place of those of suite and file; empty: not given."""
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)

    @cached_property
    def _found(self) -> tuple[Path, str] | None:
        """The configuration file in force and its text. Raises InputError if it cannot be read."""
        named = self.config_flag or _path(self.environment.get("REGRESS_GATE_CONFIG"))
        if named is not None:
            if not _is_file(named):
                raise InputError("no such configuration file", where=named)
            return named, _read_text(named)
        here = Path.cwd()
        for directory in (here, *here.parents):
            if _is_file(own := directory / CONFIG_NAME):
                return own, _read_text(own)
            pyproject = directory / PYPROJECT
            if _is_file(pyproject) and "[tool.regress-gate" in (text := _read_text(pyproject)):
                return pyproject, text
            if (directory / ".git").exists():
                break  # a configuration above the repository belongs to something else
        return None

    @property
    def file(self) -> "tuple[Path | None, Config]":
        """The configuration file in force and its content. Raises InputError with file and line."""
        return None if self._found is None else self._found[0], self.config

    @cached_property
    def config(self) -> "Config":
        from regress_gate.model.config import Config  # with pydantic, which `import` does without

        if self._found is None:
            return Config()
        path, text = self._found
        return read_config(text, path)

    @cached_property
    def store_url(self) -> SettingValue:
        setting = self._pick("--store", self.store_flag, "REGRESS_GATE_STORE", lambda config: config.store.url)
        if setting.value is None:
            return SettingValue(default_store_url(), "default")
        value = str(setting.value)
        if "://" in value:
            return setting
        # A plain path. One in a configuration file is relative to that file.
        file = None if self._found is None else self._found[0]
        base = file.absolute().parent if file is not None and setting.source == str(file) else Path.cwd()
        return SettingValue(_sqlite_url(value, base, setting.source), setting.source)

    @cached_property
    def suite(self) -> SettingValue:
        return self._pick("--suite", self.suite_flag, "REGRESS_GATE_SUITE", lambda config: config.defaults.suite)

    @cached_property
    def testbeds(self) -> SettingValue:
        """Names and patterns of testbeds, as a tuple; empty: all."""
        given = self._pick(
            "--testbed", self.testbed_flag or None, "REGRESS_GATE_TESTBED", lambda config: config.defaults.testbed
        )
        if given.value is None:
            return SettingValue((), given.source)
        return SettingValue((given.value,) if isinstance(given.value, str) else tuple(given.value), given.source)

    @property
    def testbed(self) -> SettingValue:
        """The name of one testbed. Raises InputError for several, or for a pattern."""
        names = self.testbeds
        if asks_for_several(names.value):
            todo = "give one with --testbed; `compare` and `fleet status` take several"
            raise InputError(f"one testbed is wanted here, not {', '.join(names.value)}", where=names.source, todo=todo)
        return SettingValue(names.value[0] if names.value else None, names.source)

    @property
    def deployment_flags(self) -> "Deployment":
        from regress_gate.model.deployment import Deployment  # with pydantic, which `import` does without

        return self.deployment_flag or Deployment()

    @property
    def deployment(self) -> "Deployment":
        """The flags, completed from launch line, start log and environment, then from the configuration."""
        return self.deployment_facts.deployment

    @cached_property
    def deployment_facts(self) -> "DeploymentFacts":
        """The deployment, the version that runs according to its files, and notes about them."""
        # Only commands that match known issues pay for the parsers of vLLM's output.
        from regress_gate.app.deployment_facts import gather_deployment

        return gather_deployment(
            self.deployment_flags,
            self.config.deployment.facts,
            launch_line=self.launch_line,
            server=self.deployed_server,
            server_log=self.server_log,
            collect_env=self.collect_env,
        )

    @cached_property
    def _deployment_target(self) -> str | None:
        """The deployment file of the flag, else that of the configuration, whose path is relative to its own."""
        if self.deployment_target is not None or self.config.deployment.file is None:
            return self.deployment_target
        file = self._found[0] if self._found is not None else Path()
        path, here = file.parent / self.config.deployment.file, Path.cwd()
        # Named as in the repository, wherever that lies on a runner: findings are known by the file, too.
        return str(path.relative_to(here) if path.is_relative_to(here) else path)

    @cached_property
    def deployed_servers(self) -> "list[DeployedServer]":
        """The servers of the deployment file; empty without one. Raises InputError for an unreadable file."""
        if self.chosen_server is not None:
            return [self.chosen_server]
        if self._deployment_target is None:
            return []
        from regress_gate.vllm.deployment_files import read_deployment  # with YAML, which a plain check does not load

        return read_deployment(self._deployment_target)

    @property
    def deployed_server(self) -> "DeployedServer | None":
        """The server of the deployment file; None without one. Raises InputError if the file holds several."""
        if not self.deployed_servers or self._deployment_target is None:
            return self.chosen_server
        from regress_gate.vllm.deployment_files import select_server  # only --deployment needs the readers

        return select_server(self.deployed_servers, self._deployment_target)

    def for_each_server(self) -> "list[Settings]":
        """These settings for each server of the deployment file; themselves if there is at most one."""
        if len(self.deployed_servers) < 2:
            return [self]
        return [replace(self, chosen_server=server) for server in self.deployed_servers]

    @property
    def waivers(self) -> "list[Waiver]":
        return self.config.waivers

    def policy(self, suite: "PolicyOverrides | None" = None, flags: "PolicyOverrides | None" = None) -> "Policy":
        """The default policy, overridden by the suite, the file and the flags, in this order."""

        from regress_gate.model.policy import Policy  # with pydantic, as above

        return Policy().over(*(layer.overrides for layer in self.policy_layers(suite, flags)))

    def policy_layers(
        self, suite: "PolicyOverrides | None" = None, flags: "PolicyOverrides | None" = None, suite_name: str = ""
    ) -> "list[PolicyLayer]":
        """What overrides the default policy, and from where: the suite, then the file, then the flags."""
        from regress_gate.model.policy import PolicyLayer, PolicyOverrides  # with pydantic, as above

        given = (
            (f"suite {suite_name}".strip(), suite, False),
            ("the configuration" if self._found is None else str(self._found[0]), self.config.gate, True),
            ("--gate", PolicyOverrides.gating(self.gate_flags) if self.gate_flags else None, True),
            ("the options", flags, True),
        )
        return [
            PolicyLayer(origin, overrides, is_users) for origin, overrides, is_users in given if overrides is not None
        ]

    def _pick(self, flag: str, flagged: Any, variable: str, configured: "Callable[[Config], Any]") -> SettingValue:
        in_file = None if self._found is None else configured(self.config)  # a broken file is always an error
        if flagged is not None:
            return SettingValue(flagged, flag)
        if self.environment.get(variable):
            return SettingValue(self.environment[variable], variable)
        if self._found is not None and in_file is not None:
            return SettingValue(in_file, str(self._found[0]))
        return SettingValue(None, "default")


def read_config(text: str, path: Path) -> "Config":
    """The configuration in a file's text. Raises InputError with file and line."""

    from regress_gate.model.config import Config  # with pydantic, which `import` does without
    from regress_gate.model.documents import parse_toml, validate

    document = parse_toml(text, path)
    if path.name != PYPROJECT:
        return validate(Config, document)
    data = document.data
    for key in TABLE:
        data = data.get(key, {}) if isinstance(data, dict) else {}
    return validate(Config, type(document)(data, path, document.lines), root=TABLE)


def toml_string(text: str) -> str:
    """A TOML basic string; JSON's escapes are a subset of TOML's, but for DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _sqlite_url(path: str, base: Path, source: str) -> str:

    if not path:
        raise InputError("is empty", where=source, todo="name a file or a database URL")
    try:
        return "sqlite:///" + quote(str(base / Path(path).expanduser()), safe="/:\\ ")
    except RuntimeError:
        raise InputError(f"{path!r} names an unknown home directory", where=source) from None
    except UnicodeError:
        raise InputError(f"{path!r} is not UTF-8 text", where=source) from None


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a name that is too long, a directory that may not be searched
        return False


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise InputError("is not UTF-8 text", where=path) from None
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror})", where=path) from None


def _path(text: str | None) -> Path | None:
    return Path(text) if text else None


DEFAULT_SUITE = "cpu-tiny"
DEFAULT_RUNS = 5
DEFAULT_BLOCKS = 6
"""At most, for `compare --measure`, which mostly stops earlier."""


@dataclass(frozen=True, slots=True)
class MeasurementAmount:
    """What the measuring options ask for; None: the default."""

    runs: int | None = None
    """Server starts of each version."""
    trials: int | None = None
    """Passes of each scenario in a run."""
    budget: float | None = None
    """Seconds."""
    resume: bool = False
    """Go on with an interrupted experiment."""
    resume_if_any: bool = False
    """The same, where there is one; else begin a new one."""
    resident: bool | None = None
    """Keep both servers up and take turns."""
    ready_within: float = 1800.0
    """Seconds that a server may take to start."""
    wait_for_machine: float | None = None
    """Seconds to wait for another measurement on this machine."""
    driver: str | None = None
    """Another load client than our own."""
    lock_clocks: int | None = None
    """MHz that the GPUs are held at meanwhile; None: they are left alone."""


# Progress of long work


class ProgressReporter(Protocol):
    def say(self, text: str) -> None:
        """The step that takes time now."""

    def requests(self, what: str, sent: int, total: int) -> None:
        """Requests sent in the measurement that runs now."""

    def host(self, name: str, text: str | None) -> None:
        """What a host of a fleet does now, beside others; None: nothing more."""

    def note(self, text: str) -> None:
        """A remark that stays on screen."""

    def warn(self, text: str) -> None:
        """A remark that is shown under --quiet too."""

    def expect(self, seconds: float | None) -> None:
        """Seconds until everything is done; None: unknown."""


class NoProgress:
    """Reports nothing."""

    def say(self, text: str) -> None: ...

    def requests(self, what: str, sent: int, total: int) -> None: ...

    def host(self, name: str, text: str | None) -> None: ...

    def note(self, text: str) -> None: ...

    def warn(self, text: str) -> None: ...

    def expect(self, seconds: float | None) -> None: ...
