"""A deployment's facts from the `config.json` of a model on disk: architecture, experts, quantization.

Keys are those of the Hugging Face Transformers configuration (`architectures`, `quantization_config`) and of the
formats that vLLM loads: compressed-tensors' `config_groups`, ModelOpt's `quant_algo`, Quark's `global_quant_config`.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regress_gate.errors import InputError
from regress_gate.model.deployment import Deployment, Feature

MAX_BYTES = 4 * 1024 * 1024
_EXPERTS = ("n_routed_experts", "num_local_experts", "num_experts", "moe_num_experts")
_LINEAR_LAYERS = ("linear_attention", "mamba", "mamba2", "recurrent", "kda")


def read_model_directory(model: str) -> Deployment | None:
    """The facts in a model's directory; None if `model` is not a directory with a `config.json`.

    Raises InputError for a configuration that cannot be read.
    """
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
    return from_model_config(document)


def from_model_config(config: Mapping[str, Any]) -> Deployment:
    """The facts of a parsed configuration; what it does not say stays unknown."""
    text = config.get("text_config")
    text = text if isinstance(text, dict) else config
    architectures = config.get("architectures")
    named = isinstance(architectures, list) and architectures and isinstance(architectures[0], str)
    quantization, kv_cache = _quantization(config.get("quantization_config", text.get("quantization_config")))
    return Deployment(
        architecture=architectures[0] if named else None,  # type: ignore[index]
        features=_features(config, text) if named else {},
        quantization=quantization if named else None,
        moe_quantization=quantization if named and quantization not in (None, "none") and _has_experts(text) else None,
        kv_cache_dtype=kv_cache,
    )


def _has_experts(text: Mapping[str, Any]) -> bool:
    return any(isinstance(text.get(key), int) and text[key] > 1 for key in _EXPERTS)


def _features(config: Mapping[str, Any], text: Mapping[str, Any]) -> dict[Feature, bool]:
    layers = text.get("layer_types")
    hybrid = isinstance(layers, list) and any(layer in _LINEAR_LAYERS for layer in layers)
    found: dict[Feature, bool] = {"moe": _has_experts(text)}
    if isinstance(layers, list):
        found["hybrid_model"] = hybrid
    if not any("vision" in key or "audio" in key for key in config):
        found["multimodal"] = False
    return found


def _quantization(config: Any) -> tuple[str | None, str | None]:
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
