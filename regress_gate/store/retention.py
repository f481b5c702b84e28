"""What a store need not keep any longer, by age, inside a transaction of the repository.

The unit is an experiment, all of its runs with the record of it: half of one shows nothing. Runs outside of experiments
are one unit for each version, testbed and suite. Not for single versions: see `Repository.prune`.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice

from sqlalchemy import Connection, delete, func, select

from regress_gate.model.run import SuiteRef
from regress_gate.model.version import Version
from regress_gate.store import change_log, comparisons, reader, rows, schema, stored_values
from regress_gate.store.store_interface import ChangeKind, Expired, KeptBecause, RunPlace, StoredComparison

_PARAMETERS = 500
"""Values in one statement: few enough for any database."""


@dataclass(slots=True)
class _Unit:
    """Runs that stay or go together."""

    experiment: str | None
    newest: datetime | None = None
    has_unknown_time: bool = False
    runs: list[int] = field(default_factory=list)
    held: Counter[rows.HoldingIds] = field(default_factory=Counter)


def find_expired(connection: Connection, pins: Sequence[Version], before: datetime, keep: int) -> Expired:
    """What was measured before a time and may go.

    Stays, for the first reason that holds: what is younger or whose age is not known; an experiment that has not ended;
    what is pinned, or in one experiment with that; what was compared with a pinned version, or by a comparison that is
    younger; the `keep` newest versions of each testbed and suite.
    """
    units, places = _units(connection), _places(connection)
    unfinished = set(
        connection.execute(select(schema.experiment.c.id).where(schema.experiment.c.ended.is_(None))).scalars()
    )
    pinned = {place for place in places.values() if any(place.version.matches(pin) for pin in pins)}
    compared = comparisons.find(connection, None, None)
    needed = {
        place
        for one in compared
        if one.created >= before
        or any(version.matches(pin) for version in (one.baseline, one.candidate) for pin in pins)
        for place in _compared_places(one)
    }
    newest = _newest(units, places, keep)

    def reason_to_keep(unit: _Unit) -> KeptBecause | None:
        own = {places[ids] for ids in unit.held}
        if unit.newest is None or unit.has_unknown_time or unit.newest >= before:
            return KeptBecause.YOUNG
        if unit.experiment in unfinished:
            return KeptBecause.UNFINISHED
        if own & pinned:
            return KeptBecause.PINNED
        if own & needed:
            return KeptBecause.COMPARED
        return KeptBecause.NEWEST if own & newest else None

    kept, going = Counter[KeptBecause](), []
    for unit in units:
        if (reason := reason_to_keep(unit)) is None:
            going.append(unit)
        else:
            kept[reason] += len(unit.runs)
    held = Counter[rows.HoldingIds]()
    for unit in going:
        held.update(unit.held)
    gone = {places[ids] for ids in held}
    staying = {unit.experiment for unit in units} - {unit.experiment for unit in going}
    return Expired(
        before=before,
        run_ids=tuple(id_ for unit in going for id_ in unit.runs),
        held=dict(held),
        places={places[ids]: count for ids, count in held.items()},
        experiments=tuple(unit.experiment for unit in going if unit.experiment is not None),
        comparisons=tuple(
            one.id
            for one in compared
            if one.id is not None and one.created < before and gone & {*_compared_places(one)}
        ),
        kept=dict(kept),
        kept_experiments=frozenset(id_ for id_ in staying if id_ is not None) | frozenset(unfinished),
    )


def delete_expired(connection: Connection, expired: Expired) -> None:
    """Delete it, and log that."""
    for table, ids in (
        (schema.run, expired.run_ids),
        (schema.experiment, expired.experiments),
        (schema.comparison, expired.comparisons),
    ):
        remaining = iter(ids)
        while some := list(islice(remaining, _PARAMETERS)):
            connection.execute(delete(table).where(table.c.id.in_(some)))
    rows.update_holdings(connection, expired.held)
    details = {
        "before": stored_values.time_text(expired.before),
        "runs": len(expired.run_ids),
        "comparisons": len(expired.comparisons),
        "places": [change_log.place(place.version, place.testbed, place.suite) for place in expired.places],
    }
    change_log.add(connection, ChangeKind.PRUNE, details)


def _units(connection: Connection) -> list[_Unit]:
    run, trial, source = schema.run, schema.trial, schema.source
    of_trials = (
        select(func.max(func.coalesce(trial.c.started, source.c.imported_at)))
        .select_from(trial.outerjoin(source))
        .where(trial.c.run_id == run.c.id)
        .scalar_subquery()
    )
    query = select(
        run.c.id, run.c.build_id, run.c.testbed_id, run.c.suite_id, run.c.measured,
        func.coalesce(run.c.started, of_trials),
    )  # fmt: skip
    units: dict[object, _Unit] = {}
    for id_, build, testbed, suite, measured, when in connection.execute(query):
        ids, place = (build, testbed, suite), reader.place_from(measured)
        experiment = None if place is None else place.experiment
        unit = units.setdefault(ids if experiment is None else experiment, _Unit(experiment))
        time = stored_values.time_from(when)
        unit.runs.append(id_)
        unit.held[ids] += 1
        unit.has_unknown_time |= time is None
        if time is not None and (unit.newest is None or time > unit.newest):
            unit.newest = time
    return list(units.values())


def _places(connection: Connection) -> dict[rows.HoldingIds, RunPlace]:
    """Of all that is held."""
    build, testbed, suite, holding = schema.build, schema.testbed, schema.suite, schema.holding
    query = select(
        holding.c.build_id, holding.c.testbed_id, holding.c.suite_id,
        build.c.number, build.c.commit_id, build.c.variant, testbed.c.name, suite.c.name, suite.c.version,
    ).select_from(holding.join(build).join(testbed).join(suite))  # fmt: skip
    return {
        (row[0], row[1], row[2]): RunPlace(rows.version_from(*row[3:6]), row[6], SuiteRef(row[7], row[8]))
        for row in connection.execute(query)
    }


def _compared_places(one: StoredComparison) -> Iterable[RunPlace]:
    return (RunPlace(version, one.testbed, one.suite) for version in (one.baseline, one.candidate))


def _newest(units: Iterable[_Unit], places: dict[rows.HoldingIds, RunPlace], keep: int) -> set[RunPlace]:
    """The `keep` versions of each testbed and suite that were measured last."""
    last: dict[tuple[str, SuiteRef], dict[RunPlace, datetime]] = {}
    for unit in units:
        for ids in unit.held:
            place = places[ids]
            if unit.newest is not None:
                there = last.setdefault((place.testbed, place.suite), {})
                there[place] = max(unit.newest, there.get(place, unit.newest))
    return {
        place for there in last.values() for place in sorted(there, key=lambda place: there[place], reverse=True)[:keep]
    }
