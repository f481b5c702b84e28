"""Opening a store: what is made and what is not, schemas of other versions, and a database that cannot be used."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import textwrap
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import create_engine, inspect, text

from regress_gate.errors import ExitCode, InputError, StoreError, StoreVersionError
from regress_gate.model.version import Version
from regress_gate.store.database import Database, migrate_store, upgrade_schema
from regress_gate.store.repository import find_store, open_store
from regress_gate.store.schema import REVISION_TABLE, REVISIONS, metadata
from regress_gate.store.store_interface import StoreLocation, default_store_url
from tests.factories.stored_runs import make_run, make_samples, make_trial


def filled_store(url: str) -> Path:
    """A store with one run, closed."""
    with open_store(url, create=True) as store:
        store.add_runs([make_run("run1", make_trial("a", samples=make_samples([[0.01] * 500] * 50)))])
        assert store.location.path is not None
        return store.location.path


def one_line(failure: pytest.ExceptionInfo[Exception]) -> str:
    message = str(failure.value)
    assert "\n" not in message
    assert message
    return message


def test_reading_makes_no_store(tmp_path: Path, sqlite_url: str) -> None:
    assert find_store(sqlite_url) is None
    with pytest.raises(StoreError, match="there is no store"):
        open_store(sqlite_url, create=False)
    assert list(tmp_path.iterdir()) == []


def test_an_empty_file_is_not_a_store_and_can_become_one(tmp_path: Path, sqlite_url: str) -> None:
    (tmp_path / "store.db").touch()
    assert find_store(sqlite_url) is None
    filled_store(sqlite_url)


def test_a_database_without_tables_is_what_a_killed_creation_leaves(tmp_path: Path, sqlite_url: str) -> None:
    with sqlite3.connect(tmp_path / "store.db") as connection:
        connection.execute("PRAGMA journal_mode = WAL")
    connection.close()
    assert find_store(sqlite_url) is None
    filled_store(sqlite_url)


def test_a_store_is_opened_again_without_alembic(url: str) -> None:
    with open_store(url, create=True) as store:
        store.add_runs([make_run("run1")])
    code = (
        "import sys; from regress_gate.store.repository import open_store; "
        f"print(len(open_store({url!r}, create=True).runs()), 'alembic' in sys.modules, 'numpy' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["1", "False", "False"]


def test_sqlite_stores_let_readers_in_while_somebody_writes(sqlite_url: str) -> None:
    path = filled_store(sqlite_url)
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()


def described(path: Path) -> dict[str, object]:
    """Everything that SQLite knows of a database's schema, but for the words that it was asked for with."""
    with closing(sqlite3.connect(path)) as connection:

        def rows(query: str) -> list[tuple[object, ...]]:
            return connection.execute(query).fetchall()

        found: dict[str, object] = {"settings": [rows(f"PRAGMA {name}") for name in ("auto_vacuum", "journal_mode")]}
        for kind, name, words in rows("SELECT type, name, upper(sql) FROM sqlite_master"):
            if kind == "table":
                foreign = sorted(rows(f"PRAGMA foreign_key_list({name})"))
                found[f"table {name}"] = rows(f"PRAGMA table_xinfo({name})"), foreign, "AUTOINC" in str(words)
                found[f"indexes of {name}"] = sorted(row[1:] for row in rows(f"PRAGMA index_list({name})"))
            else:
                found[f"{kind} {name}"] = rows(f"PRAGMA index_xinfo({name})")
        return found


def test_a_new_sqlite_store_has_the_very_schema_that_all_migrations_make(tmp_path: Path) -> None:
    made, migrated = tmp_path / "made.db", tmp_path / "migrated.db"
    with open_store(f"sqlite:///{made}", create=True):
        pass
    migrate_store(f"sqlite:///{migrated}")
    assert described(made) == described(migrated)
    # And so nothing is left to migrate.
    assert migrate_store(f"sqlite:///{made}") == (REVISIONS[-1], REVISIONS[-1])
    assert described(made) == described(migrated)


def test_a_new_sqlite_store_is_made_without_alembic(tmp_path: Path) -> None:
    code = (
        "import sys; from regress_gate.store.repository import open_store; "
        f"open_store('sqlite:///{tmp_path}/store.db', create=True).close(); print('alembic' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["False"]


def test_the_migrations_make_the_tables_that_the_code_works_on(url: str) -> None:
    migrate_store(url)
    migrated, declared = create_engine(url), create_engine("sqlite://")
    metadata.create_all(declared)
    try:
        ours, theirs = inspect(migrated), inspect(declared)
        assert set(metadata.tables) == set(theirs.get_table_names()) == set(ours.get_table_names()) - {REVISION_TABLE}
        for table in metadata.tables:

            def columns(side: object, table: str = table) -> list[tuple[str, bool]]:
                return [(column["name"], column["nullable"]) for column in side.get_columns(table)]  # type: ignore[attr-defined]

            def uniques(side: object, table: str = table) -> set[tuple[str, ...]]:
                return {tuple(found["column_names"]) for found in side.get_unique_constraints(table)}  # type: ignore[attr-defined]

            def foreign(side: object, table: str = table) -> set[tuple[str, str, str | None]]:
                return {
                    (found["constrained_columns"][0], found["referred_table"], found["options"].get("ondelete"))
                    for found in side.get_foreign_keys(table)  # type: ignore[attr-defined]
                }

            assert columns(ours) == columns(theirs)
            assert uniques(ours) == uniques(theirs)
            assert foreign(ours) == foreign(theirs)
    finally:
        migrated.dispose()
        declared.dispose()


def older_store(url: str) -> None:
    database = Database(StoreLocation.parse(url), create=True)
    upgrade_schema(database, REVISIONS[0])
    database.close()


def test_an_older_schema_asks_for_a_migration(url: str) -> None:
    older_store(url)
    for create in (False, True):
        with pytest.raises(StoreError, match="regress-gate db migrate"):
            open_store(url, create=create)


def test_a_migration_keeps_what_is_stored(url: str) -> None:
    older_store(url)
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text("INSERT INTO testbed (name, facts) VALUES ('lab', '{}')"))
    engine.dispose()
    assert migrate_store(url) == (REVISIONS[0], REVISIONS[-1])
    with open_store(url, create=False) as store:
        assert store.info().testbeds == 1
        assert store.pinned() == []
    assert migrate_store(url) == (REVISIONS[-1], REVISIONS[-1])


def test_a_newer_schema_asks_for_a_newer_program(url: str) -> None:
    with open_store(url, create=True):
        pass
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text(f"UPDATE {REVISION_TABLE} SET version_num = '0099'"))
    engine.dispose()
    for attempt in (
        lambda: open_store(url, create=False),
        lambda: open_store(url, create=True),
        lambda: migrate_store(url),
    ):
        with pytest.raises(StoreVersionError, match=r"newer regress-gate .*upgrade regress-gate") as failure:
            attempt()
        assert failure.value.exit_code is ExitCode.USAGE


def test_a_program_that_opened_the_store_before_a_newer_one_migrated_it_writes_no_more(url: str) -> None:
    with open_store(url, create=True) as store:
        engine = create_engine(url)
        with engine.begin() as connection:
            connection.execute(text(f"UPDATE {REVISION_TABLE} SET version_num = '0099'"))
        with pytest.raises(StoreVersionError, match="upgrade regress-gate"):
            store.add_runs([make_run("run1")])
        with pytest.raises(StoreVersionError):
            store.pin(Version.parse("0.19.0"))
        with engine.begin() as connection:
            connection.execute(text(f"UPDATE {REVISION_TABLE} SET version_num = '{REVISIONS[-1]}'"))
        engine.dispose()
        assert (store.runs(), store.pinned()) == ([], [])


def test_somebody_elses_database_is_left_alone(tmp_path: Path, sqlite_url: str) -> None:
    with sqlite3.connect(tmp_path / "store.db") as connection:
        connection.execute("CREATE TABLE cookies (taste TEXT)")
    connection.close()
    before = (tmp_path / "store.db").read_bytes()
    for create in (False, True):
        with pytest.raises(StoreError, match="not a regress-gate store"):
            open_store(sqlite_url, create=create)
    assert (tmp_path / "store.db").read_bytes() == before


@pytest.mark.parametrize("content", [b"not a database at all, but long enough to be read\n" * 50, b"{}\n"])
def test_a_file_that_is_not_a_database_is_reported(tmp_path: Path, sqlite_url: str, content: bytes) -> None:
    path = tmp_path / "store.db"
    path.write_bytes(content)
    for create in (False, True):
        with pytest.raises(StoreError) as failure:
            open_store(sqlite_url, create=create)
        assert "not a SQLite database" in one_line(failure)
        assert str(path) in one_line(failure)
        assert failure.value.exit_code is ExitCode.COULD_NOT_MEASURE
    assert path.read_bytes() == content


@pytest.mark.parametrize("keep", [0.1, 0.5, 0.9])
def test_a_truncated_store_is_reported_as_damaged(sqlite_url: str, keep: float) -> None:
    path = filled_store(sqlite_url)
    os.truncate(path, int(path.stat().st_size * keep))
    with (
        pytest.raises(StoreError, match=r"damaged|cannot be") as failure,
        open_store(sqlite_url, create=False) as store,
    ):
        store.runs(with_samples=True)
    one_line(failure)


def test_a_page_of_garbage_is_reported_as_damage(sqlite_url: str) -> None:
    path = filled_store(sqlite_url)
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xa5" * 4096 * 6)
    with pytest.raises(StoreError, match="damaged") as failure, open_store(sqlite_url, create=False) as store:
        store.runs()
    one_line(failure)


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE trial SET metrics = '{\"ttft_median\": 0.1'",
        "UPDATE trial SET started = 'yesterday'",
        'UPDATE testbed SET facts = \'{"colour": "blue"}\'',
        "UPDATE source SET imported_at = ''",
        "UPDATE samples SET data = x'01020304'",
        "UPDATE samples SET data = substr(data, 1, length(data) - 3)",
        "UPDATE trial SET scenario = CAST(x'fffe41' AS TEXT)",
    ],
)
def test_invalid_content_is_reported_as_damage(sqlite_url: str, damage: str) -> None:
    path = filled_store(sqlite_url)
    with sqlite3.connect(path) as connection:
        connection.execute(damage)
    connection.close()
    with open_store(sqlite_url, create=False) as store, pytest.raises(StoreError, match="damaged") as failure:
        store.runs(with_samples=True)
    one_line(failure)


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="directory does not exist"):
        open_store(f"sqlite:///{tmp_path}/missing/store.db", create=True)
    assert find_store(f"sqlite:///{tmp_path}/missing/store.db") is None


def test_a_directory_is_not_a_store(tmp_path: Path) -> None:
    for create in (False, True):
        with pytest.raises(StoreError, match="cannot be opened") as failure:
            open_store(f"sqlite:///{tmp_path}", create=create)
        one_line(failure)


AS_NOBODY = textwrap.dedent(
    """
    import os, sys
    from regress_gate.errors import StoreError
    from regress_gate.store.repository import open_store
    from tests.factories.stored_runs import make_run
    if os.geteuid() == 0:
        os.setgid(65534)
        os.setuid(65534)  # permissions do not bind root
    with open_store(sys.argv[1], create=False) as store:
        print(len(store.runs()))
        try:
            store.add_runs([make_run("run2")])
        except StoreError as error:
            print(error)
    """
)


@pytest.mark.parametrize("directory_mode", [0o755, 0o555])
def test_a_read_only_store_can_be_read_and_refuses_to_be_written(directory_mode: int) -> None:
    # Not in pytest's directory, which nobody else may enter.
    directory = Path("/var/tmp") / f"regress-gate-test-{os.getpid()}-{directory_mode:o}"
    directory.mkdir()
    try:
        path = filled_store(f"sqlite:///{directory / 'store.db'}")
        path.chmod(0o444)
        directory.chmod(directory_mode)
        command = [sys.executable, "-c", AS_NOBODY, f"sqlite:///{path}"]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        assert result.stderr == ""
        count, refusal = result.stdout.splitlines()
        assert count == "1"
        assert "the store cannot be written; check the permissions" in refusal
    finally:
        directory.chmod(0o755)
        shutil.rmtree(directory)


@pytest.mark.parametrize(
    "url",
    [
        "", "store.db", "sqlite://", "sqlite:///", "sqlite:///:memory:", "sqlite:///a\0b", "oracle-of-delphi://x",
        "postgresql://host:port/db", "nonsense:///",
    ],
)  # fmt: skip
def test_a_text_that_is_not_a_url_is_an_input_error(url: str) -> None:
    with pytest.raises(InputError) as failure:
        open_store(url, create=True)
    one_line(failure)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:s3cret@127.0.0.1:1/db",
        "postgresql://me:s3cret@127.0.0.1:1/db?connect_timeout=2",
        "postgresql://127.0.0.1:1/db?user=me&password=s3cret",
        "postgresql://me:s3%2Fcret@127.0.0.1:1/db",
        "mysql+nosuchdriver://me:s3cret@host/db",
        "postgresql://me:s3cret@host:port/db",
    ],
)
def test_an_unusable_server_is_one_line_without_the_password(url: str) -> None:
    with pytest.raises((StoreError, InputError)) as failure:
        open_store(url, create=False)
    message = one_line(failure)
    assert "s3" not in message
    assert "cret" not in message


def test_postgres_is_postgresql() -> None:
    """The short spelling is what libpq and many hosters write."""
    messages = []
    for scheme in ("postgresql", "postgres"):
        with pytest.raises((StoreError, InputError)) as failure:
            open_store(f"{scheme}://me@127.0.0.1:1/db", create=False)
        messages.append(str(failure.value).replace(f"{scheme}://", ""))
    assert messages[0] == messages[1]


def test_a_path_may_hold_what_a_url_may_not(tmp_path: Path) -> None:
    directory = tmp_path / "100% of #my data"
    directory.mkdir()
    filled_store(f"sqlite:///{directory}/store.db")
    assert (directory / "store.db").exists()


def test_the_default_store_is_made_with_its_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "my data?"))
    monkeypatch.setenv("HOME", str(tmp_path / "my data?"))
    path = filled_store(default_store_url())
    assert path.is_relative_to(tmp_path / "my data?")
    assert path.exists()


def test_a_migration_finds_the_numbers_of_stored_trials(url: str) -> None:
    """So that a copy of what an older program stored is known, whatever its bytes."""
    metrics = {"ttft_median": 0.12345678912, "output_throughput": 512.3456789}
    database = Database(StoreLocation.parse(url), create=True)
    upgrade_schema(database, "0004")
    database.close()
    engine = create_engine(url)
    with engine.begin() as connection:
        for statement in (
            "INSERT INTO testbed (id, name, facts) VALUES (1, 'lab', '{}')",
            "INSERT INTO suite (id, name, version) VALUES (1, 'imported', '1')",
            "INSERT INTO build (id, number, commit_id, variant) VALUES (1, '0.19.0', '', 'cpu')",
            (
                "INSERT INTO run (id, build_id, testbed_id, suite_id, label, conditions, libraries, metrics) "
                "VALUES (1, 1, 1, 1, 'file-1', '{}', '{}', '{}')"
            ),
            (
                "INSERT INTO trial (id, run_id, scenario, ordinal, completed, failed, duration, conditions, workload, "
                "metrics) VALUES (1, 1, 'c1', 1, 32, 0, 9.5, '{}', '{}', :metrics)"
            ),
            (
                "INSERT INTO source (trial_id, sha256, position, path, format, imported_at) "
                f"VALUES (1, '{'0' * 64}', 0, 'old.json', 'vllm-serve', '2026-07-24T10:00:00Z')"
            ),
        ):
            parameters = {"metrics": json.dumps(metrics)} if ":metrics" in statement else {}
            connection.execute(text(statement), parameters)
    engine.dispose()
    migrate_store(url)
    with open_store(url, create=False) as store:
        added = store.add_runs([make_run("file-2", make_trial("indented anew", metrics=metrics))])
        assert [duplicate.run for duplicate in added.duplicates] == [1]
        assert (added.trials, len(store.runs())) == (0, 1)
