"""Derives facts from a deployment: platform and level from the accelerator, sizes from the engine arguments.

They are derived once per deployment and compared with a thousand records. A fact that is neither given nor derivable
stays unknown. A default counts as a fact only if the launch line is complete.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from packaging.utils import canonicalize_name

from regress_gate.accelerators.registry import gpu_level, identify, platform_of
from regress_gate.known.matching import names
from regress_gate.known.matching.models import architecture_of, features_of
from regress_gate.model.deployment import ArgValue, Deployment, Feature
from regress_gate.vllm.image_names import read_image

ENGINE_DEFAULTS: Mapping[str, ArgValue] = {
    "tensor_parallel_size": 1,
    "pipeline_parallel_size": 1,
    "data_parallel_size": 1,
    "decode_context_parallel_size": 1,
    "prefill_context_parallel_size": 1,
    "enable_expert_parallel": False,
    "enable_eplb": False,
    "enable_dbo": False,
    "all2all_backend": "allgather_reducescatter",
    "kv_cache_dtype": "auto",
    "moe_backend": "auto",
    "enforce_eager": False,
    "enable_lora": False,
    "fully_sharded_loras": False,
    "enable_sleep_mode": False,
    "enable_auto_tool_choice": False,
    "enable_return_routed_experts": False,
    "enable_prompt_embeds": False,
    "disable_custom_all_reduce": False,
    "disable_sliding_window": False,
    "cpu_offload_gb": 0,
    "scheduling_policy": "fcfs",
    "mm_encoder_tp_mode": "weights",
    "load_format": "auto",
    "tokenizer_mode": "auto",
    "model_impl": "auto",
    "stream_interval": 1,
    "language_model_only": False,
    "headless": False,
    "trust_remote_code": False,
}
"""The same in all builds of which this program ships the configuration (0.19.0 to 0.32.0)."""
UNSET_BY_DEFAULT = (
    *("speculative_config", "kv_transfer_config", "lora_modules", "kv_events_config", "kv_offloading_size"),
    *("reasoning_parser", "additional_config", "tool_call_parser", "logits_processors"),
    *("hf_overrides", "override_generation_config"),
)
"""Arguments that are null or empty by default, which means: not in use."""
OFTEN_SET = (
    *("gpu_memory_utilization", "max_model_len", "max_num_seqs", "max_num_batched_tokens", "kv_cache_dtype"),
    "enable_prefix_caching",
)
"""The limits, the type of the cache and the switch for shared prefixes, each of which 15 % or more of the launch lines
in public reports set (194 lines, benchmarks/held_out*.yaml): nobody is taken to leave them alone whose line is not
known."""
NEVER_CHOSEN: Mapping[str, tuple[str, ...]] = {
    "attention_backend": ("CUSTOM", "TREE_ATTN"),
    "quantization": ("experts_int8", "moe_wna16", "ptpc_fp8", "tpu_int8"),
}
"""Values that only the user gives to an argument which vLLM fills in where it is not set: of all backends for attention
two were never chosen for anybody, and these quantizations are no format of a checkpoint."""

OPT_IN_FEATURES: tuple[Feature, ...] = ("lora", "speculative_decoding", "disaggregated_prefill", "structured_output")
"""Features that are off unless the launch line or the requests ask for them."""
FEATURE_ARGS: Mapping[str, tuple[str, ...]] = {
    "lora": ("enable_lora",),
    "speculative_decoding": ("speculative_config", "speculative_model"),
    "disaggregated_prefill": ("kv_transfer_config",),
}
"""Arguments that switch a feature on."""
_ASKS_FOR_STRUCTURE = (
    *("enable_auto_tool_choice", "tool_call_parser", "structured_outputs_config", "guided_decoding_backend"),
)
"""Arguments of servers whose users ask for structured output. A request may ask without any, which is rare."""

_SIZES = ("tensor", "pipeline", "data")
_TRANSFER_ROLES = ("kv_producer", "kv_consumer")
_TRANSFER_CONNECTORS = ("nixl", "p2pnccl", "mooncake", "moriio")


@dataclass(frozen=True, slots=True)
class ScopeFacts:
    """Facts of one deployment. None, or a key that a mapping lacks, means unknown."""

    platform: str | None
    accelerator: str | None
    gpu_arch: str | None
    model: str | None
    architecture: str | None
    features: Mapping[str, bool]
    quantizations: tuple[str, ...]
    """The deployment's own quantization, then vLLM's argument."""
    kv_cache_dtype: str | None
    moe_quantization: str | None
    sizes: Mapping[str, ArgValue]
    """Of the tensor, pipeline and data parallel groups."""
    backends: Mapping[str, str]
    dependencies: Mapping[str, str]
    """By canonical name."""
    distribution: str | None
    args: Mapping[str, ArgValue]
    """By full name, with the defaults that are facts."""
    set_args: frozenset[str]
    """Those of them that the launch line sets, to whatever value; with the whole of which it sets a part."""
    unused: frozenset[str]
    """Arguments that are known not to be set, and for which that means: not in use."""
    env: Mapping[str, str]
    open_args: frozenset[str]
    """Arguments that are set to an unknown value: they have no default and are not off."""
    unknown_env: frozenset[str]
    """Variables that are set to an unknown value."""
    complete_env: bool
    """Whether no others are set."""
    complete: bool
    """Whether the whole launch line is given."""


def derive_facts(deployment: Deployment) -> ScopeFacts:
    """The facts that the deployment gives or that follow from it."""
    args = names.canonical_args(deployment.engine_args)
    set_args = frozenset(args) | {key.partition(".")[0] for key in args}
    unused: frozenset[str] = frozenset()
    open_args = {key.partition(".")[0] for key in names.canonical_args(dict.fromkeys(deployment.unknown_args, True))}
    if deployment.complete:
        unused = frozenset(key for key in UNSET_BY_DEFAULT if not _is_set(key, args) and key not in open_args)
        args = {**{key: value for key, value in ENGINE_DEFAULTS.items() if key not in open_args}, **args}
    hardware = identify(deployment.accelerator or "")
    level = gpu_level(deployment.gpu_arch or "") or hardware.gpu_arch
    architecture = deployment.architecture or (architecture_of(deployment.model) if deployment.model else None)
    stated = (deployment.quantization, args.get("quantization"))
    kv_cache_dtype = deployment.kv_cache_dtype or args.get("kv_cache_dtype")
    return ScopeFacts(
        platform=deployment.platform or hardware.platform or (platform_of(level) if level else None),
        accelerator=deployment.accelerator,
        gpu_arch=level,
        model=deployment.model,
        architecture=architecture,
        features={
            str(feature): used
            for source in (
                features_of(architecture, deployment.model),
                _features(args, unused, open_args, complete=deployment.complete),
                deployment.features,
            )
            for feature, used in source.items()
        },
        quantizations=tuple(str(fact) for fact in stated if fact is not None),
        kv_cache_dtype=None if kv_cache_dtype is None else str(kv_cache_dtype),
        moe_quantization=deployment.moe_quantization,
        sizes={size: args[key] for size in _SIZES if (key := f"{size}_parallel_size") in args},
        backends={str(part): name for part, name in deployment.backends.items()},
        dependencies=_of_image(deployment.distribution)
        | {canonicalize_name(name): version for name, version in deployment.dependencies.items()},
        distribution=deployment.distribution,
        args=args,
        set_args=set_args,
        unused=unused,
        env=deployment.env,
        open_args=frozenset(open_args),
        unknown_env=frozenset(deployment.unknown_env),
        complete_env=deployment.complete_env,
        complete=deployment.complete,
    )


def _of_image(distribution: str | None) -> dict[str, str]:
    """What is known of the packages in an image by its name alone."""
    python = None if distribution is None else read_image(distribution).python
    return {} if python is None else {"python": python}


def _features(
    args: Mapping[str, ArgValue], unused: frozenset[str], open_args: Collection[str], *, complete: bool
) -> dict[Feature, bool]:
    """Features that the launch line switches on or off; of a complete one, those that it does not switch on are off.

    `open_args` are set to unknown values.
    """
    features: dict[Feature, bool] = {}
    asks = (key in open_args or (_is_set(key, args) and args.get(key) is not False) for key in _ASKS_FOR_STRUCTURE)
    if complete and not any(asks):
        features["structured_output"] = False
    if isinstance(lora := args.get("enable_lora"), bool):
        features["lora"] = lora
    if isinstance(prefix_caching := args.get("enable_prefix_caching"), bool):
        features["prefix_caching"] = prefix_caching
    if _is_set("speculative_config", args) or "speculative_model" in args:
        features["speculative_decoding"] = True
    elif "speculative_config" in unused:
        features["speculative_decoding"] = False
    if "kv_transfer_config" in unused:
        features["disaggregated_prefill"] = False
    elif _is_disaggregated(args):
        features["disaggregated_prefill"] = True
    if args.get("language_model_only") is True:
        features["multimodal"] = False
    if args.get("task") in ("embed", "embedding") or args.get("convert") == "embed":
        features["embedding"] = True
    if args.get("task") in ("score", "rerank"):
        features["rerank"] = True
    return features


def _is_set(key: str, args: Mapping[str, ArgValue]) -> bool:
    return key in args or any(name.startswith(f"{key}.") for name in args)


def _is_disaggregated(args: Mapping[str, ArgValue]) -> bool:
    """Whether the KV cache is exchanged with another server, not only with memory or disk."""
    connector = str(args.get("kv_transfer_config.kv_connector", "")).casefold()
    role = args.get("kv_transfer_config.kv_role")
    return role in _TRANSFER_ROLES or connector.startswith(_TRANSFER_CONNECTORS)
