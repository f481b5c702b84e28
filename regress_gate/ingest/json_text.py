"""JSON text to values: one document, or several one after another. Not for knowing what the values mean.

orjson does the work; the standard library is asked only when orjson refuses: for several indented documents in one
file, and to say what is wrong and where.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, NoReturn

import orjson

_STRING_OR_CONSTANT = re.compile(r'"(?:[^"\\]|\\.)*"|-?\bInfinity\b|\bNaN\b', re.DOTALL)
_SPACE = re.compile(r"[ \t\r\n]*")


class NotJsonError(Exception):
    """`str()` of it says what is wrong, and on which line and column."""


def parse(data: bytes) -> list[Any]:
    """All documents in the text, which holds at least one. Raises NotJsonError."""
    try:
        return [orjson.loads(data)]
    except orjson.JSONDecodeError:
        pass
    if (documents := _one_per_line(data)) is not None:
        return documents
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise NotJsonError(f"not UTF-8 text (byte {error.start})") from None
    return list(_one_after_another(text))


def _one_per_line(data: bytes) -> list[Any] | None:
    """The documents of a file with one on each line, or None when it is not of that kind."""
    lines = [line for line in data.split(b"\n") if line.strip()]
    if len(lines) < 2:
        return None
    documents = []
    for line in lines:
        try:
            documents.append(orjson.loads(line))
        except orjson.JSONDecodeError:
            return None
    return documents


def _one_after_another(text: str) -> Iterator[Any]:
    decoder = json.JSONDecoder(parse_constant=_bare_constant)
    at, count = _after_space(text, 0), 0
    while at < len(text):
        try:
            document, end = decoder.raw_decode(text, at)
        except _BareConstantError:
            raise NotJsonError(_where_the_constant_is(text)) from None
        except json.JSONDecodeError as error:
            # raw_decode names the opening quote of a string that never ends, but the text ends at its end.
            cut_off = not text[error.pos :].strip() or error.msg.startswith("Unterminated string")
            what = "the JSON is cut off" if cut_off else f"not valid JSON: {error.msg}"
            which = f"; {count} complete before it" if count else ""
            raise NotJsonError(f"{what} (line {error.lineno}, column {error.colno}{which})") from None
        except RecursionError:
            raise NotJsonError("not readable JSON: nested too deeply") from None
        except ValueError:  # an integer of thousands of digits
            raise NotJsonError("not readable JSON: a number is too long") from None
        yield document
        at, count = _after_space(text, end), count + 1


def _after_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


class _BareConstantError(Exception):
    pass


def _bare_constant(_token: str) -> NoReturn:
    raise _BareConstantError


def _where_the_constant_is(text: str) -> str:
    """Name the first NaN or Infinity outside strings, with its place and the key before it."""
    key = ""
    for found in _STRING_OR_CONSTANT.finditer(text):
        if found[0].startswith('"'):
            key = found[0]
            continue
        line, column = text.count("\n", 0, found.start()) + 1, found.start() - text.rfind("\n", 0, found.start())
        after = f" after {key[:60]}" if key else ""
        return f"{found[0]} is not a number (line {line}, column {column}{after})"
    return "NaN or Infinity is not a number"
