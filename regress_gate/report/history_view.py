"""What every format of a history is given: its lines, and the changes that are told."""

from collections.abc import Sequence
from dataclasses import dataclass

from regress_gate.gate.history import Line
from regress_gate.gate.history_changes import Change, Changes


@dataclass(frozen=True, slots=True, eq=False)
class LineView:
    line: Line
    changes: Changes | None
    """Those that are told; None where nobody asked for any."""
    improvements: int = 0
    """Changes for the better that are not told."""

    @property
    def told(self) -> Sequence[Change]:
        return () if self.changes is None else self.changes.found


@dataclass(frozen=True, slots=True, eq=False)
class HistoryView:
    suite: str
    testbed: str
    lines: Sequence[LineView]
