"""Adding runs, inside a transaction of the repository: finds the new results and their runs, and inserts them in bulk.

Queries are made per batch of runs, never per run, and only for rows that may have been stored before. A result is known
by its bytes (hash and position) or by its numbers: the same file may have grown, or been written anew.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import orjson
from sqlalchemy import Column, ColumnElement, Connection, delete, insert, select, update

from regress_gate.errors import InputError
from regress_gate.measurement.same_measurement import is_same_measurement, measurement_keys
from regress_gate.model.run import AUTO_LABEL_PREFIX, Run, RunKey, SuiteRef, Trial
from regress_gate.model.version import Version
from regress_gate.store import change_log, rows, schema, stored_values
from regress_gate.store.rows import ImportTarget, ImportTargets, version_from
from regress_gate.store.store_interface import AddedRuns, ChangeKind, DuplicateResult, RunMismatch

_BATCH = 1000
"""Runs in a batch."""

_PARAMETERS = 500
"""Values in one statement: few enough for any database."""

_SAMPLES = 100
"""Trials whose samples are encoded at a time."""

ResultKey = tuple[str, int]
"""Hash of a file, and the position of the result in it."""


def add_runs(connection: Connection, runs: Iterable[Run], log_as: ChangeKind | None = None) -> AddedRuns:
    """See Repository.add_runs."""
    importer = _Importer(connection)
    remaining = iter(runs)
    while batch := list(islice(remaining, _BATCH)):
        importer.add(batch)
    rows.update_holdings(connection, importer.changed)
    added = AddedRuns(
        tuple(importer.new),
        tuple(importer.extended),
        importer.trials,
        tuple(importer.duplicates),
        tuple(importer.mismatches()),
        tuple(importer.continued),
    )
    if log_as is not None:
        change_log.add_runs(connection, log_as, added, importer.changed)
    return added


def set_build_config(connection: Connection, version: Version, document: dict[str, Any]) -> None:
    table = schema.build_config
    build = ImportTargets(connection).build_id(version)
    connection.execute(delete(table).where(table.c.build_id == build))
    data = rows.json_text(stored_values.json_values("build configuration", document))
    connection.execute(insert(table).values(build_id=build, data=data))


class _Importer:
    """The state of one import."""

    def __init__(self, connection: Connection):
        self._connection = connection
        self._targets = ImportTargets(connection)
        self._was_empty = connection.execute(select(schema.source.c.trial_id).limit(1)).first() is None
        self._own: set[ResultKey] = set()
        """Results stored by this import, by hash and position."""
        self.new: dict[int, None] = {}
        self.extended: dict[int, None] = {}
        self.changed: dict[rows.HoldingIds, None] = {}
        """Of the new and extended runs."""
        self.trials = 0
        self.duplicates: list[DuplicateResult] = []
        self._requested: dict[int, dict[RunKey, None]] = {}
        """For each stored run: the runs to which this import assigned results of it."""
        self.continued: dict[int, None] = {}
        """Stored runs that got new results, because the same files hold results of them."""

    def add(self, batch: list[Run]) -> None:
        known = self._known_results(batch)
        batch = self._joined_with_stored(batch, known)
        targets = [self._targets.find(run) for run in batch]
        drafts = self._stored_drafts(batch, targets)
        for run, target in zip(batch, targets, strict=True):
            fresh = []
            for trial in run.trials:
                identity = (trial.source.sha256, trial.source.position)
                if identity in known or identity in self._own:
                    path, held = stored_values.storable_text(trial.source.path) or "", known.get(identity)
                    self.duplicates.append(DuplicateResult(path, trial.source.position, held))
                    if held is not None:
                        self._requested.setdefault(held, {})[run.key] = None
                else:
                    self._own.add(identity)
                    fresh.append(trial)
            if run.trials and not fresh:
                continue  # known results add neither facts nor an empty run
            self._targets.store_testbed(run.testbed, fresh)
            if (draft := drafts.get((target, run.label))) is None:
                draft = drafts[target, run.label] = rows.RunDraft(run.label)
            draft.absorb(run, fresh)
        self._store(drafts)

    def mismatches(self) -> Iterator[RunMismatch]:
        """Stored runs with results that this import assigned to other runs."""
        for id_, stored in self._stored_run_keys(set(self._requested)).items():
            yield from (RunMismatch(id_, stored, other) for other in self._requested[id_] if other != stored)

    def _known_results(self, batch: list[Run]) -> dict[ResultKey, int]:
        """Results stored before this import, with their runs."""
        for run in batch:
            for trial in run.trials:
                stored_values.name("source hash", trial.source.sha256)
        if self._was_empty:
            return {}
        known = stored_results(self._connection, batch)
        return {key: run for key, run in known.items() if key not in self._own and run not in self.new}

    def _joined_with_stored(self, batch: list[Run], known: dict[ResultKey, int]) -> list[Run]:
        """The batch, in which new results beside known ones take the label of the stored run that has those.

        New results of a file with known ones are always of their run: the file grew beside that server. So are those of
        other files that were imported together, if neither run was named. Raises InputError if the known results of a
        file are of another version, testbed or suite.
        """
        stored = self._stored_run_keys(set(known.values()))
        joined: list[Run] = []
        for run in batch:
            held = {
                _result_key(trial): known[_result_key(trial)] for trial in run.trials if _result_key(trial) in known
            }
            if not held or len(held) == len(run.trials):
                joined.append(run)
                continue
            by_file: dict[str, int] = {}
            for (sha256, _), id_ in held.items():
                by_file[sha256] = max(id_, by_file.get(sha256, id_))
            same_target = [id_ for id_ in held.values() if replace(stored[id_], label=run.label) == run.key]
            labels = {run.label, *(stored[id_].label for id_ in same_target)}
            are_unnamed = len(set(same_target)) == 1 and all(label.startswith(AUTO_LABEL_PREFIX) for label in labels)
            parts: dict[str, list[Trial]] = defaultdict(list)
            for trial in run.trials:
                start = by_file.get(trial.source.sha256, same_target[0] if are_unnamed else None)
                if start is None or _result_key(trial) in held:
                    parts[run.label].append(trial)
                    continue
                if start not in same_target:
                    _refuse_elsewhere(run, trial, start, stored[start])
                parts[stored[start].label].append(trial)
                if stored[start].label != run.label:
                    self.continued[start] = None
            joined += [replace(run, label=label, trials=tuple(trials)) for label, trials in parts.items()]
        return joined

    def _stored_run_keys(self, ids: set[int]) -> dict[int, RunKey]:
        run = schema.run
        query = select(
            run.c.id, *_build_columns(), schema.testbed.c.name, schema.suite.c.name, schema.suite.c.version, run.c.label
        ).select_from(schema.joined_runs()).order_by(run.c.id)  # fmt: skip
        return {
            row[0]: RunKey(version_from(*row[1:4]), row[4], SuiteRef(*row[5:7]), row[7])
            for some in _chunks(ids)
            for row in self._connection.execute(query.where(run.c.id.in_(some)))
        }

    def _stored_drafts(
        self, batch: list[Run], targets: list[ImportTarget]
    ) -> dict[tuple[ImportTarget, str], rows.RunDraft]:
        """The runs of this batch that are already stored."""
        labels: dict[ImportTarget, set[str]] = {}
        for item, target in zip(batch, targets, strict=True):
            labels.setdefault(target, set()).add(stored_values.name("label", item.label))
        run, trial = schema.run, schema.trial
        drafts: dict[tuple[ImportTarget, str], rows.RunDraft] = {}
        by_id: dict[int, rows.RunDraft] = {}
        query = select(
            run.c.id, run.c.label, run.c.started, run.c.conditions, run.c.libraries, run.c.metrics, run.c.measured
        )
        for target, wanted in labels.items():
            if target.was_empty:
                wanted &= target.added_labels
            if target.ids is None or not wanted:
                continue
            build, testbed, suite = target.ids
            there = query.where(run.c.build_id == build, run.c.testbed_id == testbed, run.c.suite_id == suite)
            for some in _chunks(wanted):
                for id_, label, started, *facts in self._connection.execute(there.where(run.c.label.in_(some))):
                    draft = rows.RunDraft(label, id_, started, *(orjson.loads(text or "{}") for text in facts))
                    drafts[target, label] = by_id[id_] = draft
        trials = select(trial.c.run_id, trial.c.scenario, trial.c.ordinal, trial.c.started)
        for some_ids in _chunks(by_id):
            for run_id, scenario, ordinal, start in self._connection.execute(
                trials.where(trial.c.run_id.in_(some_ids))
            ):
                by_id[run_id].taken.add((scenario, ordinal))
                if start is not None:
                    by_id[run_id].starts.add(start)
        return drafts

    def _store(self, drafts: dict[tuple[ImportTarget, str], rows.RunDraft]) -> None:
        run = schema.run
        stored = [draft for draft in drafts.values() if draft.id is not None]
        self._insert_runs({target: draft for target, draft in drafts.items() if draft.id is None})
        for draft in stored:
            if draft.id is None or not (draft.facts_changed or draft.added or draft.outputs):
                continue
            if draft.id not in self.new:
                self.extended[draft.id] = None
            if draft.facts_changed:
                values = dict(zip(rows.RUN_COLUMNS[-len(rows.run_facts(draft)) :], rows.run_facts(draft), strict=True))
                self._connection.execute(update(run).where(run.c.id == draft.id).values(values))
        self._insert_trials(drafts.values())
        for (target, _), draft in drafts.items():
            if draft.id in self.new or draft.id in self.extended:
                self.changed[self._targets.ids_of(target)] = None
        self._insert_outputs([draft for draft in drafts.values() if draft.outputs])

    def _insert_runs(self, drafts: dict[tuple[ImportTarget, str], rows.RunDraft]) -> None:
        if not drafts:
            return
        new = [
            (*self._targets.ids_of(target), label, *rows.run_facts(draft)) for (target, label), draft in drafts.items()
        ]
        ids = rows.insert_with_ids(self._connection, schema.run.c.id, rows.RUN_COLUMNS, new)
        for ((target, label), draft), id_ in zip(drafts.items(), ids, strict=True):
            draft.id = id_
            self.new[id_] = None
            if target.was_empty:
                target.added_labels.add(label)

    def _insert_trials(self, drafts: Iterable[rows.RunDraft]) -> None:
        new = [(draft.id, ordinal, trial) for draft in drafts if draft.id is not None for ordinal, trial in draft.added]
        if not new:
            return
        trials = [rows.trial_row(run_id, ordinal, trial) for run_id, ordinal, trial in new]
        ids = rows.insert_with_ids(self._connection, schema.trial.c.id, rows.TRIAL_COLUMNS, trials)
        sources = [rows.source_row(id_, trial.source) for id_, (_, _, trial) in zip(ids, new, strict=True)]
        rows.insert_rows(self._connection, schema.source, rows.SOURCE_COLUMNS, sources)
        sampled = (
            (id_, trial.samples) for id_, (_, _, trial) in zip(ids, new, strict=True) if trial.samples is not None
        )
        while some := list(islice(sampled, _SAMPLES)):
            from regress_gate.store import sample_codec  # imports numpy

            packed = [(id_, sample_codec.encode(samples)) for id_, samples in some]
            rows.insert_rows(self._connection, schema.samples, ("trial_id", "data"), packed)
        self.trials += len(new)

    def _insert_outputs(self, drafts: list[rows.RunDraft]) -> None:
        """Insert the answers of runs that have none yet: a server's answers are collected once."""
        table = schema.outputs
        there = {
            id_
            for some in _chunks(draft.id for draft in drafts)
            for id_ in self._connection.execute(select(table.c.run_id).where(table.c.run_id.in_(some))).scalars()
        }
        new = [{"run_id": draft.id, "data": rows.json_text(draft.outputs)} for draft in drafts if draft.id not in there]
        if new:
            self._connection.execute(insert(table), new)


def stored_results(connection: Connection, runs: Iterable[Run]) -> dict[ResultKey, int]:
    """The results of the runs that are stored already, by their bytes or their numbers, each with its stored run."""
    trials = [trial for run in runs for trial in run.trials]
    found = _stored_by_bytes(connection, {trial.source.sha256 for trial in trials})
    imported = {_result_key(trial) for run in runs if run.place is None for trial in run.trials}
    others = [trial for trial in trials if _result_key(trial) in imported and _result_key(trial) not in found]
    return found | _stored_by_numbers(connection, others)


def _stored_by_bytes(connection: Connection, hashes: Iterable[str]) -> dict[ResultKey, int]:
    source, trial = schema.source, schema.trial
    sources: dict[ResultKey, int] = {}
    query = select(source.c.sha256, source.c.position, trial.c.run_id).join(trial, trial.c.id == source.c.trial_id)
    for some in _chunks(hashes):
        for sha256, position, run_id in connection.execute(query.where(source.c.sha256.in_(some))):
            sources[sha256, position] = run_id
    return sources


@dataclass(frozen=True, slots=True)
class _StoredNumbers:
    """The numbers of a stored trial."""

    completed: int | None
    failed: int
    duration: float | None
    metrics: Mapping[str, float]


def _stored_by_numbers(connection: Connection, trials: Sequence[Trial]) -> dict[ResultKey, int]:
    """The first stored run that has the same measurement, of trials that have a copy in the store."""
    wanted: dict[str, list[Trial]] = defaultdict(list)
    for trial in trials:
        for key in measurement_keys(trial):
            wanted[key].append(trial)
    table = schema.trial.c
    query = select(
        table.numbers, table.run_id, table.completed, table.counted, table.failed, table.duration, table.metrics
    ).order_by(table.id)
    found: dict[ResultKey, int] = {}
    for some in _chunks(wanted):
        for key, run_id, completed, counted, failed, duration, metrics in connection.execute(
            query.where(table.numbers.in_(some))
        ):
            stored = _StoredNumbers(None if counted is False else completed, failed, duration, orjson.loads(metrics))
            for trial in wanted[key]:
                if _result_key(trial) not in found and is_same_measurement(trial, stored):
                    found[_result_key(trial)] = run_id
    return found


def _result_key(trial: Trial) -> ResultKey:
    return trial.source.sha256, trial.source.position


def _refuse_elsewhere(run: Run, trial: Trial, id_: int, stored: RunKey) -> None:
    raise InputError(
        f"holds results of run:{id_}, which is {stored.version} on {stored.testbed} with {stored.suite}, and cannot be "
        f"{run.version} on {run.testbed.name} with {run.suite} too",
        where=trial.source.path,
        todo=f"correct the import, or delete what is stored (regress-gate baseline prune {stored.version} "
        f"--testbed {stored.testbed}) and import again",
    )


def _build_columns() -> list[Column[Any] | ColumnElement[Any]]:
    build = schema.build
    return [build.c.number, build.c.commit_id, build.c.variant]


def _chunks(values: Iterable[Any]) -> Iterator[list[Any]]:
    remaining = iter(values)
    while chunk := list(islice(remaining, _PARAMETERS)):
        yield chunk
