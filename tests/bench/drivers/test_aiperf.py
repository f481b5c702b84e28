"""AIPerf: its requests' times by our definitions, with the server's counts of tokens."""

import json
from itertools import pairwise
from statistics import fmean

import pytest

from regress_gate.bench.load.load_errors import LoadError
from regress_gate.bench.load.load_workload import Arrival

from .conftest import recorded


@pytest.fixture
def records():
    return [json.loads(line) for line in recorded("aiperf.jsonl").splitlines()]


def measure(tool, records, summary=None, **workload):
    files = {
        "profile_export_aiperf.json": json.dumps(summary or json.loads(recorded("aiperf.json"))),
        "profile_export.jsonl": "".join(json.dumps(record) + "\n" for record in records),
    }
    return tool("aiperf", files).measure(**workload)


def values(records, name):
    return [record["metrics"][name]["value"] for record in records]


def test_tpot_counts_the_servers_tokens_and_not_those_of_the_answer_encoded_again(tool, records):
    metrics = measure(tool, records).trial.metrics
    assert values(records, "output_sequence_length") != [32] * 4
    pairs = zip(values(records, "request_latency"), values(records, "time_to_first_token"), strict=True)
    assert metrics["tpot_mean"] == pytest.approx(fmean((latency - first) / 31 / 1000 for latency, first in pairs))
    assert metrics["output_throughput"] == pytest.approx(4 * 32 / 5.705808896000001)


def test_itl_is_the_inter_chunk_latency(tool, records):
    gaps = [gap for one in values(records, "inter_chunk_latency") for gap in one]
    assert measure(tool, records).trial.metrics["itl_mean"] == pytest.approx(fmean(gaps) / 1000)


def test_units_are_read_and_not_assumed(tool, records):
    expected = dict(measure(tool, records).trial.metrics)
    for record in records:
        record["metrics"]["time_to_first_token"]["value"] *= 1000
        record["metrics"]["time_to_first_token"]["unit"] = "us"
    assert dict(measure(tool, records).trial.metrics) == pytest.approx(expected)
    records[0]["metrics"]["time_to_first_token"]["unit"] = "ticks"
    with pytest.raises(LoadError, match="'ticks' is no unit of time"):
        measure(tool, records)


def test_requests_with_an_error_are_failures_and_warm_up_is_left_out(tool, records):
    records[0] |= {"error": {"code": 503, "message": "EngineCore"}, "metrics": {}}
    warm_up = {"metadata": {**records[1]["metadata"], "benchmark_phase": "warmup"}, "metrics": {}}
    trial = measure(tool, [warm_up, *records]).trial
    assert (trial.completed, trial.failed, trial.metrics["failed_requests"]) == (3, 1, 0.25)


def test_no_success_at_all_is_an_error(tool, records):
    for record in records:
        record |= {"error": {"code": 503}, "metrics": {}}
    with pytest.raises(LoadError, match=r"no request succeeded \(4 failed\)"):
        measure(tool, records)


def test_a_cancelled_pass_is_no_result(tool, records):
    with pytest.raises(LoadError, match="cancelled"):
        measure(tool, records, {**json.loads(recorded("aiperf.json")), "was_cancelled": True})


def test_an_answer_of_one_chunk_has_no_gaps(tool, records):
    del records[1]["metrics"]["inter_chunk_latency"]
    records[1]["metrics"]["request_latency"] = records[1]["metrics"]["time_to_first_token"]
    samples = measure(tool, records).trial.samples
    assert samples is not None
    assert 0 in (samples.itl_start[1:] - samples.itl_start[:-1])


def test_it_is_asked_for_the_whole_workload(tool, records):
    del records
    files = {"profile_export_aiperf.json": recorded("aiperf.json"), "profile_export.jsonl": recorded("aiperf.jsonl")}
    made = tool("aiperf", files)
    made.measure(request_rate=3.0, arrival=Arrival.CONSTANT, concurrency=4)
    words = made.called["arguments"]
    pairs = list(pairwise(words))
    for pair in (
        ("--url", "http://127.0.0.1:9"),
        ("--model", "tiny"),
        ("--tokenizer", "org/model"),
        ("--request-count", "4"),
        ("--synthetic-input-tokens-mean", "128"),
        ("--output-tokens-mean", "32"),
        ("--extra-inputs", "ignore_eos:true"),
        ("--request-rate", "3.0"),
        ("--arrival-pattern", "constant"),
        ("--concurrency", "4"),
    ):
        assert pair in pairs
