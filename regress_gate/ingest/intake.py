"""The way in: paths and flags in, runs and a report on every file out. Reads only; stores nothing.

Each file goes through the same steps: bytes → content → reader → identity → run. A file that fails a step is reported
and leaves the others alone; identity that nobody gave is asked for once, for all files together.
"""

import os
import sys
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path

from regress_gate.ingest import foreign
from regress_gate.ingest.content import MAX_BYTES, Content, parse_content
from regress_gate.ingest.grouping import Grouped, Item, group
from regress_gate.ingest.identification import Found, Identifier, complete
from regress_gate.ingest.identity import IdentityFlags
from regress_gate.ingest.interface import Reading
from regress_gate.ingest.registry import READERS
from regress_gate.ingest.reports import FileReport, Intake, Outcome
from regress_gate.ingest.selection import Candidate, natural_key, select
from regress_gate.ingest.text import MAX_PATH, clean

Progress = Callable[[int, int], None]
"""Called with the number of files done and the number of all."""


def read_paths(
    paths: Iterable[str | os.PathLike[str]],
    identity: IdentityFlags,
    *,
    with_samples: bool = True,
    progress: Progress | None = None,
) -> Intake:
    """Read every result under the paths: files, folders (with all below), literal globs, `-` for standard input.

    Raises InputError when results do not say their version, testbed or scenario and the flags do not either; the one
    message lists everything that is missing.
    """
    arguments = [os.fspath(path) for path in paths]
    candidates, left_out = select(arguments)
    reports = [
        FileReport(
            clean(entry.shown, MAX_PATH), Outcome.REFUSED if entry.is_error else Outcome.SKIPPED, reason=entry.reason
        )
        for entry in left_out
    ]
    identifier = Identifier(identity, datetime.now(UTC))
    found: list[Found] = []
    for done, candidate in enumerate(candidates):
        if progress is not None:
            progress(done, len(candidates))
        for result in _read(candidate, identifier, with_samples):
            if isinstance(result, Found):
                found.append(result)
            else:
                reports.append(result)
    if progress is not None:
        progress(len(candidates), len(candidates))
    items = complete(found)
    grouped = group(items, run_per_file=identity.run_per_file)
    reports += [_report(index, item, grouped) for index, item in enumerate(items)]
    reports += _fruitless_folders(arguments, reports)
    reports.sort(key=lambda report: (natural_key(report.path), report.position or 0))
    return Intake(grouped.runs, tuple(reports), grouped.notes)


def _read(candidate: Candidate, identifier: Identifier, with_samples: bool) -> list[Found | FileReport]:
    """All results of one file, each identified or reported."""
    shown = clean(candidate.shown, MAX_PATH)
    try:
        data = _bytes(candidate)
    except OSError as error:
        return [FileReport(shown, Outcome.REFUSED, reason=f"not readable: {error.strerror or type(error).__name__}")]
    content = parse_content(candidate.path.name, data)
    del data  # hundreds of megabytes, perhaps: the parsed form is enough from here on
    reader = next((reader for reader in READERS if reader.recognises(content)), None)
    if reader is None:
        return [_unrecognised(candidate, content)]
    if (known := identifier.same_bytes(candidate, content)) is not None:
        return [FileReport(shown, known[0], reader.name, known[1])]
    results = reader.read(content, with_samples=with_samples)
    several = len(results) > 1
    outcome: list[Found | FileReport] = []
    for result in results:
        position = result.position if several else None
        if isinstance(result, Reading):
            outcome.append(identifier.identify(candidate, content, reader, result, position))
        else:
            outcome.append(FileReport(shown, result.outcome, reader.name, result.reason, position=position))
    return outcome


def _bytes(candidate: Candidate) -> bytes:
    """The file's bytes; one more than is allowed where it is too large."""
    if candidate.is_stdin:
        return sys.stdin.buffer.read(MAX_BYTES + 1)
    with candidate.path.open("rb") as file:
        return file.read(MAX_BYTES + 1)


def _unrecognised(candidate: Candidate, content: Content) -> FileReport:
    """The report on a file that no reader takes: another tool's, broken, or a bystander in a folder."""
    shown = clean(candidate.shown, MAX_PATH)
    if (named := foreign.name_of(content)) is not None:
        return FileReport(shown, Outcome.REFUSED, reason=named)
    broken = content.problem is not None and content.is_result_like
    outcome = Outcome.REFUSED if broken or candidate.named else Outcome.SKIPPED
    nothing = "an empty JSON value" if content.documents and not any(content.documents) else None
    return FileReport(shown, outcome, reason=content.problem or nothing or "not a benchmark result of a known tool")


def _report(index: int, item: Item, grouped: Grouped) -> FileReport:
    reading = item.reading
    refusal = grouped.refused.get(index)
    run, trial = grouped.placed.get(index, (None, None))
    return FileReport(
        path=item.source.path,
        outcome=Outcome.STORED if refusal is None else Outcome.REFUSED,
        format=item.source.format,
        reason=refusal,
        notes=reading.notes + item.identity.notes,
        position=item.position,
        version=str(item.version),
        scenario=item.scenario,
        run=run,
        trial=trial,
        metrics=tuple(reading.metrics),
    )


def _fruitless_folders(arguments: list[str], reports: list[FileReport]) -> list[FileReport]:
    """A refusal for each folder that was named and holds nothing but bystanders."""
    fruitless = []
    for argument in arguments:
        inside = clean(argument.rstrip("/"), MAX_PATH) + "/"
        below = [report for report in reports if report.path.startswith(inside)]
        if below and Path(argument).is_dir() and all(report.outcome is Outcome.SKIPPED for report in below):
            fruitless.append(
                FileReport(clean(argument, MAX_PATH), Outcome.REFUSED, reason="a folder without benchmark results")
            )
    return fruitless
