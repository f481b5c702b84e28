"""A table in a file or a pipe: CSV in its dialects, JSON, JSON lines, also as gzip. Cells stay as they are written.

Not for benchmark results, which have their own readers, and not for the meaning of columns, which table_series.py
decides. The beginning of the file decides its format, because a pipe has no name. Read with the standard library and
orjson, not pandas, which rarely knows the line of an error. Parquet and Excel are read by `app.detect`.
"""

import csv
import gzip
import io
import json
import math
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from regress_gate.errors import InputError
from regress_gate.text import excerpt, plural

MAX_BYTES = 512 * 1024 * 1024
"""Largest table that is read, unpacked. A million rows of four columns have 50 MiB."""
DELIMITERS = ",;\t|"
MAX_LINE = 4 * 1024 * 1024
"""Characters of the longest line of CSV."""
MAX_LINES_OF_ROW = 10_000
"""Lines of one row of CSV, whose cells may hold line ends."""
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+")

_GZIP = b"\x1f\x8b"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_OTHER_FILES = (
    (b"PK\x03\x04", "a zip file (or a spreadsheet); save it as CSV"),
    (b"PAR1", "a Parquet file; save it as CSV"),
    (b"SQLite format 3\x00", "an SQLite database"),
    (b"%PDF", "a PDF"),
)


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Columns of equal length. Cells are what the file holds: text in CSV, JSON values in JSON."""

    name: str
    """Path or `standard input`, for messages."""
    columns: Mapping[str, Sequence[Any]]
    lines: Sequence[int] | None
    """Line of each row; None if rows have no lines of their own, as in a JSON document."""

    @property
    def rows(self) -> int:
        return max(map(len, self.columns.values()), default=0)

    def refusal(self, row: int, what: str, todo: str | None = None) -> InputError:
        """An error with the position of the row."""
        if self.lines is not None:
            return InputError(what, where=self.name, line=self.lines[row], todo=todo)
        return InputError(f"entry {row + 1}: {what}", where=self.name, todo=todo)


def read_table(data: bytes, name: str) -> Table:
    """The table in the bytes. Raises InputError, with the line if there is one."""
    data = _unpacked(data, name)
    for magic, what in _OTHER_FILES:
        if data.startswith(magic):
            raise InputError(f"is {what}", where=name)
    if data.startswith(_UTF16):
        raise InputError("is UTF-16 text", where=name, todo="save it as UTF-8")
    if b"\x00" in data[:4096]:
        raise InputError("is a binary file", where=name, todo="give CSV, JSON or JSON lines")
    return parse_table(_decoded(data, name), name)


def parse_table(text: str, name: str) -> Table:
    """The table in a text. Raises InputError, with the line if there is one."""
    if not text.strip():
        raise InputError("is empty", where=name, todo="give a table with at least one column of numbers")
    columns, lines = _json(text, name) if text.lstrip()[:1] in ("{", "[") else _csv(text, name)
    table = Table(name, columns, lines)
    if not table.rows:
        raise InputError("has no rows", where=name)
    return table


def _unpacked(data: bytes, name: str) -> bytes:
    if data.startswith(_GZIP):
        try:
            data = gzip.GzipFile(fileobj=io.BytesIO(data)).read(MAX_BYTES + 1)
        except (OSError, EOFError, zlib.error):
            raise InputError("is a gzip file that is cut off or damaged", where=name) from None
    if len(data) > MAX_BYTES:
        raise InputError(f"is larger than {MAX_BYTES // 1024**2} MiB", where=name, todo="split it")
    return data


def _decoded(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError("is not UTF-8 text", where=name, line=line, todo="save it as UTF-8") from None


def _csv(text: str, name: str) -> tuple[dict[str, list[Any]], list[int]]:
    rows = csv_rows(text, name)
    if (names := next(rows, None)) is None:
        return {}, []
    columns: dict[str, list[Any]] = {column: [] for column in names[1]}
    lines: list[int] = []
    known: dict[str, str] = {}  # most cells of a table are repeated, and each text is kept once
    for line, row in rows:
        lines.append(line)
        for column, cell in zip(columns.values(), row, strict=True):
            column.append(known.setdefault(cell, cell))
    return columns, lines


def csv_rows(text: str, name: str, *, max_cells: int | None = None) -> Iterator[tuple[int, list[str]]]:
    """The line and the cells of each row, one at a time; first the names of the columns, which may be made up.

    Empty rows are left out; all others have equally many cells. Raises InputError, also for more than `max_cells`.
    """
    head = text.lstrip("\r\n")[:MAX_LINE].split("\n", 1)[0]
    counts = {sign: head.count(sign) for sign in DELIMITERS}
    delimiter = max(DELIMITERS, key=counts.__getitem__)
    begins, cells, width = 1, 0, 0

    def lines_of_text() -> Iterator[str]:
        # Line by line: a StringIO would hold four bytes for each character.
        for number, match in enumerate(_LINE.finditer(text), 1):
            if match.end() - match.start() > MAX_LINE or number - begins > MAX_LINES_OF_ROW:
                what = f"has a row of more than {MAX_LINE:,} characters or {MAX_LINES_OF_ROW:,} lines"
                raise InputError(what, where=name, line=begins, todo="a quote that is not closed?")
            yield match[0]

    reader = csv.reader(lines_of_text(), delimiter=delimiter, strict=True, skipinitialspace=True)
    try:
        for row in reader:
            if any(cell.strip() for cell in row):
                cells += len(row)
                if max_cells is not None and cells > max_cells:
                    raise InputError(f"has more than {max_cells:,} cells", where=name, line=begins, todo="split it")
                if not width:
                    width = len(row)
                    # A first row with a number is not a header: piped data often has none.
                    headed = not any(_is_number(cell) for cell in row)
                    yield begins, _column_names(row, headed, name, begins)
                    if headed:
                        begins = reader.line_num + 1
                        continue
                if len(row) != width:
                    what = f"has {plural(len(row), 'cell')} where the first row has {width}"
                    raise InputError(what, where=name, line=begins, todo="quote cells that hold the delimiter")
                yield begins, row
            begins = reader.line_num + 1
    except csv.Error as error:
        raise InputError(f"is not valid CSV ({error})", where=name, line=begins) from None


def _column_names(first: list[str], headed: bool, name: str, line: int) -> list[str]:
    if not headed:
        return ["value"] if len(first) == 1 else [str(place) for place in range(1, len(first) + 1)]
    names = [cell.strip() or str(place) for place, cell in enumerate(first, 1)]
    if twice := [column for column, count in Counter(names).items() if count > 1]:
        raise InputError(f"has two columns named {excerpt(twice[0], 60)!r}", where=name, line=line)
    return names


def _is_number(cell: str) -> bool:
    number = as_number(cell)
    return number is not None and math.isfinite(number)


def as_number(cell: str) -> float | None:
    """The number in a cell; None for other text. `2026_05` is a number in Python, but a name in a table."""
    if "_" in cell:
        return None
    try:
        return float(cell)
    except ValueError:
        return None


def _json(text: str, name: str) -> tuple[dict[str, list[Any]], list[int] | None]:
    if (parsed := _json_lines(text, name)) is not None:
        documents, lines = parsed
        return _of_rows(documents, name, lines), lines
    document = _loads(text, name, 0)
    if isinstance(document, dict):
        document = _only_table(document, name)
    if isinstance(document, dict):
        return document, None
    return _of_rows(document, name, None), None


def _json_lines(text: str, name: str) -> tuple[list[Any], list[int]] | None:
    """The documents of a file with one a line, and their lines; None for a file that is one document."""
    numbered = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    if len(numbered) < 2:
        return None
    try:
        orjson.loads(numbered[0][1])
    except orjson.JSONDecodeError:
        return None
    return [_loads(line, name, number - 1) for number, line in numbered], [number for number, _ in numbered]


def _loads(text: str, name: str, lines_before: int) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        pass
    try:
        return json.loads(text)  # takes NaN, which Python programs write
    except json.JSONDecodeError as error:
        line = lines_before + error.lineno
        raise InputError(f"is not valid JSON ({error.msg}, column {error.colno})", where=name, line=line) from None
    except (RecursionError, ValueError):  # nested thousands deep; an integer of thousands of digits
        raise InputError("is not readable JSON", where=name, line=lines_before + 1) from None


def _only_table(document: dict[str, Any], name: str) -> Any:
    """The columns of an object with lists of values, or the only list of rows in it."""
    lists = {key: value for key, value in document.items() if isinstance(value, list)}
    rows = {key: value for key, value in lists.items() if value and isinstance(value[0], dict)}
    if len(rows) == 1 and len(lists) == 1:
        return next(iter(rows.values()))
    if not lists or rows:
        todo = "give a list of objects, an object of lists, or one object a line"
        raise InputError("holds no table, or more than one", where=name, todo=todo)
    if len(set(map(len, lists.values()))) > 1:
        sizes = ", ".join(f"{excerpt(key, 40)} has {len(value)}" for key, value in list(lists.items())[:4])
        raise InputError(f"its lists have different lengths: {sizes}", where=name)
    return lists


def _of_rows(rows: Sequence[Any], name: str, lines: Sequence[int] | None) -> dict[str, list[Any]]:
    """Columns from rows that are objects; plain values make one column named `value`."""
    if not any(isinstance(row, (dict, list)) for row in rows):
        return {"value": list(rows)}
    wrong = next((place for place, row in enumerate(rows) if not isinstance(row, dict)), None)
    if wrong is not None:
        what = f"is {'a list' if isinstance(rows[wrong], list) else 'a single value'} where an object was expected"
        raise Table(name, {}, lines).refusal(wrong, what)
    return {column: [row.get(column) for row in rows] for column in _keys(rows)}


def _keys(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    return iter(dict.fromkeys(key for row in rows for key in row))
