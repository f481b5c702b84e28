"""Results of `compare` in the store, inside a transaction of the repository. Not for what a result means."""

import hashlib
import json
import zlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sqlalchemy import ColumnElement, Connection, delete, insert, or_, select

from regress_gate.model.run import SuiteRef
from regress_gate.model.version import Version
from regress_gate.store import schema, stored_values
from regress_gate.store.store_interface import Holding, StoredComparison

MAX_DOCUMENT_BYTES = 64 * 2**20
"""Of one result, unpacked; real ones have less than one mebibyte."""
_LEVEL = 3
"""Of compression: half of the default's time, a seventh more bytes."""
_NOT_SAID = ("created", "tool_version", "exit_code")
"""Keys in which two results may differ that say the same of the same runs."""

_table = schema.comparison


def add(connection: Connection, comparison: StoredComparison, document: Mapping[str, Any]) -> bool:
    """Store a result; False if the newest of these two versions, in this place, says the same."""
    digest = _digest(document)
    newest = connection.execute(
        select(_table.c.digest)
        .where(*_same_versions(comparison))
        .order_by(_table.c.created.desc(), _table.c.id.desc())
        .limit(1)
    ).scalar()
    if newest == digest:
        return False
    row = {
        "created": stored_values.time_text(comparison.created),
        "testbed": stored_values.name("testbed", comparison.testbed),
        "suite": stored_values.name("suite", comparison.suite.name),
        "suite_version": stored_values.name("suite", comparison.suite.version),
        "baseline": stored_values.name("version", str(comparison.baseline)),
        "candidate": stored_values.name("version", str(comparison.candidate)),
        "decision": comparison.decision,
        "digest": digest,
        "data": zlib.compress(json.dumps(document, separators=(",", ":")).encode(), level=_LEVEL),
    }
    connection.execute(insert(_table).values(row))
    return True


def waived(connection: Connection, comparison: StoredComparison) -> list[dict[str, Any]]:
    """The waivers that the newest stored result of these two versions, in this place, used; none if it is damaged."""
    newest = connection.execute(
        select(_table.c.id)
        .where(*_same_versions(comparison))
        .order_by(_table.c.created.desc(), _table.c.id.desc())
        .limit(1)
    ).scalar()
    try:
        return used_waivers(document(connection, newest) or {}) if newest is not None else []
    except (ValueError, TypeError):
        return []


_OF_WAIVER = ("finding", "until", "max_change", "owner", "reason")
_USED = "used"
"""Of the states of a waiver in a result, the one in which it covered something."""


def used_waivers(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The waivers that covered a finding, as they stand in the configuration."""
    given = result.get("waivers")
    used = [one for one in given if one.get("state") == _USED] if isinstance(given, list) else []
    return [{key: one.get(key) for key in _OF_WAIVER} for one in used]


def find(connection: Connection, testbed: str | None, suite: SuiteRef | None) -> list[StoredComparison]:
    """The stored comparisons, the newest first. Raises ValueError for damaged content."""
    where: list[ColumnElement[bool]] = []
    if testbed is not None:
        where.append(_table.c.testbed == testbed)
    if suite is not None:
        where += [_table.c.suite == suite.name, _table.c.suite_version == suite.version]
    columns = [column for column in _table.c if column.name != "data"]
    found = []
    for id_, created, machine, name, version, baseline, candidate, decision, digest in connection.execute(
        select(*columns).where(*where)
    ):
        time = stored_values.time_from(created)
        if time is None:
            raise ValueError("a comparison without a time")
        one = StoredComparison(
            time, machine, SuiteRef(name, version), Version.parse(baseline), Version.parse(candidate), decision
        )
        found.append(replace(one, digest=digest, id=id_))
    return sorted(found, key=lambda one: (one.created, one.id), reverse=True)


def document(connection: Connection, id_: int) -> dict[str, Any] | None:
    """The result as JSON; None if there is none. Raises ValueError for damaged content."""
    data = connection.execute(select(_table.c.data).where(_table.c.id == id_)).scalar()
    if data is None:
        return None
    unpacking = zlib.decompressobj()
    try:
        content = unpacking.decompress(data, MAX_DOCUMENT_BYTES)
    except zlib.error as error:
        raise ValueError(str(error)) from None
    if not unpacking.eof:
        raise ValueError("a comparison that is cut off or too large")
    result = json.loads(content)
    if not isinstance(result, dict):
        raise TypeError("a comparison that is no object")
    return result


def of_holding(comparison: StoredComparison, holding: Holding) -> bool:
    """Whether runs of the holding were compared."""
    return (comparison.testbed, comparison.suite) == (holding.testbed, holding.suite) and holding.version in (
        comparison.baseline,
        comparison.candidate,
    )


def delete_of(connection: Connection, holding: Holding) -> int:
    """Delete the comparisons of these runs, which are deleted too; how many there were."""
    version = str(holding.version)
    deleted = connection.execute(
        delete(_table).where(
            _table.c.testbed == holding.testbed,
            _table.c.suite == holding.suite.name,
            _table.c.suite_version == holding.suite.version,
            or_(_table.c.baseline == version, _table.c.candidate == version),
        )
    )
    return deleted.rowcount


def _same_versions(comparison: StoredComparison) -> list[ColumnElement[bool]]:
    return [
        _table.c.testbed == comparison.testbed,
        _table.c.suite == comparison.suite.name,
        _table.c.suite_version == comparison.suite.version,
        _table.c.baseline == str(comparison.baseline),
        _table.c.candidate == str(comparison.candidate),
    ]


def _digest(document: Mapping[str, Any]) -> str:
    said = {key: value for key, value in document.items() if key not in _NOT_SAID}
    return hashlib.sha256(json.dumps(said, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
