"""Outside text made fit for a one-line message or a stored name. Not for escaping markup: renderers do that."""

import re
import unicodedata
from collections.abc import Iterable
from difflib import get_close_matches
from functools import lru_cache

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9 ._+=@,-]*[A-Za-z0-9._+=@,-])?")
_NO_NAME = re.compile(r"[^A-Za-z0-9._+=]+")
MAX_NAME = 80
MAX_PATH = 4096


def excerpt(text: str, limit: int = 200) -> str:
    """The text without control characters, bidirectional marks and lone surrogates, cut to `limit` characters."""
    if len(text) <= limit and text.isprintable():
        return text
    kept = "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text[:limit])
    return kept + "…" if len(text) > limit else kept


def quoted(value: object) -> str:
    """A value as it may stand in a message: quoted and short."""
    return excerpt(repr(value) if not isinstance(value, dict | list) else f"a {type(value).__name__}", 60)


def is_valid_name(text: str) -> bool:
    """Whether the text may name a scenario, a testbed, a run or a suite."""
    return len(text) <= MAX_NAME and _NAME.fullmatch(text) is not None


@lru_cache(maxsize=4096)
def slugify(text: str) -> str:
    """The text with everything that may not stand in a derived name turned into a hyphen."""
    return _NO_NAME.sub("-", text).strip("-._+=")


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


# MERGED regress_gate.report.text: Text from outside made harmless as text: no control codes, one line, signs that
# the reader's terminal has.  Escaping for a markup language is the matter of the format that writes it.


_ANSI = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # colours and cursor movements
    r"|(?:\x1b\]|\x9d)[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)"  # titles, links, clipboard
    r"|\x1b[ -/]*[0-~]"
)
_UNSAFE_CATEGORIES = {"Cc", "Cf", "Cs"}
"""Control codes; format characters (text direction, zero width, tags); halves of surrogate pairs."""
_REPLACEMENT = "\ufffd"

_ASCII_LIKENESS = {
    "→": "->",
    "−": "-",
    "–": "-",
    "—": "--",
    "±": "+/-",
    "×": "x",
    "≤": "<=",
    "≥": ">=",
    "…": "...",
    "·": "-",
    "•": "*",
    "─": "-",
    "‘": "'",
    "’": "'",
    "“": '"',
    "”": '"',
    "µ": "u",
}


def one_line(text: str) -> str:
    """One line without control or invisible characters.

    Escape sequences are dropped whole; any other such character leaves a visible mark, so that two texts that differ
    still look different.
    """
    words = " ".join(_ANSI.sub("", text).split())
    return "".join(_REPLACEMENT if unicodedata.category(char) in _UNSAFE_CATEGORIES else char for char in words)


def clip(text: str, limit: int) -> str:
    """At most `limit` characters; what is left out of the middle is an ellipsis."""
    if len(text) <= limit:
        return text
    head = limit * 2 // 3
    tail = limit - head - 1
    return text[:head] + "…" + text[len(text) - tail :]


def for_encoding(text: str, encoding: str) -> str:
    """The text with every character that the encoding lacks replaced by an ASCII likeness, or by `?`."""
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return "".join(_encodable(char, encoding) for char in text)
    except LookupError:
        return for_encoding(text, "ascii")
    return text


def _encodable(char: str, encoding: str) -> str:
    try:
        char.encode(encoding)
    except UnicodeEncodeError:
        decomposed = unicodedata.normalize("NFKD", char).encode("ascii", "ignore").decode()
        return _ASCII_LIKENESS.get(char) or decomposed or "?"
    return char


# MERGED regress_gate.model.nearest: The nearest known name for one that is unknown: what every "unknown …" error
# ends with.


def did_you_mean(unknown: str, known: Iterable[str], *, limit: int = 8) -> str:
    """` (did you mean 'x'?)` for a near name, else ` (known: a, b, …)`; empty when nothing is known."""
    names = [str(name) for name in known]
    if near := get_close_matches(unknown, names, n=1, cutoff=0.6):
        return f" (did you mean {near[0]!r}?)"
    if not names:
        return ""
    return f" (known: {', '.join(names[:limit])}{', …' if len(names) > limit else ''})"


def natural_key(text: str) -> tuple[tuple[int, str], ...]:
    """Orders `run2` before `run10`; different texts have different keys."""
    parts = re.split(r"([0-9]+)", text)
    return (*((int(part), part) if part.isdecimal() and part.isascii() else (-1, part) for part in parts), (-2, text))


def duration_text(seconds: float) -> str:
    """`40 s`, `12 min`, `1 h 05 min`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"
