"""What changed between two builds besides speed, and whether a launch line works on the newer one."""

import os
from collections.abc import Callable
from dataclasses import dataclass

from regress_gate.app.provisioning import choose_provisioning, find_build, make_provisioner
from regress_gate.app.settings import Settings
from regress_gate.app.store_queries import find_build_config
from regress_gate.bench.inspect.installed_build import inspect_environment
from regress_gate.errors import NoDataError
from regress_gate.gate.config_changes import ConfigChange, compare_configs
from regress_gate.gate.launch_line import launch_problem_texts
from regress_gate.model.deployment import Deployment
from regress_gate.model.version import Version
from regress_gate.vllm.build_config import BuildConfig
from regress_gate.vllm.serve_command import parse_serve_command


@dataclass(frozen=True, slots=True)
class ConfigComparison:
    baseline: Version
    candidate: Version
    deployment: Deployment
    """The launch line that was tried: flags, the given line and the configuration file."""
    changes: list[ConfigChange]
    problems: list[str]
    """Why the candidate would not start with the launch line; empty: it would."""

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
    """Compare the arguments, variables and dependencies of two builds. An unknown build is installed and asked.

    Raises NoDataError for an unknown build if `offline`, InputError for an invalid launch line.
    """
    if serve_command is not None:
        parse_serve_command(serve_command)  # an invalid line fails before anything is installed
    before, after = (
        get_build_config(text, settings, variant=variant, offline=offline, say=say) for text in (baseline, candidate)
    )
    deployment = settings.deployment
    if serve_command is not None:
        line = parse_serve_command(serve_command, [before, after])
        deployment = settings.deployment_flags.over(line).over(settings.config.deployment.facts)
    return ConfigComparison(
        before.version,
        after.version,
        deployment,
        compare_configs(before, after, deployment=deployment),
        launch_problem_texts(after, deployment.engine_args, deployment.env),
    )


def get_build_config(
    text: str, settings: Settings, *, variant: str | None, offline: bool, say: Callable[[str], None]
) -> BuildConfig:
    """The configuration of the build that `text` means; an unknown one is installed, asked and stored.

    Raises NoDataError for an unknown build if `offline`, ProvisionError if it cannot be installed.
    """
    # Only a virtual environment can be asked, whatever servers are started in.
    flags = {"way": "venv"} | ({"variant": variant} if variant is not None else {})
    config = choose_provisioning(flags, settings)
    accelerator = settings.deployment.accelerator
    version = find_build(text, settings, config, accelerator=accelerator)
    if variant is not None and version.variant is None:
        version = Version(version.number, version.commit, variant)
    if (known := find_build_config(version, settings)) is not None:
        return known
    if offline:
        raise NoDataError(f"the arguments of {version} are not known here; without --offline it is installed and asked")
    # A database is opened only to store a new build.
    from regress_gate.store.repository import open_store

    provisioner = make_provisioner(config, accelerator=accelerator, environ=os.environ)
    with provisioner.provision(version, progress=say) as environment:
        inspected = inspect_environment(environment, progress=say)
    with open_store(str(settings.store_url.value), create=True) as store:
        store.add_build_config(inspected)
    return inspected
