"""The `/metrics` page of a vLLM server: its counters, times and gauges, and what changed of them between two pages.

A counter means something over a window only: the page counts since the start of the server. Names are those of vLLM
0.11 to 0.33, with the deprecated ones where the new one is missing. Values are summed over engines and models. The page
comes from a program that may be anything: what is not understood is missing, and nothing is assumed. Not for fetching
it (`bench.server.metrics_watch`) and not for what the values mean (`gate.audit`).
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite

from prometheus_client.parser import text_string_to_metric_families

from regress_gate.errors import InputError

COUNTERS: Mapping[str, tuple[str, ...]] = {
    "requests": ("request_success",),
    "preemptions": ("num_preemptions",),
    "prompt_tokens": ("prompt_tokens",),
    "generation_tokens": ("generation_tokens",),
    "prefix_cache_queries": ("prefix_cache_queries", "gpu_prefix_cache_queries"),
    "prefix_cache_hits": ("prefix_cache_hits", "gpu_prefix_cache_hits"),
    "drafts": ("spec_decode_num_drafts",),
    "draft_tokens": ("spec_decode_num_draft_tokens",),
    "accepted_draft_tokens": ("spec_decode_num_accepted_tokens",),
    "rejected_requests": ("admission_rejections",),
    "corrupted_requests": ("corrupted_requests",),
}
"""Our name → vLLM's, without `vllm:` and `_total`, the newest first. The first that a page has counts."""

HISTOGRAMS: Mapping[str, tuple[str, ...]] = {
    "queue_time": ("request_queue_time_seconds",),
    "prefill_time": ("request_prefill_time_seconds",),
    "decode_time": ("request_decode_time_seconds",),
    "inference_time": ("request_inference_time_seconds",),
    "ttft": ("time_to_first_token_seconds",),
    "itl": ("inter_token_latency_seconds", "time_per_output_token_seconds"),
    "e2el": ("e2e_request_latency_seconds",),
    "iteration_tokens": ("iteration_tokens_total",),
}
"""Of which the sum and the count are kept, as `queue_time_sum` and `queue_time_count`. Buckets can be configured."""

GAUGES: Mapping[str, tuple[str, ...]] = {
    "running": ("num_requests_running",),
    "waiting": ("num_requests_waiting",),
    "kv_cache_usage": ("kv_cache_usage_perc", "gpu_cache_usage_perc"),
}
"""Requests are summed over the engines; of the usage of their caches (a fraction) the fullest counts."""

_OVER_ENGINES: Mapping[str, Callable[[Sequence[float]], float]] = {"kv_cache_usage": max}

MAX_LINES = 20_000
"""Lines of a page that are read: hundreds of engines."""
MAX_LINE = 4096
"""Characters of a line. A longer one is no line of vLLM's."""

_START_TIME = "process_start_time_seconds"
_WANTED = re.compile(
    rb"^(?:vllm:(?:%b)[{ ]|%b ).*$"
    % (
        b"|".join(
            [
                *(name.encode() + b"(?:_total)?" for names in COUNTERS.values() for name in names),
                *(name.encode() + b"_(?:sum|count)" for names in HISTOGRAMS.values() for name in names),
                *(name.encode() for names in GAUGES.values() for name in names),
            ]
        ),
        _START_TIME.encode(),
    ),
    re.MULTILINE,
)


def select_lines(page: bytes) -> bytes:
    """The lines of a page that `read_metrics_page` reads: a few of thousands. Takes a hundredth of its time."""
    chosen = []
    for match in _WANTED.finditer(page):
        if len(match[0]) <= MAX_LINE:
            chosen.append(match[0])
        if len(chosen) == MAX_LINES:
            break
    return b"\n".join(chosen) + b"\n"


@dataclass(frozen=True, slots=True)
class MetricsPage:
    """The values of a page by our names, summed over engines. A value that the page lacks is missing."""

    counters: Mapping[str, float] = field(default_factory=dict)
    """Also the sums and counts of histograms. Since the start of the server."""
    gauges: Mapping[str, float] = field(default_factory=dict)
    engines: int = 0
    """Distinct labels `engine`: several with data parallelism."""
    started: float | None = None
    """When the process started, in seconds since 1970."""


def read_metrics_page(page: bytes) -> MetricsPage:
    """The values of a page. Raises InputError for one that is not in Prometheus' text format or has none of vLLM's."""
    found: dict[str, list[float]] = {}
    engines = set()
    text = select_lines(page).decode("utf-8", "replace")
    try:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if isfinite(sample.value):
                    found.setdefault(sample.name.removeprefix("vllm:"), []).append(sample.value)
                    engines.add(sample.labels.get("engine"))
    except (ValueError, KeyError, IndexError) as error:
        raise InputError(f"the page is not in Prometheus' text format ({str(error)[:80]!r})") from None
    started = found.pop(_START_TIME, [None])[0]
    if not found:
        raise InputError("the page has no metrics of a vLLM server")
    counters = {}
    for name, theirs in COUNTERS.items():
        for each in theirs:
            if (values := found.get(f"{each}_total") or found.get(each)) and name not in counters:
                counters[name] = sum(values)
    for name, theirs in HISTOGRAMS.items():
        for each in theirs:
            sums, counts = found.get(f"{each}_sum"), found.get(f"{each}_count")
            if sums and counts and f"{name}_sum" not in counters:
                counters |= {f"{name}_sum": sum(sums), f"{name}_count": sum(counts)}
    gauges = {}
    for name, theirs in GAUGES.items():
        for each in theirs:
            if (values := found.get(each)) and name not in gauges:
                gauges[name] = _OVER_ENGINES.get(name, sum)(values)
    return MetricsPage(counters, gauges, max(1, len(engines - {None})), started)


def metrics_window(
    before: MetricsPage, after: MetricsPage, between: Sequence[MetricsPage] = (), *, seconds: float | None = None
) -> dict[str, float]:
    """What happened between two pages, as flat numbers by name.

    A counter by its own name: its growth. `running_mean`, `running_max`, `waiting_…`, `kv_cache_usage_…`: of the pages
    read between the two, left out without any. `samples`: how many these were. `seconds`: the length of the window, if
    given. `engines`: their number.

    Raises InputError if the server was started anew between the pages, because its counters began again.
    """
    if before.started is not None and after.started is not None and before.started != after.started:
        raise InputError("the server was started anew between two readings of its metrics")
    if any(after.counters[name] < count for name, count in before.counters.items() if name in after.counters):
        raise InputError("a counter of the server went back between two readings of its metrics")
    # A counter with labels appears with its first event.
    window = {name: count - before.counters.get(name, 0.0) for name, count in after.counters.items()}
    for name in GAUGES:
        values = [page.gauges[name] for page in between if name in page.gauges]
        if values:
            window |= {f"{name}_mean": sum(values) / len(values), f"{name}_max": max(values)}
    window |= {"samples": float(len(between)), "engines": float(after.engines)}
    return window if seconds is None else {**window, "seconds": seconds}
