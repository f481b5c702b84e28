"""Rules on the KV cache, the prefix cache and memory."""

from regress_gate.gate.audit.kernels import logged
from regress_gate.gate.audit.observations import (
    NEEDS_CONCURRENCY,
    NEEDS_MODEL,
    NEEDS_WINDOW,
    Evidence,
    MissingFact,
    Observations,
    argument_evidence,
    log_evidence,
)
from regress_gate.gate.audit.rule import FindingSeverity, Outcome, Rule, clear, fires, not_applicable
from regress_gate.vllm.log_signals import HIGH_USAGE, RELEASES

PREEMPTED_SHARE = 0.01
"""Preemptions a finished request from which the cache is too small for the load: below, they are single events."""
_PREEMPTING_LINES = 0.05
"""Share of the lines of statistics that report preemptions, from which they are no single events."""
_COUNTED_IN_LOG = f"{RELEASES},>=0.11.1"
"""Releases whose lines of statistics are known to report preemptions."""
_BUSY_LINES = 5
"""Lines of statistics, ten seconds each, that are needed to speak of a window."""
_TUNING = "https://docs.vllm.ai/en/latest/configuration/optimization.html"
_SMALLER = 0.01
"""Of the memory: a difference in --gpu-memory-utilization that is worth a line."""
_HIGH_FRACTION = 0.95
"""Of the memory, from which a model with experts has little left for workspaces that grow with the load."""
_FEW_TOKENS = 10_000
"""Prompt tokens in a window, below which the share of cached ones means nothing."""
_NO_HITS = 0.01


def _small_concurrency(seen: Observations) -> Outcome:
    lines = seen.lines("concurrency")
    if not lines:
        return not_applicable("this server has no KV cache whose size it prints")
    line = lines[-1]
    tokens, fits = line.groups[0], float(line.groups[1])
    evidence = Evidence("log", line.text, line.number)
    if fits < 1:
        return fires(f"not one request of {tokens} tokens fits in the KV cache", evidence)
    wanted = seen.targets.concurrency
    if wanted is None:
        raise MissingFact(
            f"{fits:g} requests of {tokens} tokens fit; how many you send is not known", NEEDS_CONCURRENCY
        )
    if fits < wanted:
        return fires(f"{fits:g} requests of {tokens} tokens fit, and {wanted} are sent at once", evidence)
    return clear(f"{fits:g} requests of {tokens} tokens fit", evidence)


def _graphs_counted(seen: Observations) -> Outcome:
    lines = seen.lines("graph_memory")
    for line in lines:
        given, effective = (float(group) for group in line.groups)
        if given - effective > _SMALLER:
            return fires(
                f"the KV cache is as large as with --gpu-memory-utilization {effective:.2f} before 0.21",
                Evidence("log", line.text, line.number),
            )
    return clear("the graphs' memory changes little", *log_evidence(lines))


def _preemptions(seen: Observations) -> Outcome:
    if seen.metrics is not None and seen.metrics.is_window:
        window = seen.metrics
        count = window.increase("vllm:num_preemptions_total")
        finished = window.increase("vllm:request_success_total")
        name = "vllm:kv_cache_usage_perc"
        usage = f", KV cache {window.largest(name):.0%}" if window.has(name) else ""  # not read in a short trial
        evidence = window.evidence(f"{count:.0f} preemptions, {finished:.0f} finished requests{usage}")
        if count > PREEMPTED_SHARE * max(finished, 1):
            return fires("requests lose their place in the KV cache and are computed again", evidence)
        if count + finished == 0:
            raise MissingFact("no request finished between the scrapes", NEEDS_WINDOW)
        return clear(f"{count:.0f} preemptions in {finished:.0f} requests", evidence)
    statistics = seen.statistics()
    share = f"{statistics.preempting_lines} of the last {statistics.lines} lines of statistics report preemptions"
    if (line := statistics.most_preempting) is not None:
        evidence = Evidence("log", line.text, line.number)
        if statistics.preempting_lines < _PREEMPTING_LINES * statistics.lines:
            raise MissingFact(f"{share}, and not how many requests finish", NEEDS_WINDOW)
        return fires(f"requests lose their place in the KV cache and are computed again: {share}", evidence)
    if statistics.lines < _BUSY_LINES:
        raise MissingFact("the log shows too little load", NEEDS_WINDOW)
    if not seen.is_release(_COUNTED_IN_LOG):
        raise MissingFact("whether this release prints preemptions is not known, or it does not", NEEDS_WINDOW)
    return clear(f"no preemption in {statistics.lines} lines of statistics under load")


def _full_cache(seen: Observations) -> Outcome:
    if seen.metrics is None:
        statistics = seen.statistics()
        if statistics.lines < _BUSY_LINES:
            raise MissingFact("the log shows too little load", NEEDS_WINDOW)
        if 2 * statistics.high_usage_lines > statistics.lines and (line := statistics.most_used) is not None:
            share = f"{statistics.high_usage_lines} of the last {statistics.lines} lines of statistics"
            evidence = Evidence("log", line.text, line.number)
            return fires(f"the KV cache is above {HIGH_USAGE:.0f} % in {share}", evidence)
        return clear(f"at most {statistics.peak_usage:.0f} % in most lines of statistics")
    window = seen.metrics
    usage, waiting = window.largest("vllm:kv_cache_usage_perc"), window.largest("vllm:num_requests_waiting")
    evidence = window.evidence(f"KV cache {usage:.0%}, {waiting:.0f} requests waiting")
    if usage > HIGH_USAGE / 100 and waiting:
        return fires("the KV cache is full while requests wait", evidence)
    return clear(f"the KV cache is {usage:.0%} full", evidence)


def _hybrid_cache_off(seen: Observations) -> Outcome:
    if seen.arguments.get("disable_hybrid_kv_cache_manager") is True:
        given = argument_evidence("disable_hybrid_kv_cache_manager", "")
        return fires("all layers keep the cache of full attention", given)
    if lines := seen.lines("hybrid_cache_off", "chunked_local_off"):
        return fires("all layers keep the cache of full attention", *log_evidence(lines))
    return clear("vLLM did not switch it off")


def _large_fraction(seen: Observations) -> Outcome:
    if seen.has_experts() is False:
        return not_applicable("the model has no experts")
    fraction = seen.argument("gpu_memory_utilization")
    if not isinstance(fraction, int | float):
        return not_applicable("the launch line sets no fraction")
    given = argument_evidence("gpu_memory_utilization", fraction)
    if fraction < _HIGH_FRACTION:
        return clear(f"{fraction:g} leaves room for workspaces", given)
    if seen.has_experts() is None:
        raise MissingFact("whether the model has experts is not known", NEEDS_MODEL)
    return fires(f"{1 - fraction:.0%} of the memory is left for what grows with the load", given)


def _prefix_cache_off(seen: Observations) -> Outcome:
    if seen.log is not None and (lines := seen.log.found("prefix_cache_off")):
        return fires("vLLM switched the prefix cache off", *log_evidence(lines))
    if seen.given("enable_prefix_caching") is False:
        return fires(
            "the launch line switches the prefix cache off", argument_evidence("enable_prefix_caching", "false")
        )
    return clear("the prefix cache is on, or off by vLLM's own choice for the model")


def _no_hits(seen: Observations) -> Outcome:
    window = seen.window()
    asked = window.increase("vllm:prefix_cache_queries_total")
    if asked < _FEW_TOKENS:
        raise MissingFact(f"{asked:.0f} prompt tokens between the scrapes are too few", NEEDS_WINDOW)
    share = window.increase("vllm:prefix_cache_hits_total") / asked
    evidence = window.evidence(f"{share:.1%} of {asked:.0f} prompt tokens were cached")
    if share < _NO_HITS:
        return fires("nearly no prompt token is found in the prefix cache", evidence)
    return clear(f"{share:.1%} of the prompt tokens were cached", evidence)


RULES: tuple[Rule, ...] = (
    Rule(
        id="KV001",
        title="The KV cache holds fewer requests than are sent",
        severity=FindingSeverity.MEDIUM,
        why="Requests of full length that do not fit wait or preempt each other. Shorter ones may still fit: "
        "the number "
        "counts --max-model-len tokens each.",
        remedy="lower --max-model-len to what is needed, use --kv-cache-dtype fp8, or give more memory or accelerators",
        cost="shorter requests, the rounding of an 8-bit cache, or accelerators",
        url=f"{_TUNING}#preemption",
        check=_small_concurrency,
        signals=("concurrency",),
        reads_targets=True,
    ),
    Rule(
        id="KV002",
        title="Graphs are counted as memory, so the KV cache is smaller",
        severity=FindingSeverity.LOW,
        why="Since 0.21 the memory of CUDA graphs is taken from the KV cache: the same "
        "--gpu-memory-utilization gives a "
        "smaller cache than before the upgrade.",
        remedy="raise --gpu-memory-utilization to the value that the log names",
        cost="less memory for other programs on the accelerator",
        url="https://docs.vllm.ai/en/latest/configuration/conserving_memory.html",
        check=_graphs_counted,
        versions=">=0.20",
        signals=("graph_memory",),
    ),
    Rule(
        id="KV003",
        title="Requests are preempted",
        severity=FindingSeverity.HIGH,
        why="The KV cache is too small for the requests that run at once: vLLM throws away what it computed for one of "
        "them and computes it again, which costs throughput and shows as jumps of ITL and E2EL.",
        remedy="raise --gpu-memory-utilization or --tensor-parallel-size, use --kv-cache-dtype fp8, or lower "
        "--max-num-seqs or --max-model-len",
        cost="fewer requests at once, more accelerators, or the rounding of an 8-bit cache (compare the accuracy)",
        url=f"{_TUNING}#preemption",
        check=_preemptions,
        # Before 0.11.1 the log has no count of preemptions; the metric is as old as engine V1.
        versions=">=0.11",
        metrics=("vllm:num_preemptions_total", "vllm:request_success_total", "vllm:kv_cache_usage_perc"),
    ),
    Rule(
        id="KV004",
        title="The KV cache is full",
        severity=FindingSeverity.MEDIUM,
        why="No further request can begin before one ends: the queue, and with it TTFT, grows with the load.",
        remedy="give the cache more memory, or spread the load over more servers; lower --max-model-len does not help "
        "requests that are short",
        cost="memory or servers",
        url=f"{_TUNING}#preemption",
        check=_full_cache,
        metrics=("vllm:kv_cache_usage_perc", "vllm:num_requests_waiting"),
    ),
    Rule(
        id="KV005",
        title="The hybrid KV cache is off",
        severity=FindingSeverity.MEDIUM,
        why="Layers with a sliding window or a state keep a cache of full length, so that fewer requests fit.",
        remedy="leave --disable-hybrid-kv-cache-manager out, or use a KV connector that supports it; for chunked local "
        "attention VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE=1 gives memory for latency",
        cost="for chunked local attention, latency",
        url="https://docs.vllm.ai/en/latest/design/hybrid_kv_cache_manager.html",
        check=_hybrid_cache_off,
        versions=">=0.11",
        signals=("hybrid_cache_off", "chunked_local_off"),
    ),
    Rule(
        id="KV006",
        title="FP8 cache without FP8 queries in prefill",
        severity=FindingSeverity.LOW,
        why="Prefill converts the 8-bit cache back for every chunk, so that long prompts gain nothing and may lose.",
        remedy="follow the setting that the line of the log names, and measure TTFT and accuracy",
        cost="the rounding of 8-bit queries",
        url="https://docs.vllm.ai/en/latest/features/quantization/quantized_kvcache.html",
        check=logged("fp8_cache_prefill", "prefill does not use the 8-bit cache as it is", "vLLM did not say so"),
        versions=">=0.20",
        signals=("fp8_cache_prefill",),
    ),
    Rule(
        id="MEM001",
        title="Little memory is left for a model with experts",
        severity=FindingSeverity.NOTE,
        why="The workspaces of the experts and of their communication grow with the load after memory was measured; an "
        "allocation that fails ends the server.",
        remedy="set --gpu-memory-utilization to 0.90 to 0.92, and watch the memory under the largest load",
        cost="a KV cache that is some percent smaller",
        url="https://docs.vllm.ai/en/latest/configuration/conserving_memory.html",
        check=_large_fraction,
    ),
    Rule(
        id="PC001",
        title="The prefix cache is off",
        severity=FindingSeverity.LOW,
        why="Prompts that begin alike (system prompts, conversations, documents) are computed anew for every request.",
        remedy="leave --no-enable-prefix-caching out, unless all prompts are different",
        cost="some percent of throughput at most where no prompts begin alike",
        url="https://docs.vllm.ai/en/latest/features/automatic_prefix_caching.html",
        check=_prefix_cache_off,
        signals=("prefix_cache_off",),
    ),
    Rule(
        id="PC002",
        title="The prefix cache finds nothing",
        severity=FindingSeverity.NOTE,
        why="If your prompts begin alike, something makes them differ early (a date, a request id), a router "
        "sends them to "
        "other servers, or the cache is too small to keep them.",
        remedy="put what differs at the end of the prompt, route conversations to one server, or enlarge the KV cache",
        cost="work on prompts or routing; nothing to do where prompts are all different",
        url="https://docs.vllm.ai/en/latest/features/automatic_prefix_caching.html",
        check=_no_hits,
        metrics=("vllm:prefix_cache_queries_total", "vllm:prefix_cache_hits_total"),
    ),
)
