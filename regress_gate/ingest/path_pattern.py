"""`--pattern '{version}/run{run}/{scenario}-r{trial}.json'`: identity from where a file lies.

A pattern is matched against the end of the file's absolute path. Everything in it but fields and `*` is literal text.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Self

from regress_gate.errors import InputError
from regress_gate.model.nearest import did_you_mean

FIELDS = ("version", "testbed", "suite", "scenario", "run", "trial")
_PART = re.compile(r"\{([^{}]*)\}|(\*+)|([{}])|([^{}*]+)")
_MAX_LENGTH = 300
_MAX_STARS = 4  # each multiplies the ways in which a long name can be tried

# Neither a field nor a star crosses a folder border.
_VALUE = dict.fromkeys(FIELDS, r"[^/]+") | {"trial": r"\d{1,6}"}


@dataclass(frozen=True, slots=True)
class PathPattern:
    text: str
    _regex: re.Pattern[str]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Compile a pattern; raises InputError for unknown or repeated fields."""

        def wrong(what: str, todo: str | None = None) -> InputError:
            return InputError(what, where="--pattern", todo=todo)

        if len(text) > _MAX_LENGTH:
            raise wrong(f"longer than {_MAX_LENGTH} characters")
        pieces, seen, open_ended = [], set[str](), False
        for field, star, brace, literal in (found.groups() for found in _PART.finditer(text)):
            if brace:
                raise wrong(f"{brace!r} without its partner", f"fields are {_listed()}")
            if literal:
                pieces.append(re.escape(literal))
                open_ended = False
                continue
            if open_ended:
                raise wrong("two fields or stars without text between them", "put text or / between them")
            open_ended = True
            if star:
                pieces.append("[^/]*")
                continue
            if field not in FIELDS:
                raise wrong(f"unknown field {{{field}}}" + did_you_mean(field or "", FIELDS))
            if field in seen:
                raise wrong(f"field {{{field}}} is given twice")
            seen.add(field)
            pieces.append(f"(?P<{field}>{_VALUE[field]})")
        if not seen:
            raise wrong("holds no field", f"fields are {_listed()}")
        if text.count("*") > _MAX_STARS:
            raise wrong(f"more than {_MAX_STARS} stars")
        return cls(text, re.compile("(?:^|/)" + "".join(pieces).removeprefix("/") + r"\Z"))

    def match(self, path: PurePath) -> Mapping[str, str] | None:
        """The fields' values for an absolute path; None when the path does not end like the pattern."""
        found = self._regex.search(path.as_posix())
        return None if found is None else found.groupdict()


def _listed() -> str:
    return ", ".join(f"{{{name}}}" for name in FIELDS)
