"""Derives facts about a model from its name, or from the `config.json` in its directory.

A name gives architecture and features, but not the quantization: no name gives it reliably. Architectures of families
are those of the `config.json` in the publishers' own repositories on huggingface.co; traits of architectures follow
vLLM's table of supported models (docs.vllm.ai/en/latest/models/supported_models). Unlisted models and architectures
give nothing. The keys of a `config.json` are those of the Hugging Face Transformers configuration (`architectures`,
`quantization_config`) and of the formats that vLLM loads: compressed-tensors' `config_groups`, ModelOpt's `quant_algo`,
Quark's `global_quant_config`.
"""

import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from regress_gate.errors import InputError
from regress_gate.known.matching import names
from regress_gate.model.deployment import Deployment, Feature

_FAMILIES: tuple[tuple[str, str], ...] = (
    # The narrower name comes first: a distillation has its student's architecture, and a pruned Llama its own.
    ("nvidia/llama-3_[0-9]-nemotron-*", "DeciLMForCausalLM"),
    ("deepseek-ai/deepseek-r1-distill-llama*", "LlamaForCausalLM"),
    ("deepseek-ai/deepseek-r1-distill-qwen*", "Qwen2ForCausalLM"),
    ("deepseek-ai/deepseek-r1-0528-qwen3-8b", "Qwen3ForCausalLM"),
    ("deepseek-ai/deepseek-v3.2*", "DeepseekV32ForCausalLM"),
    ("deepseek-ai/deepseek-r1*", "DeepseekV3ForCausalLM"),
    ("deepseek-ai/deepseek-v3*", "DeepseekV3ForCausalLM"),
    ("deepseek-ai/deepseek-v2*", "DeepseekV2ForCausalLM"),
    ("moonshotai/kimi-k2.5*", "KimiK25ForConditionalGeneration"),
    ("moonshotai/kimi-k2*", "DeepseekV3ForCausalLM"),
    ("moonshotai/kimi-linear*", "KimiLinearForCausalLM"),
    ("mistralai/mixtral*", "MixtralForCausalLM"),
    ("mistralai/mistral-7b*", "MistralForCausalLM"),
    ("mistralai/mistral-nemo*", "MistralForCausalLM"),
    ("mistralai/mistral-large-instruct-24*", "MistralForCausalLM"),
    ("meta-llama/llama-4*", "Llama4ForConditionalGeneration"),
    ("meta-llama/llama-3.2-*-vision*", "MllamaForConditionalGeneration"),
    ("meta-llama/llama-[23]*", "LlamaForCausalLM"),
    ("meta-llama/meta-llama-3*", "LlamaForCausalLM"),
    ("openai/gpt-oss*", "GptOssForCausalLM"),
    ("qwen/qwen3-next*", "Qwen3NextForCausalLM"),
    ("qwen/qwen3-coder-next*", "Qwen3NextForCausalLM"),
    ("qwen/qwen3-vl-*-a[0-9]*b*", "Qwen3VLMoeForConditionalGeneration"),
    ("qwen/qwen3-vl-[2348]*", "Qwen3VLForConditionalGeneration"),
    ("qwen/qwen3-omni*", "Qwen3OmniMoeForConditionalGeneration"),
    ("qwen/qwen3.[56]-*-a[0-9]*b*", "Qwen3_5MoeForConditionalGeneration"),
    ("qwen/qwen3.[56]-*", "Qwen3_5ForConditionalGeneration"),
    ("qwen/qwen3-coder-*-a[0-9]*b*", "Qwen3MoeForCausalLM"),
    ("qwen/qwen3-*b-a[0-9]*b*", "Qwen3MoeForCausalLM"),
    ("qwen/qwen3-embedding*", "Qwen3ForCausalLM"),
    ("qwen/qwen3-reranker*", "Qwen3ForCausalLM"),
    ("qwen/qwen3-[0-9]*b*", "Qwen3ForCausalLM"),
    ("qwen/qwen2.5-vl*", "Qwen2_5_VLForConditionalGeneration"),
    ("qwen/qwen2-vl*", "Qwen2VLForConditionalGeneration"),
    ("qwen/qwen2.5-[0-9]*b*", "Qwen2ForCausalLM"),
    ("qwen/qwen2.5-coder*", "Qwen2ForCausalLM"),
    ("qwen/qwen2-57b-a14b*", "Qwen2MoeForCausalLM"),
    ("qwen/qwen2-[0-9]*b*", "Qwen2ForCausalLM"),
    ("qwen/qwen1.5-moe*", "Qwen2MoeForCausalLM"),
    ("qwen/qwq-32b*", "Qwen2ForCausalLM"),
    ("google/gemma-4*", "Gemma4ForConditionalGeneration"),
    ("google/gemma-3n*", "Gemma3nForConditionalGeneration"),
    ("google/gemma-3-1b*", "Gemma3ForCausalLM"),
    ("google/gemma-3-270m*", "Gemma3ForCausalLM"),
    ("google/gemma-3-*", "Gemma3ForConditionalGeneration"),
    ("google/gemma-2-*", "Gemma2ForCausalLM"),
    ("zai-org/glm-4.6v-flash*", "Glm4vForConditionalGeneration"),
    ("zai-org/glm-4.[56]v*", "Glm4vMoeForConditionalGeneration"),
    ("zai-org/glm-4.7-flash*", "Glm4MoeLiteForCausalLM"),
    ("zai-org/glm-4.[567]*", "Glm4MoeForCausalLM"),
    ("zai-org/glm-5*", "GlmMoeDsaForCausalLM"),
    ("minimaxai/minimax-m2*", "MiniMaxM2ForCausalLM"),
    ("minimaxai/minimax-text-01*", "MiniMaxText01ForCausalLM"),
    ("nvidia/*nemotron*-vl*", "NemotronH_Nano_VL_V2"),
    ("nvidia/*nemotron-3-*", "NemotronHForCausalLM"),
    ("nvidia/nvidia-nemotron-nano-*", "NemotronHForCausalLM"),
    ("nvidia/nemotron-h*", "NemotronHForCausalLM"),
    ("microsoft/phi-4", "Phi3ForCausalLM"),
    ("microsoft/phi-3-mini-*", "Phi3ForCausalLM"),
    ("microsoft/phi-3-medium-*", "Phi3ForCausalLM"),
    ("microsoft/phi-3.5-moe*", "PhiMoEForCausalLM"),
    ("microsoft/phi-3.5-mini*", "Phi3ForCausalLM"),
    ("ai21labs/*jamba*", "JambaForCausalLM"),
    ("ibm-granite/granite-4.0-h*", "GraniteMoeHybridForCausalLM"),
    ("facebook/opt-*", "OPTForCausalLM"),
    ("baai/bge-m3*", "XLMRobertaModel"),
    ("baai/bge-reranker-v2-m3*", "XLMRobertaForSequenceClassification"),
    ("baai/bge-*-en-v1.5*", "BertModel"),
    ("intfloat/multilingual-e5-*", "XLMRobertaModel"),
    ("sentence-transformers/all-minilm-*", "BertModel"),
    ("tiiuae/falcon-h1*", "FalconH1ForCausalLM"),
)

_MOE = re.compile(
    r"moe|mixtral|dbrx|deepseekv[234]|deepseekv32|gptoss|llama4|kimi|minimax|jamba|arctic|grok|qwen3next|olmoe|"
    r"longcat|ernie4_5_moe|hunyuanv1moe|bailing|step3|mimov2",
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
        *("Olmo2ForCausalLM", "CohereForCausalLM", "Cohere2ForCausalLM", "StableLmForCausalLM", "InternLM2ForCausalLM"),
        *("Glm4ForCausalLM", "ChatGLMModel", "BaichuanForCausalLM", "NemotronForCausalLM", "SmolLM3ForCausalLM"),
        *(
            "MiniCPMForCausalLM",
            "SeedOssForCausalLM",
            "ApertusForCausalLM",
            "Exaone4ForCausalLM",
            "Starcoder2ForCausalLM",
            "DeciLMForCausalLM",
        ),
    }
)
"""Transformers without experts, state-space layers or pictures."""
_DENSE_VISION = frozenset(
    {
        *("Qwen2VLForConditionalGeneration", "Qwen2_5_VLForConditionalGeneration", "Qwen3VLForConditionalGeneration"),
        *("Gemma3ForConditionalGeneration", "MllamaForConditionalGeneration", "Glm4vForConditionalGeneration"),
    }
)
"""Models of pictures and text without experts and state-space layers."""
_ACTIVE_SHARE = re.compile(r"\d+(?:\.\d+)?b-a\d+(?:\.\d+)?b\b", re.IGNORECASE)
"""`30B-A3B`: experts, of which a token uses some."""
_DENSE_SIZE = re.compile(r"gemma-4-(?:e\d+b|31b)\b", re.IGNORECASE)
"""Models without experts, of an architecture that has some with them."""
_ENCODER = re.compile(r"(?:XLM)?(?:Bert|Roberta|ModernBert)(?:Model|For)", re.IGNORECASE)
"""Encoders without experts, state-space layers or pictures: BertModel, XLMRobertaForSequenceClassification."""
_EMBEDDER = re.compile(r"(?:XLM)?(?:Bert|Roberta|ModernBert)Model", re.IGNORECASE)
"""Encoders without a head: vLLM serves embeddings with them and nothing else. They may score texts by those, too."""
_POOLING = re.compile(r"\b(?:embed|embedding|embeddings|bge|gte|e5|rerank|reranker|reward|classif\w*)\b", re.IGNORECASE)


@cache
def architecture_of(model: str) -> str | None:
    """The architecture of a model by its family's name, a local copy's too; None for families that are not listed."""
    for pattern, architecture in _FAMILIES:
        if names.model_matches(pattern, model) is not False:  # what others make of the weights keeps their architecture
            return architecture
    return None


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
        generates = architecture.endswith(("ForCausalLM", "ForConditionalGeneration"))
        if generates and model is not None and not _POOLING.search(model.replace("_", "-")):
            features |= {"embedding": False, "rerank": False}
    return features


def _traits(architecture: str) -> dict[Feature, bool]:
    if architecture in _DENSE_TEXT or _ENCODER.match(architecture):
        return {"moe": False, "hybrid_model": False, "multimodal": False}
    if architecture in _DENSE_VISION:
        return {"moe": False, "hybrid_model": False}
    if architecture == "Qwen3_5ForConditionalGeneration":
        return {"moe": False, "hybrid_model": True}
    features: dict[Feature, bool] = {}
    if _MOE.search(architecture):
        features["moe"] = True
    if _HYBRID.search(architecture):
        features["hybrid_model"] = True
    elif features:
        features["hybrid_model"] = False
    if architecture.endswith("ForCausalLM"):
        features["multimodal"] = False
    return features


MAX_BYTES = 4 * 1024 * 1024
_EXPERTS = ("n_routed_experts", "num_local_experts", "num_experts", "moe_num_experts")
_LINEAR_LAYERS = ("linear_attention", "mamba", "mamba2", "recurrent", "kda")


def read_model_directory(model: str) -> Deployment | None:
    """The facts in a model's directory; None if `model` is not a directory with a `config.json`.

    Raises InputError for a configuration that cannot be read.
    """
    config = read_model_config(model)
    return None if config is None else from_model_config(config)


def read_model_config(model: str) -> dict[str, Any] | None:
    """The `config.json` in a model's directory, parsed; None without one. Raises InputError as above."""
    try:
        path = Path(model).expanduser() / "config.json"
        if not path.is_file():
            return None
        if path.stat().st_size > MAX_BYTES:
            raise InputError(f"larger than {MAX_BYTES >> 20} MiB: not a model's configuration", where=path)
        document = json.loads(path.read_text(encoding="utf-8"))
        json.dumps(document, ensure_ascii=False).encode()  # raises for a lone surrogate, which JSON allows
    except (ValueError, RecursionError):
        raise InputError("is not JSON", where=Path(model) / "config.json") from None
    except (OSError, RuntimeError):  # a name that is too long, an unknown home directory, a file without permission
        return None
    if not isinstance(document, dict):
        raise InputError("is not a model's configuration", where=path)
    return document


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
