"""From a table to series: which column is the value, which the time, and which rows form a group.

Columns are guessed only if there is no choice. Rows of one group with the same time are replicates. Not for finding
changes.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from packaging.version import InvalidVersion
from packaging.version import Version as Pep440

from regress_gate.errors import InputError
from regress_gate.ingest.table import Table, as_number
from regress_gate.stats.changepoints.series import pool_points
from regress_gate.text import did_you_mean, excerpt, plural

Floats = npt.NDArray[np.float64]
Key = TypeVar("Key")

VALUE_NAME = "value"
TIME_NAMES = ("time", "timestamp", "date", "datetime", "day", "version")
"""A column with one of these names is the time by default, if it is the only one and can be read as times."""
SAMPLE = 1000
"""Rows that are examined to find the columns of numbers."""

_MISSING = {"", "nan", "null", "none", "na", "n/a", "-"}
_SHOWN = 60


@dataclass(frozen=True, slots=True, eq=False)
class TableSeries:
    group: tuple[str, ...]
    """Its values of the group columns."""
    values: Floats
    """(points,) NaN where a value is missing."""
    variances: Floats | None
    """(points,) of the values; see `stats.replicates`. None without replicates."""
    times: tuple[Any, ...] | None
    """(points,) as they are written in the table; None without a time column."""
    replicates: int
    """The most rows of one time."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Which columns are what."""

    value: str
    time: str | None
    groups: tuple[str, ...]


def choose_columns(
    table: Table, *, value: str | None = None, time: str | None = None, groups: Sequence[str] = ()
) -> Layout:
    """The named columns, and the others if there is no choice. Raises InputError otherwise."""
    for flag, column in (("--value", value), ("--time", time), *(("--group", group) for group in groups)):
        if column is not None and column not in table.columns:
            raise InputError(f"has no column {excerpt(column, _SHOWN)!r}" + _near(column, table), where=table.name)
        if column is not None and [value, time, *groups].count(column) > 1:
            raise InputError(f"{excerpt(column, _SHOWN)!r} is given twice", where=flag)
    time = time or _guess_time(table, {value, *groups})
    others = [column for column in table.columns if column not in {time, *groups}]
    if value is None and VALUE_NAME in others:
        value = VALUE_NAME
    if value is None:
        numeric = [column for column in others if _looks_numeric(table.columns[column])]
        # If a single column holds some numbers, the error is about its first cell that is not one.
        numeric = numeric or [column for column in others if _holds_numbers(table.columns[column])]
        if len(numeric) != 1:
            remaining = _listed(numeric or others) or "none is left"
            what = (
                f"{plural(len(numeric), 'column holds', 'columns hold')} numbers"
                if numeric
                else "no column holds numbers"
            )
            raise InputError(f"{what} ({remaining})", where=table.name, todo="name the values' column with --value")
        value = numeric[0]
    return Layout(value, time, tuple(groups))


def series_of(table: Table, layout: Layout) -> list[TableSeries]:
    """One series for each group, in the order of their first rows.

    Points are in the order of time or, without a time column, of rows. Raises InputError for a cell that does not fit
    its column.
    """
    values = _numbers(table, layout.value)
    keys = None if layout.time is None else _time_keys(table, layout.time)
    members: dict[tuple[str, ...], list[int]] = {}
    if layout.groups:
        for row, cells in enumerate(zip(*(table.columns[group] for group in layout.groups), strict=True)):
            members.setdefault(tuple("" if cell is None else str(cell) for cell in cells), []).append(row)
    else:
        members[()] = list(range(table.rows))
    return [_series(table, layout, group, rows, values, keys) for group, rows in members.items()]


def _series(
    table: Table, layout: Layout, group: tuple[str, ...], rows: list[int], values: Floats, keys: list[Any] | None
) -> TableSeries:
    if keys is None or layout.time is None:
        return TableSeries(group, values[rows], None, None, 1)
    rows = sorted(rows, key=keys.__getitem__)
    starts = [place for place, row in enumerate(rows) if not place or keys[row] != keys[rows[place - 1]]]
    points = pool_points(values[rows], np.asarray(starts, dtype=np.int64))
    most = int(np.diff(starts, append=len(rows)).max())
    cells = table.columns[layout.time]
    return TableSeries(group, points.values, points.variances, tuple(cells[rows[start]] for start in starts), most)


def _numbers(table: Table, column: str) -> Floats:
    numbers = np.empty(table.rows)
    for row, cell in enumerate(table.columns[column]):
        number = _number(cell)
        if number is None:
            what = f"{_shown(cell)} in column {excerpt(column, _SHOWN)!r} is no number"
            raise table.refusal(row, what, _remedy(cell))
        if math.isinf(number):
            raise table.refusal(row, f"{_shown(cell)} in column {excerpt(column, _SHOWN)!r} is not finite")
        numbers[row] = number
    if np.isnan(numbers).all():
        raise InputError(f"column {excerpt(column, _SHOWN)!r} holds no value", where=table.name)
    return numbers


def _remedy(cell: Any) -> str:
    if isinstance(cell, str) and as_number(cell.replace(",", ".")) is not None:
        return "write decimals with a point"
    return "leave the cell empty if a value is missing"


def _number(cell: Any) -> float | None:
    """NaN for a missing value, None for what is no number."""
    if cell is None:
        return math.nan
    if isinstance(cell, str) and cell.strip().lower() in _MISSING:
        return math.nan
    if isinstance(cell, str):
        return as_number(cell)
    if isinstance(cell, bool) or not isinstance(cell, (int, float)):
        return None
    try:
        return float(cell)
    except OverflowError:
        return None


def _looks_numeric(cells: Sequence[Any]) -> bool:
    numbers = [_number(cell) for cell in cells[:SAMPLE]]
    return None not in numbers and not all(number != number for number in numbers)


def _holds_numbers(cells: Sequence[Any]) -> bool:
    return any(number is not None and number == number for number in map(_number, cells[:SAMPLE]))


def _guess_time(table: Table, taken: set[str | None]) -> str | None:
    named = [column for column in table.columns if column.lower() in TIME_NAMES and column not in taken]
    if len(named) != 1:
        return None
    try:
        _time_keys(table, named[0])
    except InputError:
        return None
    return named[0]


def _time_keys(table: Table, column: str) -> list[Any]:
    """What to sort by: numbers, dates or versions, whichever all cells are."""
    cells = table.columns[column]
    # 0.9 comes before 0.10 as a version and after it as a number.
    readers: list[Callable[[Any], Any]] = [_as_number, _as_date, _as_version]
    if "version" in column.lower():
        readers = [_as_version, _as_date, _as_number]
    furthest = 0
    for reader in readers:
        keys = list(_read_until_refused(cells, reader))
        if len(keys) == len(cells):
            return keys
        furthest = max(furthest, len(keys))
    cell, name = cells[furthest], excerpt(column, _SHOWN)
    if _number(cell) != _number(cell):
        raise table.refusal(furthest, f"the cell of the time column {name!r} is empty")
    if (development := _pep440(cell)) is not None and development.is_devrelease:
        what = f"{_shown(cell)} in column {name!r} is a development build, whose version says nothing about order"
        raise table.refusal(furthest, what, "order by a column of dates")
    raise table.refusal(
        furthest,
        f"{_shown(cell)} in column {name!r} is no number, ISO date or version, or not of the same kind as the others",
    )


def _read_until_refused(cells: Iterable[Any], reader: Callable[[Any], Key | None]) -> Iterable[Key]:
    known: dict[Any, Key | None] = {}
    for cell in cells:
        if isinstance(cell, (dict, list, bool)):
            return
        if cell not in known:
            known[cell] = reader(cell)
        key = known[cell]
        if key is None:
            return
        yield key


def _as_number(cell: Any) -> float | None:
    number = _number(cell)
    return None if number is None or not math.isfinite(number) else number


def _as_date(cell: Any) -> datetime | None:
    try:
        date = datetime.fromisoformat(str(cell).strip())
    except ValueError:
        return None
    return date.replace(tzinfo=UTC) if date.tzinfo is None else date


def _as_version(cell: Any) -> Pep440 | None:
    version = _pep440(cell)
    return None if version is None or version.is_devrelease else version


def _pep440(cell: Any) -> Pep440 | None:
    try:
        return Pep440(str(cell))
    except InvalidVersion:
        return None


def _near(column: str, table: Table) -> str:
    return excerpt(did_you_mean(column, table.columns), 200)


def _listed(columns: Sequence[str], limit: int = 8) -> str:
    return ", ".join(excerpt(column, 40) for column in columns[:limit]) + (", …" if len(columns) > limit else "")


def _shown(cell: Any) -> str:
    if isinstance(cell, (dict, list)):
        return f"a {'list' if isinstance(cell, list) else 'nested object'}"
    return repr(excerpt(str(cell), 40))
