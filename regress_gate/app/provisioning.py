"""How versions are provisioned: flags > REGRESS_GATE_PROVISION > `[provision]` of the file > a virtual environment.

Chooses the method for every command that measures, and cares for the environments that are there. Not for the methods
themselves.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from regress_gate import paths
from regress_gate.accelerators.registry import default_variant
from regress_gate.app.settings import Settings
from regress_gate.app.store_queries import find_stored_build
from regress_gate.bench.provision.command import CommandProvisioner
from regress_gate.bench.provision.containers import SHM_SIZE
from regress_gate.bench.provision.docker import DockerProvisioner
from regress_gate.bench.provision.environment_cache import CacheEntry, EnvironmentCache
from regress_gate.bench.provision.interface import Progress, Provisioner
from regress_gate.bench.provision.recipe import WHEEL_INDEX, newest_nightly
from regress_gate.bench.provision.venv import VenvProvisioner
from regress_gate.errors import InputError
from regress_gate.model.config import ProvisionConfig, ProvisionMethod
from regress_gate.model.documents import Document, validate
from regress_gate.model.version import Ref, RefKind, Version
from regress_gate.text import did_you_mean

WAY_VARIABLE = "REGRESS_GATE_PROVISION"
DIRECTORY_VARIABLE = "REGRESS_GATE_ENVIRONMENTS"


def choose_provisioning(given: Mapping[str, str], settings: Settings) -> ProvisionConfig:
    """The provisioning in force. `given` are the flags, by their keys of `[provision]`.

    A launch line or an image given as a flag also chooses the method. Raises InputError for flags of two methods.
    """
    flags = dict(given)
    if "way" not in flags:
        implied = {"command": ProvisionMethod.COMMAND, "image": ProvisionMethod.DOCKER, "gpus": ProvisionMethod.DOCKER}
        methods = sorted({method.value for key, method in implied.items() if key in flags})
        if len(methods) > 1:
            raise InputError(
                f"the flags belong to two methods, {' and '.join(methods)}", todo="choose one with --provision"
            )
        flags |= {"way": methods[0]} if methods else {}
    if "way" not in flags and (named := settings.environment.get(WAY_VARIABLE)):
        if named not in list(ProvisionMethod):
            raise InputError(
                f"{named!r} is not a way to provision{did_you_mean(named, ProvisionMethod)}", where=WAY_VARIABLE
            )
        flags["way"] = named
    path, file = settings.file
    return validate(ProvisionConfig, Document(flags, "the flags", {})).over(_resolve_paths(file.provision, path))


def make_provisioner(
    config: ProvisionConfig,
    *,
    accelerator: str | None,
    environ: Mapping[str, str],
    packages: Mapping[str, str] | None = None,
) -> Provisioner:
    """The provisioner that `config` chooses. `accelerator` is the suite's, or None; `packages` are versions of
    dependencies in place of those that a build demands. Raises InputError."""
    way = config.way or ProvisionMethod.VENV
    if packages and way is not ProvisionMethod.VENV:
        raise InputError("only virtual environments of the tool can have another dependency", where="--provision")
    if way is ProvisionMethod.COMMAND:
        if config.command is None:
            raise InputError("no launch line is given", todo="give --serve-command or provision.command in the file")
        return CommandProvisioner(config.command, environ=environ)
    variant = config.variant or default_variant(accelerator)
    if way is ProvisionMethod.DOCKER:
        return DockerProvisioner(
            variant=variant,
            image=config.image,
            gpus=config.gpus,
            shm_size=config.shm_size or SHM_SIZE,
            mounts=[Path(mount) for mount in config.mounts],
            program=config.engine,
            environ=environ,
        )
    return VenvProvisioner(
        variant=variant,
        python=Path(config.python) if config.python else None,
        directory=environments_directory(environ),
        wheel_index=config.wheel_index or WHEEL_INDEX,
        torch_backend=config.torch_backend,
        packages=packages,
        environ=environ,
    )


def find_build(text: str, settings: Settings, config: ProvisionConfig, *, accelerator: str | None) -> Version:
    """The build that a ref means now: `pinned`, `latest` and `run:N` come from the store, others from the index.

    Raises NoDataError for one that is not stored, and the errors of `resolve_published_build`.
    """
    return find_stored_build(Ref.parse(text), settings) or resolve_published_build(
        text, config, accelerator=accelerator
    )


def resolve_published_build(text: str, config: ProvisionConfig, *, accelerator: str | None) -> Version:
    """The build that a version or `nightly` means now. Raises InputError for a ref that only a store can resolve,
    ProvisionError if the index does not answer."""
    ref = Ref.parse(text)
    if ref.version is not None:
        return ref.version
    if ref.kind is RefKind.NIGHTLY and ref.day is None:
        return newest_nightly(config.wheel_index or WHEEL_INDEX, config.variant or default_variant(accelerator))
    raise InputError(
        f"{text!r} names no build that can be provisioned", todo="write a version, nightly or commit:<sha>"
    )


def environments_directory(environ: Mapping[str, str]) -> Path:
    """Where virtual environments are kept."""
    named = environ.get(DIRECTORY_VARIABLE)
    return Path(named).expanduser().absolute() if named else paths.environments_directory()


def open_environments(settings: Settings) -> EnvironmentCache:
    """The virtual environments of the settings' directory."""
    return EnvironmentCache(environments_directory(settings.environment))


@dataclass(frozen=True, slots=True)
class PrunedEnvironments:
    deleted: Sequence[CacheEntry]
    """With a dry run: those that would be deleted."""
    kept: Sequence[CacheEntry]
    """Those that were named and stay, because they are in use or were used lately."""


def prune_environments(
    cache: EnvironmentCache, names: Sequence[str], *, unused_for: float | None, dry_run: bool
) -> PrunedEnvironments:
    """Delete the environments of these ids, keys or versions, or without names all; `unused_for` is in seconds.

    One that is in use or being made stays. Raises InputError for a name that no environment has, and if neither names
    nor a time are given.
    """
    if not names and unused_for is None:
        raise InputError("nothing says what to prune", todo="name environments, or how long they were --unused-for")
    entries = cache.entries()
    named = {entry.key for name in names for entry in _find_environments(name, entries)} if names else None
    deleted = cache.prune(unused_for=unused_for or 0.0, keys=named, dry_run=dry_run)
    gone = {entry.key for entry in deleted}
    kept = [entry for entry in entries if entry.key in (named or ()) and entry.key not in gone]
    return PrunedEnvironments(deleted, kept)


def _find_environments(name: str, entries: Sequence[CacheEntry]) -> list[CacheEntry]:
    """Those that an id, a key or a version means. Raises InputError if there is none."""
    if named := [entry for entry in entries if name in (entry.id, entry.key)]:
        return named
    try:
        wanted = Version.parse(name)
    except InputError:
        wanted = None
    if wanted is not None:
        named = [entry for entry in entries if entry.marker and Version.parse(entry.marker.version).matches(wanted)]
    if not named:
        known = [*(entry.id for entry in entries), *(entry.marker.version for entry in entries if entry.marker)]
        raise InputError(f"no environment is {name!r}{did_you_mean(name, known)}", todo="see `env list`")
    return named


@dataclass(frozen=True, slots=True)
class ProvisionedVersion:
    """A version that is ready to be started."""

    version: Version | None
    where: str
    """Path of the virtual environment, or name of the image."""
    seconds: float
    libraries: Mapping[str, str]


def provision_version(
    text: str, settings: Settings, config: ProvisionConfig, *, accelerator: str | None, progress: Progress | None
) -> ProvisionedVersion:
    """Install a version, or pull its image, and verify it. Raises InputError, NoDataError and ProvisionError."""
    if config.way is ProvisionMethod.COMMAND:
        raise InputError("a launch line of your own needs no provisioning", todo="choose --provision venv or docker")
    accelerator = accelerator or settings.deployment.accelerator
    wanted = find_build(text, settings, config, accelerator=accelerator)
    provisioner = make_provisioner(config, accelerator=accelerator, environ=settings.environment)
    begun = time.monotonic()
    with provisioner.provision(wanted, progress=progress) as environment:
        where = getattr(environment, "path", None) or getattr(environment, "image", "")
        seconds = time.monotonic() - begun
        return ProvisionedVersion(environment.version, str(where), seconds, dict(environment.libraries))


def _resolve_paths(config: ProvisionConfig, file: Path | None) -> ProvisionConfig:
    """Paths in a configuration file are relative to that file."""
    if file is None:
        return config
    base = file.absolute().parent
    # A name without a slash is a program on the search path.
    python = str(base / Path(config.python).expanduser()) if config.python and "/" in config.python else config.python
    mounts = [str(base / Path(mount).expanduser()) for mount in config.mounts]
    return config.model_copy(update={"python": python, "mounts": mounts})
