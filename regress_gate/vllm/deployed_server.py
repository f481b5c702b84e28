"""One vLLM server of a deployment file, and how the containers of such a file become servers.

Readers of formats fill in a `Container` with what the file says; here its command is searched for the start of a
server, and everything secret is masked before a server exists. Not for what the arguments mean: see `serve_command`.
"""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from regress_gate.model.deployment import Platform
from regress_gate.model.version import Version
from regress_gate.redaction import MASK, mask, mask_values, names_secret, secret_values
from regress_gate.text import excerpt
from regress_gate.vllm.image_names import ImageFacts, parse_version, read_image
from regress_gate.vllm.shell_words import is_open, read_script, shown

_SHELLS = frozenset({"sh", "bash", "dash", "ash", "zsh"})
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_SERVER_MODULE = re.compile(r"vllm\.entrypoints\.(?:openai\.)?api_server")
_SERVER_FILE = re.compile(r"(?:^|/)vllm/entrypoints/openai/api_server\.py$")
_IDLE = frozenset({"sleep", "tail", "ray", "huggingface-cli", "hf", "pause", "curl"})
"""Programs that a container with vLLM's image runs instead of a server."""
_WORKER = re.compile(r"\b(?:multi-node-serving|ray_init|run_cluster)\.sh\s+(?:worker|--worker)\b|\bray start --address")
_OTHER_COMMAND = re.compile(r"\bvllm (?:bench|complete|chat|run-batch|collect-env)\b")
_INSTALLED = re.compile(r"(?:^|\s|['\"])vllm(?:\[[\w,]*\])?\s*==\s*['\"]?([0-9][\w.+-]*)")
_INSTALLS = re.compile(r"\b(?:pip3?|uv)\b.*\binstall\b")
_SECRET_FLAG = re.compile(r"(?:^|[_.])(?:\w*(?:token|key|secret|password|passphrase|credentials?))$")
_SECRET_IN_JSON = re.compile(r'("[^"]*(?:token|secret|passw|api_?key|credential)[^"]*"\s*:\s*")[^"]*(")', re.IGNORECASE)
_SECRET_IN_QUERY = re.compile(
    r"([?&][\w.-]*(?:token|key|sig|signature|secret|passw\w*|credential|auth)[\w.-]*=)[^&\s\"'#]+", re.IGNORECASE
)
_SCRIPT_THAT_SERVES = re.compile(r"\.sh\b|entrypoint|start|serve|launch|run", re.IGNORECASE)
_MAX_SHELLS = 5
"""Shells in shells that are looked into."""


@dataclass(frozen=True, slots=True)
class DeployedServer:
    """A server as its file describes it. Nothing in it is secret."""

    name: str
    """Of the service, container or unit; unique in the file."""
    where: str
    """File and line."""
    words: tuple[str, ...]
    """The arguments of `vllm serve`; what the file does not say stands in them as a mark of `shell_words`."""
    is_complete: bool
    """Whether these are all arguments, so that the others have their defaults."""
    image: str | None = None
    version: Version | None = None
    why_no_version: str = ""
    distribution: str | None = None
    platform: Platform | None = None
    accelerator: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    env_is_complete: bool = False
    """Whether these are all variables, so that vLLM's others are not set."""
    unknown_env: tuple[str, ...] = ()
    """Variables that are set to a value which is secret, or not in the file."""
    notes: tuple[str, ...] = ()
    lines: Mapping[str, int] = field(default_factory=dict)
    """Lines of the file: of the `image`, and of its arguments as they stand there (`--swap-space`)."""

    @property
    def launch_line(self) -> str:
        """For people."""
        return shlex.join(["vllm", "serve", *map(shown, self.words)])


@dataclass(slots=True)
class Container:
    """What a file says about one container or process, before anything is masked."""

    name: str
    line: int
    file: str | None = None
    """The file that holds it, if it is not the one that was given."""
    image: str | None = None
    entrypoint: list[str] | None = None
    """What runs instead of the image's own entrypoint; None: that one."""
    arguments: list[str] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict)
    """A value that the file does not say is a mark of `shell_words`."""
    env_is_complete: bool = False
    """Whether the file says all variables but those of the image."""
    platform: Platform | None = None
    """By the devices that it asks for."""
    accelerator: str | None = None
    version: Version | None = None
    """Of a vLLM that the file installs; the image's does not count then."""
    why_no_version: str = ""
    is_complete: bool = True
    notes: list[str] = field(default_factory=list)
    scripts: Mapping[str, str] = field(default_factory=dict)
    """Scripts in the same file, by their file names."""
    secrets: set[str] = field(default_factory=set)
    """Values that are secret wherever they stand."""

    @property
    def command(self) -> list[str]:
        return [*(self.entrypoint or []), *self.arguments]


@dataclass(frozen=True, slots=True)
class _Start:
    """The start of a server in a command."""

    words: list[str]
    env: Mapping[str, str]
    version: Version | None = None
    is_visible: bool = True
    """False: a script that is not in the file starts it."""


def servers_in(container: Container, where: str) -> list[DeployedServer]:
    """The servers that a container starts, mostly one or none."""
    image = None if container.image is None else read_image(container.image)
    starts = list(find_starts(container.command, container.env, container.scripts)) or _implied_starts(container, image)
    servers = [_server(container, image, start, where) for start in starts]
    if len(servers) < 2:
        return servers
    return [replace(server, name=f"{server.name}-{number}") for number, server in enumerate(servers, 1)]


def find_starts(
    words: Sequence[str], env: Mapping[str, str], scripts: Mapping[str, str] | None = None, *, shells: int = 0
) -> Iterator[_Start]:
    """Each start of vLLM's server in a command, also inside `sh -c` and inside scripts whose text is known."""
    if shells > _MAX_SHELLS:
        return
    for place, word in enumerate(words):
        base = word.rpartition("/")[2]
        following = words[place + 1] if place + 1 < len(words) else ""
        if base in _SHELLS and (script := _script_of(words[place + 1 :])) is not None:
            yield from starts_in_script(script, env, scripts, shells=shells + 1)
            return
        if base == "eval":
            yield from starts_in_script(" ".join(words[place + 1 :]), env, scripts, shells=shells + 1)
            return
        if base == "vllm" and following == "serve":
            yield _Start(list(words[place + 2 :]), {**env, **_assignments(words[:place])})
            return
        if (word == "-m" and _SERVER_MODULE.fullmatch(following)) or _SERVER_FILE.search(word):
            rest = words[place + (2 if word == "-m" else 1) :]
            yield _Start(list(rest), {**env, **_assignments(words[:place])})
            return
        if scripts and base in scripts:
            others = {name: text for name, text in scripts.items() if name != base}
            yield from starts_in_script(scripts[base], env, others, shells=shells + 1)
            return


def starts_in_script(
    script: str, env: Mapping[str, str], scripts: Mapping[str, str] | None = None, *, shells: int = 0
) -> Iterator[_Start]:
    """Each start in a script, with the variables exported before it and the vLLM installed before it."""
    version = None
    for command in read_script(script, env):
        version = installed_version(command.words) or version
        for start in find_starts(command.words, command.env, scripts, shells=shells):
            yield replace(start, version=start.version or version)


def _assignments(words: Sequence[str]) -> dict[str, str]:
    """What `env A=1 B=2 …` sets."""
    if "env" not in (word.rpartition("/")[2] for word in words):
        return {}
    pairs = (_ASSIGNMENT.fullmatch(word) for word in words)
    return {pair[1]: pair[2] for pair in pairs if pair}


def installed_version(words: Sequence[str]) -> Version | None:
    """The vLLM that `pip install vllm==0.9.1` installs; None for any other command."""
    line = " ".join(words)
    found = _INSTALLED.search(line) if _INSTALLS.search(line) else None
    return None if found is None else parse_version(found[1])


def _script_of(words: Sequence[str]) -> str | None:
    """The script of `-c`, also in `-lc` and `-euxc`."""
    for place, word in enumerate(words[:-1]):
        if re.fullmatch(r"-[a-zA-Z]*c", word):
            return words[place + 1]
        if not word.startswith(("-", "+")) and (place == 0 or words[place - 1] not in ("-o", "+o", "-O")):
            return None
    return None


def _implied_starts(container: Container, image: ImageFacts | None) -> list[_Start]:
    """The start in an image's own entrypoint, or in a script that is not in the file."""
    if image is None or not image.is_vllm:
        return []
    text = " ".join(container.command)
    if container.entrypoint is None and _are_arguments(container.arguments, image):
        # `serve` is already in the entrypoint; people write it all the same.
        words = container.arguments
        return [_Start(words[1:] if words[:1] == ["serve"] else words, container.env)]
    first = container.command[0].rpartition("/")[2] if container.command else ""
    if not container.command and not image.starts_server:
        return []
    if first in _IDLE or _WORKER.search(text) or _OTHER_COMMAND.search(text) or re.search(r"\bsleep (?:inf|\d)", text):
        return []
    if container.command and not _SCRIPT_THAT_SERVES.search(text):
        return []
    return [_Start([], container.env, is_visible=False)]


def _are_arguments(arguments: Sequence[str], image: ImageFacts) -> bool:
    if image.starts_server:
        return not arguments or arguments[0].rpartition("/")[2] not in _SHELLS | _IDLE | {"python", "python3"}
    return any(word.partition("=")[0] in ("--model", "--served-model-name", "--max-model-len") for word in arguments)


def _server(container: Container, image: ImageFacts | None, start: _Start, where: str) -> DeployedServer:
    secrets = _all_secrets(container, start)
    notes = list(container.notes)
    if not start.is_visible:
        command = excerpt(mask_text(shown(" ".join(container.command)), secrets), 60)
        notes.append(f"it starts {command!r}, which is not in the file: its arguments are not known")
    version, why = start.version or container.version, container.why_no_version
    if version is None and not why:
        if image is None:
            why = "no image is named"
        else:
            version, why = image.version, image.why_no_version
            notes += [image.note] if image.note else []
    env, unknown = _masked_env(start.env, secrets)
    return DeployedServer(
        name=container.name,
        where=where,
        words=tuple(mask_words(start.words, secrets)),
        is_complete=container.is_complete and start.is_visible,
        image=None if image is None else mask_text(image.name, secrets),
        version=version,
        why_no_version="" if version is not None else mask_text(why, secrets),
        distribution=None if image is None or image.distribution is None else mask_text(image.distribution, secrets),
        platform=_platform(container, image),
        accelerator=container.accelerator,
        env=env,
        env_is_complete=_is_whole_env(container, image),
        unknown_env=unknown,
        notes=tuple(mask_text(note, secrets) for note in notes),
    )


def _is_whole_env(container: Container, image: ImageFacts | None) -> bool:
    """vLLM's own images set none of its variables that matter; a script may read a file with more."""
    reads_files = re.search(r"(?:^|[\s;&])(?:source|\.)\s", " ".join(container.command)) is not None
    return container.env_is_complete and image is not None and image.starts_server and not reads_files


def _platform(container: Container, image: ImageFacts | None) -> Platform | None:
    """By the devices, which a file names on purpose; else by the image."""
    if container.platform is not None:
        return container.platform
    return None if image is None else image.platform


def _all_secrets(container: Container, start: _Start) -> tuple[str, ...]:
    """Secret values of the file, the longest first."""
    values = {*secret_values(container.env), *secret_values(dict(start.env))}
    values |= {value.strip() for value in container.secrets if len(value.strip()) > 5}
    # A file may hold thousands of Secrets: only those that stand elsewhere need to be looked for.
    text = "\n".join((container.image or "", *container.command, *start.words, *start.env.values(), *container.notes))
    found = (value for value in values if value in text and not is_open(value))
    return tuple(sorted(found, key=len, reverse=True))


def mask_text(text: str, secrets: tuple[str, ...] = ()) -> str:
    """The text without the secrets of the file, without tokens, and without secrets in URLs and JSON."""
    text = mask(mask_values(text, secrets))
    return _SECRET_IN_QUERY.sub(rf"\1{MASK}", _SECRET_IN_JSON.sub(rf"\1{MASK}\2", text))


def mask_words(words: Sequence[str], secrets: tuple[str, ...] = ()) -> list[str]:
    """Arguments with the values of secret flags masked: `--api-key`, `--hf-token`, `--ssl-keyfile-password`."""
    masked: list[str] = []
    hides = False
    for word in words:
        flag, equals, _ = word.partition("=")
        if word.startswith("--"):
            hides = _SECRET_FLAG.search(flag.lstrip("-").replace("-", "_").casefold()) is not None
            masked.append(f"{flag}={MASK}" if hides and equals else mask_text(word, secrets))
            hides = hides and not equals
        else:
            masked.append(MASK if hides else mask_text(word, secrets))
    return masked


def _masked_env(env: Mapping[str, str], secrets: tuple[str, ...]) -> tuple[dict[str, str], tuple[str, ...]]:
    """The variables with a known value that is not secret, and the names of the others."""
    known = {
        name: value
        for name, value in env.items()
        if not names_secret(name) and not is_open(value) and mask_text(value, secrets) == value
    }
    return known, tuple(sorted(name for name in env if name not in known))
