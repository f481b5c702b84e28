"""GuideLLM (`guidellm run`, `guidellm benchmark`): JSON, YAML and CSV reports of 0.2 to 0.8, many benchmarks to a file.

Up to 0.3 a benchmark in JSON and YAML has `args`, `worker`, `request_loader` and `run_stats`; from 0.4 on `config` and
`scheduler_metrics`. The layout of CSV is in guidellm_csv.py, the meaning of the numbers in guidellm_cell.py.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from pathlib import PurePath
from typing import Any

from regress_gate.ingest import fields, parsing
from regress_gate.ingest.content import Content
from regress_gate.ingest.formats import guidellm_csv
from regress_gate.ingest.formats.guidellm_cell import (
    Cell,
    Era,
    Object,
    RequestedLoad,
    era_of,
    guidellm_workload,
    objectives,
    reading_of_cell,
    report_version,
)
from regress_gate.ingest.interface import (
    MAX_RESULTS,
    Certainty,
    Context,
    FileOutcome,
    Generation,
    Reading,
    UnusedResult,
)
from regress_gate.ingest.parsing import NotJsonError
from regress_gate.measurement.plausibility import RefusalError, check_moments
from regress_gate.measurement.totals import MeasuredRequest
from regress_gate.text import plural

_FAMILIES = {
    "ttft": ("time_to_first_token_ms", 1e-3),
    "tpot": ("inter_token_latency_ms", 1e-3),
    "own_tpot": ("time_per_output_token_ms", 1e-3),
    "e2el": ("request_latency", 1.0),
}
_RATES = {
    "request_throughput": "requests_per_second",
    "output_throughput": "output_tokens_per_second",
    "total_throughput": "tokens_per_second",
    "goodput": "request_goodput",
}
_PERCENTILES = ("p90", "p95", "p99")


def is_report(document: object) -> bool:
    """Whether a parsed file is a report of GuideLLM, usable or not."""
    if not isinstance(document, dict) or not fields.is_list(runs := document.get("benchmarks")):
        return False
    if isinstance(metadata := document.get("metadata"), dict) and "guidellm_version" in metadata:
        return True
    first = runs[0] if runs else None
    return isinstance(first, dict) and (
        first.get("type_") == "generative_benchmark" or "scheduler_metrics" in first or "run_stats" in first
    )


def run_ids(report: Object) -> set[str]:
    """Identifies the same run in reports of other formats."""
    ids = {run_id(benchmark) for benchmark in fields.items(report, "benchmarks")}
    return {run for run in ids if run is not None}


def run_id(benchmark: object) -> str | None:
    if not isinstance(benchmark, dict):
        return None
    config = benchmark.get("config")
    identifier = benchmark.get("run_id") or (config.get("run_id") if isinstance(config, dict) else None)
    return identifier if isinstance(identifier, str) else None


def cell_from_report(report: Object, benchmark: Object, client_version: str | None) -> Cell:
    """Raises RefusalError if the benchmark is not as GuideLLM writes it."""
    if "type_" not in benchmark:  # in YAML it follows everything that is read
        raise RefusalError("type_ is missing: the file was cut off, or edited")
    era = _era(benchmark, None if report_version(report) else client_version)
    metrics = fields.obj(benchmark, "metrics")
    totals = _totals(benchmark, metrics)
    completed = fields.count(totals, "successful")
    if completed is None:
        raise RefusalError("how many requests succeeded is not stated (request_totals)")
    workload, notes = guidellm_workload(_asked(report, benchmark))
    listed = fields.items(fields.obj(benchmark, "requests"), "successful")
    requests = _measured_statistics(benchmark, listed, era)
    if requests is not None and len(requests) != completed:
        requests = None
    if requests is None:
        notes.append(
            f"holds the times of {len(listed)} of {plural(completed, 'request')}: the statistics are GuideLLM's own"
        )
    return Cell(
        era=era,
        completed=completed,
        errored=fields.count(totals, "errored") or 0,
        incomplete=fields.count(totals, "incomplete") or 0,
        duration=fields.required(benchmark, "duration"),
        trimmed=any((fields.number(benchmark, key) or 0) > 0 for key in ("warmup_duration", "cooldown_duration")),
        statistics={family: _statistics(metrics, key, scale) for family, (key, scale) in _FAMILIES.items()},
        rates={name: rate for name, key in _RATES.items() if (rate := _mean(metrics, key)) is not None},
        input_tokens=_mean(metrics, "prompt_token_count"),
        output_tokens=_mean(metrics, "output_token_count"),
        workload=workload | objectives(fields.obj(fields.obj(benchmark, "config"), "slo")),
        attainment=fields.number(metrics, "slo_attainment"),
        determined=fields.count(metrics, "slo_determined_requests"),
        requests=requests,
        started=_started(benchmark),
        client=report_version(report),
        notes=tuple(notes),
    )


def _era(benchmark: Object, client_version: str | None) -> Era:
    early, later = "run_stats" in benchmark and "worker" in benchmark, "config" in benchmark
    by_layout = Era.EARLY if early and not later else Era.LATER if later and not early else Era.UNKNOWN
    return era_of(by_layout, client_version)


def _totals(benchmark: Object, metrics: Object) -> Object:
    """Requests by outcome: in the measured time if that is stated, else all."""
    places = (
        fields.obj(metrics, "request_totals"),
        fields.obj(benchmark, "request_totals"),
        fields.obj(fields.obj(benchmark, "scheduler_metrics"), "requests_made"),
        fields.obj(fields.obj(benchmark, "run_stats"), "requests_made"),
    )
    return next((place for place in places if place), {})


def _asked(report: Object, benchmark: Object) -> RequestedLoad:
    config, args = fields.obj(benchmark, "config"), fields.obj(benchmark, "args")
    source = config or args
    spec = fields.obj(fields.obj(report, "config"), "spec")
    model = fields.text(fields.obj(config, "backend"), "model")
    return RequestedLoad(
        strategy=fields.obj(source, "strategy"),
        profile=fields.obj(source, "profile"),
        model=model or fields.text(fields.obj(benchmark, "worker"), "backend_model"),
        constraints=fields.obj(config, "constraints") or args,
        data=spec.get("data")
        or fields.obj(config, "requests").get("data")
        or fields.obj(benchmark, "request_loader").get("data"),
    )


def _statistics(metrics: Object, key: str, scale: float) -> dict[str, float]:
    """Statistics of the requests that succeeded; empty if nothing was counted, which is written as zeros."""
    summary = fields.obj(fields.obj(metrics, key), "successful")
    if fields.number(summary, "count") == 0:
        return {}
    percentiles = fields.obj(summary, "percentiles")
    statistics = {name: fields.number(summary, name) for name in ("mean", "median")}
    statistics |= {name: fields.number(percentiles, name) for name in _PERCENTILES}
    return {name: value * scale for name, value in statistics.items() if value is not None}


def _mean(metrics: Object, key: str) -> float | None:
    return fields.number(fields.obj(fields.obj(metrics, key), "successful"), "mean")


def _measured_statistics(benchmark: Object, entries: Sequence[Any], era: Era) -> list[MeasuredRequest] | None:
    """The requests of the measured time; None if one of them lacks its times."""
    if era is Era.UNKNOWN:
        return None
    start, end = fields.number(benchmark, "start_time"), fields.number(benchmark, "end_time")
    check_moments("start_time", start, "end_time", end)
    requests = []
    for entry in entries:
        if not isinstance(entry, dict):
            raise RefusalError("requests.successful is not a list of objects")
        if era is Era.LATER and start is not None and end is not None and not _is_within(entry, start, end):
            continue
        if (request := (early_request if era is Era.EARLY else later_request)(entry)) is None:
            return None
        requests.append(request)
    return requests


def _is_within(entry: Object, start: float, end: float) -> bool:
    """Whether a request counts as between warm-up and cool-down, by the tool's own rule."""
    began, ended = fields.number(entry, "request_start_time"), fields.number(entry, "request_end_time")
    check_moments("request_start_time", began, "request_end_time", ended)
    return (ended is None or ended >= start) and (began is None or began <= end)


def early_request(entry: Object) -> MeasuredRequest | None:
    """A request of a report of 0.2 or 0.3; None if its times or its tokens are not stated."""
    return _request(entry, *(fields.number(entry, f"{key}_time") for key in ("start", "first_token", "last_token")))


def later_request(entry: Object) -> MeasuredRequest | None:
    """A request of a report of 0.4 or later; None if its times or its tokens are not stated."""
    times = fields.obj(fields.obj(entry, "info"), "timings")
    keys = ("request_start", "first_token_iteration", "last_token_iteration")
    return _request(entry, *(fields.number(times, key) for key in keys))


def _request(entry: Object, start: float | None, first: float | None, last: float | None) -> MeasuredRequest | None:
    tokens = fields.count(entry, "prompt_tokens"), fields.count(entry, "output_tokens")
    if start is None or first is None or last is None or tokens[0] is None or not tokens[1]:
        return None
    # GuideLLM keeps no gaps between chunks.
    return MeasuredRequest(start, first - start, last - start, (), tokens[0], tokens[1])


def _started(benchmark: Object) -> datetime | None:
    try:
        start = fields.number(benchmark, "start_time")
        return None if start is None else datetime.fromtimestamp(start, UTC)
    except (OverflowError, ValueError, OSError):
        raise RefusalError(f"start_time {benchmark['start_time']:g} is no time") from None


_YAML = re.compile(r"\A(?:args|benchmarks|config|metadata):")
_YAML_MARK = re.compile(r"(?m)^\s*(?:guidellm_version|strategy_index|run_index): |guidellm\.scheduler")
_HEAD = 200_000
_RICHER = {".csv": (".json", ".yaml", ".yml"), ".yaml": (".json",), ".yml": (".json",)}
"""The more complete file, if one run was written in several formats."""


class GuideLlm:
    name = "guidellm"
    tool = "guidellm"
    bare_constants = False
    generations = (
        Generation(
            "0.2 and 0.3",
            "`run_stats` and `worker`",
            "ttft, tpot, e2el, rates, failures; single requests",
            "inter-token latency is a TPOT weighted by tokens; its own TPOT is tpot_per_token",
        ),
        Generation(
            "0.4 to 0.6",
            "`scheduler_metrics`; `metadata.version` 1 from 0.5 on",
            "the same",
            "its own TPOT includes the first token: normalized_latency. Its token rates begin with the first token: "
            "made from counts instead",
        ),
        Generation(
            "0.7 and 0.8",
            "`metadata.version` 2",
            "the same; from 0.8 on goodput and determined_attainment",
            "as 0.4 to 0.6; its attainment leaves out requests without a value for an objective, such as a tpot of "
            "one token",
        ),
        Generation("CSV", "`Run Info` or `Type,Run Id`", "the statistics", "skipped beside the JSON report of the run"),
    )

    def recognises(self, content: Content) -> Certainty:
        if content.text is not None:
            return Certainty.SURE if guidellm_csv.is_report(content.text) or _is_yaml(content.text) else Certainty.NO
        return Certainty.SURE if any(map(is_report, content.documents)) else Certainty.NO

    def read(self, content: Content, context: Context) -> Sequence[Reading | UnusedResult]:
        """One result for each benchmark: each step of a sweep, each number of streams."""
        results: list[Reading | UnusedResult] = []
        richer = _richer(content, context)
        for position, (run, cell) in enumerate(islice(_cells(content, context), MAX_RESULTS + 1)):
            if run in richer:
                results.append(UnusedResult(position, FileOutcome.SKIPPED, f"the same run as {richer[run]} beside it"))
                continue
            try:
                results.append(reading_of_cell(cell(), position, with_samples=context.with_samples))
            except RefusalError as refusal:
                results.append(UnusedResult(position, FileOutcome.REFUSED, str(refusal)))
        if not results:
            raise RefusalError("there is no benchmark in it: the run ended before the first one did")
        return results


_Cells = Iterator[tuple[str | None, Callable[[], Cell]]]
"""For each benchmark the id of its run, and a function that reads it."""


def _cells(content: Content, context: Context) -> _Cells:
    if content.text is not None and guidellm_csv.is_report(content.text):
        for row in guidellm_csv.rows_of(content.text):
            yield guidellm_csv.run_id(row), partial(guidellm_csv.cell_of, row, context.client_version)
        return
    for report in _reports(content):
        for benchmark in fields.items(report, "benchmarks"):
            yield run_id(benchmark), partial(_cell, report, benchmark, context.client_version)


def _cell(report: dict[str, Any], benchmark: Any, client_version: str | None) -> Cell:
    if not isinstance(benchmark, dict):
        raise RefusalError("benchmarks is not a list of objects")
    return cell_from_report(report, benchmark, client_version)


def _reports(content: Content) -> Iterator[dict[str, Any]]:
    documents = content.each() if content.text is None else iter([_yaml(content.text, content.name)])
    for document in documents:
        if not is_report(document):
            raise RefusalError("not a whole report of GuideLLM: cut off, or another tool's")
        yield document


def _yaml(text: str, name: str) -> Any:
    if not text.endswith("\n"):
        raise RefusalError("its last line does not end: the file was cut off")
    return parsing.parse_yaml_text(text, name)


def _is_yaml(text: str) -> bool:
    return _YAML.match(text) is not None and _YAML_MARK.search(text[:_HEAD]) is not None


def _richer(content: Content, context: Context) -> dict[str | None, str]:
    """By id of a run: the name of a more complete file in the same folder."""
    path = PurePath(content.name)
    files: dict[str | None, str] = {}
    for suffix in _RICHER.get(path.suffix.lower(), ()):
        name = path.stem + suffix
        if (other := context.beside(name)) is not None:
            files |= dict.fromkeys(_runs(other) - files.keys(), name)
    return files


def _runs(content: Content) -> set[str]:
    try:
        return {run for report in _reports(content) for run in run_ids(report)}
    except (RefusalError, NotJsonError):
        return set()
