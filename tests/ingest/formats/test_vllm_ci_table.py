"""`benchmark_results.json` of vLLM's CI: human column names, milliseconds, and bare `Median` and `P99`."""

import json

import pytest

from regress_gate.ingest.content import parse_content
from regress_gate.ingest.formats.vllm_ci_table import VllmCiTable
from regress_gate.ingest.interface import Context, Reading
from tests.ingest.formats.reading import read, reading, refusal
from tests.ingest.formats.vllm_family import MODEL, TEST, old_table, table, table_row

TABLE = VllmCiTable()


def test_bare_median_and_p99_are_tpot_in_ms():
    found = reading(TABLE, [table_row()])
    assert found.metrics == pytest.approx(
        {
            "ttft_mean": 0.05,
            "ttft_median": 0.04,
            "ttft_p99": 0.09,
            "tpot_mean": 0.011,
            "tpot_median": 0.010,
            "tpot_p99": 0.020,
            "itl_mean": 0.0115,
            "itl_median": 0.0105,
            "itl_p99": 0.021,
            "request_throughput": 10.0,
            "output_throughput": 80.0,
            "total_throughput": 1360.0,
        }
    )
    assert (found.completed, found.duration) == (100, None)
    assert "does not say how many requests failed" in found.notes


def test_the_row_states_workload_and_machine():
    found = reading(TABLE, [table_row()])
    assert found.workload == {
        "model": MODEL,
        "request_rate": None,
        "max_concurrency": 4,
        "dataset": "random",
        "input_len": 128,
        "output_len": 8,
        "tensor_parallel_size": 2,
        "test": TEST,
    }
    assert found.metadata == {"gpu_type": "H100"}


def test_latency_and_throughput_rows_are_those_benchmarks():
    latency, throughput, _ = read(TABLE, table())
    # 900 and 1000 ms; the P99 of an unknown number of passes is left out.
    assert latency.metrics == {"batch_latency_mean": 0.9, "batch_latency_median": 1.0}
    assert throughput.metrics == {"batch_throughput": 16.0, "total_throughput": 2560.0}
    assert (throughput.completed, throughput.duration) == (64, 4.0)
    assert latency.definitions == throughput.definitions == "vllm-offline"


def test_early_files_are_tables_of_columns():
    rows = [(row.metrics, row.workload) for row in read(TABLE, table())]
    assert [(row.metrics, row.workload) for row in read(TABLE, old_table())] == rows


def test_a_column_that_a_test_does_not_have_is_nan_and_not_a_number():
    row = table_row(**{"Dataset Name": "sharegpt", "Input Len": float("nan"), "Output Len": float("nan")})
    (found,) = TABLE.read(parse_content("benchmark_results.json", json.dumps([row]).encode()), Context())
    assert isinstance(found, Reading)
    assert found.workload["dataset"] == "sharegpt"
    assert "input_len" not in found.workload


def test_a_row_whose_own_result_lies_beside_the_table_is_skipped():
    (result,) = read(TABLE, [table_row()], beside={f"{TEST}.json": {}})
    assert (result.outcome, result.reason) == ("skipped", f"{TEST}.json beside it is the result itself")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"# of req.": 0}, "no request succeeded"),
        ({"Tput (req/s)": 0.0}, "nothing was measured"),
        ({"P99": 5.0}, "median_tpot_ms is above p99_tpot_ms"),
        ({"Mean TTFT (ms)": 0.0}, "which no request can reach"),
        ({"Mean TTFT (ms)": 900.0, "P99 TTFT (ms)": 900.0}, "requests in flight, max_concurrency is 4"),
        ({"Output Tput (tok/s)": 8000.0}, "above the total of 1360"),
        ({"qps": -3}, "neither a positive number nor"),
        ({"Test name": 5}, "a row without a test's name"),
    ],
)
def test_what_cannot_be_a_measurement_is_refused(change, why):
    assert why in refusal(TABLE, [table_row(**change)])


def test_a_row_of_unknown_columns_is_refused():
    assert "neither latency, throughput nor TTFT" in refusal(TABLE, [{"Test name": "x", "Speed": 3}])


@pytest.mark.parametrize("value", [None, float("nan"), 0.0])
def test_a_latency_row_without_a_latency_is_refused(value):
    row = {"Test name": "latency_x", "Median latency (ms)": value, "P99 latency (ms)": 900.0}
    (found,) = TABLE.read(parse_content("benchmark_results.json", json.dumps([row]).encode()), Context())
    assert "no mean, median or P90 latency" in found.reason
