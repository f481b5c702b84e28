"""Compose files: a container for each service, with what it includes and extends in files beside it.

Values of variables come from the file, from `.env` beside it and from its `env_file`s; never from the environment of
this process, which is another machine's. Files are read in the folder above the first one and below it, and nowhere
else; what lies on another machine (git, OCI, HTTP) is not fetched, and the answer says so.
"""

import os.path
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regress_gate.errors import InputError
from regress_gate.text import excerpt
from regress_gate.vllm.deployed_server import Container
from regress_gate.vllm.docker_commands import device_platform
from regress_gate.vllm.image_names import read_image
from regress_gate.vllm.shell_words import interpolate, open_value, without_marks
from regress_gate.vllm.yaml_nodes import YamlList, YamlMap, child, is_map, items, read_yaml_documents, text_of

_MAX_ENV_FILE = 256 * 1024
"""Bytes of a file with variables."""
_MAX_BYTES = 2 * 1024 * 1024
"""Of all files together that are included or extended."""
_MAX_FILES = 50
_MAX_EXTENDS = 10
_MAX_NOTES = 10
_ENV_LINE = re.compile(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_.-]*)\s*=\s*(.*)")
_REMOTE = re.compile(r"[a-z][a-z0-9+.-]*:|git@", re.IGNORECASE)


def is_compose(document: Any) -> bool:
    """Whether it has services that look like those of Compose."""
    services = child(document, "services")
    keys = ("image", "build", "command", "extends", "deploy", "environment")
    return is_map(services) and any(is_map(one) and any(key in one for key in keys) for one in services.values())


def includes_others(document: Any) -> bool:
    """Whether it has no services of its own and includes files of Compose, and is of no other tool."""
    keys = set(document) if is_map(document) else set()
    return "include" in keys and all(key in ("include", "name", "version") or key.startswith("x-") for key in keys)


def containers_in_compose(document: Any, *, directory: Path | None) -> tuple[list[Container], list[str]]:
    """A container for each service, also of included files, and notes on files that are not read.

    `directory` is that of the file; None: read from standard input.
    """
    files = _Files(None if directory is None else directory.resolve().parent)
    return _project(document, _Place(directory, {}, files), frozenset())


@dataclass(slots=True)
class _Files:
    """Reads other files of one deployment, within bounds."""

    root: Path | None
    """Files must lie below this folder; None: the first file came from standard input."""
    known: dict[Path, YamlMap | str] = field(default_factory=dict)
    """What was read before, or why it was not."""
    included: set[Path] = field(default_factory=set)
    """Each is included once: files that include each other would be read without end."""
    bytes_left: int = _MAX_BYTES

    def read(self, directory: Path | None, name: str) -> tuple[Path, YamlMap] | str:
        """A Compose file and its path; a text that says why it is not read: `lies …`."""
        if _REMOTE.match(name):
            return "lies on another machine"
        if directory is None or self.root is None:
            return "does not come with standard input"
        try:
            path = (directory / name).resolve()
        except (OSError, ValueError):
            return "cannot be read"
        if not path.is_relative_to(self.root):
            return f"lies outside of {self.root}"
        if path not in self.known:
            self.known[path] = self._document(path)
        document = self.known[path]
        return document if isinstance(document, str) else (path, document)

    def _document(self, path: Path) -> YamlMap | str:
        if len(self.known) >= _MAX_FILES:
            return f"is one of more than {_MAX_FILES} files"
        try:
            if not path.is_file():
                return "is not there"
            self.bytes_left -= path.stat().st_size
            if self.bytes_left < 0:
                return f"is too large: more than {_MAX_BYTES // 1024**2} MiB with the files before it"
            text = without_marks(path.read_text(encoding="utf-8-sig"))
            documents = read_yaml_documents(text, excerpt(path.name))
        except (OSError, ValueError, InputError):  # ValueError: no UTF-8
            return "cannot be read"
        return next((one for one in documents if is_compose(one) or includes_others(one)), "is no Compose file")


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a Compose file stands."""

    directory: Path | None
    variables: Mapping[str, str]
    files: _Files

    def put_in(self, text: str) -> str:
        """A text with the values of its variables."""
        return interpolate(text, self.variables.get, escape="$")


def _project(document: Any, place: _Place, above: frozenset[Path]) -> tuple[list[Container], list[str]]:
    """The services of a file and of those that it includes. `above`: the files that include it."""
    # The variables of the project that includes it go before its own.
    variables = {**(_read_env_file(place.directory, ".env") or {}), **place.variables}
    place = _Place(place.directory, variables, place.files)
    services = child(document, "services")
    containers = [
        _service_container(str(name), service, services, place)
        for name, service in (services.items() if is_map(services) else ())
        if is_map(service)
    ]
    names, unread = {container.name for container in containers}, []
    for name in _included(child(document, "include")):
        name = place.put_in(name)
        read = place.files.read(place.directory, name)
        if isinstance(read, str):
            unread.append(f"it includes {excerpt(name, 80)}, which {read}")
            continue
        path, other = read
        if path in above:
            unread.append(f"it includes {excerpt(name, 80)}, which includes it")
            continue
        if path in place.files.included:
            continue
        place.files.included.add(path)
        found, more = _project(other, _Place(path.parent, variables, place.files), above | {path})
        unread += more
        for container in found:
            if container.name not in names:
                names.add(container.name)
                container.file = container.file or excerpt(_shown(place.directory, name), 200)
                containers.append(container)
    unread = list(dict.fromkeys(unread))[:_MAX_NOTES]
    for container in containers:
        container.notes += [f"{note}: services in it are not known" for note in unread if note not in container.notes]
    return containers, unread


def _included(value: Any) -> Iterator[str]:
    """The files of `include`: names, or maps with one or several of them in `path`."""
    for one in [value] if isinstance(value, str) else [entry for entry, _ in items(value)]:
        paths = child(one, "path") if is_map(one) else one
        for path in [paths] if isinstance(paths, str) else [entry for entry, _ in items(paths)]:
            if isinstance(path, str):
                yield path


def _shown(directory: Path | None, name: str) -> str:
    return str(Path(directory or "") / name)


def _service_container(name: str, service: YamlMap, services: YamlMap, place: _Place) -> Container:
    service, notes, is_whole = _extended(service, services, place)
    line = services.line_of(name)
    put_in = place.put_in
    image = text_of(service.get("image"))
    container = Container(name, line, image=None if image is None else put_in(image), notes=notes, is_complete=is_whole)
    container.entrypoint = _compose_words(service.get("entrypoint"), put_in)
    command = _compose_words(service.get("command"), put_in)
    container.arguments = command or []
    container.env, missing = _environment(service, place)
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


def _extended(service: YamlMap, services: YamlMap, place: _Place, depth: int = 0) -> tuple[YamlMap, list[str], bool]:
    """The service with what it extends; a note, and False, for what cannot be read."""
    extends = service.get("extends")
    if extends is None:
        return service, [], True
    if depth == _MAX_EXTENDS:
        return service, ["it extends itself, or too many others"], False
    name = text_of(extends) or text_of(child(extends, "service")) or ""
    file = text_of(child(extends, "file"))
    others, there = services, place.directory
    if file is not None:
        file = place.put_in(file)
        read = place.files.read(place.directory, file)
        if isinstance(read, str):
            return service, [f"it extends {name or 'a service'} of {excerpt(file, 80)}, which {read}"], False
        others, there = child(read[1], "services"), read[0].parent
    parent = others.get(name) if is_map(others) else None
    if not is_map(parent):
        where = "the file" if file is None else excerpt(file, 80)
        return service, [f"it extends {name or 'a service'}, which is not in {where}"], False
    parent, notes, is_whole = _extended(parent, others, _Place(there, place.variables, place.files), depth + 1)
    if there != place.directory and place.directory is not None and there is not None:
        parent = _with_env_files_of(parent, os.path.relpath(there, place.directory.resolve()))
    return _merged(parent, service), notes, is_whole


def _with_env_files_of(service: YamlMap, folder: str) -> YamlMap:
    """A service of another folder, whose `env_file`s are those of its own."""
    moved = _map({**service}, service)
    if files := list(_env_files(service.get("env_file"))):
        moved["env_file"] = _list([str(Path(folder) / file) for file in files], service.line)
    return moved


def _merged(lower: YamlMap, upper: YamlMap) -> YamlMap:
    """A service over the one that it extends: variables and maps are united, env files joined, all else is its own."""
    merged = _map({key: value for key, value in {**lower, **upper}.items() if key != "extends"}, upper, lower)
    for key in lower.keys() & upper.keys():
        low, high = lower[key], upper[key]
        if key == "environment":
            merged[key] = _list([*_entries(low), *_entries(high)], upper.line)
        elif key == "env_file":
            merged[key] = _list([*_env_files(low), *_env_files(high)], upper.line)
        elif is_map(low) and is_map(high):
            merged[key] = _merged(low, high)
    return merged


def _entries(environment: Any) -> list[Any]:
    """`NAME=value` of each variable, of a map or of a list; `NAME` of one without a value."""
    if not is_map(environment):
        return [entry for entry, _ in items(environment)]
    values = ((name, text_of(value)) for name, value in environment.items())
    return [name if value is None else f"{name}={value}" for name, value in values]


def _map(values: dict[str, Any], *lines_of: YamlMap) -> YamlMap:
    made = YamlMap(values)
    made.line = lines_of[0].line
    made.lines = {key: line for one in reversed(lines_of) for key, line in one.lines.items()}
    return made


def _list(values: list[Any], line: int) -> YamlList:
    made = YamlList(values)
    made.line, made.lines = line, [line] * len(values)
    return made


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


def _environment(service: YamlMap, place: _Place) -> tuple[dict[str, str], list[str]]:
    """The variables of the container, and the files with variables that cannot be read."""
    put_in, variables = place.put_in, place.variables
    env: dict[str, str] = {}
    missing = []
    for file in _env_files(service.get("env_file")):
        file = put_in(file)
        content = _read_env_file(place.directory, file, place.files.root)
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


def _read_env_file(directory: Path | None, name: str, root: Path | None = None) -> dict[str, str] | None:
    """The variables of a file below `root` (None: the folder above); None if it is not there or not readable so."""
    if directory is None or Path(name).is_absolute():
        return None
    path = directory / name
    try:
        if not path.is_file() or path.stat().st_size > _MAX_ENV_FILE:
            return None
        if not path.resolve().is_relative_to(root or directory.resolve().parent):
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
