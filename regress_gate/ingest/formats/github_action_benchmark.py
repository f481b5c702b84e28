"""Reads histories of github-action-benchmark: `data.js`, the same as JSON, and the list that is handed to the action.

Each commit of each chart is a result. Anybody may chart anything, so only what is surely one of our metrics is read
(gha_names) and the rest is named. nm-vllm hides a JSON object in `name` and `extra`; its `vllm_version` says 0.1.0 for
half of its history and is not used.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from regress_gate.ingest import fields, json_text
from regress_gate.ingest.content import Content
from regress_gate.ingest.formats.gha_names import Known, known
from regress_gate.ingest.interface import Certainty, Context, Generation, NoReading, Reading, RefusalError
from regress_gate.ingest.reports import Outcome
from regress_gate.ingest.summary import Summary, measured
from regress_gate.ingest.text import MAX_NAME, clean, sanitised, shown

_SCRIPT = re.compile(r"\A\s*window\.BENCHMARK_DATA\s*=\s*")
_OF_VLLM = re.compile(r".*/(?:nm-)?vllm/?")
_COMMIT = re.compile(r"[0-9a-f]{7,40}")
_BEFORE_METRIC = re.compile(r"(.*\S)(?: ?/ ?|: | - )([^/]+(?:\([^()]*\))?)")
_NAMED = 4
"""How many benchmarks a refusal names."""
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

    def read(self, content: Content, context: Context) -> Sequence[Reading | NoReading]:  # noqa: ARG002
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
        results: list[Reading | NoReading] = []
        for group, entry in entries:
            results += _entry(group, entry, _OF_VLLM.fullmatch(repository) is not None, len(results))
        return results


def _is_input(document: object) -> bool:
    return (
        isinstance(document, list)
        and bool(document)
        and all(isinstance(bench, dict) and {"name", "unit", "value"} <= bench.keys() for bench in document)
        and not any("metric" in bench or "version" in bench for bench in document)
    )


def _entries(groups: Mapping[str, Any], group: str) -> list[Any]:
    found = groups[group]
    if not isinstance(found, list):
        raise RefusalError(f"the chart {shown(group)} is {shown(found)}, not a list")
    return found


def _parsed(script: str) -> Any:
    try:
        documents = json_text.parse(script.strip().removesuffix(";").encode()).documents
    except json_text.NotJsonError as error:
        raise RefusalError(f"what is assigned to window.BENCHMARK_DATA is no JSON: {error}") from None
    return documents[0] if len(documents) == 1 else None


def _entry(group: str, entry: object, of_vllm: bool, position: int) -> list[Reading | NoReading]:
    """The results of one commit in one chart: one for each scenario that its benchmarks name."""
    try:
        if not isinstance(entry, dict):
            raise RefusalError(f"an entry of {shown(group)} is no object")
        contexts: dict[str, list[Mapping[str, Any]]] = {}
        for bench in fields.items(entry, "benches"):
            if not isinstance(bench, dict):
                raise RefusalError(f"a benchmark of {shown(group)} is no object")
            contexts.setdefault(_scenario(group, bench), []).append(bench)
        if not contexts:
            raise RefusalError(f"an entry of {shown(group)} has no benchmarks")
        metadata = _metadata(entry, of_vllm)
        started = _date(entry)
    except RefusalError as refusal:
        return [NoReading(position, Outcome.REFUSED, str(refusal))]
    results: list[Reading | NoReading] = []
    for place, (scenario, benches) in enumerate(contexts.items(), position):
        try:
            results.append(_reading(place, scenario, benches, fields.text(entry, "tool") or "", metadata, started))
        except RefusalError as refusal:
            results.append(NoReading(place, Outcome.REFUSED, str(refusal)))
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
        found = None if _OFFLINE in _script(bench) else known(name, unit)
        if found is None:
            unknown.append(f"{clean(name, 40)} ({clean(unit, 20)})")
            continue
        _check_direction(tool, found, name)
        if found.metric in values:
            raise RefusalError(f"{found.metric} is there twice in {shown(scenario)}: its scenarios are not told apart")
        values[found.metric] = fields.required(bench, "value") * found.factor
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
    metrics, notes = measured(Summary(latencies=latencies, rates=rates))
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


def _check_direction(tool: str, found: Known, name: str) -> None:
    better = re.fullmatch(r"custom(Smaller|Bigger)IsBetter", tool, re.IGNORECASE)
    if better and (better[1].lower() == "smaller") is not found.smaller_is_better:
        raise RefusalError(f"{shown(name)} is in a chart where {better[1].lower()} is better: not {found.metric}")


def _name(bench: Mapping[str, Any]) -> tuple[str, str]:
    """Scenario and metric of a benchmark's name: of the JSON in it, or `scenario/metric`."""
    name = fields.text(bench, "name") or ""
    if name.startswith("{"):
        inside = _inside(name)
        return fields.text(inside, "description") or "", fields.text(inside, "name") or name
    if match := _BEFORE_METRIC.fullmatch(name):
        return match[1], match[2]
    return "", name


def _inside(text: object) -> Mapping[str, Any]:
    """The JSON object in a string; empty where there is none."""
    if not isinstance(text, str) or not text.lstrip().startswith("{"):
        return {}
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _script(bench: Mapping[str, Any]) -> str:
    """The program that measured, where nm-vllm says it."""
    return str(_inside(bench.get("extra")).get("script_name", ""))


def _scenario(group: str, bench: Mapping[str, Any]) -> str:
    """A name made of the chart's and of what tells the benchmark's scenario."""
    described = _inside(bench.get("extra")).get("description")
    parts = (group, _name(bench)[0] or (described if isinstance(described, str) else ""))
    name = "-".join(filter(None, (sanitised(clean(part)) for part in parts)))
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
        raise RefusalError(f"date is {shown(entry.get('date'))}, not milliseconds since 1970") from None
