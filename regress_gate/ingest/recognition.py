"""Which reader a content is for. Most files of an import look alike, so readers are asked once about those that do."""

from collections.abc import Sequence

from regress_gate.ingest.content import Content
from regress_gate.ingest.interface import Certainty, Reader, RefusalError
from regress_gate.ingest.registry import LOOK_INTO_TEXTS

_PLAIN = frozenset([type(None), bool, int, float, str])
_REMEMBERED = 1000

Shape = tuple[tuple[str, ...], tuple[type, ...]]
Claims = tuple[tuple[Certainty, Reader], ...]


class Recogniser:
    """Asks the readers, for one import."""

    def __init__(self, readers: Sequence[Reader]) -> None:
        self._readers = readers
        self._by_text = [reader for reader in readers if reader.name in LOOK_INTO_TEXTS]
        self._by_shape = [reader for reader in readers if reader.name not in LOOK_INTO_TEXTS]
        self._known: dict[Shape, Claims] = {}

    def reader(self, content: Content) -> Reader | None:
        """The one that is surest that the content is its own. Raises RefusalError where two are equally sure."""
        claims = self._claims(content.beginning)
        if not claims:
            return None
        surest = max(certainty for certainty, _ in claims)
        claimants = [reader for certainty, reader in claims if certainty is surest]
        if len(claimants) > 1:
            names = " and ".join(reader.name for reader in self._readers if reader in claimants)
            raise RefusalError(f"could be {names}; say which with --from")
        return claimants[0]

    def _claims(self, content: Content) -> Claims:
        shape = _shape(content)
        if shape is None:
            return _asked(self._readers, content)
        if (known := self._known.get(shape)) is None:
            known = _asked(self._by_shape, content)
            if len(self._known) < _REMEMBERED:
                self._known[shape] = known
        return known + _asked(self._by_text, content)


def _shape(content: Content) -> Shape | None:
    """Keys and types of the values, in their order, of a file that is one object of plain values; None for others."""
    document = content.documents[0] if len(content.documents) == 1 else None
    if not isinstance(document, dict):
        return None
    types = tuple(map(type, document.values()))
    return (tuple(document), types) if _PLAIN.issuperset(types) else None


def _asked(readers: Sequence[Reader], content: Content) -> Claims:
    claims = ((reader.recognises(content), reader) for reader in readers)
    return tuple((certainty, reader) for certainty, reader in claims if certainty is not Certainty.NO)
