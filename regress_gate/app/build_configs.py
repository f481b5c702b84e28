"""Where a command gets the configuration of a build: the store, the shipped files, else the build itself.

Not for comparing them.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from regress_gate.errors import InputError, NoDataError

if TYPE_CHECKING:
    from regress_gate.app.settings import Settings
    from regress_gate.model.version import Version
    from regress_gate.vllm.build_config import BuildConfig


def held_build_config(version: "Version", settings: "Settings") -> "BuildConfig | None":
    """What is known of a version without installing it. Raises InputError where it may mean several builds."""
    from regress_gate.store.combined import ShippedBuilds, open_combined_store

    with open_combined_store(str(settings.store_url.value)) as library:
        if library.store is not None and (stored := library.store.build_config(version)) is not None:
            return stored
    shipped = ShippedBuilds().build_configs(version)
    if len(shipped) > 1:
        names = ", ".join(str(config.version) for config in shipped)
        raise InputError(f"{version} may be any of {names}", todo="write one of them, or give --variant")
    return shipped[0] if shipped else None


def get_build_config(
    text: str, settings: "Settings", *, variant: str | None, offline: bool, say: Callable[[str], None]
) -> "BuildConfig":
    """The configuration of the build that `text` means; one that is not known is installed, asked and stored.

    Raises NoDataError where it is not known and `offline`, ProvisionError where it cannot be had.
    """
    from regress_gate.app.provisioning import find_build, provisioning_from

    # Only an environment of ours can be asked, whatever servers are started in.
    config = provisioning_from({"provision": "venv", "variant": variant}, settings)
    accelerator = settings.deployment.accelerator
    version = find_build(text, settings, config, accelerator=accelerator)
    if variant is not None and version.variant is None:
        version = type(version)(version.number, version.commit, variant)
    if (held := held_build_config(version, settings)) is not None:
        return held
    if offline:
        raise NoDataError(f"the arguments of {version} are not known here; without --offline it is installed and asked")
    import os

    from regress_gate.app.provisioning import make_provisioner
    from regress_gate.bench.inspect.installed_build import inspect_environment
    from regress_gate.store.repository import open_store

    provisioner = make_provisioner(config, accelerator=accelerator, environ=os.environ)
    with provisioner.provision(version, progress=say) as environment:
        found = inspect_environment(environment, progress=say)
    with open_store(str(settings.store_url.value), create=True) as store:
        store.add_build_config(found)
    return found
