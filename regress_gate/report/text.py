"""Text from outside made harmless as text: no control codes, one line, signs that the reader's terminal has.

Escaping for a markup language is the matter of the format that writes it.
"""

import re
import unicodedata

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


def clean(text: str) -> str:
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
