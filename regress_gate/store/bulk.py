"""Inserting many rows: by SQLAlchemy's words and the driver's executemany.

SQLAlchemy's own way looks at each value of each row, which takes longer than SQLite needs to store it. Only for columns
whose values the drivers take as they are: whole numbers, floats, texts, bytes and truth values.
"""

from collections.abc import Sequence
from operator import itemgetter
from typing import Any

from sqlalchemy import Connection, Table, insert


def insert_rows(connection: Connection, table: Table, rows: Sequence[dict[str, Any]]) -> None:
    """Rows by column name, all with the same columns; at least one row, and two columns."""
    statement = insert(table).compile(dialect=connection.dialect, column_keys=list(rows[0]))
    if (names := statement.positiontup) is None:
        connection.exec_driver_sql(str(statement), list(rows))
    else:
        connection.exec_driver_sql(str(statement), list(map(itemgetter(*names), rows)))
