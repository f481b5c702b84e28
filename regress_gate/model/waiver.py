"""Waivers: a dated, owned, size-capped permission to pass in spite of one finding."""

from datetime import date
from fnmatch import fnmatchcase
from typing import Annotated

from pydantic import Field, StringConstraints

from regress_gate.model.documents import Real, StrictModel

Line = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=500)]


class Waiver(StrictModel):
    """All keys are required: a permission without an end, an owner, a cap or a reason is a hole in the gate."""

    finding: Line
    """A series as `scenario/metric` (glob patterns allowed) or a known issue's id."""
    until: date
    """Last day on which it holds."""
    max_change: Annotated[Real, Field(gt=0)]
    """Largest loss that is waived, on the scale of the series' change: the upper end of its interval must lie below.
    For a known issue it has no effect."""
    owner: Line
    reason: Line

    def covers(self, finding: str) -> bool:
        return fnmatchcase(finding, self.finding)

    def is_expired(self, today: date) -> bool:
        return today > self.until
