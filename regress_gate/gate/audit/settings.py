"""Rules on variables, flags, and features that need settings: FP8, drafts, adapters, pictures."""

from regress_gate.gate.audit.kernels import missing_adapter_configuration
from regress_gate.gate.audit.observations import (
    NEEDS_ENVIRONMENT,
    NEEDS_LINE,
    NEEDS_MODEL,
    NEEDS_VERSION,
    NEEDS_WINDOW,
    Evidence,
    MissingFact,
    Observations,
    argument_evidence,
    log_evidence,
)
from regress_gate.gate.audit.rule import FindingSeverity, Outcome, Rule, clear, fires, not_applicable
from regress_gate.gate.launch_line import RefusalKind, find_launch_problems, is_fork

_VARIABLES = "https://docs.vllm.ai/en/latest/configuration/env_vars.html"
_HARMFUL_NCCL = {
    "NCCL_P2P_DISABLE": ("1", "accelerators exchange through the memory of the host"),
    "NCCL_SHM_DISABLE": ("1", "accelerators of one host exchange through the network"),
    "NCCL_IB_DISABLE": ("1", "hosts exchange over TCP instead of InfiniBand or RoCE"),
    "NCCL_NVLS_ENABLE": ("0", "reductions in the switch are off"),
    "NCCL_P2P_LEVEL": ("LOC", "accelerators never exchange directly"),
    "NCCL_LAUNCH_MODE": ("GROUP", "collectives wait for each other"),
}
_DEBUGGING = {
    "CUDA_LAUNCH_BLOCKING": ("1",),
    "HIP_LAUNCH_BLOCKING": ("1",),
    "AMD_SERIALIZE_KERNEL": ("1", "2", "3"),
    "TORCH_CPP_LOG_LEVEL": ("INFO",),
    "NCCL_DEBUG": ("TRACE",),
    "VLLM_TRACE_FUNCTION": ("1",),
    "VLLM_LOGGING_LEVEL": ("DEBUG",),
    "VLLM_COMPUTE_NANS_IN_LOGITS": ("1",),
}
"""Variables for finding faults, and the values that slow a server down."""
LEAST_ACCEPTED = 0.3
"""Share of accepted drafts, below which they rarely pay for themselves."""
_FEW_DRAFTS = 1000
_NATIVE_FP8 = {"sm_89", "sm_90", "sm_100", "sm_103", "sm_110", "sm_120", "sm_121", "gfx942", "gfx950"}
_FEW_ADAPTERS = 1


def _unknown_variables(seen: Observations) -> Outcome:
    lines = [] if seen.log is None else list(seen.log.found("unknown_variable"))
    if lines:
        return fires("vLLM does not know a variable: misspelt, or removed in this release", *log_evidence(lines))
    if seen.build is not None and not is_fork(seen.deployment.distribution):
        names = [*seen.facts.env, *seen.facts.unknown_env]
        problems = [each for each in find_launch_problems(seen.build, {}, names) if each.code is RefusalKind.VARIABLE]
        if problems:
            return fires(
                problems[0].text + problems[0].hint, *(Evidence("environment", one.key) for one in problems[:5])
            )
        if seen.facts.complete_env:
            return clear(f"vLLM {seen.version} reads all variables that are set")
    elif seen.build is None and seen.facts.complete_env:
        raise MissingFact("the version of vLLM is not known", NEEDS_VERSION)
    if seen.log is None or not seen.log.has_start:
        raise MissingFact("not all variables are known", NEEDS_ENVIRONMENT)
    seen.lines("unknown_variable")
    return clear("vLLM did not complain of a variable")


def _set_variables(seen: Observations, harmful: dict[str, tuple[str, ...]]) -> list[Evidence]:
    return [
        Evidence("environment", f"{name}={seen.facts.env[name]}")
        for name, values in harmful.items()
        if seen.facts.env.get(name, "").upper() in values
    ]


def _harmful_nccl(seen: Observations) -> Outcome:
    found = _set_variables(seen, {name: (value,) for name, (value, _) in _HARMFUL_NCCL.items()})
    if found:
        name = found[0].text.partition("=")[0]
        return fires(f"{name}: {_HARMFUL_NCCL[name][1]}", *found)
    if not seen.facts.complete_env:
        raise MissingFact("not all variables are known", NEEDS_ENVIRONMENT)
    return clear("no variable slows the exchange down")


def _debugging(seen: Observations) -> Outcome:
    if found := _set_variables(seen, _DEBUGGING):
        return fires("a variable for finding faults is set", *found)
    if not seen.facts.complete_env:
        raise MissingFact("not all variables are known", NEEDS_ENVIRONMENT)
    return clear("no variable for finding faults is set")


def _unknown_flags(seen: Observations) -> Outcome:
    if seen.version is None:
        raise MissingFact("the version of vLLM is not known", NEEDS_VERSION)
    if seen.build is None:
        raise MissingFact(f"the arguments of {seen.version} are not known", "regress-gate diff-config --refresh")
    if is_fork(seen.deployment.distribution):
        return not_applicable("a fork may have other arguments")
    if not seen.deployment.engine_args and not seen.facts.complete:
        raise MissingFact("there is no launch line", NEEDS_LINE)
    problems = find_launch_problems(seen.build, seen.deployment.engine_args, (), seen.deployment.unknown_args)
    if problems:
        first = problems[0]
        return fires(first.text + first.hint, *(Evidence("argument", each.text) for each in problems[:5]))
    return clear(f"vLLM {seen.version} takes all arguments")


def _fp8_without_hardware(seen: Observations) -> Outcome:
    if seen.log is not None and (lines := seen.log.found("no_native_fp8")):
        return fires("the accelerator has no FP8 arithmetic", *log_evidence(lines))
    quantization = seen.deployment.quantization or seen.facts.args.get("quantization")
    if quantization is None:
        raise MissingFact("the quantization is not known", "--quantization NAME")
    if "fp8" not in str(quantization):
        return not_applicable("the weights are not FP8")
    level = seen.gpu_level()
    if level in _NATIVE_FP8:
        return clear(f"{level} computes in FP8")
    return fires(
        f"{level} has no FP8 arithmetic",
        Evidence("accelerator", level),
        Evidence("model", f"quantization {quantization}"),
    )


def _low_acceptance(seen: Observations) -> Outcome:
    if seen.facts.features.get("speculative_decoding") is False:
        return not_applicable("the server drafts nothing")
    window = seen.window()
    if not window.has("vllm:spec_decode_num_draft_tokens_total"):
        return not_applicable("the server drafts nothing")
    drafted = window.increase("vllm:spec_decode_num_draft_tokens_total")
    if drafted < _FEW_DRAFTS:
        raise MissingFact(f"{drafted:.0f} drafted tokens between the scrapes are too few", NEEDS_WINDOW)
    share = window.increase("vllm:spec_decode_num_accepted_tokens_total") / drafted
    evidence = window.evidence(f"{share:.0%} of {drafted:.0f} drafted tokens were accepted")
    if share < LEAST_ACCEPTED:
        return fires("most drafted tokens are computed for nothing", evidence)
    return clear(f"{share:.0%} of the drafted tokens are accepted", evidence)


def _few_slots(seen: Observations) -> Outcome:
    on = seen.facts.features.get("lora")
    if on is False:
        return not_applicable("the server has no adapters")
    if seen.metrics is not None and (waiting := seen.metrics.label("vllm:lora_requests_info", "waiting_lora_adapters")):
        limit = seen.metrics.label("vllm:lora_requests_info", "max_lora") or "?"
        evidence = seen.metrics.evidence(f"adapters waiting for one of {limit} slots: {waiting}")
        return fires("requests wait for an adapter's slot", evidence)
    if on is None:
        raise MissingFact("whether the server has adapters is not known", NEEDS_LINE)
    slots = seen.whole_number("max_loras") or _FEW_ADAPTERS
    modules = seen.arguments.get("lora_modules")
    count = str(modules).count("=") or str(modules).count('"name"') if modules is not None else 0
    given = argument_evidence("max_loras", slots)
    if count > slots:
        return fires(f"{count} adapters share {slots} slots", given, argument_evidence("lora_modules", modules))
    if not seen.window().has("vllm:lora_requests_info"):
        raise MissingFact("whether adapters wait was not counted", NEEDS_WINDOW)
    return clear("no adapter waits for a slot", given)


def _multimodal_limits(seen: Observations) -> Outcome:
    multimodal = seen.facts.features.get("multimodal")
    if multimodal is None and seen.model is not None:
        multimodal = any("vision" in key or "audio" in key for key in seen.model.whole)
    if multimodal is None:
        raise MissingFact("whether the model takes pictures is not known", NEEDS_MODEL)
    if not multimodal:
        return not_applicable("the model takes text only")
    set_names = ("limit_mm_per_prompt", "language_model_only")
    found = [name for name in seen.arguments if name.partition(".")[0] in set_names]
    if found:
        return clear("the launch line limits them", argument_evidence(found[0], seen.arguments[found[0]]))
    seen.given("limit_mm_per_prompt")
    return fires(
        "the launch line does not say how many pictures a prompt may have",
        Evidence("argument", "--limit-mm-per-prompt is not set"),
    )


RULES: tuple[Rule, ...] = (
    Rule(
        id="ENV001",
        title="A variable that vLLM does not read",
        severity=FindingSeverity.MEDIUM,
        why="What the variable was to change has its default: a tuned setting is lost without an error, often after an "
        "upgrade.",
        remedy="correct or remove it; if it has a successor, regress-gate check names it",
        cost="",
        url=_VARIABLES,
        check=_unknown_variables,
        signals=("unknown_variable",),
    ),
    Rule(
        id="ENV002",
        title="NCCL is slowed down by a variable",
        severity=FindingSeverity.MEDIUM,
        why="The exchange among accelerators takes a slower way at every layer.",
        remedy="remove the variable, unless it works around a fault of this machine that is still there",
        cost="a test that the machine's links work",
        url="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html",
        check=_harmful_nccl,
    ),
    Rule(
        id="ENV003",
        title="Variables for finding faults are set",
        severity=FindingSeverity.MEDIUM,
        why="Kernels wait for each other, or every step writes to the log.",
        remedy="remove the variable in production",
        cost="",
        url="https://docs.vllm.ai/en/latest/usage/troubleshooting.html",
        check=_debugging,
    ),
    Rule(
        id="ARG001",
        title="A flag that this release does not take",
        severity=FindingSeverity.HIGH,
        why="vLLM refuses to start, or ignores what is set.",
        remedy="change the launch line; regress-gate diff-config names the release that removed a flag, and "
        "its successor",
        cost="",
        url="https://docs.vllm.ai/en/latest/cli/serve.html",
        check=_unknown_flags,
    ),
    Rule(
        id="FP8002",
        title="FP8 weights on an accelerator without FP8",
        severity=FindingSeverity.MEDIUM,
        why="Weights are stored in 8 bits and computed in 16: memory is saved, time is not, and prefill is "
        "often slower "
        "than with 16-bit weights.",
        remedy="use an INT8 (W8A8) or INT4 checkpoint on this accelerator, or one with FP8 arithmetic",
        cost="another checkpoint, whose accuracy is to be compared",
        url="https://docs.vllm.ai/en/latest/features/quantization/index.html",
        check=_fp8_without_hardware,
        signals=("no_native_fp8",),
    ),
    Rule(
        id="SPEC001",
        title="Few drafted tokens are accepted",
        severity=FindingSeverity.MEDIUM,
        why="Drafting and checking cost time in every step; with few accepted tokens, and always with large "
        "batches, that "
        "is more than they save.",
        remedy="draft fewer tokens (num_speculative_tokens), use a draft trained for this model, or none",
        cost="latency of single requests where drafts did pay",
        url="https://docs.vllm.ai/en/latest/features/spec_decode.html",
        check=_low_acceptance,
        metrics=("vllm:spec_decode_num_draft_tokens_total", "vllm:spec_decode_num_accepted_tokens_total"),
    ),
    Rule(
        id="LORA001",
        title="Adapters wait for a slot",
        severity=FindingSeverity.MEDIUM,
        why="A step holds --max-loras adapters: requests of others wait, however much room there is.",
        remedy="raise --max-loras to the adapters that are used at once",
        cost="memory for each slot",
        url="https://docs.vllm.ai/en/latest/features/lora.html",
        check=_few_slots,
        metrics=("vllm:lora_requests_info",),
    ),
    Rule(
        id="LORA002",
        title="No tuned configuration for adapters",
        severity=FindingSeverity.LOW,
        why="The kernels of the adapters run with default block sizes.",
        remedy="tune with benchmarks/kernels/benchmark_lora.py and set VLLM_TUNED_CONFIG_FOLDER",
        cost="hours on the accelerator, once",
        url="https://github.com/vllm-project/vllm/tree/main/vllm/lora/ops/triton_ops",
        check=missing_adapter_configuration,
        versions=">=0.11.1",
        signals=("lora_default",),
    ),
    Rule(
        id="MM001",
        title="No limit on pictures a prompt",
        severity=FindingSeverity.NOTE,
        why="vLLM reserves memory for the largest prompt with pictures that it may get; a server of text "
        "alone reserves it "
        "for nothing.",
        remedy="set --limit-mm-per-prompt to what you send, to 0 of each kind for text alone",
        cost="requests with more pictures are refused",
        url="https://docs.vllm.ai/en/latest/configuration/conserving_memory.html",
        check=_multimodal_limits,
    ),
)
