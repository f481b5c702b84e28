"""PyTorch-HUD records: put together to the result that they were made of."""

import pytest

from regress_gate.ingest.formats.pytorch_hud import PytorchHud
from regress_gate.ingest.formats.vllm_serve import VllmServe
from regress_gate.ingest.interface import Reading
from tests.factories.serve_results import made_up, plain
from tests.ingest.formats.reading import read, reading, refusal
from tests.ingest.formats.vllm_family import (
    MODEL,
    hud_latency,
    hud_serve,
    hud_startup,
    hud_throughput,
    record,
    startup,
)

HUD = PytorchHud()


def test_twelve_records_are_the_one_result_that_they_were_made_of():
    found = reading(HUD, hud_serve())
    assert found.metrics == reading(VllmServe(), plain(made_up(4))).metrics


def test_the_arguments_tell_what_was_sent():
    workload = reading(HUD, hud_serve(tensor_parallel_size=2)).workload
    stated = {"dataset": "random", "input_len": 128, "output_len": 8, "tensor_parallel_size": 2, "model": MODEL}
    assert workload | stated == workload


def test_defaults_of_the_random_dataset_are_no_lengths_of_another():
    workload = reading(HUD, hud_serve(dataset_name="sharegpt")).workload
    assert workload["dataset"] == "sharegpt"
    assert "input_len" not in workload


def test_latencies_throughput_and_startup_are_read_as_such():
    found = reading(HUD, hud_latency())
    assert found.metrics["batch_latency_mean"] == pytest.approx(0.9)
    assert (found.workload["batch_size"], found.workload["input_len"]) == (8, 32)
    assert reading(HUD, hud_throughput()).metrics == {"batch_throughput": 16.0, "total_throughput": 2560.0}
    assert reading(HUD, hud_startup()).metrics == {"cold_start_time": 60.0}


def test_a_value_without_a_list_is_one_value():
    assert reading(HUD, [record("avg_cold_startup_time", 60.0, {})]).metrics == {"cold_start_time": 60.0}


def test_two_results_in_one_file_stay_two():
    other = hud_serve(random_input_len=256)
    first, second = read(HUD, hud_serve() + other)
    assert (first.workload["input_len"], second.workload["input_len"]) == (128, 256)


def test_a_startup_beside_its_plain_result_is_a_copy():
    (result,) = read(HUD, hud_startup(), "s.cold_startup.pytorch.json", beside={"s.json": startup()})
    assert (result.outcome, result.reason) == ("skipped", "a copy of s.json beside it")


def with_benchmark(name):
    records = hud_startup()
    records[0]["benchmark"]["name"] = name
    return records


@pytest.mark.parametrize(
    ("records", "why"),
    [
        (with_benchmark("TorchInductor"), "a record of the benchmark 'TorchInductor'"),
        (with_benchmark(7), "name is 7, not text"),
        (hud_startup() + hud_startup(), "stands twice in one result"),
        ([record("avg_cold_startup_time", [60.0, 61.0], {})], "has 2 values: an aggregate"),
        ([record("avg_cold_startup_time", ["<X is not JSON serializable>"], {})], "not a number"),
        ([record("accuracy", [0.9], {})], "no result of vllm bench serve, latency, throughput or startup"),
        ([record("latency", [1.0], 3)], "extra_info is 3, not an object"),
    ],
)
def test_what_is_no_single_result_of_vllm_is_refused(records, why):
    assert why in refusal(HUD, records)


def test_a_stranger_among_the_records_is_refused_alone():
    startup_result, stranger = read(HUD, [*hud_startup(), 5])
    assert startup_result.metrics == {"cold_start_time": 60.0}
    assert "unlike others in the same file" in stranger.reason


def test_records_of_a_run_that_stand_apart_are_not_counted_as_two_runs():
    one, other = hud_serve(), hud_serve(seed=7)
    results = read(HUD, [*one[:6], *other, *one[6:]])
    assert [isinstance(result, Reading) for result in results] == [True, True, False]
    assert "put the records of a run together" in results[2].reason
