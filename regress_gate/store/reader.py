"""Reading runs, inside a transaction of the repository: a fixed number of queries, however many runs are asked for."""

from collections.abc import Collection, Container, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from sys import intern
from typing import Any

import orjson
from sqlalchemy import ColumnElement, Connection, Table, case, or_, select

from regress_gate.model.metric import PROMISE_KEY
from regress_gate.model.run import (
    COUNTER_TEST_MARK,
    BlockPosition,
    Conditions,
    Outputs,
    Run,
    SuiteRef,
    Trial,
    TrialSource,
)
from regress_gate.model.testbed import Testbed
from regress_gate.model.version import Version
from regress_gate.store import schema, stored_values
from regress_gate.store.rows import version_columns, version_from
from regress_gate.store.store_interface import (
    SEARCHED_RUNS,
    Holding,
    HoldingOrigin,
    choose_recent,
    holding_order,
    run_order,
)
from regress_gate.text import natural_key

_IN_PARTS = {"yield_per": 1000}
"""Rows that are fetched at a time: a result may be larger than memory."""
_CLOCK_ERROR = timedelta(days=1)
_NO_TIME = datetime.min.replace(tzinfo=UTC)


def load_runs(
    connection: Connection,
    *,
    version: Version | None = None,
    testbed: str | None = None,
    suite: SuiteRef | None = None,
    run_ids: Collection[int] | None = None,
    with_samples: bool = False,
    metrics: Container[str] | None = None,
) -> list[Run]:
    """The matching runs in `run_order`, with trials by scenario and ordinal. Raises ValueError for damaged content.

    With `metrics`, trials have only these; see `Repository.recent_runs` for what else is left out.
    """
    where = _conditions(connection, version, testbed, suite, run_ids)
    if where is None:
        return []
    if run_ids is not None:
        where.append(schema.run.c.id.in_(list(run_ids)))
    return _load(connection, where, with_samples=with_samples, metrics=metrics)


def runs_by_version(
    connection: Connection, *, testbed: str, suite: SuiteRef, metrics: Container[str]
) -> Iterator[list[Run]]:
    """The runs of one version after the other, in `run_order`, as `load_runs` reads them: a store may hold more than
    fits into memory."""
    where = _conditions(connection, None, testbed, suite)
    if where is None:
        return
    build, holding = schema.build, schema.holding
    query = select(build.c.id, build.c.number, build.c.commit_id, build.c.variant).select_from(holding.join(build))
    query = query.where(holding.c.testbed_id == _id_of(connection, schema.testbed, name=testbed))
    query = query.where(holding.c.suite_id == _id_of(connection, schema.suite, name=suite.name, version=suite.version))
    builds = [(natural_key(str(version_from(*parts))), id_) for id_, *parts in connection.execute(query)]
    for _, id_ in sorted(builds):
        yield _load(connection, [*where, schema.run.c.build_id == id_], metrics=metrics)


def recent_run_ids(
    connection: Connection, *, testbed: str, suite: SuiteRef, paired: bool, without: Collection[int]
) -> list[int]:
    """The runs that `choose_recent` chooses, found by the index of their starts."""
    where = _conditions(connection, None, testbed, suite)
    if where is None:
        return []
    run = schema.run
    query = select(run.c.id, run.c.started, run.c.measured).where(*where)
    dated = query.where(run.c.started.is_not(None)).order_by(run.c.started.desc(), run.c.id.desc())
    undated = query.where(run.c.started.is_(None)).order_by(run.c.id.desc())
    heads = (
        (id_, place_from(measured), stored_values.time_from(started))
        for part in (dated, undated)
        for id_, started, measured in connection.execute(part.limit(SEARCHED_RUNS))
        if id_ not in without
    )
    return choose_recent(heads, paired=paired)


def experiment_run_ids(connection: Connection, *, experiment: str, testbed: str | None, suite: SuiteRef) -> list[int]:
    """The runs of an experiment, looked for among those that started after it."""
    where = _conditions(connection, None, testbed, suite)
    if where is None:
        return []
    run, table = schema.run, schema.experiment
    begun = stored_values.time_from(connection.execute(select(table.c.begun).where(table.c.id == experiment)).scalar())
    if begun is not None:
        since = stored_values.time_text(begun - _CLOCK_ERROR)
        where.append(or_(run.c.started >= since, run.c.started.is_(None)))
    heads = connection.execute(select(run.c.id, run.c.measured).where(*where, run.c.measured.is_not(None)))
    return [id_ for id_, measured in heads if (place := place_from(measured)) and place.experiment == experiment]


def place_from(measured: str | None) -> BlockPosition | None:
    if measured is None or '"place"' not in measured:
        return None
    place: BlockPosition | None = stored_values.run_details_from(orjson.loads(measured)).get("place")
    return place


def _load(
    connection: Connection,
    where: list[ColumnElement[bool]],
    *,
    with_samples: bool = False,
    metrics: Container[str] | None = None,
) -> list[Run]:
    """`where` is about the columns of runs alone, so that their indexes are used."""
    heads = _heads(connection, where)
    trials: dict[int, list[Trial]] = {id_: [] for id_ in heads}
    blobs = dict(_blobs(connection, where)) if with_samples and heads else {}
    if heads:
        rows = _trials(connection, where) if metrics is None else _numbers(connection, where, metrics)
        for trial_id, owner, trial in rows:
            trials[owner].append(_with_samples(trial, blobs[trial_id]) if trial_id in blobs else trial)
    answers = _outputs(connection, where) if heads and metrics is None else {}
    texts = _Texts()
    runs = [
        Run(
            version=version_from(*build),
            testbed=texts.testbed(machine, facts),
            suite=SuiteRef(suite_name, suite_version),
            label=label,
            trials=tuple(sorted(trials[id_], key=lambda trial: (trial.scenario, trial.ordinal))),
            started=stored_values.time_from(started),
            conditions=texts.conditions(conditions),
            libraries=orjson.loads(libraries),
            metrics=orjson.loads(run_metrics),
            outputs=answers.get(id_),
            id=id_,
            **stored_values.run_details_from(orjson.loads(measured or "{}"), with_server=metrics is None),
        )
        for id_, (
            *build, machine, facts, suite_name, suite_version, label, started, conditions, libraries, run_metrics,
            measured,
        ) in heads.items()
    ]  # fmt: skip
    return sorted(runs, key=run_order)


def stored_labels(connection: Connection, version: Version, testbed: str, suite: SuiteRef) -> set[str]:
    """The labels of the runs of exactly this version."""
    where = _conditions(connection, None, testbed, suite)
    build = _id_of(connection, schema.build, **version_columns(version))
    if where is None or build is None:
        return set()
    labels = select(schema.run.c.label).where(*where, schema.run.c.build_id == build)
    return set(connection.execute(labels).scalars())


def holdings(
    connection: Connection,
    pins: Sequence[Version],
    versions: Sequence[Version] | None = None,
    *,
    with_counter_tests: bool = False,
) -> list[Holding]:
    """The holdings of the store, in the order of the runs; with `versions` those that match one of them."""
    build, testbed, suite, held = schema.build, schema.testbed, schema.suite, schema.holding
    query = select(
        build.c.number, build.c.commit_id, build.c.variant, testbed.c.name, suite.c.name, suite.c.version,
        held.c.runs, held.c.trials, held.c.scenarios, held.c.first_time, held.c.last_time,
    ).select_from(held.join(build).join(testbed).join(suite))  # fmt: skip
    if not with_counter_tests:
        query = query.where(~_is_counter_test())
    if versions is not None and all(version.number is not None for version in versions):
        query = query.where(build.c.number.in_([version.number for version in versions]))
    stored = []
    for number, commit, variant, machine, name, its_version, runs, trials, scenarios, first, last in connection.execute(
        query
    ):
        version = version_from(number, commit, variant)
        if versions is not None and not any(version.matches(wanted) for wanted in versions):
            continue
        stored.append(
            Holding(
                version=version,
                testbed=machine,
                suite=SuiteRef(name, its_version),
                runs=runs,
                trials=trials,
                scenarios=scenarios,
                first=stored_values.time_from(first),
                last=stored_values.time_from(last),
                pinned=any(version.matches(pin) for pin in pins),
                origin=HoldingOrigin.STORE,
            )
        )
    return sorted(stored, key=holding_order)


def build_configs(connection: Connection, version: Version) -> list[dict[str, Any]]:
    """The configurations of all builds that match `version`, in the order in which the builds were stored."""
    build, table = schema.build, schema.build_config
    query = (
        select(build.c.number, build.c.commit_id, build.c.variant, table.c.data)
        .select_from(build.join(table))
        .order_by(build.c.id)
    )
    return [orjson.loads(data) for *parts, data in connection.execute(query) if version_from(*parts).matches(version)]


def _conditions(
    connection: Connection,
    version: Version | None,
    testbed: str | None,
    suite: SuiteRef | None,
    run_ids: Collection[int] | None = None,
) -> list[ColumnElement[bool]] | None:
    """Conditions on the columns of runs; None if nothing can match. Names are looked up first: one query over all
    tables would leave it to the database whether it begins with the few runs that are asked for.

    Runs of counter-tests match only if their suite or their ids are given.
    """
    run, build = schema.run, schema.build
    where: list[ColumnElement[bool]] = []
    if testbed is not None:
        testbed_id = _id_of(connection, schema.testbed, name=testbed)
        if testbed_id is None:
            return None
        where.append(run.c.testbed_id == testbed_id)
    if suite is not None:
        suite_id = _id_of(connection, schema.suite, name=suite.name, version=suite.version)
        if suite_id is None:
            return None
        where.append(run.c.suite_id == suite_id)
    elif run_ids is None:
        where.append(run.c.suite_id.not_in(select(schema.suite.c.id).where(_is_counter_test())))
    if version is not None:
        query = select(build.c.id, build.c.number, build.c.commit_id, build.c.variant)
        if version.number is not None:
            query = query.where(build.c.number == version.number)
        builds = [id_ for id_, *parts in connection.execute(query) if version_from(*parts).matches(version)]
        if not builds:
            return None
        where.append(run.c.build_id.in_(builds))
    return where


def _is_counter_test() -> ColumnElement[bool]:
    return schema.suite.c.version.contains(COUNTER_TEST_MARK, autoescape=True)


def _id_of(connection: Connection, table: Table, **values: str) -> int | None:
    id_: int | None = connection.execute(
        select(table.c.id).where(*(table.c[name] == value for name, value in values.items()))
    ).scalar()
    return id_


def _heads(connection: Connection, where: list[ColumnElement[bool]]) -> dict[int, list[Any]]:
    run, build, testbed, suite = schema.run, schema.build, schema.testbed, schema.suite
    query = (
        select(
            run.c.id, build.c.number, build.c.commit_id, build.c.variant, testbed.c.name, testbed.c.facts,
            suite.c.name, suite.c.version, run.c.label, run.c.started, run.c.conditions, run.c.libraries, run.c.metrics,
            run.c.measured,
        )
        .select_from(schema.joined_runs())
        .where(*where)
    )  # fmt: skip
    return {id_: row for id_, *row in connection.execute(query)}


class _Texts:
    """Parses each text of a query once: many runs share a machine, and many trials their conditions."""

    def __init__(self) -> None:
        self._conditions: dict[str, Conditions] = {}
        self._testbeds: dict[tuple[str, str], Testbed] = {}

    def conditions(self, text: str) -> Conditions:
        if text not in self._conditions:
            self._conditions[text] = Conditions(**orjson.loads(text))
        return self._conditions[text]

    def testbed(self, name: str, facts: str) -> Testbed:
        if (name, facts) not in self._testbeds:
            self._testbeds[name, facts] = Testbed(name, **orjson.loads(facts))
        return self._testbeds[name, facts]


def _numbers(
    connection: Connection, where: list[ColumnElement[bool]], wanted: Container[str]
) -> Iterator[tuple[int, int, Trial]]:
    """Trials with these metrics alone, and without their workload and the place where their numbers came from.

    Those at one of the rates around a capacity keep all: the capacity is found from them.
    """
    trial, source = schema.trial, schema.source
    at_rate = case((trial.c.workload.like(f'%"{PROMISE_KEY}":%'), trial.c.workload))
    query = (
        select(
            trial.c.id, trial.c.run_id, trial.c.scenario, trial.c.ordinal, trial.c.completed, trial.c.counted,
            trial.c.failed, trial.c.duration, trial.c.started, trial.c.conditions, trial.c.metrics,
            source.c.client_version, at_rate,
        )
        .select_from(schema.run.join(trial, trial.c.run_id == schema.run.c.id).join(source))
        .where(*where)
    )  # fmt: skip
    texts = _Texts()
    clients: dict[str | None, TrialSource] = {}
    for (
        id_, run_id, scenario, ordinal, completed, counted, failed, duration, started, conditions, metrics, client,
        workload,
    ) in connection.execute(query, execution_options=_IN_PARTS):  # fmt: skip
        if client not in clients:
            clients[client] = TrialSource("", 0, "", "", _NO_TIME, client_version=client)
        yield id_, run_id, Trial(
            scenario=intern(scenario),
            ordinal=ordinal,
            completed=None if counted is False else completed,
            failed=failed,
            duration=duration,
            metrics={name: value for name, value in orjson.loads(metrics).items() if workload or name in wanted},
            workload=orjson.loads(workload) if workload else {},
            source=clients[client],
            conditions=texts.conditions(conditions),
            started=stored_values.time_from(started),
        )  # fmt: skip


def _trials(connection: Connection, where: list[ColumnElement[bool]]) -> Iterator[tuple[int, int, Trial]]:
    trial, source = schema.trial, schema.source
    query = (
        select(
            trial.c.id, trial.c.run_id, trial.c.scenario, trial.c.ordinal, trial.c.completed, trial.c.counted,
            trial.c.failed,
            trial.c.duration, trial.c.started, trial.c.conditions, trial.c.workload, trial.c.metrics,
            trial.c.server_metrics,
            source.c.sha256, source.c.position, source.c.path, source.c.format, source.c.imported_at, source.c.tool,
            source.c.client_version, source.c.command,
        )
        .select_from(schema.run.join(trial, trial.c.run_id == schema.run.c.id).join(source))
        .where(*where)
    )  # fmt: skip
    times: dict[str, datetime | None] = {}
    texts = _Texts()
    for (
        id_, run_id, scenario, ordinal, completed, counted, failed, duration, started, conditions, workload, metrics,
        server_metrics, sha256, position, path, format_, imported_at, tool, client_version, command,
    ) in connection.execute(query, execution_options=_IN_PARTS):  # fmt: skip
        if imported_at not in times:
            times[imported_at] = stored_values.time_from(imported_at)
        imported = times[imported_at]
        if imported is None:
            raise ValueError("a source without a time of import")
        yield id_, run_id, Trial(
            scenario=intern(scenario),
            ordinal=ordinal,
            completed=None if counted is False else completed,
            failed=failed,
            duration=duration,
            metrics=orjson.loads(metrics),
            workload=orjson.loads(workload),
            source=TrialSource(sha256, position, path, format_, imported, tool, client_version, command),
            conditions=texts.conditions(conditions),
            started=stored_values.time_from(started),
            server_metrics={} if server_metrics is None else orjson.loads(server_metrics),
        )  # fmt: skip


def _outputs(connection: Connection, where: list[ColumnElement[bool]]) -> dict[int, Outputs]:
    table = schema.outputs
    query = (
        select(table.c.run_id, table.c.data)
        .select_from(schema.run.join(table, table.c.run_id == schema.run.c.id))
        .where(*where)
    )
    return {run_id: _read_outputs(data) for run_id, data in connection.execute(query)}


@lru_cache(maxsize=64)  # while an experiment runs, its answers are loaded before and after each block
def _read_outputs(data: str) -> Outputs:
    return Outputs.from_document(orjson.loads(data))


def _blobs(connection: Connection, where: list[ColumnElement[bool]]) -> Iterator[tuple[int, bytes]]:
    trial, samples = schema.trial, schema.samples
    query = (
        select(trial.c.id, samples.c.data)
        .select_from(schema.run.join(trial, trial.c.run_id == schema.run.c.id).join(samples))
        .where(*where)
    )
    return ((id_, data) for id_, data in connection.execute(query))


def _with_samples(trial: Trial, blob: bytes) -> Trial:
    from regress_gate.store import sample_codec  # with numpy; few readers want samples

    return replace(trial, samples=sample_codec.decode(blob))
