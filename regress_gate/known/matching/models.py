"""Derives facts about a model from its name, or from its `config.json` on this machine.

A name gives architecture and features, but not the quantization: no name gives it reliably. Architectures of families
(`model_families.csv`; the narrower name comes first, as a distillation has its student's architecture and a pruned
Llama its own) are those of the `config.json` in the publishers' own repositories on huggingface.co. Their names, and
the traits of architectures, follow vLLM's table of supported models (docs.vllm.ai/en/latest/models/supported_models)
and the list of models for its tests (`tests/models/registry.py`). Unlisted models and architectures give nothing. The
keys of a `config.json` are those of the Hugging Face Transformers configuration (`architectures`,
`quantization_config`) and of the formats that vLLM loads: compressed-tensors' `config_groups`, ModelOpt's
`quant_algo`, Quark's `global_quant_config`.
"""

import csv
import json
import os
import re
from collections.abc import Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from regress_gate.errors import InputError
from regress_gate.known.matching import names
from regress_gate.model.deployment import Deployment, Feature

_MOE = re.compile(
    r"moe|mixtral|dbrx|deepseekv[234]|deepseekv32|gptoss|llama4|kimi|minimax|jamba|arctic|grok|qwen3next|olmoe|"
    r"longcat|ernie4_5_moe|hunyuanv1moe|bailing|step3|mimov2|deepseekocr|dots1",
    re.IGNORECASE,
)
_HYBRID = re.compile(
    r"jamba|mamba|bamba|nemotronh|qwen3next|qwen3_5|kimilinear|falconh1|zamba|hybrid|minimaxtext01|plamo2|lfm2|phi4flash",
    re.IGNORECASE,
)
_DENSE_TEXT = frozenset(
    {
        *("LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM", "GemmaForCausalLM"),
        *("Gemma2ForCausalLM", "Gemma3ForCausalLM", "PhiForCausalLM", "Phi3ForCausalLM", "OPTForCausalLM"),
        *("GPT2LMHeadModel", "GPTNeoXForCausalLM", "FalconForCausalLM", "GraniteForCausalLM", "OlmoForCausalLM"),
        *("Olmo2ForCausalLM", "Olmo3ForCausalLM", "CohereForCausalLM", "Cohere2ForCausalLM", "StableLmForCausalLM"),
        *("InternLM2ForCausalLM", "InternLM3ForCausalLM", "GlmForCausalLM", "Glm4ForCausalLM", "ChatGLMModel"),
        *("BaichuanForCausalLM", "NemotronForCausalLM", "SmolLM3ForCausalLM", "MiniCPMForCausalLM"),
        *("MiniCPM3ForCausalLM", "SeedOssForCausalLM", "ApertusForCausalLM", "ExaoneForCausalLM", "Exaone4ForCausalLM"),
        *("Starcoder2ForCausalLM", "DeciLMForCausalLM", "Ernie4_5ForCausalLM", "HunYuanDenseV1ForCausalLM"),
        *("MiMoForCausalLM", "SolarForCausalLM", "BloomForCausalLM"),
    }
)
"""Transformers without experts, state-space layers or pictures."""
_DENSE_MULTIMODAL = frozenset(
    {
        *("Qwen2VLForConditionalGeneration", "Qwen2_5_VLForConditionalGeneration", "Qwen3VLForConditionalGeneration"),
        *("Gemma3ForConditionalGeneration", "MllamaForConditionalGeneration", "Glm4vForConditionalGeneration"),
        *("Mistral3ForConditionalGeneration", "LlavaForConditionalGeneration", "LlavaNextForConditionalGeneration"),
        *("LlavaOnevisionForConditionalGeneration", "LlavaNextVideoForConditionalGeneration", "Phi3VForCausalLM"),
        *("Idefics3ForConditionalGeneration", "SmolVLMForConditionalGeneration", "PaliGemmaForConditionalGeneration"),
        *("VoxtralForConditionalGeneration", "Qwen2AudioForConditionalGeneration", "Qwen2_5OmniModel"),
        *("Phi4MMForCausalLM", "GraniteSpeechForConditionalGeneration", "Qwen3ASRForConditionalGeneration"),
        *("GlmOcrForConditionalGeneration", "PaddleOCRVLForConditionalGeneration", "DotsOCRForCausalLM"),
        *("LightOnOCRForConditionalGeneration", "MolmoForCausalLM", "Molmo2ForConditionalGeneration"),
        "AyaVisionForConditionalGeneration",
    }
)
"""Models of pictures or sound and text without experts and state-space layers."""
_WITHOUT_STATE_SPACE = frozenset(
    {
        *("Gemma3nForConditionalGeneration", "Gemma4ForConditionalGeneration", "Gemma4UnifiedForConditionalGeneration"),
        *("PixtralForConditionalGeneration", "InternVLChatModel", "Cohere2VisionForConditionalGeneration"),
    }
)
"""Models of pictures and text of which some have experts, and none state-space layers."""
_NOT_TEXT_ALONE = re.compile(r"ocr|vl|vision|VForCausalLM|phi4mm|molmo|ovis|kimia|fuyu|omni|moondream", re.IGNORECASE)
"""Architectures that take more than text though their names end as those of text models do."""
_GENERATING = (
    *("ForCausalLM", "ForConditionalGeneration", "LMHeadModel", "InternVLChatModel", "MiniCPMV", "MiniCPMO"),
    *("Qwen2_5OmniModel", "UltravoxModel", "Llama_Nemotron_Nano_VL", "NemotronH_Nano_VL_V2", "ChatGLMModel"),
)
"""How the names of architectures end that generate text."""
_ACTIVE_SHARE = re.compile(r"\d+(?:\.\d+)?b-a\d+(?:\.\d+)?b\b", re.IGNORECASE)
"""`30B-A3B`: experts, of which a token uses some."""
_DENSE_SIZE = re.compile(r"gemma-4-(?:e\d+b|31b)\b|internvl[23](?:_5)?-\d+b\b(?!-a\d)", re.IGNORECASE)
"""Models without experts, of an architecture that has some with them."""
_ENCODER = re.compile(r"(?:XLM)?(?:Bert|Roberta|ModernBert)(?:Model|For)", re.IGNORECASE)
"""Encoders without experts, state-space layers or pictures: BertModel, XLMRobertaForSequenceClassification."""
_EMBEDDER = re.compile(
    r"(?:(?:XLM)?(?:Bert|Roberta|ModernBert)|Mistral|Gemma2|Gemma3Text|Gte|LlamaBidirectional)Model", re.IGNORECASE
)
"""Dense models without a head: vLLM serves embeddings with them alone. They may score texts by those, too."""
_POOLING = re.compile(r"\b(?:embed|embedding|embeddings|bge|gte|e5|rerank|reranker|reward|classif\w*)\b", re.IGNORECASE)


@cache
def architecture_of(model: str) -> str | None:
    """The architecture of a model by its family's name, a local copy's too; None for families that are not listed."""
    for pattern, architecture in list_families():
        if names.model_matches(pattern, model) is not False:  # what others make of the weights keeps their architecture
            return architecture
    return None


@cache
def list_families() -> tuple[tuple[str, str], ...]:
    """Pattern of a name with its publisher, and architecture; the first that matches counts."""
    text = (resources.files(__package__) / "model_families.csv").read_text(encoding="utf-8")
    return tuple((row["name"], row["architecture"]) for row in csv.DictReader(text.splitlines()))


@cache
def features_of(architecture: str | None, model: str | None) -> dict[Feature, bool]:
    """What the architecture decides, and what a name like `…-Embedding` says. What is not decided is left out."""
    features: dict[Feature, bool] = {}
    if architecture is not None:
        features |= _traits(architecture)
        if model is not None and _ACTIVE_SHARE.search(model):
            features.setdefault("moe", True)
        elif model is not None and _DENSE_SIZE.search(model):
            features.setdefault("moe", False)
        if _EMBEDDER.fullmatch(architecture):
            features["embedding"] = True
        generates = architecture.endswith(_GENERATING)
        if generates and model is not None and not _POOLING.search(model.replace("_", "-")):
            features |= {"embedding": False, "rerank": False}
    return features


def _traits(architecture: str) -> dict[Feature, bool]:
    if architecture in _DENSE_TEXT or _ENCODER.match(architecture) or _EMBEDDER.fullmatch(architecture):
        return {"moe": False, "hybrid_model": False, "multimodal": False}
    if architecture == "WhisperForConditionalGeneration":  # speech is all that it is asked for
        return {"moe": False, "hybrid_model": False, "multimodal": True}
    if architecture in _DENSE_MULTIMODAL:
        return {"moe": False, "hybrid_model": False}
    if architecture == "Qwen3_5ForConditionalGeneration":
        return {"moe": False, "hybrid_model": True}
    features: dict[Feature, bool] = {}
    if _MOE.search(architecture):
        features["moe"] = True
    if _HYBRID.search(architecture):
        features["hybrid_model"] = True
    elif features or architecture in _WITHOUT_STATE_SPACE:
        features["hybrid_model"] = False
    if architecture.endswith("ForCausalLM") and not _NOT_TEXT_ALONE.search(architecture):
        features["multimodal"] = False
    return features


MAX_BYTES = 4 * 1024 * 1024
_NAME_ON_THE_HUB = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)
_EXPERTS = ("n_routed_experts", "num_local_experts", "num_experts", "moe_num_experts")
_LINEAR_LAYERS = ("linear_attention", "mamba", "mamba2", "recurrent", "kda")


def read_model_directory(model: str) -> Deployment | None:
    """The facts in a model's directory, or in that of its latest download in Hugging Face's cache; None if `model` is
    neither here.

    Raises InputError for a configuration that cannot be read.
    """
    config = read_model_config(model)
    return None if config is None else from_model_config(config)


def read_model_config(model: str) -> dict[str, Any] | None:
    """The `config.json` in such a directory, parsed; None without one. Raises InputError as above."""
    path = None
    try:
        paths = (Path(model).expanduser() / "config.json", _cached_config(model))
        path = next((path for path in paths if path is not None and path.is_file()), None)
        if path is None:
            return None
        if path.stat().st_size > MAX_BYTES:
            raise InputError(f"larger than {MAX_BYTES >> 20} MiB: not a model's configuration", where=path)
        document = json.loads(path.read_text(encoding="utf-8"))
        json.dumps(document, ensure_ascii=False).encode()  # raises for a lone surrogate, which JSON allows
    except (ValueError, RecursionError):
        raise InputError("is not JSON", where=path) from None
    except (OSError, RuntimeError):  # a name that is too long, an unknown home directory, a file without permission
        return None
    if not isinstance(document, dict):
        raise InputError("is not a model's configuration", where=path)
    return document


def _cached_config(model: str) -> Path | None:
    """Where Hugging Face's cache of this machine has the `config.json` of a model by its name, if it has one."""
    if not _NAME_ON_THE_HUB.fullmatch(model):
        return None
    home = os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface"
    cache_directory = Path(os.environ.get("HF_HUB_CACHE") or Path(home) / "hub").expanduser()
    downloads = cache_directory / f"models--{model.replace('/', '--')}"
    latest = downloads / "refs" / "main"
    if not latest.is_file():
        return None
    # Whatever stands there, a name that is no download's leads to no file.
    return downloads / "snapshots" / latest.read_text(encoding="utf-8", errors="replace").strip() / "config.json"


def from_model_config(config: Mapping[str, Any]) -> Deployment:
    """The facts of a parsed configuration; what it does not say stays unknown."""
    text = config.get("text_config")
    text = text if isinstance(text, dict) else config
    architectures = config.get("architectures")
    named = isinstance(architectures, list) and architectures and isinstance(architectures[0], str)
    quantization, kv_cache = _config_quantization(config.get("quantization_config", text.get("quantization_config")))
    return Deployment(
        architecture=architectures[0] if named else None,  # type: ignore[index]
        features=_config_features(architectures[0], config, text) if named else {},  # type: ignore[index]
        quantization=quantization if named else None,
        moe_quantization=quantization if named and quantization not in (None, "none") and _has_experts(text) else None,
        kv_cache_dtype=kv_cache,
    )


def _has_experts(text: Mapping[str, Any]) -> bool:
    return any(isinstance(text.get(key), int) and text[key] > 1 for key in _EXPERTS)


def _config_features(architecture: str, config: Mapping[str, Any], text: Mapping[str, Any]) -> dict[Feature, bool]:
    layers = text.get("layer_types")
    hybrid = isinstance(layers, list) and any(layer in _LINEAR_LAYERS for layer in layers)
    # A configuration may count its experts under another key than those of the list.
    features: dict[Feature, bool] = {"moe": _has_experts(text) or _MOE.search(architecture) is not None}
    if isinstance(layers, list):
        features["hybrid_model"] = hybrid
    if not any("vision" in key or "audio" in key for key in config):
        features["multimodal"] = False
    return features


def _config_quantization(config: Any) -> tuple[str | None, str | None]:
    """Names for the weights and for a KV cache that the checkpoint asks for."""
    if config is None:
        return "none", None
    if not isinstance(config, dict):
        return None, None
    method = str(config.get("quant_method", config.get("quant_algo", ""))).casefold()
    kv_cache = _number_format(config.get("kv_cache_scheme")) or _algorithm(config.get("kv_cache_quant_algo"))
    algorithm = _algorithm(config.get("quant_algo"))
    if method.startswith("modelopt") or algorithm:
        return algorithm or method or None, kv_cache
    groups = config.get("config_groups")
    if isinstance(groups, dict):
        formats = {_group_format(group) for group in groups.values() if isinstance(group, dict)}
        return (formats.pop() or method) if len(formats) == 1 else method or None, kv_cache
    return method or None, kv_cache


def _algorithm(name: Any) -> str | None:
    return name.casefold().replace("_", "-") if isinstance(name, str) and name else None


def _group_format(group: Mapping[str, Any]) -> str | None:
    """Integers by the bits of the activations too, as the field names them: `int8-w8a8`, `int4-w4a16`."""
    name = _number_format(group.get("weights"))
    if name is None or not name.startswith("int"):
        return name
    activations = group.get("input_activations")
    bits = activations.get("num_bits") if isinstance(activations, dict) else 16
    return f"{name}-w{name.removeprefix('int')}a{bits}"


def _number_format(scheme: Any) -> str | None:
    """`fp8`, `int4`, `nvfp4` by the type and bits of a compressed-tensors scheme."""
    if not isinstance(scheme, dict):
        return None
    kind, bits = scheme.get("type"), scheme.get("num_bits")
    if kind == "float" and bits == 4:
        return "mxfp4" if scheme.get("group_size") == 32 else "nvfp4"
    return {"float8": "fp8", "int8": "int8", "int4": "int4"}.get(f"{kind}{bits}")
