"""Writes results of a load test that never happened, in every dialect, from one set of synthetic samples.

The statistics are computed here on their own, request by request, so that the readers are checked against a second
opinion and not against themselves.
"""

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from regress_gate.ingest.identity import IdentityFlags
from regress_gate.ingest.importer import read_paths
from regress_gate.ingest.interface import FileReport, ImportResult

Result = dict[str, Any]
FLAGS = IdentityFlags.parse(version="0.19.1", testbed="bench-box")


@dataclass(frozen=True)
class Request:
    ttft: float
    itl: list[float]
    input_tokens: int = 128
    error: str = ""

    @property
    def output_tokens(self) -> int:
        return 0 if self.error else len(self.itl) + 1

    @property
    def e2el(self) -> float:
        return self.ttft + sum(self.itl)


@dataclass(frozen=True)
class Pass:
    """One pass of a workload."""

    requests: list[Request]
    concurrency: int | None = 4
    rate: float | None = None
    model: str = "org/tiny"
    date: str = "20261121-101500"
    good: list[Request] = field(init=False)
    duration: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "good", [request for request in self.requests if not request.error])
        object.__setattr__(self, "duration", sum(request.e2el for request in self.requests) / 3 + 1)


def made_up(seed: int = 0, requests: int = 12, tokens: int = 8, failed: int = 0, **more: Any) -> Pass:
    """A pass with plausible times; the first `failed` requests failed."""
    luck = random.Random(seed)
    made = [
        Request(luck.gammavariate(9, 0.005), [luck.gammavariate(9, 0.001) for _ in range(tokens - 1)])
        for _ in range(requests - failed)
    ]
    return Pass([Request(0.0, [], error="connection reset") for _ in range(failed)] + made, **more)


def percentile(values: list[float], percent: float) -> float:
    """Linear interpolation between the two nearest values."""
    ordered = sorted(values)
    place = (len(ordered) - 1) * percent / 100
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def values_of(requests: list[Request], family: str) -> list[float]:
    if family == "ttft":
        return [request.ttft for request in requests]
    if family == "itl":
        return [gap for request in requests for gap in request.itl]
    if family == "e2el":
        return [request.e2el for request in requests]
    several = [request for request in requests if request.output_tokens > 1]
    return [(request.e2el - request.ttft) / (request.output_tokens - 1) for request in several]


def statistics_of(values: list[float]) -> dict[str, float]:
    """In seconds, by the catalogue's names."""
    found = {f"p{percent}": percentile(values, percent) for percent in (90, 95, 99)}
    return {"mean": fmean(values), "median": percentile(values, 50), **found}


def expected_metrics(made: Pass) -> dict[str, float]:
    """What a reader has to make of a detailed result of the pass."""
    good = made.good
    latencies = {
        f"{family}_{name}": value
        for family in ("ttft", "tpot", "itl", "e2el")
        if (values := values_of(good, family))
        for name, value in statistics_of(values).items()
    }
    output, total = (sum(request.output_tokens for request in good), sum(request.input_tokens for request in good))
    return latencies | {
        "request_throughput": len(good) / made.duration,
        "output_throughput": output / made.duration,
        "total_throughput": (output + total) / made.duration,
        "failed_requests": 1 - len(good) / len(made.requests),
    }


def scalars(
    made: Pass, families: tuple[str, ...] = ("ttft", "tpot", "itl"), percents: tuple[int, ...] = (99,)
) -> Result:
    found: Result = {}
    for family in families:
        values = values_of(made.good, family)
        found[f"mean_{family}_ms"] = fmean(values) * 1000
        found[f"median_{family}_ms"] = percentile(values, 50) * 1000
        found[f"std_{family}_ms"] = 1.0
        found |= {f"p{percent}_{family}_ms": percentile(values, percent) * 1000 for percent in percents}
    return found


def plain(made: Pass, **more: Any) -> Result:
    """What `vllm bench serve --save-result` of 0.19 writes."""
    good, duration = made.good, made.duration
    output, total = (sum(request.output_tokens for request in good), sum(request.input_tokens for request in good))
    return {
        "date": made.date,
        "endpoint_type": "vllm",
        "backend": "vllm",
        "label": None,
        "model_id": made.model,
        "tokenizer_id": made.model,
        "num_prompts": len(made.requests),
        "request_rate": "inf" if made.rate is None else made.rate,
        "burstiness": 1.0,
        "max_concurrency": made.concurrency,
        "duration": duration,
        "completed": len(good),
        "failed": len(made.requests) - len(good),
        "total_input_tokens": total,
        "total_output_tokens": output,
        "request_throughput": len(good) / duration,
        "request_goodput": None,
        "output_throughput": output / duration,
        "total_token_throughput": (total + output) / duration,
        "max_output_tokens_per_s": 3.0,
        "max_concurrent_requests": 9,
        **scalars(made),
        **more,
    }


def arrays(made: Pass) -> Result:
    return {
        "input_lens": [request.input_tokens for request in made.requests],
        "output_lens": [request.output_tokens for request in made.requests],
        "ttfts": [request.ttft for request in made.requests],
        "itls": [request.itl for request in made.requests],
        "generated_texts": ["" for _ in made.requests],
        "errors": [request.error for request in made.requests],
    }


def detailed(made: Pass, **more: Any) -> Result:
    """The same with `--save-detailed`, as 0.30 writes it."""
    extra = {
        "start_times": [5577.25 + index / 8 for index in range(len(made.requests))],
        "latencies": [request.e2el for request in made.requests],
        "queue_times": [0.0 for _ in made.requests],
    }
    return {
        **plain(made),
        **arrays(made),
        **extra,
        **scalars(made, ("ttft", "tpot", "itl", "e2el"), (50, 90, 99)),
        **more,
    }


def script_0_6_2(made: Pass, **more: Any) -> Result:
    """What benchmarks/benchmark_serving.py wrote up to 0.6.2: arrays always, mean and median e2el swapped."""
    result = {**plain(made), **arrays(made), **scalars(made, ("ttft", "tpot", "itl", "e2el"))}
    result["mean_e2el_ms"], result["median_e2el_ms"] = result["median_e2el_ms"], result["mean_e2el_ms"]
    absent = ("endpoint_type", "label", "burstiness", "max_concurrency", "failed", "request_goodput")
    return {key: value for key, value in result.items() if key not in absent} | {
        "best_of": 1,
        "use_beam_search": False,
        **more,
    }


def script_0_6_4(made: Pass, **more: Any) -> Result:
    """The script between 0.6.4 and 0.9: the goodput key ends with a colon, failures are not counted."""
    result = {
        key: value for key, value in plain(made).items() if key not in ("failed", "request_goodput", "endpoint_type")
    }
    return {**result, "best_of": 1, "request_goodput:": 0.5 * result["request_throughput"], **more}


def pooling(made: Pass, **more: Any) -> Result:
    """A pooling model: no tokens out, no TTFT, TPOT or ITL."""
    gone = ("total_output_tokens", "output_throughput", "failed", "request_goodput")
    result = {
        key: value
        for key, value in plain(made).items()
        if key not in gone and not key.endswith(("_ttft_ms", "_tpot_ms", "_itl_ms"))
    }
    result["total_token_throughput"] = result["total_input_tokens"] / made.duration
    return {**result, **scalars(made, ("e2el",)), "errors": [request.error for request in made.requests], **more}


def console(made: Pass, *, failed_line: bool = True, total_label: str = "Total token throughput (tok/s):") -> str:
    """The block that the client prints."""
    result = plain(made)
    rows = [
        ("Successful requests:", result["completed"]),
        *([("Failed requests:", result["failed"])] if failed_line else []),
        ("Maximum request concurrency:", made.concurrency),
        ("Benchmark duration (s):", f"{made.duration:.2f}"),
        ("Total input tokens:", result["total_input_tokens"]),
        ("Total generated tokens:", result["total_output_tokens"]),
        ("Request throughput (req/s):", f"{result['request_throughput']:.2f}"),
        ("Output token throughput (tok/s):", f"{result['output_throughput']:.2f}"),
        ("Peak output token throughput (tok/s):", "64.00"),
        ("Peak concurrent requests:", "7.00"),
        (total_label, f"{result['total_token_throughput']:.2f}"),
    ]
    lines = [f"{label:<40} {value:<10}" for label, value in rows if value is not None]
    for family, title in (
        ("ttft", "---------------Time to First Token----------------"),
        ("tpot", "-----Time per Output Token (excl. 1st token)------"),
        ("itl", "---------------Inter-token Latency----------------"),
    ):
        lines.append(title)
        for name in ("mean", "median", "p99"):
            lines.append(f"{f'{name.title()} {family.upper()} (ms):':<40} {result[f'{name}_{family}_ms']:<10.2f}")
    banner = "============ Serving Benchmark Result ============"
    return "\n".join([banner, *lines, "=" * 50, ""])


def write(path: Path, content: Result | list[Any] | str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def import_all(*paths: Path, flags: IdentityFlags = FLAGS, **more: Any) -> ImportResult:
    return read_paths(paths, flags, **more)


def report_on(path: Path, flags: IdentityFlags = FLAGS) -> FileReport:
    """The one report on a file that holds one result."""
    (report,) = import_all(path, flags=flags).files
    return report


Dialect = Callable[..., Result]
