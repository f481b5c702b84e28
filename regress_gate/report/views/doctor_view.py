"""The report of `doctor`: what was looked at, what is missing or stale, and what to do about it."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from regress_gate.errors import ExitCode
from regress_gate.report.document import (
    Block,
    Detail,
    Document,
    Inline,
    Paragraph,
    Row,
    Section,
    Style,
    Styled,
    Table,
    View,
)
from regress_gate.report.document import Column as TableColumn
from regress_gate.text import plural


class Health(StrEnum):
    """What a check found, the worst first."""

    BROKEN = "broken"
    """Cannot be used."""
    STALE = "stale"
    """Old, changed or unknown, so that a pass says less than it seems to."""
    NOTE = "note"
    """Something is not there, which nothing needs yet."""
    FINE = "fine"


@dataclass(frozen=True, slots=True)
class CheckedItem:
    """One thing that was looked at."""

    what: str
    """`store`, `workflow upgrade-gate`."""
    health: Health
    text: str
    todo: str = ""
    """What to do about it; empty for what is fine."""
    exit_code: ExitCode = ExitCode.PASS
    """Of a broken one: USAGE for a file of the user, COULD_NOT_MEASURE for the surroundings."""


@dataclass(frozen=True, slots=True)
class DoctorView(View):
    items: Sequence[CheckedItem]

    @property
    def exit_code(self) -> ExitCode:
        """2 if a file of the user is broken, 4 if the store or the network is, 3 if something is stale; else 0."""
        codes = {item.exit_code for item in self.items if item.health is Health.BROKEN}
        for code in (ExitCode.USAGE, ExitCode.COULD_NOT_MEASURE):
            if code in codes:
                return code
        return ExitCode.INCONCLUSIVE if self._with(Health.STALE) else ExitCode.PASS

    def document(self, detail: Detail) -> Document:
        broken, stale, notes, fine = (self._with(health) for health in Health)
        counts = [plural(len(stale), "thing") + " stale or unknown"] if stale else []
        counts = [f"{len(broken)} broken", *counts] if broken else counts
        title = ", ".join(counts) if counts else f"nothing is broken or stale ({plural(len(self.items), 'check')})"
        blocks: list[Block] = []
        if attention := [*broken, *stale]:
            blocks.append(_table(attention))
        if notes:
            blocks.append(_table(notes))
        if fine and (detail.verbose or detail.is_full):
            blocks.append(Section("Fine", (_table(fine),), is_folded=detail.is_page))
        elif fine:
            blocks.append(Paragraph(f"fine: {', '.join(item.what for item in fine)}"))
        return Document(title, tuple(blocks), name="What is missing or stale")

    def data(self) -> Any:
        return {
            "schema_version": "1",
            "exit_code": int(self.exit_code),
            "items": [
                {"what": item.what, "health": item.health.value, "text": item.text, "todo": item.todo or None}
                for item in self.items
            ],
        }

    def _with(self, health: Health) -> list[CheckedItem]:
        return [item for item in self.items if item.health is health]


_STYLES = {
    Health.BROKEN: Style.BAD,
    Health.STALE: Style.WARNING,
    Health.NOTE: Style.MUTED,
    Health.FINE: Style.GOOD,
}


def _table(items: Sequence[CheckedItem]) -> Table:
    rows: list[Row] = []
    for item in items:
        sign: Inline = Styled(item.health.value, _STYLES[item.health])
        rows.append(Row((sign, item.what, item.text)))
        if item.todo:
            rows.append(Row(("", "", f"→ {item.todo}")))
    return Table.of((TableColumn(), TableColumn(), TableColumn()), tuple(rows), is_wrapped=False)
