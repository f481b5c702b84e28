"""Reading runs, inside a transaction of the repository: a fixed number of queries, however many runs are asked for."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any

import orjson
from sqlalchemy import ColumnElement, Connection, distinct, func, select

from regress_gate.model.run import Conditions, Outputs, Run, RunKey, SuiteRef, Trial, TrialSource
from regress_gate.model.testbed import Testbed
from regress_gate.model.version import Version
from regress_gate.store import schema, stored_values
from regress_gate.store.rows import version_from
from regress_gate.store.store_interface import Holding, HoldingOrigin, holding_order, run_order


def load_runs(
    connection: Connection,
    *,
    version: Version | None = None,
    testbed: str | None = None,
    suite: SuiteRef | None = None,
    run_id: int | None = None,
    with_samples: bool = False,
) -> list[Run]:
    """The matching runs in `run_order`, with trials by scenario and ordinal. Raises ValueError for damaged content."""
    where = _conditions(version, testbed, suite)
    if run_id is not None:
        where.append(schema.run.c.id == run_id)
    heads = _heads(connection, where, version)
    trials: dict[int, list[Trial]] = {id_: [] for id_ in heads}
    blobs = dict(_blobs(connection, where)) if with_samples and heads else {}
    if heads:
        for trial_id, owner, trial in _trials(connection, where):
            if owner in trials:
                trials[owner].append(_with_samples(trial, blobs[trial_id]) if trial_id in blobs else trial)
    answers = _outputs(connection, where) if heads else {}
    runs = [
        Run(
            version=version_from(*build),
            testbed=Testbed(machine, **orjson.loads(facts)),
            suite=SuiteRef(suite_name, suite_version),
            label=label,
            trials=tuple(trials[id_]),
            started=stored_values.time_from(started),
            conditions=Conditions(**orjson.loads(conditions)),
            libraries=orjson.loads(libraries),
            metrics=orjson.loads(metrics),
            outputs=answers.get(id_),
            id=id_,
            **stored_values.run_details_from(orjson.loads(measured or "{}")),
        )
        for id_, (
            *build, machine, facts, suite_name, suite_version, label, started, conditions, libraries, metrics, measured,
        ) in heads.items()
    ]  # fmt: skip
    return sorted(runs, key=run_order)


def run_keys(connection: Connection) -> set[RunKey]:
    query = select(
        schema.build.c.number, schema.build.c.commit_id, schema.build.c.variant, schema.testbed.c.name,
        schema.suite.c.name, schema.suite.c.version, schema.run.c.label,
    ).select_from(schema.joined_runs())  # fmt: skip
    return {
        RunKey(version_from(number, commit, variant), testbed, SuiteRef(suite, version), label)
        for number, commit, variant, testbed, suite, version, label in connection.execute(query)
    }


def holdings(connection: Connection, pins: list[Version]) -> list[Holding]:
    """The holdings of the store, in the order of the runs."""
    run, trial, source = schema.run, schema.trial, schema.source
    when = func.coalesce(trial.c.started, source.c.imported_at, run.c.started)
    identity = [
        schema.build.c.number, schema.build.c.commit_id, schema.build.c.variant, schema.testbed.c.name,
        schema.suite.c.name, schema.suite.c.version,
    ]  # fmt: skip
    query = (
        select(
            *identity, func.count(distinct(run.c.id)), func.count(trial.c.id), func.count(distinct(trial.c.scenario)),
            func.min(when), func.max(when),
        )
        .select_from(schema.joined_runs().outerjoin(trial, trial.c.run_id == run.c.id).outerjoin(source))
        .group_by(*identity)
    )  # fmt: skip
    stored = []
    for (
        number,
        commit,
        variant,
        testbed,
        suite,
        suite_version,
        runs,
        trials,
        scenarios,
        first,
        last,
    ) in connection.execute(query):
        version = version_from(number, commit, variant)
        stored.append(
            Holding(
                version=version,
                testbed=testbed,
                suite=SuiteRef(suite, suite_version),
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


def _conditions(version: Version | None, testbed: str | None, suite: SuiteRef | None) -> list[ColumnElement[bool]]:
    """The conditions that SQL can check; prefixes of commits are compared in `_heads`."""
    where: list[ColumnElement[bool]] = []
    if version is not None and version.number is not None:
        where.append(schema.build.c.number == version.number)
    if version is not None and version.variant is not None:
        where.append(schema.build.c.variant == version.variant)
    if testbed is not None:
        where.append(schema.testbed.c.name == testbed)
    if suite is not None:
        where += [schema.suite.c.name == suite.name, schema.suite.c.version == suite.version]
    return where


def _heads(connection: Connection, where: list[ColumnElement[bool]], version: Version | None) -> dict[int, list[Any]]:
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
    return {
        id_: row
        for id_, *row in connection.execute(query)
        if version is None or version_from(row[0], row[1], row[2]).matches(version)
    }


def _trials(connection: Connection, where: list[ColumnElement[bool]]) -> Iterator[tuple[int, int, Trial]]:
    trial, source = schema.trial, schema.source
    query = (
        select(
            trial.c.id, trial.c.run_id, trial.c.scenario, trial.c.ordinal, trial.c.completed, trial.c.counted,
            trial.c.failed,
            trial.c.duration, trial.c.started, trial.c.conditions, trial.c.workload, trial.c.metrics,
            source.c.sha256, source.c.position, source.c.path, source.c.format, source.c.imported_at, source.c.tool,
            source.c.client_version, source.c.command,
        )
        .select_from(schema.joined_runs().join(trial, trial.c.run_id == schema.run.c.id).join(source))
        .where(*where)
        .order_by(trial.c.run_id, trial.c.scenario, trial.c.ordinal)
    )  # fmt: skip
    # Many trials share an import time and conditions: each text is parsed once.
    times: dict[str, datetime | None] = {}
    values: dict[str, Any] = {}
    for (
        id_, run_id, scenario, ordinal, completed, counted, failed, duration, started, conditions, workload, metrics,
        sha256, position, path, format_, imported_at, tool, client_version, command,
    ) in connection.execute(query):  # fmt: skip
        if imported_at not in times:
            times[imported_at] = stored_values.time_from(imported_at)
        if conditions not in values:
            values[conditions] = Conditions(**orjson.loads(conditions))
        imported = times[imported_at]
        if imported is None:
            raise ValueError("a source without a time of import")
        yield id_, run_id, Trial(
            scenario=scenario,
            ordinal=ordinal,
            completed=None if counted is False else completed,
            failed=failed,
            duration=duration,
            metrics=orjson.loads(metrics),
            workload=orjson.loads(workload),
            source=TrialSource(sha256, position, path, format_, imported, tool, client_version, command),
            conditions=values[conditions],
            started=stored_values.time_from(started),
        )  # fmt: skip


def _outputs(connection: Connection, where: list[ColumnElement[bool]]) -> dict[int, Outputs]:
    table = schema.outputs
    query = (
        select(table.c.run_id, table.c.data)
        .select_from(schema.joined_runs().join(table, table.c.run_id == schema.run.c.id))
        .where(*where)
    )
    return {run_id: Outputs.from_document(orjson.loads(data)) for run_id, data in connection.execute(query)}


def _blobs(connection: Connection, where: list[ColumnElement[bool]]) -> Iterator[tuple[int, bytes]]:
    trial, samples = schema.trial, schema.samples
    query = (
        select(trial.c.id, samples.c.data)
        .select_from(schema.joined_runs().join(trial, trial.c.run_id == schema.run.c.id).join(samples))
        .where(*where)
    )
    return ((id_, data) for id_, data in connection.execute(query))


def _with_samples(trial: Trial, blob: bytes) -> Trial:
    from regress_gate.store import sample_codec

    return replace(trial, samples=sample_codec.decode(blob))
