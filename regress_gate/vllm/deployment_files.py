"""Files that deploy vLLM, recognised by their content and read into servers.

A new kind of file is one module and one line here. Nothing is run, fetched or rendered.
"""

import os
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from regress_gate.errors import InputError
from regress_gate.text import did_you_mean, excerpt, plural
from regress_gate.vllm.compose_files import containers_in_compose, includes_others, is_compose
from regress_gate.vllm.deployed_server import Container, DeployedServer, servers_in
from regress_gate.vllm.docker_commands import containers_in_script, containers_in_unit, is_script, is_unit
from regress_gate.vllm.docker_files import containers_in_dockerfile, is_dockerfile
from regress_gate.vllm.helm_values import containers_in_values, is_values
from regress_gate.vllm.kubernetes_manifest import containers_in_manifests, is_manifest
from regress_gate.vllm.shell_words import here_documents, without_marks
from regress_gate.vllm.yaml_nodes import read_yaml_documents

FLAG = "--deployment"
STANDARD_INPUT = "-"
_STDIN = Path("/dev/stdin")
MAX_BYTES = 4 * 1024 * 1024
"""The rendered manifests of a large chart have a tenth of that."""
_MAX_SCRIPT = 256 * 1024
_MAX_SERVERS = 200
_LOOKS_LIKE_YAML = re.compile(r"^(?:---|\{|- \S|[A-Za-z_\"'][\w./\"' -]{0,80}:(?:\s|$))", re.MULTILINE)
_TEMPLATE = re.compile(
    r"\{\{-?\s*(?:if|range|with|end|else|define|include|template|toYaml|tpl|/\*|\$|\.|[\w.]+ \|)|\{%"
)
_RELEASE_TEMPLATE = re.compile(r"^[^#\n]*\{\{[^{}\n]*(?:\.Values|\.Release|\.Chart)\b", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class _Kind:
    """A kind of file whose text is not YAML."""

    title: str
    is_this: Callable[[str], bool]
    read: Callable[..., list[Container]]


_TEXT_KINDS: tuple[_Kind, ...] = (
    _Kind("a systemd unit", is_unit, containers_in_unit),
    _Kind("a Dockerfile", is_dockerfile, containers_in_dockerfile),
    _Kind("a script", is_script, containers_in_script),
)
"""In the order in which they are tried; a file that is none of them is refused."""


def read_deployment(target: str) -> list[DeployedServer]:
    """The servers of FILE, or the one server of `FILE#NAME`; FILE may be `-` for standard input.

    Raises InputError for a file that cannot be read, holds no server, or holds none of that name.
    """
    file, name = _split_target(target)
    servers = read_deployments(file)
    if name is None:
        return servers
    chosen = [server for server in servers if server.name == name]
    if not chosen:
        known = [server.name for server in servers]
        raise InputError(f"no server {excerpt(name, 60)!r}{did_you_mean(name, known)}", where=_shown(file))
    return chosen


def read_deployments(file: str) -> list[DeployedServer]:
    """The servers of a file, in its order, each with a name of its own."""
    where = _shown(file)
    text = _read_text(file)
    directory = None if file == STANDARD_INPUT else Path(file).parent
    stem = "server" if file == STANDARD_INPUT else re.sub(r"\.(?:service|container|sh|ya?ml|txt)$", "", Path(file).name)
    kind, containers = _containers(text, where, directory, stem)
    lines = text.split("\n")
    servers: list[DeployedServer] = []
    for container in containers:
        if len(servers) > _MAX_SERVERS:
            raise InputError(f"holds more than {_MAX_SERVERS} servers", where=where, todo="give a part of it")
        found = servers_in(container, f"{container.file or where}:{container.line}")
        servers += [replace(server, lines=_lines_of(server, container, containers, lines)) for server in found]
    if not servers:
        raise InputError(f"no vLLM server found in {kind}", where=where, todo=_advice(kind, text))
    return _with_own_names(servers, stem)


_FLAG = re.compile(r"(?<![\w-])--[A-Za-z][\w.-]*")


def _lines_of(
    server: DeployedServer, container: Container, containers: Sequence[Container], lines: Sequence[str]
) -> dict[str, int]:
    """Where the image and the arguments stand, as far as they do so literally, up to the next container."""
    if container.file is not None or not server.is_complete:
        return {}
    end = min((one.line for one in containers if one.line > container.line), default=len(lines) + 1)
    begin = container.line if len(containers) > 1 else 1
    flags = {word.partition("=")[0] for word in server.words if word.startswith("--")}
    found: dict[str, int] = {}
    for number, line in enumerate(lines[begin - 1 : end - 1], begin):
        if line.lstrip().startswith("#"):
            continue
        if container.image is not None and container.image in line:
            found.setdefault("image", number)
        for flag in flags.intersection(_FLAG.findall(line)):
            found.setdefault(flag, number)
    return found


def select_server(servers: Sequence[DeployedServer], target: str) -> DeployedServer:
    """The only server. Raises InputError if there are several."""
    if len(servers) == 1:
        return servers[0]
    names = ", ".join(server.name for server in servers[:8]) + (", …" if len(servers) > 8 else "")
    file = _split_target(target)[0]
    todo = f"name one: {FLAG} {_shown(file)}#{servers[0].name}"
    raise InputError(f"holds {plural(len(servers), 'vLLM server')} ({names})", where=_shown(file), todo=todo)


def _split_target(target: str) -> tuple[str, str | None]:
    """A file whose own name has a `#` is taken as it is."""
    file, sign, name = target.rpartition("#")
    if not sign or not file or _exists(Path(target)):
        return target, None
    return file, name


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def _shown(file: str) -> str:
    return "standard input" if file == STANDARD_INPUT else file


def _read_text(file: str) -> str:
    where = _shown(file)
    try:
        if file == STANDARD_INPUT:
            content = sys.stdin.buffer.read(MAX_BYTES + 1)
        else:
            path = Path(file)
            if path.is_dir():
                raise InputError("is a directory", where=where, todo="name a file in it")
            if not path.is_file() and path.exists() and not path.is_fifo() and path.resolve() != _STDIN.resolve():
                raise InputError("is no regular file", where=where)
            # A file of the system may have nothing to read now and wait for ever, which a pipe may do.
            with open(path, "rb", opener=_open_at_once if path.is_file() else None) as opened:
                content = opened.read(MAX_BYTES + 1) or b""
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror})", where=where) from None
    except ValueError:
        raise InputError("is no name of a file", where=FLAG) from None
    if len(content) > MAX_BYTES:
        todo = "give the part with the server"
        raise InputError(f"is larger than {MAX_BYTES // 1024 // 1024} MiB", where=where, todo=todo)
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        encoding = "utf-16"
    else:
        encoding = "utf-8-sig"
        if b"\0" in content:
            raise InputError("is no text file", where=where)
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError:
        raise InputError("is not UTF-8 text", where=where) from None
    if not text.strip():
        raise InputError("is empty", where=where)
    return without_marks(text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", ""))


def _open_at_once(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


def _containers(
    text: str, where: str, directory: Path | None, stem: str, *, is_inner: bool = False
) -> tuple[str, list[Container]]:
    """What kind of file it is, in words, and its containers. `is_inner`: it stands in another file."""
    if not _is_yaml(text):
        for kind in _TEXT_KINDS:
            if kind.is_this(text):
                if len(text) > _MAX_SCRIPT:
                    raise InputError(f"is too long for {kind.title}", where=where, todo="give the part with the server")
                found = kind.read(text, name=stem)
                if kind.is_this is is_script and not is_inner:
                    found += _containers_in_documents(text, where, stem)
                return kind.title, found
        if not _LOOKS_LIKE_YAML.search(text):
            return "this file", []
    return _yaml_containers(text, where, directory)


def _containers_in_documents(text: str, where: str, stem: str) -> list[Container]:
    """Those of the files that a script writes (`cat <<EOF > vllm.service`) or pipes (`kubectl apply -f - <<EOF`)."""
    found: list[Container] = []
    for document in here_documents(text)[:_MAX_SERVERS]:
        try:
            _, containers = _containers(document.text, where, None, stem, is_inner=True)
        except InputError:  # a file of another kind
            continue
        for container in containers:
            container.line += document.line - 1
        found += containers
    return found


def _is_yaml(text: str) -> bool:
    """Whether the first line with content is YAML's, and not that of a script, a Dockerfile or a unit."""
    lines = (line for line in text.split("\n") if line.strip() and not line.lstrip().startswith("#"))
    first = next(lines, "")
    if text.startswith("#!") or first.startswith("["):
        return first.startswith("[") and not is_unit(text) and not text.startswith("#!")
    return _LOOKS_LIKE_YAML.match(first) is not None or first.startswith(("{{", "{%", "%YAML"))


def _yaml_containers(text: str, where: str, directory: Path | None) -> tuple[str, list[Container]]:
    try:
        documents = read_yaml_documents(text, where)
    except InputError as error:
        raise _template_refusal(text, where, _TEMPLATE) or error from None
    if compose := [one for one in documents if is_compose(one) or includes_others(one)]:
        read = [containers_in_compose(document, directory=directory) for document in compose]
        unread = "; ".join(note for _, notes in read for note in notes)
        title = f"a Compose file ({unread})" if unread else "a Compose file"
        return title, [container for containers, _ in read for container in containers]
    manifests: list[Any] = [document for document in documents if is_manifest(document)]
    if manifests:
        if refusal := _template_refusal(text, where, _RELEASE_TEMPLATE):
            raise refusal
        return _manifest_title(manifests), containers_in_manifests(manifests)
    values = [document for document in documents if is_values(document)]
    return "this YAML file", [container for document in values for container in containers_in_values(document)]


def _manifest_title(manifests: Sequence[Any]) -> str:
    kinds = {str(document.get("kind")) for document in manifests}
    return "a kustomization" if kinds == {"Kustomization"} else "Kubernetes manifests"


def _template_refusal(text: str, where: str, pattern: re.Pattern[str]) -> InputError | None:
    found = pattern.search(text)
    if found is None:
        return None
    line = text.count("\n", 0, found.end()) + 1
    return InputError(
        "is a template, not a manifest", where=where, line=line, todo="run `helm template` and give its output"
    )


def _advice(kind: str, text: str) -> str:
    if kind == "a kustomization":
        return "run `kubectl kustomize` and give its output"
    if kind == "this file":
        return "give a docker run line, a Compose file, manifests, Helm values, a Dockerfile or a systemd unit"
    if _TEMPLATE.search(text):
        return "run `helm template` and give its output"
    return "looked for images and commands of vLLM; give the file that has its image and arguments"


def _with_own_names(servers: list[DeployedServer], stem: str) -> list[DeployedServer]:
    """Names that are unique: a second `vllm` is `vllm-2`."""
    taken: set[str] = set()
    named = []
    for server in servers:
        base = excerpt(server.name.strip() or stem, 80)
        name, number = base, 1
        while name in taken:
            number += 1
            name = f"{base}-{number}"
        taken.add(name)
        named.append(replace(server, name=name))
    return named
