"""Rules on the KV cache and on memory."""

from regress_gate.gate.audit.observations import NEEDS_WINDOW, Evidence, MissingFact, Observations
from regress_gate.gate.audit.rule import FindingSeverity, Outcome, Rule, clear, fires

PREEMPTED_SHARE = 0.01
"""Preemptions a finished request from which the cache is too small for the load: below, they are single events."""
_BUSY_LINES = 5
"""Lines of statistics, ten seconds each, that are needed to speak of a window."""


def _preemptions(seen: Observations) -> Outcome:
    if seen.metrics is not None and seen.metrics.first is not None:
        window = seen.metrics
        count = window.increase("vllm:num_preemptions_total")
        finished = window.increase("vllm:request_success_total")
        usage = window.largest("vllm:kv_cache_usage_perc")
        evidence = window.evidence(f"{count:.0f} preemptions, {finished:.0f} finished requests, KV cache {usage:.0%}")
        if count > PREEMPTED_SHARE * max(finished, 1):
            return fires("requests lose their place in the KV cache and are computed again", evidence)
        if count + finished == 0:
            raise MissingFact("no request finished between the scrapes", NEEDS_WINDOW)
        return clear(f"{count:.0f} preemptions in {finished:.0f} requests", evidence)
    statistics = seen.statistics()
    if statistics.preemptions and (line := statistics.most_preempting) is not None:
        share = f"{statistics.preempting_lines} of {statistics.lines} lines of statistics report preemptions"
        return fires(
            f"requests lose their place in the KV cache and are computed again: {share}",
            Evidence("log", line.text, line.number),
        )
    if statistics.lines < _BUSY_LINES:
        raise MissingFact("the log shows too little load", NEEDS_WINDOW)
    return clear(f"no preemption in {statistics.lines} lines of statistics under load")


RULES: tuple[Rule, ...] = (
    Rule(
        id="KV003",
        title="Requests are preempted",
        severity=FindingSeverity.HIGH,
        why="The KV cache is too small for the requests that run at once: vLLM throws away what it computed for one of "
        "them and computes it again, which costs throughput and shows as jumps of ITL and E2EL.",
        remedy="raise --gpu-memory-utilization or --tensor-parallel-size, use --kv-cache-dtype fp8, or lower "
        "--max-num-seqs or --max-model-len",
        cost="fewer requests at once, more accelerators, or the rounding of an 8-bit cache (compare the accuracy)",
        url="https://docs.vllm.ai/en/latest/configuration/optimization.html#preemption",
        check=_preemptions,
        # Before 0.15 the log has no count of preemptions; the metric is as old as engine V1.
        versions=">=0.11",
        metrics=("vllm:num_preemptions_total", "vllm:request_success_total", "vllm:kv_cache_usage_perc"),
    ),
)
