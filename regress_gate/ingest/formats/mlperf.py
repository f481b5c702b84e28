"""MLPerf loadgen's mlperf_log_summary.txt (Server and Offline), with the detail log beside it for the version.

The summary is text: `key : value`, latencies in nanoseconds. Runs that loadgen calls INVALID also have numbers and are
refused.
"""

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from regress_gate.ingest import fields
from regress_gate.ingest.content import Content
from regress_gate.ingest.interface import Certainty, Context, FileOutcome, Generation, Reading, UnusedResult
from regress_gate.measurement.plausibility import RefusalError, Summary, checked_metrics
from regress_gate.text import excerpt, plural, quoted

SUMMARY = "mlperf_log_summary.txt"
DETAIL = "mlperf_log_detail.txt"

_MAX_TEXT = 1024 * 1024
"""Characters of a summary."""
_BANNER = re.compile(r"\A\s*=+\s*\n\s*MLPerf Results Summary\s*\n")
_LOG = re.compile(r"\A\s*:::MLLOG ")
_PAIR = re.compile(r"^[ *]*([^:\n]{1,80}?) *: *(.{0,200}?) *$", re.MULTILINE)
_PARAMETERS = re.compile(r"^Test Parameters Used$", re.MULTILINE)
_STATISTIC = re.compile(
    r"(?:(?P<mean>mean)|(?P<percent>50|90|95|99)\.00 percentile)"
    r" (?P<what>first token latency|time (?:per|to) output token|latency) \(ns\)",
    re.IGNORECASE,
)
_FAMILY = {"first token latency": "ttft", "latency": "e2el"}
_RATES = {
    "Server": {
        "request_throughput": "Completed samples per second",
        "output_throughput": "Completed tokens per second",
    },
    "Offline": {"request_throughput": "Samples per second", "output_throughput": "Tokens per second"},
}
_MODES = ("PerformanceOnly", "SubmissionRun")
_TROUBLE = re.compile(r"^(\d+) (ERRORS?|WARNINGS?) encountered", re.MULTILINE | re.IGNORECASE)
_LOG_LINES = 1000
"""Lines of the detail log that may state the version of loadgen; the others are one line a request."""


class MlperfLoadgen:
    name = "mlperf"
    tool = "MLPerf loadgen"
    bare_constants = False
    generations = (
        Generation(
            "Server",
            "`MLPerf Results Summary` and `Scenario : Server`",
            "ttft, tpot, e2el (mean, median, p90, p95, p99), completed samples and tokens a second",
            "nanoseconds; INVALID runs are refused; counts of requests are not in it; loadgen's version and the time "
            "come from mlperf_log_detail.txt beside it",
        ),
        Generation(
            "Offline",
            "`Scenario : Offline`",
            "e2el, samples and tokens a second",
            "all samples are sent at once, so e2el is mostly waiting",
        ),
    )

    def recognises(self, content: Content) -> Certainty:
        if content.text is None:
            return Certainty.NO
        known = _BANNER.match(content.text) or _LOG.match(content.text)
        return Certainty.SURE if known else Certainty.NO

    def read(self, content: Content, context: Context) -> Sequence[Reading | UnusedResult]:
        text = content.text or ""
        if _LOG.match(text):
            beside = context.beside(SUMMARY)
            if beside is not None and beside.text is not None and _BANNER.match(beside.text):
                return [UnusedResult(0, FileOutcome.SKIPPED, f"the detail log of the {SUMMARY} beside it")]
            return [UnusedResult(0, FileOutcome.REFUSED, f"loadgen's detail log without its {SUMMARY}; import that")]
        if not _BANNER.match(text):
            raise RefusalError(f"not loadgen's {SUMMARY}")
        if len(text) > _MAX_TEXT:
            raise RefusalError(f"too long for loadgen's {SUMMARY}, which has some kilobytes")
        return [_reading(text, _detail(context))]


def _reading(text: str, detail: Mapping[str, str]) -> Reading:
    parts = _PARAMETERS.split(text, maxsplit=1)
    if len(parts) < 2:
        raise RefusalError("its test parameters are missing: the file was cut off")
    results, parameters = _pairs(parts[0]), _pairs(parts[1])
    scenario = results.get("Scenario", "")
    if scenario not in _RATES:
        raise RefusalError(f"scenario {quoted(scenario)} is not read; Server and Offline are")
    if (mode := results.get("Mode")) not in _MODES:
        raise RefusalError(f"mode {quoted(mode)} is no performance run")
    if (verdict := results.get("Result is")) != "VALID":
        failed = [key for key, value in results.items() if value.upper() == "NO"]
        why = f" ({excerpt(', '.join(failed))}: NO)" if failed else ""
        raise RefusalError(
            f"loadgen calls the run {excerpt(verdict or 'nothing', 20)}{why}: its numbers are not a result"
        )
    trouble = {match[2].upper().rstrip("S"): int(match[1]) for match in _TROUBLE.finditer(parts[1])}
    if errors := trouble.get("ERROR"):
        raise RefusalError(f"loadgen met {plural(errors, 'error')}: see the detail log")
    rates = {name: rate for name, key in _RATES[scenario].items() if (rate := _number(results, key)) is not None}
    if "request_throughput" not in rates:
        raise RefusalError(f"{_RATES[scenario]['request_throughput']} is missing")
    metrics, notes = checked_metrics(Summary(latencies=_latencies(results), rates=rates, rate_rounding=0.005))
    if warnings := trouble.get("WARNING"):
        notes.append(f"loadgen met {plural(warnings, 'warning')}: see the detail log")
    workload: dict[str, Any] = {"mlperf": scenario, "request_rate": None}
    if scenario == "Server":
        workload["request_rate"] = _number(parameters, "target_qps")
        if not workload["request_rate"]:
            raise RefusalError("target_qps is missing: at which rate requests were sent is not known")
    if "request_throughput" in metrics and "output_throughput" in metrics:
        workload["mean_output_tokens"] = metrics["output_throughput"] / metrics["request_throughput"]
    metadata = {}
    if version := detail.get("loadgen_version"):
        metadata["client_version"] = f"MLPerf loadgen {excerpt(version, 60)}"
    return Reading(
        position=0,
        completed=None,
        failed=0,
        duration=None,
        metrics=metrics,
        workload=workload,
        definitions="mlperf-loadgen",
        started=_started(detail.get("test_datetime")),
        metadata=metadata,
        notes=tuple(notes),
    )


def _pairs(text: str) -> dict[str, str]:
    """`key : value` from each line; the first value of a key counts, because loadgen repeats some."""
    pairs: dict[str, str] = {}
    for match in _PAIR.finditer(text):
        pairs.setdefault(match[1], match[2])
    return pairs


def _latencies(results: Mapping[str, str]) -> dict[str, dict[str, float]]:
    latencies: dict[str, dict[str, float]] = {}
    for key in results:
        if match := _STATISTIC.fullmatch(key):
            family = _FAMILY.get(match["what"].lower(), "tpot")
            percent = match["percent"]
            statistic = "mean" if match["mean"] else "median" if percent == "50" else f"p{percent}"
            value = _number(results, key)
            latencies.setdefault(family, {})[statistic] = 0.0 if value is None else value * 1e-9
    return latencies


def _number(pairs: Mapping[str, str], key: str) -> float | None:
    text = pairs.get(key)
    if text is None:
        return None
    if not re.fullmatch(r"-?\d{1,25}(?:\.\d{1,25})?(?:[eE][-+]?\d{1,3})?", text, re.ASCII):
        raise RefusalError(f"{key} is {quoted(text)}, not a number")
    return fields.number({key: float(text)}, key)


def _detail(context: Context) -> dict[str, str]:
    """Version and time from the head of the detail log; empty if there is none."""
    content = context.beside(DETAIL)
    entries: dict[str, str] = {}
    if content is None or content.text is None:
        return entries
    for line in content.text[: _LOG_LINES * 1000].split("\n")[:_LOG_LINES]:
        if not line.startswith(":::MLLOG "):
            continue
        try:
            entry = json.loads(line.removeprefix(":::MLLOG "))
        except (ValueError, RecursionError):
            continue
        if isinstance(entry, dict) and entry.get("key") in ("loadgen_version", "test_datetime"):
            entries[entry["key"]] = str(entry.get("value"))
    return entries


def _started(text: str | None) -> datetime | None:
    try:
        return None if text is None else datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    except ValueError:
        return None
