"""Pins in YAML and JSON: Compose, Kubernetes, Helm values, Kustomize, workflows, conda environments, and whatever else
names an image of vLLM, a requirement or a variable for its version.

Templates are not rendered: a file that is no YAML for its templates is read line by line.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from regress_gate.errors import InputError
from regress_gate.pins.pin import (
    Pin,
    Pinned,
    is_distribution,
    looks_like_vllm_image,
    read_image_pin,
    read_requirement,
    read_specifier,
)
from regress_gate.pins.pin_file import PinFile, Variables, command_pins, installed, read_variable, scan_lines
from regress_gate.pins.text_files import env_variables
from regress_gate.vllm.compose_files import is_compose
from regress_gate.vllm.kubernetes_manifest import is_manifest
from regress_gate.vllm.shell_words import open_value, without_marks
from regress_gate.vllm.yaml_nodes import YamlList, YamlMap, YamlText, child, is_map, items, read_yaml_documents, text_of

_TEMPLATE = re.compile(r"\{\{[^{}]*\}\}")
_IMAGE_KEY = re.compile(r"(?:^|[._-])?(?:image|container|from|imagename|baseimage)$", re.IGNORECASE)
_REPOSITORY_KEYS = ("repository", "name", "newName", "image", "imageName", "repo")
_TAG_KEYS = ("tag", "newTag", "imageTag", "digest", "sha")
_PACKAGE_LISTS = re.compile(r"dependenc|requirement|packages|pip|install|conda|libraries", re.IGNORECASE)
_MAX_DEPTH = 3
"""Texts of YAML in texts of YAML."""
_UNICODE_LINE_ENDS = str.maketrans({"\x85": " ", "\u2028": " ", "\u2029": " "})

Path = tuple[str, ...]


def read_yaml(file: PinFile) -> Iterator[Pin]:
    """The pins of all documents of a file."""
    text = without_marks(file.text).translate(_UNICODE_LINE_ENDS)
    try:
        documents = read_yaml_documents(text, file.path)
    except InputError as error:
        if "{{" not in file.text and "{%" not in file.text:
            file.notes.append(f"{error.what}; only single lines of it are read")
        yield from scan_lines(file)
        return
    for document in documents:
        yield from _Reader(file, document).pins()


class _Reader:
    def __init__(self, file: PinFile, document: Any, depth: int = 0):
        self._file, self._document, self._depth = file, document, depth
        self._kind = _kind_of(file, document)
        self._variables = Variables()
        if self._kind == "compose" and (env := file.sibling(".env")) is not None:
            self._variables.values = env_variables(env, ".env")

    def pins(self) -> Iterator[Pin]:
        waiting: list[tuple[Any, Path, YamlMap | None]] = [(self._document, (), None)]
        while waiting:
            node, path, holder = waiting.pop()
            if is_map(node):
                yield from self._mapping(node, path)
                waiting += [(inner, (*path, key), node) for key, inner in reversed(node.items())]
            elif isinstance(node, YamlList):
                named = [text_of(child(inner, "name")) for inner in node]
                steps = [name or str(place) for place, name in enumerate(named)]
                waiting += [
                    (inner, (*path, step), None) for inner, step in reversed(list(zip(node, steps, strict=True)))
                ]
            elif isinstance(node, YamlText) and "vllm" in (node + ".".join(path)).casefold():
                yield from self._scalar(node, path, holder)

    def _pin(self, line: int, path: Path, pinned: Pinned) -> Pin:
        return self._file.pin(line, ".".join(path), pinned, kind=self._kind)

    def _put_in(self, text: str) -> str:
        filled = _TEMPLATE.sub(lambda match: open_value(match[0].strip("{} ")), text.replace("${{", "{{"))
        return self._variables.put_in(filled, escape="$" if self._kind == "compose" else "")

    # Mappings

    def _mapping(self, node: YamlMap, path: Path) -> Iterator[Pin]:
        yield from self._split_image(node, path)
        name, value = text_of(node.get("name")), node.get("value")
        if name is not None and isinstance(value, YamlText) and (pinned := read_variable(name, value)) is not None:
            yield self._pin(self._line_in(value, pinned), (*path, name), pinned)
        version = node.get("version")
        if name and is_distribution(name) and isinstance(version, YamlText) and _is_package(node):
            yield self._pin(version.line, (*path, name), read_specifier(name, version))
        for key, inner in node.items():
            spec = inner.get("version") if is_distribution(key) and is_map(inner) else None
            if isinstance(spec, YamlText) and spec.startswith(("=", "<", ">", "~")):  # Pipfile.lock
                yield self._pin(spec.line, (*path, key), read_specifier(key, spec))

    def _split_image(self, node: YamlMap, path: Path) -> Iterator[Pin]:
        """Repository and tag under keys of their own: Helm, Kustomize, production-stack."""
        tag_key = next((key for key in _TAG_KEYS if isinstance(node.get(key), YamlText)), None)
        repository = next((text for key in _REPOSITORY_KEYS if (text := text_of(node.get(key)))), None)
        repository = text_of(node.get("newName")) or repository
        if tag_key is None or repository is None or re.search(r":[^/]*$", repository):
            return
        registry = text_of(node.get("registry")) or text_of(node.get("hub"))
        name = self._put_in(f"{registry}/{repository}" if registry else repository)
        tag, digest = (
            text_of(node.get("newTag")) or text_of(node.get("tag")) or text_of(node.get("imageTag")),
            text_of(node.get("digest")),
        )
        reference = name + (f":{self._put_in(tag)}" if tag else "")
        reference += f"@{digest}" if digest and digest.startswith("sha256:") else ""
        pinned = read_image_pin(reference)
        if pinned is not None and pinned.spec:
            origin = self._variables.origin(pinned)
            written: YamlText = node[tag_key]
            yield self._at(written, origin, pinned, (*path, name))

    # Scalars

    def _scalar(self, node: YamlText, path: Path, holder: YamlMap | None) -> Iterator[Pin]:
        key = path[-1] if path else ""
        text = str(node).removeprefix("docker:")
        if "\n" in text and (inner := list(self._inner_document(node, path))):
            yield from inner
            return
        in_mapping = holder is not None
        if in_mapping and _IMAGE_KEY.search(key) and " " not in text.strip() and "\n" not in text.strip():
            filled = self._put_in(text)
            pinned = read_image_pin(filled)
            if pinned is not None and not self._is_built(pinned, holder) and self._is_image(pinned, holder):
                yield self._at(node, self._variables.origin(pinned), pinned, path)
                return
        if looks_like_vllm_image(text) and (pinned := read_image_pin(text)) is not None:
            yield self._pin(self._line_in(node, pinned), path, pinned)
        elif "\n" not in text and (found := self._short_text(text, path, in_mapping=in_mapping)) is not None:
            yield self._pin(self._line_in(node, found), path, found)
        elif "vllm" in text.casefold():
            yield from self._commands(node, text, path)

    def _inner_document(self, node: YamlText, path: Path) -> Iterator[Pin]:
        """YAML in a text: the values of an Argo application, the applications of a RayService."""
        text = str(node)
        try:
            documents = read_yaml_documents(text, self._file.path) if self._depth < _MAX_DEPTH else []
        except InputError:
            return
        file = replace(self._file, text=text, _lines=None)
        for document in documents:
            if not isinstance(document, YamlMap | YamlList):
                continue
            for pin in _Reader(file, document, self._depth + 1).pins():
                line = self._line_in(node, pin.pinned, pin.line)
                yield self._pin(line, (*path, pin.place), pin.pinned)

    def _short_text(self, text: str, path: Path, *, in_mapping: bool) -> Pinned | None:
        """A requirement, a variable's value, or `NAME=value`."""
        is_list_of_packages = not in_mapping and any(_PACKAGE_LISTS.search(step) for step in path)
        pinned = read_requirement(text)
        if pinned is not None and (
            is_list_of_packages or (pinned.version is not None and "==" in text) or ".whl" in text
        ):
            return pinned
        if in_mapping:
            name = path[-1] if "vllm" in path[-1].casefold() else ".".join(path[-3:])
            return read_variable(name, text)
        name, equals, value = text.partition("=")
        return read_variable(name, value) if equals and re.fullmatch(r"[A-Za-z_]\w*", name) else None

    def _commands(self, node: YamlText, text: str, path: Path) -> Iterator[Pin]:
        for found in command_pins(_TEMPLATE.sub("x", text)):
            if found.pinned.version is not None or found.pinned.spec:
                yield self._pin(self._line_in(node, found.pinned, found.line), (*path, found.pinned.name), found.pinned)
        if (
            " " in text
            and "\n" not in text
            and "install" not in text
            and any(_PACKAGE_LISTS.search(step) for step in path)
        ):
            for pinned in installed(text.split()):
                yield self._pin(self._line_in(node, pinned), (*path, pinned.name), pinned)
        if "\n" in text and re.search(r"==|VLLM_\w+=", text):
            for number, line in enumerate(text.split("\n"), 1):
                name, equals, value = line.strip().partition("=")
                if (
                    equals
                    and (pinned2 := read_variable(name.removeprefix("export ").strip(), value.strip("\"'"))) is not None
                ):
                    yield self._pin(self._line_in(node, pinned2, number), (*path, name), pinned2)

    def _is_built(self, pinned: Pinned, holder: YamlMap | None) -> bool:
        """Whether the image is made here from a Dockerfile, whose pin counts."""
        return pinned.version is None and holder is not None and holder.get("build") is not None

    def _is_image(self, pinned: Pinned, holder: YamlMap | None) -> bool:
        """Not a name beside a tag, which `_split_image` reads, and not a word that only sounds like an image."""
        has_tag = holder is not None and any(isinstance(holder.get(key), YamlText) for key in _TAG_KEYS)
        return bool(pinned.spec) or ("/" in pinned.name and not has_tag)

    # Lines

    def _at(self, node: YamlText, origin: tuple[int, str | None] | None, pinned: Pinned, path: Path) -> Pin:
        if origin is None:
            return self._pin(self._line_in(node, pinned), path, pinned)
        line, file = origin
        folder = self._file.path.rpartition("/")[0]
        other = None if file is None else f"{folder}/{file}" if folder else file
        kind = "env" if other else self._kind
        # The same pin as the variable has by its own name, if that says what it is.
        return self._file.pin(line, f"{'.'.join(path)}", pinned, kind=kind, path=other)

    def _line_in(self, node: YamlText, pinned: Pinned, number: int = 1) -> int:
        """The line of a text that may be long: `number` is the line within it where the search begins."""
        last = max(node.end_line, node.line)
        if last == node.line:
            return node.line
        begin = min(node.line + number, last) if number > 1 else node.line
        return self._file.line_of(pinned, begin, last)


def _is_package(node: YamlMap) -> bool:
    """Whether a mapping with name and version is an entry of a lock file of conda, and not a chart of that name."""
    return any(key in node for key in ("manager", "url", "hash", "build", "category", "kind", "conda", "pypi"))


def _kind_of(file: PinFile, document: Any) -> str:
    if file.kind != "yaml":
        return file.kind
    if is_compose(document):
        return "compose"
    kind = text_of(child(document, "kind"))
    if kind == "Kustomization" or file.path.rpartition("/")[2].casefold().startswith("kustomization."):
        return "kustomize"
    if is_manifest(document) or (kind == "List" and items(child(document, "items"))):
        return "kubernetes"
    if is_map(document) and "jobs" in document and ("on" in document or "true" in document):
        return "workflow"
    if is_map(document) and "dependencies" in document and ("channels" in document or "name" in document):
        return "conda"
    if is_map(document) and re.search(r"(?:^|/|[-_.])values[^/]*$", file.path, re.IGNORECASE):
        return "helm"
    return "yaml"
