"""Rules on kernels: tuned configurations, and the backends that vLLM chose."""

import re
from collections.abc import Callable, Sequence

from regress_gate.gate.audit.observations import (
    NEEDS_CONCURRENCY,
    Evidence,
    MissingFact,
    Observations,
    argument_evidence,
    log_evidence,
)
from regress_gate.gate.audit.rule import FindingSeverity, Outcome, Rule, clear, fires, not_applicable
from regress_gate.vllm.log_signals import LogLine

_SCRIPTS = "python benchmarks/kernels/"
_SHAPES = re.compile(r"\b(E|N|K|headdim|dstate|dtype|cache_dtype|block_shape)=(\[[\d, ]{1,40}\]|\w{1,40})")
"""What the name of a file with a tuned configuration says of the matrices that it is for."""
_FOLDER = "put the file into a folder of yours and set VLLM_TUNED_CONFIG_FOLDER to it"
_CONFIGS = "https://github.com/vllm-project/vllm/tree/main/vllm/model_executor/layers"
_SLOW_ATTENTION = frozenset({"FLEX_ATTENTION", "TORCH_SDPA", "TREE_ATTN", "XFORMERS"})
"""Backends that work everywhere and are the fastest nowhere."""
_MOST_SHAPES = 4
"""Files whose matrices a remedy names."""
SMALL_BATCH = 8
"""Requests at once up to which grouped DeepGEMM kernels of the experts pad most of what they compute."""


def _size(seen: Observations) -> object:
    return seen.arguments.get("tensor_parallel_size", 1)


def _device(seen: Observations) -> str:
    return seen.deployment.accelerator or "the accelerator that serves"


def _shapes(lines: Sequence[LogLine]) -> list[dict[str, str]]:
    """What the lines say of the matrices without a configuration: sizes and type, of each file that was not found."""
    names = [line.groups[0].rpartition("/")[2] for line in lines if line.groups]
    return [shapes for name in dict.fromkeys(names) if (shapes := dict(_SHAPES.findall(name)))]


def _of_model(seen: Observations, lines: Sequence[LogLine]) -> str:
    """For which model and matrices to tune, and where."""
    shapes = ["(" + ", ".join(f"{key}={value}" for key, value in one.items()) + ")" for one in _shapes(lines)]
    named = " ".join([*([seen.deployment.model] if seen.deployment.model else []), ", ".join(shapes[:_MOST_SHAPES])])
    return f"on {_device(seen)}" + (f", for {named.strip()}" if named.strip() else "")


def _missing_moe_configuration(seen: Observations) -> Outcome:
    if seen.has_experts() is False:
        return not_applicable("the model has no experts")
    if missing := seen.lines("moe_default"):
        quantization = seen.deployment.moe_quantization or seen.deployment.quantization or ""
        dtype = next((one["dtype"] for one in _shapes(missing) if "dtype" in one), None)
        if dtype is None and quantization.startswith("fp8"):
            dtype = "fp8_w8a8"
        command = f"{_SCRIPTS}benchmark_moe.py --model {seen.deployment.model or 'MODEL'} --tp-size {_size(seen)}"
        command += "" if dtype is None else f" --dtype {dtype}"
        if seen.arguments.get("enable_expert_parallel") is True:
            command += " --enable-expert-parallel"
        return fires(
            "vLLM found no tuned MoE configuration for this model on this accelerator",
            *log_evidence(missing),
            remedy=f"{_of_model(seen, missing)}: {command} --tune; {_FOLDER}",
        )
    if tuned := seen.lines("moe_tuned"):
        return clear("a tuned MoE configuration is used", *log_evidence(tuned))
    return clear("vLLM did not say that it lacks one; kernels other than Triton's need none")


def _missing_block_fp8(seen: Observations) -> Outcome:
    if missing := seen.lines("block_fp8_default"):
        command = f"{_SCRIPTS}benchmark_w8a8_block_fp8.py --tp-size {_size(seen)} --input-type fp8"
        blocks = next(
            (one["block_shape"].strip("[]").split(",") for one in _shapes(missing) if "block_shape" in one), []
        )
        if len(blocks) == 2:
            command += f" --block-n {blocks[0].strip()} --block-k {blocks[1].strip()}"
        return fires(
            "vLLM found no tuned configuration for the block-quantized matrices on this accelerator",
            *log_evidence(missing),
            remedy=f"{_of_model(seen, missing)}: put each N and K into get_weight_shapes of the script, which has "
            f"those of DeepSeek-V3, then {command}; {_FOLDER}",
        )
    return clear("vLLM did not say that it lacks one")


def _missing_block_int8(seen: Observations) -> Outcome:
    if missing := seen.lines("block_int8_default"):
        return fires(
            "vLLM found no tuned configuration for the block-quantized matrices on this accelerator",
            *log_evidence(missing),
            remedy=f"{_of_model(seen, missing)}: tune the kernel (vLLM has no script for INT8); {_FOLDER}",
        )
    return clear("vLLM did not say that it lacks one")


def _missing_state_configuration(seen: Observations) -> Outcome:
    if missing := seen.lines("mamba_default"):
        size = next((f"--dstate {one['dstate']}" for one in _shapes(missing) if "dstate" in one), "--all-dstates")
        command = f"{_SCRIPTS}benchmark_selective_state_update.py {size} --save-configs"
        return fires(
            "vLLM found no tuned configuration for the state update",
            *log_evidence(missing),
            remedy=f"{_of_model(seen, missing)}: {command}; {_FOLDER}",
        )
    return clear("vLLM did not say that it lacks one")


def missing_adapter_configuration(seen: Observations) -> Outcome:
    if missing := seen.lines("lora_default"):
        command = f"{_SCRIPTS}benchmark_lora.py model_bench --models {seen.deployment.model or 'MODEL'}"
        command += f" --tp-sizes {_size(seen)}"
        for flag, name in (("--lora-ranks", "max_lora_rank"), ("--num-loras", "max_loras")):
            if (value := seen.arguments.get(name)) is not None:
                command += f" {flag} {value}"
        return fires(
            "vLLM found no tuned configuration for the adapters",
            *log_evidence(missing),
            remedy=f"on {_device(seen)}: {command}; write the fastest sizes into files as README_TUNING.md beside the "
            f"kernels has it; {_FOLDER}",
        )
    return clear("vLLM did not say that it lacks one")


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
    if (seen.facts.platform or "cuda") not in ("cuda", "rocm"):
        return not_applicable(f"{seen.facts.platform} has other backends")
    argument, variable = seen.arguments.get("attention_backend"), seen.facts.env.get("VLLM_ATTENTION_BACKEND")
    if seen.build is not None and "VLLM_ATTENTION_BACKEND" not in seen.build.env:
        variable = None
    asked = {
        argument_evidence("attention_backend", argument): str(argument).upper(),
        Evidence("environment", f"VLLM_ATTENTION_BACKEND={variable}"): str(variable).upper(),
    }
    for evidence, name in asked.items():
        if name in _SLOW_ATTENTION:
            return fires(f"attention runs in {name}, which the launch line asks for", evidence)
    seen.platform()
    chosen = seen.lines("attention_backend")
    names = [line.groups[0] for line in chosen]
    if not names and "attention" in seen.facts.backends:
        names = [seen.facts.backends["attention"]]
    if slow := [name for name in names if name in _SLOW_ATTENTION]:
        by_log = log_evidence(chosen) or (Evidence("argument", f"attention backend {slow[0]}"),)
        return fires(f"attention runs in {slow[0]}", *by_log)
    if not names:
        return clear("vLLM did not choose one of the slow backends")
    return clear(f"attention runs in {names[0]}", *log_evidence(chosen))


def _no_flashinfer_sampler(seen: Observations) -> Outcome:
    if seen.facts.env.get("VLLM_USE_FLASHINFER_SAMPLER") == "0":
        return fires(
            "a variable switches FlashInfer's sampler off", Evidence("environment", "VLLM_USE_FLASHINFER_SAMPLER=0")
        )
    if lines := seen.lines("sampler_fallback"):
        return fires("FlashInfer's sampler is not used", *log_evidence(lines))
    return clear("vLLM did not fall back")


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
        remedy=f"tune once with benchmarks/kernels/benchmark_moe.py, then {_FOLDER}",
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
        # Before 0.24 no backend of experts emulates.
        versions=">=0.24",
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
        check=_missing_block_fp8,
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
        check=_missing_block_int8,
        versions=">=0.11,<0.28",
        signals=("block_int8_default",),
    ),
    Rule(
        id="SSM001",
        title="No tuned configuration for the state-space layers",
        severity=FindingSeverity.MEDIUM,
        why="The state update of Mamba layers, which runs for every token, has default block sizes.",
        remedy="tune with benchmarks/kernels/benchmark_selective_state_update.py on the accelerator that serves, then "
        f"{_FOLDER}",
        cost="an hour on the accelerator, once",
        url=f"{_CONFIGS}/mamba",
        check=_missing_state_configuration,
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
        versions=">=0.11.1",
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
        remedy="leave the choice of the attention backend to vLLM; if it chooses this one itself, its log says why the "
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
        check=_no_flashinfer_sampler,
        versions=">=0.21",
        signals=("sampler_fallback",),
    ),
)
