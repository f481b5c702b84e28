"""Imports files: paths and flags in, runs and a report on every file out. Reads only; stores nothing.

Each file goes through the same steps: bytes → content → reader → identity → run. A file that fails a step is reported
and does not affect the others. Missing identity is reported once, for all files together.
"""

import io
import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from functools import lru_cache, partial

from regress_gate.errors import InputError
from regress_gate.ingest import registry
from regress_gate.ingest.content import MAX_BYTES, Content, parse_content, read_content
from regress_gate.ingest.grouping import CompleteResult, GroupedRuns, group_runs
from regress_gate.ingest.identification import IdentifiedResult, Identifier, complete_identities, unclear_metrics_note
from regress_gate.ingest.identity import IdentityFlags
from regress_gate.ingest.interface import (
    MAX_RESULTS,
    Certainty,
    Context,
    FileOutcome,
    FileReport,
    ImportResult,
    Reader,
    Reading,
    UnusedResult,
)
from regress_gate.ingest.parsing import NotJsonError
from regress_gate.ingest.registry import READERS, Recogniser
from regress_gate.ingest.selection import STDIN, Candidate, OpenArchives, select_files
from regress_gate.ingest.unpacking import GZIP_MAGIC, is_archive, unpacked
from regress_gate.measurement.plausibility import RefusalError
from regress_gate.model.run import Run
from regress_gate.text import MAX_PATH, excerpt, natural_key, sanitise

EXPORTED = "regress-gate-baseline"
"""The format of a file that `baseline export` or --spool wrote, in reports."""
MAX_FAULT = 200
"""Characters of an internal error in a refusal."""
_FILES_BESIDE = 4
"""Files beside a result that are kept parsed while it is read: a table asks for the same one for each of its rows."""

Progress = Callable[[int, int], None]
"""Called with the number of files done and of all files; several times during a long file."""


def read_paths(
    paths: Iterable[str | os.PathLike[str]],
    identity: IdentityFlags,
    *,
    forced: Reader | None = None,
    with_samples: bool = True,
    progress: Progress | None = None,
) -> ImportResult:
    """Read every result in files, folders and archives, with everything below; also globs, and `-` for standard input.

    Baselines that this program exported, or spooled, are read whole: they say themselves what they are.
    `forced`: the only reader that is used, instead of the one that is most certain.

    Raises InputError if version, testbed or scenario of results is neither stated nor given by flags; one message lists
    everything that is missing.
    """
    progress = progress or (lambda _done, _all: None)
    arguments = [os.fspath(path) for path in paths]
    identifier, recogniser = Identifier(identity, datetime.now(UTC)), Recogniser(READERS)
    results: list[IdentifiedResult] = []
    exported: list[Run] = []
    with closing(OpenArchives()) as shelf:
        selection = select_files(arguments, shelf)
        candidates, order = selection.candidates, selection.order
        reports = [
            FileReport(
                excerpt(entry.shown, MAX_PATH),
                FileOutcome.REFUSED if entry.is_error else FileOutcome.SKIPPED,
                reason=entry.reason,
            )
            for entry in selection.left_out
        ]
        for done, candidate in enumerate(candidates):
            alive = partial(progress, done, len(candidates))
            alive()
            beside = lru_cache(maxsize=_FILES_BESIDE)(partial(_beside, candidate))
            is_beside = partial(_is_beside, candidate)
            context = Context(with_samples, identity.client_version, beside, is_beside)
            for result in _read_candidate(candidate, identifier, recogniser, forced, context, alive):
                if isinstance(result, IdentifiedResult):
                    results.append(result)
                elif isinstance(result, Run):
                    exported.append(result)
                else:
                    reports.append(result)
    progress(len(candidates), len(candidates))
    items = complete_identities(results)
    grouped = group_runs(
        items,
        run_per_file=identity.run_per_file,
        cold_first=identity.cold_first,
        first_files=identifier.duplicates.first_files,
    )
    reports += [_report(index, item, grouped) for index, item in enumerate(items)]
    reports += _inputs_without_results(selection.below, reports, identifier.duplicates.paths)
    reports.sort(key=lambda report: (order.get(report.path) or natural_key(report.path), report.position or 0))
    notes = grouped.notes if (unclear := unclear_metrics_note(results)) is None else (*grouped.notes, unclear)
    return ImportResult((*grouped.runs, *exported), tuple(reports), notes)


def _read_candidate(
    candidate: Candidate,
    identifier: Identifier,
    recogniser: Recogniser,
    forced: Reader | None,
    context: Context,
    alive: Callable[[], None],
) -> list[IdentifiedResult | Run | FileReport]:
    """All results of one file: each is identified, or reported as refused or skipped. Of an exported baseline its runs,
    and a report on each of their results."""
    shown = excerpt(candidate.shown, MAX_PATH)
    reader: Reader | None = None
    try:
        content = _content(candidate, alive)
        if forced is None and _is_exported(content):
            return _read_exported(content, shown, identifier.flags, with_samples=context.with_samples)
        with _faults_as_refusals("while it was recognised"):
            reader = recogniser.reader(content) if forced is None else _forced_reader(forced, candidate, content)
        if reader is None:
            return [_unrecognised(candidate, content, forced)]
        if (known := identifier.same_bytes(candidate, content)) is not None:
            return [FileReport(shown, known[0], reader.name, known[1])]
        results = _results(reader, content, context)
    except OSError as error:
        reason = f"not readable: {error.strerror or type(error).__name__}"
        return [FileReport(shown, FileOutcome.REFUSED, reader.name if reader else None, reason)]
    except (RefusalError, NotJsonError) as refusal:
        return [FileReport(shown, FileOutcome.REFUSED, reader.name if reader else None, sanitise(str(refusal)))]
    several = len(results) > 1
    outcome: list[IdentifiedResult | Run | FileReport] = []
    for result in results:
        position = result.position if several else None
        if isinstance(result, Reading):
            outcome.append(identifier.identify(candidate, content, reader, result, position))
        else:
            outcome.append(FileReport(shown, result.outcome, reader.name, sanitise(result.reason), position=position))
    if (misplaced := identifier.duplicates.misplaced.get(content.sha256)) is not None:
        # The file was written beside the server start of the other one, so that its new results are misplaced as well.
        outcome = [
            FileReport(shown, FileOutcome.REFUSED, reader.name, f"in a file with {misplaced}", position=each.position)
            if isinstance(each, IdentifiedResult)
            else each
            for each in outcome
        ]
    return outcome


def _is_exported(content: Content) -> bool:
    first = content.documents[0] if content.documents else None
    return isinstance(first, dict) and str(first.get("schema")).startswith(f"{EXPORTED}/")


def _read_exported(
    content: Content, shown: str, flags: IdentityFlags, *, with_samples: bool
) -> list[IdentifiedResult | Run | FileReport]:
    """Raises RefusalError for a file that is damaged, or says something else than the flags."""
    from regress_gate.store.baseline_file import read_baseline  # with pydantic, which few imports need

    try:
        runs = read_baseline(content.documents[0], shown, with_samples=with_samples)
    except InputError as error:
        raise RefusalError(error.what) from None
    reports: list[IdentifiedResult | Run | FileReport] = []
    for run in runs:
        if flags.version is not None and not run.version.matches(flags.version):
            raise RefusalError(f"says {run.version}, and --version says {flags.version}; leave it out")
        if flags.run not in (None, run.label):
            raise RefusalError(f"says run {run.label}, and --run says {flags.run}; leave it out")
        notes = [] if run.failure is None else [f"its server failed: {run.failure.text}"]
        if flags.testbed is not None and flags.testbed.name not in ("", run.testbed.name):
            notes.append(f"measured on {run.testbed.name}, whatever --testbed says")
        if flags.suite not in (None, run.suite):
            notes.append(f"measured with {run.suite}, whatever --suite says")
        reports += [
            FileReport(
                shown,
                FileOutcome.STORED,
                EXPORTED,
                notes=tuple(notes),
                version=str(run.version),
                scenario=None if trial is None else trial.scenario,
                run=run.label,
                trial=None if trial is None else trial.ordinal,
                metrics=() if trial is None else tuple(trial.metrics),
            )
            for trial in run.trials or (None,)
        ]
    return [*runs, *reports]


def _results(reader: Reader, content: Content, context: Context) -> list[Reading | UnusedResult]:
    """Raises RefusalError, NotJsonError and OSError."""
    if content.constant is not None and not reader.bare_constants:
        raise RefusalError(_damage_text(content.constant))
    with _faults_as_refusals(f"of the reader {reader.name}"):
        results = list(reader.read(content, context))
    if not results:
        raise RefusalError(content.problem or f"holds no result of {reader.name}")
    if len(results) > MAX_RESULTS:
        raise RefusalError(f"holds more than {MAX_RESULTS} results; split it")
    return results


@contextmanager
def _faults_as_refusals(where: str) -> Iterator[None]:
    """A fault of the program refuses the file that it meets, so that one odd file does not cost all others."""
    try:
        yield
    except (RefusalError, NotJsonError, OSError):
        raise
    except Exception as error:
        what = excerpt(f"{type(error).__name__}: {error}", MAX_FAULT)
        raise RefusalError(f"internal error {where}, please report it ({what})") from error


def _content(candidate: Candidate, alive: Callable[[], None] = lambda: None) -> Content:
    """Raises OSError."""
    if not candidate.is_stdin:
        if (small := candidate.place.read_small()) is not None:
            return parse_content(candidate.name, small)
        return read_content(candidate.name, candidate.open, alive)
    data = sys.stdin.buffer.read(MAX_BYTES + 1)
    if data.startswith(GZIP_MAGIC):
        with unpacked(io.BytesIO(data)) as file:
            data = file.read(MAX_BYTES + 1)
    return parse_content(STDIN, data)


def _beside(candidate: Candidate, name: str) -> Content | None:
    """Another file of the candidate's folder; None if there is none that can be read."""
    other = candidate.beside(name)
    try:
        return None if other is None else _content(other)
    except OSError:
        return None


def _is_beside(candidate: Candidate, name: str) -> bool:
    return candidate.beside(name) is not None


def _forced_reader(forced: Reader, candidate: Candidate, content: Content) -> Reader | None:
    """The reader of `--from`: for every file that the user named, and for other files that it recognises."""
    return forced if candidate.named or forced.recognises(content.beginning) is not Certainty.NO else None


def _unrecognised(candidate: Candidate, content: Content, forced: Reader | None) -> FileReport:
    """The report on a file without a reader: of another tool, broken, or an unrelated file in a folder."""
    shown = excerpt(candidate.shown, MAX_PATH)
    if forced is not None:
        return FileReport(shown, FileOutcome.SKIPPED, reason=f"not recognised as {forced.name} (--from)")
    if (named := registry.describe_other_file(content)) is not None:
        return FileReport(shown, FileOutcome.REFUSED, reason=named)
    problem = content.problem or (content.constant and _damage_text(content.constant))
    broken = problem is not None and content.is_result_like
    outcome = FileOutcome.REFUSED if broken or candidate.named else FileOutcome.SKIPPED
    nothing = "an empty JSON value" if content.documents and not any(content.documents) else None
    return FileReport(shown, outcome, reason=problem or nothing or "not a benchmark result of a known tool")


def _damage_text(constant: str) -> str:
    return f"{constant}; the file was cut off or changed: make the result again"


def _report(index: int, item: CompleteResult, grouped: GroupedRuns) -> FileReport:
    reading = item.reading
    refusal = grouped.refused.get(index)
    run, trial = grouped.placed.get(index, (None, None))
    return FileReport(
        path=item.source.path,
        outcome=FileOutcome.STORED if refusal is None else FileOutcome.REFUSED,
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


def _inputs_without_results(
    below: Mapping[str, Iterable[str]], reports: list[FileReport], copies: Collection[str]
) -> list[FileReport]:
    """A refusal for each folder or archive that was named and holds only unrelated files.

    `copies`: paths of results that were read elsewhere.
    """
    with_results = {report.path for report in reports if report.outcome is not FileOutcome.SKIPPED}.union(copies)
    return [
        FileReport(
            excerpt(argument, MAX_PATH),
            FileOutcome.REFUSED,
            reason=f"{'an archive' if is_archive(argument) else 'a folder'} without benchmark results",
        )
        for argument, inside in below.items()
        if inside and all(excerpt(shown, MAX_PATH) not in with_results for shown in inside)
    ]
