"""The report of `import`: what became of each file, and what the store holds now."""

import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Flag, auto
from itertools import islice
from typing import Any

from regress_gate.ingest.interface import FileReport, ImportResult
from regress_gate.ingest.registry import READERS
from regress_gate.model.metric import STATISTICS
from regress_gate.model.run import AUTO_LABEL_PREFIX, FILE_LABEL_PREFIX
from regress_gate.report.document import (
    Block,
    Column,
    Detail,
    Document,
    Entry,
    EntryList,
    Pair,
    Paragraph,
    Row,
    Style,
    Styled,
    Table,
    View,
)
from regress_gate.store.store_interface import AddedRuns, RunMismatch
from regress_gate.text import plural

SHOWN_FILES = 20
"""Files that are listed of those that were read and of those that were refused, unless all are asked for."""
_DONE = {"stored": "read", "refused": "refused", "skipped": "skipped"}
_WOULD = {"stored": "store", "refused": "refuse", "skipped": "skip"}
_NAMED_RUNS = 10
_NAMED_FILES = 3
_PER_RESULT: dict[str, Any] = {"version": None, "scenario": None, "run": None, "trial": None, "metrics": ()}
"""Fields that a group of results leaves out if its members differ in them."""


class ImportPart(Flag):
    """Parts of the report, which a terminal shows on different streams."""

    RESULTS = auto()
    """Files that were read or skipped, and what was stored."""
    REFUSALS = auto()
    NOTES = auto()


@dataclass(frozen=True, slots=True)
class ImportView(View):
    """What an import did, or would do."""

    intake: ImportResult
    where: str
    """The store, as it may be shown."""
    added: AddedRuns | None = None
    """None if nothing was stored."""
    is_dry_run: bool = False
    held: Mapping[tuple[str, int], int] | None = None
    """For a dry run: the results that are in the store already, each with its run."""
    held_problem: str | None = None
    """Why `held` is not known."""
    parts: ImportPart = ImportPart.RESULTS | ImportPart.REFUSALS | ImportPart.NOTES

    def restricted(self, parts: ImportPart) -> "ImportView":
        """The same report with these parts only."""
        return replace(self, parts=parts)

    @property
    def refused(self) -> int:
        return sum(report.outcome == "refused" for report in self.intake.files)

    @property
    def refusal_text(self) -> str:
        """`2 of 4 results were refused`; files that hold no result are not counted."""
        results = sum(report.outcome != "skipped" for report in self.intake.files)
        of = f"of {plural(results, 'result')}"
        return plural(self.refused, f"{of} was refused", f"{of} were refused")

    @property
    def is_all_copies(self) -> bool:
        """Whether all results are stored as those of another version: no measurement of the one that was named."""
        added = self.added
        if added is None or added.new or added.extended or not added.mismatches:
            return False
        return all(held.stored.version != held.requested.version for held in added.mismatches)

    def document(self, detail: Detail) -> Document:
        blocks: list[Block] = []
        refused = [report for report in self.intake.files if report.outcome == "refused"]
        others = [report for report in self.intake.files if report.outcome != "refused"]
        if ImportPart.RESULTS in self.parts:
            blocks += self._files(others, detail)
        if ImportPart.REFUSALS in self.parts:
            blocks += self._files(refused, detail)
        if ImportPart.NOTES in self.parts:
            blocks += _lines((f"note: {note}" for note in self._notes()), detail)
        if ImportPart.RESULTS in self.parts:
            blocks += _lines(self._summary(), detail)
        return Document("", tuple(blocks), name="Import")

    def data(self) -> dict[str, Any]:
        added = self.added
        return {
            "schema_version": "1",
            "complete": self.intake.complete,
            "runs": len(self.intake.runs),
            "trials": sum(len(run.trials) for run in self.intake.runs),
            "stored": None
            if added is None
            else {
                "new_runs": list(added.new),
                "extended_runs": list(added.extended),
                "same_start_as": list(added.continued),
                "trials": added.trials,
                "already_stored": len(added.duplicates),
            },
            "files": [_file_values(report) for report in self.intake.files],
            "notes": list(self.intake.notes),
        }

    def _files(self, reports: Sequence[FileReport], detail: Detail) -> Iterator[Block]:
        groups = list(reports) if detail.verbose else grouped_reports(reports)
        shown = groups if detail.verbose else groups[:SHOWN_FILES]
        hint = None
        if len(groups) > len(shown):
            hint = f"and {len(groups) - len(shown)} more (-v lists them)"
        elif len(reports) > len(groups):
            hint = "-v lists every file"
        if self.is_dry_run and shown:
            yield EntryList(tuple(map(_dry_run_entry, shown)))
            yield from [] if hint is None else [Paragraph(f"… {hint}")]
        elif shown:
            rows = [Row((_DONE[report.outcome], _file_text(report))) for report in shown]
            rows += [] if hint is None else [Row(("…", hint))]
            titles = ("outcome", "result") if detail.is_page else ("", "")
            yield Table.of(tuple(map(Column, titles)), tuple(rows), is_wrapped=False)

    def _notes(self) -> Iterator[str]:
        yield from self.intake.notes
        if self.held_problem is not None:
            yield f"what is stored already is not known: {self.held_problem}"
        if self.added is not None:
            if (continued := continued_note(self.added.continued)) is not None:
                yield continued
            yield from elsewhere_notes(self.added.mismatches)

    def _summary(self) -> Iterator[str]:
        if self.is_dry_run:
            yield would_store_text(self.intake, self.held or {}, self.where)
        elif self.added is not None:
            yield stored_text(self.added, self.where)


def _lines(texts: Iterator[str], detail: Detail) -> Iterator[Block]:
    """Each text on a line of its own; on a terminal it is never wrapped, so that it can be searched and copied."""
    if detail.is_page:
        yield from map(Paragraph, texts)
    elif rows := tuple(Row((text,)) for text in texts):
        yield Table.of((Column(),), rows, is_wrapped=False)


def grouped_reports(reports: Sequence[FileReport]) -> list[FileReport]:
    """In their order. More than a few results refused or skipped for the same reason become one, at the first place."""
    alike: dict[tuple[object, ...], list[FileReport]] = {}
    for index, report in enumerate(reports):
        may_join = report.reason is not None and report.outcome != "stored"
        key = (report.outcome, report.reason, report.format, report.notes) if may_join else (index,)
        alike.setdefault(key, []).append(report)
    return [one for same in alike.values() for one in ([_group_report(same)] if len(same) > _NAMED_FILES else same)]


def _group_report(reports: list[FileReport]) -> FileReport:
    first = reports[0]
    some = ", ".join(report.where for report in reports[:_NAMED_FILES])
    differing: dict[str, Any] = {
        name: nothing
        for name, nothing in _PER_RESULT.items()
        if any(getattr(report, name) != getattr(first, name) for report in reports)
    }
    return replace(first, path=f"{plural(len(reports), 'result')} ({some}, …)", position=None, **differing)


def _file_text(report: FileReport) -> str:
    """The outcome of one result."""
    if report.outcome != "stored":
        return f"{report.where}: {report.reason}"
    metrics = plural(len(report.metrics), "metric")
    what = f"{report.version} {report.scenario} run {report.run} trial {report.trial}, {metrics}"
    if report.scenario is None:  # a server start of ours that failed
        what = f"{report.version} run {report.run}, no result"
    notes = f" ({'; '.join(report.notes)})" if report.notes else ""
    return f"{report.where}: {report.format}, {what}{notes}"


def _dry_run_entry(report: FileReport) -> Entry:
    """What an import would do with one result."""
    pairs = [Pair(key, value) for key in ("version", "scenario") if (value := getattr(report, key)) is not None]
    if report.format is not None and report.reason is not None:
        pairs.insert(0, Pair("format", report.format))
    if report.run is not None:
        pairs.append(Pair("run", report.run if report.trial is None else f"{report.run}, trial {report.trial}"))
    if report.metrics:
        pairs.append(Pair("metrics", metrics_text(report.metrics)))
    if report.notes:
        pairs.append(Pair("note", report.notes[0], report.notes[1:]))
    head = (Styled(_WOULD[report.outcome], Style.STRONG), f" {report.where}")
    return Entry(head, report.reason or f"a {report.format} result", pairs=tuple(pairs))


def metrics_text(names: tuple[str, ...]) -> str:
    """`ttft_mean ttft_p99 goodput` as `ttft (mean, p99), goodput`."""
    families: dict[str, list[str]] = {}
    for name in names:
        family, _, statistic = name.rpartition("_")
        if statistic in STATISTICS:
            families.setdefault(family, []).append(statistic)
        else:
            families[name] = []
    return ", ".join(f"{name} ({', '.join(members)})" if members else name for name, members in families.items())


def stored_text(added: AddedRuns, where: str) -> str:
    """What an import changed in the store."""
    new = f"{plural(added.trials, 'trial')} in {plural(len(added.new), 'new run')}"
    extended = f"; {plural(len(added.extended), 'run')} extended" if added.extended else ""
    named = f" ({_numbered(added.new)})" if added.new else ""
    known = f"; {plural(len(added.duplicates), 'result')} stored already, left as they are" if added.duplicates else ""
    return f"stored {new}{extended} in {where}{named}{known}"


def would_store_text(intake: ImportResult, held: Mapping[tuple[str, int], int], where: str) -> str:
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
        would += f"; {plural(known, 'result')} stored already in {where} ({_numbered(runs)})"
    return f"{would}; nothing was stored (--dry-run)"


def _numbered(runs: Collection[int]) -> str:
    named = ", ".join(f"run:{number}" for number in islice(runs, _NAMED_RUNS))
    return named + (", …" if len(runs) > _NAMED_RUNS else "")


def elsewhere_notes(mismatches: Sequence[RunMismatch]) -> Iterator[str]:
    """Which stored results are not where the import wanted them, and how to move them."""
    places: dict[tuple[str, str], dict[int, None]] = {}
    for held in mismatches:
        labels = held.stored.label, held.requested.label
        is_generated = any(
            all(label.startswith(prefix) for label in labels) for prefix in (AUTO_LABEL_PREFIX, FILE_LABEL_PREFIX)
        )
        if replace(held.stored, label="") == replace(held.requested, label="") and is_generated:
            continue  # the label was generated from what was imported together
        place = (str(held.stored.version), held.stored.testbed)
        places.setdefault(place, {})[held.run] = None
    for (version, testbed), runs in places.items():
        prune = f"regress-gate baseline prune {shlex.quote(version)} --testbed {shlex.quote(testbed)}"
        yield (
            f"results of this import stay in {_numbered(runs)} of {version} on {testbed}, where they were stored "
            "before, and do not count where this import puts them: the same numbers a second time are a copy and no "
            f"measurement; only if they were stored in the wrong place, `{prune}` deletes what is stored there, then "
            "import again"
        )


def continued_note(runs: Sequence[int]) -> str | None:
    """Which stored runs the new results belong to, although they came in another file."""
    if not runs:
        return None
    return (
        f"results of {_numbered(runs)} are in these files as well: the same server start, which the new results extend"
    )


def _file_values(report: FileReport) -> dict[str, Any]:
    return {
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


def input_formats_text() -> str:
    """Every format that is read: its name, the program that writes it, and its generations."""
    lines = []
    for reader in READERS:
        lines.append(f"{reader.name}: {reader.tool}")
        lines += [f"    {generation.which}" for generation in reader.generations]
    return "\n".join(lines)
