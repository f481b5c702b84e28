"""Parses JSON and YAML: one document, or several JSON documents one after another. Not for what the values mean.

orjson parses JSON; the standard library is used only if orjson fails, for several indented documents in one file and
for the position of an error. Before a large text is parsed, its signs are counted: of some texts (`[{},{},…]`) the
values need thirty times their memory. Of large documents, long lists stay text until they are read (deferred.py).
"""

import gc
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import IO, Any

import orjson

from regress_gate.errors import InputError
from regress_gate.measurement.plausibility import RefusalError
from regress_gate.text import excerpt

_STRING_OR_CONSTANT = re.compile(r'"(?:[^"\\]|\\.)*"|-?\bInfinity\b|\bNaN\b', re.DOTALL)
_SPACE = re.compile(r"[ \t\r\n]*")
_LINE = re.compile(r"[^\n\r\v\f\x1c-\x1e\x85\u2028\u2029]+")

MAX_MEMORY = 830 * 1024**2
"""Bytes that the text and the values of one file may need together. A whole import needs less than 1 GiB with it."""
USUAL_RATIO = 3
"""The same, as a multiple of the text's size: beyond it long lists stay text. A reader's own objects come on top."""
HOPELESS_RATIO = 16
"""The same for the beginning of a text that is refused at once: tiny values and hardly anything else."""
COUNTED_FROM = 1024**2
"""Bytes of the shortest text whose signs are counted."""
FREE_MEMORY = 64 * 1024**2
"""Bytes that any text may need, whatever its size."""
MAX_DOCUMENTS = 100_000
"""Documents of one file that is not read line by line. Each is a result or belongs to one."""


class NotJsonError(Exception):
    """`str()` of it says what is wrong, and the line and column."""


@dataclass(frozen=True, slots=True)
class ParsedJson:
    documents: list[Any]
    """At least one."""
    constant: str | None = None
    """Describes the first NaN or Infinity without quotes, which is invalid JSON; the documents hold it as a float."""


class LargeJsonError(NotJsonError):
    """A large text that is not JSON, or whose values would need too much memory. `str()` is the whole reason."""


def parse_json(data: bytes | bytearray) -> ParsedJson:
    """All documents in the text, which holds at least one. Raises NotJsonError.

    In a large document, long lists may be `deferred.DeferredList`, which needs the text as it is.
    """
    if len(data) < COUNTED_FROM:
        return _parse(data)
    collects = gc.isenabled()
    gc.disable()  # it would look through all values again and again while they are made, and find nothing
    try:
        return _parse_large(data)
    finally:
        if collects:
            gc.enable()


def _parse_large(data: bytes | bytearray) -> ParsedJson:
    size = len(data)
    limit = min(MAX_MEMORY, max(USUAL_RATIO * size, FREE_MEMORY))
    # Counting everywhere is fast, but counts signs within strings; only a text that seems too large is scanned.
    need = _orjson_memory(Counter({sign: data.count(sign) for sign in _SIGNS}), size)
    if need <= limit:
        return _parse(data)
    from regress_gate.ingest import deferred  # needs numpy, and few files are so large

    head = data[: deferred.PIECE]
    if _orjson_memory(deferred.scan(head).signs, len(head)) > HOPELESS_RATIO * len(head):
        raise _too_large(limit)
    scanned = deferred.scan(data)
    if _orjson_memory(scanned.signs, size) <= limit:
        return _parse(data)
    if not scanned.is_whole:
        raise LargeJsonError("the JSON is cut off; the file was cut off or changed: make the result again")
    rest, lists, mark = deferred.defer_lists(data, scanned)
    signs = deferred.scan(rest).signs if len(rest) >= COUNTED_FROM else Counter({s: rest.count(s) for s in _SIGNS})
    if size + _orjson_memory(signs, len(rest)) > limit:
        raise _too_large(limit)
    parsed = _parse(rest)
    parsed.documents[:] = [deferred.with_lists(document, lists, mark) for document in parsed.documents]
    if scanned.constant is not None:
        return ParsedJson(parsed.documents, deferred.constant_text(data, scanned.constant))
    return parsed


def _too_large(limit: int) -> LargeJsonError:
    return LargeJsonError(
        f"its values would need more than {limit // 1024**2:,} MiB of memory; split it, or save without the arrays of "
        "single requests"
    )


_SIGNS = (b"{", b"[", b",", b":", b".", b'"')


def _orjson_memory(signs: Mapping[bytes, int], size: int) -> int:
    """Bytes that orjson needs: the text twice, 16 bytes for each value and key, and the objects."""
    return 2 * size + 16 * (_values(signs) + signs[b":"]) + _objects_memory(signs)


def _objects_memory(signs: Mapping[bytes, int]) -> int:
    """Bytes of the objects of a JSON text, from the number of each sign: CPython's sizes. Keys are shared."""
    objects, lists, pairs = signs[b"{"], signs[b"["], signs[b":"]
    values = _values(signs)
    texts = max(0, signs[b'"'] // 2 - pairs)
    numbers = max(0, values - objects - lists - texts)
    floats = min(numbers, signs[b"."])
    dictionaries = 64 * objects + 120 * min(objects, pairs) + 24 * pairs
    return dictionaries + 56 * lists + 8 * max(0, values - pairs) + 32 * numbers - 8 * floats + 56 * texts


def _values(signs: Mapping[bytes, int]) -> int:
    return signs[b","] + min(signs[b"{"], signs[b":"]) + signs[b"["] + 1


def _parse(data: bytes | bytearray) -> ParsedJson:
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


def is_json_value(line: bytes | bytearray) -> bool:
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
        if line.startswith(b"\0"):
            raise NotJsonError(f"line {number} begins with NUL bytes: the file was cut off while it was written")
        if len(line) > longest:
            raise NotJsonError(f"line {number} is longer than {longest // 1024**2} MiB")
        if line.strip():
            yield _parse_line(line.removeprefix(b"\xef\xbb\xbf"), number)


def _parse_line(line: bytes | bytearray, number: int) -> Any:
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        pass
    try:
        return json.loads(line)  # takes NaN and Infinity
    except (ValueError, RecursionError):  # also what is not UTF-8
        raise NotJsonError(f"not valid JSON, or cut off (line {number})") from None


def _one_per_line(data: bytes | bytearray) -> list[Any] | None:
    """The documents of a file with one a line; None for any other file. Raises NotJsonError for too many."""
    documents: list[Any] = []
    at = 0
    while at < len(data):
        end = data.find(b"\n", at)
        end = len(data) if end < 0 else end
        if line := data[at:end].strip():
            try:
                documents.append(orjson.loads(line))
            except orjson.JSONDecodeError:
                return None
            _check_documents(len(documents))
        at = end + 1
    return documents if len(documents) > 1 else None


def _check_documents(count: int) -> None:
    if count > MAX_DOCUMENTS:
        raise LargeJsonError(f"holds more than {MAX_DOCUMENTS:,} JSON values; split it")


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
        _check_documents(count)


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


def text_lines(text: str) -> Iterator[str]:
    """The lines that are not empty, without their ends, one at a time: `splitlines` would hold them all."""
    return (match[0] for match in _LINE.finditer(text))


def parse_yaml_text(text: str, name: str) -> Any:
    """The value of one YAML document; long lists may be deferred, as in `parse_json`. Raises RefusalError."""
    from regress_gate.model import documents  # needs pydantic, and few imports do

    try:
        if len(text) < COUNTED_FROM:
            return documents.parse_yaml(text, excerpt(name)).data
        return parse_json(documents.yaml_as_json(text, excerpt(name))).documents[0]
    except (InputError, NotJsonError) as error:
        raise RefusalError(str(error)) from None
