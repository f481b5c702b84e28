"""Text for people: text from outside made harmless, plurals, the order of names, names made from text.

Not for escaping markup, which each format does for itself. What a secret looks like is known to `redaction`.
"""

import re
import unicodedata
from collections.abc import Iterable
from difflib import get_close_matches
from functools import lru_cache
from typing import Any

from regress_gate.redaction import redact

MAX_NAME = 80
MAX_PATH = 4096
_LONGEST_URL = 2000

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9 ._+=@,-]*[A-Za-z0-9._+=@,-])?")
_NOT_IN_SLUG = re.compile(r"[^A-Za-z0-9._+=]+")
_DIGITS = re.compile(r"([0-9]+)")

_ANSI = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # colours and cursor movements
    r"|(?:\x1b\]|\x9d)[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)"  # titles, links, clipboard
    r"|\x1b[ -/]*[0-~]"
)
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"

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
    "✓": "=",
    "▲": "^",
    "✗": "X",
}


def sanitise(text: str) -> str:
    """The text without anything that a terminal would act on or a reader could not see, on one line, without secrets.

    Escape sequences are dropped, and every kind of white space becomes a space. Any other character that is not
    printable (control codes, text direction, zero width, lone surrogates) becomes a visible mark, so that two texts
    that differ still look different. `##[`, which the runner of GitHub Actions takes for a command anywhere in a line
    of a log, is parted.
    """
    if not text.isprintable():
        text = "".join(
            character if character.isprintable() else " " if character.isspace() else _REPLACEMENT
            for character in drop_escapes(text)
        )
    return redact(text.replace("##[", "# #["))


_COMMAND = re.compile(r"^([^\S\n]*):(?=:.*::)|##(?=\[)", re.MULTILINE)


def without_workflow_commands(text: str) -> str:
    """Lines for a log, of which the runner of GitHub Actions takes none for a command: `::name::text`, `##[name]text`.

    The first is one at the start of a line, also after white space, the second anywhere: both are parted by a blank.
    Source: actions/runner, ActionCommand.cs.
    """
    if "::" not in text and "##[" not in text:
        return text
    return _COMMAND.sub(lambda found: "# #" if found[1] is None else f"{found[1]}: ", text)


def drop_escapes(text: str) -> str:
    """The text without escape sequences: colours, cursor movements, titles, links. Other control characters stay."""
    return _ANSI.sub("", text)


def one_line(text: str) -> str:
    """`sanitise`, and each run of white space as one space."""
    return " ".join(sanitise(text).split())


def excerpt(text: str, limit: int = 200) -> str:
    """`sanitise` of the first `limit` characters, with an ellipsis for the rest."""
    if len(text) <= limit:
        return sanitise(text)
    # Secrets are masked before the cut: half a URL may not be recognised as one.
    return sanitise(redact(text[: limit + _LONGEST_URL])[:limit]) + "…"


def quoted(value: object) -> str:
    """A value in a message: quoted and short; of a list or a table only what it is."""
    return excerpt(repr(value) if not isinstance(value, dict | list) else f"a {type(value).__name__}", 60)


def clip(text: str, limit: int) -> str:
    """At most `limit` characters of the text, with an ellipsis for what is left out of its middle."""
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
        return "".join(_encodable(character, encoding) for character in text)
    except LookupError:
        return for_encoding(text, "ascii")
    return text


def _encodable(character: str, encoding: str) -> str:
    try:
        character.encode(encoding)
    except UnicodeEncodeError:
        decomposed = unicodedata.normalize("NFKD", character).encode("ascii", "ignore").decode()
        return _ASCII_LIKENESS.get(character) or decomposed or "?"
    return character


def plural(count: int, noun: str, nouns: str | None = None) -> str:
    """`1 run`, `5 runs`; `nouns` is for a plural that is not the singular and an s."""
    return f"{count} {noun if count == 1 else nouns or noun + 's'}"


def duration_text(seconds: float) -> str:
    """`40 s`, `12 min`, `1 h 05 min`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


def natural_key(text: str) -> tuple[Any, ...]:
    """Sorts `run2` before `run10`. Different texts have different keys."""
    parts: list[Any] = _DIGITS.split(text)  # texts and numbers alternate, so only like is compared with like
    parts[1::2] = [(len(number := digits.lstrip("0")), number, digits) for digits in parts[1::2]]
    return tuple(parts)


def is_valid_name(text: str) -> bool:
    """Whether the text may name a scenario, a testbed, a run or a suite."""
    return len(text) <= MAX_NAME and _NAME.fullmatch(text) is not None


@lru_cache(maxsize=4096)
def slugify(text: str) -> str:
    """The text as a part of a name that is made from it: what may not stand in one becomes a hyphen."""
    return _NOT_IN_SLUG.sub("-", text).strip("-._+=")


def nearest(unknown: str, known: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """The known name that is most like the unknown one; None where none reaches `cutoff`, a similarity from 0 to 1."""
    return next(iter(get_close_matches(unknown, known, n=1, cutoff=cutoff)), None)


def did_you_mean(unknown: str, known: Iterable[str], *, limit: int = 8) -> str:
    """The end of an error about an unknown name: ` (did you mean 'x'?)`, or else ` (known: a, b, …)`.

    Empty where nothing is known.
    """
    names = [str(name) for name in known]
    if (near := nearest(unknown, names)) is not None:
        return f" (did you mean {near!r}?)"
    if not names:
        return ""
    return f" (known: {', '.join(names[:limit])}{', …' if len(names) > limit else ''})"
