"""Stores to test on: always a real SQLite file, and a real PostgreSQL database where REGRESS_GATE_TEST_POSTGRESQL
names one. That database is emptied before each test."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from regress_gate.store.repository import Repository, open_store
from regress_gate.store.schema import REVISION_TABLE, metadata

POSTGRESQL = os.environ.get("REGRESS_GATE_TEST_POSTGRESQL")


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'store.db'}"


def empty_postgresql(url: str) -> None:
    """Drop every table of a store."""
    engine = create_engine(url)
    with engine.begin() as connection:
        metadata.drop_all(connection)
        connection.execute(text(f"DROP TABLE IF EXISTS {REVISION_TABLE}"))
    engine.dispose()


@pytest.fixture(params=["sqlite", "postgresql"] if POSTGRESQL else ["sqlite"])
def url(request: pytest.FixtureRequest, sqlite_url: str) -> str:
    """Where there is no store yet."""
    if request.param == "sqlite" or POSTGRESQL is None:
        return sqlite_url
    empty_postgresql(POSTGRESQL)
    return POSTGRESQL


@pytest.fixture
def store(url: str) -> Iterator[Repository]:
    """An empty store."""
    with open_store(url, create=True) as repository:
        yield repository
