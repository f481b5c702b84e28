"""Plain lists: what is stored, shipped or configured, one thing a line, for people and for pipes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from regress_gate.report.document import Column, Detail, Document, Paragraph, Row, Table, View
from regress_gate.text import sanitise


@dataclass(frozen=True, slots=True)
class ListView(View):
    """A table without rules; a row is never wrapped, so that `grep` and `cut` work on it."""

    titles: Sequence[str]
    rows: Sequence[Sequence[object]]
    """Numbers stand right; None is `not set`."""
    values: Any = None
    """What `--format json` prints."""
    empty: str = ""
    """Printed instead of a table without rows; without it, the titles are."""
    notes: Sequence[str] = ()
    """Lines below the table."""

    def document(self, detail: Detail) -> Document:  # noqa: ARG002 - there is nothing to leave out
        if not self.rows and self.empty:
            return Document("", (Table.of((Column(),), (Row((self.empty,)),), is_wrapped=False),))
        columns = tuple(
            Column(title, is_right=bool(self.rows) and all(isinstance(row[index], int | float) for row in self.rows))
            for index, title in enumerate(self.titles)
        )
        rows = tuple(Row(tuple(map(value_text, row))) for row in self.rows)
        table = Table.of(columns, rows, is_wrapped=False)
        return Document("", (table, *map(Paragraph, self.notes)))

    def data(self) -> Any:
        return self.values


def value_text(value: object) -> str:
    """A value of a file or a table in one line."""
    if value is None:
        return "not set"
    if isinstance(value, list | tuple):
        return ", ".join(value_text(item) for item in value) or "none"
    if isinstance(value, dict):
        return ", ".join(f"{value_text(key)}={value_text(item)}" for key, item in value.items()) or "none"
    return str(value)


def printable(value: object) -> str:
    """The same for a message: without anything that a terminal would obey."""
    return sanitise(value_text(value))
