"""A file that may pin vLLM, and what all readers of such files share: the exact line, variables that are named for
vLLM's version, commands that install or start it, and the annotations of Renovate.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from regress_gate.pins.pin import (
    Pin,
    Pinned,
    index_version,
    is_distribution,
    looks_like_vllm_image,
    read_address,
    read_image_pin,
    read_requirement,
    read_revision,
    read_version_text,
)
from regress_gate.vllm.image_names import split_image
from regress_gate.vllm.shell_words import Lookup, interpolate, is_open, read_script, shown

MAX_SCRIPT = 256 * 1024
MAX_PINS = 500
"""Of one file."""
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_VERSION_WORDS = frozenset(
    {"version", "ver", "tag", "image", "img", "release", "ref", "commit", "sha", "revision", "rev", "wheel", "git"}
)
_HARMLESS_WORDS = _VERSION_WORDS | frozenset(
    {
        "openai",
        "docker",
        "container",
        "oci",
        "base",
        "default",
        "server",
        "serving",
        "serve",
        "engine",
        "backend",
        "runtime",
    }
    | {
        "inference",
        "pip",
        "package",
        "pypi",
        "name",
        "uri",
        "url",
        "gpu",
        "cpu",
        "rocm",
        "arg",
        "full",
        "worker",
        "model",
    }
)
"""Words after `vllm` in the name of a variable that leave it vLLM's: `VLLM_CUDA_VERSION` is CUDA's version."""
_OTHER_THINGS = frozenset(
    {"min", "minimum", "max", "maximum", "old", "previous", "last", "not", "skip", "test", "if", "is", "has"}
)
_ASSIGNMENT = re.compile(
    r"""(?:(?:export|ARG|ENV|env|set|-e|--env|--build-arg|Environment=)\s*)?
        ["']?(?P<name>[A-Za-z_][\w.-]*)["']?\s*(?:\?=|:=|\+=|=|:)\s*(?P<quote>["']?)(?P<value>[^\s"'#,;]+)(?P=quote)[,;]?\s*(?:\#.*|//.*)?""",
    re.VERBOSE,
)
_SHELL_DEFAULT = re.compile(r"\$\{\w+:?[-=]([^{}$]+)\}")
_REQUIREMENT_TOKEN = re.compile(r"(?<![\w./-])vllm(?:-cpu[\w-]*)?(?:\[[\w, -]*\])?\s*==\s*[\d][\w.+!]*", re.IGNORECASE)
_IMAGE_TOKEN = re.compile(
    r"[\w.-]+(?::\d+)?(?:/[\w.-]+)*/[\w.-]*vllm[\w.-]*(?:/[\w.-]+)*:[\w][\w.-]*(?:@sha256:[0-9a-f]{64})?", re.I
)
_WHEEL_TOKEN = re.compile(r"https?://[^\s\"'\\|;)]+/vllm[\w.%+-]*\.whl", re.IGNORECASE)
_RENOVATE = re.compile(
    r"(?:#|//|<!--|;|--)\s*renovate:.*?\b(?:depName|packageName|lookupName)=[\"']?(?P<name>[^\s\"']+)", re.IGNORECASE
)
_VERSION_TOKEN = re.compile(r"(?<![\w.])v?\d+\.\d+\.\d+(?:\.?(?:rc|post|dev)\d+)*[\w.+-]*(?:@sha256:[0-9a-f]{64})?")
_RENOVATED = re.compile(r"(?:.*/)?(?:vllm-openai(?:-\w+)?|vllm-project/vllm|vllm)")
_REPOSITORY = re.compile(r"(?:repository|newName|name):\s*[\"']?([\w.:/-]*vllm[\w./-]*)[\"']?")
_TAG = re.compile(r"(?:tag|newTag):\s*[\"']?([\w.@:-]+)[\"']?(?:\s+#.*)?")
_TAG_DISTANCE = 4
"""Lines below the repository in which its tag is looked for."""
_COMMENT = ("#", "//", "<!--", "--", ";")
_INDEX_OPTIONS = ("--extra-index-url", "--index-url", "-i", "--index", "--default-index", "--find-links", "-f")


@dataclass(slots=True)
class PinFile:
    path: str
    text: str
    """Lines end with a newline alone, so that their numbers are git's."""
    kind: str
    sibling: Callable[[str], str | None] = field(default=lambda _: None)
    """The text of a tracked file by its path from this file's directory."""
    notes: list[str] = field(default_factory=list)
    """What could not be read."""
    _lines: list[str] | None = None

    @property
    def lines(self) -> list[str]:
        if self._lines is None:
            self._lines = self.text.split("\n")
        return self._lines

    def pin(self, line: int, place: str, pinned: Pinned, *, kind: str | None = None, path: str | None = None) -> Pin:
        return Pin(path or self.path, max(1, line), kind or self.kind, place, pinned)

    def line_of(self, pinned: Pinned, first: int, last: int | None = None) -> int:
        """The line between `first` and `last` that holds the pinned version; `first` if none does."""
        return find_line(self.lines, pinned, first, last or len(self.lines)) or first


def find_line(lines: list[str], pinned: Pinned, first: int, last: int) -> int | None:
    """The line with the version and the name, else with the version, else with the name; comments do not count."""
    needles = version_needles(pinned)
    numbered = [
        (number, line)
        for number, line in enumerate(lines[first - 1 : last], first)
        if not line.lstrip().startswith(("#", "//")) or _RENOVATE.search(line)
    ]
    name = pinned.name.rpartition("/")[2].casefold()
    for needle in needles:
        for wants_name in (True, False):
            for number, line in numbered:
                if needle in line and (not wants_name or name in line.casefold()):
                    return number
    return next((number for number, line in numbered if name in line.casefold()), None)


def version_needles(pinned: Pinned) -> list[str]:
    """The texts, best first, one of which stands where the version is written."""
    spec = pinned.spec.removeprefix(" @ ").strip()
    tag, _, digest = spec.partition("@sha256:")
    bare = tag.lstrip("=<>~!^ ")
    version = pinned.version
    number = "" if version is None else version.number or version.commit or ""
    texts = [spec, bare, bare.removeprefix("v"), f"sha256:{digest}" if digest else "", number]
    return list(dict.fromkeys(text for text in texts if text))


# Variables


def names_vllm_version(name: str) -> bool:
    """Whether a variable, or a path of keys, says by its name that it holds vLLM's version, tag, commit or image.

    `VLLM_VERSION`, `vllmImageTag`, `QWEN_VLLM_TAG` and `vllm.image.tag` do; `VLLM_CUDA_VERSION` and
    `MIN_VLLM_VERSION` do not.
    """
    words = [word.casefold() for word in _WORDS.findall(name.replace("vLLM", "vllm").replace("VLLM", "vllm"))]
    if "vllm" not in words:
        return False
    at = len(words) - 1 - words[::-1].index("vllm")
    before, after = set(words[:at]), set(words[at + 1 :])
    if not after <= _HARMLESS_WORDS or before & _OTHER_THINGS:
        return False
    return bool(after & _VERSION_WORDS) or (not after and bool(before & _VERSION_WORDS))


def read_variable(name: str, value: str) -> Pinned | None:
    """What a variable pins that is named for vLLM's version, or whose value is an image or a wheel of vLLM."""
    value = value.strip()
    if default := _SHELL_DEFAULT.fullmatch(value):
        value = default[1]
    if is_open(value) or "$" in value or "{" in value:
        return None
    if looks_like_vllm_image(value) or (value.endswith(".whl") and "vllm" in value):
        return read_version_text(value, name)
    if not names_vllm_version(name):
        return None
    found = read_version_text(value, name)
    if (
        found is not None
        and found.version is None
        and "/" not in found.name
        and not re.search("tag|image|ver", name, re.I)
    ):
        return None
    return found


# Commands


@dataclass(frozen=True, slots=True)
class CommandPin:
    pinned: Pinned
    line: int
    """Of the command in the script, counted from 1."""


def command_pins(script: str, lookup: dict[str, str] | None = None) -> Iterator[CommandPin]:
    """What `pip install vllm==…` and `docker run vllm/vllm-openai:…` pin, with the script's own variables put in."""
    if "vllm" not in script.casefold() or len(script) > MAX_SCRIPT:
        return
    for command in read_script(script, lookup or {}):
        words = command.words
        text = " ".join(words)
        if "vllm" not in text.casefold():
            continue
        inner = next((word for word in words if "\n" in word or (" " in word and "install" in word)), None)
        if inner is not None and inner != script:  # bash -c "pip install …"
            yield from (CommandPin(one.pinned, command.line) for one in command_pins(inner, dict(command.env)))
        if (cloned := _cloned(words)) is not None:
            yield CommandPin(cloned, command.line)
        if re.search(r"\binstall\b|\b(?:pip|uv)3? (?:add|sync)\b|\buvx?\b.*--with", text):
            yield from (CommandPin(pinned, command.line) for pinned in installed(words))
        for word in words:
            image = word.partition("=")[2] if word.startswith("-") and "=" in word else word
            if looks_like_vllm_image(image) and (pinned := read_image_pin(image)) is not None:
                yield CommandPin(pinned, command.line)


def _cloned(words: list[str]) -> Pinned | None:
    """What `git clone --branch v0.19.1 https://github.com/vllm-project/vllm` pins."""
    if words[:1] != ["git"] or "clone" not in words:
        return None
    address = next((word for word in words if read_revision(word, "v0.1.0") is not None), None)
    branch = next((at for at, word in enumerate(words[:-1]) if word in ("-b", "--branch", "--revision")), None)
    revision = "" if branch is None else words[branch + 1]
    revision = next((word.partition("=")[2] for word in words if word.startswith("--branch=")), revision)
    if address is None or not revision:
        return None
    version = read_revision(address, revision)
    why = "" if version is not None else f"the branch {shown(revision)} names no version"
    return Pinned("vllm", f" @ git+{address}@{shown(revision)}", version, why)


def installed(words: list[str]) -> Iterator[Pinned]:
    """What the arguments of an installer pin; an index of one build decides for a requirement without a version."""
    index = None
    for place, word in enumerate(words):
        option, equals, value = word.partition("=")
        if option in _INDEX_OPTIONS:
            address = value if equals else words[place + 1] if place + 1 < len(words) else ""
            index = address if index_version(address) is not None else index
    for place, word in enumerate(words):
        if place and words[place - 1] in _INDEX_OPTIONS:
            continue
        pinned = read_requirement(word) if not word.startswith("-") else None
        if pinned is None:
            continue
        if pinned.version is None and not pinned.spec and index is not None:
            pinned = read_address(index)
        if pinned.spec or any(one in words for one in ("install", "add", "--with")):
            yield pinned


# Lines


def scan_lines(file: PinFile, *, first: int = 1) -> Iterator[Pin]:
    """What single lines say, for files that no reader understands: images, wheels, requirements, variables."""
    for number, line in enumerate(file.lines[first - 1 :], first):
        if "vllm" not in line.casefold() or line.lstrip().startswith(_COMMENT) or len(line) > 5000:
            continue
        code = re.split(r"\s#\s", line)[0]
        found = [read_image_pin(token) for token in _IMAGE_TOKEN.findall(code) if looks_like_vllm_image(token)]
        found += [read_address(token) for token in _WHEEL_TOKEN.findall(code)]
        found += [read_requirement(token) for token in _REQUIREMENT_TOKEN.findall(code)]
        if (match := _ASSIGNMENT.fullmatch(code.strip())) is not None:
            found.append(read_variable(match["name"], match["value"]))
        if (match := _REPOSITORY.fullmatch(code.strip())) is not None:
            yield from _tag_below(file, number, match[1])
        for pinned in found:
            if pinned is not None:
                yield file.pin(number, f"line {pinned.name}", pinned)


def _tag_below(file: PinFile, number: int, repository: str) -> Iterator[Pin]:
    """The tag of `repository: vllm/vllm-openai` in values that stand in a template or in a text of Terraform."""
    for at, line in enumerate(file.lines[number : number + _TAG_DISTANCE], number + 1):
        match = _TAG.fullmatch(line.strip())
        if match is not None and looks_like_vllm_image(f"{repository}:{match[1]}"):
            pinned = read_image_pin(f"{repository}:{match[1]}")
            if pinned is not None:
                yield file.pin(at, f"line {pinned.name}", pinned)
            return


def renovate_pins(file: PinFile) -> Iterator[Pin]:
    """The versions below comments for Renovate: `# renovate: datasource=docker depName=vllm/vllm-openai`."""
    if "renovate:" not in file.text:
        return
    for number, line in enumerate(file.lines, 1):
        match = _RENOVATE.search(line)
        if match is None or not (_RENOVATED.fullmatch(match["name"]) or is_distribution(match["name"])):
            continue
        at = next(
            (n for n in range(number + 1, number + 4) if n <= len(file.lines) and file.lines[n - 1].strip()), None
        )
        token = None if at is None else _VERSION_TOKEN.search(file.lines[at - 1])
        if at is None or token is None:
            continue
        pinned = read_version_text(token[0].partition("@")[0], match["name"])
        if pinned is not None:
            yield file.pin(at, f"renovate {match['name']}", pinned)


# Variables in texts


@dataclass(slots=True)
class Variables:
    """Variables with the lines that set them, and which of them a text used."""

    values: dict[str, tuple[str, int, str | None]] = field(default_factory=dict)
    """Value, line, and the file if it is another one."""
    used: list[str] = field(default_factory=list)

    def lookup(self, name: str) -> str | None:
        found = self.values.get(name)
        if found is None:
            return None
        self.used.append(name)
        return found[0]

    def put_in(self, text: str, *, escape: str = "") -> str:
        self.used.clear()
        lookup: Lookup = self.lookup
        return interpolate(text, lookup, escape=escape)

    def origin(self, pinned: Pinned) -> tuple[int, str | None] | None:
        """Line and file of the variable that holds the version; None: it stands in the text itself."""
        needles = version_needles(pinned)
        for name in self.used:
            value, line, file = self.values[name]
            _, tag, digest = split_image(value)
            parts = [part.removeprefix("v") for part in (tag or value, digest) if part]
            if any(part and (part in needle or needle in value) for part in parts for needle in needles):
                return line, file
        return None
