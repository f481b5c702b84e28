"""Rules on kernels: tuned configurations, and the backends that vLLM chose."""

from collections.abc import Callable

from regress_gate.gate.audit.observations import (
    NEEDS_CONCURRENCY,
    Evidence,
    MissingFact,
    Observations,
    argument_evidence,
    log_evidence,
)
from regress_gate.gate.audit.rule import FindingSeverity, Outcome, Rule, clear, fires, not_applicable

_TUNE_MOE = "python benchmarks/kernels/benchmark_moe.py --model {model} --tp-size {size}{dtype} --tune"
_TUNE_BLOCK = "python benchmarks/kernels/benchmark_w8a8_block_fp8.py --tp-size {size} --input-type {type}"
_FOLDER = "put the file into a folder of yours and set VLLM_TUNED_CONFIG_FOLDER to it"
_CONFIGS = "https://github.com/vllm-project/vllm/tree/main/vllm/model_executor/layers"
_SLOW_ATTENTION = frozenset({"FLEX_ATTENTION", "TORCH_SDPA", "TREE_ATTN", "XFORMERS"})
"""Backends that work everywhere and are the fastest nowhere."""
SMALL_BATCH = 8
"""Requests at once up to which grouped DeepGEMM kernels of the experts pad most of what they compute."""


def _size(seen: Observations) -> object:
    return seen.arguments.get("tensor_parallel_size", 1)


def _device(seen: Observations) -> str:
    return seen.deployment.accelerator or "the accelerator that serves"


def _missing_moe_configuration(seen: Observations) -> Outcome:
    if seen.has_experts() is False:
        return not_applicable("the model has no experts")
    if missing := seen.lines("moe_default"):
        quantization = seen.deployment.moe_quantization or seen.deployment.quantization or ""
        command = _TUNE_MOE.format(
            model=seen.deployment.model or "MODEL",
            size=_size(seen),
            dtype=" --dtype fp8_w8a8" if quantization.startswith("fp8") else "",
        )
        if seen.arguments.get("enable_expert_parallel") is True:
            command += " --enable-expert-parallel"
        return fires(
            "vLLM found no tuned MoE configuration for this model on this accelerator",
            *log_evidence(missing),
            remedy=f"on {_device(seen)}: {command}; {_FOLDER}",
        )
    if tuned := seen.lines("moe_tuned"):
        return clear("a tuned MoE configuration is used", *log_evidence(tuned))
    return clear("vLLM did not say that it lacks one; kernels other than Triton's need none")


def _missing_block_configuration(signal: str, kind: str) -> Callable[[Observations], Outcome]:
    def check(seen: Observations) -> Outcome:
        if missing := seen.lines(signal):
            command = _TUNE_BLOCK.format(size=_size(seen), type=kind)
            return fires(
                "vLLM found no tuned configuration for the block-quantized matrices on this accelerator",
                *log_evidence(missing),
                remedy=f"on {_device(seen)}: {command}; {_FOLDER}",
            )
        return clear("vLLM did not say that it lacks one")

    return check


def logged(signal: str, why: str, otherwise: str) -> Callable[[Observations], Outcome]:
    """A rule that fires where the log has the signal."""

    def check(seen: Observations) -> Outcome:
        if lines := seen.lines(signal):
            return fires(why, *log_evidence(lines))
        return clear(otherwise)

    return check


def _emulated_experts(seen: Observations) -> Outcome:
    lines = seen.lines("moe_backend")
    slow = [line for line in lines if "emulation" in line.groups[0].casefold()]
    if slow:
        return fires("the experts run in a backend that emulates their number format", *log_evidence(slow))
    return clear("no backend that emulates", *log_evidence(lines))


def _slow_attention(seen: Observations) -> Outcome:
    platform = seen.platform()
    if platform not in ("cuda", "rocm"):
        return not_applicable(f"{platform} has other backends")
    chosen = seen.lines("attention_backend")
    names = [line.groups[0] for line in chosen]
    if not names and "attention" in seen.facts.backends:
        names = [seen.facts.backends["attention"]]
    if slow := [name for name in names if name in _SLOW_ATTENTION]:
        given = seen.arguments.get("attention_backend") or seen.facts.env.get("VLLM_ATTENTION_BACKEND")
        why = f"attention runs in {slow[0]}" + ("" if given is None else ", which the launch line asks for")
        evidence = log_evidence(chosen) or (Evidence("argument", f"attention backend {slow[0]}"),)
        return fires(why, *evidence)
    if not names:
        return clear("vLLM did not choose one of the slow backends")
    return clear(f"attention runs in {names[0]}", *log_evidence(chosen))


def _small_batches(seen: Observations) -> Outcome:
    level = seen.facts.gpu_arch
    if level is not None and level != "sm_90":
        return not_applicable("the record is of Hopper")
    if seen.has_experts() is False:
        return not_applicable("the model has no experts")
    if not seen.is_on("enable_expert_parallel"):
        return not_applicable("the experts are not divided by expert parallelism")
    seen.gpu_level()
    for name in ("VLLM_USE_DEEP_GEMM", "VLLM_MOE_USE_DEEP_GEMM"):
        if seen.variable(name) == "0":
            return clear(f"{name} switches DeepGEMM off", Evidence("environment", f"{name}=0"))
    if seen.targets.concurrency is None:
        raise MissingFact("how many requests are sent at once is not known", NEEDS_CONCURRENCY)
    if seen.targets.concurrency > SMALL_BATCH:
        return clear(f"{seen.targets.concurrency} requests at once are no small batch")
    return fires(
        f"DeepGEMM computes the experts of at most {seen.targets.concurrency} requests at once",
        argument_evidence("enable_expert_parallel", ""),
    )


RULES: tuple[Rule, ...] = (
    Rule(
        id="MOE001",
        title="No tuned MoE configuration",
        severity=FindingSeverity.MEDIUM,
        why="The Triton kernels of the experts run with block sizes that were not chosen for these shapes and this "
        "accelerator, which costs throughput at most batch sizes.",
        remedy=f"tune once with benchmarks/kernels/benchmark_moe.py --tune, then {_FOLDER}",
        cost="one to some hours on the accelerator, once for each shape, accelerator and version of Triton",
        url=f"{_CONFIGS}/fused_moe/configs",
        check=_missing_moe_configuration,
        signals=("moe_default", "moe_tuned"),
    ),
    Rule(
        id="MOE002",
        title="The experts run in an emulated format",
        severity=FindingSeverity.MEDIUM,
        why="The accelerator, or this combination of settings, has no kernel for the experts' number format: "
        "weights are "
        "converted before every multiplication.",
        remedy="use a checkpoint in a format that the accelerator has kernels for, or another --moe-backend",
        cost="another checkpoint, whose accuracy is to be compared",
        url="https://docs.vllm.ai/en/latest/design/moe_kernel_features.html",
        check=_emulated_experts,
        versions=">=0.15",
        signals=("moe_backend",),
    ),
    Rule(
        id="FP8001",
        title="No tuned configuration for block FP8",
        severity=FindingSeverity.MEDIUM,
        why="The kernels of block-quantized FP8 matrices run with default block sizes, which is slower at "
        "some batch sizes.",
        remedy=f"tune once with benchmarks/kernels/benchmark_w8a8_block_fp8.py, then {_FOLDER}",
        cost="some hours on the accelerator, once",
        url=f"{_CONFIGS}/quantization/utils/configs",
        check=_missing_block_configuration("block_fp8_default", "fp8"),
        signals=("block_fp8_default",),
    ),
    Rule(
        id="INT8001",
        title="No tuned configuration for block INT8",
        severity=FindingSeverity.MEDIUM,
        why="The kernels of block-quantized INT8 matrices run with default block sizes, which is slower at some batch "
        "sizes.",
        remedy=f"tune the shapes that the log names, then {_FOLDER}",
        cost="some hours on the accelerator, once",
        url=f"{_CONFIGS}/quantization/utils/configs",
        check=_missing_block_configuration("block_int8_default", "int8"),
        versions=">=0.11,<0.28",
        signals=("block_int8_default",),
    ),
    Rule(
        id="SSM001",
        title="No tuned configuration for the state-space layers",
        severity=FindingSeverity.MEDIUM,
        why="The state update of Mamba layers, which runs for every token, has default block sizes.",
        remedy=f"tune with benchmarks/kernels/benchmark_mamba_ssu.py on the accelerator that serves, then {_FOLDER}",
        cost="an hour on the accelerator, once",
        url=f"{_CONFIGS}/mamba",
        check=logged(
            "mamba_default",
            "vLLM found no tuned configuration for the state update",
            "vLLM did not say that it lacks one",
        ),
        versions=">=0.22",
        signals=("mamba_default",),
    ),
    Rule(
        id="DG001",
        title="DeepGEMM with small batches of experts",
        severity=FindingSeverity.LOW,
        why="With few tokens for each expert, grouped DeepGEMM kernels pad most of what they compute; TTFT of "
        "DeepSeek-R1 on H200 rose by a third and more with 8 requests at once.",
        remedy="set VLLM_MOE_USE_DEEP_GEMM=0 and measure both",
        cost="slower experts with large batches",
        url="https://github.com/vllm-project/vllm/issues/28882",
        check=_small_batches,
        reads_targets=True,
    ),
    Rule(
        id="DG002",
        title="DeepGEMM is switched off for this model",
        severity=FindingSeverity.NOTE,
        why="On Blackwell, vLLM leaves DeepGEMM out for models whose accuracy its scale format lowers, and "
        "uses CUTLASS.",
        remedy="nothing, but compare the speed with that of other models of this size with care",
        cost="",
        url="https://github.com/vllm-project/vllm/blob/main/vllm/config/vllm.py",
        check=logged("deep_gemm_off", "vLLM fell back to CUTLASS for this model", "vLLM did not switch it off"),
        versions=">=0.18.1",
        signals=("deep_gemm_off",),
    ),
    Rule(
        id="ATT001",
        title="A slow attention backend",
        severity=FindingSeverity.MEDIUM,
        why="A general backend computes attention where a faster one exists for most models on this accelerator.",
        remedy="leave --attention-backend and VLLM_ATTENTION_BACKEND out; if vLLM chooses it itself, its log "
        "says why the "
        "others do not fit (head size, type of the KV cache)",
        cost="",
        url="https://docs.vllm.ai/en/latest/design/attention_backends.html",
        check=_slow_attention,
        versions=">=0.12",
        signals=("attention_backend",),
    ),
    Rule(
        id="SAMP001",
        title="Sampling without FlashInfer",
        severity=FindingSeverity.LOW,
        why="Top-p and top-k sampling sorts the whole vocabulary in PyTorch, which is felt in ITL with large "
        "vocabularies "
        "and batches. Greedy requests do not pay.",
        remedy="set VLLM_USE_FLASHINFER_SAMPLER=1 where FlashInfer supports the accelerator, or send requests without "
        "top_p and top_k",
        cost="another random sequence for seeded requests",
        url="https://docs.vllm.ai/en/latest/configuration/env_vars.html",
        check=logged("sampler_fallback", "FlashInfer's sampler is not used", "vLLM did not fall back"),
        versions=">=0.21",
        signals=("sampler_fallback",),
    ),
)
