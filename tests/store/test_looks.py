"""Looks of the watch in the store."""

from datetime import UTC, datetime, timedelta

import pytest

from regress_gate.errors import RegressGateError
from regress_gate.model.version import Version
from regress_gate.store.repository import Repository
from regress_gate.store.store_interface import StoredLook

MONDAY = datetime(2026, 11, 16, 4, 17, tzinfo=UTC)


def look(name: str = "one", place: str = "lab small@1", hours: float = 0, **data: object) -> StoredLook:
    begun = MONDAY + timedelta(hours=hours)
    return StoredLook(name, place, begun, None, Version.parse("0.23.1rc1.dev9+gabcdef123"), data)


def test_a_look_comes_back_as_it_was(store: Repository) -> None:
    store.put_look(given := look(decision="pass", followed=[{"key": "1"}]))
    assert store.looks() == [given]


def test_a_look_replaces_the_one_of_its_name(store: Repository) -> None:
    store.put_look(look(decision=None))
    store.put_look(
        ended := StoredLook("one", "lab small@1", MONDAY, MONDAY + timedelta(hours=1), None, {"told": False})
    )
    assert store.looks() == [ended]


def test_looks_are_in_the_order_of_time_and_apart_by_place(store: Repository) -> None:
    for name, place, hours in (("c", "lab small@1", 2), ("a", "lab small@1", 1), ("b", "other small@1", 0)):
        store.put_look(look(name, place, hours))
    assert [one.name for one in store.looks()] == ["b", "a", "c"]
    assert [one.name for one in store.looks("lab small@1")] == ["a", "c"]


def test_damaged_content_is_said(store: Repository) -> None:
    store.put_look(look())
    with store._database.writing() as connection:
        connection.exec_driver_sql("UPDATE look SET data = '[]'")
    with pytest.raises(RegressGateError, match="damaged"):
        store.looks()
