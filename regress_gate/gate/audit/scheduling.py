"""Rules on the queue and on what the scheduler puts into a step."""

from regress_gate.gate.audit.observations import (
    NEEDS_CONCURRENCY,
    NEEDS_TARGETS,
    NEEDS_WINDOW,
    Evidence,
    MissingFact,
    Observations,
    argument_evidence,
    log_evidence,
)
from regress_gate.gate.audit.rule import FindingSeverity, Outcome, Rule, clear, fires, not_applicable
from regress_gate.vllm.log_signals import EngineStatistics

_TUNING = "https://docs.vllm.ai/en/latest/configuration/optimization.html"
_ROOM = 0.5
"""Share of the KV cache below which it is not what requests wait for."""
_WAITING = 0.5
"""Requests from which some wait: the number may be an average."""
_QUEUE = 5
"""Requests that wait at one moment, from which they are no accident of that moment."""
_MOST = 0.5
"""Share of the time to the first token from which one part of it is the cause."""
_LONG_QUEUE = 0.1
_LONG_PREFILL = 1.0
"""Seconds a request, from which they are long where no target says more."""
_BUSY_LINES = 5
_LARGE_BUDGET = 8192
_SMALL_BUDGET = 2048
"""Tokens a step."""
_OFFERED = 0.8
"""Share of the offered requests that run, below which something before the engine holds them back."""


def _queue_with_room(seen: Observations) -> Outcome:
    if seen.metrics is None:
        return _queue_by_log(seen.statistics())
    window = seen.metrics
    waiting, usage = window.gauge("vllm:num_requests_waiting"), window.largest("vllm:kv_cache_usage_perc")
    before = window.earlier("vllm:num_requests_waiting")
    growth = "" if before is None else f", {before:.0f} before"
    evidence = window.evidence(f"{waiting:.0f} requests waiting{growth}, KV cache {usage:.0%}")
    if waiting < _WAITING:
        return clear("no request waits", evidence)
    if usage >= _ROOM:
        return clear("requests wait for the KV cache, not for the scheduler", evidence)
    is_average = window.is_window and before is None
    if not is_average and waiting < _QUEUE and (before or 0.0) < _WAITING:
        raise MissingFact(f"{waiting:.0f} requests wait at one moment, which says little", NEEDS_WINDOW)
    grows = " and the queue grows" if before is not None and waiting > before else ""
    return fires(f"requests wait while the KV cache has room{grows}: prefill or --max-num-seqs limits", evidence)


def _queue_by_log(statistics: EngineStatistics) -> Outcome:
    if statistics.lines < _BUSY_LINES:
        raise MissingFact("the log shows too little load", NEEDS_WINDOW)
    if 2 * statistics.waiting_with_room_lines > statistics.lines and (line := statistics.most_waiting) is not None:
        share = f"{statistics.waiting_with_room_lines} of the last {statistics.lines} lines of statistics"
        evidence = Evidence("log", line.text, line.number)
        return fires(f"requests wait while half of the KV cache is free, in {share}", evidence)
    return clear("requests do not wait for long while the KV cache has room")


def _async_off(seen: Observations) -> Outcome:
    if seen.arguments.get("async_scheduling") is False:
        return fires(
            "the launch line switches asynchronous scheduling off", argument_evidence("async_scheduling", "false")
        )
    if lines := seen.lines("async_off"):
        return fires("vLLM switched asynchronous scheduling off; its line says why", *log_evidence(lines))
    if lines := seen.lines("custom_scheduler"):
        why = "a scheduler class of your own is used: asynchronous scheduling is off unless it is an AsyncScheduler"
        return fires(why, *log_evidence(lines))
    return clear("vLLM did not switch it off")


def _time_to_first_token(seen: Observations) -> tuple[float, float, float, float]:
    """Seconds a request: TTFT, and what the queue and prefill are of it; and the requests."""
    window = seen.window()
    count = window.increase("vllm:time_to_first_token_seconds_count")
    if count < 1:
        raise MissingFact("no request began between the scrapes", NEEDS_WINDOW)
    ttft = window.increase("vllm:time_to_first_token_seconds_sum") / count
    parts = []
    for name in ("queue", "prefill"):
        ended = window.increase(f"vllm:request_{name}_time_seconds_count")
        parts.append(window.increase(f"vllm:request_{name}_time_seconds_sum") / ended if ended else 0.0)
    return ttft, parts[0], parts[1], count


def _queueing(seen: Observations) -> Outcome:
    ttft, queue, prefill, count = _time_to_first_token(seen)
    evidence = _first_token_evidence(seen, ttft, queue, prefill, count)
    if queue <= _MOST * ttft:
        return clear("the queue is the smaller part of the time to the first token", evidence)
    if not _is_long(queue, _LONG_QUEUE, ttft, seen):
        return clear("the time in the queue is short, or the target of TTFT is met", evidence)
    return fires(f"{queue / ttft:.0%} of the time to the first token is spent in the queue", evidence)


def _prefilling(seen: Observations) -> Outcome:
    ttft, queue, prefill, count = _time_to_first_token(seen)
    evidence = _first_token_evidence(seen, ttft, queue, prefill, count)
    if prefill <= _MOST * ttft:
        return clear("prefill is the smaller part of the time to the first token", evidence)
    if not _is_long(prefill, _LONG_PREFILL, ttft, seen):
        return clear("prefill is short, or the target of TTFT is met", evidence)
    return fires(f"{prefill / ttft:.0%} of the time to the first token is prefill: requests do not wait", evidence)


def _first_token_evidence(seen: Observations, ttft: float, queue: float, prefill: float, count: float) -> Evidence:
    return seen.window().evidence(
        f"mean TTFT {1000 * ttft:.0f} ms, of it queue {1000 * queue:.0f} ms and prefill {1000 * prefill:.0f} ms, "
        f"{count:.0f} requests"
    )


def _is_long(part: float, long: float, ttft: float, seen: Observations) -> bool:
    """Whether a part of TTFT makes it miss its target; without a target, whether it is long by itself."""
    return part >= long if seen.targets.ttft is None else ttft > seen.targets.ttft


def _budget(seen: Observations) -> Outcome:
    targets = seen.targets
    if targets.ttft is None and targets.itl is None:
        raise MissingFact("what you want of TTFT and ITL is not known", NEEDS_TARGETS)
    budget, given = _tokens_a_step(seen)
    if budget is None:
        raise MissingFact("the tokens a step are not in the launch line", "--engine-arg max_num_batched_tokens=N")
    window = seen.window()
    ttft = _time_to_first_token(seen)[0]
    gaps = window.increase("vllm:inter_token_latency_seconds_count")
    itl = window.increase("vllm:inter_token_latency_seconds_sum") / gaps if gaps else 0.0
    seen_text = window.evidence(f"mean TTFT {1000 * ttft:.0f} ms, mean ITL {1000 * itl:.1f} ms")
    if targets.itl is not None and itl > targets.itl and budget >= _LARGE_BUDGET:
        return fires(
            f"ITL misses its target, and a step may hold {budget} tokens of prompts",
            given,
            seen_text,
            remedy=f"lower --max-num-batched-tokens below {budget}, in halves, until ITL is met",
        )
    if targets.ttft is not None and ttft > targets.ttft and budget <= _SMALL_BUDGET:
        return fires(
            f"TTFT misses its target, and a step holds {budget} tokens of prompts at most",
            given,
            seen_text,
            remedy=f"raise --max-num-batched-tokens above {budget}, by doubling, as long as ITL allows",
        )
    return clear("the targets are met, or not missed because of the tokens a step", given, seen_text)


def _tokens_a_step(seen: Observations) -> tuple[int | None, Evidence]:
    """As vLLM printed it, which knows the default of the machine; else as given, or by default."""
    name = "max_num_batched_tokens"
    if name not in seen.arguments and seen.start is not None and (printed := seen.start.max_num_batched_tokens):
        return printed, Evidence("log", f"Chunked prefill is enabled with {name}={printed}")
    budget = seen.whole_number(name)
    return budget, argument_evidence(name, budget)


def _few_running(seen: Observations) -> Outcome:
    offered = seen.targets.concurrency
    if offered is None:
        raise MissingFact("how many requests are sent at once is not known", NEEDS_CONCURRENCY)
    window = seen.window()
    there = window.most("vllm:num_requests_running", "vllm:num_requests_waiting")
    evidence = window.evidence(f"{there:.0f} requests running or waiting of {offered} that are sent")
    if there == 0:
        raise MissingFact("no request runs in the scrapes", NEEDS_WINDOW)
    if there < _OFFERED * offered:
        return fires(
            "fewer requests reach the engine than are sent: the client, a proxy or the API server holds them", evidence
        )
    return clear("the requests that are sent reach the engine", evidence)


def _few_sequences(seen: Observations) -> Outcome:
    limit = seen.whole_number("max_num_seqs")
    if limit is None:
        raise MissingFact("the limit of requests in a step is not in the launch line", "--engine-arg max_num_seqs=N")
    window = seen.window()
    running, waiting = window.largest("vllm:num_requests_running"), window.largest("vllm:num_requests_waiting")
    usage = window.largest("vllm:kv_cache_usage_perc")
    given = argument_evidence("max_num_seqs", limit)
    evidence = window.evidence(f"{running:.0f} requests running, {waiting:.0f} waiting, KV cache {usage:.0%}")
    if window.engines > 1:
        return not_applicable("several engines share the load")
    if running >= limit and waiting and usage < 0.8:
        return fires(
            "as many requests run as --max-num-seqs allows, and others wait with room in the cache", given, evidence
        )
    return clear("--max-num-seqs is not what requests wait for", given, evidence)


_LATENCY_METRICS = tuple(
    f"vllm:{name}_seconds_{part}"
    for name in ("time_to_first_token", "request_queue_time", "request_prefill_time")
    for part in ("sum", "count")
)

RULES: tuple[Rule, ...] = (
    Rule(
        id="SCHED001",
        title="Requests wait while the KV cache has room",
        severity=FindingSeverity.MEDIUM,
        why="The server is bound by prefill or by --max-num-seqs, not by memory; more memory would not help.",
        remedy="raise --max-num-seqs if it is reached; else raise --max-num-batched-tokens, add servers, or "
        "divide prefill "
        "from decoding",
        cost="longer ITL with larger steps, or more accelerators",
        url=f"{_TUNING}#chunked-prefill",
        check=_queue_with_room,
        metrics=("vllm:num_requests_waiting", "vllm:kv_cache_usage_perc"),
    ),
    Rule(
        id="SCHED002",
        title="Asynchronous scheduling is off",
        severity=FindingSeverity.LOW,
        why="The accelerator waits in every step while the CPU prepares the next, which small and fast models "
        "feel most.",
        remedy="leave --no-async-scheduling out, or drop what is incompatible with it (the line names it)",
        cost="what the incompatible feature gives",
        url=_TUNING,
        check=_async_off,
        # On by default since 0.14.
        versions=">=0.11.1",
        signals=("async_off", "custom_scheduler"),
    ),
    Rule(
        id="SCHED003",
        title="Tokens a step do not fit the latency targets",
        severity=FindingSeverity.MEDIUM,
        why="Chunks of prompts share the step with decoding: large ones lengthen ITL, small ones lengthen TTFT.",
        remedy="change --max-num-batched-tokens in the direction of the target that is missed",
        cost="the other of both latencies",
        url=f"{_TUNING}#chunked-prefill",
        check=_budget,
        metrics=(*_LATENCY_METRICS, "vllm:inter_token_latency_seconds_sum", "vllm:inter_token_latency_seconds_count"),
    ),
    Rule(
        id="SCHED004",
        title="Fewer requests run than are sent",
        severity=FindingSeverity.MEDIUM,
        why="The engine is idle while requests are somewhere before it, so its numbers understate what it can do.",
        remedy="raise the connections of the client or proxy, or --api-server-count for tokenising and parsing",
        cost="CPU cores",
        url=_TUNING,
        check=_few_running,
        metrics=("vllm:num_requests_running", "vllm:num_requests_waiting"),
    ),
    Rule(
        id="SCHED005",
        title="The time to the first token is spent in the queue",
        severity=FindingSeverity.MEDIUM,
        why="The server gets more requests than it can serve: faster prefill helps little, more capacity helps.",
        remedy="see KV004 and SCHED001 for what fills first; else add servers or limit the load",
        cost="servers",
        url="https://docs.vllm.ai/en/latest/design/metrics.html",
        check=_queueing,
        metrics=_LATENCY_METRICS,
    ),
    Rule(
        id="SCHED006",
        title="--max-num-seqs holds requests back",
        severity=FindingSeverity.MEDIUM,
        why="Steps could hold more requests: the KV cache has room, and throughput of decoding grows with the batch.",
        remedy="raise --max-num-seqs, and check that the graphs reach that batch (CG003)",
        cost="longer ITL, and memory for more graphs",
        url=_TUNING,
        check=_few_sequences,
        metrics=("vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc"),
    ),
    Rule(
        id="SCHED007",
        title="The time to the first token is spent in prefill",
        severity=FindingSeverity.MEDIUM,
        why="Requests do not wait for others: computing their prompts takes the time. It counts from the first chunk "
        "of a prompt to its end, with the steps that its chunks share with others.",
        remedy="let prompts share prefixes that are cached (PC001, PC002), divide the model among more accelerators, "
        "or raise --max-num-batched-tokens if prompts take several steps; else shorten prompts",
        cost="accelerators, longer ITL with larger steps, or work on prompts",
        url="https://docs.vllm.ai/en/latest/design/metrics.html",
        check=_prefilling,
        metrics=_LATENCY_METRICS,
    ),
)
