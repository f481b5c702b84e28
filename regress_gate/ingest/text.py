"""Outside text made fit for a one-line message or a stored name. Not for escaping markup: renderers do that."""

import re
from functools import lru_cache

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9 ._+=@,-]*[A-Za-z0-9._+=@,-])?")
_NO_NAME = re.compile(r"[^A-Za-z0-9._+=]+")
MAX_NAME = 80
MAX_PATH = 4096


def clean(text: str, limit: int = 200) -> str:
    """The text without control characters, bidirectional marks and lone surrogates, cut to `limit` characters."""
    if len(text) <= limit and text.isprintable():
        return text
    kept = "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text[:limit])
    return kept + "…" if len(text) > limit else kept


def shown(value: object) -> str:
    """A value as it may stand in a message: quoted and short."""
    return clean(repr(value) if not isinstance(value, dict | list) else f"a {type(value).__name__}", 60)


def is_name(text: str) -> bool:
    """Whether the text may name a scenario, a testbed, a run or a suite."""
    return len(text) <= MAX_NAME and _NAME.fullmatch(text) is not None


@lru_cache(maxsize=4096)
def sanitised(text: str) -> str:
    """The text with everything that may not stand in a derived name turned into a hyphen."""
    return _NO_NAME.sub("-", text).strip("-._+=")


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
