"""Applying waivers: each finding is held against each waiver, and each waiver says what became of it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Literal

from regress_gate.model.result import WaiverOut
from regress_gate.model.waiver import Waiver

State = Literal["used", "expired", "exceeded", "unused"]


@dataclass(slots=True)
class WaiverBook:
    """The waivers of one decision. A waiver that is expired or exceeded does not hold: the finding counts again."""

    waivers: Sequence[Waiver]
    today: date
    _states: dict[int, tuple[State, str]] = field(default_factory=dict)

    def covers(self, finding: str, change: float | None) -> bool:
        """Whether a waiver holds for this finding; `change` is the largest loss that it may be,
        None for a known issue."""
        held = False
        for index, waiver in enumerate(self.waivers):
            if not waiver.covers(finding):
                continue
            if waiver.is_expired(self.today):
                self._note(index, "expired", f"ended on {waiver.until}; {finding} counts again")
            elif change is not None and change > waiver.max_change:
                self._note(
                    index,
                    "exceeded",
                    f"{finding} may have lost {change:.1%}, more than the {waiver.max_change:.1%} waived",
                )
            else:
                self._note(index, "used", f"covers {finding}")
                held = True
        return held

    def _note(self, index: int, state: State, detail: str) -> None:
        # What a reader must act on outranks what worked: one exceeded finding makes the whole waiver exceeded.
        rank = {"unused": 0, "used": 1, "exceeded": 2, "expired": 2}
        known = self._states.get(index)
        if known is None or rank[state] > rank[known[0]]:
            self._states[index] = state, detail
        elif known[0] == state:
            self._states[index] = state, f"{known[1]}; {detail}"

    def outcome(self) -> list[WaiverOut]:
        results = []
        for index, waiver in enumerate(self.waivers):
            unused = "expired on {0}, and nothing needs it" if waiver.is_expired(self.today) else "nothing needs it"
            state, detail = self._states.get(index, ("unused", unused.format(waiver.until)))
            results.append(WaiverOut(**waiver.model_dump(), state=state, detail=detail))
        return results
