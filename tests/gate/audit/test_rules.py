"""Each rule on deployments of several releases: where it fires, where it is clear, and what it cannot tell."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from regress_gate.gate.audit.engine import RULES
from regress_gate.gate.audit.observations import Observations, Targets
from regress_gate.gate.audit.rule import Answer
from regress_gate.model.deployment import Deployment
from tests.factories.audits import a_log, a_window, ask, observed, statistics_line
from tests.factories.released_signals import releases

FIRES, CLEAR, UNKNOWN, NOT_HERE = Answer.FIRES, Answer.CLEAR, Answer.CANNOT_TELL, Answer.NOT_APPLICABLE
MIXTRAL = {
    "architectures": ["MixtralForCausalLM"],
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "hidden_size": 4096,
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
}
LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "hidden_size": 4096,
    "max_position_embeddings": 131072,
}
MOE_LINE = "Using default MoE config. Performance might be sub-optimal! Config file not found at "
UNTUNED_BLOCK = (
    "Using default W8A8 Block {} kernel config. Performance might be sub-optimal! Config file not found at /x.json"
)
NO_FP8 = "Your GPU does not have native support for FP8 computation but FP8 quantization is being used."
GRAPH_MEMORY = (
    "CUDA graph memory profiling is enabled (default since v0.21.0). The current --gpu-memory-utilization=0.9200 is "
    "equivalent to --gpu-memory-utilization=0.8700 without CUDA graph memory profiling."
)
MOE_FILE = "/x/E=8,N=14336,device_name=NVIDIA_H200.json"


DEEPSEEK = {
    "architectures": ["DeepseekV32ForCausalLM"],
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "hidden_size": 7168,
    "n_routed_experts": 256,
    "num_experts_per_tok": 8,
    "kv_lora_rank": 512,
    "index_topk": 2048,
}
MAVERICK = {**MIXTRAL, "num_local_experts": 128, "num_experts_per_tok": 1}
VISION = {**LLAMA, "vision_config": {"hidden_size": 1024}}


class Case(NamedTuple):
    rule: str
    name: str
    seen: Observations
    expected: Answer


class LoggedRule(NamedTuple):
    """Of a line of a log that is a finding: releases that print it, and the line."""

    rule: str
    versions: tuple[str, str]
    line: str
    fields: Mapping[str, Any] = MappingProxyType({})


LOGGED = (
    LoggedRule("MOE001", ("0.19.1", "0.32.0"), f"{MOE_LINE}['{MOE_FILE}']"),
    LoggedRule("MOE002", ("0.24.0", "0.32.0"), "Using Int4EmulationTritonExperts MoE backend. Int4 weights "
    "are dequantized"),
    LoggedRule("FP8001", ("0.19.1", "0.32.0"), UNTUNED_BLOCK.format("FP8")),
    LoggedRule("INT8001", ("0.19.1", "0.27.1"), UNTUNED_BLOCK.format("INT8")),
    LoggedRule("SSM001", ("0.24.0", "0.32.0"), "Using default Mamba SSU config. Performance might be sub-optimal!"),
    LoggedRule("LORA002", ("0.19.1", "0.32.0"), "Using default LoRA kernel configs"),
    LoggedRule("DG002", ("0.19.1", "0.32.0"), "Auto-disabled DeepGemm for model_type=qwen3_5 on Blackwell. "
    "DeepGemm E8M0"),
    LoggedRule("SAMP001", ("0.21.0", "0.22.1"), "FlashInfer top-p/top-k sampling not supported on compute capability "
    "7.0; falling back to PyTorch-native sampler."),
    LoggedRule("SAMP001", ("0.24.0", "0.32.0"), "FlashInfer top-p/top-k sampling unavailable: no nvcc; "
    "falling back. Set"),
    LoggedRule("TP001", ("0.11.0", "0.32.0"), "Custom allreduce is disabled because it's not supported on "
    "more than two"),
    LoggedRule("FP8002", ("0.11.0", "0.32.0"), NO_FP8, {"quantization": "fp8", "accelerator": "H200"}),
    LoggedRule("KV002", ("0.21.0", "0.32.0"), GRAPH_MEMORY),
    LoggedRule("KV005", ("0.19.1", "0.32.0"), "Turning off hybrid kv cache manager because "
    "`--kv-transfer-config` is set."),
    LoggedRule("KV005", ("0.11.0", "0.24.0"), "There is a latency regression when using chunked local "
    "attention with the hybrid KV cache manager. D"),
    LoggedRule("KV006", ("0.24.0", "0.32.0"), "FP8 KV cache is enabled but prefill queries are not quantized "
    "to FP8. Con"),
    LoggedRule("PC001", ("0.19.1", "0.32.0"), "Disabling prefix caching for FLASHINFER/TRITON_MLA with batch "
    "invariance"),
    LoggedRule("SCHED002", ("0.19.1", "0.32.0"), "Async scheduling will be disabled because it is not "
    "supported with the `ray`"),
    LoggedRule("SCHED002", ("0.24.0", "0.32.0"), "Async scheduling not supported with medusa-based "
    "speculative decoding and w"),
    LoggedRule("SCHED002", ("0.11.1", "0.13.0"), "Async scheduling is not yet supported with speculative decoding or "
    "pipeline_parallel_size > 1 and will be disabled."),
    LoggedRule("SCHED002", ("0.14.0", "0.14.1"), "Async scheduling is not yet supported with "
    "pipeline_parallel_size > 1 and will be disabled."),
    LoggedRule("SCHED002", ("0.24.0", "0.33.0"), "Using custom scheduler class my.Scheduler. If you "
    "have subclassed Scheduler instead of AsyncScheduler, you will see"),
    LoggedRule("CG002", ("0.28.0", "0.33.0"), "Skipping encoder and decoder CUDA graph capture. To enable encoder"),
    LoggedRule("CG002", ("0.17.0", "0.33.0"), "XPU Graph is not supported in the current PyTorch version, disabling "
    "cudagraph_mode."),
    LoggedRule("CG001", ("0.19.1", "0.32.0"), "Enforce eager set, disabling torch.compile and CUDAGraphs. This is"),
    LoggedRule("CG002", ("0.19.1", "0.32.0"), "KV connector X requires PIECEWISE CUDA graph mode due to "
    "layerwise async "
               "operations that cannot be captured in CUDA graphs. Overriding cudagraph_mode from FULL to PIECEWISE."),
    LoggedRule("CG002", ("0.15.0", "0.32.0"), "CUDAGraphMode.FULL is not supported with X backend; setting "
    "cudagraph_mode=NONE"),
    LoggedRule("CG004", ("0.18.0", "0.19.1"), "Capping cudagraph capture sizes from max 512 to 64 to fit "
    "Mamba cache blocks"),
    LoggedRule("ATT001", ("0.19.1", "0.32.0"), "Using FLEX_ATTENTION attention backend out of potential backends: "
               "['FLEX_ATTENTION']", {"accelerator": "H200"}),
    LoggedRule("ENV001", ("0.19.1", "0.32.0"), "Unknown vLLM environment variable detected: VLLM_USE_V1_TYPO"),
)  # fmt: skip


def every_case() -> Iterator[Case]:
    for logged in LOGGED:
        for version in logged.versions:
            fields = {"engine_args": {"enforce_eager": False}, **logged.fields}
            found = observed(version, log=a_log(logged.line, version=version), **fields)
            yield Case(logged.rule, f"{version} {logged.line[:30]}", found, FIRES)
            yield Case(
                logged.rule, f"{version} clean log", observed(version, log=a_log(version=version), **fields), CLEAR
            )
    for version in ("0.19.1", "0.32.0"):
        for group in GROUPS:
            for rule, name, expected, fields in group(version):
                yield Case(rule, f"{version} {name}", observed(version, **fields), expected)
    nothing = observed(None, deployment=Deployment())
    yield from (Case(rule.id, "nothing is known", nothing, UNKNOWN) for rule in RULES)


CALM = {"vllm:kv_cache_usage_perc": 0.3}
Row = tuple[str, str, Answer, dict[str, Any]]


def args(**given: Any) -> dict[str, Any]:
    return {"engine_args": given}


def kernels(version: str) -> Iterator[Row]:
    tuned = a_log(f"Using configuration from {MOE_FILE} for MoE layer.", version=version)
    yield "MOE001", "tuned", CLEAR, {"log": tuned}
    yield "MOE001", "dense", NOT_HERE, {"log": a_log(), "config": LLAMA}
    yield "MOE001", "no log", UNKNOWN, {}
    experts = {"config": DEEPSEEK, "accelerator": "H200", **args(enable_expert_parallel=True)}
    yield "DG001", "few at once", FIRES, {**experts, "targets": Targets(4)}
    yield "DG001", "many at once", CLEAR, {**experts, "targets": Targets(400)}
    off = {"env": {"VLLM_MOE_USE_DEEP_GEMM": "0"}, "targets": Targets(4)}
    yield "DG001", "switched off", CLEAR, {**experts, **off}
    yield "DG001", "Blackwell", NOT_HERE, {**experts, "accelerator": "B200"}
    chosen = a_log("Using FLASH_ATTN attention backend out of potential backends: ['FLASH_ATTN', 'TRITON_ATTN']")
    for backend in ("FLEX_ATTENTION", "flex_attention"):
        yield "ATT001", f"{backend} by flag, no log", FIRES, args(attention_backend=backend)
    read = FIRES if Version(version) < Version("0.15") else UNKNOWN
    yield "ATT001", "by variable, no log", read, {"env": {"VLLM_ATTENTION_BACKEND": "TORCH_SDPA"}}
    yield "ATT001", "no log", UNKNOWN, {"accelerator": "H200"}
    fallback = FIRES if Version(version) >= Version("0.21") else NOT_HERE
    yield "SAMP001", "by variable, no log", fallback, {"env": {"VLLM_USE_FLASHINFER_SAMPLER": "0"}}
    yield "ATT001", "fast", CLEAR, {"log": chosen, "accelerator": "H200"}
    yield "ATT001", "CPU", NOT_HERE, {"log": chosen, "accelerator": "cpu"}


def cache(version: str) -> Iterator[Row]:
    fits = "Maximum concurrency for 8,192 tokens per request: 20.31x"
    if version == "0.32.0":
        fits = f"GPU KV cache size: 166,400 tokens, {fits}"
    for wanted, expected in ((64, FIRES), (16, CLEAR)):
        yield "KV001", f"{wanted}", expected, {"log": a_log(fits, version=version), "targets": Targets(wanted)}
    yield "KV001", "not said how many", UNKNOWN, {"log": a_log(fits, version=version)}
    yield "KV001", "no cache", NOT_HERE, {"log": a_log(version=version)}
    busy = {"vllm:kv_cache_usage_perc": 0.99, "vllm:request_success_total": 100.0, "vllm:num_requests_waiting": 9.0}
    yield "KV003", "metrics", FIRES, {"metrics": a_window({**busy, "vllm:num_preemptions_total": 30.0}, {})}
    calm = a_window({**busy, "vllm:num_preemptions_total": 7.0}, {"vllm:num_preemptions_total": 7.0})
    yield "KV003", "calm since the first scrape", CLEAR, {"metrics": calm}
    yield (
        "KV003",
        "counters since the start",
        UNKNOWN,
        {"metrics": a_window({**busy, "vllm:num_preemptions_total": 30.0})},
    )
    idle = {"vllm:kv_cache_usage_perc": 0.0, "vllm:request_success_total": 5.0, "vllm:num_preemptions_total": 2.0}
    yield "KV003", "no load", UNKNOWN, {"metrics": a_window(idle, idle)}
    again = a_window({**busy, "vllm:num_preemptions_total": 1.0}, {"vllm:num_preemptions_total": 30.0})
    yield "KV003", "started again", UNKNOWN, {"metrics": again}
    thrashing = a_log(*[statistics_line(usage=99.0, preemptions=3)] * 6, version=version)
    yield "KV003", "log", FIRES, {"log": thrashing}
    calm_log = a_log(*[statistics_line(usage=70.0)] * 6, version=version)
    yield "KV003", "calm log", UNKNOWN if version == "0.11.0" else CLEAR, {"log": calm_log}
    once = [statistics_line(usage=70.0)] * 300 + [statistics_line(usage=97.0, preemptions=1)]
    yield "KV003", "once in an hour", UNKNOWN, {"log": a_log(*once, version=version)}
    past = [statistics_line(usage=99.0, preemptions=3)] * 50 + [statistics_line(usage=70.0)] * 400
    yield "KV003", "long ago", UNKNOWN if version == "0.11.0" else CLEAR, {"log": a_log(*past, version=version)}
    yield "KV004", "metrics before the log", CLEAR, {"log": thrashing, "metrics": a_window({**busy, **CALM})}
    yield "KV005", "flag, no log", FIRES, args(disable_hybrid_kv_cache_manager=True)
    yield "KV005", "no log", UNKNOWN, {}
    yield "KV004", "log", FIRES, {"log": thrashing}
    yield "KV004", "calm log", CLEAR, {"log": calm_log}
    yield "KV004", "one scrape", FIRES, {"metrics": a_window(busy)}
    yield "KV004", "one calm scrape", CLEAR, {"metrics": a_window({**busy, "vllm:kv_cache_usage_perc": 0.3})}
    yield "MEM001", "much", FIRES, {"config": MIXTRAL, **args(gpu_memory_utilization=0.97)}
    yield "MEM001", "default", CLEAR, {"config": MIXTRAL}
    yield "MEM001", "dense", NOT_HERE, {"config": LLAMA, **args(gpu_memory_utilization=0.97)}
    yield "PC001", "off", FIRES, args(enable_prefix_caching=False)
    yield "PC001", "default", CLEAR, {}
    for hits, expected in ((40.0, FIRES), (9000.0, CLEAR)):
        window = a_window({"vllm:prefix_cache_queries_total": 50_000.0, "vllm:prefix_cache_hits_total": hits}, {})
        yield "PC002", f"{hits}", expected, {"metrics": window}
    few = a_window({"vllm:prefix_cache_queries_total": 500.0, "vllm:prefix_cache_hits_total": 0.0}, {})
    yield "PC002", "few prompts", UNKNOWN, {"metrics": few}


def latencies(ttft: float, queue: float, itl: float = 0.02) -> dict[str, float]:
    """The counters after ten requests with these means, in seconds."""
    sums = {"time_to_first_token": ttft, "request_queue_time": queue, "request_prefill_time": ttft - queue}
    samples = {}
    for name, mean in {**sums, "inter_token_latency": itl}.items():
        samples |= {f"vllm:{name}_seconds_sum": 10 * mean, f"vllm:{name}_seconds_count": 10.0}
    return samples


def scheduling(version: str) -> Iterator[Row]:
    waits = a_log(*[statistics_line(waiting=30, usage=20.0)] * 6, version=version)
    yield "SCHED001", "log", FIRES, {"log": waits}
    yield "SCHED001", "calm log", CLEAR, {"log": a_log(*[statistics_line(usage=70.0)] * 6, version=version)}

    def gauges(running: float, waiting: float, usage: float) -> dict[str, float]:
        return {
            "vllm:num_requests_running": running,
            "vllm:num_requests_waiting": waiting,
            "vllm:kv_cache_usage_perc": usage,
        }

    yield "SCHED001", "one scrape", FIRES, {"metrics": a_window(gauges(8, 30, 0.2))}
    yield "SCHED001", "one request at one moment", UNKNOWN, {"metrics": a_window(gauges(8, 1, 0.2))}
    yield "SCHED001", "one request in both scrapes", FIRES, {"metrics": a_window(gauges(8, 1, 0.2), gauges(8, 1, 0.2))}
    yield "SCHED001", "one request in one scrape", UNKNOWN, {"metrics": a_window(gauges(8, 1, 0.2), gauges(8, 0, 0.2))}
    yield "SCHED001", "metrics before the log", CLEAR, {"log": waits, "metrics": a_window(gauges(8, 0, 0.2))}
    yield "SCHED001", "full cache", CLEAR, {"metrics": a_window(gauges(8, 30, 0.9))}
    yield "SCHED001", "empty queue", CLEAR, {"metrics": a_window(gauges(8, 0, 0.2))}
    yield "SCHED002", "flag", FIRES, args(async_scheduling=False)
    budget = {"metrics": a_window(latencies(2.0, 0.1, 0.2), {})}
    yield (
        "SCHED003",
        "long ITL",
        FIRES,
        {**budget, **args(max_num_batched_tokens=16384), "targets": Targets(None, None, 0.05)},
    )
    yield (
        "SCHED003",
        "long TTFT",
        FIRES,
        {**budget, **args(max_num_batched_tokens=2048), "targets": Targets(None, 0.5, None)},
    )
    met = Targets(None, 3.0, 0.5)
    yield "SCHED003", "met", CLEAR, {**budget, **args(max_num_batched_tokens="16k"), "targets": met}
    yield "SCHED003", "no targets", UNKNOWN, budget
    yield "SCHED004", "held back", FIRES, {"metrics": a_window(gauges(8, 0, 0.2)), "targets": Targets(64)}
    engines = {f'{name}{{engine="{n}"}}': value for n in range(4) for name, value in gauges(16, 0, 0.2).items()}
    yield "SCHED004", "spread over engines", CLEAR, {"metrics": a_window(engines), "targets": Targets(64)}
    yield "SCHED004", "too few in all engines", FIRES, {"metrics": a_window(engines), "targets": Targets(128)}
    yield "SCHED004", "all", CLEAR, {"metrics": a_window(gauges(50, 14, 0.2)), "targets": Targets(64)}
    yield "SCHED005", "queue", FIRES, {"metrics": a_window(latencies(2.0, 1.5), {})}
    slow_prefill = {"metrics": a_window(latencies(2.0, 0.05), {})}
    yield "SCHED005", "prefill", CLEAR, slow_prefill
    yield "SCHED005", "short", CLEAR, {"metrics": a_window(latencies(0.010, 0.006), {})}
    yield "SCHED005", "target met", CLEAR, {"metrics": a_window(latencies(2.0, 1.5), {}), "targets": Targets(None, 3.0)}
    yield "SCHED007", "prefill", FIRES, slow_prefill
    yield (
        "SCHED007",
        "target missed",
        FIRES,
        {"metrics": a_window(latencies(0.6, 0.1), {}), "targets": Targets(None, 0.5)},
    )
    yield "SCHED007", "target met", CLEAR, {**slow_prefill, "targets": Targets(None, 3.0)}
    yield "SCHED007", "short", CLEAR, {"metrics": a_window(latencies(0.6, 0.1), {})}
    yield "SCHED007", "queue", CLEAR, {"metrics": a_window(latencies(2.0, 1.5), {})}
    printed = a_log("Chunked prefill is enabled with max_num_batched_tokens=2048.", version=version)
    yield "SCHED003", "by the log", FIRES, {**budget, "log": printed, "targets": Targets(None, 0.5, None)}
    full = a_window(gauges(16, 30, 0.2))
    yield "SCHED006", "reached", FIRES, {"metrics": full, **args(max_num_seqs=16)}
    yield "SCHED006", "not reached", CLEAR, {"metrics": full, **args(max_num_seqs=64)}


def graphs(version: str) -> Iterator[Row]:
    yield "CG001", "flag", FIRES, args(enforce_eager=True)
    yield "CG001", "default", CLEAR, {}
    yield "CG001", "CPU", NOT_HERE, {"accelerator": "cpu", **args(enforce_eager=True)}
    yield "CG002", "flag", FIRES, args(compilation_config='{"cudagraph_mode": "NONE"}')
    running = a_window({"vllm:num_requests_running": 300.0})
    for size, expected in ((256, FIRES), (512, CLEAR)):
        yield "CG003", f"{size}", expected, {"metrics": running, **args(max_cudagraph_capture_size=size)}
        config = f"compilation_config={{'mode': 3, 'max_cudagraph_capture_size': {size}}}"
        yield (
            "CG003",
            f"{size} by the log",
            expected,
            {"metrics": running, "log": a_log(version=version, config=config)},
        )
    large = "1024" if Version(version) >= Version("0.28") else "512"
    for accelerator, most in (("H200", "512"), ("MI300X", "512"), ("B200", large)):
        for count in (512, 600, 1100):
            expected = FIRES if count > int(most) else CLEAR
            by_default = {"metrics": a_window({"vllm:num_requests_running": float(count)}), "accelerator": accelerator}
            yield "CG003", f"{count} on {accelerator} by default", expected, by_default
    by_default = {"metrics": running, "accelerator": "H200"}
    yield "CG003", "sizes that are not known", UNKNOWN, {**by_default, **args(cudagraph_capture_sizes="1 2 4")}
    in_json = args(compilation_config='{"cudagraph_capture_sizes": [1, 2]}')
    yield "CG003", "sizes in JSON that are not known", UNKNOWN, {**by_default, **in_json}
    drafts = args(speculative_config='{"method": "ngram", "num_speculative_tokens": 3}')
    yield "CG003", "tokens of drafts", UNKNOWN, {**by_default, **drafts}
    yield "CG003", "an unknown accelerator", UNKNOWN, {"metrics": running}
    yield "CG003", "a launch line with more than is known", UNKNOWN, {**by_default, "complete": False}
    compiled = f"{'(backbone) ' if version == '0.32.0' else ''}torch.compile took 48.21 s in total"
    first = a_log(compiled, version=version)
    yield "COMP001", "first start", UNKNOWN, {"log": first}
    yield "COMP001", "second start", FIRES, {"log": replace(first, compiled_before=True)}
    yield "COMP001", "clean log", CLEAR, {"log": a_log(version=version), **args(enforce_eager=False)}
    warm = a_log("torch.compile took 48.21 s in total", "Directly load the compiled graph(s) for compile range (1, 8)")
    yield "COMP001", "warm", CLEAR, {"log": warm, "engine_args": {}}
    yield "COMP001", "switched off", FIRES, {"env": {"VLLM_DISABLE_COMPILE_CACHE": "1"}}
    llama4 = {"architecture": "Llama4ForConditionalGeneration", "env": {"VLLM_DISABLE_COMPILE_CACHE": "1"}}
    yield "COMP001", "Llama 4", NOT_HERE, llama4


def parallelism(version: str) -> Iterator[Row]:
    del version
    no_all_reduce = args(disable_custom_all_reduce=True, tensor_parallel_size=8)
    yield "TP001", "flag, no log", FIRES, no_all_reduce
    yield "TP001", "no log", UNKNOWN, args(tensor_parallel_size=8)
    for size, expected in ((6, FIRES), (8, CLEAR), (1, CLEAR)):
        yield "TP002", f"{size}", expected, {"config": LLAMA, **args(tensor_parallel_size=size)}
    yield "TP002", "unknown model", UNKNOWN, args(tensor_parallel_size=6)
    yield "TP003", "few heads", FIRES, {"config": LLAMA, **args(tensor_parallel_size=16)}
    yield "TP003", "enough heads", CLEAR, {"config": LLAMA, **args(tensor_parallel_size=8)}
    yield "TP003", "MLA", FIRES, {"config": DEEPSEEK, **args(tensor_parallel_size=8)}
    yield (
        "TP003",
        "MLA and a divided cache",
        CLEAR,
        {
            "config": DEEPSEEK,
            **args(tensor_parallel_size=8, decode_context_parallel_size=8),
        },
    )
    sparse = {"config": MAVERICK, **args(tensor_parallel_size=8, enable_expert_parallel=True)}
    yield "EP001", "few experts a token", FIRES, sparse
    yield "EP001", "many experts a token", CLEAR, {**sparse, "config": DEEPSEEK}
    yield "EP001", "dense", NOT_HERE, {**sparse, "config": LLAMA}
    yield "ATT002", "8", FIRES, {"config": DEEPSEEK, **args(tensor_parallel_size=8)}
    yield "ATT002", "2", CLEAR, {"config": DEEPSEEK, **args(tensor_parallel_size=2)}
    yield "ATT002", "dense", NOT_HERE, {"config": LLAMA, **args(tensor_parallel_size=8)}


def settings(version: str) -> Iterator[Row]:
    yield "ENV001", "variable", FIRES, {"env": {"VLLM_USE_V2_TYPO": "1"}}
    yield "ENV001", "known variable", CLEAR, {"env": {"VLLM_LOGGING_LEVEL": "INFO"}}
    yield "ENV002", "P2P", FIRES, {"env": {"NCCL_P2P_DISABLE": "1"}}
    yield "ENV002", "none", CLEAR, {"env": {"NCCL_P2P_DISABLE": "0"}}
    yield "ENV002", "not all variables are known", UNKNOWN, {"complete_env": False}
    yield "ENV003", "blocking", FIRES, {"env": {"CUDA_LAUNCH_BLOCKING": "1"}}
    yield "ENV003", "none", CLEAR, {}
    yield "ARG001", "never known", FIRES, args(no_such_flag_at_all=7)
    yield "ARG001", "known", CLEAR, args(max_model_len=8192)
    yield "ARG001", "swap space", FIRES if Version(version) >= Version("0.18") else CLEAR, args(swap_space=4)
    yield "FP8002", "A100", FIRES, {"quantization": "fp8", "accelerator": "A100"}
    yield "FP8002", "H200", CLEAR, {"quantization": "fp8", "accelerator": "H200"}
    yield "FP8002", "16 bits", NOT_HERE, {"quantization": "none", "accelerator": "A100"}
    drafts = "vllm:spec_decode_num_draft_tokens_total"
    speculative = args(speculative_config='{"method": "eagle", "num_speculative_tokens": 3}')
    for accepted, expected in ((900.0, FIRES), (3000.0, CLEAR)):
        window = a_window({drafts: 5000.0, "vllm:spec_decode_num_accepted_tokens_total": accepted}, {})
        yield "SPEC001", f"{accepted}", expected, {"metrics": window, **speculative}
    yield "SPEC001", "no drafts", NOT_HERE, {}
    info = 'vllm:lora_requests_info{{max_lora="1",waiting_lora_adapters="{}",running_lora_adapters="a"}}'
    for waiting, expected in (("b", FIRES), ("", CLEAR)):
        window = a_window({info.format(waiting): 1.0})
        yield "LORA001", f"waiting {waiting}", expected, {"metrics": window, **args(enable_lora=True)}
    past = a_window({info.format("b"): 1.7e9, info.format(""): 1.8e9})
    yield "LORA001", "waited once", CLEAR, {"metrics": past, **args(enable_lora=True)}
    now = a_window({info.format(""): 1.7e9, info.format("b"): 1.8e9})
    yield "LORA001", "waits now", FIRES, {"metrics": now, **args(enable_lora=True)}
    modules = args(enable_lora=True, lora_modules='["a=x", "b=y"]')
    yield "LORA001", "more adapters than slots", FIRES, modules
    yield "LORA001", "no adapters", NOT_HERE, {}
    yield "MM001", "no limit", FIRES, {"config": VISION}
    yield "MM001", "limit", CLEAR, {"config": VISION, **args(limit_mm_per_prompt='{"image": 1}')}


GROUPS = (kernels, cache, scheduling, graphs, parallelism, settings)
CASES = list(every_case())


@pytest.mark.parametrize("version", [one for one in releases() if Version(one) >= Version("0.11")])
def test_a_rule_answers_alike_in_every_release(version: str) -> None:
    rules = {rule.id: rule for rule in RULES}
    others = {}
    for group in GROUPS:
        for rule, name, expected, fields in group(version):
            in_range = SpecifierSet(rules[rule].versions).contains(version)
            answer = ask(rule, observed(version, **fields)).answer
            if answer is not (expected if in_range else NOT_HERE):
                others[rule, name] = answer
    assert others == {}


@pytest.mark.parametrize("case", CASES, ids=[f"{case.rule} {case.name}" for case in CASES])
def test_a_rule_answers(case: Case) -> None:
    outcome = ask(case.rule, case.seen)
    assert outcome.answer is case.expected, outcome
    assert (outcome.answer is UNKNOWN) == bool(outcome.needs)
    assert outcome.evidence or outcome.answer is not FIRES


@pytest.mark.parametrize("rule", RULES, ids=[rule.id for rule in RULES])
def test_every_rule_fires_and_is_clear_on_two_releases(rule: object) -> None:
    for answer in (FIRES, CLEAR):
        versions = {
            case.seen.version
            for case in CASES
            if case.rule == rule.id and case.expected is answer  # type: ignore[attr-defined]
        }
        assert len(versions) >= 2, (answer, versions)
