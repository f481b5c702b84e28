"""The long table of our own: one value a row, for results of tools that nothing else reads."""

from datetime import UTC, datetime

import pytest

from regress_gate.ingest.content import parse_content
from regress_gate.ingest.formats.long_table import LongTable
from regress_gate.ingest.interface import Certainty, Context, Reading, UnusedResult
from regress_gate.ingest.registry import READERS
from regress_gate.measurement.plausibility import RefusalError
from tests.ingest.formats.long_tables import as_csv, as_json, as_lines, rows

READ = {"ttft_mean": 0.05, "request_throughput": 5.0, "failed_requests": 0.0}


def read(data, name="table.csv"):
    content = parse_content(name, data)
    assert LongTable().recognises(content) is Certainty.LIKELY
    return LongTable().read(content, Context())


def refused(table):
    (result,) = read(as_json(table), "t.json")
    assert isinstance(result, UnusedResult)
    return result.reason


@pytest.mark.parametrize("write", [as_csv, as_json, as_lines, lambda table: as_csv(table, ";")])
def test_every_way_to_write_it_reads_the_same(write):
    (result,) = read(write(rows()), "t.csv" if write not in (as_json, as_lines) else "t.json")
    assert result.metrics == READ
    assert (result.completed, result.failed, result.duration, result.trial) == (100, 0, 20.0, 1)
    assert result.metadata == {
        "vllm_version": "0.19.1",
        "testbed": "lab",
        "suite": "chat@1",
        "scenario": "short",
        "run": "a",
    }
    assert result.workload == {"model": "org/tiny", "request_rate": None, "max_concurrency": 8}


def test_only_metric_and_value_are_required():
    (result,) = read(b"metric,value\nttft_p99,0.25\n")
    assert result.metrics == {"ttft_p99": 0.25}
    assert (result.completed, result.metadata, result.workload) == (None, {}, {})
    assert "does not say how many requests failed" in result.notes


def test_rows_are_results_by_version_scenario_run_and_trial():
    table = rows() + rows(trial=2) + rows(run="b") + rows(scenario="long") + rows(version="0.20.0")
    results = read(as_csv(table))
    assert [result.position for result in results] == [0, 1, 2, 3, 4]
    assert [result.trial for result in results] == [1, 2, 1, 1, 1]


@pytest.mark.parametrize(
    ("name", "value", "unit", "expected"),
    [
        ("ttft_mean", 50, "ms", 0.05),
        ("ttft_mean", 50_000, "us", 0.05),
        ("ttft_mean", 0.05, "", 0.05),
        ("ttft_mean", 0.05, "s", 0.05),
        ("batch_throughput", 5, "1/s", 5.0),
        ("peak_memory", 2, "GiB", 2.0 * 2**30),
        ("peak_memory", 2, "", 2.0),
        ("accuracy_agreement", 50, "%", 0.5),
        ("accuracy_gsm8k", 0.5, "fraction", 0.5),
    ],
)
def test_units_become_the_catalogues_and_none_is_the_catalogues(name, value, unit, expected):
    (result,) = read(as_csv(rows((name, value, unit))))
    assert result.metrics[name] == pytest.approx(expected)


def test_further_columns_describe_the_workload():
    table = rows(**{"workload.arrival": "bursty", "workload.seed": 7, "started": "2026-05-01T12:00:00+00:00"})
    for data, name in ((as_csv(table), "t.csv"), (as_json(table), "t.json")):
        (result,) = read(data, name)
        assert (result.workload["arrival"], result.workload["seed"]) == ("bursty", 7)
        assert result.started == datetime(2026, 5, 1, 12, tzinfo=UTC)


def test_definitions_keep_results_apart():
    (result,) = read(as_json(rows(definitions="inference-perf")), "t.json")
    assert result.definitions == "inference-perf"


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        (rows(("tfft_mean", 1, "s")), "unknown metric 'tfft_mean' (did you mean 'ttft_mean'?)"),
        (rows(("<b>", 1, "s")), "unknown metric '<b>'"),
        (rows(("ttft_mean", 1, "furlongs")), "ttft_mean is in 'furlongs', write one of s, ms"),
        (rows(("request_throughput", 5, "ms")), "request_throughput is in 'ms'"),
        (rows(("ttft_mean", None, "s")), "ttft_mean has no value"),
        (rows(("ttft_mean", "much", "s")), "value is 'much', not a number"),
        (rows(("ttft_mean", -1, "s")), "ttft_mean is -1 s, which cannot be"),
        (rows(("ttft_mean", 0, "s")), "every latency is 0"),
        (rows(("accuracy_agreement", 1.5, "fraction")), "which cannot be"),
        (rows(("ttft_mean", 1, "s"), ("ttft_mean", 2, "s")), "ttft_mean is there twice"),
        (rows(("ttft_median", 2, "s"), ("ttft_p99", 1, "s")), "median_ttft_ms is above p99_ttft_ms"),
        (rows(("request_throughput", 50, "req/s")), "request_throughput says 50, but 100 in 20 s is 5"),
        (
            rows(("ttft_mean", 1, "s"), ("failed_requests", 0.5, "fraction")),
            "failed_requests says 0.5, the counts say 0",
        ),
        (rows(completed=0, failed=9), "no request succeeded (9 failed)"),
        (rows() + rows(("e2el_mean", 1, "s"), completed=99), "completed is 100 and 99 in rows of one result"),
        (rows(completed=1.5), "completed is 1.5, not a count"),
        (rows(trial=0), "trial is 0"),
        (rows(max_concurrency=-2), "max_concurrency is -2, neither positive nor inf"),
        (rows(definitions="tea leaves"), "unknown definitions 'tea leaves'"),
        (rows(started="2026-05-01 12:00"), "write a time with its zone"),
        (rows(**{"workload.x": [1]}), "workload.x is a list"),
    ],
)
def test_what_cannot_be_stored_is_refused(table, reason):
    assert reason in refused(table)


def test_one_bad_result_leaves_the_others():
    good, bad = read(as_csv(rows() + rows(("tfft_mean", 1, "s"), run="b")))
    assert isinstance(good, Reading)
    assert isinstance(bad, UnusedResult)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"metric,value,modle\nttft_mean,1,tiny\n", "unknown column 'modle' (did you mean 'model'?)"),
        (b"metric,value\nttft_mean\n", "t.csv:2: has 1 cell where the first row has 2"),
        (b"metric,value\n", "has no rows"),
        (b'metric,value\n"ttft_mean,1\n', "is not valid CSV"),
    ],
)
def test_a_table_that_is_wrong_as_a_whole_is_refused(data, reason):
    with pytest.raises(RefusalError) as caught:
        read(data, "t.csv")
    assert reason in str(caught.value)


def test_the_example_in_the_documentation_is_read():
    from regress_gate.ingest.formats import long_table

    example = [line.strip() for line in (long_table.__doc__ or "").splitlines() if line.count(",") > 8]
    (result,) = read("\n".join(example).encode())
    assert result.metrics == {"ttft_mean": pytest.approx(0.0512), "request_throughput": 3.9}


def test_other_tables_are_not_taken_for_one():
    for data in (b"Metric,avg,min,max\nx,1,1,1\n", b"time,value\n1,2\n", b'[{"metric": {"name": "x"}, "value": 1}]'):
        assert not LongTable().recognises(parse_content("t.csv", data))


def test_no_other_reader_claims_it():
    content = parse_content("t.csv", as_csv(rows()))
    assert [reader.name for reader in READERS if reader.recognises(content)] == ["long-table"]
