"""Stored runs as tables: the long table that `regress-gate import` reads; CSV, Parquet and Excel for other programs.

One value a row. Statistics, not single requests. What is measured once per server start stands with each of its trials.
In every table a text that begins like a formula, which a spreadsheet would run, gets a quote before it; an import of
the long table removes the quote. pandas is imported when a table is written.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

from regress_gate.errors import InputError
from regress_gate.ingest.formats import long_table
from regress_gate.model.metric import DEFINITIONS_KEY, metric
from regress_gate.model.run import Run, Trial
from regress_gate.text import MAX_NAME, is_valid_name, sanitise, slugify

if TYPE_CHECKING:
    import pandas as pd


# What every format of stored runs shares; the formats are listed in `output_formats`

Content = str | bytes


@dataclass(frozen=True, slots=True)
class RunFormat:
    content: Callable[[Sequence[Run]], Content]
    """All runs, for standard output."""
    named_contents: Callable[[Sequence[Run]], Iterator[tuple[str, Content]]]
    """Names and contents of the files for a folder; names may occur twice."""
    is_binary: bool = False
    raw: RunFormat | None = None
    """The same without quotes before texts that begin like a formula: `--raw`. None: it has no such quotes."""

    def files(self, runs: Sequence[Run]) -> Iterator[tuple[str, Content]]:
        """File names, all different, and their contents."""
        taken: dict[str, int] = {}
        for name, content in self.named_contents(runs):
            taken[name] = taken.get(name, 0) + 1
            stem, dot, ending = name.rpartition(".")
            yield name if taken[name] == 1 else f"{stem}-{taken[name]}{dot}{ending}", content


def table_format(
    ending: str,
    content: Callable[[Iterable[Run]], Content],
    *,
    is_binary: bool = False,
    raw: Callable[[Iterable[Run]], Content] | None = None,
) -> RunFormat:
    """A format whose files hold all runs of one version, testbed and suite."""

    def tables(runs: Sequence[Run]) -> Iterator[tuple[str, Content]]:
        for place, members in groupby(sorted(runs, key=place_name), key=place_name):
            yield f"{place}.{ending}", content(members)

    return RunFormat(content, tables, is_binary, None if raw is None else table_format(ending, raw))


def place_name(run: Run) -> str:
    """Version, testbed and suite as a part of a file name."""
    return "-".join(map(slugify, (str(run.version), run.testbed.name, str(run.suite))))


def importable(name: str) -> str:
    """A name as an import takes it: `try/3` becomes `try-3`."""
    return name if is_valid_name(name) else slugify(name)[:MAX_NAME].rstrip("-._+=") or "unnamed"


def identity(run: Run, trial: Trial) -> dict[str, Any]:
    """What every format writes about a trial besides its numbers, as an import reads it.

    Keys are columns of the long table; None if not known. Seconds, ISO 8601.
    """
    return {
        "version": str(run.version),
        "testbed": importable(run.testbed.name),
        "accelerator": run.testbed.accelerator and importable(run.testbed.accelerator),
        "suite": str(run.suite),
        "scenario": importable(trial.scenario),
        "run": importable(run.label),
        "trial": trial.ordinal,
        "started": None if trial.started is None else trial.started.isoformat(),
        "client": trial.source.client_version,
        "completed": trial.completed,
        "failed": trial.failed if states_failures(trial) else None,
        "duration": trial.duration,
        "definitions": trial.workload.get(DEFINITIONS_KEY),
    }


def states_failures(trial: Trial) -> bool:
    """Whether failures were counted, so that 0 means none."""
    return trial.failed > 0 or "failed_requests" in trial.metrics


Row = Mapping[str, Any]


def write_long_csv(runs: Iterable[Run]) -> str:
    """CSV with a header; columns in which nothing stands are left out."""
    return _long_csv(runs, long_table.quote_cell)


def write_raw_long_csv(runs: Iterable[Run]) -> str:
    """The same without quotes before texts: for programs, never for spreadsheets."""
    return _long_csv(runs, str)


def _long_csv(runs: Iterable[Run], written: Callable[[str], str]) -> str:
    rows = list(rows_of(runs))
    used = {name for row in rows for name in row}
    others = sorted(name for name in used if name.startswith(long_table.WORKLOAD_PREFIX))
    columns = [name for name in (*long_table.ALL_COLUMNS, *others) if name in used or name in long_table.VALUE_COLUMNS]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(written, columns))
    for row in rows:
        cells = ((row[name], _cell(name, row[name])) if name in row else ("", "") for name in columns)
        writer.writerow([written(cell) if isinstance(value, str) else cell for value, cell in cells])
    return text.getvalue()


def write_long_json(runs: Iterable[Run]) -> str:
    """A JSON list with one object a line."""
    lines = [json.dumps(row, ensure_ascii=True, allow_nan=False) for row in rows_of(runs)]
    return "[\n" + ",\n".join(lines) + "\n]\n"


def rows_of(runs: Iterable[Run]) -> Iterator[Row]:
    """One for each metric of each trial; a column that says nothing is not in it."""
    for run in runs:
        for trial in run.trials:
            same = {name: value for name, value in _same(run, trial).items() if value is not None}
            for name, value in {**trial.metrics, **run.metrics}.items():
                yield {**same, "metric": name, "value": value, "unit": metric(name).unit}


def _same(run: Run, trial: Trial) -> dict[str, Any]:
    same = identity(run, trial)
    for name, value in trial.workload.items():
        if name == DEFINITIONS_KEY:
            continue
        if name in long_table.WORKLOAD_COLUMNS:
            unlimited = value is None and name in ("request_rate", "max_concurrency")
            same[name] = long_table.UNLIMITED if unlimited else value
        else:
            same[f"{long_table.WORKLOAD_PREFIX}{name}"] = value
    return same


def _cell(name: str, value: Any) -> str:
    """Numbers exactly; of another workload a text that would be read as JSON stands in quotes."""
    if name.startswith(long_table.WORKLOAD_PREFIX):
        return value if isinstance(value, str) and not _is_json(value) else json.dumps(value)
    return repr(value) if isinstance(value, float) else str(value)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return text != text.strip() or not text
    return True


LONG_CSV = table_format("csv", write_long_csv, raw=write_raw_long_csv)
LONG_JSON = table_format("json", write_long_json)


# For pandas and spreadsheets

_LONGEST_CELL = 32_767
"""Characters that Excel takes in one cell."""


def run_frame(runs: Iterable[Run]) -> pd.DataFrame:
    """A row for each metric of each trial. A column has one type: texts if its values have several."""
    import pandas as pd  # slow to import; the long table does without

    frame = pd.DataFrame(list(rows_of(runs)))
    for name in frame.columns:
        kinds = {type(value) for value in frame[name].dropna()}
        if not kinds <= {bool} and not kinds <= {int, float}:
            frame[name] = frame[name].map(lambda value: value if value is None or value != value else str(value))
    return frame


def quoted_cell(value: Any) -> Any:
    """A text that begins like a formula gets a quote before it; numbers stay numbers."""
    return long_table.quote_cell(value) if isinstance(value, str) else value


def write_csv(runs: Iterable[Run]) -> str:
    text: str = run_frame(runs).map(quoted_cell).rename(columns=quoted_cell).to_csv(index=False, lineterminator="\n")
    return text


def write_parquet(runs: Iterable[Run]) -> bytes:
    buffer = io.BytesIO()
    with _library_needed("pyarrow", "parquet"):
        run_frame(runs).to_parquet(buffer, index=False)
    return buffer.getvalue()


def write_xlsx(runs: Iterable[Run]) -> bytes:
    """One sheet. Text is sanitised: Excel refuses control characters."""
    buffer = io.BytesIO()
    frame = run_frame(runs).map(lambda value: quoted_cell(_excel_text(value))).rename(columns=quoted_cell)
    with _library_needed("openpyxl", "xlsx"):
        frame.to_excel(buffer, index=False, sheet_name="runs", engine="openpyxl")
    return buffer.getvalue()


@contextmanager
def _library_needed(library: str, format_: str) -> Iterator[None]:
    try:
        yield
    except ImportError:
        raise InputError(
            f"needs {library}", where=f"--format {format_}", todo="pip install 'vllm-regress-gate[tables]', or use csv"
        ) from None


def _excel_text(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    return sanitise(value)[: _LONGEST_CELL - 1]


def write_raw_csv(runs: Iterable[Run]) -> str:
    text: str = run_frame(runs).to_csv(index=False, lineterminator="\n")
    return text


CSV = table_format("csv", write_csv, raw=write_raw_csv)
PARQUET = table_format("parquet", write_parquet, is_binary=True)
XLSX = table_format("xlsx", write_xlsx, is_binary=True)
