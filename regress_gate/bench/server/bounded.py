"""Values as a server printed them, made fit to be kept: plain JSON, bounded in size, without secrets. Not a reader."""

from collections.abc import Mapping, Set
from itertools import islice
from math import isfinite
from typing import Any

from regress_gate.bench.server.masking import MASK, mask, names_secret

MAX_ENTRIES = 200
"""Of a mapping or a list; the first are kept."""
MAX_LENGTH = 500
"""Characters of a string."""
MAX_INNER = 4 * MAX_LENGTH
"""Characters, as text, of a mapping or a list within another; a longer one is kept as cut text."""
MAX_DEPTH = 4
"""Levels of nesting; what is deeper is kept as text."""
_LARGEST = 2**53
"""Integers beyond it are not the same number to every reader of JSON."""


def plain(value: Any, depth: int = MAX_DEPTH) -> Any:
    """The value, or what can be kept of it."""
    if value is None or isinstance(value, bool) or (isinstance(value, int) and abs(value) <= _LARGEST):
        return value
    if isinstance(value, float) and isfinite(value):
        return value
    if not isinstance(value, (Mapping, list, tuple, Set)) or depth == 0:
        return _text(value)
    if isinstance(value, Mapping):
        some = islice(value.items(), MAX_ENTRIES)
        return {_text(key): MASK if _hides(key, entry) else _inner(entry, depth - 1) for key, entry in some}
    return [_inner(entry, depth - 1) for entry in islice(value, MAX_ENTRIES)]


def _inner(value: Any, depth: int) -> Any:
    kept = plain(value, depth)
    return kept if isinstance(kept, str) or len(str(kept)) <= MAX_INNER else _text(kept)


def _hides(key: object, entry: object) -> bool:
    return isinstance(entry, (str, list, tuple)) and bool(entry) and entry != "None" and names_secret(str(key))


def _text(value: object) -> str:
    """Without what cannot be written as UTF-8, as a lone surrogate."""
    try:
        text = str(value)[:MAX_INNER]
    except (RecursionError, ValueError):  # nested, or a number of more digits, than can be written
        return "…"
    text = mask(text).encode("utf-8", "replace").decode("utf-8")
    return text if len(text) <= MAX_LENGTH else text[: MAX_LENGTH - 1] + "…"
