"""Parses JSON and YAML: one document, or several JSON documents one after another. Not for what the values mean.

orjson parses JSON; the standard library is used only if orjson fails, for several indented documents in one file and
for the position of an error.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any

import orjson

from regress_gate.errors import InputError
from regress_gate.measurement.plausibility import RefusalError

_STRING_OR_CONSTANT = re.compile(r'"(?:[^"\\]|\\.)*"|-?\bInfinity\b|\bNaN\b', re.DOTALL)
_SPACE = re.compile(r"[ \t\r\n]*")


class NotJsonError(Exception):
    """`str()` of it says what is wrong, and the line and column."""


@dataclass(frozen=True, slots=True)
class ParsedJson:
    documents: list[Any]
    """At least one."""
    constant: str | None = None
    """Describes the first NaN or Infinity without quotes, which is invalid JSON; the documents hold it as a float."""


def parse_json(data: bytes) -> ParsedJson:
    """All documents in the text, which holds at least one. Raises NotJsonError."""
    try:
        return ParsedJson([orjson.loads(data)])
    except orjson.JSONDecodeError:
        pass
    if (documents := _one_per_line(data)) is not None:
        return ParsedJson(documents)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise NotJsonError(f"not UTF-8 text (byte {error.start})") from None
    constants: list[str] = []
    documents = list(_one_after_another(text, constants))
    return ParsedJson(documents, _constant_position(text) if constants else None)


def is_json_value(line: bytes) -> bool:
    """Whether the line is a JSON object or list."""
    try:
        return isinstance(_parse_line(line, 1), dict | list)
    except NotJsonError:
        return False


def json_lines(file: IO[bytes], longest: int) -> Iterator[Any]:
    """The value of each line of a file; empty lines are left out. Raises NotJsonError for an invalid line.

    `longest`: most bytes of a line.
    """
    number = 0
    while line := file.readline(longest + 1):
        number += 1
        if len(line) > longest:
            raise NotJsonError(f"line {number} is longer than {longest // 1024**2} MiB")
        if line.strip():
            yield _parse_line(line.removeprefix(b"\xef\xbb\xbf"), number)


def _parse_line(line: bytes, number: int) -> Any:
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        pass
    try:
        return json.loads(line)  # takes NaN and Infinity
    except (ValueError, RecursionError):  # also what is not UTF-8
        raise NotJsonError(f"not valid JSON, or cut off (line {number})") from None


def _one_per_line(data: bytes) -> list[Any] | None:
    """The documents of a file with one a line; None for any other file."""
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


def _one_after_another(text: str, constants: list[str]) -> Iterator[Any]:
    """The documents; every NaN and Infinity is added to `constants`."""

    def constant(token: str) -> float:
        constants.append(token)
        return float(token)

    decoder = json.JSONDecoder(parse_constant=constant)
    at, count = _after_space(text, 0), 0
    while at < len(text):
        try:
            document, end = decoder.raw_decode(text, at)
        except json.JSONDecodeError as error:
            # For a string without an end, raw_decode gives the position of its opening quote.
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
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _constant_position(text: str) -> str:
    """The first NaN or Infinity outside strings, with its position and the key before it, as text."""
    key = ""
    for match in _STRING_OR_CONSTANT.finditer(text):
        if match[0].startswith('"'):
            key = match[0]
            continue
        line, column = text.count("\n", 0, match.start()) + 1, match.start() - text.rfind("\n", 0, match.start())
        after = f" after {key[:60]}" if key else ""
        return f"{match[0]} is not a number (line {line}, column {column}{after})"
    return "NaN or Infinity is not a number"


def parse_yaml_text(text: str, name: str) -> Any:
    """The value of one YAML document. Raises RefusalError."""
    from regress_gate.model.documents import parse_yaml  # needs pydantic, and few imports do

    try:
        return parse_yaml(text, name).data
    except InputError as error:
        raise RefusalError(str(error)) from None
