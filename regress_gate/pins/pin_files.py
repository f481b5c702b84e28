"""Which files may pin vLLM, by their names, and the pins of a tree.

A new kind of file is a reader (in a module of its family) and one line in `KINDS`. Documentation is left out: an
example in it is no deployment.
"""

import os
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import islice

from regress_gate.pins.git_tree import GITLINK, REGULAR, Tree
from regress_gate.pins.pin import Pin, Pinned
from regress_gate.pins.pin_file import MAX_PINS, PinFile, renovate_pins, scan_lines
from regress_gate.pins.python_files import is_requirements, read_lock, read_requirements, read_setup_cfg, read_toml
from regress_gate.pins.text_files import (
    dockerfile_names,
    read_dockerfile,
    read_env,
    read_python,
    read_shell,
    read_singularity,
)
from regress_gate.pins.yaml_files import read_yaml
from regress_gate.vllm.image_names import parse_version

_DEPLOYS = re.compile(r"\"(?:apiVersion|services|containerDefinitions)\"\s*:")
"""What JSON holds that deploys something: manifests, Compose, tasks of ECS. Results name images too."""
_LOCKS = ("uv.lock", "poetry.lock", "pdm.lock", "pylock.toml", "Pipfile.lock", "pixi.lock")
_COMPOSE = re.compile(r"(?:.*[-_.])?(?:docker-)?compose(?:[-_.].*)?\.ya?ml", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Kind:
    title: str
    """The `kind` of its pins."""
    names: re.Pattern[str]
    """The whole path of such a file, in lower case."""
    read: Callable[[PinFile], Iterable[Pin]]
    is_lock: bool = False
    """Whether it says which version of a range is installed."""
    is_project: bool = False
    """Whether a lock file beside it decides over a range in it."""


def _kind(title: str, names: str, read: Callable[[PinFile], Iterable[Pin]], **flags: bool) -> Kind:
    return Kind(title, re.compile(rf"(?:.*/)?(?:{names})", re.DOTALL), read, **flags)


KINDS: tuple[Kind, ...] = (
    _kind("uv.lock", r"uv\.lock", read_lock, is_lock=True),
    _kind("poetry.lock", r"poetry\.lock", read_lock, is_lock=True),
    _kind("pdm.lock", r"pdm\.lock", read_lock, is_lock=True),
    _kind("pylock", r"pylock(?:\.[\w-]+)?\.toml", read_lock, is_lock=True),
    _kind("Pipfile.lock", r"pipfile\.lock", read_yaml, is_lock=True),
    _kind("conda-lock", r"(?:.*[-_.])?conda-lock\.ya?ml|pixi\.lock", read_yaml, is_lock=True),
    _kind("pyproject", r"pyproject\.toml|pixi\.toml|\.?mise(?:\.[\w-]+)?\.toml", read_toml, is_project=True),
    _kind("Pipfile", r"pipfile", read_toml, is_project=True),
    _kind("setup.cfg", r"setup\.cfg", read_setup_cfg, is_project=True),
    _kind(
        "requirements",
        r"[^/]*(?:requirements?|constraints?)[^/]*\.(?:txt|in|pip|lock)|requirements?/[^/]+\.(?:txt|in|pip)",
        read_requirements,
        is_project=True,
    ),
    _kind("env", r"\.env(?:\.[^/]*)?|[^/]*\.env", read_env),
    _kind("workflow", r"\.github/(?:workflows|actions)/.*\.ya?ml|\.gitlab-ci\.ya?ml|\.gitlab/.*\.ya?ml", read_yaml),
    _kind("yaml", r"[^/]*\.ya?ml", read_yaml),
    _kind("json", r"[^/]*\.json", read_yaml),
    _kind("python", r"[^/]*\.py", read_python),
    _kind("terraform", r"[^/]*\.(?:tf|tfvars|hcl|nomad)", scan_lines),
    _kind("toml", r"[^/]*\.toml", scan_lines),
    _kind("nix", r"[^/]*\.nix", scan_lines),
    _kind("apptainer", r"[^/]*\.def|singularity(?:\.[^/]*)?", read_singularity),
    _kind(
        "script",
        r"[^/]*\.(?:sh|bash|zsh|mk|service|container|slurm|sbatch|ps1|bat)|(?:gnu)?makefile|justfile|\.tool-versions",
        read_shell,
    ),
    _kind("template", r"[^/]*\.(?:j2|jinja2?|tpl|tmpl|gotmpl|template|jsonnet|libsonnet|cue)", scan_lines),
)
_TEXT = _kind("requirements", r"[^/]*\.(?:txt|in|pip)", read_requirements, is_project=True)
"""A text file of any name, if its content is that of requirements."""
_DOCKERFILE = Kind("dockerfile", re.compile(""), read_dockerfile)


def kind_of(path: str) -> Kind | None:
    """The kind of a file by its name; None: it is not looked into."""
    if dockerfile_names(path):
        return _DOCKERFILE
    name = path.casefold()
    return next((kind for kind in (*KINDS, _TEXT) if kind.names.fullmatch(name)), None)


@dataclass
class TreePins:
    """The pins of some files of a tree."""

    pins: list[Pin] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """Files that name vLLM and could not be read whole, with the reason."""


def find_pins(tree: Tree, paths: Iterable[str] | None = None) -> TreePins:
    """The pins of these files, by default of all, one for each line, in order."""
    found = TreePins()
    by_place: dict[tuple[str, int], Pin] = {}
    for path in sorted(tree.entries) if paths is None else paths:
        for pin in _pins_of(tree, path, found.notes):
            known = by_place.get((pin.file, pin.line))
            if known is None or (known.version is None and pin.version is not None):
                by_place[pin.file, pin.line] = pin
    found.pins = [by_place[place] for place in sorted(by_place)]
    return found


def _pins_of(tree: Tree, path: str, notes: list[str]) -> Iterator[Pin]:
    entry = tree.entries.get(path)
    if entry is not None and entry.mode == GITLINK:
        yield from _submodule(tree, path, entry.oid)
        return
    kind = kind_of(path)
    if kind is None or entry is None or entry.mode not in REGULAR:
        return
    content = tree.read(path)
    if content is None:
        return
    folder = posixpath.dirname(path)

    def sibling(name: str) -> str | None:
        other = tree.read(posixpath.normpath(posixpath.join(folder, name)))
        return None if other is None else decode(other)

    # A Compose file may take the whole name of the image from `.env`.
    if (
        b"vllm" not in content.lower()
        and b"v\0l\0l\0m" not in content.lower()
        and not _COMPOSE.fullmatch(posixpath.basename(path))
    ):
        return
    text = decode(content)
    if text is None:
        return
    if kind.title == "json" and not (_DEPLOYS.search(text) or "devcontainer" in path):
        return
    if kind is _TEXT and not is_requirements(text):
        return
    file = PinFile(path, text, kind.title, sibling)
    pins = list(islice(kind.read(file), MAX_PINS + 1))
    if len(pins) > MAX_PINS:
        file.notes.append(f"has more than {MAX_PINS} pins, of which the first are read")
    yield from pins[:MAX_PINS]
    yield from renovate_pins(file)
    notes += [f"{path}: {note}" for note in file.notes]


def _submodule(tree: Tree, path: str, commit: str) -> Iterator[Pin]:
    """vLLM itself as a submodule: its commit."""
    modules = tree.read(".gitmodules")
    text = "" if modules is None else decode(modules) or ""
    for section in re.finditer(r"^\[submodule [^\n]*\]\n((?:[ \t]+[^\n]*\n?)*)", text, re.MULTILINE):
        if re.search(rf"^\s*path\s*=\s*{re.escape(path)}\s*$", section[1], re.MULTILINE) and re.search(
            r"^\s*url\s*=\s*\S*\bvllm-project/vllm(?:\.git)?/?\s*$", section[1], re.MULTILINE
        ):
            yield Pin(path, 1, "submodule", path, Pinned(path, commit, parse_version(f"commit:{commit}")))


def decode(content: bytes) -> str | None:
    """Text whose lines end with a newline alone, whatever its encoding; None for a binary file."""
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):  # what PowerShell's `>` writes
        text = content.decode("utf-16", "replace")
    elif b"\0" in content[:8000]:
        return None
    else:
        text = content.decode("utf-8-sig", "replace")
    return text.replace("\r\n", "\n").replace("\r", " ").replace("\0", " ")


def changed_pin_files(changed: Iterable[str], *trees: Tree) -> list[str]:
    """The changed files that may pin vLLM, and the Compose files that take a value from a changed `.env`."""
    paths = set(changed)
    for path in [one for one in paths if posixpath.basename(one) == ".env"]:
        folder = posixpath.dirname(path)
        for tree in trees:
            paths |= {
                one
                for one in tree.entries
                if posixpath.dirname(one) == folder and _COMPOSE.fullmatch(posixpath.basename(one))
            }
    return sorted(path for path in paths if kind_of(path) is not None or _is_submodule(path, trees))


def _is_submodule(path: str, trees: Iterable[Tree]) -> bool:
    return any((entry := tree.entries.get(path)) is not None and entry.mode == GITLINK for tree in trees)


def lock_beside(tree: Tree, pin: Pin) -> list[Pin]:
    """The pins of the lock file that decides over a project file: in its folder, or uv's of a workspace that names it.

    Requirements are decided by the file that pip-tools or uv compiles from them alone.
    """
    kind = kind_of(pin.file)
    if kind is None or not kind.is_project:
        return []
    folder = posixpath.dirname(pin.file)
    if kind.title == "requirements":
        compiled = pin.file.removesuffix(".in") + ".txt"
        return _locked(tree, [compiled], pin) if pin.file.endswith(".in") else []
    if found := _locked(tree, [posixpath.join(folder, name) for name in _LOCKS], pin):
        return found
    above = folder
    while above:
        above = posixpath.dirname(above)
        lock = posixpath.join(above, "uv.lock")
        member = posixpath.relpath(folder, above or ".")
        content = tree.read(lock)
        if content is not None and re.search(
            rb'(?:editable|virtual|directory) = "' + re.escape(os.fsencode(member)) + rb'"', content
        ):
            return _locked(tree, [lock], pin)
    return []


def _locked(tree: Tree, paths: Iterable[str], pin: Pin) -> list[Pin]:
    pins = find_pins(tree, [path for path in paths if path in tree.entries]).pins
    return [one for one in pins if one.version is not None and one.pinned.name == pin.pinned.name]


def select_paths(paths: Iterable[str], wanted: Iterable[str]) -> list[str]:
    """The paths that are one of `wanted`, lie in such a folder, or fit such a pattern; all if nothing is wanted."""
    chosen = [os.fspath(one).rstrip("/") for one in wanted]
    if not chosen:
        return list(paths)
    return [
        path
        for path in paths
        if any(path == one or path.startswith(f"{one}/") or one == "." or fnmatchcase(path, one) for one in chosen)
    ]
