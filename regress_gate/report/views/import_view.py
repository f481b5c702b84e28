"""The report of `import`: what it did or would do, line by line while it runs, and as JSON."""

import shlex
import textwrap
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from regress_gate.model.run import AUTO_LABEL_PREFIX
from regress_gate.report.views.list_view import printable
from regress_gate.text import plural

if TYPE_CHECKING:
    from regress_gate.ingest.interface import FileReport, ImportResult
    from regress_gate.store.store_interface import AddedRuns, RunMismatch

_WOULD = {"stored": "store", "refused": "refuse", "skipped": "skip"}
_INDENT = " " * 8
_LEAST_WIDTH = 30
_NAMED_RUNS = 10
_NAMED_FILES = 3
_PER_RESULT: dict[str, Any] = {"version": None, "scenario": None, "run": None, "trial": None, "metrics": ()}
"""Fields that a group of results leaves out if its members differ in them."""


def grouped_reports(reports: "Sequence[FileReport]") -> "list[FileReport]":
    """In their order. More than a few results refused or skipped for the same reason become one, at the first place."""
    alike: dict[tuple[object, ...], list[FileReport]] = {}
    for index, report in enumerate(reports):
        may_join = report.reason is not None and report.outcome != "stored"
        key = (report.outcome, report.reason, report.format, report.notes) if may_join else (index,)
        alike.setdefault(key, []).append(report)
    return [one for same in alike.values() for one in ([_group_report(same)] if len(same) > _NAMED_FILES else same)]


def _group_report(reports: "list[FileReport]") -> "FileReport":
    first = reports[0]
    some = ", ".join(report.where for report in reports[:_NAMED_FILES])
    differing: dict[str, Any] = {
        name: nothing
        for name, nothing in _PER_RESULT.items()
        if any(getattr(report, name) != getattr(first, name) for report in reports)
    }
    return replace(first, path=f"{plural(len(reports), 'result')} ({some}, …)", position=None, **differing)


def report_line(report: "FileReport") -> str:
    """The outcome of one result."""
    if report.outcome != "stored":
        return f"{report.outcome:<8} {printable(report.where)}: {printable(report.reason)}"
    metrics = plural(len(report.metrics), "metric")
    what = f"{report.version} {report.scenario} run {report.run} trial {report.trial}, {metrics}"
    notes = f" ({'; '.join(report.notes)})" if report.notes else ""
    return f"read     {printable(report.where)}: {printable(report.format)}, {printable(what)}{printable(notes)}"


def dry_run_text(report: "FileReport", width: int) -> str:
    """What an import would do with one result: a few lines, wrapped at `width` between words."""
    lines = [f"{_WOULD[report.outcome]:<7} {printable(report.where)}"]
    details = list(_details(report))
    margin = max((len(key) for key, _ in details), default=0) + 2
    for key, text in details:
        first = f"{_INDENT}{key:<{margin}}"
        room = max(width, _LEAST_WIDTH)
        lines += textwrap.wrap(
            printable(text), room, initial_indent=first, subsequent_indent=" " * len(first), break_on_hyphens=False
        )
    return "\n".join(lines)


def _details(report: "FileReport") -> Iterator[tuple[str, str]]:
    for key in ("format", "version", "scenario"):
        if (value := getattr(report, key)) is not None:
            yield key, value
    if report.run is not None:
        yield "run", f"{report.run}, trial {report.trial}"
    if report.metrics:
        yield "metrics", metrics_text(report.metrics)
    if report.reason is not None:
        yield "reason", report.reason
    for note in report.notes:
        yield "note", note


def metrics_text(names: tuple[str, ...]) -> str:
    """`ttft_mean ttft_p99 goodput` as `ttft (mean, p99), goodput`."""
    from regress_gate.model.metric import STATISTICS

    families: dict[str, list[str]] = {}
    for name in names:
        family, _, statistic = name.rpartition("_")
        if statistic in STATISTICS:
            families.setdefault(family, []).append(statistic)
        else:
            families[name] = []
    return ", ".join(f"{name} ({', '.join(members)})" if members else name for name, members in families.items())


def stored_text(added: "AddedRuns", where: str) -> str:
    """What an import changed in the store."""
    new = f"{plural(added.trials, 'trial')} in {plural(len(added.new), 'new run')}"
    extended = f"; {plural(len(added.extended), 'run')} extended" if added.extended else ""
    named = f" ({_numbered(added.new)})" if added.new else ""
    known = f"; {plural(len(added.duplicates), 'result')} stored already, left as they are" if added.duplicates else ""
    return f"stored {new}{extended} in {printable(where)}{named}{known}"


def would_store_text(intake: "ImportResult", held: "Mapping[tuple[str, int], int]", where: str) -> str:
    """What an import would change. `held`: results that are in the store, each with its run."""
    new, runs = 0, dict[int, None]()
    stored_runs = 0
    for run in intake.runs:
        numbers = [held.get((trial.source.sha256, trial.source.position)) for trial in run.trials]
        fresh = numbers.count(None)
        new, stored_runs = new + fresh, stored_runs + (fresh > 0)
        runs |= dict.fromkeys(number for number in numbers if number is not None)
    known = sum(len(run.trials) for run in intake.runs) - new
    would = f"would store {plural(new, 'trial')} in {plural(stored_runs, 'run')}"
    if known:
        would += f"; {plural(known, 'result')} stored already in {printable(where)} ({_numbered(runs)})"
    return f"{would}; nothing was stored (--dry-run)"


def _numbered(runs: Collection[int]) -> str:
    named = ", ".join(f"run:{number}" for number in islice(runs, _NAMED_RUNS))
    return named + (", …" if len(runs) > _NAMED_RUNS else "")


def elsewhere_notes(mismatches: "Sequence[RunMismatch]") -> Iterator[str]:
    """Which stored results are not where the import wanted them, and how to move them."""
    places: dict[tuple[str, str], dict[int, None]] = {}
    for held in mismatches:
        is_generated = held.stored.label.startswith(AUTO_LABEL_PREFIX) and held.requested.label.startswith(
            AUTO_LABEL_PREFIX
        )
        if replace(held.stored, label="") == replace(held.requested, label="") and is_generated:
            continue  # the label was generated from what was imported together
        place = (str(held.stored.version), held.stored.testbed)
        places.setdefault(place, {})[held.run] = None
    for (version, testbed), runs in places.items():
        prune = f"regress-gate baseline prune {shlex.quote(version)} --testbed {shlex.quote(testbed)}"
        yield printable(
            f"results of this import stay in {_numbered(runs)} of {version} on {testbed}, where they were stored "
            f"before, not where this import puts them; `{prune}` deletes what is stored there, then import again"
        )


def import_document(intake: "ImportResult", added: "AddedRuns | None") -> dict[str, Any]:
    """The JSON object of `import --format json`; `added` is None if nothing was stored."""
    return {
        "schema_version": "1",
        "complete": intake.complete,
        "runs": len(intake.runs),
        "trials": sum(len(run.trials) for run in intake.runs),
        "stored": None
        if added is None
        else {
            "new_runs": list(added.new),
            "extended_runs": list(added.extended),
            "trials": added.trials,
            "already_stored": len(added.duplicates),
        },
        "files": [
            {
                "path": report.path,
                "result": None if report.position is None else report.position + 1,
                "outcome": str(report.outcome),
                "format": report.format,
                "version": report.version,
                "scenario": report.scenario,
                "run": report.run,
                "trial": report.trial,
                "metrics": list(report.metrics),
                "reason": report.reason,
                "notes": list(report.notes),
            }
            for report in intake.files
        ],
        "notes": list(intake.notes),
    }


def input_formats_text() -> str:
    """Every format that is read: its name, the program that writes it, and its generations."""
    from regress_gate.ingest.registry import READERS

    lines = []
    for reader in READERS:
        lines.append(f"{reader.name}: {reader.tool}")
        lines += [f"    {generation.which}" for generation in reader.generations]
    return "\n".join(lines)
