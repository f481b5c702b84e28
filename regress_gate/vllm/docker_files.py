"""Docker's own files: the services of a Compose file, and the server that a Dockerfile's image starts.

Values of variables come from the file, from `.env` beside it and from its `env_file`s; never from the environment of
this process, which is another machine's.
"""

import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regress_gate.vllm.deployed_server import Container, find_starts, installed_version
from regress_gate.vllm.docker_commands import device_platform
from regress_gate.vllm.image_names import read_image
from regress_gate.vllm.shell_words import interpolate, open_value, read_script, without_marks
from regress_gate.vllm.yaml_nodes import YamlList, YamlMap, child, is_map, items, text_of

_MAX_ENV_FILE = 256 * 1024
"""Bytes of a file with variables."""
_ENV_LINE = re.compile(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_.-]*)\s*=\s*(.*)")
_MAX_EXTENDS = 10
_INSTRUCTION = re.compile(r"[ \t]*([A-Za-z]+)(?:[ \t]+(.*))?", re.DOTALL)
_HEREDOC = re.compile(r"<<-?(['\"]?)(\w+)\1")
_REPLACES_VLLM = re.compile(
    r"\b(?:pip3?|uv)\b[^&;|]*\binstall\b[^&;|]*(?:vllm-project/vllm|wheels\.vllm\.ai|\svllm(?:\s|$)|vllm\S*\.whl)"
)


# Compose


def is_compose(document: Any) -> bool:
    """Whether it has services that look like those of Compose."""
    services = child(document, "services")
    keys = ("image", "build", "command", "extends", "deploy", "environment")
    return is_map(services) and any(is_map(one) and any(key in one for key in keys) for one in services.values())


def containers_in_compose(document: Any, *, directory: Path | None) -> list[Container]:
    """A container for each service. `directory` is that of the file; None: read from standard input."""
    variables = _read_env_file(directory, ".env")
    services = child(document, "services")
    return [
        _service_container(str(name), service, services, variables or {}, directory)
        for name, service in services.items()
        if is_map(service)
    ]


def _service_container(
    name: str, service: YamlMap, services: YamlMap, variables: Mapping[str, str], directory: Path | None
) -> Container:
    service, notes, is_whole = _extended(service, services)
    line = services.line_of(name)

    def put_in(text: str) -> str:
        return interpolate(text, variables.get, escape="$")

    image = text_of(service.get("image"))
    container = Container(name, line, image=None if image is None else put_in(image), notes=notes, is_complete=is_whole)
    container.entrypoint = _compose_words(service.get("entrypoint"), put_in)
    command = _compose_words(service.get("command"), put_in)
    container.arguments = command or []
    container.env, missing = _environment(service, put_in, variables, directory)
    container.env_is_complete = is_whole and not missing
    container.notes += [f"the variables in {file} are not known: it is not beside the file" for file in missing]
    container.platform = _device_platform_of(service, put_in)
    build = service.get("build")
    if build is not None and (image is None or not read_image(container.image or "").is_vllm):
        container.why_no_version = "the image is built from a Dockerfile, which may be given instead"
    profiles = [text for text, _ in items(service.get("profiles")) if isinstance(text, str)]
    if profiles:
        container.notes.append(f"it starts with the profile {' or '.join(profiles)} only")
    return container


def _extended(service: YamlMap, services: YamlMap) -> tuple[YamlMap, list[str], bool]:
    """The service with what it extends in the same file; a note, and False, for what is in another file."""
    for _ in range(_MAX_EXTENDS):
        extends = service.get("extends")
        if extends is None:
            return service, [], True
        name = text_of(extends) or text_of(child(extends, "service"))
        parent = services.get(name) if name else None
        if child(extends, "file") is not None or not is_map(parent):
            return service, [f"it extends {name or 'a service'} of another file, which is not read"], False
        merged = YamlMap({**parent, **{key: value for key, value in service.items() if key != "extends"}})
        merged.line, merged.lines = service.line, {**parent.lines, **service.lines}
        if "extends" not in parent:
            merged.pop("extends", None)
        if is_map(parent.get("environment")) and is_map(service.get("environment")):
            merged["environment"] = _merged(parent["environment"], service["environment"])
        service = merged
    return service, ["it extends itself"], False


def _merged(lower: YamlMap, upper: YamlMap) -> YamlMap:
    merged = YamlMap({**lower, **upper})
    merged.line, merged.lines = upper.line, {**lower.lines, **upper.lines}
    return merged


def _compose_words(value: Any, put_in: Callable[[str], str]) -> list[str] | None:
    """A command as Compose takes it: text is split as a shell would, a list is taken as it is."""
    if isinstance(value, YamlList):
        return [put_in(text) for text, _ in items(value) if isinstance(text, str)]
    text = text_of(value)
    if text is None:
        return None
    text = put_in(text)
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def _environment(
    service: YamlMap, put_in: Callable[[str], str], variables: Mapping[str, str], directory: Path | None
) -> tuple[dict[str, str], list[str]]:
    """The variables of the container, and the files with variables that cannot be read."""
    env: dict[str, str] = {}
    missing = []
    for file in _env_files(service.get("env_file")):
        file = put_in(file)
        content = _read_env_file(directory, file)
        if content is None:
            missing.append(file)
        else:
            env.update(content)
    environment = service.get("environment")
    if is_map(environment):
        for name, value in environment.items():
            text = text_of(value)
            # A variable without a value is that of the shell that calls Compose.
            env[name] = variables.get(name, open_value(name)) if text is None else put_in(text)
    for entry, _ in items(environment):
        name, equals, text = str(entry).partition("=")
        if isinstance(entry, str):
            env[name] = put_in(text) if equals else variables.get(name, open_value(name))
    return env, missing


def _env_files(value: Any) -> Iterator[str]:
    for one in [value] if isinstance(value, str | YamlMap) else [entry for entry, _ in items(value)]:
        path = text_of(one) or text_of(child(one, "path"))
        if path:
            yield path


def _read_env_file(directory: Path | None, name: str) -> dict[str, str] | None:
    """The variables of a file beside the Compose file or below it; None if it is not there or not readable so."""
    if directory is None or Path(name).is_absolute():
        return None
    path = directory / name
    try:
        if not path.is_file() or path.stat().st_size > _MAX_ENV_FILE:
            return None
        if not path.resolve().is_relative_to(directory.resolve().parent):
            return None
        text = without_marks(path.read_text(encoding="utf-8", errors="replace"))
    except (OSError, ValueError):
        return None
    found: dict[str, str] = {}
    for line in text.splitlines():
        match = _ENV_LINE.fullmatch(line)
        if match is not None:
            found[match[1]] = _env_value(match[2].strip())
    return found


def _env_value(text: str) -> str:
    if len(text) > 1 and text[0] in "\"'" and (end := text.find(text[0], 1)) > 0:
        return text[1:end]
    return re.sub(r"\s+#.*", "", text)


def _device_platform_of(service: YamlMap, put_in: Callable[[str], str]) -> Any:
    devices = child(service, "deploy", "resources", "reservations", "devices")
    reserved = [entry for entry, _ in items(devices)]
    names = [text_of(child(one, "driver")) or "" for one in reserved]
    names += [text for text, _ in items(service.get("devices")) if isinstance(text, str)]
    names += [text_of(service.get("runtime")) or ""]
    for name in names:
        if platform := device_platform(put_in(name)):
            return platform
    capabilities = [text for one in reserved for text, _ in items(child(one, "capabilities"))]
    return "cuda" if "gpu" in capabilities or service.get("gpus") is not None else None


# Dockerfiles


@dataclass
class _Stage:
    base: str = ""
    env: dict[str, str] = field(default_factory=dict)
    entrypoint: list[str] | None = None
    command: list[str] | None = None
    entry_line: int = 0
    install: Container = field(default_factory=lambda: Container("", 0))
    """Carries the version of an installed vLLM, or why it is not known."""


def is_dockerfile(text: str) -> bool:
    """Whether the first instruction is one that a Dockerfile begins with."""
    for instruction, arguments, _ in read_instructions(text):
        if instruction == "FROM":
            return bool(arguments)
        if instruction != "ARG":
            return False
    return False


def containers_in_dockerfile(text: str, *, name: str = "") -> list[Container]:
    """The container of the last stage, with what it inherits from stages before it."""
    stages: dict[str, _Stage] = {}
    outer: dict[str, str] = {}
    arguments: dict[str, str] = {}
    stage: _Stage | None = None
    for instruction, value, line in read_instructions(text):
        if instruction == "ARG":
            scope = outer if stage is None else arguments
            scope.update(
                _argument_defaults(
                    value, {**outer, **arguments} if stage is None else {**arguments, **stage.env}, outer
                )
            )
        elif instruction == "FROM":
            words = [word for word in interpolate(value, outer.get).split() if not word.startswith("--")]
            base = words[0] if words else ""
            stage, arguments = _begin_stage(stages, base), {}
            stage.entry_line = stage.entry_line or line
            if len(words) > 2 and words[1].casefold() == "as":
                stages[words[2].casefold()] = stage
        elif stage is not None:
            _apply(stage, instruction, value, {**arguments, **stage.env}, line)
    return [] if stage is None else list(_stage_containers(stage, name))


def _begin_stage(stages: Mapping[str, _Stage], base: str) -> _Stage:
    parent = stages.get(base.casefold())
    if parent is None:
        return _Stage(base)
    install = Container("", 0, version=parent.install.version, why_no_version=parent.install.why_no_version)
    return _Stage(parent.base, dict(parent.env), parent.entrypoint, parent.command, 0, install)


def _stage_containers(stage: _Stage, name: str) -> Iterator[Container]:
    container = Container(
        name,
        stage.entry_line,
        image=stage.base,
        entrypoint=stage.entrypoint,
        arguments=stage.command or [],
        env=stage.env,
        version=stage.install.version,
        why_no_version=stage.install.why_no_version,
    )
    image = read_image(stage.base)
    has_vllm = image.is_vllm or stage.install.version is not None or bool(stage.install.why_no_version)
    starts = any(True for _ in find_starts(container.command, stage.env))
    if not has_vllm and not starts:
        return
    if not image.is_vllm:
        container.why_no_version = container.why_no_version or "nothing names the version of vLLM that is installed"
        if not starts:
            return
    if not container.command:
        container.is_complete = False
        container.notes.append("the image's users give the arguments: those that are not in the file are not known")
    yield container


def _apply(stage: _Stage, instruction: str, value: str, known: Mapping[str, str], line: int) -> None:
    if instruction == "ENV":
        stage.env.update(_pairs(value, known))
    elif instruction == "ENTRYPOINT":
        stage.entrypoint, stage.command, stage.entry_line = _command(value), None, line
    elif instruction == "CMD":
        stage.command = _command(value)
        stage.entry_line = stage.entry_line if stage.entrypoint is not None else line
    elif instruction == "RUN":
        for command in read_script(value, known):
            line_of_words = " ".join(command.words)
            if (version := installed_version(command.words)) is not None:
                stage.install.version, stage.install.why_no_version = version, ""
            elif _REPLACES_VLLM.search(line_of_words):
                stage.install.version = None
                stage.install.why_no_version = "a RUN installs vLLM without naming a release"


def _command(value: str) -> list[str]:
    """The words of the exec form, or a shell with the text of the shell form."""
    if value.lstrip().startswith("["):
        try:
            words = json.loads(value)
        except (ValueError, RecursionError):
            words = None
        if isinstance(words, list) and all(isinstance(word, str) for word in words):
            return words
    return ["/bin/sh", "-c", value] if value else []


def _argument_defaults(value: str, known: Mapping[str, str], outer: Mapping[str, str]) -> dict[str, str]:
    """The defaults of an ARG; one without a default has that of the ARG before the first FROM, or is open."""
    found = {}
    for word in _split(value):
        name, equals, text = word.partition("=")
        found[name] = interpolate(text, known.get, escape="\\") if equals else outer.get(name, open_value(name))
    return found


def _pairs(value: str, known: Mapping[str, str]) -> dict[str, str]:
    """`ENV A=1 B=2`, or `ENV A 1` as it was written once."""
    words = _split(value)
    if words and "=" not in words[0]:
        name, _, text = value.strip().partition(" ")
        return {name: interpolate(text.strip(), known.get, escape="\\")}
    pairs = (word.partition("=") for word in words)
    return {name: interpolate(text, known.get, escape="\\") for name, equals, text in pairs if equals}


def read_assignments(value: str) -> list[tuple[str, str | None]]:
    """The names of an ARG or an ENV with their texts as they are written; None where an ARG has no default."""
    words = _split(value)
    if len(words) > 1 and "=" not in words[0]:
        name, _, text = value.strip().partition(" ")
        return [(name, text.strip())]
    pairs = (word.partition("=") for word in words)
    return [(name, text if equals else None) for name, equals, text in pairs]


def _split(value: str) -> list[str]:
    """Words, with quotes taken away and variables left as they are."""
    return [
        re.sub(r"\\(.)|\"((?:[^\"\\]|\\.)*)\"|'([^']*)'", lambda m: m[1] or m[2] or m[3] or "", word)
        for word in re.findall(r"(?:\\.|\"(?:[^\"\\]|\\.)*\"|'[^']*'|[^\s\"'\\]|[\"'\\])+", value)
    ]


def read_instructions(text: str) -> Iterator[tuple[str, str, int]]:
    """Name, arguments and line of each instruction; continued lines are joined, and those of a here-document."""
    lines = text.split("\n")
    escape = "`" if re.match(r"#\s*escape\s*=\s*`", text) else "\\"
    number = 0
    while number < len(lines):
        begin = number
        parts: list[str] = []
        while number < len(lines):
            line = lines[number].rstrip()
            number += 1
            if line.lstrip().startswith("#") or (parts and not line.strip()):
                if not parts:
                    break
                continue
            parts.append(line.removesuffix(escape) if line.endswith(escape) else line)
            if not line.endswith(escape):
                break
        match = _INSTRUCTION.fullmatch(" ".join(parts))
        if match is None:
            continue
        value = (match[2] or "").strip()
        for heredoc in _HEREDOC.finditer(value) if match[1].upper() in ("RUN", "COPY") else ():
            end = next((at for at in range(number, len(lines)) if lines[at].strip() == heredoc[2]), len(lines))
            if match[1].upper() == "RUN":
                value = "\n".join(lines[number:end])
            number = end + 1
        yield match[1].upper(), value, begin + 1
