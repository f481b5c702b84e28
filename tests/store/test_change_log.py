"""The log of a store: who changed what it holds, in the transaction that changed it."""

import getpass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import create_engine, make_url, text

from regress_gate import __version__
from regress_gate.errors import InputError, StoreError
from regress_gate.model.testbed import Testbed
from regress_gate.model.version import Version
from regress_gate.store import change_log
from regress_gate.store.database import Database, migrate_store, upgrade_schema
from regress_gate.store.repository import Repository, open_store
from regress_gate.store.schema import REVISIONS
from regress_gate.store.store_interface import ChangeKind, StoredComparison, StoredExperiment, StoreLocation
from tests.factories.stored_runs import SUITE, make_run, make_trial

OLD, NEW = Version.parse("0.19.0+cpu"), Version.parse("0.20.0+cpu")
NOW = datetime.now(UTC)


@pytest.fixture(autouse=True)
def ana(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGRESS_GATE_ACTOR", "ana")


def changes(store: Repository) -> list[tuple[str, dict[str, Any]]]:
    """The oldest first, without that the store was made."""
    entries = [(entry.kind, dict(entry.details)) for entry in reversed(store.log(limit=100))]
    assert entries[0] == ("create", {"to": REVISIONS[-1]} | ({"from": None} if "from" in entries[0][1] else {}))
    return entries[1:]


def place(version: str) -> dict[str, str]:
    return {"version": version, "testbed": "lab", "suite": "imported@1"}


def test_each_change_is_logged_with_what_it_changed(store: Repository) -> None:
    store.add_runs([make_run("a", make_trial("1")), make_run("b", make_trial("2"), make_trial("3"))])
    store.add_runs([make_run("b", make_trial("4", "c2"), version="0.19.0+cpu")])
    store.pin(NEW)
    store.pin(NEW)
    store.unpin(NEW)
    store.add_comparison(StoredComparison(NOW, "lab", SUITE, OLD, NEW, "pass"), {"decision": "pass"})
    store.prune(version=OLD)
    assert changes(store) == [
        ("import", {"runs": 2, "extended": 0, "trials": 3, "run_ids": "1-2", "places": [place("0.19.0+cpu")]}),
        ("import", {"runs": 0, "extended": 1, "trials": 1, "run_ids": "2", "places": [place("0.19.0+cpu")]}),
        ("pin", {"version": "0.20.0+cpu", "again": False}),
        ("pin", {"version": "0.20.0+cpu", "again": True}),
        ("unpin", {"version": "0.20.0+cpu"}),
        ("prune", {"runs": 2, "comparisons": 1, "places": [place("0.19.0+cpu")]}),
    ]


def test_who_it_was_stands_beside_the_machine_the_program_and_the_role(store: Repository, url: str) -> None:
    store.pin(OLD)
    [entry] = store.log(limit=1)
    assert (entry.actor, entry.tool_version, entry.kind) == ("ana", __version__, "pin")
    assert entry.host
    assert entry.role == ("" if url.startswith("sqlite") else make_url(url).username)
    assert abs(entry.at - datetime.now(UTC)) < timedelta(hours=1)


def test_an_experiment_is_logged_when_it_begins_and_not_with_every_run(store: Repository) -> None:
    places = [change_log.place(version, "lab", SUITE) for version in ("0.19.0", "0.20.0")]
    store.begin_experiment(StoredExperiment("e1", NOW, {"blocks": 5}), places)
    store.add_runs([make_run("e1/1", make_trial("1"))], log_as=None)
    store.add_runs([make_run("found", make_trial("2"))], log_as=ChangeKind.MEASURE)
    assert changes(store) == [
        ("measure", {"experiment": "e1", "places": [place("0.19.0"), place("0.20.0")]}),
        ("measure", {"runs": 1, "extended": 0, "trials": 1, "run_ids": "2", "places": [place("0.19.0+cpu")]}),
    ]


def test_what_changes_nothing_is_not_logged(store: Repository) -> None:
    store.add_runs([make_run("a", make_trial("1"))])
    store.add_runs([make_run("a", make_trial("1"))])
    store.unpin(OLD)
    store.prune(version=NEW)
    store.prune(version=OLD, dry_run=True)
    assert [kind for kind, _ in changes(store)] == ["import"]


def test_a_change_that_fails_leaves_no_entry(store: Repository) -> None:
    store.add_runs([make_run("a", make_trial("1"), testbed=Testbed("lab", accelerator="H100"))])
    other = Testbed("lab", accelerator="MI300X")
    with pytest.raises(InputError):
        store.add_runs([make_run("b", make_trial("2")), make_run("c", make_trial("3"), testbed=other)])
    assert [kind for kind, _ in changes(store)] == ["import"]


def test_what_cannot_be_logged_is_not_changed(store: Repository, url: str) -> None:
    store.add_runs([make_run("a", make_trial("1"))])
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text("ALTER TABLE log RENAME TO gone"))
    try:
        with pytest.raises(StoreError):
            store.pin(OLD)
        with pytest.raises(StoreError):
            store.prune(version=OLD)
        with pytest.raises(StoreError):
            store.add_runs([make_run("b", make_trial("2"))])
        assert store.pinned() == []
        assert [run.label for run in store.runs()] == ["a"]
    finally:
        with engine.begin() as connection:
            connection.execute(text("ALTER TABLE gone RENAME TO log"))
        engine.dispose()


def test_the_newest_entries_come_first_and_as_many_as_are_wanted(store: Repository) -> None:
    for number in range(5):
        store.pin(Version.parse(f"0.{number}.0"))
    assert [entry.details["version"] for entry in store.log(limit=2)] == ["0.4.0", "0.3.0"]
    assert store.log(since=datetime.now(UTC) + timedelta(days=1), limit=9) == []
    newest = store.log(limit=1)[0].at
    second = newest.replace(microsecond=0)
    assert store.log(since=second, limit=1)[0].at == newest


@pytest.mark.parametrize(
    ("variables", "actor"),
    [
        ({"REGRESS_GATE_ACTOR": "team\x1b[31m a\nb\x01"}, "team a b\N{REPLACEMENT CHARACTER}"),
        ({"REGRESS_GATE_ACTOR": "x" * 5000}, "x" * 80),
        ({"REGRESS_GATE_ACTOR": "", "GITHUB_ACTOR": "octocat"}, "octocat"),
        ({"REGRESS_GATE_ACTOR": "https://me:hunter2@host"}, "https://***@host"),
        ({}, "somebody"),
    ],
)
def test_the_name_is_given_or_that_of_the_user_and_harmless(
    store: Repository, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], actor: str
) -> None:
    for variable in ("REGRESS_GATE_ACTOR", "GITHUB_ACTOR"):
        monkeypatch.delenv(variable, raising=False)
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.setattr(getpass, "getuser", lambda: "somebody")
    store.pin(OLD)
    assert store.log(limit=1)[0].actor == actor


def test_a_user_without_a_name_is_a_number(store: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> str:
        raise OSError("no such user")

    for variable in ("REGRESS_GATE_ACTOR", "GITHUB_ACTOR"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(getpass, "getuser", fail)
    store.pin(OLD)
    assert store.log(limit=1)[0].actor.startswith("user ")


def test_a_migration_is_logged_once_and_an_older_store_begins_its_log_with_it(url: str) -> None:
    database = Database(StoreLocation.parse(url), create=True)
    upgrade_schema(database, REVISIONS[-2])
    database.close()
    for _ in range(2):
        migrate_store(url)
    with open_store(url, create=False) as store:
        [entry] = store.log(limit=9)
    assert (entry.kind, entry.details) == ("migrate", {"from": REVISIONS[-2], "to": REVISIONS[-1]})


def test_a_damaged_entry_is_reported(store: Repository, url: str) -> None:
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text("UPDATE log SET details = '[1]'"))
    engine.dispose()
    with pytest.raises(StoreError, match="damaged"):
        store.log(limit=1)


def waiver(finding: str, state: str = "used", **given: object) -> dict[str, object]:
    told = {"until": "2026-12-31", "max_change": 0.2, "owner": "ops", "reason": "known"}
    return {"finding": finding, **told, "state": state, "detail": "covers it", **given}


def test_a_waiver_that_covered_something_is_logged_once_until_others_do(store: Repository) -> None:
    def compare(change: float, *waivers: dict[str, object], version: Version = NEW) -> bool:
        document = {"decision": "pass", "series": [{"change": change}], "waivers": list(waivers)}
        now = NOW + timedelta(seconds=change)
        return store.add_comparison(StoredComparison(now, "lab", SUITE, OLD, version, "pass"), document)

    assert compare(1, waiver("tpot_*", "unused"), waiver("ttft_*", "expired"))
    assert compare(2, waiver("tpot_*"), waiver("ttft_*", "expired"))
    assert not compare(2, waiver("tpot_*"), waiver("ttft_*", "expired"))
    assert compare(3, waiver("tpot_*", detail="covers another size"))
    assert compare(4, waiver("tpot_*", until="2027-06-30"))
    assert compare(5, waiver("tpot_*", "unused", until="2027-06-30"))
    assert compare(6, waiver("tpot_*", until="2027-06-30"))
    assert compare(7, waiver("tpot_*", until="2027-06-30"), version=Version.parse("0.21.0"))
    entries = changes(store)
    assert [(kind, details["waivers"][0]["until"], details["places"]) for kind, details in entries] == [
        ("waive", "2026-12-31", [place("0.20.0+cpu")]),
        ("waive", "2027-06-30", [place("0.20.0+cpu")]),
        ("waive", "2027-06-30", [place("0.20.0+cpu")]),
        ("waive", "2027-06-30", [place("0.21.0")]),
    ]
    assert entries[0][1] == {
        "baseline": "0.19.0+cpu",
        "decision": "pass",
        "waivers": [{"finding": "tpot_*", "until": "2026-12-31", "max_change": 0.2, "owner": "ops", "reason": "known"}],
        "places": [place("0.20.0+cpu")],
    }


def test_a_comparison_whose_waivers_cannot_be_logged_is_not_stored(store: Repository, url: str) -> None:
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text("ALTER TABLE log RENAME TO gone"))
    try:
        one = StoredComparison(NOW, "lab", SUITE, OLD, NEW, "pass")
        with pytest.raises(StoreError):
            store.add_comparison(one, {"decision": "pass", "waivers": [waiver("tpot_*")]})
        assert store.comparisons() == []
    finally:
        with engine.begin() as connection:
            connection.execute(text("ALTER TABLE gone RENAME TO log"))
        engine.dispose()
