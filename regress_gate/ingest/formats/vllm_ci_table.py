"""`benchmark_results.json` of vLLM's CI: the tables of its report, one row for each test, with human column names.

A row is converted to the keys of its benchmark and read by the reader of that benchmark. Rows whose own result lies
beside the table are skipped. Early tables are objects of columns (pandas' `to_dict`), later ones lists of rows.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from regress_gate.ingest import fields
from regress_gate.ingest.content import Content
from regress_gate.ingest.formats.vllm_client import (
    TEST_KEY,
    add_client_definitions,
    uniform_accelerator,
    workload_from_arguments,
)
from regress_gate.ingest.formats.vllm_offline import OFFLINE, VllmThroughput
from regress_gate.ingest.formats.vllm_serve import normalise as serve
from regress_gate.ingest.interface import (
    Certainty,
    Context,
    FileOutcome,
    Generation,
    Reading,
    UnusedResult,
    read_documents,
)
from regress_gate.measurement.plausibility import RefusalError, check_statistics
from regress_gate.text import excerpt

_TOLERANCE = 0.02
_TABLES = ("latency", "throughput", "serving")
_SERVING = {
    "# of req.": "completed",
    "qps": "request_rate",
    "# of max concurrency.": "max_concurrency",
    "Tput (req/s)": "request_throughput",
    "Total Token Tput (tok/s)": "total_token_throughput",
    "Output Tput (tok/s)": "output_throughput",
    "Total input tokens": "total_input_tokens",
    "Total output tokens": "total_output_tokens",
    "Median": "median_tpot_ms",
    "P99": "p99_tpot_ms",
}
_SERVING_LATENCY = re.compile(r"(Mean|Median|P99) (TTFT|TPOT|ITL) \(ms\)")
_THROUGHPUT = {
    "# of req.": "num_requests",
    "Total # of tokens": "total_num_tokens",
    "Elapsed time (s)": "elapsed_time",
    "Tput (req/s)": "requests_per_second",
    "Tput (tok/s)": "tokens_per_second",
}
_LATENCY = re.compile(r"(Mean|Median|P90|P99) latency \((ms)\)")
_FACTS = {
    "Dataset Name": "dataset_name",
    "Input Len": "input_len",
    "Output Len": "output_len",
    "TP Size": "tensor_parallel_size",
    "PP Size": "pipeline_parallel_size",
}


class VllmCiTable:
    name = "vllm-ci-table"
    tool = "vLLM's CI"
    bare_constants = True
    generations = (
        Generation(
            "benchmark_results.json of 2025 and later",
            "a list of rows with `Test name`",
            "ttft, tpot, itl, rates; batch_latency; batch_throughput",
            "bare `Median` and `P99` are tpot in ms; failures and duration are not in it; rows whose own result lies "
            "beside it are skipped",
        ),
        Generation("earlier", "tables `latency`, `throughput`, `serving`, column by column", "the same"),
    )

    def recognises(self, content: Content) -> Certainty:
        return Certainty.SURE if next(_rows(content), None) is not None else Certainty.NO

    def read(self, content: Content, context: Context) -> Sequence[Reading | UnusedResult]:
        return read_documents(_rows(content), lambda row, position: _read(row, position, context))


def _rows(content: Content) -> Iterator[Any]:
    """The rows of all tables; empty for any other content."""
    only = content.documents[0] if len(content.documents) == 1 else None
    if fields.is_list(only) and only and isinstance(only[0], dict) and "Test name" in only[0]:
        yield from only
    elif isinstance(only, dict) and only and set(only) <= set(_TABLES):
        for table in only.values():
            yield from _turned(table)


def _turned(table: object) -> Iterator[dict[str, Any]]:
    """The rows of a table that is stored by column: `{column: {row: value}}`. Reads every cell once."""
    names = table.get("Test name") if isinstance(table, dict) else None
    if isinstance(table, dict) and isinstance(names, dict):
        rows: dict[str, dict[str, Any]] = {row: {} for row in names}
        for column, values in table.items():
            for row, value in values.items() if isinstance(values, dict) else ():
                if row in rows:
                    rows[row][column] = value
        yield from rows.values()


def _read(row: object, position: int, context: Context) -> Reading | UnusedResult:
    if not isinstance(row, dict) or not isinstance(test := row.get("Test name"), str):
        return UnusedResult(position, FileOutcome.REFUSED, "a row without a test's name")
    if context.is_beside(f"{test}.json"):
        return UnusedResult(position, FileOutcome.SKIPPED, f"{excerpt(test)}.json beside it is the result itself")
    # A column that does not apply to a test is NaN in its row.
    row = {key: value for key, value in row.items() if not (isinstance(value, float) and math.isnan(value))}
    try:
        reading = _normalise(row, position)
        facts = workload_from_arguments({name: _whole(row[column]) for column, name in _FACTS.items() if column in row})
        model = fields.text(row, "Model")
    except RefusalError as refusal:
        return UnusedResult(position, FileOutcome.REFUSED, str(refusal))
    gpu = uniform_accelerator(row.get("GPU"))
    workload = {**reading.workload, **facts, TEST_KEY: excerpt(test)}
    if model is not None:
        workload["model"] = excerpt(model)
    reading = replace(reading, workload=workload, metadata={} if gpu is None else {"gpu_type": gpu})
    return add_client_definitions(reading, context) if reading.definitions is None else reading


def _normalise(row: Mapping[str, Any], position: int) -> Reading:
    """Raises RefusalError with the reason when the row must not be used."""
    if any(_LATENCY.fullmatch(column) for column in row):
        return _latency(row, position)
    if "Elapsed time (s)" in row:
        return VllmThroughput().normalise(
            {_THROUGHPUT[column]: value for column, value in row.items() if column in _THROUGHPUT}, position
        )
    if "Mean TTFT (ms)" in row:
        return _serving(row, position)
    raise RefusalError("a row with neither latency, throughput nor TTFT in the columns of vLLM's CI")


def _latency(row: Mapping[str, Any], position: int) -> Reading:
    latency = {
        match[1].lower(): fields.required(row, column) / 1000
        for column in row
        if (match := _LATENCY.fullmatch(column)) and row[column] is not None
    }
    statistics = {"batch_latency": latency}
    check_statistics(statistics, None)
    metrics = {f"batch_latency_{name}": value for name, value in statistics.get("batch_latency", {}).items()}
    # There are usually so few passes that P99 is the longest.
    metrics.pop("batch_latency_p99", None)
    if not metrics:
        raise RefusalError("no mean, median or P90 latency stands in the row")
    return Reading(
        position=position,
        completed=None,
        failed=0,
        duration=None,
        metrics=metrics,
        workload={"benchmark": "latency"},
        definitions=OFFLINE,
        notes=("p99 left out: the table does not say of how many passes it is",),
    )


def _serving(row: Mapping[str, Any], position: int) -> Reading:
    data: dict[str, Any] = {key: _whole(row[column]) for column, key in _SERVING.items() if column in row}
    for column, value in row.items():
        if match := _SERVING_LATENCY.fullmatch(column):
            data[f"{match[1].lower()}_{match[2].lower()}_ms"] = value
    completed, rate = fields.count(data, "completed"), fields.required(data, "request_throughput")
    if rate <= 0:
        raise RefusalError(f"Tput (req/s) is {rate:g}: nothing was measured")
    total, output = fields.number(data, "total_token_throughput"), fields.number(data, "output_throughput")
    if total is not None and output is not None and output > total * (1 + _TOLERANCE):
        raise RefusalError(f"Output Tput (tok/s) is {output:g}, above the total of {total:g}: columns mixed up")
    # The table has no duration; it follows from these two and is only used to check the other numbers.
    reading = serve({**data, "duration": (completed or 0) / rate}, position, with_samples=False)
    if "max_concurrency" in data:
        return replace(reading, duration=None)
    workload = {key: value for key, value in reading.workload.items() if key != "max_concurrency"}
    return replace(reading, duration=None, workload=workload)


def _whole(value: Any) -> Any:
    """A count that pandas wrote as a float, because its column has gaps."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
