"""Stored runs as the long table: one value a row, as `regress-gate import` reads it (ingest/long_columns.py).

Statistics, not single requests. What is measured once per server start stands with each of its trials.
"""

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from regress_gate.ingest.formats import long_table
from regress_gate.model.metric import DEFINITIONS_KEY, metric
from regress_gate.model.run import Run, Trial
from regress_gate.report.render.run_formats import table_format
from regress_gate.report.render.trial_identity import identity

Row = Mapping[str, Any]


def render_csv(runs: Iterable[Run]) -> str:
    """CSV with a header; columns in which nothing stands are left out."""
    rows = list(rows_of(runs))
    used = {name for row in rows for name in row}
    others = sorted(name for name in used if name.startswith(long_table.WORKLOAD_PREFIX))
    columns = [name for name in (*long_table.ALL_COLUMNS, *others) if name in used or name in long_table.VALUE_COLUMNS]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_cell(name, row[name]) if name in row else "" for name in columns] for row in rows)
    return text.getvalue()


def render_json(runs: Iterable[Run]) -> str:
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


CSV = table_format("csv", render_csv)
JSON = table_format("json", render_json)
