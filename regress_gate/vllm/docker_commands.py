"""Servers in shell scripts with `docker run` or `vllm serve`, in systemd units, and in podman's `.container` units."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence

from regress_gate.model.deployment import Platform
from regress_gate.vllm.deployed_server import Container, find_starts, installed_version
from regress_gate.vllm.image_names import read_image
from regress_gate.vllm.shell_words import ShellCommand, interpolate, is_wholly_open, open_value, read_script, shown

_ENGINES = frozenset({"docker", "podman", "nerdctl", "docker.exe"})
_SWITCHES = frozenset(
    {
        *("--detach", "--init", "--interactive", "--tty", "--rm", "--privileged", "--publish-all", "--read-only"),
        *("--no-healthcheck", "--oom-kill-disable", "--sig-proxy", "--disable-content-trust", "--quiet", "--replace"),
        *("--tls-verify", "--no-hosts", "--env-host", "--rmi", "--passwd"),
    }
)
"""Options of `docker run` and `podman run` that take no value of their own."""
_SHORT_WITH_VALUE = frozenset("acehlmpuvw")
_DEVICES: tuple[tuple[str, Platform], ...] = (
    (r"/dev/kfd|amd\.com/gpu", "rocm"),
    (r"/dev/davinci|/dev/hisi_hdc|huawei\.com/", "ascend"),
    (r"/dev/accel/accel|habana\.ai/", "gaudi"),
    (r"/dev/neuron", "other"),
    (r"nvidia", "cuda"),
)


def device_platform(text: str) -> Platform | None:
    """The platform of a device, a driver or a runtime of containers; None where it does not say."""
    if re.search(r"\bhabana\b", text):
        return "gaudi"
    return next((platform for pattern, platform in _DEVICES if re.search(pattern, text)), None)


_SCRIPT = re.compile(
    r"^#!|\b(?:docker|podman|nerdctl)\b[^\n]*\brun\b|\bvllm serve\b|vllm\.entrypoints"
    r"|<<-?[ \t]*['\"]?[A-Z]\w*['\"]?(?:\s|$)"  # a here-document
)


def is_script(text: str) -> bool:
    return _SCRIPT.search(text) is not None


def containers_in_script(text: str, *, name: str = "") -> list[Container]:
    """What each `docker run` starts, and each server that is started without a container."""
    version = None
    found = []
    for command in read_script(_without_prompts(text)):
        version = installed_version(command.words) or version
        container = _container_of(command)
        if container is not None:
            container.name = container.name or name
            if container.image is None:
                container.version = version
                container.why_no_version = "" if version else "nothing names the version of vLLM that is installed"
            found.append(container)
    return found


def _without_prompts(text: str) -> str:
    """A line as it is copied from a page or a terminal: without `$ ` in front, with `^` as continuation."""
    text = re.sub(r"^[ \t]*[$#>] (?=(?:sudo )?(?:docker|podman|nerdctl|vllm|python3?) )", "", text, flags=re.MULTILINE)
    return re.sub(r"[ \t]\^[ \t]*\r?\n", " ", text)


def _container_of(command: ShellCommand) -> Container | None:
    words = command.words
    for place, word in enumerate(words):
        if word.rpartition("/")[2] in _ENGINES:
            rest = words[place + 1 :]
            if rest[:1] != ["compose"] and ("run" in rest[:6] or "create" in rest[:6]):
                at = next(index for index, one in enumerate(rest) if one in ("run", "create"))
                return read_docker_run(rest[at + 1 :], command.env, command.line)
            return None
    if any(True for _ in find_starts(words, command.env)):
        return Container("", command.line, arguments=words, env=dict(command.env))
    return None


def read_docker_run(words: Sequence[str], exported: Mapping[str, str], line: int) -> Container:
    """The words after `docker run`: options, image, command."""
    container = Container("", line, env_is_complete=True)
    waiting = list(words)
    while waiting:
        word = waiting.pop(0)
        if is_wholly_open(word):
            # Either more options or the image itself.
            if any(read_image(one).is_vllm for one in waiting if not one.startswith("-")):
                continue
            container.image = word
            break
        if word == "--":
            continue
        if not word.startswith("-") or word == "-":
            container.image = word
            break
        for name, value in _options(word, waiting):
            _apply(container, name, value, exported)
    container.arguments = waiting
    if container.image is None:
        container.notes.append("no image is named")
    return container


def _options(word: str, waiting: list[str]) -> Iterator[tuple[str, str]]:
    """The options that a word is, with their values; the value may be the next word."""
    if word.startswith("--"):
        name, equals, value = word.partition("=")
        if equals or name in _SWITCHES:
            yield name, value
        else:
            yield name, waiting.pop(0) if waiting else ""
        return
    letters = word[1:]
    while letters:
        letter, letters = letters[0], letters[1:]
        if letter in _SHORT_WITH_VALUE:
            yield f"-{letter}", letters.removeprefix("=") or (waiting.pop(0) if waiting else "")
            return
        yield f"-{letter}", ""


def _apply(container: Container, name: str, value: str, exported: Mapping[str, str]) -> None:
    if name in ("--env", "-e"):
        key, equals, text = value.partition("=")
        container.env[key] = text if equals else exported.get(key, open_value(key))
    elif name == "--env-file":
        container.env_is_complete = False
        container.notes.append(f"the variables in {shown(value)} are not read")
    elif name in ("--env-host", "--secret"):
        container.env_is_complete = False
    elif name == "--name":
        container.name = shown(value)
    elif name == "--entrypoint":
        container.entrypoint = [value] if value else []
    elif name == "--gpus":
        container.platform = container.platform or "cuda"
    elif name in ("--device", "--runtime"):
        container.platform = device_platform(value) or container.platform


# systemd


def is_unit(text: str) -> bool:
    """Whether the first line that is no comment begins a section, and one of the sections starts something."""
    begins = re.match(r"(?:[ \t]*(?:[#;].*)?\n)*\[", text) is not None
    return begins and re.search(r"^\[(?:Service|Container)\][ \t]*$", text, re.MULTILINE) is not None


def containers_in_unit(text: str, *, name: str = "") -> list[Container]:
    """What the `ExecStart` lines of a service start, or the one container of a `.container` unit."""
    entries = list(_unit_entries(text))
    env: dict[str, str] = {}
    notes = []
    for section, key, value, _ in entries:
        if section in ("Service", "Container") and key == "Environment":
            env.update(_unit_environment(value))
        elif section in ("Service", "Container") and key == "EnvironmentFile":
            notes.append(f"the variables in {value.removeprefix('-')} are not read")
    containers = [*_services(entries, env), *_quadlet(entries, env)]
    for container in containers:
        container.name = container.name or name
        container.notes += notes
        container.env_is_complete &= not notes
    return containers


def _unit_entries(text: str) -> Iterator[tuple[str, str, str, int]]:
    """Section, key, value and line of each assignment; a backslash at the end of a line continues it."""
    section = ""
    lines = enumerate(text.split("\n"), 1)
    for number, raw in lines:
        line = raw.strip()
        if not line or line[0] in "#;":
            continue
        while line.endswith("\\"):
            following = next(lines, None)
            while following is not None and following[1].strip()[:1] in ("#", ";"):
                following = next(lines, None)
            line = line[:-1].rstrip() + " " + ("" if following is None else following[1].strip())
        if line.startswith("[") and line.endswith("]"):
            section = line[1:-1]
        elif "=" in line:
            key, _, value = line.partition("=")
            yield section, key.strip(), value.strip(), number


def _unit_words(text: str) -> list[str]:
    """Words as systemd splits them: quotes and escapes as in a shell, and no comments."""
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def _unit_environment(value: str) -> Iterator[tuple[str, str]]:
    for word in _unit_words(value):
        name, equals, text = word.partition("=")
        if equals:
            yield name, _specifiers(text)


def _specifiers(text: str) -> str:
    """`%i` is known only to systemd, `%%` is a percent sign."""
    return re.sub(r"%(.)", lambda match: "%" if match[1] == "%" else open_value(f"%{match[1]}"), text)


def _services(entries: Sequence[tuple[str, str, str, int]], env: Mapping[str, str]) -> Iterator[Container]:
    starts: list[tuple[str, int]] = []
    for section, key, value, line in entries:
        if (section, key) == ("Service", "ExecStart"):
            starts = [*starts, (value, line)] if value else []  # an empty value takes the former ones back
    for value, line in starts:
        words: list[str] = []
        for word in _unit_words(_specifiers(value.lstrip("@-:+!|"))):
            if match := re.fullmatch(r"\$(\w+)", word):  # a variable that is a word is split
                known = env.get(match[1])
                words += [open_value(match[1])] if known is None else _unit_words(known)
            else:
                words.append(interpolate(word, env.get, escape="$"))
        container = _container_of(ShellCommand(words, env, line))
        if container is None:
            continue
        if container.image is None:
            container.why_no_version = "a unit does not say which version of vLLM is installed"
        container.line = line
        yield container


def _quadlet(entries: Sequence[tuple[str, str, str, int]], env: Mapping[str, str]) -> Iterator[Container]:
    values: dict[str, tuple[str, int]] = {}
    options: list[str] = []
    for section, key, value, line in entries:
        if section == "Container":
            values[key] = value, line
            if key == "AddDevice":
                options.append(f"--device={value}")
            elif key == "PodmanArgs":
                options += _unit_words(value)
    if "Image" not in values:
        return
    image, line = values["Image"]
    container = read_docker_run([*options, _specifiers(image)], env, line)
    container.env = {**env, **container.env}
    container.name = values.get("ContainerName", ("", 0))[0]
    words = _unit_words(_specifiers(values.get("Exec", ("", 0))[0]))
    container.arguments = [interpolate(word, env.get, escape="$") for word in words]
    if "Entrypoint" in values:
        container.entrypoint = _unit_words(values["Entrypoint"][0])
    yield container
