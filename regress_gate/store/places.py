"""Where the runs of an import belong: the rows of versions, testbeds and suites, each looked up once."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson
from sqlalchemy import Connection, Table, insert, select, update

from regress_gate.model.run import Run, SuiteRef, Trial
from regress_gate.model.testbed import Testbed
from regress_gate.model.version import Version
from regress_gate.store import merge, records, rows, schema


@dataclass(slots=True, eq=False)
class Place:
    """A version on a testbed with a suite, in one import."""

    version: Version
    testbed: str
    suite: SuiteRef
    was_empty: bool = True
    """Whether no run was stored there before the import."""
    added: set[str] = field(default_factory=set)
    """Labels of the runs that the import stored there, where it was empty."""
    ids: tuple[int, int, int] | None = None
    """Of build, testbed and suite; None until a run is stored there."""


class Places:
    def __init__(self, connection: Connection):
        self._connection = connection
        self._ids: dict[tuple[str, ...], int] = {}
        self._testbeds: dict[str, tuple[int, dict[str, Any]]] = {}
        self._last_testbed: Testbed | None = None
        self._places: dict[tuple[Version, str, SuiteRef], Place] = {}
        self._last: tuple[Run, Place] | None = None

    def of(self, run: Run) -> Place:
        """Where a run belongs; the same object for all runs that belong there."""
        if self._last is not None:
            last, place = self._last
            if last.version is run.version and last.testbed is run.testbed and last.suite is run.suite:
                return place
        key = (run.version, run.testbed.name, run.suite)
        if (found := self._places.get(key)) is None:
            found = self._places[key] = Place(*key)
            found.ids = self._stored(found)
            found.was_empty = found.ids is None or self._is_empty(found.ids)
        self._last = run, found
        return found

    def ids_of(self, place: Place) -> tuple[int, int, int]:
        """Of build, testbed and suite, which are made where they are missing; the testbed has been told of before."""
        if place.ids is None:
            testbed = self._testbeds[place.testbed][0]
            place.ids = self.build_id(place.version), testbed, self._id(schema.suite, _suite_columns(place.suite))
        return place.ids

    def remember_testbed(self, testbed: Testbed, trials: list[Trial]) -> None:
        """Store the testbed and what is new of it. Raises InputError for a contradiction."""
        if testbed is self._last_testbed:
            return  # the same object adds no facts to its own
        table = schema.testbed
        if testbed.name not in self._testbeds:
            name = records.name("testbed", testbed.name)
            row = self._connection.execute(select(table.c.id, table.c.facts).where(table.c.name == name)).first()
            if row is None:
                self._testbeds[name] = self._insert(table, {"name": name, "facts": "{}"}), {}
            else:
                self._testbeds[name] = row.id, orjson.loads(row.facts)
        id_, stored = self._testbeds[testbed.name]
        facts = merge.testbed_facts(testbed, stored, trials[0].source.path if trials else None)
        if facts != stored:
            self._testbeds[testbed.name] = id_, facts
            self._connection.execute(update(table).where(table.c.id == id_).values(facts=rows.json_text(facts)))
        self._last_testbed = testbed

    def build_id(self, version: Version) -> int:
        return self._id(schema.build, version_columns(version))

    def _stored(self, place: Place) -> tuple[int, int, int] | None:
        """The ids of a place of which all three parts are stored."""
        build = self._find(schema.build, version_columns(place.version))
        testbed = self._find(schema.testbed, {"name": records.name("testbed", place.testbed)})
        suite = self._find(schema.suite, _suite_columns(place.suite))
        return None if build is None or testbed is None or suite is None else (build, testbed, suite)

    def _is_empty(self, ids: tuple[int, int, int]) -> bool:
        run = schema.run.c
        found = select(run.id).where(run.build_id == ids[0], run.testbed_id == ids[1], run.suite_id == ids[2]).limit(1)
        return self._connection.execute(found).first() is None

    def _id(self, table: Table, values: Mapping[str, str]) -> int:
        """The id of the row that holds these values, which is made where it is missing."""
        key = (table.name, *values.values())
        if key not in self._ids:
            found = self._find(table, values)
            self._ids[key] = self._insert(table, values) if found is None else found
        return self._ids[key]

    def _find(self, table: Table, values: Mapping[str, str]) -> int | None:
        conditions = (table.c[name] == value for name, value in values.items())
        found: int | None = self._connection.execute(select(table.c.id).where(*conditions)).scalar()
        return found

    def _insert(self, table: Table, values: Mapping[str, str]) -> int:
        id_: int = self._connection.execute(insert(table).values(values).returning(table.c.id)).scalar_one()
        return id_


def version_columns(version: Version) -> dict[str, str]:
    return {
        "number": records.name("version", version.number or ""),
        "commit_id": records.name("commit", version.commit or ""),
        "variant": records.name("variant", version.variant or ""),
    }


def version_from(number: str, commit: str, variant: str) -> Version:
    return Version(number or None, commit or None, variant or None)


def _suite_columns(suite: SuiteRef) -> dict[str, str]:
    return {"name": records.name("suite", suite.name), "version": records.name("suite", suite.version)}
