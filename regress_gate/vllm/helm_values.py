"""Servers in the values of Helm charts: production-stack's, llm-d modelservice's, and those of charts with an image.

The charts' own templates are not run. What production-stack and modelservice make of their values is known and is done
here; of any other chart only the arguments that stand in the values are known, and the launch line is not complete.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from regress_gate.model.deployment import Platform
from regress_gate.vllm.deployed_server import Container, find_starts
from regress_gate.vllm.image_names import read_image
from regress_gate.vllm.kubernetes_manifest import node_accelerator, read_container, read_env, resource_platform
from regress_gate.vllm.shell_words import open_value
from regress_gate.vllm.yaml_nodes import YamlList, YamlMap, child, is_map, items, text_of

_ENGINE_KEYS: Mapping[str, str] = {
    "maxModelLen": "--max-model-len",
    "dtype": "--dtype",
    "tensorParallelSize": "--tensor-parallel-size",
    "pipelineParallelSize": "--pipeline-parallel-size",
    "maxNumSeqs": "--max-num-seqs",
    "maxNumBatchedTokens": "--max-num-batched-tokens",
    "gpuMemoryUtilization": "--gpu-memory-utilization",
    "maxLoras": "--max-loras",
    "kvTransferConfig": "--kv-transfer-config",
}
"""Keys of production-stack's vllmConfig that are arguments with a value."""
_ENGINE_SWITCHES: Mapping[str, str] = {
    "enableChunkedPrefill": "enable-chunked-prefill",
    "enablePrefixCaching": "enable-prefix-caching",
}
_OTHER_KEYS = frozenset({"extraArgs", "v0", "v1", "prometheusMultiprocDir"})
_ACCELERATORS: Mapping[str, Platform] = {
    "nvidia": "cuda",
    "amd": "rocm",
    "intel": "xpu",
    "intel-i915": "xpu",
    "intel-xe": "xpu",
    "habana": "gaudi",
    "intel-gaudi": "gaudi",
    "gaudi": "gaudi",
    "google": "tpu",
    "tpu": "tpu",
    "cpu": "cpu",
}
"""`accelerator.type` of llm-d's modelservice."""
_ARGUMENT_KEYS = ("args", "extraArgs", "vllmArgs", "serverArgs", "engineArgs", "additionalArgs")
_MAX_IMAGES = 2000


def is_values(document: Any) -> bool:
    """Whether it may be the values of a chart: a mapping that is not an object of Kubernetes."""
    return is_map(document) and not (text_of(document.get("kind")) and text_of(document.get("apiVersion")))


def containers_in_values(document: Any) -> list[Container]:
    if items(child(document, "servingEngineSpec", "modelSpec")):
        return list(_production_stack(document))
    if is_map(child(document, "modelArtifacts")) and (
        is_map(document.get("decode")) or is_map(document.get("prefill"))
    ):
        return list(_modelservice(document))
    return list(_any_chart(document))


# production-stack


def _production_stack(document: YamlMap) -> Iterator[Container]:
    engine = document["servingEngineSpec"]
    for model, line in items(engine["modelSpec"]):
        if not is_map(model):
            continue
        container = Container(text_of(model.get("name")) or "model", line, entrypoint=["vllm", "serve"])
        container.image = _image(model)
        container.env, container.notes = read_env(model, {})
        container.secrets = set(_secrets_of(model)) | set(_secrets_of(engine))
        container.arguments = list(_engine_arguments(model, container))
        container.platform = _requested_platform(model)
        container.accelerator = node_accelerator(model) or node_accelerator(engine)
        if text_of(model.get("hf_token")) or model.get("hf_token") is not None:
            container.env.setdefault("HF_TOKEN", open_value("HF_TOKEN"))
        if engine.get("vllmApiKey") is not None:
            container.env.setdefault("VLLM_API_KEY", open_value("VLLM_API_KEY"))
        if engine.get("configs") is not None:
            container.notes.append("the variables in servingEngineSpec.configs are not read")
        yield container


def _engine_arguments(model: YamlMap, container: Container) -> Iterator[str]:
    """The words that the chart's template writes after `vllm serve`."""
    yield text_of(model.get("modelURL")) or open_value("modelURL")
    if _is_true(model.get("enableLoRA")):
        yield "--enable-lora"
    if _is_true(model.get("enableTool")):
        yield "--enable-auto-tool-choice"
    if parser := text_of(model.get("toolCallParser")):
        yield from ("--tool-call-parser", parser)
    config = model.get("vllmConfig")
    config = config if is_map(config) else YamlMap()
    for key, flag in _ENGINE_SWITCHES.items():
        if key in config:
            yield f"--{flag}" if _is_true(config[key]) else f"--no-{flag}"
    if "enablePrefixCaching" not in config:
        # Some versions of the chart switch it off then, others leave vLLM's default.
        yield f"--enable-prefix-caching={open_value('vllmConfig.enablePrefixCaching')}"
    for key, value in config.items():
        if key in _ENGINE_KEYS and (text := _argument_text(value)) is not None:
            yield from (_ENGINE_KEYS[key], text)
        elif key not in _ENGINE_SWITCHES and key not in _OTHER_KEYS and key not in _ENGINE_KEYS:
            container.is_complete = False
            container.notes.append(f"vllmConfig.{key} is not known here: the argument that it makes is left out")
    yield from _words(config.get("extraArgs"))
    lmcache = model.get("lmcacheConfig")
    if is_map(lmcache) and _is_true(lmcache.get("enabled")):
        connector = "LMCacheConnector" if text_of(config.get("v0")) == "1" else "LMCacheConnectorV1"
        role = text_of(lmcache.get("kvRole")) or "kv_both"
        yield from ("--kv-transfer-config", json.dumps({"kv_connector": connector, "kv_role": role}))
    if is_map(model.get("raySpec")):
        yield from ("--distributed-executor-backend", "ray")


def _requested_platform(model: YamlMap) -> Platform | None:
    count, kind = text_of(model.get("requestGPU")), text_of(model.get("requestGPUType"))
    if kind is not None:
        return resource_platform(YamlMap(limits=YamlMap({kind: count})))
    return "cuda" if count is not None and count != "0" and "cpu" not in (_image(model) or "") else None


# llm-d modelservice


def _modelservice(document: YamlMap) -> Iterator[Container]:
    artifacts = document["modelArtifacts"]
    uri, name = text_of(artifacts.get("uri")) or "", text_of(artifacts.get("name"))
    model = uri.removeprefix("hf://") if uri.startswith("hf://") else name or open_value("modelArtifacts.name")
    platform = _ACCELERATORS.get((text_of(child(document, "accelerator", "type")) or "").casefold())
    for role in ("prefill", "decode"):
        part = document.get(role)
        if not is_map(part) or (text_of(part.get("create")) or "true").casefold() == "false":
            continue
        for one, _ in items(part.get("containers")):
            if is_map(one):
                yield _modelservice_container(role, part, one, model, platform)


def _modelservice_container(role: str, part: YamlMap, one: YamlMap, model: str, platform: Platform | None) -> Container:
    container = read_container(one, part, {})
    container.name = role
    container.platform = container.platform or platform
    container.image = _image(one)
    if text_of(one.get("modelCommand")) not in ("vllmServe", "imageDefault"):
        return container
    words = container.arguments
    if text_of(one.get("modelCommand")) == "vllmServe":
        container.entrypoint = ["vllm", "serve", model]
    elif not any(word.partition("=")[0] == "--model" for word in words):
        words = ["--model", model, *words]
    given = {word.partition("=")[0].lstrip("-").replace("_", "-") for word in words}
    parallelism = part.get("parallelism")
    tensor, data = text_of(child(parallelism, "tensor")), text_of(child(parallelism, "data"))
    if tensor is not None and tensor != "1" and not given & {"tensor-parallel-size", "tp"}:
        words = [*words, "--tensor-parallel-size", tensor]
    if data is not None and data != "1" and not given & {"data-parallel-size", "dp"}:
        words = [*words, "--data-parallel-size", open_value("parallelism.data")]
    container.arguments = words
    labels = child(part, "acceleratorTypes", "labelValues")
    if container.accelerator is None and len(items(labels)) == 1:
        selector = YamlMap({text_of(child(part, "acceleratorTypes", "labelKey")) or "": items(labels)[0][0]})
        container.accelerator = node_accelerator(YamlMap(nodeSelector=selector))
    return container


# Other charts


def _any_chart(document: Any) -> Iterator[Container]:
    waiting: list[tuple[Any, str]] = [(document, "")]
    seen = 0
    while waiting and seen < _MAX_IMAGES:
        node, path = waiting.pop()
        if is_map(node):
            if (image := _image(node)) is not None:
                seen += 1
                if (container := _chart_container(node, image, path)) is not None:
                    yield container
            inner_nodes = [(key, inner) for key, inner in node.items() if key != "image" or image is None]
            waiting += [(inner, f"{path}.{key}" if path else key) for key, inner in reversed(inner_nodes)]
        else:
            waiting += [
                (inner, f"{path}.{text_of(child(inner, 'name')) or place}")
                for place, (inner, _) in reversed(list(enumerate(items(node))))
            ]


def _chart_container(node: YamlMap, image: str, path: str) -> Container | None:
    container = Container(path or "values", node.lines.get("image", node.line), image=image, is_complete=False)
    container.env, container.notes = read_env(node, {})
    container.secrets = set(_secrets_of(node))
    command = _words(node.get("command")) or _words(child(node, "image", "command"))
    container.entrypoint = command or None
    for holder in (child(node, "image"), node):
        for key in _ARGUMENT_KEYS:
            container.arguments += _words(child(holder, key))
    if not command and not container.arguments and not read_image(image).starts_server:
        return None
    if not read_image(image).is_vllm and not any(True for _ in find_starts(container.command, container.env)):
        return None
    container.platform = resource_platform(node.get("resources"))
    container.accelerator = node_accelerator(node)
    container.notes.append("its chart may add arguments: the output of `helm template` has them all")
    return container


def _image(node: YamlMap) -> str | None:
    """`repository:tag`, in one text, in a mapping `image`, or beside each other as production-stack has them."""
    image = node.get("image")
    if isinstance(image, str):
        tag = text_of(node.get("imageTag")) if ":" not in image.rpartition("/")[2] else None
        return f"{image}:{tag}" if tag else image
    holder = image if is_map(image) else node
    repository = text_of(holder.get("repository")) or (text_of(holder.get("name")) if is_map(image) else None)
    if not repository or (not is_map(image) and "tag" not in node):
        return None
    registry = text_of(holder.get("registry")) or text_of(holder.get("hub"))
    name = f"{registry}/{repository}" if registry else repository
    tag, digest = text_of(holder.get("tag")), text_of(holder.get("digest"))
    if tag:
        return f"{name}:{tag}"
    return f"{name}@{digest}" if digest else name


def _words(value: Any) -> list[str]:
    """Arguments as a list of texts, as one text, or as a mapping of flags."""
    if isinstance(value, YamlList):
        return [text for text, _ in items(value) if isinstance(text, str)]
    if isinstance(value, str):
        return value.split() if "\n" not in value and '"' not in value and "'" not in value else [value]
    words: list[str] = []
    for key, inner in value.items() if is_map(value) else ():
        flag = "--" + re.sub(r"(?<=[a-z])([A-Z])", r"-\1", key).casefold().lstrip("-")
        if inner is None or _is_true(inner):
            words.append(flag)
        elif (text := _argument_text(inner)) is not None and text.casefold() != "false":
            words += [flag, text]
    return words


def _argument_text(value: Any) -> str | None:
    return json.dumps(_plain(value)) if isinstance(value, YamlMap | YamlList) else text_of(value)


def _plain(value: Any) -> Any:
    if is_map(value):
        return {key: _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, YamlList) else value


def _is_true(value: Any) -> bool:
    return isinstance(value, str) and value.casefold() in ("true", "yes", "on")


def _secrets_of(node: YamlMap) -> Iterator[str]:
    for key in ("hf_token", "hfToken", "vllmApiKey", "apiKey", "api_key", "token"):
        value = node.get(key)
        if isinstance(value, str):
            yield value
