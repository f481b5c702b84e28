"""Histories of github-action-benchmark: `data.js`, the same as JSON, and the list that is the action's input.

Each commit of each chart is a result. Charts may hold anything, so only names and units that certainly are a metric of
the catalogue are read, and the others are listed. nm-vllm puts a JSON object into `name` and `extra`; its
`vllm_version` is 0.1.0 for half of its history and is not used.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from regress_gate.ingest import fields, parsing
from regress_gate.ingest.content import Content
from regress_gate.ingest.interface import (
    MAX_RESULTS,
    Certainty,
    Context,
    FileOutcome,
    Generation,
    Reading,
    UnusedResult,
)
from regress_gate.measurement.plausibility import RefusalError, Summary, checked_metrics
from regress_gate.model.metric import METRICS
from regress_gate.text import MAX_NAME, excerpt, quoted, slugify

_TIME = {"s": 1.0, "sec": 1.0, "seconds": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_REQUESTS = ("req/s", "requests/s", "requests/sec", "request/s", "prompts/s", "1/s")
_TOKENS = ("tok/s", "tokens/s", "tokens/sec", "token/s", "1/s")
_LATENCY = re.compile(
    r"(mean|median|p50|p90|p95|p99)_(ttft|tpot|itl|e2el|request_latency)(?:_(ms|s))?"
    r"|(ttft|tpot|itl|e2el)_(mean|median|p90|p95|p99)"
)
_RATES = {
    "request_throughput": ("request_throughput", _REQUESTS),
    "request_goodput": ("goodput", _REQUESTS),
    "goodput": ("goodput", _REQUESTS),
    "output_throughput": ("output_throughput", _TOKENS),
    "output_token_throughput": ("output_throughput", _TOKENS),
    "total_throughput": ("total_throughput", _TOKENS),
    "total_token_throughput": ("total_throughput", _TOKENS),
}
_UNIT_IN_NAME = re.compile(r"(.*\S) ?\(([^()]{1,20})\)")


@dataclass(frozen=True, slots=True)
class KnownMetric:
    metric: str
    factor: float
    """Factor to the catalogue's unit."""

    @property
    def smaller_is_better(self) -> bool:
        return METRICS[self.metric].direction.value == "lower_is_better"


def known_metric(name: str, unit: str) -> KnownMetric | None:
    """The metric of a name without its scenario; None if it is not certain.

    Known are the names that vLLM's clients print or write and those of the catalogue, with a unit that fits. Raises
    RefusalError if the name is known and its unit is not, or if they contradict each other.
    """
    if match := _UNIT_IN_NAME.fullmatch(name):
        name, in_name = match[1], match[2]
        if unit and in_name != unit:
            raise RefusalError(f"{quoted(name)} is in {quoted(in_name)} by its name and in {quoted(unit)} by its unit")
        unit = in_name
    key = re.sub(r"[ -]+", "_", name.strip().lower())
    if key in _RATES:
        metric, units = _RATES[key]
        if unit.lower() not in units:
            raise RefusalError(f"{quoted(name)} is in {quoted(unit)}, not in one of {', '.join(units)}")
        return KnownMetric(metric, 1.0)
    if (latency := _LATENCY.fullmatch(key)) is None:
        return None
    if unit.lower() not in _TIME or latency[3] not in (None, unit.lower()):
        raise RefusalError(f"{quoted(name)} is in {quoted(unit)}, which is not the unit of its name, or none of time")
    family = latency[2] or latency[4]
    statistic = latency[1] or latency[5]
    family = "e2el" if family == "request_latency" else family
    return KnownMetric(f"{family}_{'median' if statistic == 'p50' else statistic}", _TIME[unit.lower()])


_SCRIPT = re.compile(r"\A\s*window\.BENCHMARK_DATA\s*=\s*")
_OF_VLLM = re.compile(r".*/(?:nm-)?vllm/?")
_COMMIT = re.compile(r"[0-9a-f]{7,40}")
_BEFORE_METRIC = re.compile(r"(.*\S)(?: ?/ ?|: | - )([^/]+(?:\([^()]*\))?)")
_NAMED = 4
"""Benchmarks that a refusal lists by name."""
_OFFLINE = "benchmark_throughput"


class GithubActionBenchmark:
    name = "github-action-benchmark"
    tool = "github-action-benchmark"
    bare_constants = False
    generations = (
        Generation(
            "data.js, or its JSON",
            "`window.BENCHMARK_DATA`, `entries` and `repoUrl`",
            "ttft, tpot, itl, e2el and rates by the names that vLLM's clients give them; one result a commit and chart",
            "a version only where the repository is vLLM itself: else the commit is the benchmark's own; other names "
            "are refused: write a long table",
        ),
        Generation("nm-vllm", "JSON in `name` and `extra`", "the same", "its `vllm_version` is wrong and not used"),
        Generation("the action's input", "a list of `name`, `unit`, `value`", "the same, without a commit"),
    )

    def recognises(self, content: Content) -> Certainty:
        if content.text is not None:
            return Certainty.SURE if _SCRIPT.match(content.text) else Certainty.NO
        document = content.documents[0] if len(content.documents) == 1 else None
        if isinstance(document, dict) and isinstance(document.get("entries"), dict) and "repoUrl" in document:
            return Certainty.SURE
        return Certainty.LIKELY if _is_input(document) else Certainty.NO

    def read(self, content: Content, context: Context) -> Sequence[Reading | UnusedResult]:  # noqa: ARG002
        document = content.documents[0] if len(content.documents) == 1 else None
        if content.text is not None and (begin := _SCRIPT.match(content.text)):
            document = _parsed(content.text[begin.end() :])
        if _is_input(document):
            entries: Iterator[tuple[str, Any]] = iter([("", {"benches": document})])
            repository = ""
        elif isinstance(document, dict):
            groups = fields.obj(document, "entries")
            entries = ((group, entry) for group in groups for entry in _entries(groups, group))
            repository = fields.text(document, "repoUrl") or ""
        else:
            raise RefusalError("not data of github-action-benchmark")
        results: list[Reading | UnusedResult] = []
        for group, entry in entries:
            results += _entry(group, entry, _OF_VLLM.fullmatch(repository) is not None, len(results))
            if len(results) > MAX_RESULTS:
                break  # the import refuses it
        return results


_MAX_SCRIPT = 64 * 1024 * 1024
"""Characters of a script, which is copied several times until it is parsed."""
_MAX_BENCHES = 20_000
"""Of one commit."""


def _is_input(document: object) -> bool:
    return (
        fields.is_list(document)
        and bool(document)
        and all(isinstance(bench, dict) and {"name", "unit", "value"} <= bench.keys() for bench in document)
        and not any("metric" in bench or "version" in bench for bench in document)
    )


def _entries(groups: Mapping[str, Any], group: str) -> Sequence[Any]:
    entries = groups[group]
    if not fields.is_list(entries):
        raise RefusalError(f"the chart {quoted(group)} is {quoted(entries)}, not a list")
    return entries


def _parsed(script: str) -> Any:
    if len(script) > _MAX_SCRIPT:
        raise RefusalError(f"a script of more than {_MAX_SCRIPT // 1024**2} MiB; import its JSON, or split it")
    try:
        documents = parsing.parse_json(script.strip().removesuffix(";").encode()).documents
    except parsing.NotJsonError as error:
        raise RefusalError(f"what is assigned to window.BENCHMARK_DATA is no JSON: {error}") from None
    return documents[0] if len(documents) == 1 else None


def _entry(group: str, entry: object, of_vllm: bool, position: int) -> list[Reading | UnusedResult]:
    """The results of one commit in one chart, one for each scenario in the names of its benchmarks."""
    try:
        if not isinstance(entry, dict):
            raise RefusalError(f"an entry of {quoted(group)} is no object")
        contexts: dict[str, list[Mapping[str, Any]]] = {}
        listed = fields.items(entry, "benches")
        if len(listed) > _MAX_BENCHES:
            raise RefusalError(
                f"an entry of {quoted(group)} has {len(listed):,} benchmarks, more than {_MAX_BENCHES:,}"
            )
        for bench in listed:
            if not isinstance(bench, dict):
                raise RefusalError(f"a benchmark of {quoted(group)} is no object")
            contexts.setdefault(_scenario(group, bench), []).append(bench)
        if not contexts:
            raise RefusalError(f"an entry of {quoted(group)} has no benchmarks")
        metadata = _metadata(entry, of_vllm)
        started = _date(entry)
    except RefusalError as refusal:
        return [UnusedResult(position, FileOutcome.REFUSED, str(refusal))]
    results: list[Reading | UnusedResult] = []
    for place, (scenario, benches) in enumerate(contexts.items(), position):
        try:
            results.append(_reading(place, scenario, benches, fields.text(entry, "tool") or "", metadata, started))
        except RefusalError as refusal:
            results.append(UnusedResult(place, FileOutcome.REFUSED, str(refusal)))
    return results


def _reading(
    position: int,
    scenario: str,
    benches: Sequence[Mapping[str, Any]],
    tool: str,
    metadata: Mapping[str, str],
    started: datetime | None,
) -> Reading:
    values: dict[str, float] = {}
    unknown: list[str] = []
    for bench in benches:
        name, unit = _name(bench)[1], fields.text(bench, "unit") or ""
        known = None if _OFFLINE in _script(bench) else known_metric(name, unit)
        if known is None:
            unknown.append(f"{excerpt(name, 40)} ({excerpt(unit, 20)})")
            continue
        _check_direction(tool, known, name)
        if known.metric in values:
            raise RefusalError(
                f"{known.metric} is there twice in {quoted(scenario)}: its scenarios cannot be distinguished"
            )
        values[known.metric] = fields.required(bench, "value") * known.factor
    if not values:
        raise RefusalError(
            f"no benchmark in it is a known metric: {', '.join(unknown[:_NAMED])}{', …' * (len(unknown) > _NAMED)}; "
            "write those that matter as a long table and import that"
        )
    latencies: dict[str, dict[str, float]] = {}
    rates: dict[str, float] = {}
    for metric, value in values.items():
        family, _, statistic = metric.rpartition("_")
        if family in ("ttft", "tpot", "itl", "e2el"):
            latencies.setdefault(family, {})[statistic] = value
        else:
            rates[metric] = value
    metrics, notes = checked_metrics(Summary(latencies=latencies, rates=rates))
    if unknown:
        notes.append(f"not read: {', '.join(unknown[:_NAMED])}{', …' * (len(unknown) > _NAMED)}")
    if any(bench.get("range") not in (None, "") for bench in benches):
        notes.append("values with a range may be means over repeats")
    return Reading(
        position=position,
        completed=None,
        failed=0,
        duration=None,
        metrics=metrics,
        workload={},
        definitions="github-action-benchmark",
        metadata={**metadata, "scenario": scenario},
        started=started,
        notes=tuple(notes),
    )


def _check_direction(tool: str, known: KnownMetric, name: str) -> None:
    better = re.fullmatch(r"custom(Smaller|Bigger)IsBetter", tool, re.IGNORECASE)
    if better and (better[1].lower() == "smaller") is not known.smaller_is_better:
        raise RefusalError(f"{quoted(name)} is in a chart where {better[1].lower()} is better: not {known.metric}")


def _name(bench: Mapping[str, Any]) -> tuple[str, str]:
    """Scenario and metric from the name of a benchmark: JSON in it, or `scenario/metric`."""
    name = fields.text(bench, "name") or ""
    if name.startswith("{"):
        inside = _inside(name)
        return fields.text(inside, "description") or "", fields.text(inside, "name") or name
    if match := _BEFORE_METRIC.fullmatch(name):
        return match[1], match[2]
    return "", name


def _inside(text: object) -> Mapping[str, Any]:
    """The JSON object in a string; empty if there is none."""
    if not isinstance(text, str) or not text.lstrip().startswith("{"):
        return {}
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _script(bench: Mapping[str, Any]) -> str:
    """The program that measured, as nm-vllm states it."""
    return str(_inside(bench.get("extra")).get("script_name", ""))


def _scenario(group: str, bench: Mapping[str, Any]) -> str:
    """A name made from that of the chart and the scenario of the benchmark."""
    described = _inside(bench.get("extra")).get("description")
    parts = (group, _name(bench)[0] or (described if isinstance(described, str) else ""))
    name = "-".join(filter(None, (slugify(excerpt(part)) for part in parts)))
    if len(name) > MAX_NAME:
        digest = hashlib.sha256(name.encode()).hexdigest()[:8]
        name = f"{name[: MAX_NAME - 9].rstrip('-._+=')}-{digest}"
    return name or "benchmark"


def _metadata(entry: Mapping[str, Any], of_vllm: bool) -> dict[str, str]:
    commit = fields.text(fields.obj(entry, "commit"), "id")
    if commit is None or not _COMMIT.fullmatch(commit):
        return {}
    date = _date(entry)
    label = commit[:12] if date is None else f"{commit[:12]}-{date:%Y%m%dT%H%M%S}"
    return {"run": label, **({"vllm_version": f"commit:{commit}"} if of_vllm else {})}


def _date(entry: Mapping[str, Any]) -> datetime | None:
    milliseconds = fields.number(entry, "date")
    try:
        return None if milliseconds is None else datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        raise RefusalError(f"date is {quoted(entry.get('date'))}, not milliseconds since 1970") from None
