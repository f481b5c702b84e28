"""Stored runs as a table for pandas and spreadsheets: CSV, Parquet, Excel; the rows are those of `long_table`.

Not for importing back: a text cell that a spreadsheet would run as a formula gets a quote before it. pandas is imported
when a table is written.
"""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from regress_gate.model.run import Run
from regress_gate.report.render.long_table import rows_of
from regress_gate.report.render.run_formats import table_format

if TYPE_CHECKING:
    import pandas as pd

_FORMULA_SIGNS = ("=", "+", "-", "@", "\t", "\r")
_LONGEST_CELL = 32_767
"""Characters that Excel takes in one cell."""


def run_frame(runs: Iterable[Run]) -> pd.DataFrame:
    """A row for each metric of each trial. A column has one type: texts if its values have several."""
    import pandas as pd

    frame = pd.DataFrame(list(rows_of(runs)))
    for name in frame.columns:
        kinds = {type(value) for value in frame[name].dropna()}
        if not kinds <= {bool} and not kinds <= {int, float}:
            frame[name] = frame[name].map(lambda value: value if value is None or value != value else str(value))
    return frame


def quoted_cell(value: Any) -> Any:
    """A text that begins like a formula gets a quote before it; numbers stay numbers."""
    if not isinstance(value, str):
        return value
    return f"'{value}" if value.startswith(_FORMULA_SIGNS) else value


def write_csv(runs: Iterable[Run]) -> str:
    text: str = run_frame(runs).map(quoted_cell).rename(columns=quoted_cell).to_csv(index=False, lineterminator="\n")
    return text


def write_parquet(runs: Iterable[Run]) -> bytes:
    buffer = io.BytesIO()
    run_frame(runs).to_parquet(buffer, index=False)
    return buffer.getvalue()


def write_xlsx(runs: Iterable[Run]) -> bytes:
    """One sheet. Control characters, which Excel refuses, are left out."""
    buffer = io.BytesIO()
    frame = run_frame(runs).map(lambda value: quoted_cell(_excel_text(value))).rename(columns=quoted_cell)
    frame.to_excel(buffer, index=False, sheet_name="runs", engine="openpyxl")
    return buffer.getvalue()


def _excel_text(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    return "".join(sign for sign in value if sign.isprintable())[: _LONGEST_CELL - 1]


CSV = table_format("csv", write_csv)
PARQUET = table_format("parquet", write_parquet, is_binary=True)
XLSX = table_format("xlsx", write_xlsx, is_binary=True)
