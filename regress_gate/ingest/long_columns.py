"""The columns of the long table, and the units in which its values may stand. What reader and export share.

One value a row. Not for reading files: formats/long_table.py does.
"""

from regress_gate.ingest.interface import RefusalError
from regress_gate.ingest.text import shown
from regress_gate.model.metric import Metric

IDENTITY = ("version", "testbed", "accelerator", "suite", "scenario", "run", "trial", "started", "client")
"""`suite` is NAME@VERSION; `trial` counts from 1; `started` is ISO 8601 with a time zone. Empty: not stated."""
VALUE = ("metric", "value", "unit")
COUNTS = ("completed", "failed", "duration")
"""Requests that succeeded, requests that failed, seconds of wall time."""
WORKLOAD = (
    "model",
    "request_rate",
    "max_concurrency",
    "num_prompts",
    "burstiness",
    "mean_input_tokens",
    "mean_output_tokens",
    "input_len",
    "output_len",
    "dataset",
)
"""`inf` in request_rate or max_concurrency: without limit."""
DEFINITIONS = "definitions"
"""A key of model.definitions; empty: vLLM's own."""
COLUMNS = (*IDENTITY, *VALUE, *COUNTS, *WORKLOAD, DEFINITIONS)
OTHER_WORKLOAD = "workload."
"""Begins the name of a column with anything else that was set; its cells are JSON values or plain text."""
UNLIMITED = "inf"
TEXTS = ("model", "dataset")

_UNITS: dict[str, dict[str, float]] = {
    "s": {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9, "min": 60.0},
    "1/s": {"1/s": 1.0, "req/s": 1.0, "requests/s": 1.0, "tok/s": 1.0, "tokens/s": 1.0},
    "bytes": {"bytes": 1.0, "B": 1.0, "MB": 1e6, "GB": 1e9, "MiB": 2.0**20, "GiB": 2.0**30},
    "tokens": {"tokens": 1.0},
    "fraction": {"fraction": 1.0, "%": 0.01, "percent": 0.01},
}


def factor(metric: Metric, unit: str) -> float:
    """From the unit of a row to that of the catalogue; an empty one is the catalogue's. Raises RefusalError."""
    known = _UNITS[metric.unit]
    if unit == "":
        return 1.0
    if unit not in known:
        raise RefusalError(f"{metric.name} is in {shown(unit)}, write one of {', '.join(known)}")
    return known[unit]
