"""The store: the one object through which measured runs are kept and found again.

Not for decisions, and not for the baselines that come with the program (`shipped`); `library` joins the two.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

import orjson
from sqlalchemy import ColumnElement, Connection, Table, delete, func, insert, select, update

from regress_gate.errors import InputError, StoreError
from regress_gate.files import draft_of
from regress_gate.model.run import Run, RunKey, SuiteRef
from regress_gate.model.testbed import Testbed
from regress_gate.model.version import Version
from regress_gate.store import merge, reader, schema, stored_values, writer
from regress_gate.store.database import Database
from regress_gate.store.holdings import AddedRuns, Holding, Pin, StoredExperiment, StoreInfo, holding_order
from regress_gate.store.location import StoreLocation, default_store_url

if TYPE_CHECKING:
    from regress_gate.vllm.build_config import BuildConfig

__all__ = ["Repository", "default_store_url", "find_store", "open_store"]


def open_store(url: str, *, create: bool) -> "Repository":
    """Open the store at a SQLAlchemy URL, making it where there is none if `create`.

    Raises InputError for an unusable URL, StoreError where the store is missing, damaged, foreign, unreachable or of
    an older schema, and StoreVersionError where a newer program wrote it.
    """
    found = _open(StoreLocation.parse(url), create=create)
    if found is None:
        raise StoreError(f"{StoreLocation.parse(url).shown}: there is no store; import or measure something first")
    return found


def find_store(url: str) -> "Repository | None":
    """The store at a URL, or None where there is none. Makes nothing."""
    return _open(StoreLocation.parse(url), create=False)


def _open(location: StoreLocation, *, create: bool) -> "Repository | None":
    if create and location.path is not None and location.url == default_store_url():
        _make_directory(location.path.parent)
    elif not create and not location.may_exist:
        return None
    database = Database(location, create=create)
    try:
        revision = database.revision()
        if revision is None and create:
            from regress_gate.store.database import make_schema

            make_schema(database)
        elif revision is None:
            database.close()
            return None
        else:
            database.check_revision(revision)
    except BaseException:
        database.close()
        raise
    return Repository(database)


def _make_directory(directory: Path) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"{directory}: cannot be made ({error.strerror}); name another place with --store") from None


class Repository:
    """An open store. Use it as a context manager, or close it.

    Every method is one transaction: it sees one state of the store, and changes all that it should or nothing. All
    raise StoreError when the database fails.
    """

    def __init__(self, database: Database):
        self._database = database

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._database.close()

    @property
    def location(self) -> StoreLocation:
        return self._database.location

    def add_runs(self, runs: Iterable[Run]) -> AddedRuns:
        """Store runs: all of them, or on any error none.

        A result (source hash and position) that is already stored is skipped. The trials of a run whose key is known
        join that run; one whose scenario and ordinal are taken gets the next free ordinal. Facts fill in what is
        missing. Raises InputError for facts that contradict and for values that cannot be kept.
        """
        with self._database.writing() as connection:
            return writer.add_runs(connection, runs)

    def holds(self, runs: Iterable[Run]) -> dict[tuple[str, int], int]:
        """The results of the runs (source hash and position) that are stored already, each with its stored run."""
        hashes = {stored_values.name("source hash", trial.source.sha256) for run in runs for trial in run.trials}
        with self._reading() as connection:
            return writer.stored_sources(connection, hashes)

    def runs(
        self,
        *,
        version: Version | None = None,
        testbed: str | None = None,
        suite: SuiteRef | None = None,
        with_samples: bool = False,
    ) -> list[Run]:
        """The runs of all builds that `version` may mean; None: any. Ordered by version text, testbed, suite, start."""
        with self._reading() as connection:
            return reader.load_runs(
                connection, version=version, testbed=testbed, suite=suite, with_samples=with_samples
            )

    def run(self, id_: int, *, with_samples: bool = False) -> Run | None:
        """The run that the ref `run:ID` names."""
        with self._reading() as connection:
            return next(iter(reader.load_runs(connection, run_id=id_, with_samples=with_samples)), None)

    def keys(self) -> set[RunKey]:
        with self._reading() as connection:
            return reader.run_keys(connection)

    def inventory(self) -> list[Holding]:
        """What is held, per version, testbed and suite."""
        with self._reading() as connection:
            return reader.holdings(connection, [pin.version for pin in _pins(connection)])

    def pin(self, version: Version) -> bool:
        """Keep a version, stored or not yet; False when it already is pinned as written."""
        with self._database.writing() as connection:
            columns = writer.version_columns(version)
            if connection.execute(select(schema.pin).where(*_equals(schema.pin, columns))).first():
                return False
            now = stored_values.time_text(datetime.now(UTC))
            connection.execute(insert(schema.pin).values(**columns, pinned_at=now))
            return True

    def unpin(self, version: Version) -> bool:
        """Take a pin away; False when there is none that is written so."""
        with self._database.writing() as connection:
            columns = writer.version_columns(version)
            return connection.execute(delete(schema.pin).where(*_equals(schema.pin, columns))).rowcount > 0

    def pinned(self) -> list[Pin]:
        """All pins, the newest first."""
        with self._reading() as connection:
            return _pins(connection)

    def prune(
        self,
        *,
        version: Version | None = None,
        testbed: str | None = None,
        suite: SuiteRef | None = None,
        keep: int = 0,
        dry_run: bool = False,
    ) -> list[Holding]:
        """Delete what matches and is not pinned, but for the `keep` newest holdings of each testbed and suite.

        The newest are those measured last. Returns what went, or with `dry_run` what would go.
        """

        def matches(holding: Holding) -> bool:
            return (
                (version is None or holding.version.matches(version))
                and testbed in (None, holding.testbed)
                and suite in (None, holding.suite)
            )

        if dry_run:
            with self._reading() as connection:
                return _prunable(connection, matches, keep)
        with self._database.writing() as connection:
            going = _prunable(connection, matches, keep)
            for holding in going:
                _delete(connection, holding)
            _delete_unused(connection)
            return going

    def check_testbed(self, testbed: Testbed) -> None:
        """Raises InputError when the store knows the testbed of that name as another machine: before it is measured,
        not after."""
        table = schema.testbed
        with self._reading() as connection:
            facts = connection.execute(select(table.c.facts).where(table.c.name == testbed.name)).scalar()
            stored = {} if facts is None else orjson.loads(facts)
        merge.merge_testbed_facts(testbed, stored, None)

    def begin_experiment(self, experiment: StoredExperiment) -> None:
        with self._database.writing() as connection:
            connection.execute(
                insert(schema.experiment).values(
                    id=stored_values.name("experiment", experiment.id),
                    begun=stored_values.time_text(experiment.begun),
                    plan=orjson.dumps(stored_values.json_values("plan", experiment.plan)).decode(),
                )
            )

    def end_experiment(self, id_: str, ended: datetime) -> None:
        """Note that nothing of it is missing any more."""
        table = schema.experiment
        with self._database.writing() as connection:
            connection.execute(update(table).where(table.c.id == id_).values(ended=stored_values.time_text(ended)))

    def experiments(self) -> list[StoredExperiment]:
        """All of them, the newest first."""
        table = schema.experiment
        with self._reading() as connection:
            found = []
            for id_, begun, plan, ended in connection.execute(select(table)):
                time = stored_values.time_from(begun)
                if time is None:
                    raise ValueError("an experiment without a time")
                found.append(StoredExperiment(id_, time, orjson.loads(plan), stored_values.time_from(ended)))
        return sorted(found, key=lambda experiment: experiment.begun, reverse=True)

    def add_build_config(self, config: "BuildConfig") -> None:
        """Keep what a build's arguments and variables are; over what was kept of that build before."""
        with self._database.writing() as connection:
            writer.set_build_config(connection, config.version, config.as_document())

    def build_config(self, version: Version) -> "BuildConfig | None":
        """Of the build that `version` means; of several that it may mean, the one that was kept last."""
        from regress_gate.vllm.build_config import BuildConfig

        with self._reading() as connection:
            found = reader.build_configs(connection, version)
            return BuildConfig.from_document(found[-1]) if found else None

    def backup(self, path: Path) -> None:
        """Copy a SQLite store to a new file; others may go on writing meanwhile. Never replaces a file."""
        if self.location.path is None:
            raise InputError(f"{self.location.shown}: only SQLite stores can be backed up", todo="use pg_dump or such")
        if path.exists():
            raise InputError("this file is already there", where=path, todo="name a new file")
        if not path.absolute().parent.is_dir():
            raise InputError("the directory does not exist", where=path, todo="create it")
        with draft_of(path) as draft:
            self._database.copy_to(draft)

    def info(self) -> StoreInfo:
        tables = (
            schema.build, schema.testbed, schema.suite, schema.run, schema.trial, schema.samples, schema.pin,
        )  # fmt: skip
        with self._reading() as connection:
            counts = [connection.execute(select(func.count()).select_from(table)).scalar_one() for table in tables]
            revision = connection.execute(select(schema.revision.c.version_num)).scalar_one()
        return StoreInfo(self.location.shown, revision, _size(self.location.path), *counts)

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        with self._database.reading() as connection:
            try:
                yield connection
            except (ValueError, TypeError) as error:
                # What was written was valid, so what cannot be read was changed since, by a disk or by somebody.
                raise StoreError(
                    f"{self.location.shown}: the store is damaged ({error}); restore a backup, or import again"
                ) from None


def _pins(connection: Connection) -> list[Pin]:
    pins = []
    for number, commit, variant, at in connection.execute(select(schema.pin)):
        time = stored_values.time_from(at)
        if time is None:
            raise ValueError("a pin without a time")
        pins.append(Pin(writer.version_from(number, commit, variant), time))
    return sorted(pins, key=lambda pin: pin.pinned_at, reverse=True)


def _prunable(connection: Connection, matches: Callable[[Holding], bool], keep: int) -> list[Holding]:
    held = reader.holdings(connection, [pin.version for pin in _pins(connection)])
    newest_first = sorted(held, key=lambda holding: stored_values.time_text(holding.last) or "", reverse=True)
    seen: dict[tuple[str, SuiteRef], int] = {}
    going = []
    for holding in newest_first:
        if not matches(holding) or holding.pinned:
            continue
        place = (holding.testbed, holding.suite)
        seen[place] = seen.get(place, 0) + 1
        if seen[place] > keep:
            going.append(holding)
    return sorted(going, key=holding_order)


def _delete(connection: Connection, holding: Holding) -> None:
    build, testbed, suite = schema.build, schema.testbed, schema.suite
    connection.execute(
        delete(schema.run).where(
            schema.run.c.build_id.in_(
                select(build.c.id).where(*_equals(build, writer.version_columns(holding.version)))
            ),
            schema.run.c.testbed_id.in_(select(testbed.c.id).where(testbed.c.name == holding.testbed)),
            schema.run.c.suite_id.in_(
                select(suite.c.id).where(suite.c.name == holding.suite.name, suite.c.version == holding.suite.version)
            ),
        )
    )


def _delete_unused(connection: Connection) -> None:
    for table, column in (
        (schema.build, schema.run.c.build_id),
        (schema.testbed, schema.run.c.testbed_id),
        (schema.suite, schema.run.c.suite_id),
    ):
        connection.execute(delete(table).where(table.c.id.not_in(select(column))))


def _equals(table: Table, values: dict[str, str]) -> list[ColumnElement[bool]]:
    return [table.c[name] == value for name, value in values.items()]


def _size(path: Path | None) -> int | None:
    if path is None:
        return None
    files = [path, path.with_name(path.name + "-wal")]
    return sum(file.stat().st_size for file in files if file.exists())
