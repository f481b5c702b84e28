"""The documents of a file one by one: a refused one does not take the others with it."""

from collections.abc import Callable, Iterable
from typing import TypeVar

from regress_gate.ingest.interface import NoReading, Reading, RefusalError
from regress_gate.ingest.reports import Outcome

T = TypeVar("T")


def read_each(documents: Iterable[T], read: Callable[[T, int], Reading | NoReading]) -> list[Reading | NoReading]:
    """What `read` makes of each document and its place, or the refusal that it raises."""
    return [_read_one(document, place, read) for place, document in enumerate(documents)]


def _read_one(document: T, place: int, read: Callable[[T, int], Reading | NoReading]) -> Reading | NoReading:
    try:
        return read(document, place)
    except RefusalError as refusal:
        return NoReading(place, Outcome.REFUSED, str(refusal))
