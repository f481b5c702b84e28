"""GuideLLM (`guidellm run`, `guidellm benchmark`): JSON, YAML and CSV reports of 0.2 to 0.8, many benchmarks to a file.

Tells the files and takes them apart; guidellm_report.py and guidellm_csv.py know the layouts, guidellm_cell.py what
the numbers mean.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import PurePath
from typing import Any

from regress_gate.ingest import fields, yaml_text
from regress_gate.ingest.content import Content
from regress_gate.ingest.formats import guidellm_csv
from regress_gate.ingest.formats.guidellm_cell import Cell, reading_of_cell
from regress_gate.ingest.formats.guidellm_report import cell_of, is_report, run_id, run_ids
from regress_gate.ingest.interface import Certainty, Context, Generation, NoReading, Reading, RefusalError
from regress_gate.ingest.json_text import NotJsonError
from regress_gate.ingest.reports import Outcome

_YAML = re.compile(r"\A(?:args|benchmarks|config|metadata):")
_YAML_MARK = re.compile(r"(?m)^\s*(?:guidellm_version|strategy_index|run_index): |guidellm\.scheduler")
_HEAD = 200_000
_RICHER = {".csv": (".json", ".yaml", ".yml"), ".yaml": (".json",), ".yml": (".json",)}
"""Where one run was written in several formats, the file that holds more."""


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
        Generation("0.7 and 0.8", "`metadata.version` 2", "the same, and goodput", "as 0.4 to 0.6"),
        Generation("CSV", "`Run Info` or `Type,Run Id`", "the statistics", "skipped beside the JSON report of the run"),
    )

    def recognises(self, content: Content) -> Certainty:
        if content.text is not None:
            return Certainty.SURE if guidellm_csv.is_report(content.text) or _is_yaml(content.text) else Certainty.NO
        return Certainty.SURE if any(map(is_report, content.documents)) else Certainty.NO

    def read(self, content: Content, context: Context) -> Sequence[Reading | NoReading]:
        """One result for each benchmark: each step of a sweep, each number of streams."""
        results: list[Reading | NoReading] = []
        richer = _richer(content, context)
        for position, (run, cell) in enumerate(_cells(content, context)):
            if run in richer:
                results.append(NoReading(position, Outcome.SKIPPED, f"the same run as {richer[run]} beside it"))
                continue
            try:
                results.append(reading_of_cell(cell(), position, with_samples=context.with_samples))
            except RefusalError as refusal:
                results.append(NoReading(position, Outcome.REFUSED, str(refusal)))
        if not results:
            raise RefusalError("there is no benchmark in it: the run ended before the first one did")
        return results


_Cells = Iterator[tuple[str | None, Callable[[], Cell]]]
"""For each benchmark the id of its run, and what reads it."""


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
    return cell_of(report, benchmark, client_version)


def _reports(content: Content) -> Iterator[dict[str, Any]]:
    documents = content.each() if content.text is None else iter([_yaml(content.text, content.name)])
    for document in documents:
        if not is_report(document):
            raise RefusalError("not a whole report of GuideLLM: cut off, or another tool's")
        yield document


def _yaml(text: str, name: str) -> Any:
    if not text.endswith("\n"):
        raise RefusalError("its last line does not end: the file was cut off")
    return yaml_text.parse(text, name)


def _is_yaml(text: str) -> bool:
    return _YAML.match(text) is not None and _YAML_MARK.search(text[:_HEAD]) is not None


def _richer(content: Content, context: Context) -> dict[str | None, str]:
    """By id of a run, the name of a file in the same folder that holds more of it."""
    path = PurePath(content.name)
    found: dict[str | None, str] = {}
    for suffix in _RICHER.get(path.suffix.lower(), ()):
        name = path.stem + suffix
        if (other := context.beside(name)) is not None:
            found |= dict.fromkeys(_runs(other) - found.keys(), name)
    return found


def _runs(content: Content) -> set[str]:
    try:
        return {run for report in _reports(content) for run in run_ids(report)}
    except (RefusalError, NotJsonError):
        return set()
