"""Facts about a deployment from flags, a launch line, a deployment file, a start log, `vllm collect-env` and the
configuration file."""

from pathlib import Path
from typing import TYPE_CHECKING

from regress_gate.errors import InputError
from regress_gate.known.matching.models import read_model_directory
from regress_gate.model.deployment import Deployment, DeploymentFacts
from regress_gate.model.version import Version
from regress_gate.store.combined import ShippedBuilds
from regress_gate.text import nearest
from regress_gate.vllm.build_config import ArgumentIndex, BuildConfig, argument_key
from regress_gate.vllm.collect_env import deployment_from_collect_env
from regress_gate.vllm.serve_command import parse_serve_command, parse_serve_words
from regress_gate.vllm.start_log import deployment_from_start_log

if TYPE_CHECKING:
    from regress_gate.vllm.deployed_server import DeployedServer

MAX_BYTES = 8 * 1024 * 1024
"""Bytes read from each end of a file. A real `collect-env` output has a thousandth of that."""


def gather_deployment(
    flags: Deployment,
    configured: Deployment,
    *,
    launch_line: str | None = None,
    server: "DeployedServer | None" = None,
    server_log: Path | None = None,
    collect_env: Path | None = None,
) -> DeploymentFacts:
    """Precedence: flags, launch line, deployment file, start log, environment, configuration file.

    The model's own `config.json` fills what is still open if the model is a directory on this machine. Raises
    InputError for a source that cannot be read or holds nothing about a deployment.
    """
    sources: list[DeploymentFacts] = []
    if launch_line is not None:
        sources.append(_read_launch_line(launch_line))
    if server is not None:
        sources.append(_read_server(server))
    if server_log is not None:
        sources.append(deployment_from_start_log(_read_ends(server_log), str(server_log)))
    if collect_env is not None:
        sources.append(deployment_from_collect_env(_read_ends(collect_env), str(collect_env)))
    deployment = flags
    for source in sources:
        deployment = deployment.over(source.deployment)
    deployment = deployment.over(configured)
    if deployment.model is not None and (described := read_model_directory(deployment.model)) is not None:
        deployment = deployment.over(described)
    version = next((source.version for source in sources if source.version is not None), None)
    return DeploymentFacts(deployment, version, tuple(note for source in sources for note in source.notes))


def _read_launch_line(line: str) -> DeploymentFacts:
    """A launch line is complete: an argument that it does not set has its default, unless it names a file with more."""
    builds = ShippedBuilds().build_configs(Version(None))
    deployment = parse_serve_command(line, builds[::-1])
    complete = "config" not in deployment.engine_args
    notes = _unknown_flags(deployment, builds, "--serve-command")
    return DeploymentFacts(deployment.model_copy(update={"complete": complete}), notes=notes)


def _read_server(server: "DeployedServer") -> DeploymentFacts:
    """A server of a deployment file. What the file does not say stays unknown."""
    builds = ShippedBuilds().build_configs(Version(None))
    parsed = parse_serve_words(server.words, builds[::-1], where=server.where)
    deployment = parsed.model_copy(
        update={
            "complete": parsed.complete and server.is_complete,
            "accelerator": server.accelerator,
            "platform": server.platform,
            "distribution": server.distribution,
            "env": dict(server.env),
            "unknown_env": server.unknown_env,
        }
    )
    notes = [*server.notes, *_unknown_flags(deployment, builds, server.where)]
    if server.version is None:
        notes.append(f"the version that runs is not known: {server.why_no_version}; --from names it")
    return DeploymentFacts(deployment, server.version, tuple(notes))


def _unknown_flags(deployment: Deployment, builds: list[BuildConfig], where: str) -> tuple[str, ...]:
    """A note for each flag that no known build has, because the intended argument then counts as default."""
    indexes = [ArgumentIndex(build.arguments) for build in builds]
    known = sorted({name for build in builds for name in build.arguments})
    notes = []
    for key in map(argument_key, (*deployment.engine_args, *deployment.unknown_args)):
        if builds and not any(index.find(key) for index in indexes):
            near = nearest(key, known, cutoff=0.85)
            hint = "" if near is None else f" (did you mean {near!r}?)"
            notes.append(f"{where}: no known build has {key}{hint}")
    return tuple(notes)


def _read_ends(path: Path) -> str:
    """The beginning and the end of a file; a short file whole."""
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
