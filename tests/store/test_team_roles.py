"""The roles of docs/team.md on a real PostgreSQL: the page's own SQL, and what each role may do with it."""

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import URL, create_engine, make_url, text

from regress_gate.errors import StoreError
from regress_gate.model.testbed import Testbed
from regress_gate.model.version import Version
from regress_gate.store.database import migrate_store
from regress_gate.store.repository import Repository, open_store
from regress_gate.store.store_interface import StoredComparison, StoredExperiment, StoredLook
from regress_gate.vllm.build_config import BuildConfig
from tests.factories.stored_runs import SUITE, make_run, make_samples, make_trial
from tests.store.conftest import POSTGRESQL

PAGE = Path(__file__).parents[2] / "docs" / "team.md"
NOW = datetime.now(UTC)
OLD, NEW = Version.parse("0.19.0+cpu"), Version.parse("0.20.0+cpu")
PEOPLE = {"gate_owner": None, "machine_h200": "gate_runner", "ana": "gate_curator", "ci": "gate_reader"}

pytestmark = pytest.mark.skipif(POSTGRESQL is None, reason="needs the PostgreSQL of REGRESS_GATE_TEST_POSTGRESQL")


def page_sql() -> list[str]:
    """The page's blocks: what an administrator does once, and what the owner does after each migration."""
    return re.findall(r"```sql\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)


def execute(url: URL, *statements: str) -> None:
    engine = create_engine(url.set(drivername="postgresql+psycopg"), isolation_level="AUTOCOMMIT")
    try:
        with engine.connect() as connection:
            for statement in statements:
                connection.execute(text(statement))
    finally:
        engine.dispose()


@pytest.fixture(scope="module")
def login() -> Iterator[Callable[[str], str]]:
    """The URL of a role, in a database that is set up as the page says."""
    assert POSTGRESQL is not None
    server = make_url(POSTGRESQL)
    database = server.set(database="gate_of_a_team")
    administrator, owner = page_sql()

    def remove() -> None:
        execute(server, "DROP DATABASE IF EXISTS gate_of_a_team WITH (FORCE)")
        for role in (*PEOPLE, "gate_curator", "gate_runner", "gate_reader"):
            execute(server, f"DROP ROLE IF EXISTS {role}")

    def url(role: str) -> str:
        return database.set(username=role, password="change-me").render_as_string(hide_password=False)

    remove()
    execute(server, "CREATE DATABASE gate_of_a_team")
    try:
        execute(database, administrator)
        migrate_store(url("gate_owner"))
        # Twice, as after a second migration.
        execute(make_url(url("gate_owner")), owner, owner)
        yield url
    finally:
        remove()


WRITES: dict[str, Callable[[Repository], Any]] = {
    "store runs": lambda store: store.add_runs([make_run("a", make_trial("a", samples=make_samples()))]),
    "learn facts": lambda store: store.add_runs(
        [
            make_run(
                "a", make_trial("b"), started=NOW, testbed=Testbed("lab", accelerator="cpu", cpu_count=2, driver="7")
            )
        ]
    ),
    "begin an experiment": lambda store: store.begin_experiment(StoredExperiment(f"e{datetime.now(UTC)}", NOW, {})),
    "end an experiment": lambda store: store.end_experiment("e", NOW),
    "keep a comparison": lambda store: store.add_comparison(
        StoredComparison(NOW, "lab", SUITE, OLD, NEW, "pass"), {"at": str(datetime.now(UTC))}
    ),
    "keep a look": lambda store: store.put_look(StoredLook("look", "place", NOW, None, None, {})),
    "keep a configuration": lambda store: store.add_build_config(
        BuildConfig(version=OLD, arguments={}, env={}, packages={})
    ),
}
CARE: dict[str, Callable[[Repository], Any]] = {
    "pin": lambda store: store.pin(OLD),
    "unpin": lambda store: store.unpin(OLD),
    "prune a version": lambda store: store.prune(version=OLD),
    "prune by age": lambda store: store.prune_expired(datetime.now(UTC) + timedelta(days=9)),
}


def test_on_postgresql_a_reader_sees_everything_and_writes_nothing(login: Callable[[str], str]) -> None:
    with open_store(login("machine_h200"), create=False) as store:
        store.add_runs([make_run("seen", make_trial("seen"))])
    with open_store(login("ci"), create=False) as store:
        assert "seen" in {run.label for run in store.runs(with_samples=True)}
        assert store.inventory()
        assert store.log(limit=1)
        for what, act in {**WRITES, **CARE}.items():
            with pytest.raises(StoreError, match="permission denied"):
                pytest.fail(f"a reader could {what}: {act(store)}")


def test_on_postgresql_a_runner_stores_and_neither_pins_nor_prunes(login: Callable[[str], str]) -> None:
    with open_store(login("machine_h200"), create=False) as store:
        for act in WRITES.values():
            act(store)
        WRITES["keep a look"](store)
        WRITES["keep a configuration"](store)
        before = store.info()
        for what, act in CARE.items():
            with pytest.raises(StoreError, match="permission denied"):
                pytest.fail(f"a runner could {what}: {act(store)}")
        assert store.info() == before


def test_on_postgresql_a_curator_pins_and_prunes_and_the_log_knows_the_role(login: Callable[[str], str]) -> None:
    with open_store(login("ana"), create=False) as store:
        WRITES["store runs"](store)
        CARE["pin"](store)
        CARE["unpin"](store)
        assert CARE["prune a version"](store)
        WRITES["store runs"](store)
        CARE["prune by age"](store)
        assert store.runs() == []
        kinds = [(entry.kind, entry.role) for entry in store.log(limit=5)]
    assert kinds == [("prune", "ana"), ("import", "ana"), ("prune", "ana"), ("unpin", "ana"), ("pin", "ana")]


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM log",
        "UPDATE log SET actor = 'somebody else'",
        "INSERT INTO log (role, actor, host, tool_version, kind, details) VALUES ('gate_owner', '', '', '', '', '')",
        "INSERT INTO log (at, actor, host, tool_version, kind, details) VALUES ('2020', '', '', '', '', '')",
        "UPDATE regress_gate_revision SET version_num = '0001'",
        "UPDATE trial SET metrics = '{}'",
        "UPDATE comparison SET decision = 'pass'",
        "DROP TABLE run",
        "CREATE TABLE more (id integer)",
    ],
)
@pytest.mark.parametrize("role", ["machine_h200", "ana"])
def test_on_postgresql_nobody_rewrites_the_log_the_schema_or_what_was_measured(
    login: Callable[[str], str], role: str, statement: str
) -> None:
    with pytest.raises(Exception, match=r"permission denied|must be owner"):
        execute(make_url(login(role)), statement)
