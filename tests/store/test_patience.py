"""What is measured waits for a store whose server is away, and is stored once."""

import os
import sqlite3
import subprocess
import threading
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest

from regress_gate.errors import StoreAwayError, StoreError
from regress_gate.model.testbed import Testbed
from regress_gate.store import database
from regress_gate.store.database import Database, Patience
from regress_gate.store.repository import Repository, open_store
from regress_gate.store.store_interface import ChangeKind, StoredExperiment, StoreLocation
from tests.factories.stored_runs import SUITE, make_run, make_samples, make_trial
from tests.store.conftest import POSTGRESQL, empty_postgresql

RUN = make_run("run1", make_trial("a", samples=make_samples()))


@dataclass
class Server:
    """A store's server, with a SQLite file behind it: it fails as often as it is told, as one that is started again."""

    path: Path
    refusals: int = 0
    """Connections that are refused."""
    cuts: int = 0
    """Transactions that end at their third statement."""
    lost_answers: int = 0
    """Transactions that are committed, and nobody is told."""
    full: bool = False
    """Whether it refuses whatever is asked, and will not change its mind."""
    tries: int = 0
    said: list[str] = field(default_factory=list)

    def open(self, monkeypatch: pytest.MonkeyPatch, *, within: float = 5.0) -> Repository:
        connect = sqlite3.connect

        def to_server(*arguments: object, **options: object) -> sqlite3.Connection:
            self.tries += 1
            if self.refusals:
                self.refusals -= 1
                raise sqlite3.OperationalError("connection failed: Connection refused")
            connection = connect(*arguments, **options, factory=Link)  # type: ignore[call-overload]
            connection.server = self
            return connection  # type: ignore[no-any-return]

        monkeypatch.setattr(sqlite3, "connect", to_server)
        opened = Database(StoreLocation.parse(f"sqlite:///{self.path}"), create=False)
        # From here on a server for all that the store knows; SQLite has not this level, and always gives more.
        opened.location = StoreLocation("postgresql://db/gate", None)
        monkeypatch.setattr(opened._engine.dialect, "_assert_and_set_isolation_level", lambda *_: None)
        return Repository(opened, Patience(self.said.append, within))


class Link(sqlite3.Connection):
    """A connection to the server."""

    server: Server
    statements = 0

    def cursor(self, *arguments: object) -> sqlite3.Cursor:  # type: ignore[override]
        self.statements += 1
        if self.server.cuts and self.statements == 4:  # BEGIN is one, too
            self.server.cuts -= 1
            raise sqlite3.OperationalError("server closed the connection unexpectedly")
        if self.server.full:
            error = sqlite3.OperationalError("could not extend file: No space left on device")
            error.sqlstate = "53100"  # type: ignore[attr-defined]
            raise error
        return super().cursor(*arguments)  # type: ignore[arg-type]

    def commit(self) -> None:
        super().commit()
        if self.server.lost_answers:
            self.server.lost_answers -= 1
            raise sqlite3.OperationalError("server closed the connection unexpectedly")


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Server:
    monkeypatch.setattr(database, "_FIRST_REST", 0.01)
    monkeypatch.setattr(database, "_LONGEST_REST", 0.02)
    with open_store(f"sqlite:///{tmp_path / 'store.db'}", create=True) as store:
        store.begin_experiment(StoredExperiment("e1", datetime.now(UTC), {}))
    return Server(tmp_path / "store.db")


def stored(server: Server) -> list[tuple[str, int]]:
    with open_store(f"sqlite:///{server.path}", create=False) as store:
        return [(run.label, len(run.trials)) for run in store.runs()]


@pytest.mark.parametrize("trouble", [{"refusals": 4}, {"cuts": 3}, {"lost_answers": 1}, {"refusals": 2, "cuts": 1}])
def test_runs_are_stored_once_when_the_server_is_back(
    server: Server, trouble: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, times in trouble.items():
        setattr(server, name, times)
    with server.open(monkeypatch) as store:
        store.add_runs((run for run in [RUN]), log_as=ChangeKind.MEASURE)
    assert server.tries == 1 + sum(trouble.values())
    assert stored(server) == [("run1", 1)]
    assert [line.partition(" (")[0] for line in server.said] == [
        "postgresql://db/gate: the store failed",
        "the store answers again",
    ]
    assert server.said[0].endswith("; check that the server runs and lets you in; trying again for 5 s")
    with open_store(f"sqlite:///{server.path}", create=False) as store:
        assert [entry.kind for entry in store.log(limit=9)] == ["measure", "measure", "create"]


def test_all_that_a_measurement_does_between_blocks_waits(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    with server.open(monkeypatch) as store:
        for call in (
            lambda: store.check_testbed(Testbed("lab")),
            lambda: store.experiment_runs("e1", testbed=None, suite=SUITE),
            lambda: store.end_experiment("e1", datetime.now(UTC)),
            lambda: store.patiently(store.inventory),
        ):
            server.refusals = 2
            server.said.clear()
            call()
            assert (server.refusals, len(server.said)) == (0, 2)
        assert store.experiments(unfinished_only=True) == []
        server.refusals = 1
        with pytest.raises(StoreAwayError):
            store.inventory()


def test_a_server_that_stays_away_is_waited_for_a_bounded_time(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    server.refusals = 10**9
    begin = time.monotonic()
    with (
        server.open(monkeypatch, within=0.3) as store,
        pytest.raises(StoreError, match=r"Connection refused.*it was away for 0 s, and what came last is not stored"),
    ):
        store.add_runs([RUN])
    assert 0.2 < time.monotonic() - begin < 5
    assert 3 < server.tries < 40
    assert len(server.said) == 1, "told once, not each time"
    server.refusals = 0
    assert stored(server) == []


def test_what_the_server_refuses_is_told_at_once(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    server.full = True
    with server.open(monkeypatch) as store, pytest.raises(StoreError, match="No space left") as failure:
        store.add_runs([RUN])
    assert not isinstance(failure.value, StoreAwayError)
    assert (server.tries, server.said) == (1, [])


def test_a_store_that_was_opened_without_patience_waits_for_nobody(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    with server.open(monkeypatch) as store:
        server.refusals = 1
        with pytest.raises(StoreAwayError), Repository(store._database) as impatient:
            impatient.add_runs([RUN])
    assert (server.tries, server.said) == (1, [])


def test_a_server_that_never_was_there_is_told_at_once() -> None:
    begin = time.monotonic()
    with pytest.raises(StoreError, match="check that the server runs"):
        open_store("postgresql://gate@127.0.0.1:1/gate", create=True, patience=Patience(lambda _: None))
    assert time.monotonic() - begin < 10


OWN_CLUSTER = os.environ.get("PGVERSION")
"""Set by pg_virtualenv, whose server is the test's own."""


def control(what: str) -> None:
    """Start or stop the server; nothing, if it is that already."""
    subprocess.run(["pg_ctlcluster", str(OWN_CLUSTER), "regress", what], capture_output=True)


@pytest.mark.skipif(None in (POSTGRESQL, OWN_CLUSTER), reason="stops its server: takes that of pg_virtualenv alone")
def test_on_postgresql_a_server_that_is_started_again_costs_no_run(request: pytest.FixtureRequest) -> None:
    said: list[str] = []
    assert POSTGRESQL is not None
    empty_postgresql(POSTGRESQL)
    request.addfinalizer(lambda: control("start"))
    with open_store(POSTGRESQL, create=True, patience=Patience(said.append)) as store:
        for number in range(3):
            control("stop")
            begin = threading.Timer(2, control, ["start"])
            begin.start()
            store.add_runs([RUN, make_run(f"again{number}", make_trial(str(number)))])
            begin.join()
        control("restart")  # a connection that was open before is of no use, and nobody need wait
        store.add_runs([RUN])
        assert [run.label for run in store.runs(testbed="lab")][-4:] == ["again0", "again1", "again2", "run1"]
    assert len(said) == 6
    assert said[0].startswith("postgresql://")
    assert set(said[1::2]) == {"the store answers again"}
