"""The nearest known name for one that is unknown: what every "unknown …" error ends with."""

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(unknown: str, known: Iterable[str], *, limit: int = 8) -> str:
    """` (did you mean 'x'?)` for a near name, else ` (known: a, b, …)`; empty when nothing is known."""
    names = [str(name) for name in known]
    if near := get_close_matches(unknown, names, n=1, cutoff=0.6):
        return f" (did you mean {near[0]!r}?)"
    if not names:
        return ""
    return f" (known: {', '.join(names[:limit])}{', …' if len(names) > limit else ''})"
