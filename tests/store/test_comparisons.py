"""Results of `compare` in the store: kept once, found again, deleted with their runs, and damage is reported."""

import zlib
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import create_engine, text

from regress_gate.errors import StoreError
from regress_gate.model.run import SuiteRef
from regress_gate.model.version import Version
from regress_gate.store.database import Database, migrate_store, upgrade_schema
from regress_gate.store.repository import Repository, open_store
from regress_gate.store.store_interface import StoredComparison, StoreLocation
from tests.factories.stored_runs import SUITE, make_run, make_trial

NOON = datetime(2026, 11, 23, 12, tzinfo=UTC)


def comparison(hours: float = 0, decision: str = "pass", **given: object) -> StoredComparison:
    given = {
        "created": NOON + timedelta(hours=hours),
        "testbed": "lab",
        "suite": SUITE,
        "baseline": Version.parse("0.19.0+cpu"),
        "candidate": Version.parse("0.20.0+cpu"),
        "decision": decision,
        **given,
    }
    return StoredComparison(**given)  # type: ignore[arg-type]


def result(decision: str = "pass", **more: object) -> dict[str, object]:
    return {"schema_version": "1", "created": "now", "decision": decision, "series": [{"change": 0.1}], **more}


def test_a_result_is_found_again_as_it_was(store: Repository) -> None:
    assert store.add_comparison(comparison(), result())
    [found] = store.comparisons()
    assert (found.created, found.testbed, found.suite, found.decision) == (NOON, "lab", SUITE, "pass")
    assert (found.baseline, found.candidate) == (Version.parse("0.19.0+cpu"), Version.parse("0.20.0+cpu"))
    assert found.id is not None
    assert store.comparison_document(found.id) == result()
    assert store.comparison_document(found.id + 1) is None
    assert store.info().comparisons == 1


def test_a_result_that_says_the_same_again_is_kept_once(store: Repository) -> None:
    store.add_comparison(comparison(), result())
    assert not store.add_comparison(comparison(1), result(created="later", tool_version="9", exit_code=0))
    assert len(store.comparisons()) == 1


def test_a_result_that_says_something_else_is_kept_too_and_so_is_what_it_was_before(store: Repository) -> None:
    for hours, decision in enumerate(("pass", "fail", "pass")):
        assert store.add_comparison(comparison(hours, decision), result(decision))
    assert [found.decision for found in store.comparisons()] == ["pass", "fail", "pass"]
    assert [found.created.hour for found in store.comparisons()] == [14, 13, 12]


def test_other_versions_testbeds_and_suites_are_other_comparisons(store: Repository) -> None:
    others = {
        "baseline": Version.parse("0.18.0"), "candidate": Version.parse("0.20.0"), "testbed": "attic",
        "suite": SuiteRef("other", "1"),
    }  # fmt: skip
    store.add_comparison(comparison(), result())
    for name, value in others.items():
        assert store.add_comparison(comparison(**{name: value}), result())
    assert len(store.comparisons(testbed="lab")) == 4
    assert len(store.comparisons(suite=SUITE)) == 4
    assert [found.suite.name for found in store.comparisons(suite=SuiteRef("other", "1"))] == ["other"]


def test_pruned_versions_take_their_comparisons_with_them(store: Repository) -> None:
    versions = ("0.19.0+cpu", "0.20.0+cpu", "0.21.0+cpu")
    store.add_runs(make_run("1", make_trial(name), version=name) for name in versions)
    for baseline, candidate in ((0, 1), (0, 2), (1, 2)):
        sides = {"baseline": Version.parse(versions[baseline]), "candidate": Version.parse(versions[candidate])}
        store.add_comparison(comparison(**sides), result())
    store.add_comparison(comparison(testbed="attic"), result())
    store.prune(version=Version.parse("0.21.0"))
    assert [str(found.candidate) for found in store.comparisons()] == ["0.20.0+cpu"] * 2
    assert store.info().comparisons == 2


def test_a_store_of_the_schema_before_is_migrated_with_nothing_lost(url: str) -> None:
    database = Database(StoreLocation.parse(url), create=True)
    upgrade_schema(database, "0006")
    with database.writing(lock=False) as connection:
        connection.exec_driver_sql("INSERT INTO testbed (name, facts) VALUES ('lab', '{}')")
    database.close()
    assert migrate_store(url)[0] == "0006"
    with open_store(url, create=False) as store:
        assert (store.info().testbeds, store.info().comparisons) == (1, 0)
        assert store.add_comparison(comparison(), result())


@pytest.mark.parametrize(
    "data", [b"", b"no zlib", zlib.compress(b"{}")[:-5], zlib.compress(b"[]"), zlib.compress(b"{")]
)
def test_a_damaged_result_is_reported_as_damage(store: Repository, url: str, data: bytes) -> None:
    store.add_comparison(comparison(), result())
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text("UPDATE comparison SET data = :data"), {"data": data})
    engine.dispose()
    [found] = store.comparisons()
    with pytest.raises(StoreError, match="damaged"):
        store.comparison_document(found.id or 0)


def test_a_result_that_would_fill_the_memory_is_refused(store: Repository, url: str) -> None:
    store.add_comparison(comparison(), result())
    packed = zlib.compressobj(9)
    bomb = b"".join([packed.compress(b'{"a":"'), *(packed.compress(b"a" * 2**20) for _ in range(80)), packed.flush()])
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text("UPDATE comparison SET data = :data"), {"data": bomb})
    engine.dispose()
    [found] = store.comparisons()
    with pytest.raises(StoreError, match="too large"):
        store.comparison_document(found.id or 0)
