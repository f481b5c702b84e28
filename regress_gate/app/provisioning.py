"""In which way a command gets versions: flags > REGRESS_GATE_PROVISION > `[provision]` of the file > a venv.

The one place where a way is chosen, for every command that measures. Not for the ways themselves.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regress_gate.errors import InputError

if TYPE_CHECKING:
    from regress_gate.app.settings import Settings
    from regress_gate.bench.provision.interface import Provisioner
    from regress_gate.model.config import ProvisionConfig
    from regress_gate.model.version import Version


WAY_VARIABLE = "REGRESS_GATE_PROVISION"
DIRECTORY_VARIABLE = "REGRESS_GATE_ENVIRONMENTS"
_FLAGS = {"provision": "way", "serve_command": "command", "variant": "variant", "image": "image", "gpus": "gpus"}
"""Parameter of a command to key of `[provision]`."""


def provisioning_from(options: dict[str, Any], settings: "Settings") -> "ProvisionConfig":
    """What is in force; the options of `provision_options` are taken out of `options`.

    A launch line or an image that is given as a flag chooses its way too. Raises InputError for flags of two ways.
    """
    from regress_gate.model.config import ProvisionConfig, ProvisionMethod
    from regress_gate.model.documents import Document, validate
    from regress_gate.text import did_you_mean

    given = {key: value for flag, key in _FLAGS.items() if (value := options.pop(flag, None)) is not None}
    if "way" not in given:
        implied = {"command": ProvisionMethod.COMMAND, "image": ProvisionMethod.DOCKER, "gpus": ProvisionMethod.DOCKER}
        ways = sorted({way.value for key, way in implied.items() if key in given})
        if len(ways) > 1:
            raise InputError(f"the flags belong to two ways, {' and '.join(ways)}", todo="choose one with --provision")
        given |= {"way": ways[0]} if ways else {}
    if "way" not in given and (named := settings.environment.get(WAY_VARIABLE)):
        if named not in list(ProvisionMethod):
            raise InputError(
                f"{named!r} is no way to provision{did_you_mean(named, ProvisionMethod)}", where=WAY_VARIABLE
            )
        given["way"] = named
    flags = validate(ProvisionConfig, Document(given, "the flags", {}))
    path, file = settings.file
    return flags.over(_resolve_paths(file.provision, path))


def make_provisioner(
    config: "ProvisionConfig", *, accelerator: str | None, environ: Mapping[str, str]
) -> "Provisioner":
    """What `config` chooses; `accelerator` is the suite's, None where it is silent. Raises InputError."""
    from regress_gate.model.config import ProvisionMethod

    way = config.way or ProvisionMethod.VENV
    if way is ProvisionMethod.COMMAND:
        from regress_gate.bench.provision.command import CommandProvisioner

        if config.command is None:
            raise InputError("there is no launch line", todo="give --serve-command or provision.command in the file")
        return CommandProvisioner(config.command, environ=environ)
    from regress_gate.accelerators.host import default_variant

    variant = config.variant or default_variant(accelerator)
    if way is ProvisionMethod.DOCKER:
        from regress_gate.bench.provision.containers import SHM_SIZE
        from regress_gate.bench.provision.docker import DockerProvisioner

        return DockerProvisioner(
            variant=variant,
            image=config.image,
            gpus=config.gpus,
            shm_size=config.shm_size or SHM_SIZE,
            mounts=[Path(mount) for mount in config.mounts],
            program=config.engine,
            environ=environ,
        )
    from regress_gate.bench.provision.venv import VenvProvisioner
    from regress_gate.bench.provision.wheel_index import WHEEL_INDEX

    return VenvProvisioner(
        variant=variant,
        python=Path(config.python) if config.python else None,
        directory=environments_directory(environ),
        wheel_index=config.wheel_index or WHEEL_INDEX,
        torch_backend=config.torch_backend,
        environ=environ,
    )


def find_build(text: str, settings: "Settings", config: "ProvisionConfig", *, accelerator: str | None) -> "Version":
    """The build that any ref means now: `pinned`, `latest` and `run:N` by what is stored, the others as resolve_build.

    Raises NoDataError for one that only what is stored could tell, and what resolve_build raises.
    """
    return _held_build(text, settings) or resolve_published_build(text, config, accelerator=accelerator)


def _held_build(text: str, settings: "Settings") -> "Version | None":
    """The build behind a ref that only what is stored can resolve; None for the others."""
    from regress_gate.model.version import Ref, RefKind

    ref = Ref.parse(text)
    if ref.kind not in (RefKind.PINNED, RefKind.LATEST, RefKind.RUN):
        return None
    from regress_gate.gate.comparison_choice import resolve_ref
    from regress_gate.store.combined import open_combined_store

    with open_combined_store(str(settings.store_url.value)) as library:
        if ref.run is not None and (run := library.run(ref.run)) is not None:
            return run.version
        held = library.inventory()
        return resolve_ref(ref, held, library.pinned(), everything=held)[0].version


def resolve_published_build(text: str, config: "ProvisionConfig", *, accelerator: str | None) -> "Version":
    """The build that a version or `nightly` means now. Raises InputError for a ref that only a store can resolve,
    ProvisionError where the index does not tell its newest build."""
    from regress_gate.accelerators.host import default_variant
    from regress_gate.bench.provision.wheel_index import WHEEL_INDEX, newest_nightly
    from regress_gate.model.version import Ref, RefKind

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
    from regress_gate import paths

    named = environ.get(DIRECTORY_VARIABLE)
    return Path(named).expanduser().absolute() if named else paths.environments_directory()


def _resolve_paths(config: "ProvisionConfig", file: Path | None) -> "ProvisionConfig":
    """Paths in a file are meant from that file, wherever the command is run."""
    if file is None:
        return config
    base = file.absolute().parent
    # A name alone is a program on the path.
    python = str(base / Path(config.python).expanduser()) if config.python and "/" in config.python else config.python
    mounts = [str(base / Path(mount).expanduser()) for mount in config.mounts]
    return config.model_copy(update={"python": python, "mounts": mounts})
