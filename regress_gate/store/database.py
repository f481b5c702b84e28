"""Connections to the store's database, one-line errors for its failures, and creating and migrating its schema.

SQLite runs in WAL mode with a busy timeout: commands that read never wait for an import, and two imports wait for each
other. One write is one transaction, so a killed process leaves nothing half-stored. What is measured waits for a server
that is away. Only a migration imports Alembic.
"""

import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

from sqlalchemy import Connection, Engine, create_engine, event, func, insert, inspect, make_url, select
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, OperationalError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from regress_gate.errors import InputError, RegressGateError, StoreAwayError, StoreError, StoreVersionError
from regress_gate.redaction import mask, url_secrets
from regress_gate.store import change_log
from regress_gate.store.schema import REVISIONS, metadata, revision
from regress_gate.store.store_interface import ChangeKind, StoreLocation
from regress_gate.text import duration_text

BUSY_TIMEOUT = 30.0
"""Seconds to wait for another process that is writing."""

_HEAD = REVISIONS[-1]


class Database:
    """An engine whose failures are one-line errors. Close it after use."""

    def __init__(self, location: StoreLocation, *, create: bool, timeout: float = BUSY_TIMEOUT):
        """Opens nothing yet. With `create`, the first connection creates a missing SQLite file."""
        self.location = location
        if location.path is None:
            self._engine = _server_engine(location)
        else:
            self._engine = _sqlite_engine(location.path, create, timeout)

    def close(self) -> None:
        self._engine.dispose()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A transaction that sees one state of the store."""
        with self._failures(), self._engine.connect() as connection:
            if self.location.path is None:
                connection = connection.execution_options(isolation_level="REPEATABLE READ")
            with connection.begin():
                yield connection

    @contextmanager
    def writing(self, *, lock: bool = True) -> Iterator[Connection]:
        """A transaction that is the only writer in the store; rolled back when the block raises."""
        with self._failures(), self._engine.connect() as connection:
            connection = connection.execution_options(regress_gate_writes=True)
            with connection.begin():
                if lock:
                    # Another program may have migrated the store since it was opened: hours, beside a measurement.
                    self.check_revision(
                        connection.execute(select(revision.c.version_num).with_for_update()).scalar_one()
                    )
                yield connection

    def revision(self) -> str | None:
        """The schema's revision; None for an empty database. Raises StoreError for a database of another program."""
        with self._failures(), self._engine.connect() as connection:
            try:
                revisions = connection.execute(select(revision.c.version_num)).scalars().all()
            except DBAPIError as error:
                connection.rollback()
                if _is_damage(error.orig):
                    raise
                revisions = []
                tables = set(inspect(connection).get_table_names())
                if self.location.path is None:
                    tables &= set(metadata.tables)
                if tables:
                    raise StoreError(
                        f"{self.location.shown}: this database is not a regress-gate store (it holds {min(tables)!r}); "
                        "give --store another place"
                    ) from None
        return revisions[0] if revisions else None

    def check_revision(self, stored: str) -> None:
        """Raise unless this program works with the schema of that revision."""
        if stored == _HEAD:
            return
        if stored in REVISIONS:
            raise StoreError(
                f"{self.location.shown}: the store has schema {stored}, this regress-gate works on {_HEAD}; "
                "run `regress-gate db migrate`"
            )
        raise StoreVersionError(
            f"{self.location.shown}: the store was written by a newer regress-gate (schema {stored!r}, "
            f"this one knows up to {_HEAD}); upgrade regress-gate"
        )

    def copy_to(self, target: Path) -> None:
        """Copy a SQLite file, consistently even while others write to it."""
        with self._failures(), self._engine.connect() as connection, closing(sqlite3.connect(target)) as copy:
            driver = connection.connection.driver_connection
            if not isinstance(driver, sqlite3.Connection):
                raise InputError("only SQLite stores can be backed up here", todo="use the database's own tool")
            driver.backup(copy)

    @contextmanager
    def _failures(self) -> Iterator[None]:
        try:
            yield
        except (SQLAlchemyError, sqlite3.Error) as error:
            raise _in_one_line(error, self.location) from None


AWAY_WITHIN = 300.0
"""Seconds after which a server that was there counts as gone."""
_FIRST_REST, _LONGEST_REST = 1.0, 10.0
"""Seconds between two attempts: each rest is twice the one before, up to the longest."""

_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a measurement waits for the store's server, as while that is started again, and whom that is told.

    Only for what may be done twice: the answer to a commit may be lost, and then the same is stored again, which
    changes nothing. Not for the first look at a store, where a wrong address is told at once.
    """

    warn: Callable[[str], None]
    within: float = AWAY_WITHIN

    def wait_for(self, call: Callable[[], _Answer]) -> _Answer:
        """What the call returns, which is made again while the server is away. Raises StoreError after so long."""
        until, rest, is_told = time.monotonic() + self.within, _FIRST_REST, False
        while True:
            try:
                answer = call()
            except StoreAwayError as error:
                if time.monotonic() + rest > until:
                    waited = duration_text(self.within)
                    raise StoreError(f"{error}; it was away for {waited}, and what came last is not stored") from None
                if not is_told:
                    self.warn(f"{error}; trying again for {duration_text(self.within)}")
                is_told = True
                time.sleep(rest)
                rest = min(2 * rest, _LONGEST_REST)
            else:
                if is_told:
                    self.warn("the store answers again")
                return answer


def _sqlite_engine(path: Path, create: bool, timeout: float) -> Engine:
    def connect() -> sqlite3.Connection:
        address = f"file:{quote(str(path.absolute()))}?{_access(path, create)}"
        # The driver sends no implicit BEGIN: the event below does.
        connection = sqlite3.connect(address, uri=True, timeout=timeout, isolation_level=None, check_same_thread=False)
        try:
            connection.execute("PRAGMA foreign_keys = ON")
            if create and connection.execute("PRAGMA schema_version").fetchone() == (0,):
                _prepare(connection)
        except sqlite3.Error:
            connection.close()
            raise
        return connection

    engine = create_engine("sqlite://", creator=connect, poolclass=NullPool)

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get("regress_gate_writes", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _access(path: Path, create: bool) -> str:
    """How to open the file. A command that reads must also work on a read-only file system.

    In WAL mode even a reader creates files beside the store. If the directory is not writable and no such file shows a
    writer, the store is opened as an immutable file.
    """
    if create:
        return "mode=rwc"
    if os.access(path, os.W_OK) and os.access(path.parent, os.W_OK):
        return "mode=rw"
    beside = path.with_name(path.name + "-wal")
    if os.access(path.parent, os.W_OK) or (beside.exists() and beside.stat().st_size > 0):
        return "mode=ro"
    return "mode=ro&immutable=1"


def _prepare(connection: sqlite3.Connection) -> None:
    """Settings that are stored in the file. Only for a file without tables: others may belong to another program."""
    # Must precede the first table. The file shrinks when versions are pruned.
    connection.execute("PRAGMA auto_vacuum = FULL")
    try:
        connection.execute("PRAGMA journal_mode = WAL")
    except sqlite3.OperationalError as error:
        # The switch does not wait for a lock. The process that holds it is creating the same store, and switches it.
        if _code(error) != sqlite3.SQLITE_BUSY:
            raise


def _server_engine(location: StoreLocation) -> Engine:
    try:
        url = make_url(location.url)
        if url.drivername in ("postgresql", "postgres"):  # the short spelling is that of libpq and many hosters
            url = url.set(drivername="postgresql+psycopg")
        return create_engine(url, pool_pre_ping=True)
    except NoSuchModuleError:
        raise InputError(
            f"{location.shown}: there is no such kind of database", where="--store", todo="use sqlite or postgresql"
        ) from None
    except ModuleNotFoundError as error:
        raise InputError(
            f"{location.shown}: the database's driver {error.name!r} is not installed",
            todo="pip install 'vllm-regress-gate[postgresql]'",
        ) from None
    except (ArgumentError, ValueError):
        raise InputError(f"{location.shown!r} is not a database URL", where="--store") from None


def _code(error: BaseException | None) -> int | None:
    """SQLite's primary result code."""
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


def _is_damage(error: BaseException | None) -> bool:
    """Whether the error is more than a missing table."""
    return isinstance(error, sqlite3.Error) and _code(error) not in (None, sqlite3.SQLITE_ERROR)


_SQLITE_FAILURES = {
    sqlite3.SQLITE_NOTADB: "this file is not a SQLite database; choose another with --store",
    sqlite3.SQLITE_CORRUPT: "the store is damaged; restore a backup, or move it away and import again",
    sqlite3.SQLITE_READONLY: "the store cannot be written; check the permissions of the file and its directory",
    sqlite3.SQLITE_PERM: "access to the store is denied; check the permissions of the file and its directory",
    sqlite3.SQLITE_FULL: "the disk is full, nothing was stored; free some space and run the command again",
    sqlite3.SQLITE_IOERR: "reading or writing failed, nothing was changed; check the disk, its space and your quota",
    sqlite3.SQLITE_BUSY: "another process has been writing to the store for too long; run the command again",
    sqlite3.SQLITE_LOCKED: "another process has been writing to the store for too long; run the command again",
    sqlite3.SQLITE_TOOBIG: "a value is larger than SQLite can store; nothing was stored",
}


def _in_one_line(error: Exception, location: StoreLocation) -> RegressGateError:
    cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    code = _code(cause)
    if code == sqlite3.SQLITE_CANTOPEN and location.path is not None:
        if not location.path.absolute().parent.is_dir():
            return StoreError(f"{location.shown}: the directory does not exist; create it or change --store")
        return StoreError(
            f"{location.shown}: the store cannot be opened; check that you may use this file and directory"
        )
    if code in _SQLITE_FAILURES:
        return StoreError(f"{location.shown}: {_SQLITE_FAILURES[code]}")
    if isinstance(cause, UnicodeError | OverflowError) or "could not decode" in str(cause).lower():
        return StoreError(f"{location.shown}: {_SQLITE_FAILURES[sqlite3.SQLITE_CORRUPT]}")
    detail = " ".join(str(cause).split())[:300] or type(cause).__name__
    todo = "check that the server runs and lets you in" if location.path is None else "nothing was changed"
    kind = StoreAwayError if location.path is None and _is_away(error) else StoreError
    return kind(f"{location.shown}: the store failed ({_hidden(detail, location)}); {todo}")


_AWAY = ("08", "57P01", "57P02", "57P03", "53300")
"""How PostgreSQL's codes begin (its manual, appendix A) for a connection that broke, a server that is stopped, has
crashed or does not take connections yet, and one that has too many."""


def _is_away(error: Exception) -> bool:
    """Whether the server said so, or said nothing: a connection that is refused or cut off has no code."""
    if not isinstance(error, OperationalError):
        return False
    code = getattr(error.orig, "sqlstate", None)
    return code is None or code.startswith(_AWAY)


def _hidden(detail: str, location: StoreLocation) -> str:
    """The driver's message without secrets of the URL, which it may quote one by one."""
    return detail if location.path is not None else mask(detail, url_secrets(location.url))


_MIGRATION_LOCK = 0x7267_6174
"""Key of PostgreSQL's advisory lock: a number that other programs in the database are unlikely to use."""


def migrate_store(url: str) -> tuple[str | None, str]:
    """Migrate the store at `url` and return the revisions before (None: no schema) and after.

    In one transaction: a migration that fails or is killed leaves the store unchanged.
    """
    database = Database(StoreLocation.parse(url), create=True)
    try:
        before = database.revision()
        if before is not None and before not in REVISIONS:
            database.check_revision(before)
        upgrade_schema(database)
        return before, REVISIONS[-1]
    finally:
        database.close()


def make_schema(database: Database) -> None:
    """Create the newest schema in an empty database.

    In a SQLite file the tables are created as declared. That gives the same schema as all migrations, without Alembic,
    whose import takes longer than storing a thousand results.
    """
    if database.location.path is not None:
        with database.writing(lock=False) as connection:
            if not inspect(connection).get_table_names():
                metadata.create_all(connection, checkfirst=False)
                revision.create(connection)
                connection.execute(insert(revision).values(version_num=_HEAD))
                change_log.add(connection, ChangeKind.CREATE, {"to": _HEAD})
                return
    upgrade_schema(database)  # also if another process has created the tables meanwhile


def upgrade_schema(database: Database, to: str = "head") -> None:
    # The revision's table may not exist yet, so it cannot be locked. Of two processes that create a store, the second
    # waits here (on SQLite for the file, on PostgreSQL for an advisory lock) and then finds the schema.
    with database.writing(lock=False) as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(select(func.pg_advisory_xact_lock(_MIGRATION_LOCK)))
        before = _stored_revision(connection)
        _run_migrations(connection, to)
        if to == "head" and before != _HEAD:
            kind = ChangeKind.CREATE if before is None else ChangeKind.MIGRATE
            change_log.add(connection, kind, {"from": before, "to": _HEAD})


def _stored_revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table(revision.name):
        return None
    return connection.execute(select(revision.c.version_num)).scalar()


def _run_migrations(connection: Connection, to: str) -> None:
    from alembic import command  # only a store of an older schema is migrated
    from alembic.config import Config

    config = Config()
    scripts = str(Path(__file__).parent / "migrations")
    config.set_main_option("script_location", scripts.replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    command.upgrade(config, to)
