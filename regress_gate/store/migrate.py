"""Bring a store's schema to the one this program works on. The only module that imports Alembic, and late."""

from pathlib import Path

from sqlalchemy import Connection, func, insert, inspect, select

from regress_gate.store.database import Database
from regress_gate.store.location import Location
from regress_gate.store.schema import REVISIONS, metadata, revision

_MIGRATION_LOCK = 0x7267_6174  # any number that no other program in the same database is likely to choose


def migrate(url: str) -> tuple[str | None, str]:
    """Migrate the store at `url`; the revision before (None: there was no schema) and after.

    In one transaction: a migration that fails or is killed leaves the store as it was.
    """
    database = Database(Location.parse(url), create=True)
    try:
        before = database.revision()
        if before is not None and before not in REVISIONS:
            database.check_revision(before)
        upgrade(database)
        return before, REVISIONS[-1]
    finally:
        database.close()


def make(database: Database) -> None:
    """The newest schema in a database that holds nothing yet.

    In a SQLite file the tables are made as they are declared: that leaves the same schema as all migrations, and needs
    no Alembic, which takes longer to load than a thousand results to store.
    """
    if database.location.path is not None:
        with database.writing(lock=False) as connection:
            if not inspect(connection).get_table_names():
                metadata.create_all(connection, checkfirst=False)
                revision.create(connection)
                connection.execute(insert(revision).values(version_num=REVISIONS[-1]))
                return
    upgrade(database)  # also where somebody else was quicker


def upgrade(database: Database, to: str = "head") -> None:
    # The revision's table may not be there to be locked. Two processes that both make a store wait for each other
    # here, on SQLite for the file and on PostgreSQL for a lock of our own; the second finds the schema made.
    with database.writing(lock=False) as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(select(func.pg_advisory_xact_lock(_MIGRATION_LOCK)))
        _apply(connection, to)


def _apply(connection: Connection, to: str) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config()
    scripts = str(Path(__file__).parent / "migrations")
    config.set_main_option("script_location", scripts.replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    command.upgrade(config, to)
