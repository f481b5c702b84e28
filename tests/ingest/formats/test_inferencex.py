"""InferenceX: seconds without a unit in the name, throughput per GPU, and TPOT upside down."""

import json

import pytest

from regress_gate.ingest.content import parse_content
from regress_gate.ingest.formats.inferencex import InferenceX
from regress_gate.ingest.formats.inferencex_decode import InferenceXDecode
from regress_gate.ingest.formats.server_manifest import version_of_image
from regress_gate.ingest.formats.vllm_serve import VllmServe
from tests.factories.serve_results import made_up, script_0_6_4
from tests.ingest.formats.inferencex_results import aggregate, decode, several_nodes
from tests.ingest.formats.reading import read, reading, refusal


def test_one_node_is_read_in_seconds_and_for_all_gpus():
    result = reading(InferenceX(), aggregate())
    assert result.metrics == {
        "ttft_mean": 0.3,
        "ttft_median": 0.29,
        "ttft_p99": 0.6,
        "tpot_mean": 0.02,
        "tpot_median": 0.019,
        "tpot_p99": 0.025,
        "itl_mean": 0.05,
        "itl_median": 0.045,
        "itl_p99": 0.17,
        "e2el_mean": 16.0,
        "e2el_median": 16.1,
        "e2el_p99": 18.0,
        "output_throughput": 80.0,
        "total_throughput": 160.0,
    }
    assert result.workload == {
        "model": "org/Big-1",
        "max_concurrency": 4,
        "input_len": 1024,
        "output_len": 1024,
        "precision": "int4",
        "tp": 8,
    }
    assert result.metadata == {"vllm_version": "0.21.0", "accelerator": "mi355x"}
    assert (result.completed, result.duration, result.definitions) == (None, None, None)
    assert "does not say how many requests failed" in result.notes


def test_of_several_nodes_each_throughput_has_its_own_number_of_gpus():
    result = reading(InferenceX(), several_nodes())
    assert result.metrics["output_throughput"] == 10.0 * 8
    assert result.metrics["total_throughput"] == 40.0 * 12
    assert result.workload["nodes"] == "1x4+2x4"


def test_a_list_holds_one_result_an_entry_and_a_bad_one_leaves_the_others():
    first, second, third = read(InferenceX(), [aggregate(), aggregate(framework="sglang"), aggregate(conc=8)])
    assert (first.position, third.position) == (0, 2)
    assert second.reason == "measures 'sglang', not vLLM"


def test_speculation_and_parallelism_tell_scenarios_apart():
    workload = reading(InferenceX(), aggregate(spec_decoding="mtp", ep=8, dp_attention="true")).workload
    assert {name: workload[name] for name in ("spec", "ep", "dp_attention")} == {
        "spec": "mtp",
        "ep": 8,
        "dp_attention": "true",
    }


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"tp": None}, "tp is missing: throughput is per GPU"),
        ({"tput_per_gpu": None}, "tput_per_gpu is missing"),
        ({"output_tput_per_gpu": 15.0}, "tokens/s by tput_per_gpu and 200 by its input and output parts"),
        ({"median_intvty": 40.0}, "not each other's inverse"),
        ({"p99_tpot": 0.0181}, "p99_intvty is 40"),
        ({"mean_e2el": 60.0, "p99_e2el": 60.0}, "requests in flight, max_concurrency is 4"),
        ({"mean_ttft": "0.3"}, "mean_ttft is '0.3', not a number"),
        ({"median_e2el": 19.0}, "median_e2el_ms is above p99_e2el_ms"),
        ({"total_tput_tps": 5.0}, "an agentic run"),
    ],
)
def test_what_cannot_be_true_is_refused(change, reason):
    assert reason in refusal(InferenceX(), aggregate(**change))


def test_contradicting_gpu_counts_of_several_nodes_are_refused():
    assert "the numbers of GPUs are wrong" in refusal(InferenceX(), several_nodes(num_decode_gpu=16))


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("vllm/vllm-openai:v0.11.2", "0.11.2"),
        ("docker.io/vllm/vllm-openai:v0.11.0rc1-x86_64", "0.11.0rc1"),
        ("vllm/vllm-openai:nightly-" + "a" * 40, "commit:" + "a" * 40),
        ("vllm/vllm-openai:nightly", None),
        ("vllm/vllm-openai:latest", None),
        ("rocm/vllm:rocm6.4.1_vllm_0.10.1", None),
        ("lmsysorg/sglang:v0.5.3", None),
        (None, None),
    ],
)
def test_a_version_comes_only_from_vllms_own_images(image, version):
    assert version_of_image(image) == version
    result = reading(InferenceX(), aggregate(image=image))
    assert result.metadata.get("vllm_version") == version
    assert ("its image does not name a vLLM version" in result.notes) is (version is None)


def test_the_decode_experiment_is_read_in_seconds():
    result = reading(InferenceXDecode(), decode())
    assert result.metrics == {
        "ttft_median": 1.8,
        "ttft_p99": pytest.approx(4.9),
        "e2el_median": pytest.approx(4.4),
        "e2el_p99": pytest.approx(8.3),
        "tpot_median": pytest.approx(0.0208),
        "tpot_p99": pytest.approx(0.0476),
        "request_throughput": 1.25,
        "output_throughput": 160.0,
        "failed_requests": 0.0,
    }
    assert (result.completed, result.duration) == (80, 64.0)
    assert result.workload["input_len"] == 4096
    assert result.workload["request_rate"] is None


def test_the_decode_experiment_is_no_result_of_vllm_bench():
    content = parse_content("r.json", json.dumps(decode()).encode())
    assert not VllmServe().recognises(content)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"completed": 0}, "no request succeeded"),
        ({"median_ttft": 1800.0}, "median_ttft_ms is above p99_ttft_ms"),
        ({"p99_ttft": 4900.0}, "longer than the whole run"),
        ({"input_throughput": 9.0}, "input_throughput says 9"),
        ({"median_ttft": True}, "median_ttft is True, not a number"),
    ],
)
def test_what_cannot_be_true_of_the_decode_experiment_is_refused(change, reason):
    assert reason in refusal(InferenceXDecode(), decode(**change))


def test_a_throughput_without_bounds_is_refused():
    huge = {"tput_per_gpu": 1e308, "output_tput_per_gpu": 1e300, "input_tput_per_gpu": None}
    assert "total_throughput is inf" in refusal(InferenceX(), aggregate(**huge))


@pytest.mark.parametrize("layout", ["tp8", "tep8", "dep8"])
def test_the_layout_and_the_asked_length_are_in_the_name_of_the_file_alone(layout):
    found = reading(InferenceXDecode(), decode(), f"minimax_m25_vllm_{layout}_isl4096_osl128_conc8.json")
    assert (found.workload["layout"], found.workload["output_len"]) == (layout, 128)


def test_a_result_beside_its_aggregate_counts_once_and_says_what_failed():
    result = script_0_6_4(made_up(5, failed=2))
    files = {"r.json": result, "agg_r.json": aggregate()}
    (skipped,) = read(VllmServe(), result, "r.json", beside=files)
    assert (skipped.outcome, "agg_r.json beside it" in skipped.reason) == ("skipped", True)
    found = reading(InferenceX(), aggregate(), "agg_r.json", beside=files)
    alone = reading(VllmServe(), result, "r.json")
    assert (found.completed, found.failed) == (alone.completed, alone.failed)
    assert found.metrics["failed_requests"] == alone.metrics["failed_requests"]


def test_of_several_aggregates_in_a_file_none_takes_the_counts_of_a_result_beside_it():
    beside = {"r.json": script_0_6_4(made_up(5))}
    for found in read(InferenceX(), [aggregate(), aggregate(conc=8)], "agg_r.json", beside=beside):
        assert found.completed is None
