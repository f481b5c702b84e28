"""Find change points in a table: a file (CSV, JSON, Parquet, Excel) or a pandas frame. Needs no store."""

import io
import math
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regress_gate.errors import InputError
from regress_gate.gate.table_changes import DetectionReport, DetectionRequest, SmallestChange, find_changes
from regress_gate.ingest.table import MAX_BYTES, Table, read_table
from regress_gate.ingest.table_series import choose_columns, series_of
from regress_gate.model.metric import Direction
from regress_gate.text import one_line

if TYPE_CHECKING:
    import pandas as pd

_PARQUET = b"PAR1"
_ZIP = b"PK\x03\x04"


def detect_in_table(
    table: Table,
    *,
    value: str | None = None,
    time: str | None = None,
    groups: Sequence[str] = (),
    min_change: str | float | None = None,
    direction: str | None = None,
    improvements: bool = False,
    advance: Callable[[int, int], None] | None = None,
) -> DetectionReport:
    """The change points of each series of a table. Rows with the same time are replicates.

    `direction` is `lower` or `higher`, whichever is better; without it every change is reported. `min_change` is a
    share of the level (`2%`) or a number in the unit of the values. Raises InputError for a column that is missing or
    ambiguous, and for a cell that its column cannot hold.
    """
    if direction not in (None, "lower", "higher"):
        raise InputError(f"{direction!r} is not a direction", where="--direction", todo="write lower or higher")
    if improvements and direction is None:
        raise InputError("needs --direction", where="--improvements", todo="say which direction is better")
    better = None if direction is None else Direction[direction.upper()]
    request = DetectionRequest(better, improvements, _smallest_change(min_change))
    layout = choose_columns(table, value=value, time=time, groups=groups)
    series = series_of(table, layout)
    results = []
    for done, one in enumerate(series):
        if advance is not None:
            advance(done, len(series))
        results.append(find_changes(one, request))
    return DetectionReport(table.name, layout, request, results)


def read_table_file(path: Path) -> Table:
    """The table in a file. Raises InputError if it cannot be read."""
    try:
        with path.open("rb") as stream:
            return read_table_bytes(stream.read(MAX_BYTES + 1), str(path))
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror})", where=path) from None


def read_table_bytes(data: bytes, name: str) -> Table:
    """CSV, JSON, JSON lines (also as gzip), Parquet, or the first sheet of an Excel workbook."""
    if data.startswith(_PARQUET):
        return _read_with_pandas(data, name, "read_parquet")
    if data.startswith(_ZIP) and _is_workbook(data):
        return _read_with_pandas(data, name, "read_excel")
    return read_table(data, name)


def frame_table(frame: "pd.DataFrame", name: str = "the frame") -> Table:
    """A frame as a table: missing values are None, times are ISO 8601 text."""
    columns: dict[str, list[Any]] = {}
    for label, column in frame.items():
        if str(label) in columns:
            raise InputError(f"has two columns named {str(label)!r}", where=name)
        if column.dtype.kind == "M":  # times
            column = column.map(lambda moment: moment.isoformat(), na_action="ignore")
        cells = column.astype(object)
        columns[str(label)] = [_plain_cell(cell) for cell in cells.where(cells.notna(), None)]
    table = Table(name, columns, None)
    if not table.rows:
        raise InputError("has no rows", where=name)
    return table


def _plain_cell(cell: Any) -> Any:
    """Numbers of numpy become numbers of Python."""
    return cell.item() if hasattr(cell, "item") else cell


def _read_with_pandas(data: bytes, name: str, reader: str) -> Table:
    if len(data) > MAX_BYTES:
        raise InputError(f"is larger than {MAX_BYTES // 1024**2} MiB", where=name, todo="split it")
    import pandas as pd  # only for Parquet and Excel

    try:
        frame = getattr(pd, reader)(io.BytesIO(data))
    except ImportError:
        raise InputError(
            "needs pyarrow (Parquet) or openpyxl (Excel)",
            where=name,
            todo="pip install 'vllm-regress-gate[tables]', or save it as CSV",
        ) from None
    except Exception as error:  # the readers raise whatever their C++ and XML parsers raise
        raise InputError(f"cannot be read ({one_line(str(error))[:120]})", where=name) from None
    return frame_table(frame, name)


def _is_workbook(data: bytes) -> bool:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return "xl/workbook.xml" in archive.namelist()
    except zipfile.BadZipFile:
        return False


def _smallest_change(given: str | float | None) -> SmallestChange:
    if given is None:
        return SmallestChange()
    number, percent, rest = str(given).strip().partition("%")
    try:
        size = float(number)
    except ValueError:
        size = -1.0
    if rest.strip() or not math.isfinite(size) or size < 0:
        raise InputError(
            f"{given!r} is not a size", where="--min-change", todo="write 2%, or a number in the values' unit"
        )
    return SmallestChange(size / 100, True) if percent else SmallestChange(size, False)
