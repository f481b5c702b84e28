"""Dockerfiles: the server that an image starts, with the variables and the vLLM that it has."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from regress_gate.vllm.deployed_server import Container, find_starts, installed_version
from regress_gate.vllm.image_names import read_image
from regress_gate.vllm.shell_words import interpolate, open_value, read_script

_INSTRUCTION = re.compile(r"[ \t]*([A-Za-z]+)(?:[ \t]+(.*))?", re.DOTALL)
_HEREDOC = re.compile(r"<<-?(['\"]?)(\w+)\1")
_REPLACES_VLLM = re.compile(
    r"\b(?:pip3?|uv)\b[^&;|]*\binstall\b[^&;|]*(?:vllm-project/vllm|wheels\.vllm\.ai|\svllm(?:\s|$)|vllm\S*\.whl)"
)


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
