"""The deployment that known issues are matched with: the known facts of what the user runs."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, prod
from typing import Annotated, Literal, Self, get_args

from pydantic import Field, StringConstraints

from regress_gate.errors import InputError
from regress_gate.model.documents import StrictModel
from regress_gate.model.version import Version
from regress_gate.text import did_you_mean

ArgValue = str | int | float | bool
"""An engine argument's value as vLLM's command line takes it; a bare flag is true."""


Platform = Literal["cuda", "rocm", "cpu", "xpu", "tpu", "ascend", "gaudi", "other"]
"""What vLLM runs on; `other` is known to be none of the rest."""
Feature = Literal[
    "lora",
    "speculative_decoding",
    "structured_output",
    "multimodal",
    "disaggregated_prefill",
    "prefix_caching",
    "embedding",
    "rerank",
    "hybrid_model",
    "moe",
]
"""What a server does besides plain generation with a dense text model."""
Backend = Literal["attention", "moe", "sampler", "linear"]
"""Parts of the engine whose implementation is in the start log."""
GPU_LEVEL = r"(?:[Ss][Mm][ _-]?(\d{2,3})[a-f]?|([Gg][Ff][Xx][0-9a-f]{3,4}))"
"""An instruction set, as people write it: `sm_90`, `SM120`, `gfx942`."""


class Deployment(StrictModel):
    """A fact that is not given is unknown; it is never assumed to have its default."""

    accelerator: str | None = None
    """`H200`, `MI300X`, `RTX PRO 6000`, `cpu`…"""
    platform: Platform | None = None
    gpu_arch: Annotated[str, StringConstraints(pattern=f"^{GPU_LEVEL}$")] | None = None
    """`sm_90`, `gfx942`."""
    model: str | None = None
    """Name on the hub, or a path."""
    architecture: str | None = None
    """As in the model's `config.json`: `DeepseekV3ForCausalLM`."""
    features: dict[Feature, bool] = Field(default_factory=dict)
    """True: in use; False: known not to be in use."""
    quantization: str | None = None
    """Of the weights; `none` for any unquantized format."""
    kv_cache_dtype: str | None = None
    moe_quantization: str | None = None
    """Of the experts, if it differs from the weights."""
    backends: dict[Backend, str] = Field(default_factory=dict)
    """As resolved, by their names in the start log."""
    dependencies: dict[str, str] = Field(default_factory=dict)
    """Versions of installed distributions: `flashinfer-python` → `0.5.2`."""
    distribution: str | None = None
    """Image or fork: `rocm/vllm:…`, `vllm-ascend`; `vllm` for the package itself."""
    engine_args: dict[str, ArgValue] = Field(default_factory=dict)
    """Keys with underscores and no leading dashes: `enable_expert_parallel`."""
    complete: bool = False
    """Whether `engine_args` are all arguments of the server, so that the others have their defaults."""
    unknown_args: tuple[str, ...] = ()
    """Engine arguments that are set to a value which is not known: `--max-model-len ${LENGTH}`."""
    env: dict[str, str] = Field(default_factory=dict)
    complete_env: bool = False
    """Whether `env` and `unknown_env` are all variables of the server, so that vLLM's others have their defaults."""
    unknown_env: tuple[str, ...] = ()
    """Variables that are set to a value which is not known or is secret."""

    def over(self, other: "Deployment") -> "Deployment":
        """This deployment; unknown facts are taken from `other`.

        A complete launch line takes no engine arguments from `other`.
        """
        data = {**other.model_dump(exclude_none=True), **self.model_dump(exclude_none=True)}
        for name in ("features", "backends", "dependencies", "env", "engine_args"):
            data[name] = {**getattr(other, name), **getattr(self, name)}
        if self.complete:
            wanted = {key: value for key, value in other.engine_args.items() if key in self.unknown_args}
            data["engine_args"] = {**wanted, **self.engine_args}
        for name, known in (("unknown_args", data["engine_args"]), ("unknown_env", data["env"])):
            unknown = dict.fromkeys((*getattr(self, name), *getattr(other, name)))
            data[name] = tuple(key for key in unknown if key not in known)
        data["complete"] = self.complete or other.complete
        data["complete_env"] = self.complete_env or other.complete_env
        return Deployment.model_validate(data)

    @classmethod
    def from_flags(
        cls,
        *,
        engine_args: tuple[str, ...] = (),
        env: tuple[str, ...] = (),
        features: tuple[str, ...] = (),
        backends: tuple[str, ...] = (),
        dependencies: tuple[str, ...] = (),
        **names: str | None,
    ) -> Self:
        """Parse `KEY=VALUE` pairs, where `KEY` alone is a bare flag; `names` are the other fields.

        Raises InputError for a pair without a key, an unknown key or value, and for bytes that are not UTF-8.
        """
        for text in (*names.values(), *engine_args, *env, *features, *backends, *dependencies):
            if text is not None and any("\ud800" <= sign <= "\udfff" for sign in text):
                raise InputError(f"{text!r} is not UTF-8 text", where="the deployment's flags")
        if (level := names.get("gpu_arch")) is not None and not re.fullmatch(GPU_LEVEL, level):
            raise InputError(f"{level!r} is no GPU architecture", where="--gpu-arch", todo="write sm_90 or gfx942")
        data = {
            **names,
            "engine_args": {
                engine_arg_key(key): True if value is None else _arg_value(value)
                for key, value in (_pair(pair, "--engine-arg") for pair in engine_args)
            },
            "env": {key: value or "" for key, value in (_pair(pair, "--env") for pair in env)},
            "features": dict(_feature(pair) for pair in features),
            "backends": dict(_named(pair, "--backend", get_args(Backend)) for pair in backends),
            "dependencies": dict(_named(pair, "--dependency", None) for pair in dependencies),
        }
        return cls.model_validate(data)


_PARALLEL_SIZES = ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size")
"""vLLM uses one accelerator for each member of each of these, so their product in all."""


def device_count(engine_args: Mapping[str, object]) -> int:
    """Accelerators of a server with these arguments. One that is not set, or that vLLM will refuse, is 1."""
    sizes = {engine_arg_key(key): str(value) for key, value in engine_args.items()}
    found = (sizes.get(name, "") for name in _PARALLEL_SIZES)
    return prod(max(1, int(size)) if size.isascii() and size.isdecimal() else 1 for size in found)


def engine_arg_key(key: str) -> str:
    """`--enable-expert-parallel` and `enable_expert_parallel` are the same argument."""
    return key.lstrip("-").replace("-", "_")


def _pair(text: str, flag: str) -> tuple[str, str | None]:
    key, equals, value = text.partition("=")
    if not key.strip():
        raise InputError(f"{text!r} has no key", where=flag, todo="write KEY=VALUE")
    return key.strip(), value if equals else None


def _feature(text: str) -> tuple[str, bool]:
    """`lora` and `lora=true` are in use, `lora=false` is known not to be in use."""
    key, value = _pair(text, "--feature")
    _check_known(key, "--feature", get_args(Feature))
    used = True if value is None else _arg_value(value)
    if not isinstance(used, bool):
        raise InputError(f"{text!r} is neither true nor false", where="--feature", todo=f"write {key}=true or =false")
    return key, used


def _named(text: str, flag: str, known: Sequence[str] | None) -> tuple[str, str]:
    key, value = _pair(text, flag)
    if known is not None:
        _check_known(key, flag, known)
    if not value:
        raise InputError(f"{text!r} has no value", where=flag, todo="write KEY=VALUE")
    return key, value


def _check_known(key: str, flag: str, known: Sequence[str]) -> None:
    if key not in known:
        raise InputError(f"unknown {key!r}" + did_you_mean(key, known), where=flag, todo=f"one of {', '.join(known)}")


def _arg_value(text: str) -> ArgValue:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if re.fullmatch(r"[-+]?[0-9]{1,300}", text):
        return int(text)
    if re.fullmatch(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?", text) and isfinite(number := float(text)):
        return number
    return text


@dataclass(frozen=True, slots=True)
class DeploymentFacts:
    deployment: Deployment
    version: Version | None = None
    """Of the vLLM that the file is from."""
    notes: Sequence[str] = ()
    """One line each. No fact for matching, but worth knowing."""
