"""The log of the store: who pinned, imported, measured, pruned and migrated, inside the transaction that did it.

Who it was is what their machine says of them: REGRESS_GATE_ACTOR, GITHUB_ACTOR, or the user of the operating system. On
PostgreSQL the role that they logged in with stands beside it, which the server knows. Not for what was decided.
"""

import getpass
import os
import platform
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import orjson
from sqlalchemy import Connection, insert, select

from regress_gate import __version__
from regress_gate.model.run import SuiteRef
from regress_gate.model.version import Version
from regress_gate.store import rows, schema, stored_values
from regress_gate.store.store_interface import AddedRuns, ChangeKind, LogEntry
from regress_gate.text import MAX_NAME, one_line

ACTOR_VARIABLES = ("REGRESS_GATE_ACTOR", "GITHUB_ACTOR")

_table = schema.log


def add(connection: Connection, kind: ChangeKind, details: Mapping[str, Any]) -> None:
    """Log a change, in the transaction that makes it."""
    row = {
        "actor": _actor(),
        "host": one_line(platform.node())[:MAX_NAME],
        "tool_version": __version__,
        "kind": kind.value,
        "details": orjson.dumps(stored_values.json_values("log", details)).decode(),
    }
    if connection.dialect.name != "postgresql":
        row |= {"at": stored_values.time_text(datetime.now(UTC)) or "", "role": ""}
    connection.execute(insert(_table).values(row))


def add_runs(connection: Connection, kind: ChangeKind, added: AddedRuns, changed: Iterable[rows.HoldingIds]) -> None:
    """Log what an import or a measurement brought; nothing if it brought nothing."""
    if not added.new and not added.extended:
        return
    details = {
        "runs": len(added.new),
        "extended": len(added.extended),
        "trials": added.trials,
        "run_ids": _ranges([*added.new, *added.extended]),
        "places": list(_places(connection, changed)),
    }
    add(connection, kind, details)


def find(connection: Connection, *, since: datetime | None, limit: int) -> list[LogEntry]:
    """The newest entries, the newest first. Raises ValueError or TypeError for damaged content."""
    query = select(_table).order_by(_table.c.at.desc(), _table.c.id.desc()).limit(limit)
    if since is not None:
        # Without the Z, which a fraction of the same second goes before.
        query = query.where(_table.c.at >= (stored_values.time_text(since) or "").removesuffix("Z"))
    found = []
    for row in connection.execute(query).mappings():
        at, details = stored_values.time_from(row["at"]), orjson.loads(row["details"])
        if at is None or not isinstance(details, dict):
            raise ValueError("a log entry without a time or without content")
        found.append(
            LogEntry(row["id"], at, row["actor"], row["role"], row["host"], row["tool_version"], row["kind"], details)
        )
    return found


def _actor() -> str:
    for variable in ACTOR_VARIABLES:
        if name := one_line(os.environ.get(variable, ""))[:MAX_NAME]:
            return name
    try:
        return one_line(getpass.getuser())[:MAX_NAME]
    except (OSError, KeyError, ImportError):  # a container may run as a user that has no name
        return f"user {os.getuid()}" if hasattr(os, "getuid") else "unknown"


def place(version: Version | str, testbed: str, suite: SuiteRef) -> dict[str, str]:
    """How an entry names what was changed."""
    return {"version": str(version), "testbed": testbed, "suite": str(suite)}


def _places(connection: Connection, changed: Iterable[rows.HoldingIds]) -> Iterator[dict[str, str]]:
    build, testbed, suite, holding = schema.build, schema.testbed, schema.suite, schema.holding
    query = select(
        build.c.number, build.c.commit_id, build.c.variant, testbed.c.name, suite.c.name, suite.c.version
    ).select_from(holding.join(build).join(testbed).join(suite))
    for ids in changed:
        mine = holding.c.build_id == ids[0], holding.c.testbed_id == ids[1], holding.c.suite_id == ids[2]
        for *version, machine, name, suite_version in connection.execute(query.where(*mine)):
            yield place(rows.version_from(*version), machine, SuiteRef(name, suite_version))


def _ranges(ids: list[int]) -> str:
    """`17-20, 25`."""
    ranges: list[list[int]] = []
    for id_ in sorted(ids):
        if ranges and ranges[-1][1] == id_ - 1:
            ranges[-1][1] = id_
        else:
            ranges.append([id_, id_])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)
