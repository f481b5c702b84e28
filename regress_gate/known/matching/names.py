"""Compares names that may be spelled differently: models, quantizations, argument values, variables, backends.

Only spelling is compared: a model's name says nothing about its quantization. An ambiguous name gives None. Accelerator
names are in `accelerators`.
"""

import json
import math
import re
from fnmatch import fnmatchcase
from functools import cache

from regress_gate.model.deployment import ArgValue, engine_arg_key
from regress_gate.text import excerpt, nearest
from regress_gate.vllm.release_tables import any_release

_UNQUANTIZED = {"none", "no", "unquantized", "bf16", "bfloat16", "fp16", "float16", "half", "fp32", "float32"}
_CONTAINERS = {"compressed-tensors", "modelopt", "quark", "auto", "w8a8"}
"""Formats that can contain FP8, INT4, FP4… weights: the name does not say which."""
_FORMATS = (
    *("fp4", "nvfp4", "mxfp6", "int4", "int8", "gguf", "bitsandbytes", "bnb", "aqlm", "squeezellm", "deepspeedfp"),
    *(
        "hqq",
        "rtn",
        "qqq",
        "tpu_int8",
        "ptpc_fp8",
        "modelopt_fp8",
        "petit_nvfp4",
        "gptq_bitblas",
        "auto_round",
        "ascend",
    ),
)
"""Quantizations beside those that releases of which this program has the arguments take."""

_SHORT_ARGS = {
    "tp": "tensor_parallel_size",
    "pp": "pipeline_parallel_size",
    "dp": "data_parallel_size",
    "ep": "enable_expert_parallel",
    "q": "quantization",
    "O": "compilation_config",
}


def _publisher_and_name(model: str) -> tuple[str | None, str]:
    """Hub ids and copies of them on disk: `org/name`, `/cache/models--org--name/…`, `/models/name/`, `name`."""
    text = model.strip().casefold().rstrip("/")
    if cached := re.search(r"(?:^|/)models--([^/]+?)--([^/]+)", text):
        return cached[1], cached[2]
    parts = [part for part in text.split("/") if part]
    if len(parts) == 2 and text[0] not in "/.~":
        return parts[0], parts[1]
    name = parts[-1] if parts else ""
    publisher, separator, rest = name.partition("__")
    return (publisher, rest) if separator and publisher and rest else (None, name)


def model_matches(pattern: str, model: str) -> bool | None:
    """Whether the pattern matches the model; of a local path or bare name the last part is compared.

    None when another publisher's model has the right name: a copy of the same weights, or something made from them. A
    pattern of all models of a publisher (`org/*`) means no others, and None of a model without a publisher. One of a
    storage (`s3://*`) means what is loaded from there.
    """
    if "://" in pattern:
        return fnmatchcase(model.casefold(), pattern.casefold())
    publisher, name = _publisher_and_name(model)
    pattern_publisher, separator, pattern_name = pattern.strip().casefold().rpartition("/")
    if separator and pattern_name == "*":
        return None if publisher is None else fnmatchcase(publisher, pattern_publisher)
    if not fnmatchcase(name, pattern_name):
        return False
    if not separator or publisher is None or fnmatchcase(publisher, pattern_publisher):
        return True
    return None


def quantization_name(text: str) -> str:
    """One spelling for a quantization: `FP8_E4M3` is `fp8-e4m3`; every unquantized number format is `none`."""
    name = re.sub(r"[\s_]+", "-", text.strip().casefold())
    return "none" if name in _UNQUANTIZED else name


def quantization_matches(pattern: str, name: str) -> bool | None:
    """Whether the quantization is one that the pattern means; None where its name does not say what it holds."""
    given, wanted = quantization_name(name), quantization_name(pattern)
    if fnmatchcase(given, wanted):
        return True
    return None if given in _CONTAINERS and wanted != "none" else False


def quantization_is_clear(name: str) -> bool:
    """Whether the name says which number format it holds."""
    return quantization_name(name) not in _CONTAINERS


def unknown_quantization(name: str) -> str:
    """`quantization 'fp88' is not known here (did you mean 'fp8'?)`; empty for a name that holds a known one."""
    given, known = quantization_name(name), _quantizations()
    parts = {part for one in known for part in one.split("-")} | known
    if given in known or parts.intersection(given.split("-")) or re.search(r"(?<![a-z])w\d+a\d+", given):
        return ""
    near = nearest(given, sorted(known))
    return f"quantization {excerpt(name, 60)!r} is not known here" + (f" (did you mean {near!r}?)" if near else "")


@cache
def _quantizations() -> frozenset[str]:
    """Those that some release takes as an argument, and those that models and people name."""
    taken = any_release().arguments["quantization"].names or ()
    return frozenset(map(quantization_name, (*taken, *_CONTAINERS, *_FORMATS, "none")))


def canonical_args(engine_args: dict[str, ArgValue]) -> dict[str, ArgValue]:
    """Engine arguments by their full names: `-tp` is tensor_parallel_size, `--no-enable-x` is enable_x: false.

    A value that is a JSON object is taken apart, as vLLM allows: `compilation_config.mode`.
    """
    result: dict[str, ArgValue] = {}
    for key, value in engine_args.items():
        name = engine_arg_key(key)
        if name.startswith("no_") and isinstance(value, bool):
            name, value = name.removeprefix("no_"), not value
        result.update(_flatten_json(_SHORT_ARGS.get(name, name), value))
    return result


def _flatten_json(name: str, value: ArgValue) -> dict[str, ArgValue]:
    if not isinstance(value, str) or not value.lstrip().startswith("{"):
        return {name: value}
    try:
        parts = json.loads(value)
    except (ValueError, RecursionError):
        return {name: value}
    flat: dict[str, ArgValue] = {}
    for key, part in parts.items():
        scalar = isinstance(part, str | int | float)
        flat.update(_flatten_json(f"{name}.{key}", part if scalar else json.dumps(part)))
    return flat or {name: value}


ANY_VALUE = "*"
"""In an exception of a scope: the engine argument or variable is set, to whatever value."""
ANY_RELEASE = ">=0"
"""Of a dependency: it is installed, in whatever release."""


def same_value(one: ArgValue, other: ArgValue) -> bool:
    """Whether two engine-argument values mean the same: `8` and 8, `true` and True, text without case."""
    return _comparable_value(one) == _comparable_value(other)


def _comparable_value(value: ArgValue) -> str | float:
    text = str(value).strip().casefold().replace("-", "_")
    try:
        number = float(str(value))
    except ValueError:
        return text
    return number if math.isfinite(number) else text


def backend_matches(pattern: str, name: str) -> bool:
    """Whether a backend is one that the pattern means: logs say `Flash Attention`, flags say `FLASH_ATTN`."""
    return fnmatchcase(_backend_name(name), _backend_name(pattern))


def _backend_name(text: str) -> str:
    return re.sub(r"[\s_-]+", "", text.casefold()).replace("attention", "attn")


def text_matches(pattern: str, text: str) -> bool:
    """A glob without case; `-`, `_` and spaces are the same."""
    return fnmatchcase(_comparable_text(text), _comparable_text(pattern))


def _comparable_text(text: str) -> str:
    return re.sub(r"[\s_-]+", "_", text.strip().casefold())


def same_env_value(one: str, other: str) -> bool:
    """Whether two values of an environment variable mean the same; vLLM reads `1` and `True` alike."""
    return _comparable_env_value(one) == _comparable_env_value(other)


def _comparable_env_value(value: str) -> str:
    text = value.strip().casefold()
    return {"true": "1", "false": "0"}.get(text, text)
