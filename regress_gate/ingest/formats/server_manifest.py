"""The vLLM server in Kubernetes manifests: version (from its image), model, accelerator, and start arguments.

A scenario is a server configuration and a workload, so servers with other arguments get another short name. Not for
running anything. Arguments that may hold a secret are left out.
"""

import hashlib
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from regress_gate.ingest import fields
from regress_gate.text import excerpt, is_valid_name

_VLLM_IMAGE = re.compile(
    r"(?:^|/)vllm-openai(?:-[a-z0-9]+)?:(?:v(\d+\.\d+\.\d+(?:rc\d+|\.post\d+)?)|nightly-([0-9a-f]{40}))(?![0-9a-z.])"
)


def version_of_image(image: str | None) -> str | None:
    """`0.21.0` of `vllm/vllm-openai-rocm:v0.21.0`, `commit:<sha>` of a nightly; None for other images and tags."""
    match = None if image is None else _VLLM_IMAGE.search(image)
    return None if match is None else match[1] or f"commit:{match[2]}"


_ACCELERATOR = "cloud.google.com/gke-accelerator"
_NOT_ITS_WORK = ("--model", "--served-model-name", "--host", "--port", "--api-key", "--hf-token")


@dataclass(frozen=True, slots=True)
class Server:
    model: str | None
    arguments: Sequence[str]
    """Sorted, `--name=value` or `VLLM_NAME=value`; without model, address and keys."""
    metadata: Mapping[str, str]
    """Version and accelerator."""

    @property
    def name(self) -> str:
        """The same for the same arguments, whatever the version."""
        return hashlib.sha256("\n".join(self.arguments).encode("utf-8", "replace")).hexdigest()[:6]


def server_of(documents: Sequence[Mapping[str, Any]]) -> Server | None:
    """The server, if the manifests hold exactly one. Raises RefusalError for invalid manifests."""
    servers = [
        (version, pod, container)
        for document in documents
        for pod in [_pod(document)]
        for container in fields.items(pod, "containers")
        if isinstance(container, dict) and (version := version_of_image(str(container.get("image"))))
    ]
    if len(servers) != 1:
        return None
    version, pod, container = servers[0]
    metadata = {"vllm_version": version}
    accelerator = fields.obj(pod, "nodeSelector").get(_ACCELERATOR)
    if isinstance(accelerator, str) and is_valid_name(accelerator):
        metadata["accelerator"] = accelerator
    variables = {
        str(entry.get("name")): entry.get("value")
        for entry in fields.items(container, "env")
        if isinstance(entry, dict) and isinstance(entry.get("value"), str)
    }
    given = _arguments(container)
    model = next((value for name, value in given if name == "--model"), "")
    if variable := re.fullmatch(r"\$\((\w+)\)", model):
        model = variables.get(variable[1]) or ""
    arguments = [f"{name}={value}" if value else name for name, value in given if name not in _NOT_ITS_WORK]
    arguments += [
        f"{name}={value}" for name, value in variables.items() if name.startswith("VLLM_") and "KEY" not in name
    ]
    return Server(excerpt(model) or None, sorted(arguments), metadata)


def _pod(document: Mapping[str, Any]) -> Mapping[str, Any]:
    template = document.get("spec")
    for key in ("template", "spec"):
        template = template.get(key) if isinstance(template, dict) else None
    return template if isinstance(template, dict) else {}


def _arguments(container: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Flags with their values, whether written `--name=value` or as two words; `vllm serve MODEL` is `--model`."""
    arguments: list[tuple[str, str]] = []
    for word in _words(container):
        name, *value = re.split(r"[= ]", word, maxsplit=1)
        if name.startswith("--"):
            arguments.append((name.replace("_", "-"), value[0] if value else ""))
        elif word == "serve" and not arguments:
            arguments.append(("--model", ""))
        elif arguments:
            last, known = arguments[-1]
            arguments[-1] = (last, f"{known} {word}".strip())
    return arguments


def _words(container: Mapping[str, Any]) -> list[str]:
    """Command and arguments; a line for a shell (`sh -c LINE`) is split."""
    words = [str(word) for key in ("command", "args") for word in fields.items(container, key)]
    split_words: list[str] = []
    for before, word in zip(["", *words], words, strict=False):
        try:
            split_words += shlex.split(word) if before == "-c" else [word]
        except ValueError:  # unclosed quotes
            split_words.append(word)
    return split_words
