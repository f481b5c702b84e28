"""What changed between two builds besides speed, and whether a launch line works on the newer one."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.version import Version as Pep440

from regress_gate.app.deployment_facts import deployment_out
from regress_gate.app.provisioning import choose_provisioning, find_build, make_provisioner
from regress_gate.app.settings import Settings
from regress_gate.app.store_queries import find_build_configs
from regress_gate.bench.inspect.installed_build import inspect_environment
from regress_gate.bench.inspect.published_wheels import (
    DISTRIBUTION,
    PublishedWheel,
    published_versions,
    read_build,
    read_release,
)
from regress_gate.bench.provision.recipe import find_wheel
from regress_gate.errors import InputError, NoDataError
from regress_gate.files import write_output_file
from regress_gate.gate.config_changes import ConfigChange, compare_configs
from regress_gate.gate.launch_line import LaunchTest, try_launch_line
from regress_gate.known.records.coverage import refuse_never_released
from regress_gate.known.records.releases import shipped_releases
from regress_gate.model.config import ProvisionConfig
from regress_gate.model.deployment import Deployment
from regress_gate.model.result import DeploymentOut
from regress_gate.model.version import Channel, Ref, Version
from regress_gate.vllm.build_config import BuildConfig
from regress_gate.vllm.release_tables import (
    FIRST_RELEASE,
    ReadRelease,
    build_config,
    dump_table,
    keep_release,
    known_releases,
    shipped_releases_read,
    table_of,
)
from regress_gate.vllm.serve_command import parse_serve_command, with_config_file


@dataclass(frozen=True, slots=True)
class ConfigComparison:
    baseline: Version
    candidate: Version
    deployment: Deployment
    """The launch line that was tried: flags, the given line and the configuration file."""
    changes: list[ConfigChange]
    launch: LaunchTest
    server: DeploymentOut | None = None
    """The server of the deployment file; None without one."""

    @property
    def has_launch_line(self) -> bool:
        return bool(self.deployment.engine_args or self.deployment.env)

    @property
    def variants_differ(self) -> bool:
        """Builds of two variants differ for that reason too."""
        return self.baseline.variant != self.candidate.variant


def diff_builds(
    settings: Settings,
    baseline: str,
    candidate: str,
    *,
    serve_command: str | None = None,
    variant: str | None = None,
    offline: bool = False,
    say: Callable[[str], None],
) -> ConfigComparison:
    """Compare the arguments, variables and dependencies of two builds. An unknown release is read from its wheel,
    another unknown build is installed and asked.

    Raises NoDataError for an unknown build if `offline`, InputError for an invalid launch line.
    """
    if serve_command is not None:
        serve_command = with_config_file(serve_command, Path())
        parse_serve_command(serve_command)  # an invalid line fails before anything is installed
    versions = [_resolve(text, settings, variant) for text in (baseline, candidate)]
    known = find_build_configs(versions, settings)
    before, after = (
        config or _read_or_ask(version, settings, variant=variant, offline=offline, say=say)
        for version, config in zip(versions, known, strict=True)
    )
    deployment = settings.deployment
    if serve_command is not None:
        line = parse_serve_command(serve_command, [before, after])
        deployment = settings.deployment_flags.over(line).over(settings.config.deployment.facts)
    test = try_launch_line(before, after, after.version, deployment)
    return ConfigComparison(
        before.version,
        after.version,
        deployment,
        compare_configs(before, after, deployment=deployment),
        test,
        deployment_out(settings.deployed_server),
    )


def changed_configuration(settings: Settings, baseline: Version, candidate: Version) -> list[ConfigChange]:
    """What changed between two builds for the deployment; empty where one is not known without installing it."""
    before, after = find_build_configs([baseline, candidate], settings)
    if before is None or after is None:
        return []
    return compare_configs(before, after, deployment=settings.deployment)


def _resolve(text: str, settings: Settings, variant: str | None) -> Version:
    """The build that `text` means; with `--variant`, that variant of it."""
    ref = Ref.parse(text)
    if ref.version is not None and variant is None:
        return ref.version
    version = find_build(text, settings, _provisioning(settings, variant), accelerator=settings.deployment.accelerator)
    if variant is not None and version.variant is None:
        version = Version(version.number, version.commit, variant)
    return version


def _provisioning(settings: Settings, variant: str | None) -> ProvisionConfig:
    # Only a virtual environment can be asked, whatever servers are started in.
    flags = {"way": "venv"} | ({"variant": variant} if variant is not None else {})
    return choose_provisioning(flags, settings)


def _read_or_ask(
    version: Version, settings: Settings, *, variant: str | None, offline: bool, say: Callable[[str], None]
) -> BuildConfig:
    """An unknown release is read from its published wheel and kept; any other build is installed, asked and stored.

    Raises InputError for a version that was never released, NoDataError for an unknown build if `offline`,
    ProvisionError if it can neither be read nor installed.
    """
    refuse_never_released(version, shipped_releases())
    if offline:
        raise NoDataError(f"the arguments of {version} are not known here; without --offline they are read")
    if version.channel is Channel.RELEASE and version.variant is None and version.commit is None:
        release = read_release(str(version.number), os.environ, say)
        keep_release(release)
        return release.config
    config, accelerator = _provisioning(settings, variant), settings.deployment.accelerator
    # A database is opened only to store a new build.
    from regress_gate.store.repository import open_store

    provisioner = make_provisioner(config, accelerator=accelerator, environ=os.environ)
    with provisioner.provision(version, progress=say) as environment:
        inspected = inspect_environment(environment, progress=say)
    with open_store(str(settings.store_url.value), create=True) as store:
        store.add_build_config(inspected)
    return inspected


def refresh_releases(versions: Sequence[str], write: Path | None, say: Callable[[str], None]) -> list[ReadRelease]:
    """Read releases from their published wheels: those that are named, else all that are published and not known.

    They are kept for this user, or written to the file `write` together with those that are shipped. Raises
    ProvisionError if a wheel cannot be found or read, InputError if `versions` are no releases.
    """
    wanted = [_release(text) for text in versions]
    if not wanted:
        known = {str(version) for version in known_releases()}
        published = set(published_versions(DISTRIBUTION, os.environ))
        wanted = sorted((text for text in published - known if Pep440(text) >= Pep440(FIRST_RELEASE)), key=Pep440)
    releases = []
    for text in wanted:
        releases.append(read_release(text, os.environ, say))
        if write is None:
            keep_release(releases[-1])
    if write is not None:
        read = {release.version for release in releases}
        others = [release for release in shipped_releases_read() if release.version not in read]
        write_output_file(write, dump_table(table_of([*others, *releases])))
    return releases


def refresh_build(version: Version, wheel_index: str, say: Callable[[str], None]) -> bool:
    """Read the arguments of a build from its published wheel and keep them, unless they are known; whether they were
    read. Of a build without a number or, but for releases and candidates, a commit, nothing is read.

    Raises ProvisionError if its wheel cannot be found or read, InputError if what was read cannot be kept.
    """
    if build_config(version) is not None or version.number is None:
        return False
    if version.commit is not None:
        url = find_wheel(wheel_index, version.commit, version.variant, version).url
        keep_release(read_build(version, PublishedWheel(url, ""), say))
    elif version.channel is Channel.NIGHTLY:
        return False
    else:
        keep_release(read_release(version.number, os.environ, say))
    return True


def _release(text: str) -> str:
    version = Version.parse(text)
    if version.channel is not Channel.RELEASE or version.number is None:
        raise InputError(f"{text} is no release", todo="name releases, such as v0.33.0")
    return version.number
