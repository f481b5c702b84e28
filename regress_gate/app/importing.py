"""Import the results of other tools: read the files, store their runs, report what became of each file."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from regress_gate.errors import InputError, StoreError, StoreVersionError
from regress_gate.ingest.identity import IdentityFlags
from regress_gate.ingest.importer import read_paths
from regress_gate.ingest.interface import ImportResult, Reader
from regress_gate.ingest.registry import READERS
from regress_gate.model.run import Run
from regress_gate.report.views.import_view import ImportView
from regress_gate.store.store_interface import StoreLocation
from regress_gate.text import did_you_mean

Advance = Callable[[int, int], None] | None
"""Called with the number that is done and the number of all; None if the progress is not shown."""
Count = Callable[[str], AbstractContextManager[Advance]]
"""Shows the progress of one step, `reading` or `storing`, while the context is open."""


@dataclass(frozen=True, slots=True)
class ImportRequest:
    paths: Sequence[str]
    """Files, folders, archives, globs; `-` is standard input."""
    identity: IdentityFlags
    reader: str | None = None
    """The only format that is read; None: each file by the reader that is most certain of it."""
    with_samples: bool = True
    is_dry_run: bool = False
    """Read everything and store nothing."""


def import_results(
    request: ImportRequest, store_url: str, *, count: Count = lambda _step: nullcontext(None)
) -> ImportView:
    """Read every result and store its run; a refused file does not affect the others. A dry run makes no store.

    Raises InputError for an unknown reader, an unusable URL and facts that no file and no flag gives; StoreError and
    StoreVersionError if the store cannot be used.
    """
    location = StoreLocation.parse(store_url)
    reader = None if request.reader is None else find_reader(request.reader)
    with count("reading") as advance:
        intake = read_paths(
            request.paths, request.identity, forced=reader, with_samples=request.with_samples, progress=advance
        )
    if request.is_dry_run:
        return _plan_storing(intake, location)
    if not intake.runs:
        return ImportView(intake, location.shown)
    from regress_gate.store.repository import open_store  # with the database: a dry run may need none

    with open_store(store_url, create=True) as store, count("storing") as advance:
        added = store.add_runs(_counted(intake.runs, advance))
    return ImportView(intake, location.shown, added)


def find_reader(name: str) -> Reader:
    """The reader of a format. Raises InputError for an unknown one."""
    readers = {reader.name: reader for reader in READERS}
    if name not in readers:
        near = did_you_mean(name, readers, limit=len(readers))
        raise InputError(f"unknown format {name!r}{near}", where="--from", todo="--list-formats names all")
    return readers[name]


def _plan_storing(intake: ImportResult, location: StoreLocation) -> ImportView:
    """What would be stored, by what the store has. Creates no store and migrates none."""
    held: dict[tuple[str, int], int] = {}
    problem = None
    if location.may_exist:
        from regress_gate.store.repository import find_store  # with the database, as above

        try:
            if (store := find_store(location.url)) is not None:
                with store:
                    held = store.holds(intake.runs)
        except (StoreError, StoreVersionError) as error:
            problem = str(error)
    return ImportView(intake, location.shown, is_dry_run=True, held=held, held_problem=problem)


def _counted(runs: Sequence[Run], advance: Advance) -> Iterator[Run]:
    """The runs; reports progress as they are taken."""
    for done, run in enumerate(runs):
        if advance is not None:
            advance(done, len(runs))
        yield run
