"""Rows of the tables: merging results into stored runs, runs as rows, bulk inserts, and the rows that identify runs.

New facts fill in missing ones. Contradicting facts are an error that shows both values: one of the two results was then
made on another machine, or in another server process, than its name says. Not for deciding which results are new: that
is in `writer`. Raises InputError for values that cannot be stored.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import orjson
from sqlalchemy import Column, Connection, Dialect, Table, delete, distinct, func, insert, select, update

from regress_gate.errors import InputError
from regress_gate.measurement.same_measurement import first_key
from regress_gate.model.run import Run, SuiteRef, Trial, TrialSource
from regress_gate.model.testbed import MEMORY_TOLERANCE, REPORTED_FACTS, Testbed
from regress_gate.model.version import Version
from regress_gate.store import schema, stored_values


@dataclass(slots=True)
class RunDraft:
    """A run while an import adds to it."""

    label: str
    id: int | None = None
    """None until it is stored."""
    started: str | None = None
    conditions: dict[str, float] = field(default_factory=dict)
    libraries: dict[str, str] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)
    measured: dict[str, Any] = field(default_factory=dict)
    outputs: dict[str, Any] | None = None
    """Answers to add; None: nothing new."""
    taken: set[tuple[str, int]] = field(default_factory=set)
    """Scenario and ordinal of its trials."""
    starts: set[str] = field(default_factory=set)
    """Known start times of its stored trials."""
    added: list[tuple[int, Trial]] = field(default_factory=list)
    """New trials with their ordinals in this run."""
    facts_changed: bool = False

    def absorb(self, run: Run, trials: Iterable[Trial]) -> None:
        """Add a run's facts and its new trials. Raises InputError for a contradiction."""
        trials = list(trials)
        self._absorb_start(run, trials)
        if given := stored_values.conditions(run.conditions):
            self.conditions = self._filled(run, self.conditions, given)
        if run.libraries:
            self.libraries = self._filled(run, self.libraries, stored_values.texts("library", run.libraries))
        if run.metrics:
            self.metrics = self._filled(run, self.metrics, stored_values.numbers("metric", run.metrics))
        if measured := stored_values.run_details(run):
            self.measured = self._filled(run, self.measured, measured)
        if self.outputs is None:
            self.outputs = stored_values.outputs(run)
        for trial in trials:
            ordinal = trial.ordinal
            while (trial.scenario, ordinal) in self.taken:
                ordinal += 1
            self.taken.add((trial.scenario, ordinal))
            self.added.append((ordinal, trial))

    def _absorb_start(self, run: Run, new: Sequence[Trial]) -> None:
        """Set the run's start time; `new` are its new trials.

        A start that equals that of the first trial was derived from it, not stated. An earlier trial or a stated start
        replaces it without contradiction.
        """
        given = stored_values.time_text(run.started)
        if given is None or given == self.started:
            return
        before = self.starts | _start_times(trial for _, trial in self.added)
        is_stated = given != _first(_start_times(run.trials))
        was_stated = self.started is not None and self.started != _first(before)
        if is_stated and was_stated:
            self._filled(run, {"started": self.started}, {"started": given})  # which raises
        started = given if is_stated else self.started if was_stated else _first(before | _start_times(new))
        self.facts_changed |= started != self.started
        self.started = started

    def _filled(self, run: Run, stored: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
        where = run.trials[0].source.path if run.trials else None
        facts = merge_facts(f"run {run.label!r} of {run.version}", stored, given, where)
        self.facts_changed |= facts != stored
        return facts


def _start_times(trials: Iterable[Trial]) -> set[str]:
    return {start for trial in trials if (start := stored_values.time_text(trial.started)) is not None}


def _first(times: Iterable[str]) -> str | None:
    return min(times, key=lambda text: text.removesuffix("Z"), default=None)  # fractions of a second go before the Z


def merge_testbed_facts(testbed: Testbed, stored: Mapping[str, Any], where: str | None) -> dict[str, Any]:
    """The stored facts of a testbed with those of a new result: informative facts are replaced, others must not change.

    Raises InputError for a contradiction.
    """
    given = dict(testbed.facts)
    stored = {key: value for key, value in stored.items() if key not in REPORTED_FACTS or key not in given}
    size, known_size = given.get("memory_bytes"), stored.get("memory_bytes")
    if size and known_size and abs(size - known_size) <= MEMORY_TOLERANCE * max(size, known_size):
        given["memory_bytes"] = known_size  # the same machine: firmware reserves a little more or less
    todo = "if the machine was changed, give it another testbed name"
    return merge_facts(
        f"testbed {testbed.name!r}", stored, stored_values.json_values("testbed fact", given), where, todo
    )


def merge_facts(
    who: str, stored: Mapping[str, Any], given: Mapping[str, Any], where: str | None, todo: str | None = None
) -> dict[str, Any]:
    if not given and not stored:
        return {}
    for key, value in given.items():
        if key in stored and stored[key] != value:
            raise InputError(
                f"{who}: {key} is {stored[key]} in the store and {value} here",
                where=where,
                todo=todo or "if this is another server process, give it another run label",
            )
    merged = {**stored, **given}
    return {key: merged[key] for key in sorted(merged)}


RUN_COLUMNS = (
    "build_id", "testbed_id", "suite_id", "label", "started", "conditions", "libraries", "metrics", "measured",
)  # fmt: skip
TRIAL_COLUMNS = (
    "run_id", "scenario", "ordinal", "completed", "failed", "duration", "started", "conditions", "workload", "metrics",
    "counted", "numbers", "server_metrics",
)  # fmt: skip
SOURCE_COLUMNS = (
    "trial_id", "sha256", "position", "path", "format", "tool", "client_version", "command", "imported_at",
)  # fmt: skip


def run_facts(draft: RunDraft) -> tuple[str | None, ...]:
    """The columns of a run that an import may change: those from `started` on."""
    return (
        draft.started,
        json_text(draft.conditions),
        json_text(draft.libraries),
        json_text(draft.metrics),
        json_text(draft.measured) if draft.measured else None,
    )


def trial_row(run_id: int, ordinal: int, trial: Trial) -> tuple[Any, ...]:
    return (
        run_id,
        stored_values.name("scenario", trial.scenario),
        stored_values.count("ordinal", ordinal),
        stored_values.count("completed", trial.completed or 0),
        stored_values.count("failed", trial.failed),
        None if trial.duration is None else stored_values.number("duration", trial.duration),
        stored_values.time_text(trial.started),
        json_text(stored_values.conditions(trial.conditions)),
        json_text(stored_values.json_values("workload", trial.workload)),
        json_text(stored_values.numbers("metric", trial.metrics)),
        trial.completed is not None,
        first_key(trial),
        json_text(stored_values.numbers("server metric", trial.server_metrics)) if trial.server_metrics else None,
    )


def source_row(trial_id: int, source: TrialSource) -> tuple[Any, ...]:
    return (
        trial_id,
        source.sha256,
        stored_values.count("position", source.position),
        stored_values.storable_text(source.path),
        stored_values.name("format", source.format),
        stored_values.storable_text(source.tool),
        stored_values.storable_text(source.client_version),
        stored_values.storable_text(source.command),
        stored_values.time_text(source.imported_at),
    )


def json_text(value: Any) -> str:
    return orjson.dumps(value).decode() if value else "{}"


Row = tuple[Any, ...]


def insert_rows(connection: Connection, table: Table, columns: tuple[str, ...], rows: Sequence[Row]) -> None:
    """Insert at least one row, with values for the named columns in the table's order.

    SQLAlchemy compiles the statement and the driver's executemany runs it: SQLAlchemy's own insert looks at each
    value of each row, which takes longer than SQLite needs to store it. Only for columns whose values the drivers take
    unchanged: integers, floats, texts, bytes and booleans.
    """
    statement, is_positional = _insert_statement(table, columns, connection.dialect)
    if is_positional:
        connection.exec_driver_sql(statement, list(rows))
    else:
        connection.exec_driver_sql(statement, [dict(zip(columns, row, strict=True)) for row in rows])


def insert_with_ids(
    connection: Connection, id_: Column[int], columns: tuple[str, ...], rows: Sequence[Row]
) -> Sequence[int]:
    """`insert_rows`; returns the ids of the new rows in their order."""
    before = connection.execute(select(func.max(id_))).scalar() or 0
    insert_rows(connection, id_.table, columns, rows)
    # The transaction is the only writer, and a database numbers new rows upwards from the largest id.
    return connection.execute(select(id_).where(id_ > before).order_by(id_)).scalars().all()


@lru_cache(maxsize=16)
def _insert_statement(table: Table, columns: tuple[str, ...], dialect: Dialect) -> tuple[str, bool]:
    """The statement for the driver, and whether its parameters are positional."""
    compiled = insert(table).compile(dialect=dialect, column_keys=list(columns))
    order = compiled.positiontup
    if order is not None and tuple(order) != columns:
        raise ValueError(f"columns of {table.name} in another order than the table's")
    return str(compiled), order is not None


HoldingIds = tuple[int, int, int]
"""Of build, testbed and suite."""


def update_holdings(connection: Connection, changed: Iterable[HoldingIds]) -> None:
    """Count again what is held of these builds, testbeds and suites, in the transaction that changed their runs."""
    run, trial, source, holding = schema.run, schema.trial, schema.source, schema.holding
    when = func.coalesce(trial.c.started, source.c.imported_at, run.c.started)
    counted = (
        select(
            run.c.build_id, run.c.testbed_id, run.c.suite_id, func.count(distinct(run.c.id)), func.count(trial.c.id),
            func.count(distinct(trial.c.scenario)), func.min(when), func.max(when),
        )
        .select_from(run.outerjoin(trial, trial.c.run_id == run.c.id).outerjoin(source))
        .group_by(run.c.build_id, run.c.testbed_id, run.c.suite_id)
    )  # fmt: skip
    names = [column.name for column in holding.c]
    for ids in changed:
        mine, theirs = (
            [
                column == id_
                for column, id_ in zip((table.c.build_id, table.c.testbed_id, table.c.suite_id), ids, strict=True)
            ]
            for table in (holding, run)
        )
        connection.execute(delete(holding).where(*mine))
        connection.execute(insert(holding).from_select(names, counted.where(*theirs)))


@dataclass(slots=True, eq=False)
class ImportTarget:
    """The version, testbed and suite that runs of an import belong to."""

    version: Version
    testbed: str
    suite: SuiteRef
    was_empty: bool = True
    """Whether the store had no run of it before the import."""
    added_labels: set[str] = field(default_factory=set)
    """If it was empty: the labels of the runs that the import has stored."""
    ids: HoldingIds | None = None
    """None until a run is stored."""


class ImportTargets:
    """The targets of one import. Each row of a version, testbed or suite is looked up once."""

    def __init__(self, connection: Connection):
        self._connection = connection
        self._ids: dict[tuple[str, ...], int] = {}
        self._testbeds: dict[str, tuple[int, dict[str, Any]]] = {}
        self._last_testbed: Testbed | None = None
        self._targets: dict[tuple[Version, str, SuiteRef], ImportTarget] = {}
        self._last: tuple[Run, ImportTarget] | None = None

    def find(self, run: Run) -> ImportTarget:
        """The target of a run; the same object for all runs of one target."""
        if self._last is not None:
            last, target = self._last
            if last.version is run.version and last.testbed is run.testbed and last.suite is run.suite:
                return target
        key = (run.version, run.testbed.name, run.suite)
        if (import_target := self._targets.get(key)) is None:
            import_target = self._targets[key] = ImportTarget(*key)
            import_target.ids = self._stored(import_target)
            import_target.was_empty = import_target.ids is None or self._is_empty(import_target.ids)
        self._last = run, import_target
        return import_target

    def ids_of(self, target: ImportTarget) -> HoldingIds:
        """Ids of build, testbed and suite; missing rows are inserted. `store_testbed` must have been called before."""
        if target.ids is None:
            testbed = self._testbeds[target.testbed][0]
            target.ids = self.build_id(target.version), testbed, self._id(schema.suite, _suite_columns(target.suite))
        return target.ids

    def store_testbed(self, testbed: Testbed, trials: list[Trial]) -> None:
        """Insert the testbed, or update its facts. Raises InputError for a contradiction."""
        if testbed is self._last_testbed:
            return  # the same object has no new facts
        table = schema.testbed
        if testbed.name not in self._testbeds:
            name = stored_values.name("testbed", testbed.name)
            row = self._connection.execute(select(table.c.id, table.c.facts).where(table.c.name == name)).first()
            if row is None:
                self._testbeds[name] = self._insert(table, {"name": name, "facts": "{}"}), {}
            else:
                self._testbeds[name] = row.id, orjson.loads(row.facts)
        id_, stored = self._testbeds[testbed.name]
        facts = merge_testbed_facts(testbed, stored, trials[0].source.path if trials else None)
        if facts != stored:
            self._testbeds[testbed.name] = id_, facts
            self._connection.execute(update(table).where(table.c.id == id_).values(facts=json_text(facts)))
        self._last_testbed = testbed

    def build_id(self, version: Version) -> int:
        return self._id(schema.build, version_columns(version))

    def _stored(self, target: ImportTarget) -> HoldingIds | None:
        """The ids, if all three rows exist."""
        build = self._find(schema.build, version_columns(target.version))
        testbed = self._find(schema.testbed, {"name": stored_values.name("testbed", target.testbed)})
        suite = self._find(schema.suite, _suite_columns(target.suite))
        return None if build is None or testbed is None or suite is None else (build, testbed, suite)

    def _is_empty(self, ids: HoldingIds) -> bool:
        run = schema.run.c
        query = select(run.id).where(run.build_id == ids[0], run.testbed_id == ids[1], run.suite_id == ids[2]).limit(1)
        return self._connection.execute(query).first() is None

    def _id(self, table: Table, values: Mapping[str, str]) -> int:
        """The id of the row with these values; a missing row is inserted."""
        key = (table.name, *values.values())
        if key not in self._ids:
            stored_id = self._find(table, values)
            self._ids[key] = self._insert(table, values) if stored_id is None else stored_id
        return self._ids[key]

    def _find(self, table: Table, values: Mapping[str, str]) -> int | None:
        conditions = (table.c[name] == value for name, value in values.items())
        stored_id: int | None = self._connection.execute(select(table.c.id).where(*conditions)).scalar()
        return stored_id

    def _insert(self, table: Table, values: Mapping[str, str]) -> int:
        id_: int = self._connection.execute(insert(table).values(values).returning(table.c.id)).scalar_one()
        return id_


def version_columns(version: Version) -> dict[str, str]:
    return {
        "number": stored_values.name("version", version.number or ""),
        "commit_id": stored_values.name("commit", version.commit or ""),
        "variant": stored_values.name("variant", version.variant or ""),
    }


def version_from(number: str, commit: str, variant: str) -> Version:
    return Version(number or None, commit or None, variant or None)


def _suite_columns(suite: SuiteRef) -> dict[str, str]:
    return {"name": stored_values.name("suite", suite.name), "version": stored_values.name("suite", suite.version)}
