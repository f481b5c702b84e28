"""The containers of Kubernetes manifests: of every object that holds a pod, whatever its kind is called.

A pod is any mapping with `containers`: of a Deployment, a StatefulSet, a LeaderWorkerSet or a resource of somebody's
own. Values from ConfigMaps of the same file are known; those of Secrets are hidden wherever else they stand.
"""

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from regress_gate.accelerators.registry import accelerator_matches
from regress_gate.model.deployment import Platform
from regress_gate.vllm.deployed_server import Container
from regress_gate.vllm.shell_words import interpolate, is_open, open_value, shown
from regress_gate.vllm.yaml_nodes import YamlMap, child, is_map, items, text_of

_RESOURCES: tuple[tuple[str, Platform], ...] = (
    (r"nvidia\.com/", "cuda"),
    (r"amd\.com/", "rocm"),
    (r"habana\.ai/|gaudi\.intel\.com", "gaudi"),
    (r"huawei\.com/ascend", "ascend"),
    (r"google\.com/tpu", "tpu"),
    (r"gpu\.intel\.com/", "xpu"),
    (r"aws\.amazon\.com/neuron|rebellions\.ai|furiosa\.ai|cambricon\.com|metax-tech|birentech|iluvatar", "other"),
)
_PRODUCT_LABELS = (
    "nvidia.com/gpu.product",
    "cloud.google.com/gke-accelerator",
    "cloud.google.com/gke-tpu-accelerator",
    "amd.com/gpu.product-name",
    "gpu.nvidia.com/model",
    "gpu.nvidia.com/class",
    "karpenter.k8s.aws/instance-gpu-name",
    "k8s.amazonaws.com/accelerator",
    "accelerator",
)
"""Labels of nodes whose value is the name of an accelerator."""
_INSTANCE_LABELS = (
    "node.kubernetes.io/instance-type",
    "beta.kubernetes.io/instance-type",
    "karpenter.sh/instance-family",
    "karpenter.k8s.aws/instance-family",
)
_INSTANCE_TYPES: tuple[tuple[str, str], ...] = (
    (r"p4de?\b", "A100"),
    (r"p5\b", "H100"),
    (r"p5en?\b", "H200"),
    (r"p6-b200", "B200"),
    (r"p6-b300", "B300"),
    (r"g4dn\b", "T4"),
    (r"g5\b", "A10G"),
    (r"gr?6\b", "L4"),
    (r"g6e\b", "L40S"),
    (r"a2-", "A100"),
    (r"a3-ultragpu", "H200"),
    (r"a3-(?:high|mega|edge)gpu", "H100"),
    (r"a4-highgpu", "B200"),
    (r"g2-standard", "L4"),
    (r"standard_n[cd]\w*_(a100|h100|h200|mi300x|t4|v100)_v\d", ""),
)
"""Machines of AWS, Google and Azure to their accelerator, from the lists of their instance types; an empty name is in
the type itself."""
_REFERENCE = re.compile(r"\$(\$?)\(([A-Za-z_][A-Za-z0-9_.-]*)\)")
_GO_TEMPLATE = re.compile(r"\{\{[^{}]*\}\}")
_PARTS = {"leaderTemplate": "leader", "workerTemplate": "worker", "headGroupSpec": "head"}
_MAX_PODS = 5000
_MAX_EXPANSION = 20_000
"""Characters that references may add to a text."""


@dataclass
class _Objects:
    """What the objects of a file give to its containers."""

    maps: dict[str, YamlMap] = field(default_factory=dict)
    """The data of ConfigMaps by name."""
    scripts: dict[str, str] = field(default_factory=dict)
    secrets: set[str] = field(default_factory=set)


def is_manifest(document: Any) -> bool:
    return text_of(child(document, "kind")) is not None and text_of(child(document, "apiVersion")) is not None


def containers_in_manifests(documents: list[Any]) -> list[Container]:
    """The containers of all pods; those that prepare a pod (`initContainers`) are left out."""
    flat = list(_flattened(documents))
    objects = _objects(flat)
    found: list[Container] = []
    for document in flat:
        name = text_of(child(document, "metadata", "name")) or text_of(child(document, "metadata", "generateName"))
        kind = text_of(child(document, "kind")) or ""
        if kind in ("ConfigMap", "Secret", "CustomResourceDefinition"):
            continue
        pods = list(_pods(document))[:_MAX_PODS]
        for pod, part in pods:
            containers = [one for one, _ in items(pod.get("containers")) if is_map(one)]
            for one in containers:
                inner = text_of(one.get("name"))
                names = [name, part, inner if len(containers) > 1 else None]
                container = read_container(one, pod, objects.maps)
                container.name = "/".join(shown(text) for text in names if text) or inner or ""
                container.env_is_complete = not container.notes
                container.scripts, container.secrets = objects.scripts, objects.secrets
                found.append(container)
        if not pods and (served := _served_model(document, objects)) is not None:
            served.name = name or ""
            found.append(served)
    return found


def _flattened(documents: list[Any]) -> Iterator[YamlMap]:
    for document in documents:
        if is_map(document) and (text_of(document.get("kind")) or "").endswith("List") and "items" in document:
            yield from (one for one, _ in items(document["items"]) if is_map(one))
        elif is_map(document):
            yield document


def _objects(documents: list[YamlMap]) -> _Objects:
    objects = _Objects()
    for document in documents:
        kind, name = text_of(document.get("kind")), text_of(child(document, "metadata", "name"))
        if kind == "Secret":
            objects.secrets |= set(_secret_values(document))
        elif kind == "ConfigMap" and is_map(data := document.get("data")):
            objects.maps[name or ""] = data
            objects.scripts.update({key: value for key, value in data.items() if isinstance(value, str)})
    return objects


def _secret_values(secret: YamlMap) -> Iterator[str]:
    for key in ("data", "stringData"):
        values = secret.get(key)
        for value in values.values() if is_map(values) else ():
            if not isinstance(value, str):
                continue
            yield value
            if key == "data":
                try:
                    yield base64.b64decode(value, validate=True).decode()
                except (binascii.Error, ValueError):
                    continue


def _pods(value: Any, part: str | None = None) -> Iterator[tuple[YamlMap, str | None]]:
    """Each mapping with containers, and which part of its object it is, where the object has several."""
    waiting: list[tuple[Any, str | None]] = [(value, part)]
    while waiting:
        node, part = waiting.pop()
        if is_map(node):
            if any(is_map(one) for one, _ in items(node.get("containers"))):
                yield node, part
                continue
            role = text_of(node.get("name")) if "template" in node or "leaderWorkerTemplate" in node else None
            waiting += [(inner, _PARTS.get(key, role or part)) for key, inner in reversed(node.items())]
        else:
            waiting += [(inner, part) for inner, _ in reversed(items(node))]


def read_container(one: YamlMap, pod: YamlMap | None, config_maps: Mapping[str, YamlMap]) -> Container:
    """A container as pods have it; `pod` gives the nodes that it runs on."""
    container = Container(text_of(one.get("name")) or "", one.line)
    env, notes = read_env(one, config_maps)
    container.env, container.notes = env, notes
    image = text_of(one.get("image"))
    container.image = None if image is None else _put_in(image, {})
    if "command" in one and one["command"] is not None:
        container.entrypoint = _words(one["command"], env)
    container.arguments = _words(one.get("args"), env)
    container.platform = resource_platform(one.get("resources"))
    if pod is not None:
        container.accelerator = node_accelerator(pod)
    return container


def _words(value: Any, env: Mapping[str, str]) -> list[str]:
    if isinstance(value, str):
        return [_put_in(value, env)]
    return [_put_in(text, env) for text, _ in items(value) if isinstance(text, str)]


def _put_in(text: str, env: Mapping[str, str]) -> str:
    """`$(NAME)` as Kubernetes replaces it; what a tool replaces before it (`${NAME}`, `{{ … }}`) is open.

    So is a name that the file does not set: controllers set some, such as LWS_GROUP_SIZE.
    """
    if "\n" not in text and not re.search(r"\s", text.strip()):
        # In a script the shell replaces these, and knows more variables.
        text = interpolate(text, _not_set)
    text = _GO_TEMPLATE.sub(lambda match: open_value(match[0].strip("{} ")), text)
    room = len(text) + _MAX_EXPANSION

    def value_of(match: re.Match[str]) -> str:
        nonlocal room
        value = match[0][1:] if match[1] else env.get(match[2], open_value(match[2]))
        room -= len(value)
        return value if room >= 0 else open_value(match[2])

    return _REFERENCE.sub(value_of, text)


def _not_set(name: str) -> None:
    """No variable has a value."""


def read_env(one: YamlMap, config_maps: Mapping[str, YamlMap]) -> tuple[dict[str, str], list[str]]:
    """The variables of a container, and notes on those that the file does not say."""
    env: dict[str, str] = {}
    notes = []
    for source, _ in items(one.get("envFrom")):
        name = text_of(child(source, "configMapRef", "name"))
        if name is not None and name in config_maps:
            env.update({key: value for key, value in config_maps[name].items() if isinstance(value, str)})
        else:
            other = name or text_of(child(source, "secretRef", "name")) or "another object"
            notes.append(f"the variables of {shown(other)} are not in the file")
    entries = one.get("env")
    pairs = (
        [(key, YamlMap(value=value)) for key, value in entries.items()]
        if is_map(entries)
        else [(text_of(child(entry, "name")), entry) for entry, _ in items(entries)]
    )
    for name, entry in pairs:
        if not name:
            continue
        value = text_of(entry.get("value"))
        if value is not None:
            env[name] = _put_in(value, env)
        elif entry.get("valueFrom") is not None:
            key_ref = child(entry, "valueFrom", "configMapKeyRef")
            known = child(config_maps.get(text_of(child(key_ref, "name")) or ""), text_of(child(key_ref, "key")) or "")
            env[name] = known if isinstance(known, str) else open_value(name)
        else:
            env[name] = ""
    return env, notes


def resource_platform(resources: Any) -> Platform | None:
    """The platform of the devices that a container asks for."""
    for kind in ("limits", "requests"):
        wanted = child(resources, kind)
        for name, count in wanted.items() if is_map(wanted) else ():
            if str(count) == "0":
                continue
            for pattern, platform in _RESOURCES:
                if re.search(pattern, name.casefold()):
                    return platform
    return None


def node_accelerator(pod: YamlMap) -> str | None:
    """The accelerator of the nodes that a pod must run on, where they are of one kind: by their labels, else by the
    type of the machine."""
    labels = list(_node_labels(pod))
    for keys, read in ((_PRODUCT_LABELS, _part_name), (_INSTANCE_LABELS, _instance_accelerator)):
        parts = {read(value) for key, value in labels if key in keys}
        if parts:
            return None if any(is_open(part) for part in parts) else _common_name(parts)
    return None


def _common_name(parts: set[str]) -> str | None:
    """`NVIDIA H100` for `NVIDIA H100 80GB HBM3` and `NVIDIA H100 NVL`; None for parts of two kinds."""
    if len(parts) == 1:
        return parts.pop() or None
    rows = zip(*(part.split() for part in parts), strict=False)
    name = " ".join(words[0] for words in takewhile(lambda words: len(set(words)) == 1, rows))
    return name if all(accelerator_matches(name, part) for part in parts) else None


def _node_labels(pod: YamlMap) -> Iterator[tuple[str, str]]:
    """Each label, with each value, that the nodes of a pod may have. production-stack's values have a pod's terms
    beside its selector."""
    selector = pod.get("nodeSelector")
    for key, value in selector.items() if is_map(selector) else ():
        if isinstance(value, str):
            yield key, value
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    terms = items(child(pod, "affinity", "nodeAffinity", required, "nodeSelectorTerms"))
    for term, _ in (*terms, *items(pod.get("nodeSelectorTerms"))):
        for expression, _ in items(child(term, "matchExpressions")):
            label = text_of(child(expression, "key"))
            if label is not None and text_of(child(expression, "operator")) == "In":
                yield from ((label, text) for text, _ in items(child(expression, "values")) if isinstance(text, str))


def _instance_accelerator(kind: str) -> str:
    """`H100` for `p5.48xlarge`; empty if not known."""
    for pattern, part in _INSTANCE_TYPES:
        if match := re.match(pattern, kind.casefold()):
            return part or match[1].upper()
    return ""


def _part_name(label: str) -> str:
    """`NVIDIA H100 80GB HBM3` for `NVIDIA-H100-80GB-HBM3`; a virtual or shared part keeps its name."""
    text = re.sub(r"[-_]+", " ", re.sub(r"-SHARED$", "", _put_in(label, {}))).strip()
    return re.sub(r"^tpu v(\d)", r"TPU v\1", text)


def _served_model(document: YamlMap, objects: _Objects) -> Container | None:
    """A KServe InferenceService whose runtime is vLLM's: its arguments go to the server."""
    if text_of(document.get("kind")) != "InferenceService":
        return None
    model = child(document, "spec", "predictor", "model")
    if not is_map(model):
        return None
    runtime = (text_of(model.get("runtime")) or "") + (text_of(child(model, "modelFormat", "name")) or "")
    if "vllm" not in runtime.casefold():
        return None
    container = read_container(model, child(document, "spec", "predictor"), objects.maps)
    container.entrypoint = ["vllm", "serve"]
    container.secrets = objects.secrets
    container.is_complete = False
    container.why_no_version = "the image is that of a ServingRuntime in another file"
    container.notes.append("its ServingRuntime may add arguments that are not in the file")
    if not any(word.partition("=")[0] == "--model" for word in container.arguments):
        uri = text_of(model.get("storageUri")) or ""
        container.arguments += ["--model", uri.removeprefix("hf://")] if uri.startswith("hf://") else []
    return container
