"""The deployment, from everything that tells of it: flags, a launch line, a start log, an environment, the file."""

from pathlib import Path
from typing import TYPE_CHECKING

from regress_gate.errors import InputError

if TYPE_CHECKING:
    from regress_gate.app.settings import Settings
    from regress_gate.model.deployment import DeploymentFacts

MAX_BYTES = 8 * 1024 * 1024
"""Read from either end of a start log, and of any other file; a real environment's text has a thousandth."""


def gather_deployment(settings: "Settings") -> "DeploymentFacts":
    """Flags go before the launch line, that before the start log, that before the environment, that before the file.

    The model's own `config.json` fills in what is left open, where the model is a directory here. Raises InputError for
    a source that cannot be read, or that tells nothing.
    """
    from regress_gate.model.deployment import DeploymentFacts

    told: list[DeploymentFacts] = []
    if settings.launch_line is not None:
        told.append(_read_launch_line(settings.launch_line))
    if settings.server_log is not None:
        from regress_gate.vllm.start_log import deployment_from_start_log

        told.append(deployment_from_start_log(_read_ends(settings.server_log), str(settings.server_log)))
    if settings.collect_env is not None:
        from regress_gate.vllm.collect_env import deployment_from_collect_env

        told.append(deployment_from_collect_env(_read_ends(settings.collect_env), str(settings.collect_env)))
    deployment = settings.deployment_flags
    for one in told:
        deployment = deployment.over(one.deployment)
    deployment = deployment.over(settings.config.deployment)
    if deployment.model is not None:
        from regress_gate.known.matching.model_config import read_model_directory

        if (described := read_model_directory(deployment.model)) is not None:
            deployment = deployment.over(described)
    version = next((one.version for one in told if one.version is not None), None)
    return DeploymentFacts(deployment, version, tuple(note for one in told for note in one.notes))


def _read_launch_line(line: str) -> "DeploymentFacts":
    """A line that starts a server is complete: what it does not set is at its default. A flag that no build has is
    noted, since what was meant is then taken to be at its default.
    """
    from regress_gate.model.deployment import DeploymentFacts
    from regress_gate.model.version import Version
    from regress_gate.store.combined import ShippedBuilds
    from regress_gate.text import nearest
    from regress_gate.vllm.build_config import ArgumentIndex, argument_key
    from regress_gate.vllm.serve_command import parse_serve_command

    builds = ShippedBuilds().build_configs(Version(None))
    deployment = parse_serve_command(line, builds[::-1]).model_copy(update={"complete": True})
    indexes = [ArgumentIndex(build.arguments) for build in builds]
    known = sorted({name for build in builds for name in build.arguments})
    notes = []
    for key in map(argument_key, deployment.engine_args):
        if builds and not any(index.find(key) for index in indexes):
            near = nearest(key, known, cutoff=0.85)
            hint = "" if near is None else f" (did you mean {near!r}?)"
            notes.append(f"--serve-command: no build that is known here has {key}{hint}")
    return DeploymentFacts(deployment, notes=tuple(notes))


def _read_ends(path: Path) -> str:
    """The file's beginning and end, which are all of it where it is short."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES)
            size = file.seek(0, 2)
            if size > MAX_BYTES:
                file.seek(max(MAX_BYTES, size - MAX_BYTES))
                content += b"\n" + file.read(MAX_BYTES)
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror})", where=path) from None
    return content.decode("utf-8", "replace")
