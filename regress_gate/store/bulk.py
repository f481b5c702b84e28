"""Inserting many rows: by SQLAlchemy's words and the driver's executemany.

SQLAlchemy's own way looks at each value of each row, which takes longer than SQLite needs to store it. Only for columns
whose values the drivers take as they are: whole numbers, floats, texts, bytes and truth values.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from sqlalchemy import Column, Connection, Dialect, Table, func, insert, select

Row = tuple[Any, ...]


def insert_rows(connection: Connection, table: Table, columns: tuple[str, ...], rows: Sequence[Row]) -> None:
    """At least one row, with values for the named columns, which stand in the table's order."""
    statement, is_positional = _statement(table, columns, connection.dialect)
    if is_positional:
        connection.exec_driver_sql(statement, list(rows))
    else:
        connection.exec_driver_sql(statement, [dict(zip(columns, row, strict=True)) for row in rows])


def insert_with_ids(
    connection: Connection, id_: Column[int], columns: tuple[str, ...], rows: Sequence[Row]
) -> Sequence[int]:
    """The same; the ids that the rows got, in their order."""
    before = connection.execute(select(func.max(id_))).scalar() or 0
    insert_rows(connection, id_.table, columns, rows)
    # Nobody else writes meanwhile. A database counts up, one row after the other, from beyond all that there are.
    return connection.execute(select(id_).where(id_ > before).order_by(id_)).scalars().all()


@lru_cache(maxsize=16)
def _statement(table: Table, columns: tuple[str, ...], dialect: Dialect) -> tuple[str, bool]:
    """The statement in the driver's own words, and whether it takes its values by their places."""
    compiled = insert(table).compile(dialect=dialect, column_keys=list(columns))
    places = compiled.positiontup
    if places is not None and tuple(places) != columns:
        raise ValueError(f"columns of {table.name} in another order than the table's")
    return str(compiled), places is not None
