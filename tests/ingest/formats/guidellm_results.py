"""Writes GuideLLM reports of every generation for four requests of 16 + 5 tokens that can be checked by hand.

TTFT 40, 50, 60, 70 ms; the last token 40 ms later, so 10 ms a token; the connection ends 1 ms after that. All within
0.25 s, two at a time. GuideLLM's percentiles are values that occur: the median of four is the second.
"""

import csv
import io
import json
from typing import Any

import yaml

T0 = 1795226568.0
STARTS = (0.0, 0.0, 0.1, 0.139)
TTFTS = (0.040, 0.050, 0.060, 0.070)
DURATION = 0.25
VERSIONS = {"0.5": "0.5.4", "0.8": "0.8.1"}
PERCENTS = ("p001", "p01", "p05", "p10", "p25", "p50", "p75", "p90", "p95", "p99", "p999")
Report = dict[str, Any]


def summary(values: list[float], mean: float | None = None) -> Report:
    """Of the requests that succeeded; the others are zeros, and `total` mixes something in."""
    ordered = sorted(values)
    last = len(ordered) - 1
    shares = (0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999)
    at = [ordered[max(0, -int(-share * len(ordered) // 1) - 1)] for share in shares]
    successful = {
        "mean": sum(values) / len(values) if mean is None else mean,
        "median": at[5],
        "std_dev": 1.0,
        "min": ordered[0],
        "max": ordered[last],
        "count": len(values),
        "total_sum": sum(values),
        "percentiles": dict(zip(PERCENTS, at, strict=True)),
    }
    nothing = {"mean": 0.0, "median": 0.0, "count": 0, "total_sum": 0.0, "percentiles": dict.fromkeys(PERCENTS, 0.0)}
    return {"successful": successful, "errored": nothing, "incomplete": nothing, "total": {**successful, "mean": 99.0}}


def metrics(generation: str) -> Report:
    first = [ttft * 1000 for ttft in TTFTS]
    # (last − first) / 5 up to 0.3, (last − start) / 5 later.
    own = [8.0] * 4 if generation == "0.3" else [(ttft + 40) / 5 for ttft in first]
    # A curve over time, of which only the mean is a rate; up to 0.7 the window of tokens begins with the first.
    output = 96.0 if generation in ("0.4", "0.5") else 80.0
    return {
        "requests_per_second": summary([5.0, 5.0, 8.0, 99.0], 16.0),
        "output_tokens_per_second": summary([3.0, 70.0], output),
        "tokens_per_second": summary([3.0, 300.0], output * 4.2),
        "request_latency": summary([(ttft + 41) / 1000 for ttft in first]),
        "prompt_token_count": summary([16.0] * 4),
        "output_token_count": summary([5.0] * 4),
        "time_to_first_token_ms": summary(first),
        "time_per_output_token_ms": summary(own),
        "inter_token_latency_ms": summary([10.0] * 4),
    }


def request(generation: str, index: int) -> Report:
    start, ttft = T0 + STARTS[index], TTFTS[index]
    first, last = start + ttft, start + ttft + 0.040
    if generation == "0.3":
        times = {"start_time": start, "first_token_time": first, "last_token_time": last, "end_time": last + 0.001}
        return {"type_": "generative_text_response", "prompt_tokens": 16, "output_tokens": 5, **times}
    timings = {"request_start": start, "first_token_iteration": first, "last_token_iteration": last}
    ends = {"request_start_time": start, "request_end_time": last + 0.001}
    return {"prompt_tokens": 16, "output_tokens": 5, "info": {"timings": timings}, **ends}


def early_benchmark(strategy: Report) -> Report:
    """As 0.2 and 0.3 write it."""
    return {
        "type_": "generative_benchmark",
        "run_id": "run-of-0.3",
        "args": {
            "profile": {"type_": strategy["type_"]},
            "strategy_index": 0,
            "strategy": strategy,
            "max_number": 4,
            "max_duration": None,
        },
        "run_stats": {"requests_made": {"successful": 4, "errored": 0, "incomplete": 0, "total": 4}},
        "worker": {"type_": "generative_requests_worker", "backend_model": "org/tiny"},
        "request_loader": {"data": "prompt_tokens=16,output_tokens=5"},
        "metrics": metrics("0.3"),
        "start_time": T0,
        "end_time": T0 + DURATION,
        "duration": DURATION,
        "request_totals": {"successful": 4, "errored": 0, "incomplete": 0, "total": 4},
        "requests": {"successful": [request("0.3", index) for index in range(4)], "errored": [], "incomplete": []},
    }


def later_benchmark(generation: str, strategy: Report) -> Report:
    """As 0.4 to 0.8 write it."""
    kind = "kind" if generation == "0.8" else "type_"
    limit = {"args": {"kind": "max_requests", "count": 4}} if generation == "0.8" else {"max_num": 4}
    data = {} if generation == "0.8" else {"data": "['prompt_tokens=16,output_tokens=5']"}
    totals = {"successful": 4, "errored": 0, "incomplete": 0, "total": 4}
    return {
        "type_": "generative_benchmark",
        "config": {
            "run_id": f"run-of-{generation}",
            "run_index": 0,
            "strategy": {"worker_count": 4, "max_concurrency": 512, **strategy},
            "profile": {kind: strategy["type_"], "max_concurrency": None},
            "constraints": {"max_requests": {**limit, "current_index": 0}},
            "requests": data,
            "backend": {"target": "http://127.0.0.1:8000", "model": "org/tiny"},
            "environment": {"module": "guidellm.scheduler.environments"},
        },
        "scheduler_metrics": {"requests_made": totals},
        "metrics": {"request_totals": totals, **metrics(generation)},
        "requests": {"successful": [request(generation, index) for index in range(4)], "errored": [], "incomplete": []},
        "start_time": T0,
        "end_time": T0 + DURATION,
        "duration": DURATION,
        "warmup_duration": 0.0,
        "cooldown_duration": 0.0,
    }


def report(generation: str = "0.8", *strategies: Report) -> Report:
    """One benchmark for each strategy; generations are 0.3, 0.4, 0.5 and 0.8."""
    asked = strategies or ({"type_": "concurrent", "streams": 2},)
    if generation == "0.3":
        return {"benchmarks": [early_benchmark(strategy) for strategy in asked]}
    benchmarks = [later_benchmark(generation, strategy) for strategy in asked]
    if generation == "0.4":
        return {"args": {}, "benchmarks": benchmarks}
    metadata = {"version": 1 if generation == "0.5" else 2, "guidellm_version": VERSIONS[generation]}
    if generation == "0.5":
        return {"metadata": metadata, "args": {}, "benchmarks": benchmarks}
    source = {"kind": "synthetic_text", "prompt_tokens": 16, "output_tokens": 5, "prompt_tokens_stdev": None}
    return {"metadata": metadata, "config": {"spec": {"data": [source]}}, "benchmarks": benchmarks}


def without_requests(made: Report) -> Report:
    """The report with single requests left out, as a sample size of 0 does."""
    for benchmark in made["benchmarks"]:
        benchmark["requests"]["successful"] = []
    return made


def as_json(made: Report) -> bytes:
    return json.dumps(made).encode()


def as_yaml(made: Report) -> bytes:
    # Through JSON, so that nothing is shared and no alias is written.
    return yaml.safe_dump(json.loads(json.dumps(made))).encode()


def _listed(found: Report) -> list[float]:
    percentiles = found["percentiles"]
    places = ("p001", "p01", "p05", "p10", "p25", "p75", "p90", "p95", "p99")
    return [found["min"], *(percentiles[place] for place in places), found["max"]]


_GROUPS = (
    ("request_latency", "Request Latency", "Sec"),
    ("time_to_first_token_ms", "Time to First Token", "ms"),
    ("time_per_output_token_ms", "Time per Output Token", "ms"),
    ("inter_token_latency_ms", "Inter Token Latency", "ms"),
    ("requests_per_second", "Server Throughput", "Requests/Sec"),
    ("prompt_token_count", "Token Metrics", "Input Tokens"),
    ("output_token_count", "Token Metrics", "Output Tokens"),
    ("output_tokens_per_second", "Token Throughput", "Output Tokens/Sec"),
    ("tokens_per_second", "Token Throughput", "Total Tokens/Sec"),
)


def early_csv(*strategies: Report) -> bytes:
    """As 0.2 and 0.3 write it: one row of headings."""
    rows: list[list[Any]] = []
    headings: list[str] = []
    for one in report("0.3", *strategies)["benchmarks"]:
        cells: dict[str, Any] = {"Type": one["type_"], "Run Id": one["run_id"], "Id": "x", "Name": "concurrent@2"}
        cells |= {"Start Time": "2026-11-21 01:56:08", "End Time": "2026-11-21 01:56:09", "Duration": one["duration"]}
        for status in ("successful", "errored", "incomplete"):
            shown = status.capitalize()
            cells[f"{shown} Requests"] = one["request_totals"][status]
            for key, value in one["metrics"].items():
                name, found = key.replace("_", " ").capitalize(), {"min": 0, "max": 0, **value[status]}
                cells[f"{shown} {name} mean"] = found["mean"]
                cells[f"{shown} {name} median"] = found["median"]
                cells[f"{shown} {name} [min, 0.1, 1, 5, 10, 25, 75, 90, 95, 99, max]"] = _listed(found)
        cells |= {"Args": json.dumps(one["args"]), "Worker": json.dumps(one["worker"])}
        cells |= {"Request Loader": json.dumps(one["request_loader"]), "Extras": "{}"}
        headings = headings or list(cells)
        rows.append(list(cells.values()))
    return _written([headings, *rows])


def later_csv(generation: str = "0.8", *strategies: Report) -> bytes:
    """As 0.4 to 0.8 write it: three rows of headings, percentiles in lists."""
    rows: list[list[Any]] = []
    headings: list[tuple[str, str, str]] = []
    made = report(generation, *strategies)
    for index, one in enumerate(made["benchmarks"]):
        config, strategy = one["config"], one["config"]["strategy"]
        number = strategy.get("streams") or (f"{strategy['rate']:.2f}" if "rate" in strategy else None)
        kind = strategy["type_"]
        told = kind if number is None or generation != "0.8" else f"{kind}@{number}"
        profile = {**config["profile"], "streams": [2, 4], "rate": [2.0, 4.0]}
        cells: dict[tuple[str, str, str], Any] = {
            ("Run Info", "Run ID", ""): config["run_id"],
            ("Run Info", "Run Index", ""): index,
            ("Run Info", "Profile", ""): json.dumps(profile),
            ("Run Info", "Requests", ""): json.dumps(config["requests"]),
            ("Run Info", "Backend", ""): json.dumps(config["backend"]),
            ("Benchmark", "Strategy", ""): told,
            ("Benchmark", "Constraints", ""): json.dumps(config["constraints"]),
            ("Timings", "Measure Start Time", ""): "2026-11-21 01:56:08",
            ("Timings", "Duration", "Sec"): one["duration"],
            ("Timings", "Warmup", "Sec"): 0.0,
            ("Timings", "Cooldown", "Sec"): 0.0,
        }
        counts = one["metrics"]["request_totals"]
        cells |= {("Request Counts", name.capitalize(), ""): count for name, count in counts.items()}
        for key, group, unit in _GROUPS:
            found = one["metrics"][key]["successful"]
            title = f"Successful {unit}"
            cells |= {(group, title, "Mean"): found["mean"], (group, title, "Median"): found["median"]}
            cells[(group, title, "Percentiles")] = str(_listed(found))
        cells["Runtime Info", "Metadata", ""] = json.dumps(made.get("metadata", {}))
        cells["Runtime Info", "Arguments", ""] = json.dumps(made.get("config", made.get("args")))
        headings = headings or list(cells)
        rows.append(list(cells.values()))
    return _written([*zip(*headings, strict=True), *rows])


def _written(rows: list[Any]) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue().encode()
