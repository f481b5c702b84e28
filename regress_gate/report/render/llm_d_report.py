"""Stored runs as llm-d benchmark reports 0.2.1: one JSON document for each trial.

Source: the JSON schema in llm-d/llm-d-benchmark, analysis/benchmark_report. Times are in seconds. What the schema has
no place for is written to the native configuration of the stack's component (ingest/formats/llm_d_extension.py), so
that an import gives the same trial. The component is generic, because a run does not store how many accelerators
served and with which parallelism.
"""

import hashlib
import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

from regress_gate.ingest.formats import llm_d_extension
from regress_gate.ingest.formats.llm_d import OWN_FAMILIES
from regress_gate.model.metric import DEFINITIONS_KEY
from regress_gate.model.run import Run, Trial
from regress_gate.report.render.run_tables import RunFormat, identity, place_name, states_failures
from regress_gate.text import slugify

VERSION = "0.2.1"

_PER_TOKEN = ("time_per_output_token", "inter_token_latency", "normalized_time_per_output_token")
_STATISTICS = {"mean": "mean", "median": "p50", "p90": "p90", "p95": "p95", "p99": "p99"}
_RATES = {
    "request_rate": ("request_throughput", "queries/s"),
    "output_token_rate": ("output_throughput", "tokens/s"),
    "total_token_rate": ("total_throughput", "tokens/s"),
}
_VLLM_BENCH = "vllm-benchmark"
"""What llm-d calls vLLM's own client."""


def render(run: Run, trial: Trial) -> str:
    """The report on one trial as JSON, ending in a newline."""
    return json.dumps(report(run, trial), indent=2, ensure_ascii=True, allow_nan=False) + "\n"


def report(run: Run, trial: Trial) -> dict[str, Any]:
    """The report on one trial as plain values."""
    latency = _latency(trial.metrics)
    throughput = {
        name: {"units": unit, "mean": trial.metrics[metric]}
        for name, (metric, unit) in _RATES.items()
        if metric in trial.metrics
    }
    covered = {
        f"{family}_{ours}"
        for name, family in OWN_FAMILIES.items()
        for ours, theirs in _STATISTICS.items()
        if theirs in latency.get(name, {})
    }
    covered |= {metric for name, (metric, _) in _RATES.items() if name in throughput} | {"failed_requests"}
    rest = {name: value for name, value in {**trial.metrics, **run.metrics}.items() if name not in covered}
    aggregate = {"latency": latency, "throughput": throughput} | _requests(trial)
    return {
        "version": VERSION,
        "run": _run(run, trial),
        "scenario": {"stack": [_component(run, trial, rest)], **_load(trial)},
        "results": {"request_performance": {"aggregate": {name: part for name, part in aggregate.items() if part}}},
    }


def _latency(metrics: Mapping[str, float]) -> dict[str, dict[str, Any]]:
    """Families that have a mean; the schema wants one."""
    latencies: dict[str, dict[str, Any]] = {}
    for name, family in OWN_FAMILIES.items():
        if f"{family}_mean" in metrics:
            latencies[name] = {"units": "s/token" if name in _PER_TOKEN else "s"} | {
                theirs: metrics[f"{family}_{ours}"]
                for ours, theirs in _STATISTICS.items()
                if f"{family}_{ours}" in metrics
            }
    return latencies


def _requests(trial: Trial) -> dict[str, Any]:
    if trial.completed is None:
        return {}
    lengths = {
        f"{name}_length": {"units": "count", "mean": mean}
        for name in ("input", "output")
        if (mean := trial.workload.get(f"mean_{name}_tokens")) is not None
    }
    states = {"failures": trial.failed} if states_failures(trial) else {}
    return {"requests": {"total": trial.completed + trial.failed, **states, **lengths}}


def _run(run: Run, trial: Trial) -> dict[str, Any]:
    key = "\n".join((str(run.version), run.testbed.name, str(run.suite), run.label))
    place = f"{key}\n{trial.scenario}\n{trial.ordinal}"
    section: dict[str, Any] = {
        "uid": str(uuid.uuid5(uuid.NAMESPACE_OID, place)),
        "eid": str(uuid.uuid5(uuid.NAMESPACE_OID, key)),
        "description": f"{trial.scenario} on {run.testbed.name}, run {run.label}, trial {trial.ordinal}",
    }
    if trial.started is not None:
        section["time"] = {"start": trial.started.isoformat()}
        if trial.duration is not None:
            end = trial.started + timedelta(seconds=trial.duration)
            section["time"] |= {"end": end.isoformat(), "duration": f"PT{trial.duration:f}S"}
    return section


def _component(run: Run, trial: Trial, rest: Mapping[str, float]) -> dict[str, Any]:
    own: dict[str, Any] = {
        **identity(run, trial),
        "workload": {name: value for name, value in trial.workload.items() if name != DEFINITIONS_KEY},
        "metrics": rest,
    }
    standardized = {"kind": "generic", "tool": "vllm", "tool_version": str(run.version)}
    if (model := trial.workload.get("model")) is not None:
        standardized["model"] = model
    return {
        "metadata": {"label": "vllm", "cfg_id": _digest({"testbed": run.testbed.facts, "server": dict(run.server)})},
        "standardized": standardized | run.testbed.facts,
        "native": {"config": {llm_d_extension.EXTENSION_KEY: own}},
    }


def _load(trial: Trial) -> dict[str, Any]:
    """How it was sent; nothing where the length of the input, which the schema wants, is not known."""
    fixed = trial.workload.get("input_len")
    length = fixed if fixed is not None else trial.workload.get("mean_input_tokens")
    if length is None:
        return {}
    definitions = trial.workload.get(DEFINITIONS_KEY)
    by_vllm = definitions is None or str(definitions).startswith("vllm-bench")
    standardized: dict[str, Any] = {
        "tool": _VLLM_BENCH if by_vllm else str(definitions),
        "tool_version": trial.source.client_version or "unknown",
        "source": "unknown",
        "input_seq_len": {"distribution": "other" if fixed is None else "fixed", "value": length},
    }
    for name, key in (("rate_qps", "request_rate"), ("concurrency", "max_concurrency")):
        if (value := trial.workload.get(key)) is not None:
            standardized[name] = value
    metadata = {"cfg_id": _digest(dict(trial.workload))}
    return {"load": {"metadata": metadata, "standardized": standardized, "native": {}}}


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:32]


def _reports(runs: Sequence[Run]) -> Iterator[tuple[str, str]]:
    for run in runs:
        for trial in run.trials:
            label, scenario = slugify(run.label), slugify(trial.scenario)
            yield f"{place_name(run)}-{label}-{scenario}-t{trial.ordinal}.json", render(run, trial)


FORMAT = RunFormat(lambda runs: "".join(text for _, text in _reports(runs)), _reports)
