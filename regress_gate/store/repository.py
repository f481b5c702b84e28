"""The store: the one object that saves measured runs and reads them again.

Not for decisions, and not for the baselines shipped with the program: `combined` joins the two.
"""

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import orjson
from sqlalchemy import ColumnElement, Connection, Table, delete, func, insert, select, update

from regress_gate.errors import InputError, StoreError
from regress_gate.files import draft_of
from regress_gate.model.run import Run, SuiteRef
from regress_gate.model.testbed import Testbed
from regress_gate.model.version import Version
from regress_gate.store import change_log, comparisons, looks, reader, retention, rows, schema, stored_values, writer
from regress_gate.store.database import BUSY_TIMEOUT, Database, Patience, make_schema
from regress_gate.store.store_interface import (
    AddedRuns,
    ChangeKind,
    Closing,
    Expired,
    Holding,
    LogEntry,
    Pin,
    StoredComparison,
    StoredExperiment,
    StoredLook,
    StoreInfo,
    StoreLocation,
    default_store_url,
    holding_order,
)

if TYPE_CHECKING:
    from regress_gate.vllm.build_config import BuildConfig


_Answer = TypeVar("_Answer")


def open_store(url: str, *, create: bool, patience: Patience | None = None) -> "Repository":
    """Open the store at a SQLAlchemy URL. With `create`, a missing store is created. With `patience`, what a
    measurement does with the open store waits while the server is away.

    Raises InputError for an unusable URL, StoreError if the store is missing, damaged, foreign, unreachable or has an
    older schema, and StoreVersionError if a newer program wrote it.
    """
    repository = _open(StoreLocation.parse(url), create=create, patience=patience)
    if repository is None:
        raise StoreError(f"{StoreLocation.parse(url).shown}: there is no store; import or measure something first")
    return repository


def find_store(url: str, *, timeout: float = BUSY_TIMEOUT) -> "Repository | None":
    """The store at a URL, or None if there is none. Creates nothing. `timeout`: seconds to wait for another writer."""
    return _open(StoreLocation.parse(url), create=False, timeout=timeout)


def _open(
    location: StoreLocation, *, create: bool, timeout: float = BUSY_TIMEOUT, patience: Patience | None = None
) -> "Repository | None":
    if create and location.path is not None and location.url == default_store_url():
        _make_directory(location.path.parent)
    elif not create and not location.may_exist:
        return None
    database = Database(location, create=create, timeout=timeout)
    try:
        revision = database.revision()
        if revision is None and create:
            make_schema(database)
        elif revision is None:
            database.close()
            return None
        else:
            database.check_revision(revision)
    except BaseException:
        database.close()
        raise
    return Repository(database, patience)


def _make_directory(directory: Path) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(
            f"{directory}: cannot be created ({error.strerror}); name another place with --store"
        ) from None


class Repository(Closing):
    """An open store; a context manager.

    Every method is one transaction: it sees one state of the store, and makes all of its changes or none. Every method
    raises StoreError when the database fails.
    """

    def __init__(self, database: Database, patience: Patience | None = None):
        self._database = database
        self._patience = patience
        self._state: Connection | None = None
        """The transaction of all reads, while there is one."""

    def close(self) -> None:
        self._database.close()

    @property
    def location(self) -> StoreLocation:
        return self._database.location

    @contextmanager
    def one_state(self) -> Iterator[None]:
        """All reads inside see the same state of the store, whatever other processes write meanwhile."""
        with self._database.reading() as connection:
            self._state = connection
            try:
                yield
            finally:
                self._state = None

    def patiently(self, call: Callable[[], _Answer]) -> _Answer:
        """What a call returns that may be made twice: made again while the server is away, if the store was opened
        with patience. `add_runs`, `check_testbed`, `experiment_runs` and `end_experiment` do so by themselves."""
        return call() if self._patience is None else self._patience.wait_for(call)

    def add_runs(self, runs: Iterable[Run], *, log_as: ChangeKind | None = ChangeKind.IMPORT) -> AddedRuns:
        """Store all runs, or none if there is an error.

        A result that is already stored, by its bytes or by its numbers, is skipped. Trials of a run whose key is known
        are added to that run, as are new results of a file that holds results of it; a trial whose scenario and ordinal
        are taken gets the next free ordinal. Facts fill in missing ones. Raises InputError for contradicting facts and
        for values that cannot be stored. `log_as`: what the log says of it; None for runs of an experiment, whose
        beginning it has.
        """
        given = runs if self._patience is None else list(runs)

        def add() -> AddedRuns:
            with self._database.writing() as connection:
                return writer.add_runs(connection, given, log_as)

        return self.patiently(add)

    def holds(self, runs: Iterable[Run]) -> dict[tuple[str, int], int]:
        """The results of the runs (source hash and position) that are already stored, each with its stored run."""
        runs = list(runs)
        with self._reading() as connection:
            return writer.stored_results(connection, runs)

    def runs(
        self,
        *,
        version: Version | None = None,
        testbed: str | None = None,
        suite: SuiteRef | None = None,
        with_samples: bool = False,
    ) -> list[Run]:
        """The runs of all builds that match `version` (None: any), in `run_order`. Without a suite, all but those of
        counter-tests."""
        with self._reading() as connection:
            return reader.load_runs(
                connection, version=version, testbed=testbed, suite=suite, with_samples=with_samples
            )

    def run(self, id_: int, *, with_samples: bool = False) -> Run | None:
        """The run that the ref `run:ID` names."""
        with self._reading() as connection:
            return next(iter(reader.load_runs(connection, run_ids=[id_], with_samples=with_samples)), None)

    def runs_by_version(self, *, testbed: str, suite: SuiteRef, metrics: Container[str]) -> Iterator[list[Run]]:
        """The runs of one version after the other, ordered by the version's text, with what `recent_runs` reads."""
        with self._reading() as connection:
            yield from reader.runs_by_version(connection, testbed=testbed, suite=suite, metrics=metrics)

    def recent_runs(
        self,
        *,
        testbed: str,
        suite: SuiteRef,
        paired: bool,
        metrics: Container[str] | None = None,
        without: Collection[int] = (),
    ) -> list[Run]:
        """The runs of the newest sessions (`choose_recent`), of any version, but for those of these ids.

        With `metrics`, their trials have only these metrics, no workload, and as their source only the release of the
        client; the runs have no answers and no facts of their server.
        """
        with self._reading() as connection:
            ids = reader.recent_run_ids(connection, testbed=testbed, suite=suite, paired=paired, without=without)
            return reader.load_runs(connection, run_ids=ids, metrics=metrics) if ids else []

    def experiment_runs(self, experiment: str, *, testbed: str | None, suite: SuiteRef) -> list[Run]:
        """The runs of an experiment, with `testbed` None on any."""

        def read() -> list[Run]:
            with self._reading() as connection:
                ids = reader.experiment_run_ids(connection, experiment=experiment, testbed=testbed, suite=suite)
                return reader.load_runs(connection, run_ids=ids) if ids else []

        return self.patiently(read)

    def labels(self, version: Version, testbed: str, suite: SuiteRef) -> set[str]:
        """The labels of the stored runs of exactly this version."""
        with self._reading() as connection:
            return reader.stored_labels(connection, version, testbed, suite)

    def inventory(self, versions: Sequence[Version] | None = None) -> list[Holding]:
        """The holdings by version, testbed and suite; with `versions` of those that match one of them. Those of
        counter-tests are left out."""
        with self._reading() as connection:
            return reader.holdings(connection, [pin.version for pin in _pins(connection)], versions)

    def pin(self, version: Version) -> bool:
        """Pin a version, stored or not, which is then the one that was pinned last; False if it is already pinned in
        this spelling."""
        with self._database.writing() as connection:
            columns = rows.version_columns(version)
            now = stored_values.time_text(datetime.now(UTC))
            again = update(schema.pin).where(*_equals(schema.pin, columns)).values(pinned_at=now)
            is_new = connection.execute(again).rowcount == 0
            if is_new:
                connection.execute(insert(schema.pin).values(**columns, pinned_at=now))
            change_log.add(connection, ChangeKind.PIN, {"version": str(version), "again": not is_new})
            return is_new

    def unpin(self, version: Version) -> bool:
        """Remove a pin; False if there is none in this spelling."""
        with self._database.writing() as connection:
            columns = rows.version_columns(version)
            was_pinned = connection.execute(delete(schema.pin).where(*_equals(schema.pin, columns))).rowcount > 0
            if was_pinned:
                change_log.add(connection, ChangeKind.UNPIN, {"version": str(version)})
            return was_pinned

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
        """Delete the matching holdings that are not pinned, except the `keep` newest of each testbed and suite, and the
        stored comparisons of what is deleted.

        The newest are those measured last. Returns the deleted holdings; with `dry_run`, those that would be deleted.
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
            pruned = _prunable(connection, matches, keep)
            gone = sum(_delete(connection, holding) for holding in pruned)
            _delete_unused(connection)
            if pruned:
                places = [change_log.place(one.version, one.testbed, one.suite) for one in pruned]
                details = {"runs": sum(one.runs for one in pruned), "comparisons": gone, "places": places}
                change_log.add(connection, ChangeKind.PRUNE, details)
            return pruned

    def prune_expired(self, before: datetime, *, keep: int = 0, dry_run: bool = False) -> Expired:
        """Delete what was measured before a time, whole experiments only, with the comparisons of it
        (`retention.find_expired`); with `dry_run`, only find it."""
        if dry_run:
            with self._reading() as connection:
                return retention.find_expired(connection, [pin.version for pin in _pins(connection)], before, keep)
        with self._database.writing() as connection:
            expired = retention.find_expired(connection, [pin.version for pin in _pins(connection)], before, keep)
            if expired.run_ids:
                retention.delete_expired(connection, expired)
                _delete_unused(connection)
            return expired

    def check_testbed(self, testbed: Testbed) -> None:
        """Raise InputError if the store has the facts of another machine under the testbed's name.

        For use before a measurement, which would otherwise be refused after it.
        """
        table = schema.testbed

        def read() -> dict[str, Any]:
            with self._reading() as connection:
                facts = connection.execute(select(table.c.facts).where(table.c.name == testbed.name)).scalar()
                return {} if facts is None else dict(orjson.loads(facts))

        rows.merge_testbed_facts(testbed, self.patiently(read), None)

    def begin_experiment(self, experiment: StoredExperiment, places: Sequence[Mapping[str, str]] = ()) -> None:
        """Store a plan. `places`: what it is going to measure, for the log, in the form of `change_log.place`."""
        with self._database.writing() as connection:
            connection.execute(
                insert(schema.experiment).values(
                    id=stored_values.name("experiment", experiment.id),
                    begun=stored_values.time_text(experiment.begun),
                    plan=orjson.dumps(stored_values.json_values("plan", experiment.plan)).decode(),
                )
            )
            details = {"experiment": experiment.id, "places": list(map(dict, places))}
            change_log.add(connection, ChangeKind.MEASURE, details)

    def end_experiment(self, id_: str, ended: datetime) -> None:
        """Record that the experiment is complete."""
        table = schema.experiment

        def end() -> None:
            with self._database.writing() as connection:
                connection.execute(update(table).where(table.c.id == id_).values(ended=stored_values.time_text(ended)))

        self.patiently(end)

    def experiments(self, *, unfinished_only: bool = False) -> list[StoredExperiment]:
        """All experiments, or those that have not ended, the newest first."""
        table = schema.experiment
        query = select(table).where(table.c.ended.is_(None)) if unfinished_only else select(table)
        with self._reading() as connection:
            experiments = []
            for id_, begun, plan, ended in connection.execute(query):
                time = stored_values.time_from(begun)
                if time is None:
                    raise ValueError("an experiment without a time")
                experiments.append(StoredExperiment(id_, time, orjson.loads(plan), stored_values.time_from(ended)))
        return sorted(experiments, key=lambda experiment: experiment.begun, reverse=True)

    def add_build_config(self, config: "BuildConfig") -> None:
        """Store the configuration of a build, in place of an earlier one."""
        with self._database.writing() as connection:
            writer.set_build_config(connection, config.version, config.as_document())

    def build_config(self, version: Version) -> "BuildConfig | None":
        """The configuration of the build that matches `version`; of several, the one stored last."""
        from regress_gate.vllm.build_config import BuildConfig  # with pydantic, which an import does without

        with self._reading() as connection:
            documents = reader.build_configs(connection, version)
            return BuildConfig.from_document(documents[-1]) if documents else None

    def add_comparison(self, comparison: StoredComparison, document: Mapping[str, Any]) -> bool:
        """Store a result of `compare`, as JSON values; False if the newest of these two versions says the same. The log
        names the waivers that it used, once until they change.

        Never waits for another writer of a server: a row that stands alone needs no order among the others.
        """
        used = comparisons.used_waivers(document)
        with self._database.writing(lock=False) as connection:
            is_told = not used or comparisons.waived(connection, comparison) == used
            is_new = comparisons.add(connection, comparison, document)
            if is_new and not is_told:
                place = change_log.place(comparison.candidate, comparison.testbed, comparison.suite)
                details = {
                    "baseline": str(comparison.baseline),
                    "decision": comparison.decision,
                    "waivers": used,
                    "places": [place],
                }
                change_log.add(connection, ChangeKind.WAIVE, details)
            return is_new

    def comparisons(self, *, testbed: str | None = None, suite: SuiteRef | None = None) -> list[StoredComparison]:
        """The stored comparisons, the newest first."""
        with self._reading() as connection:
            return comparisons.find(connection, testbed, suite)

    def comparison_document(self, id_: int) -> dict[str, Any] | None:
        """The result of a stored comparison; None if it was deleted."""
        with self._reading() as connection:
            return comparisons.document(connection, id_)

    def put_look(self, look: StoredLook) -> None:
        """Store a look of the watch, in place of the one of its name."""
        with self._database.writing(lock=False) as connection:
            looks.put(connection, look)

    def looks(self, place: str | None = None) -> list[StoredLook]:
        """The looks of the watch at a place, or all; the oldest first."""
        with self._reading() as connection:
            return looks.find(connection, place)

    def log(self, *, since: datetime | None = None, limit: int) -> list[LogEntry]:
        """Who changed what is held: at most `limit` entries, the newest first."""
        with self._reading() as connection:
            return change_log.find(connection, since=since, limit=limit)

    def backup(self, path: Path) -> None:
        """Copy a SQLite store to a new file, also while others write to it. Never replaces a file."""
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
            schema.comparison,
        )  # fmt: skip
        with self._reading() as connection:
            counts = [connection.execute(select(func.count()).select_from(table)).scalar_one() for table in tables]
            revision = connection.execute(select(schema.revision.c.version_num)).scalar_one()
        return StoreInfo(self.location.shown, revision, _size(self.location.path), *counts)

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        with nullcontext(self._state) if self._state is not None else self._database.reading() as connection:
            try:
                yield connection
            except (ValueError, TypeError) as error:
                # Only valid values are written, so the content was changed later.
                raise StoreError(
                    f"{self.location.shown}: the store is damaged ({error}); restore a backup, or import again"
                ) from None


def _pins(connection: Connection) -> list[Pin]:
    pins = []
    for number, commit, variant, at in connection.execute(select(schema.pin)):
        time = stored_values.time_from(at)
        if time is None:
            raise ValueError("a pin without a time")
        pins.append(Pin(rows.version_from(number, commit, variant), time))
    return sorted(pins, key=lambda pin: pin.pinned_at, reverse=True)


def _prunable(connection: Connection, matches: Callable[[Holding], bool], keep: int) -> list[Holding]:
    held = reader.holdings(connection, [pin.version for pin in _pins(connection)], with_counter_tests=True)
    newest_first = sorted(held, key=lambda holding: stored_values.time_text(holding.last) or "", reverse=True)
    seen: dict[tuple[str, SuiteRef], int] = {}
    pruned = []
    for holding in newest_first:
        if not matches(holding) or holding.pinned:
            continue
        key = (holding.testbed, holding.suite)
        seen[key] = seen.get(key, 0) + 1
        if seen[key] > keep:
            pruned.append(holding)
    return sorted(pruned, key=holding_order)


def _delete(connection: Connection, holding: Holding) -> int:
    """Returns the number of deleted comparisons."""
    build, testbed, suite = schema.build, schema.testbed, schema.suite
    builds = select(build.c.id).where(*_equals(build, rows.version_columns(holding.version)))
    testbeds = select(testbed.c.id).where(testbed.c.name == holding.testbed)
    suites = select(suite.c.id).where(suite.c.name == holding.suite.name, suite.c.version == holding.suite.version)
    for table in (schema.run, schema.holding):
        connection.execute(
            delete(table).where(
                table.c.build_id.in_(builds), table.c.testbed_id.in_(testbeds), table.c.suite_id.in_(suites)
            )
        )
    return comparisons.delete_of(connection, holding)


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
