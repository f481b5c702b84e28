"""The catalogue of metrics: unit, direction, scale, and the definitions of other tools.

The names are fixed. Times are in seconds, memory in bytes, ratios are fractions; renderers choose other units.

The `definitions` of an imported trial is a key of `DEFINITIONS`; without one, vLLM's own definitions apply. Results
with different definitions are not compared: the same name means different quantities, or starts at different moments.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from regress_gate.errors import InputError
from regress_gate.text import did_you_mean


class Direction(StrEnum):
    LOWER = "lower_is_better"
    HIGHER = "higher_is_better"


Interval = tuple[float | None, float | None]


def natural_change(loss: float, direction: Direction) -> float:
    """What happened, with its own sign, from a loss (positive is worse): both are relative to the baseline."""
    return loss if direction is Direction.LOWER else 0.0 - loss


def natural_interval(losses: Interval, direction: Direction) -> Interval:
    low, high = (None if loss is None else natural_change(loss, direction) for loss in losses)
    return (low, high) if direction is Direction.LOWER else (high, low)


class Scale(StrEnum):
    """How a change is expressed: relative to the baseline, or as a difference if zero is a normal value."""

    RATIO = "ratio"
    DIFFERENCE = "difference"


CAPACITY = "max_load@slo"
"""The highest request rate at which a server start keeps the promise of its scenario."""
PROMISE_KEY = "promise"
"""Key of the promised attainment in the workload of a trial at one of the rates around a capacity."""

Unit = Literal["s", "bytes", "tokens", "1/s", "fraction"]
"""`1/s`: requests or tokens per second."""


@dataclass(frozen=True, slots=True)
class Metric:
    name: str
    unit: Unit
    direction: Direction
    scale: Scale = Scale.RATIO
    tail: float | None = None
    """For a percentile beyond the median: the share of requests beyond it (0.01 for p99)."""
    per_run: bool = False
    """Measured once per server start, not per trial."""
    is_descriptive: bool = False
    """Shows that something changed, not that it got worse: gates only if a policy names it in full."""

    @property
    def min_requests(self) -> int:
        """With fewer requests, the statistic is only the largest value: 1/tail for a percentile, else 1."""
        return 1 if self.tail is None else round(1 / self.tail)


STATISTICS: dict[str, float | None] = {"mean": None, "median": None, "p90": 0.10, "p95": 0.05, "p99": 0.01}
LATENCIES = ("ttft", "tpot", "itl", "e2el")
"""As vLLM's own client defines them (docs/importing.md)."""
OTHER_LATENCIES: dict[str, bool] = {
    "normalized_latency": True,
    "tpot_per_token": True,
    "token_gap": True,
    "batch_latency": True,
    "unclear_tpot": False,
}
"""Latencies of other clients, and whether the definition is known well enough to gate: `normalized_latency` is e2el /
output tokens; `tpot_per_token` (e2el − ttft) / output tokens; `token_gap` the time between tokens, not chunks;
`batch_latency` one pass of a whole batch without a server (`batch_throughput` is its requests a second);
`unclear_tpot` a time per output token whose definition the tool does not document."""

OTHER_ATTAINMENTS = ("good_request_fraction", "determined_attainment")
"""Shares of requests that met the objectives, by other tools. For `slo_attainment` an answer of one token has a time
per output token of 0, as for `vllm bench serve`; AIPerf's `good_request_fraction` counts it as not good, and GuideLLM's
attainment (`determined_attainment`) leaves it out."""
GOODPUT_METRICS = ("goodput", "slo_attainment", *OTHER_ATTAINMENTS, CAPACITY)
"""What is counted by the objectives of a workload (`slo`)."""


TURN_TTFTS = ("ttft_first_turn", "ttft_later_turns")
"""The TTFT of conversations apart: mean and median of first turns, and of those with turns before them."""


def _catalogue() -> dict[str, Metric]:
    metrics = [
        Metric(f"{family}_{statistic}", "s", Direction.LOWER, tail=tail)
        for family in LATENCIES
        for statistic, tail in STATISTICS.items()
    ]
    metrics += [
        Metric(f"{family}_{statistic}", "s", Direction.LOWER, tail=tail, is_descriptive=not clear)
        for family, clear in OTHER_LATENCIES.items()
        for statistic, tail in STATISTICS.items()
    ]
    metrics += [Metric(f"{part}_{name}", "s", Direction.LOWER) for part in TURN_TTFTS for name in ("mean", "median")]
    metrics += [
        Metric(name, "1/s", Direction.HIGHER)
        for name in ("request_throughput", "output_throughput", "total_throughput", "goodput", "batch_throughput")
    ]
    metrics += [
        # Requests that succeeded within the scenario's objectives, as a share of all that were sent.
        Metric("slo_attainment", "fraction", Direction.HIGHER, Scale.DIFFERENCE),
        # The same by other tools, which treat a request that has no value for an objective in other ways.
        *(Metric(name, "fraction", Direction.HIGHER, Scale.DIFFERENCE) for name in OTHER_ATTAINMENTS),
        Metric(CAPACITY, "1/s", Direction.HIGHER),
        Metric("failed_requests", "fraction", Direction.LOWER, Scale.DIFFERENCE),
        Metric("startup_time", "s", Direction.LOWER, per_run=True),
        # From `vllm bench startup`, which starts the engine without a server, several times in one trial.
        *(
            Metric(f"{state}_{what}_time", "s", Direction.LOWER)
            for state in ("cold", "warm")
            for what in ("start", "compilation")
        ),
        Metric("peak_memory", "bytes", Direction.LOWER, per_run=True),
        Metric("kv_cache_tokens", "tokens", Direction.HIGHER, per_run=True),
        # Answers to fixed prompts, from 0 to 1: docs/accuracy.md defines each.
        Metric("accuracy_agreement", "fraction", Direction.HIGHER, Scale.DIFFERENCE, per_run=True),
        Metric("accuracy_logprob", "fraction", Direction.HIGHER, Scale.DIFFERENCE, per_run=True),
        Metric(
            "accuracy_prompt_match", "fraction", Direction.HIGHER, Scale.DIFFERENCE, per_run=True, is_descriptive=True
        ),
        Metric(
            "accuracy_token_match", "fraction", Direction.HIGHER, Scale.DIFFERENCE, per_run=True, is_descriptive=True
        ),
    ]
    return {metric.name: metric for metric in metrics}


METRICS: dict[str, Metric] = _catalogue()


def metric(name: str) -> Metric:
    """The metric of that name; other `accuracy_*` names (the score of a task) are accepted too.

    Raises InputError for unknown names.
    """
    if name in METRICS:
        return METRICS[name]
    if name.startswith("accuracy_") and len(name) > len("accuracy_"):
        return Metric(name, "fraction", Direction.HIGHER, Scale.DIFFERENCE)
    raise InputError(f"unknown metric {name!r}" + did_you_mean(name, METRICS))


DEFINITIONS_KEY = "definitions"
"""Key of the definitions in a trial's workload."""

VLLM_DEFINITIONS_TEXT = "vLLM's own"
"""Text for results without a key."""

DEFINITIONS: dict[str, str] = {
    "aiperf": "its first token is the first chunk with text, its last the last chunk with text",
    "aiperf-encoded": "as aiperf, and tokens are counted by encoding the answers again",
    "genai-perf": "its first token is the first answer with text, tokens are counted by encoding the answers again",
    "inference-perf": "its latency runs to the end of the stream, its gaps are between tokens, some of one chunk",
    "inference-perf-chunks": "its latency runs to the end of the stream, its gaps and time per token are of chunks",
    "llmperf": "its latency runs to the end of the stream, tokens are counted by a tokenizer of its own",
    "evalscope-0.17": "its time per output token is per chunk, its percentiles take the next value",
    "evalscope-1.0": "one-token answers count as a time per output token of 0, its percentiles take the next value",
    "evalscope-1.14": "its first token is the first chunk with text, its percentiles take the nearest value",
    "sglang-bench-serving": "a request ends with its stream, not with its last token",
    "sglang-bench-serving-native": "a request ends with its stream, gaps are by token as the server counts them",
    "sglang-bench-serving-retokenised": "a request ends with its stream, gaps are by token as the client counts them",
    "vllm-bench-0.6": "its client up to 0.6 counts output tokens by tokenising the answer again",
    "vllm-bench-0.7": "its client from 0.7 to 0.14 asks for temperature 0, and counts the input tokens it asked for",
    "vllm-bench-0.15": "its client from 0.15 to 0.19 leaves the temperature to the server",
    "vllm-bench-0.20": "its client since 0.20 takes input tokens from the server, which adds its own",
    "vllm-offline": "an engine without a server is given everything at once",
    "mlperf-loadgen": "times begin when a query was due, tokens are those that the tested system reports",
    "github-action-benchmark": "its names say what a value is, not how it was measured",
    "guidellm": "its time per output token is weighted by tokens, a request ends with its connection",
    "guidellm-requests": "made from GuideLLM's times of each request, from first to last chunk with text",
    "llm-d-other": "converted from a tool whose definitions are not known",
}
"""Key to one clause for the report that names the difference: `guidellm` → `its time per output token…`."""


_VLLM = "vllm-bench-"
"""Prefix of the keys of vLLM's own client, whose definitions differ between releases."""


def counts_goodput_as_vllm(key: str | None) -> bool:
    """Whether a goodput of these definitions is one of vLLM's client, or of our own, which counts alike."""
    return key is None or key.startswith(_VLLM)


def definitions_match(one: str | None, other: str | None) -> bool:
    """Whether results may be compared. vLLM's client of an unknown release may have any definitions of its releases."""
    return one == other or (None in (one, other) and (one or other or "").startswith(_VLLM))


def definition_text(key: str | None) -> str:
    """The key with its meaning; None: vLLM's own definitions."""
    if key is None:
        return VLLM_DEFINITIONS_TEXT
    meaning = DEFINITIONS.get(key)
    return f"{key} ({meaning})" if meaning else key
