"""`.commands` files of vLLM's CI: what they say of a result beside them, and nothing that they do not say."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regress_gate.ingest.formats.vllm_client import parse_command, uniform_accelerator, workload_from_arguments
from regress_gate.ingest.formats.vllm_offline import VllmLatency
from regress_gate.ingest.formats.vllm_serve import VllmServe
from regress_gate.ingest.identification import derive_scenario_name
from tests.factories.serve_results import import_all, made_up, plain, write
from tests.ingest.formats.reading import reading
from tests.ingest.formats.vllm_family import MODEL, TEST, commands, latency


def served(**more):
    return reading(VllmServe(), plain(made_up(4)), f"{TEST}.json", beside={f"{TEST}.commands": commands(**more)})


def test_a_result_takes_lengths_dataset_and_machine_from_them():
    found = served()
    stated = {"input_len": 128, "output_len": 8, "dataset": "random", "tensor_parallel_size": 2}
    assert found.workload | stated == found.workload
    assert found.metadata["gpu_type"] == "H100"
    assert found.workload["model"] == MODEL


def test_the_test_names_the_scenario_so_that_tests_of_one_model_stay_apart():
    assert derive_scenario_name(served().workload) == TEST
    assert derive_scenario_name({**served().workload, "test": "x" * 81}) is None


def test_a_name_that_would_be_too_long_does_without_the_names_of_its_facts():
    facts = {"dataset": "random", "input_len": 8192, "output_len": 512, "variant": "nomtp"}
    workload = {"model": "org/DeepSeek-V4-Flash", "max_concurrency": 1, "num_prompts": 24, **facts}
    assert derive_scenario_name(workload) == "DeepSeek-V4-Flash-c1-n24-random-8192-512-nomtp"
    del workload["variant"]
    assert derive_scenario_name(workload) == "DeepSeek-V4-Flash-c1-n24-dataset=random-input_len=8192-output_len=512"


def test_the_result_itself_goes_first():
    found = reading(
        VllmServe(),
        plain(made_up(4), gpu_type="H200"),
        f"{TEST}.json",
        beside={f"{TEST}.commands": commands(client_command="vllm bench serve --model other/model --num-prompts 99")},
    )
    assert (found.workload["model"], found.workload["num_prompts"]) == (MODEL, 12)
    assert found.metadata["gpu_type"] == "H200"


def test_a_latency_result_gets_its_model_and_batch_size():
    line = f" VLLM_X=1 vllm bench latency --output-json x.json --model {MODEL} --batch-size 8 --input-len=32"
    found = reading(
        VllmLatency(), latency(), "latency_tiny.json", beside={"latency_tiny.commands": {"latency_command": line}}
    )
    assert found.workload == {
        "benchmark": "latency",
        "model": MODEL,
        "input_len": 32,
        "batch_size": 8,
        "test": "latency_tiny",
    }


def test_lengths_of_the_random_dataset_do_not_count_for_another():
    assert workload_from_arguments({"dataset_name": "sharegpt", "random_input_len": 1024}) == {"dataset": "sharegpt"}


@pytest.mark.parametrize(
    ("stated", "facts"),
    [
        ({"random_range_ratio": 0.5, "random_prefix_len": 64}, {"range_ratio": 0.5, "prefix_len": 64}),
        ({"random_range_ratio": "0.5", "random_prefix_len": "64"}, {"range_ratio": 0.5, "prefix_len": 64}),
        ({"random_range_ratio": 0.0, "random_prefix_len": 0}, {}),
        ({"random_range_ratio": '{"input": 0.3, "output": 0.5}', "random_prefix_len": None}, {}),
    ],
)
def test_workloads_differ_by_the_spread_and_shared_prefix_of_random_lengths(stated, facts):
    assert workload_from_arguments({"dataset_name": "random", **stated}) == {"dataset": "random", **facts}
    assert workload_from_arguments({"dataset_name": "sharegpt", **stated}) == {"dataset": "sharegpt"}


def test_a_probe_of_an_adaptive_search_says_so():
    assert any("adaptive search" in note for note in served(adaptive_search=True).notes)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("H100\nH100", "H100"), ("8xH100", "H100"), ("H100\nA100", None), ("", None), (None, None), ("<b>\x1b", None)],
)
def test_the_accelerator_is_one_or_none(text, expected):
    assert uniform_accelerator(text) == expected


@pytest.mark.parametrize("beside", [[1, 2], {"client_command": 'vllm "'}, {"client_command": 5, "gpu_type": {}}])
def test_commands_that_cannot_be_read_leave_the_result_as_it_is(beside):
    without = reading(VllmServe(), plain(made_up(4)), f"{TEST}.json")
    found = reading(VllmServe(), plain(made_up(4)), f"{TEST}.json", beside={f"{TEST}.commands": beside})
    assert (found.metrics, found.workload) == (without.metrics, without.workload)


@given(st.text())
def test_any_text_is_a_command_or_has_open_quotes(line):
    try:
        options = parse_command(line)
    except ValueError:
        return
    assert all(isinstance(name, str) for name in options)
    workload_from_arguments(options)


def test_a_folder_of_the_ci_is_imported_with_its_tests_as_scenarios(tmp_path):
    for tp in (1, 2):
        test = TEST.replace("tp1", f"tp{tp}")
        write(tmp_path / f"{test}.json", plain(made_up(tp)))
        write(tmp_path / f"{test}.commands", commands())
    intake = import_all(tmp_path)
    assert intake.complete
    (run,) = intake.runs
    assert [trial.scenario for trial in run.trials] == [TEST, TEST.replace("tp1", "tp2")]
    assert run.testbed.accelerator == "H100"
