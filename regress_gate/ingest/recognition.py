"""Which reader a content is for. Most files of an import look alike, so readers are asked once about those that do."""

from collections.abc import Iterable, Sequence

from regress_gate.ingest.content import Content
from regress_gate.ingest.interface import Certainty, Reader, RefusalError
from regress_gate.ingest.registry import MARKS_IN_TEXTS

_NO_OBJECT = frozenset([type(None), bool, int, float, str, list])
_REMEMBERED = 1000

Kind = type | frozenset[type]
"""Of a list: the types of its elements."""
Shape = tuple[tuple[str, ...], tuple[Kind, ...], bool]
"""Of an object without objects in it: its keys, the kinds of their values, and whether a text of it holds one of
MARKS_IN_TEXTS."""
Claims = tuple[tuple[Certainty, Reader], ...]


class Recogniser:
    """Asks the readers, for one import."""

    def __init__(self, readers: Sequence[Reader]) -> None:
        self._readers = readers
        self._known: dict[Shape, Claims] = {}

    def reader(self, content: Content) -> Reader | None:
        """The one that is surest that the content is its own. Raises RefusalError where two are equally sure."""
        claims = self._claims(content)
        if len(claims) <= 1:
            return claims[0][1] if claims else None
        surest = max(certainty for certainty, _ in claims)
        claimants = [reader for certainty, reader in claims if certainty is surest]
        if len(claimants) > 1:
            names = " and ".join(reader.name for reader in self._readers if reader in claimants)
            raise RefusalError(f"could be {names}; say which with --from")
        return claimants[0]

    def _claims(self, content: Content) -> Claims:
        document = content.documents[0] if len(content.documents) == 1 else None
        if not isinstance(document, dict) or content.stream is not None:
            return _asked(self._readers, content.beginning)
        values = document.values()
        kinds = tuple(map(_kind, values))
        shape = (tuple(document), kinds, _is_marked(values))
        if (known := self._known.get(shape)) is None:
            known = _asked(self._readers, content)
            if len(self._known) < _REMEMBERED and all(map(_holds_no_object, kinds)):
                self._known[shape] = known
        return known


def _kind(value: object) -> Kind:
    return frozenset(map(type, value)) if isinstance(value, list) else type(value)


def _holds_no_object(kind: Kind) -> bool:
    return kind <= _NO_OBJECT if isinstance(kind, frozenset) else kind in _NO_OBJECT


def _is_marked(values: Iterable[object]) -> bool:
    texts = [value for value in values if type(value) is str]
    return any(mark in text for mark in MARKS_IN_TEXTS for text in texts)


def _asked(readers: Sequence[Reader], content: Content) -> Claims:
    claims = ((reader.recognises(content), reader) for reader in readers)
    return tuple((certainty, reader) for certainty, reader in claims if certainty is not Certainty.NO)
