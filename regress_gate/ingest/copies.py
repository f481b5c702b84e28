"""Results that were read before: the same bytes, or the same numbers, are one measurement wherever they lie.

Not for results that are in the store: those are known by their bytes alone.
"""

from typing import NamedTuple

from regress_gate.ingest.identity import Identity
from regress_gate.ingest.interface import Reading
from regress_gate.ingest.reports import Outcome
from regress_gate.model.metric import METRICS
from regress_gate.model.testbed import Testbed

_TIMED = frozenset(name for name, metric in METRICS.items() if metric.unit in ("s", "1/s"))
_TELLING = 10
"""Digits of times and rates from which on two measurements do not have all of them in common."""


class Seen(NamedTuple):
    """A result that was read."""

    path: str
    where: str
    """The path, and which result of the file."""
    reading: Reading
    identity: Identity


class Copies:
    """Remembers the results of one import."""

    def __init__(self) -> None:
        self.paths: set[str] = set()
        """Of files that hold what was read in another place."""
        self._by_hash: dict[str, Seen] = {}
        self._by_numbers: dict[tuple[object, ...], list[Seen]] = {}

    def of_bytes(self, sha256: str) -> Seen | None:
        """The first result that was read from such bytes."""
        return self._by_hash.get(sha256)

    def of_numbers(self, sha256: str, new: Seen) -> Seen | None:
        """An earlier result with all numbers of this one, which is remembered where there is none."""
        self._by_hash.setdefault(sha256, new)
        reading = new.reading
        numbers = (reading.duration, reading.completed, reading.failed, frozenset(reading.metrics.values()))
        alike = self._by_numbers.setdefault(numbers, [])
        for seen in alike:
            if seen.reading.metrics == reading.metrics and _is_telling(reading):
                return seen
        alike.append(new)
        return None

    def told(self, path: str, what: str, place: str, seen: Seen, here: Identity) -> tuple[Outcome, str]:
        """A copy is skipped; one whose place says that it is something else is an error: one of them is misplaced."""
        self.paths.add(path)
        for field in ("version", "testbed", "suite", "scenario", "run"):
            mine, theirs = getattr(here, field), getattr(seen.identity, field)
            if mine != theirs:
                which = f"its {field} is {_told(mine)} here and {_told(theirs)} there"
                return Outcome.REFUSED, f"the same {what} as {place}, but {which}: one is misplaced"
        return Outcome.SKIPPED, f"the same {what} as {place}"


def _is_telling(reading: Reading) -> bool:
    """Whether no other result has these numbers by chance, as scores, sizes and coarse times may come again."""
    timed = {value for name, value in reading.metrics.items() if name in _TIMED}
    if reading.duration is not None:
        timed.add(reading.duration)
    return sum(map(_digits, timed)) >= _TELLING


def _digits(value: float) -> int:
    """How many it takes to write the value, without the noise of a change of units."""
    return len(f"{value:.11e}".partition("e")[0].replace(".", "").rstrip("0"))


def _told(value: object) -> str:
    return "not stated" if value is None else value.name if isinstance(value, Testbed) else str(value)
