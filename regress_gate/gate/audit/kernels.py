"""Rules on kernels: tuned configurations, and the backends that vLLM chose."""

from regress_gate.gate.audit.observations import Observations, log_evidence
from regress_gate.gate.audit.rule import FindingSeverity, Outcome, Rule, clear, fires, not_applicable

_TUNE_MOE = "python benchmarks/kernels/benchmark_moe.py --model {model} --tp-size {size}{dtype} --tune"
_FOLDER = "put the file into a folder of yours and set VLLM_TUNED_CONFIG_FOLDER to it"


def _missing_moe_configuration(seen: Observations) -> Outcome:
    if seen.model is not None and not seen.model.is_moe:
        return not_applicable("the model has no experts")
    if missing := seen.lines("moe_default"):
        model = seen.deployment.model or "MODEL"
        quantization = seen.deployment.moe_quantization or seen.deployment.quantization or ""
        dtype = " --dtype fp8_w8a8" if quantization.startswith("fp8") else ""
        size = seen.arguments.get("tensor_parallel_size", 1)
        expert_parallel = " --enable-expert-parallel" if seen.arguments.get("enable_expert_parallel") is True else ""
        command = _TUNE_MOE.format(model=model, size=size, dtype=dtype) + expert_parallel
        device = seen.device_name() or "the accelerator that serves"
        return fires(
            "vLLM found no tuned MoE configuration for this model on this accelerator",
            *log_evidence(missing),
            remedy=f"on {device}: {command}; {_FOLDER}",
        )
    if tuned := seen.lines("moe_tuned"):
        return clear("a tuned MoE configuration is used", *log_evidence(tuned))
    return clear("vLLM did not say that it lacks one; kernels other than Triton's need none")


RULES: tuple[Rule, ...] = (
    Rule(
        id="MOE001",
        title="No tuned MoE configuration",
        severity=FindingSeverity.MEDIUM,
        why="The Triton kernels of the experts run with block sizes that were not chosen for these shapes and this "
        "accelerator, which costs throughput at most batch sizes.",
        remedy=f"tune once with benchmarks/kernels/benchmark_moe.py --tune, then {_FOLDER}",
        cost="one to some hours on the accelerator, once for each shape, accelerator and version of Triton",
        url="https://github.com/vllm-project/vllm/tree/main/vllm/model_executor/layers/fused_moe/configs",
        check=_missing_moe_configuration,
        signals=("moe_default", "moe_tuned"),
    ),
)
