"""A pin: the place where a repository says which vLLM it runs, and what a text of such a place means.

A text is a requirement (`vllm==0.19.1`), an image (`vllm/vllm-openai:v0.19.1`), a wheel's address or a bare version. A
range, a moving tag, a digest or a branch names no version: it is kept with the reason, and never guessed.
"""

import re
from dataclasses import dataclass
from urllib.parse import SplitResult, unquote, urlsplit

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from regress_gate.model.version import Version
from regress_gate.text import clip, one_line
from regress_gate.vllm.image_names import parse_version, read_image, split_image
from regress_gate.vllm.shell_words import is_open, shown

_MAX_TEXT = 200
_DISTRIBUTION = re.compile(r"vllm(?:-cpu(?:-[a-z0-9]+)?)?", re.IGNORECASE)
"""Distributions that count vLLM's own releases: vLLM's, and its CPU builds on PyPI."""
_REQUIREMENT_START = re.compile(r"vllm(?:[-_.]cpu(?:[-_.][a-z0-9]+)?)?(?![\w.-])", re.IGNORECASE)
_LOOSE = re.compile(r"(vllm[\w-]*)\s*(?:\[[^\]]*\])?\s*(={1,3})\s*v?([0-9][\w.+!*-]*)", re.IGNORECASE)
"""What tools take that are not as strict as the standard, conda's single `=` among them."""
_COMMIT = re.compile(r"[0-9a-f]{7,40}")
_PLACEHOLDER = re.compile(r"1\.0\.0\.dev\d*")
"""The number that wheels of single commits had in their names."""
_WHEEL_HOST = "wheels.vllm.ai"
_WHEEL_HOSTS = (_WHEEL_HOST, "vllm-wheels.s3.us-west-2.amazonaws.com")
"""The second is the older name."""
_OWNER = re.compile(r"(?:^|[/:@])vllm-project/vllm(?:\.git)?$")
_PIP_OPTION = re.compile(r"\s--?[A-Za-z][\w-]*(?:[= ].*)?$", re.DOTALL)
_BARE_VERSION = re.compile(r"v?\d+\.\d+(?:\.\d+)*(?:\.?(?:rc|post|dev)\d+)*(?:\+[\w.]+)?")
_TAG = re.compile(r"v?\d+\.\d+\.\d+[\w.+-]*")
_MOVING = re.compile(r"latest|nightly|main|master|stable|dev")
_IMAGE = re.compile(r"(?:docker://)?[A-Za-z0-9][\w.-]*(?::\d+)?(?:/[\w.${}:-]+)*/?[\w.${}:@-]*")

_VLLM_OWNER = re.compile(r"(?:^|/)vllm/vllm-[\w-]+$")

UNPINNED = "no version is given"


@dataclass(frozen=True, slots=True)
class Pinned:
    """What a text pins, wherever it stands."""

    name: str
    """The distribution, or the image without its tag."""
    spec: str
    """The part that moves: `==0.19.1`, `v0.19.1@sha256:…`; empty if nothing is given."""
    version: Version | None
    why: str = ""
    """Why there is no version."""
    is_range: bool = False
    """Whether `spec` is a range of versions."""

    @property
    def text(self) -> str:
        """As people write it: `vllm==0.19.1`, `vllm/vllm-openai:v0.19.1`."""
        if not self.spec or self.spec[0] in "=<>~!^* ":
            joint = ""
        elif self.spec.startswith("sha256:"):
            joint = "@"
        else:
            joint = ":" if "/" in self.name else "="
        return clip(one_line(f"{self.name}{joint}{self.spec}"), _MAX_TEXT)

    def allows(self, version: Version) -> bool:
        """Whether a range has that version in it."""
        if not self.is_range or version.number is None:
            return False
        try:
            return SpecifierSet(self.spec).contains(version.number, prereleases=True)
        except InvalidSpecifier:
            return False


@dataclass(frozen=True, slots=True)
class Pin:
    """One place of one file."""

    file: str
    """Path from the repository's root."""
    line: int
    """Counted from 1."""
    kind: str
    """requirements, uv.lock, dockerfile, compose…"""
    place: str
    """Where in the file: the same for both revisions, so that a moved pin is not taken for two."""
    pinned: Pinned

    @property
    def version(self) -> Version | None:
        return self.pinned.version

    @property
    def where(self) -> str:
        return f"{self.file}:{self.line}"


def is_distribution(name: str) -> bool:
    return _DISTRIBUTION.fullmatch(re.sub(r"[-_.]+", "-", name.strip())) is not None


def read_requirement(text: str) -> Pinned | None:
    """What a requirement of vLLM pins: `vllm[audio]==0.19.1; python_version>"3.9" --hash=…`, `vllm @ https://…`, the
    bare address of a wheel or of vLLM's repository, and conda's `vllm=0.19.1`. None: it is not vLLM's.
    """
    text = re.sub(r"^(?:-e|--editable)[ =]", "", text.strip()).strip()
    if "://" in text.partition(" ")[0]:
        return _read_address_requirement(text.partition(" ")[0])
    text = text.rpartition("::")[2] if re.match(r"[\w./-]+::", text) else text  # conda's channel
    if not _REQUIREMENT_START.match(text):
        return None
    bare = text if "@" in text else _PIP_OPTION.sub("", f"{text} ").strip()
    try:
        requirement = Requirement(bare.partition(" --")[0])
    except InvalidRequirement:
        loose = _LOOSE.match(text)
        if loose is None:
            name = _REQUIREMENT_START.match(text)
            assert name is not None  # noqa: S101 - seen above
            rest = text[name.end() :].strip()
            return Pinned(name[0].casefold(), shown(rest), None, f"{shown(rest)!r} names no version") if rest else None
        return read_specifier(loose[1], "==" + loose[3])
    if not is_distribution(requirement.name):
        return None
    if requirement.url is not None:
        return read_address(requirement.url, requirement.name)
    written = re.sub(r"^[\w.-]+\s*(?:\[[^\]]*\])?", "", bare).partition(";")[0].partition(" --")[0]
    return read_specifier(requirement.name, written.strip().removeprefix("(").removesuffix(")"))


def read_specifier(name: str, specifier: str) -> Pinned:
    """`==0.19.1` is a version; `>=0.19,<0.33`, `==0.19.*`, `^0.19` and `*` are not."""
    name, spec = name.casefold().replace("_", "-"), specifier.strip()
    if spec in ("", "*"):
        return Pinned(name, spec, None, UNPINNED)
    if exact := re.fullmatch(r"={2,3}\s*v?([^\s,*]+)", spec):
        version = parse_version(shown(exact[1]))
        return Pinned(name, f"=={shown(exact[1])}", version, "" if version else f"{shown(exact[1])!r} is no version")
    if exact := _BARE_VERSION.fullmatch(spec):  # Poetry and lock files
        return Pinned(name, f"=={spec}", parse_version(spec))
    return Pinned(name, shown(spec), None, f"{shown(spec)} is a range", is_range=True)


def read_address(address: str, name: str = "vllm") -> Pinned:
    """A wheel, an index of one build, or vLLM's repository at a tag, a commit or a branch."""
    url = address.strip()
    spec = f" @ {shown(url)}"
    version = _address_version(url)
    if version is not None:
        return Pinned(name.casefold(), spec, version)
    if is_open(url):
        return Pinned(name.casefold(), spec, None, "the address has a variable that is not in the file")
    return Pinned(name.casefold(), spec, None, "the address names no version")


def index_version(url: str) -> Version | None:
    """The build of `--extra-index-url https://wheels.vllm.ai/<commit or release>/…`, which holds no other."""
    parts = _split_url(url)
    first = next((part for part in parts.path.split("/") if part not in ("", "rocm")), "")
    if parts.hostname != _WHEEL_HOST:
        return None
    if re.fullmatch(r"[0-9a-f]{40}", first):
        return parse_version(f"commit:{first}")
    return parse_version(first) if _TAG.fullmatch(first) else None


def read_image_pin(reference: str) -> Pinned | None:
    """What an image of vLLM pins; None for any other image."""
    text = reference.strip()
    image = read_image(text)
    if not image.is_vllm:
        return None
    path, tag, digest = split_image(text)
    spec = "@".join(filter(None, (tag and shown(tag), digest)))
    return Pinned(shown(path), spec, image.version, "" if image.version else image.why_no_version)


def looks_like_vllm_image(text: str) -> bool:
    """Whether a text is the name of vLLM's image with a tag or a digest, so that it needs no key that says so."""
    if "vllm" not in text.casefold() or not _IMAGE.fullmatch(text):
        return False
    path, tag, digest = split_image(text)
    if (tag is None and digest is None) or "/" not in path:
        return False
    image = read_image(text)
    return image.starts_server or image.version is not None or (image.is_vllm and _VLLM_OWNER.search(path) is not None)


def read_version_text(text: str, name: str) -> Pinned | None:
    """What the value of a variable pins whose `name` says vLLM's version, tag, commit or image; None: nothing."""
    value = text.strip()
    if "://" in value:
        return _read_address_requirement(value)
    if (image := read_image_pin(value)) is not None and ("/" in value or ":" in value):
        return image
    if re.fullmatch(r"[0-9a-f]{40}", value):
        return Pinned(name, value, parse_version(f"commit:{value}"))
    if value.startswith(("vllm==", "vllm[")):
        return read_requirement(value)
    value = value.removeprefix("==")
    if _BARE_VERSION.fullmatch(value):
        version = parse_version(value)
        return None if version is None else Pinned(name, value, version)
    tagged = read_image(f"vllm/vllm-openai:{value}") if re.fullmatch(r"[\w.-]{1,128}", value) else None
    if tagged is not None and tagged.version is not None:
        return Pinned(name, value, tagged.version)
    if _MOVING.fullmatch(value):
        return Pinned(name, value, None, f"{value!r} names no version")
    return None


def _split_url(url: str) -> SplitResult:
    """An address that is none has no host and no path."""
    try:
        parts = urlsplit(url)
        parts.hostname  # noqa: B018 - refuses some that urlsplit takes
    except ValueError:
        return SplitResult("", "", "", "", "")
    return parts


def _read_address_requirement(address: str) -> Pinned | None:
    """The bare address of a wheel of vLLM, or of vLLM's repository; None for any other address."""
    parts = _split_url(address)
    path = unquote(parts.path)
    filename = path.rpartition("/")[2]
    if filename.endswith(".whl"):
        return (
            read_address(address, filename.partition("-")[0]) if is_distribution(filename.partition("-")[0]) else None
        )
    is_vllm = _OWNER.search(path.partition("@")[0]) or "egg=vllm" in parts.fragment or "/vllm-project/vllm/" in path
    return read_address(address) if is_vllm else None


def _address_version(url: str) -> Version | None:
    address = url.removeprefix("git+")
    parts = _split_url(address)
    path = unquote(parts.path)
    filename = path.rpartition("/")[2]
    if filename.endswith(".whl"):
        return _wheel_version(filename, path, parts.hostname or "")
    repository, _, revision = path.partition("@")
    if url.startswith("git+") or repository.endswith(".git"):
        return read_revision(f"{parts.hostname or ''}{repository}", revision)
    if match := re.search(
        r"/vllm-project/vllm/(?:releases/download|archive/refs/tags|archive|tree|tarball)/([^/]+)", path
    ):
        return read_revision("vllm-project/vllm", re.sub(r"\.(?:zip|tar\.gz|tgz)$", "", match[1]))
    return index_version(address)


def read_revision(repository: str, revision: str) -> Version | None:
    """The build of a tag or a commit of vLLM's own repository; None for a branch and for a fork."""
    if not _OWNER.search(repository.rstrip("/")):
        return None
    revision = revision.strip()
    if _COMMIT.fullmatch(revision):
        return parse_version(f"commit:{revision}")
    return parse_version(revision) if _TAG.fullmatch(revision) else None


def _wheel_version(filename: str, path: str, host: str) -> Version | None:
    commit = re.match(r"/(?:rocm/)?([0-9a-f]{40})/", path) if host in _WHEEL_HOSTS else None
    try:
        _, number, _, _ = parse_wheel_filename(filename)
    except InvalidWheelFilename:
        match = re.match(r"vllm[\w.]*?-(\d[\w.+!]*)-", filename)
        number_text = match[1] if match else ""
    else:
        number_text = str(number)
    if _PLACEHOLDER.match(number_text) or not number_text:
        return parse_version(f"commit:{commit[1]}") if commit else None
    return parse_version(number_text)
