"""Facts about a deployment from flags, a launch line, a deployment file, a start log, `vllm collect-env` and the
configuration file."""

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from regress_gate.accelerators.registry import gpu_level, identify, is_same_part, unknown_accelerator
from regress_gate.errors import InputError
from regress_gate.known.matching.facts import derive_facts
from regress_gate.known.matching.models import read_model_directory
from regress_gate.known.matching.names import unknown_quantization
from regress_gate.model.deployment import Deployment, DeploymentFacts
from regress_gate.model.result import DeploymentOut
from regress_gate.text import excerpt, nearest
from regress_gate.vllm.build_config import ArgumentIndex, BuildConfig, argument_key
from regress_gate.vllm.collect_env import deployment_from_collect_env
from regress_gate.vllm.release_tables import SUCCESSORS, any_release
from regress_gate.vllm.serve_command import API_SERVER, parse_serve_command, parse_serve_words, with_config_file

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
    server_log: "Path | DeploymentFacts | None" = None,
    collect_env: Path | None = None,
) -> DeploymentFacts:
    """Precedence: flags, launch line, deployment file, start log, environment, configuration file.

    `server_log` is the file, or what was read in it. The model's own `config.json` fills what is still open if the
    model is on this machine. Raises InputError for a source that cannot be read or holds nothing about a
    deployment.
    """
    sources: list[tuple[str, DeploymentFacts]] = []
    """Each with what it is called in a note."""
    if launch_line is not None:
        sources.append(("the launch line", _read_launch_line(launch_line)))
    if server is not None:
        sources.append((server.where, _read_server(server)))
    if isinstance(server_log, DeploymentFacts):
        sources.append(("the start log", server_log))
    elif server_log is not None:
        sources.append((str(server_log), _read_start(server_log)))
    if collect_env is not None:
        found = deployment_from_collect_env(_read_ends(collect_env), str(collect_env))
        sources.append((str(collect_env), found))
    deployment = flags
    notes: list[str] = []
    for name, source in sources:
        notes += source.notes
        deployment = _completed(deployment, source.deployment, name, notes)
    deployment = _completed(deployment, configured, "the configuration", notes)
    notes += filter(None, _unknown_names(deployment, typed=flags.over(configured)))
    if deployment.model is not None and (described := read_model_directory(deployment.model)) is not None:
        deployment = deployment.over(described)
    version = next((source.version for _, source in sources if source.version is not None), None)
    return DeploymentFacts(deployment, version, tuple(notes))


def _completed(deployment: Deployment, told: Deployment, source: str, notes: list[str]) -> Deployment:
    """The deployment with what a source tells beside it.

    What a source says of the hardware counts whole or not at all: the platform of its image is not that of another
    accelerator, which the user named.
    """
    if _is_other_hardware(deployment, told):
        notes.append(f"{_hardware_text(deployment)} is used; {source} says {_hardware_text(told)}")
        told = told.model_copy(update={"accelerator": None, "platform": None, "gpu_arch": None})
    return deployment.over(told)


def _is_other_hardware(one: Deployment, other: Deployment) -> bool:
    facts = derive_facts(one), derive_facts(other)
    for pair in ([each.platform for each in facts], [each.gpu_arch for each in facts]):
        if None not in pair and pair[0] != pair[1]:
            return True
    # Only GPUs: of other hardware one name is often that of a line (`Xeon`), as a level is no name of a part.
    parts = [name for name in (one.accelerator, other.accelerator) if name and identify(name).gpu_arch]
    return len(parts) == 2 and not any(map(gpu_level, parts)) and not is_same_part(*parts)


def _hardware_text(deployment: Deployment) -> str:
    """What it says most exactly: `accelerator H100`, else `GPU level sm_90`, else `platform cuda`."""
    if deployment.accelerator is not None:
        return f"accelerator {excerpt(deployment.accelerator, 60)}"
    return f"platform {deployment.platform}" if deployment.gpu_arch is None else f"GPU level {deployment.gpu_arch}"


def _unknown_names(deployment: Deployment, typed: Deployment) -> Iterator[str]:
    """A note on each name that is not known: a typing error, or newer than this program."""
    yield unknown_accelerator(deployment.accelerator)
    for name in dict.fromkeys((typed.quantization, typed.moe_quantization)):
        if name is not None:
            yield unknown_quantization(name)


def _read_start(path: Path) -> DeploymentFacts:
    """What the last start in a log says."""
    from regress_gate.vllm.log_signals import read_server_log  # with patterns that no other source needs

    log = read_server_log(path)
    if not log.has_start and log.facts.version is None and not log.facts.deployment.engine_args:
        raise InputError("no vLLM server start found", where=path, todo="give the log from its beginning")
    return log.facts


def deployment_out(server: "DeployedServer | None") -> DeploymentOut | None:
    """How a result names the server of a deployment file."""
    return None if server is None else DeploymentOut(name=server.name, where=server.where, lines=dict(server.lines))


def launch_deployment(
    flags: Deployment,
    configured: Deployment,
    *,
    launch_line: str | None = None,
    server: "DeployedServer | None" = None,
    builds: Sequence[BuildConfig] = (),
) -> Deployment:
    """What the user starts the server with: flags over launch line over deployment file over configuration file.

    `builds` decide first which words of a line are values; the arguments of all known releases come after them.
    """
    deployment = flags
    if launch_line is not None:
        deployment = deployment.over(_read_launch_line(launch_line, builds).deployment)
    if server is not None:
        deployment = _completed(deployment, _read_server(server, builds).deployment, server.where, [])
    return _completed(deployment, configured, "the configuration", [])


def _read_launch_line(line: str, builds: Sequence[BuildConfig] = ()) -> DeploymentFacts:
    """A launch line is complete: an argument that it does not set has its default, unless it names a file with more."""
    if is_launch_template(line):
        if (plain := _without_placeholders(line)) is None:
            return DeploymentFacts(Deployment(), notes=(_OPAQUE_LAUNCHER,))
        line = plain
    deployment = parse_serve_command(with_config_file(line, Path()), [*builds, any_release()])
    complete = "config" not in deployment.engine_args
    notes = _unknown_flags(deployment, "--serve-command")
    return DeploymentFacts(deployment.model_copy(update={"complete": complete}), notes=notes)


def _read_server(server: "DeployedServer", builds: Sequence[BuildConfig] = ()) -> DeploymentFacts:
    """A server of a deployment file. What the file does not say stays unknown."""
    parsed = parse_serve_words(server.words, [*builds, any_release()], where=server.where)
    deployment = parsed.model_copy(
        update={
            "complete": parsed.complete and server.is_complete,
            "accelerator": server.accelerator,
            "platform": server.platform,
            "distribution": server.distribution,
            "env": dict(server.env),
            "complete_env": server.env_is_complete,
            "unknown_env": server.unknown_env,
        }
    )
    notes = [*server.notes, *_unknown_flags(deployment, server.where)]
    if server.version is None:
        notes.append(f"the version that runs is not known: {server.why_no_version}; --from names it")
    return DeploymentFacts(deployment, server.version, tuple(notes))


def _unknown_flags(deployment: Deployment, where: str) -> tuple[str, ...]:
    """A note for each flag that no known release has, because the intended argument then counts as default."""
    every = any_release()
    index = ArgumentIndex(every.arguments)
    notes = []
    for key in map(argument_key, (*deployment.engine_args, *deployment.unknown_args)):
        if key not in index.keys and key.partition(".")[0] not in SUCCESSORS and index.find(key) is None:
            near = nearest(key, every.arguments, cutoff=0.85)
            hint = "" if near is None else f" (did you mean {near!r}?)"
            notes.append(f"{where}: no known release has {key}{hint}")
    return tuple(notes)


_OPAQUE_LAUNCHER = "--serve-command has no `vllm serve`, so it says nothing about the deployment"


def is_launch_template(line: str) -> bool:
    """Whether the line starts any version on any port, for a measurement; else it is that of one deployment."""
    return any("{" + name + "}" in line for name in ("version", "port"))


def _without_placeholders(line: str) -> str | None:
    """The line as it says something about a deployment, without what a measurement fills in; None if it only starts a
    program that does not show its arguments."""
    try:
        words = shlex.split(line)
    except ValueError:
        return line  # whose reader says what is wrong
    kept: list[str] = []
    for place, word in enumerate(words):
        starts_vllm = place + 1 < len(words) and words[place + 1] == "serve"
        if starts_vllm and word.rpartition("/")[2].startswith("vllm"):
            kept.append("vllm")
        elif "{" not in word:
            kept.append(word)
        elif kept and kept[-1].startswith("--") and not word.startswith("-"):
            kept.pop()  # the flag whose value is filled in
    starts = any(kept[place : place + 2] in (["vllm", "serve"], ["-m", API_SERVER]) for place in range(len(kept)))
    return shlex.join(kept) if starts else None


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
