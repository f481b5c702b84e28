"""Adding runs, inside a transaction of the repository's: which results are new, to which run they belong, and the
bulk inserts. Queries come per batch of runs, never per run.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import orjson
from sqlalchemy import Column, ColumnElement, Connection, Table, delete, func, insert, select, update

from regress_gate.model.run import Run, RunKey, Source, SuiteRef, Trial
from regress_gate.model.testbed import Testbed
from regress_gate.model.version import Version
from regress_gate.store import bulk, merge, records, schema
from regress_gate.store.holdings import Added, Duplicate, Elsewhere

_BATCH = 200
"""Runs that are looked up together: few enough for any database's limit of parameters in a statement."""

_PARAMETERS = 500
"""Values that are looked up in one statement."""


def add_runs(connection: Connection, runs: Iterable[Run]) -> Added:
    """See Repository.add_runs."""
    importer = _Importer(connection)
    remaining = iter(runs)
    while batch := list(islice(remaining, _BATCH)):
        importer.add(batch)
    return Added(
        tuple(importer.new),
        tuple(importer.extended),
        importer.trials,
        tuple(importer.duplicates),
        tuple(importer.elsewhere()),
    )


def set_build_config(connection: Connection, version: Version, document: dict[str, Any]) -> None:
    table = schema.build_config
    build = _Importer(connection).build_id(version)
    connection.execute(delete(table).where(table.c.build_id == build))
    connection.execute(insert(table).values(build_id=build, data=_json(records.plain("build configuration", document))))


class _Importer:
    """What one import knows and has done so far."""

    def __init__(self, connection: Connection):
        self._connection = connection
        self._ids: dict[tuple[str, ...], int] = {}
        self._testbeds: dict[str, tuple[int, dict[str, Any]]] = {}
        self._last_testbed: Testbed | None = None
        self.new: dict[int, None] = {}
        self.extended: dict[int, None] = {}
        self.trials = 0
        self.duplicates: list[Duplicate] = []
        self._asked: dict[int, dict[RunKey, None]] = {}
        """By stored run: the runs in which this import wanted results of it."""

    def add(self, batch: list[Run]) -> None:
        known = self._known_sources(batch)
        drafts = self._stored_drafts(batch)
        for run in batch:
            fresh = []
            for trial in run.trials:
                identity = (trial.source.sha256, trial.source.position)
                if identity in known:
                    path = records.remark(trial.source.path) or ""
                    self.duplicates.append(Duplicate(path, trial.source.position, held := known[identity]))
                    if held is not None:
                        self._asked.setdefault(held, {})[run.key] = None
                else:
                    known[identity] = None
                    fresh.append(trial)
            if run.trials and not fresh:
                continue  # known results add nothing, neither facts nor an empty run
            self._remember_testbed(run.testbed, fresh)
            key = run.key
            if (draft := drafts.get(key)) is None:
                draft = drafts[key] = merge.Draft(key)
            draft.absorb(run, fresh)
        self._store(list(drafts.values()))

    def elsewhere(self) -> Iterator[Elsewhere]:
        """Stored runs with results that this import wanted in other runs."""
        run = schema.run
        query = select(
            run.c.id, *_build_columns(), schema.testbed.c.name, schema.suite.c.name, schema.suite.c.version, run.c.label
        ).select_from(joined_runs()).order_by(run.c.id)  # fmt: skip
        for some in _chunks(self._asked):
            for row in self._connection.execute(query.where(run.c.id.in_(some))):
                stored = RunKey(version_from(*row[1:4]), row[4], SuiteRef(*row[5:7]), row[7])
                yield from (Elsewhere(row[0], stored, asked) for asked in self._asked[row[0]] if asked != stored)

    def _known_sources(self, batch: list[Run]) -> dict[tuple[str, int], int | None]:
        source, trial = schema.source, schema.trial
        hashes = {records.name("source hash", trial.source.sha256) for run in batch for trial in run.trials}
        known: dict[tuple[str, int], int | None] = {}
        query = select(source.c.sha256, source.c.position, trial.c.run_id).join(trial, trial.c.id == source.c.trial_id)
        for some in _chunks(hashes):
            for sha256, position, run_id in self._connection.execute(query.where(source.c.sha256.in_(some))):
                known[sha256, position] = run_id
        return known

    def _stored_drafts(self, batch: list[Run]) -> dict[RunKey, merge.Draft]:
        """The runs of this batch that the store already has."""
        run, trial = schema.run, schema.trial
        keys = {item.key for item in batch}
        labels = {records.name("label", key.label) for key in keys}
        drafts: dict[int, merge.Draft] = {}
        query = select(
            run.c.id, *_build_columns(), schema.testbed.c.name, schema.suite.c.name, schema.suite.c.version,
            run.c.label, run.c.started, run.c.conditions, run.c.libraries, run.c.metrics, run.c.measured,
        ).select_from(joined_runs()).where(run.c.label.in_(labels))  # fmt: skip
        for id_, number, commit, variant, testbed, suite, version, label, started, *facts in self._connection.execute(
            query
        ):
            key = RunKey(version_from(number, commit, variant), testbed, SuiteRef(suite, version), label)
            if key in keys:
                drafts[id_] = merge.Draft(key, id_, started, *(orjson.loads(text or "{}") for text in facts))
        places = select(trial.c.run_id, trial.c.scenario, trial.c.ordinal)
        for some in _chunks(drafts):
            for run_id, scenario, ordinal in self._connection.execute(places.where(trial.c.run_id.in_(some))):
                drafts[run_id].taken.add((scenario, ordinal))
        return {draft.key: draft for draft in drafts.values()}

    def _remember_testbed(self, testbed: Testbed, trials: list[Trial]) -> None:
        if testbed is self._last_testbed:
            return  # the same object adds no facts to its own
        table = schema.testbed
        if testbed.name not in self._testbeds:
            name = records.name("testbed", testbed.name)
            row = self._connection.execute(select(table.c.id, table.c.facts).where(table.c.name == name)).first()
            if row is None:
                id_ = self._insert(table, {"name": name, "facts": "{}"})
                self._testbeds[name] = id_, {}
            else:
                self._testbeds[name] = row.id, orjson.loads(row.facts)
        id_, stored = self._testbeds[testbed.name]
        facts = merge.testbed_facts(testbed, stored, trials[0].source.path if trials else None)
        if facts != stored:
            self._testbeds[testbed.name] = id_, facts
            self._connection.execute(update(table).where(table.c.id == id_).values(facts=_json(facts)))
        self._last_testbed = testbed

    def _store(self, drafts: list[merge.Draft]) -> None:
        run = schema.run
        self._insert_runs([draft for draft in drafts if draft.id is None])
        for draft in drafts:
            if draft.id is None or draft.id in self.new or not (draft.facts_changed or draft.added or draft.outputs):
                continue
            self.extended[draft.id] = None
            if draft.facts_changed:
                self._connection.execute(update(run).where(run.c.id == draft.id).values(_facts(draft)))
        self._insert_trials([draft for draft in drafts if draft.added])
        self._insert_outputs([draft for draft in drafts if draft.outputs])

    def _insert_runs(self, drafts: list[merge.Draft]) -> None:
        run = schema.run
        if not drafts:
            return
        by_identity: dict[tuple[Any, ...], merge.Draft] = {}
        rows = []
        for draft in drafts:
            key = draft.key
            build = self.build_id(key.version)
            suite = self._id(
                schema.suite,
                {"name": records.name("suite", key.suite.name), "version": records.name("suite", key.suite.version)},
            )
            testbed = self._testbeds[key.testbed][0]
            by_identity[build, testbed, suite, key.label] = draft
            rows.append(
                {"build_id": build, "testbed_id": testbed, "suite_id": suite, "label": key.label, **_facts(draft)}
            )
        for id_, *identity in self._insert_many(
            rows, run.c.id, run.c.build_id, run.c.testbed_id, run.c.suite_id, run.c.label
        ):
            by_identity[tuple(identity)].id = id_
            self.new[id_] = None

    def _insert_trials(self, drafts: list[merge.Draft]) -> None:
        table = schema.trial
        trials = {(draft.id, trial.scenario, ordinal): trial for draft in drafts for ordinal, trial in draft.added}
        if not trials:
            return
        rows = [
            _trial_row(run_id, ordinal, trial) for (run_id, _, ordinal), trial in trials.items() if run_id is not None
        ]
        inserted = self._insert_many(rows, table.c.id, table.c.run_id, table.c.scenario, table.c.ordinal)
        ids = {(run_id, scenario, ordinal): id_ for id_, run_id, scenario, ordinal in inserted}
        sources = [_source_row(ids[place], trial.source) for place, trial in trials.items()]
        bulk.insert_rows(self._connection, schema.source, sources)
        sampled = [(ids[place], trial.samples) for place, trial in trials.items() if trial.samples is not None]
        if sampled:
            from regress_gate.store import codec  # needs numpy, which is not for free

            rows = [{"trial_id": id_, "data": codec.encode(samples)} for id_, samples in sampled]
            self._connection.execute(insert(schema.samples), rows)
        self.trials += len(trials)

    def _insert_many(self, rows: list[dict[str, Any]], id_: Column[int], *identity: Column[Any]) -> Iterable[Any]:
        """Insert the rows; their ids, each with the columns that tell which row it is, in no certain order."""
        before = self._connection.execute(select(func.max(id_))).scalar() or 0
        bulk.insert_rows(self._connection, id_.table, rows)
        # Nobody else writes meanwhile, and new ids are larger than all that there are.
        return self._connection.execute(select(id_, *identity).where(id_ > before))

    def _insert_outputs(self, drafts: list[merge.Draft]) -> None:
        """The first answers of a run are kept: a server's answers are asked for once."""
        table = schema.outputs
        there = {
            id_
            for some in _chunks(draft.id for draft in drafts)
            for id_ in self._connection.execute(select(table.c.run_id).where(table.c.run_id.in_(some))).scalars()
        }
        rows = [{"run_id": draft.id, "data": _json(draft.outputs)} for draft in drafts if draft.id not in there]
        if rows:
            self._connection.execute(insert(table), rows)

    def build_id(self, version: Version) -> int:
        return self._id(schema.build, version_columns(version))

    def _id(self, table: Table, values: dict[str, str]) -> int:
        """The id of the row that holds these values, which is made where it is missing."""
        key = (table.name, *values.values())
        if key not in self._ids:
            found = self._connection.execute(
                select(table.c.id).where(*(table.c[name] == value for name, value in values.items()))
            ).scalar()
            self._ids[key] = self._insert(table, values) if found is None else found
        return self._ids[key]

    def _insert(self, table: Table, values: dict[str, str]) -> int:
        id_: int = self._connection.execute(insert(table).values(values).returning(table.c.id)).scalar_one()
        return id_


def joined_runs() -> Any:
    """Runs beside what identifies them."""
    return schema.run.join(schema.build).join(schema.testbed).join(schema.suite)


def version_columns(version: Version) -> dict[str, str]:
    return {
        "number": records.name("version", version.number or ""),
        "commit_id": records.name("commit", version.commit or ""),
        "variant": records.name("variant", version.variant or ""),
    }


def version_from(number: str, commit: str, variant: str) -> Version:
    return Version(number or None, commit or None, variant or None)


def _build_columns() -> list[Column[Any] | ColumnElement[Any]]:
    build = schema.build
    return [build.c.number, build.c.commit_id, build.c.variant]


def _facts(draft: merge.Draft) -> dict[str, str | None]:
    return {
        "started": draft.started,
        "conditions": _json(draft.conditions),
        "libraries": _json(draft.libraries),
        "metrics": _json(draft.metrics),
        "measured": _json(draft.measured) if draft.measured else None,
    }


def _trial_row(run_id: int, ordinal: int, trial: Trial) -> dict[str, Any]:
    return {
        "run_id": run_id,
        "scenario": records.name("scenario", trial.scenario),
        "ordinal": records.count("ordinal", ordinal),
        "completed": records.count("completed", trial.completed or 0),
        "counted": trial.completed is not None,
        "failed": records.count("failed", trial.failed),
        "duration": None if trial.duration is None else records.number("duration", trial.duration),
        "started": records.time_text(trial.started),
        "conditions": _json(records.conditions(trial.conditions)),
        "workload": _json(records.plain("workload", trial.workload)),
        "metrics": _json(records.numbers("metric", trial.metrics)),
    }


def _source_row(trial_id: int, source: Source) -> dict[str, Any]:
    return {
        "trial_id": trial_id,
        "sha256": source.sha256,
        "position": records.count("position", source.position),
        "path": records.remark(source.path),
        "format": records.name("format", source.format),
        "tool": records.remark(source.tool),
        "client_version": records.remark(source.client_version),
        "command": records.remark(source.command),
        "imported_at": records.time_text(source.imported_at),
    }


def _json(value: Any) -> str:
    return orjson.dumps(value).decode()


def _chunks(values: Iterable[Any]) -> Iterator[list[Any]]:
    remaining = iter(values)
    while chunk := list(islice(remaining, _PARAMETERS)):
        yield chunk
