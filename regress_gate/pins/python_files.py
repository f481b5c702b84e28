"""Pins in the files of Python's package tools: requirements, pyproject.toml, Pipfile, setup.cfg, and their lock files.

TOML is read by the standard library's parser, which knows no lines: a line is found by marking every place that could
be the value and seeing which mark arrives where the value is.
"""

import re
import tomllib
from collections.abc import Iterator
from functools import lru_cache
from itertools import count, islice, pairwise
from typing import Any

from regress_gate.pins.pin import (
    UNPINNED,
    Pin,
    Pinned,
    index_version,
    is_distribution,
    read_address,
    read_requirement,
    read_revision,
    read_specifier,
)
from regress_gate.pins.pin_file import MAX_PINS, PinFile, scan_lines
from regress_gate.vllm.image_names import parse_version

_MAX_TOML = 2 * 1024 * 1024
_COMMENT = re.compile(r"(?:^|\s+)#.*$")
_INDEX = re.compile(r"^(?:-i|-f|--index-url|--extra-index-url|--find-links)[ =]\s*(\S+)")
_TABLES_OF_PACKAGES = frozenset({"dependencies", "packages", "tools"})
_LISTS = re.compile(r"dependenc|requires|constraints?$")
_BLOCK = re.compile(r"^\[\[packages?\]\]\s*$", re.MULTILINE)

Path = tuple[str | int, ...]


# Requirements


def read_requirements(file: PinFile) -> Iterator[Pin]:
    """Requirements and constraints as pip, pip-tools, uv and Rye write them."""
    index: tuple[str, int] | None = None
    loose: list[Pin] = []
    for number, line in _logical_lines(file.lines):
        text = line.strip()
        if match := _INDEX.match(text):
            index = (match[1], number) if index_version(match[1]) is not None else index
        pinned = read_requirement(text)
        if pinned is None:
            continue
        place = f"{pinned.name}{_marker(text)}"
        pin = file.pin(file.line_of(pinned, number, number + 20), place, pinned)
        if pinned.version is None and pinned.why == UNPINNED:
            loose.append(pin)
        else:
            yield pin
    for pin in loose:
        # The index holds one build, which decides.
        yield pin if index is None else file.pin(index[1], pin.place, read_address(index[0], pin.pinned.name))


def is_requirements(text: str) -> bool:
    """Whether every line of a text file may stand in a requirements file, and one is vLLM's."""
    has_vllm = False
    for _, line in _logical_lines(text.split("\n")):
        if not re.match(
            r"[A-Za-z0-9][\w.-]*\s*(?:\[[^\]]*\])?\s*(?:[=<>~!@;]|$)|--?[a-z][\w-]*[= ]|\w+\+?\w*://", line.strip()
        ):
            return False
        has_vllm = has_vllm or read_requirement(line) is not None
    return has_vllm


def _logical_lines(lines: list[str]) -> Iterator[tuple[int, str]]:
    """Lines with content, those that a backslash continues joined, with the number of the first."""
    parts: list[str] = []
    first = 0
    for number, line in enumerate(lines, 1):
        text = (
            "" if line.lstrip().startswith("#") else _COMMENT.sub("", line) if " #" in line or "\t#" in line else line
        )
        first = first if parts else number
        parts.append(text.rstrip().removesuffix("\\"))
        if line.rstrip().endswith("\\") and not line.lstrip().startswith("#"):
            continue
        if any(part.strip() for part in parts):
            yield first, " ".join(parts)
        parts = []


def _marker(text: str) -> str:
    _, semicolon, marker = text.partition(";")
    return f"; {' '.join(marker.partition(' --')[0].split())}" if semicolon else ""


def read_setup_cfg(file: PinFile) -> Iterator[Pin]:
    """`install_requires` and the extras, as indented lines or behind the sign of equality."""
    section = key = ""
    for number, line in enumerate(file.lines, 1):
        text = _COMMENT.sub("", line)
        if header := re.match(r"\[([^\]]+)\]", text):
            section, key = header[1], ""
        elif text[:1].strip() and (match := re.match(r"([\w.-]+)\s*[=:]\s*(.*)", text)):
            key, text = match[1], match[2]
        is_list = section.startswith("options") and (key.endswith("requires") or section.endswith("extras_require"))
        if is_list and (pinned := read_requirement(text.strip())) is not None:
            yield file.pin(number, f"{section}.{key}{_marker(text)}", pinned)


# TOML


def read_toml(file: PinFile) -> Iterator[Pin]:
    """pyproject.toml of every tool, Pipfile, pixi.toml, mise.toml."""
    try:
        if len(file.text) > _MAX_TOML:
            raise ValueError
        document = tomllib.loads(file.text)
    except (ValueError, RecursionError):
        file.notes.append("not valid TOML; only single lines of it are read")
        yield from scan_lines(file)
        return
    indexes = _named_indexes(document)
    found = list(islice(_walk(file, document, (), indexes), MAX_PINS + 1))
    # A source of uv says where vLLM comes from, whatever range the dependency allows.
    sources = [pin for pin in found if ".sources." in f".{pin.place}." and pin.pinned.why != UNPINNED]
    decided = {pin.pinned.name for pin in sources if pin.version is not None}
    for pin in found:
        if pin in sources or not (pin.pinned.name in decided and pin.version is None):
            yield pin


def _walk(file: PinFile, value: Any, path: Path, indexes: dict[str, str]) -> Iterator[Pin]:
    if isinstance(value, dict):
        for key, inner in value.items():
            name = key.removeprefix("pipx:").removeprefix("pip:")
            if is_distribution(name) and path and _holds_packages(str(path[-1])):
                yield from _package(file, name, inner, (*path, key), indexes)
            else:
                yield from _walk(file, inner, (*path, key), indexes)
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            if isinstance(inner, dict | list):
                yield from _walk(file, inner, (*path, place), indexes)
            elif (
                isinstance(inner, str)
                and any(_LISTS.search(str(part)) for part in path)
                and (pinned := read_requirement(inner)) is not None
            ):
                line = toml_line(file.text, (*path, place), inner)
                yield file.pin(line, f"{_dotted(path)}{_marker(inner)}", pinned)


def _holds_packages(key: str) -> bool:
    return key in _TABLES_OF_PACKAGES or key.endswith(("-dependencies", "-packages")) or key == "sources"


def _package(file: PinFile, name: str, value: Any, path: Path, indexes: dict[str, str]) -> Iterator[Pin]:
    """`vllm = "0.19.1"`, or a table with a version, a source, or several of them by marker."""
    if isinstance(value, list):
        for place, one in enumerate(value):
            yield from _package(file, name, one, (*path, place), indexes)
        return
    if isinstance(value, str):
        pinned, shown, at = read_specifier(name, value), value, path
    elif isinstance(value, dict):
        pinned, shown, key = _table_pin(name, value, indexes)
        at = (*path, key)
    else:
        return
    marker = f"; {value['marker']}" if isinstance(value, dict) and isinstance(value.get("marker"), str) else ""
    yield file.pin(toml_line(file.text, at, shown, fallback=name), _dotted(path) + marker, pinned)


def _table_pin(name: str, table: dict[str, Any], indexes: dict[str, str]) -> tuple[Pinned, str, str]:
    """What the table pins, the text that says so, and its key."""
    text = {key: value for key, value in table.items() if isinstance(value, str)}
    if "git" in text:
        key = next((key for key in ("rev", "tag", "branch", "ref") if key in text), "git")
        revision = text[key] if key != "git" else ""
        version = read_revision(text["git"].partition("?")[0], revision) if key != "branch" else None
        spec = f" @ git+{text['git']}" + (f"@{revision}" if revision else "")
        return Pinned(name, spec, version, "" if version else "the address names no version"), text[key], key
    for key in ("url", "file"):
        if key in text:
            return read_address(text[key], name), text[key], key
    if "version" in text:
        return read_specifier(name, text["version"]), text["version"], "version"
    if text.get("index") in indexes:
        return read_address(indexes[text["index"]], name), text["index"], "index"
    if "path" in text:
        return Pinned(name, f" @ {text['path']}", None, "it is built from a directory"), text["path"], "path"
    return Pinned(name, "", None, UNPINNED), text.get("index", ""), "index"


def _named_indexes(document: dict[str, Any]) -> dict[str, str]:
    """uv's and Poetry's indexes of one build."""
    found = {}
    tools = document.get("tool")
    for tool, key in (("uv", "index"), ("poetry", "source")):
        table = tools.get(tool) if isinstance(tools, dict) else None
        for one in table.get(key, []) if isinstance(table, dict) else []:
            url = one.get("url") if isinstance(one, dict) else None
            if isinstance(url, str) and index_version(url) is not None:
                found[str(one.get("name"))] = url
    return found


def _dotted(path: Path) -> str:
    return ".".join(str(part) for part in path if not isinstance(part, int))


def toml_line(text: str, path: Path, value: str, *, fallback: str = "vllm") -> int:
    """The line on which the value of a path begins. `fallback` is what its line holds if escapes are in the value."""
    places = [at for quote in "\"'" if (at := text.find(f"{quote}{value}{quote}")) >= 0]
    places += [at for at in places[:1] if text.find(text[at : at + len(value) + 2], at + 1) >= 0]
    if len(places) > 1:
        places = [_marked_place(text, value, path)] if value else places
    if places:
        return text.count("\n", 0, places[0]) + 1
    at = text.find(fallback)
    return text.count("\n", 0, max(at, 0)) + 1


def _marked_place(text: str, value: str, path: Path) -> int:
    """Where that one of several equal strings stands which is at the path."""
    places, marked = _marked_document(text, value)
    try:
        for key in path:
            marked = marked[key]
        return places[int(str(marked).removeprefix("\ue000"))]
    except (ValueError, KeyError, IndexError, TypeError):
        return places[0]


@lru_cache(maxsize=2)
def _marked_document(text: str, value: str) -> tuple[list[int], Any]:
    """The places of a string, and the document in which each is a mark of its own, its number in the list."""
    strings = re.compile("|".join(re.escape(f"{quote}{value}{quote}") for quote in "\"'"))
    places = [match.start() for match in strings.finditer(text)]
    numbers = count()
    try:
        return places, tomllib.loads(strings.sub(lambda _: f'"\ue000{next(numbers)}"', text))
    except (ValueError, RecursionError):
        return places, None


# Lock files


def read_lock(file: PinFile) -> Iterator[Pin]:
    """uv.lock, poetry.lock, pdm.lock and pylock.toml: tables `[[package]]`, written by machines, one value a line."""
    starts = [match.start() for match in _BLOCK.finditer(file.text)]
    for begin, end in pairwise([*starts, len(file.text)]):
        block = file.text[begin:end]
        name = _value(block, "name")
        if name is None or not is_distribution(name[0]):
            continue
        version = _value(block, "version")
        commit = re.search(r'(?:\.git[^"\s]*#|"?resolved_reference"?\s*=\s*"|commit-id"?\s*=\s*")([0-9a-f]{40})', block)
        address = re.search(r'^(?:source|archive|vcs)\s*=.*?\burl\s*=\s*"([^"]+)"', block, re.MULTILINE)
        if version is None:
            at, pinned = name[1], read_address(address[1], name[0]) if address else Pinned(name[0], "", None, UNPINNED)
        else:
            at, pinned = version[1], read_specifier(name[0], f"=={version[0]}")
        if commit is not None and (pinned.version is None or pinned.version.commit is None):
            pinned = Pinned(name[0], f"{pinned.spec} {commit[1][:12]}", parse_version(f"commit:{commit[1]}"))
        line = file.text.count("\n", 0, begin + at) + 1
        yield file.pin(line, name[0], pinned)


def _value(block: str, key: str) -> tuple[str, int] | None:
    """A text of the table itself, not of those in it, and where it stands."""
    own = re.split(r"^\[(?!\[)", block, maxsplit=1, flags=re.MULTILINE)[0]
    match = re.search(rf"^{key}\s*=\s*\"([^\"]*)\"", own, re.MULTILINE)
    return None if match is None else (match[1], match.start())
