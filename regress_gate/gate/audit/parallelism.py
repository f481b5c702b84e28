"""Rules on how the model is divided among accelerators."""

from regress_gate.gate.audit.observations import (
    NEEDS_MODEL,
    Evidence,
    MissingFact,
    Observations,
    argument_evidence,
    log_evidence,
)
from regress_gate.gate.audit.rule import FindingSeverity, Outcome, Rule, clear, fires, not_applicable

_SCALING = "https://docs.vllm.ai/en/latest/serving/parallelism_scaling.html"
_LATENT_SIZE = 8
"""Accelerators from which the copies of an MLA cache cost more than the division gives."""
_SPARSE_HEADS = 64
"""Heads on one accelerator to which the sparse MLA kernel of FlashMLA fills up."""
_DENSE = 0.02
"""Experts a token, as a share, above which one guide prefers tensor to expert parallelism."""


def _tensor_size(seen: Observations) -> int:
    return seen.whole_number("tensor_parallel_size") or 1


def _no_custom_all_reduce(seen: Observations) -> Outcome:
    size = seen.arguments.get("tensor_parallel_size", 1)
    if seen.arguments.get("disable_custom_all_reduce") is True and isinstance(size, int) and size > 1:
        given = argument_evidence("disable_custom_all_reduce", "")
        return fires("the launch line switches vLLM's own all-reduce off", given)
    if lines := seen.lines("no_custom_all_reduce"):
        return fires("vLLM cannot use its own all-reduce between these accelerators", *log_evidence(lines))
    return clear("vLLM did not switch it off")


def _indivisible_heads(seen: Observations) -> Outcome:
    size = _tensor_size(seen)
    if size == 1:
        return clear("the model is not divided", argument_evidence("tensor_parallel_size", size))
    model = seen.sizes()
    parts = {"attention heads": model.heads, "hidden size": model.hidden_size}
    if model.heads is None:
        raise MissingFact("the model's configuration does not say its attention heads", NEEDS_MODEL)
    given = argument_evidence("tensor_parallel_size", size)
    for name, value in parts.items():
        if value is not None and value % size:
            found = Evidence("model", f"{name} {value}")
            return fires(f"{name} ({value}) cannot be divided among {size} accelerators", given, found)
    return clear(f"{size} divides {model.heads} attention heads and the hidden size", given)


def _copied_cache(seen: Observations) -> Outcome:
    size = _tensor_size(seen)
    given = argument_evidence("tensor_parallel_size", size)
    if size == 1:
        return clear("the model is not divided", given)
    model = seen.sizes()
    if (seen.arguments.get("decode_context_parallel_size") or 1) != 1:
        return clear("the cache is divided by --decode-context-parallel-size", given)
    if model.is_latent:
        if size >= _LATENT_SIZE:
            latent = Evidence("model", "latent attention (kv_lora_rank)")
            return fires(f"each of {size} accelerators keeps the whole KV cache of latent attention", given, latent)
        return clear(f"{size} copies of the cache of latent attention", given)
    if model.kv_heads is None:
        raise MissingFact("the model's configuration does not say its heads", NEEDS_MODEL)
    heads = Evidence("model", f"{model.kv_heads} key-value heads")
    if size > model.kv_heads:
        return fires(f"{model.kv_heads} key-value heads are kept {size // model.kv_heads} times", given, heads)
    return clear(f"{model.kv_heads} key-value heads are divided among {size}", given, heads)


def _expert_density(seen: Observations) -> Outcome:
    if seen.has_experts() is False:
        return not_applicable("the model has no experts")
    model = seen.sizes()
    if model.experts is None or model.experts_per_token is None:
        raise MissingFact("the model's configuration does not say its experts a token", NEEDS_MODEL)
    on = seen.is_on("enable_expert_parallel")
    size = _tensor_size(seen) * (seen.whole_number("data_parallel_size") or 1)
    if size == 1:
        return not_applicable("there is one accelerator")
    density = model.experts_per_token / model.experts
    found = Evidence("model", f"{model.experts_per_token} of {model.experts} experts a token ({density:.1%})")
    given = argument_evidence("enable_expert_parallel", str(on).lower())
    if on and density <= _DENSE:
        return fires(
            "each token needs few of the experts, so that expert parallelism sends much and computes little",
            found,
            given,
        )
    if not on and density > _DENSE and size >= _LATENT_SIZE:
        return fires("each token needs many of the experts, which are divided as matrices", found, given)
    return clear("expert parallelism is as the rule of thumb has it", found, given)


def _sparse_heads(seen: Observations) -> Outcome:
    if seen.has_experts() is False:
        return not_applicable("models with sparse latent attention have experts")
    model = seen.sizes()
    if not model.is_sparse_latent:
        return not_applicable("the model has no sparse latent attention")
    size = _tensor_size(seen)
    if model.heads is None:
        raise MissingFact("the model's configuration does not say its attention heads", NEEDS_MODEL)
    heads = model.heads // size
    found = Evidence("model", f"{model.heads} attention heads, index_topk {model.size('index_topk')}")
    given = argument_evidence("tensor_parallel_size", size)
    if heads < _SPARSE_HEADS:
        return fires(f"{heads} heads on each accelerator are filled up to {_SPARSE_HEADS}", found, given)
    return clear(f"{heads} heads on each accelerator fill the kernel", found, given)


RULES: tuple[Rule, ...] = (
    Rule(
        id="TP001",
        title="vLLM's own all-reduce is off",
        severity=FindingSeverity.LOW,
        why="Every layer sums its result over the accelerators; without direct access among them NCCL does "
        "it, which is "
        "slower for the small messages of decoding.",
        remedy="use accelerators with NVLink, a --tensor-parallel-size of 2, 4, 6 or 8, or pipeline "
        "parallelism over PCIe",
        cost="other hardware, or latency of pipelines",
        url=_SCALING,
        check=_no_custom_all_reduce,
        signals=("no_custom_all_reduce",),
    ),
    Rule(
        id="TP002",
        title="Tensor parallelism does not divide the model",
        severity=FindingSeverity.HIGH,
        why="vLLM refuses to start where the attention heads cannot be divided; other sizes are padded or kept whole "
        "on every accelerator, which wastes memory and time.",
        remedy="choose a --tensor-parallel-size that divides the attention heads and the hidden size; use "
        "--pipeline-parallel-size or --data-parallel-size for the rest",
        cost="another division of the model, to be measured again",
        url=_SCALING,
        check=_indivisible_heads,
    ),
    Rule(
        id="TP003",
        title="Tensor parallelism copies the KV cache",
        severity=FindingSeverity.MEDIUM,
        why="Every accelerator keeps the same part of the cache: the memory of all of them together holds no "
        "more requests.",
        remedy="use --data-parallel-size for attention (with --enable-expert-parallel for experts), or "
        "--decode-context-parallel-size",
        cost="requests must be spread over the engines; single requests are slower",
        url="https://docs.vllm.ai/en/latest/serving/data_parallel_deployment.html",
        check=_copied_cache,
    ),
    Rule(
        id="EP001",
        title="Expert parallelism and the density of experts",
        severity=FindingSeverity.NOTE,
        why="Whether experts are better divided whole or as matrices depends on the share of them that a "
        "token needs, the "
        "batch and the links. The limit of 2 % is one guide's: measure both.",
        remedy="measure with and without --enable-expert-parallel",
        cost="two measurements",
        url="https://docs.vllm.ai/en/latest/serving/expert_parallel_deployment.html",
        check=_expert_density,
    ),
    Rule(
        id="ATT002",
        title="Sparse latent attention with few heads",
        severity=FindingSeverity.MEDIUM,
        why="The kernel for sparse latent attention computes 64 heads: with fewer on each accelerator, it "
        "fills up with "
        "nothing.",
        remedy="use --data-parallel-size with --enable-expert-parallel instead of --tensor-parallel-size",
        cost="requests must be spread over the engines",
        url="https://github.com/vllm-project/vllm/blob/main/vllm/v1/attention/backends/mla/flashmla_sparse.py",
        check=_sparse_heads,
        versions=">=0.11",
    ),
)
