"""Looks of the watch in the store, inside a transaction of the repository. Not for what a look found means."""

import orjson
from sqlalchemy import Connection, delete, insert, select

from regress_gate.model.version import Version
from regress_gate.store import schema, stored_values
from regress_gate.store.store_interface import StoredLook

_table = schema.look


def put(connection: Connection, look: StoredLook) -> None:
    """Store a look in place of the one of its name."""
    row = {
        "name": stored_values.name("look", look.name),
        "place": stored_values.name("look", look.place),
        "begun": stored_values.time_text(look.begun),
        "ended": stored_values.time_text(look.ended),
        "candidate": "" if look.candidate is None else str(look.candidate),
        "data": orjson.dumps(dict(look.data), option=orjson.OPT_SORT_KEYS).decode(),
    }
    connection.execute(delete(_table).where(_table.c.name == row["name"]))
    connection.execute(insert(_table).values(row))


def find(connection: Connection, place: str | None) -> list[StoredLook]:
    """The looks at a place, or all; the oldest first. Raises ValueError for damaged content."""
    query = select(_table).order_by(_table.c.begun, _table.c.name)
    found = []
    for row in connection.execute(query if place is None else query.where(_table.c.place == place)).mappings():
        begun, data = stored_values.time_from(row["begun"]), orjson.loads(row["data"])
        if begun is None or not isinstance(data, dict):
            raise ValueError("a look without a time or without content")
        candidate = Version.parse(row["candidate"]) if row["candidate"] else None
        ended = stored_values.time_from(row["ended"])
        found.append(StoredLook(row["name"], row["place"], begun, ended, candidate, data))
    return found
