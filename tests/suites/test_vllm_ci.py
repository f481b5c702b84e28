"""Definitions of vLLM's CI as suites: all that can be said, and the rest by name."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regress_gate.model.documents import parse_yaml, validate
from regress_gate.model.suite import RecordedPrompts, RecordedTrace, Suite
from regress_gate.suites.vllm_ci import MAX_SCENARIOS, convert_definition, suite_text


def serving(**more):
    return {
        "test_name": "serving_tiny_tp1_random",
        "qps_list": [1, "inf"],
        "server_parameters": {
            "model": "org/tiny",
            "tensor_parallel_size": 1,
            "enforce_eager": "",
            "max-model-len": 4096,
        },
        "client_parameters": {
            "model": "org/tiny",
            "backend": "vllm",
            "dataset_name": "random",
            "random-input-len": 128,
            "random_output_len": 64,
            "ignore-eos": "",
            "num_prompts": 200,
        },
        **more,
    }


def client(**more):
    return serving(client_parameters={**serving()["client_parameters"], **more})


def conversations(**more):
    """A test that sends ShareGPT."""
    parameters = {"model": "org/tiny", "backend": "vllm", "dataset_name": "sharegpt", "num_prompts": 200}
    return serving(client_parameters={**parameters, "dataset_path": "./ShareGPT.json", **more})


def timed_trace(**more):
    """A test that sends recorded traffic."""
    parameters = {"model": "org/tiny", "backend": "vllm", "dataset_name": "timed_trace", "num_prompts": 200}
    return serving(client_parameters={**parameters, "dataset_path": "./traffic.jsonl", **more}, qps_list=["inf"])


def scenarios(data):
    imported = convert_definition(data, "ci", "serving-tests.json")
    assert imported.left_out == ()
    return {scenario.name: scenario for scenario in validate_text(imported).scenarios}


def validate_text(imported):
    return validate(Suite, parse_yaml(suite_text(imported.suite), "ci.yaml"))


def left_out(data):
    imported = convert_definition(data, "ci", "serving-tests.json")
    assert imported.suite is None
    return imported.left_out[0]


def test_each_rate_and_concurrency_is_a_scenario_named_as_its_result_file():
    found = scenarios([serving(max_concurrency_list=[8, 16])])
    assert list(found) == [
        f"serving_tiny_tp1_random_qps_{rate}_concurrency_{limit}" for rate in ("1", "inf") for limit in (8, 16)
    ]
    first, *_, last = found.values()
    assert (first.workload.request_rate, first.workload.concurrency) == (1, 8)
    assert (last.workload.request_rate, last.workload.concurrency) == (None, 16)


def test_without_a_list_the_concurrency_is_the_number_of_requests_as_in_the_ci():
    assert [scenario.workload.concurrency for scenario in scenarios([serving()]).values()] == [200, 200]


def test_keys_have_dashes_or_underscores_and_an_empty_text_is_a_flag():
    (found, _) = scenarios([serving()]).values()
    assert found.server.engine_args == {"tensor_parallel_size": 1, "enforce_eager": True, "max_model_len": 4096}
    workload = found.workload
    assert (workload.input_len, workload.output_len, workload.num_requests) == (128, 64, 200)
    assert workload.ignore_eos


def test_answers_may_end_where_the_client_does_not_forbid_it():
    parameters = {key: value for key, value in serving()["client_parameters"].items() if key != "ignore-eos"}
    (found, _) = scenarios([serving(client_parameters=parameters)]).values()
    assert not found.workload.ignore_eos


def test_conversations_are_recorded_prompts_whose_answers_may_end():
    (found, _) = scenarios([conversations()]).values()
    assert found.workload.dataset == RecordedPrompts(format="sharegpt", file="./ShareGPT.json")
    assert (found.workload.input_len, found.workload.output_len, found.workload.ignore_eos) == (None, None, False)
    assert found.workload.missing == []
    (found, _) = scenarios([conversations(sharegpt_output_len=64, ignore_eos="")]).values()
    assert (found.workload.output_len, found.workload.ignore_eos) == (64, True)


def test_a_prefix_is_part_of_the_prompt_here_and_before_it_there():
    (found, _) = scenarios([client(random_prefix_len=32)]).values()
    assert (found.workload.input_len, found.workload.prefix_len) == (160, 32)


def test_temperature_seed_and_warm_up_are_kept():
    (found, _) = scenarios([client(temperature=0.7, seed=3, num_warmups=5, burstiness=1.0)]).values()
    assert found.workload.extra_body == {"temperature": 0.7}
    assert (found.workload.seed, found.workload.warmup_requests) == (3, 5)


def test_bursts_are_gamma_arrivals_where_there_is_a_rate():
    bursty, unlimited = scenarios([client(burstiness=0.5)]).values()
    assert (bursty.workload.arrival, bursty.workload.burstiness) == ("gamma", 0.5)
    assert (unlimited.workload.request_rate, unlimited.workload.arrival) == (None, "poisson")


def test_gaps_that_are_all_alike_are_a_constant_arrival():
    even, _ = scenarios([client(burstiness="inf")]).values()
    assert (even.workload.arrival, even.workload.burstiness) == ("constant", None)


def test_a_timed_trace_keeps_its_times_and_the_whole_answers():
    given = {"timed-trace-sec-multiplier": 0.001, "timed-trace-chunk-hash-size": 512, "self-timed": ""}
    (found,) = scenarios([timed_trace(**given)]).values()
    assert found.workload.trace == RecordedTrace(file="./traffic.jsonl", format="vllm", scale=0.001, block_tokens=512)
    assert (found.workload.num_requests, found.workload.ignore_eos) == (200, True)
    assert found.workload.missing == []


def test_a_timed_trace_goes_by_vllms_defaults():
    (found,) = scenarios([timed_trace()]).values()
    assert found.workload.trace == RecordedTrace(file="./traffic.jsonl", format="vllm")
    assert found.workload.request_rate is None


def test_the_environment_is_text_and_objects_are_json():
    server = {"model": "org/tiny", "compilation_config": {"mode": 0}, "language_model_only": True, "x": "1e3"}
    test = serving(server_environment_variables={"VLLM_X": 40, "VLLM_Y": "1e3"}, server_parameters=server)
    (found, _) = scenarios([test]).values()
    assert found.server.env == {"VLLM_X": "40", "VLLM_Y": "1e3"}
    assert found.server.engine_args == {"compilation_config": '{"mode":0}', "language_model_only": True, "x": "1e3"}


def test_defaults_go_under_every_test():
    defaults = {key: serving()[key] for key in ("qps_list", "server_parameters", "client_parameters")}
    tests = [
        {"test_name": "serving_a", "server_parameters": {"tensor_parallel_size": 2}},
        {"test_name": "serving_b", "qps_list": ["inf"], "client_parameters": {"random-input-len": 512}},
    ]
    found = scenarios({"defaults": {**defaults, "max_concurrency_list": [8]}, "tests": tests})
    assert list(found) == [
        "serving_a_qps_1_concurrency_8",
        "serving_a_qps_inf_concurrency_8",
        "serving_b_qps_inf_concurrency_8",
    ]
    assert found["serving_a_qps_1_concurrency_8"].server.engine_args["tensor_parallel_size"] == 2
    assert found["serving_b_qps_inf_concurrency_8"].workload.input_len == 512


def test_tests_of_several_models_share_a_suite():
    other = {**client(model="org/other"), "test_name": "serving_other", "server_parameters": {"model": "org/other"}}
    assert {found.server.model for found in scenarios([serving(), other]).values()} == {"org/tiny", "org/other"}


def test_embeddings_of_random_tokens_are_embeddings():
    parameters = {key: value for key, value in serving()["client_parameters"].items() if "output" not in key}
    del parameters["ignore-eos"]
    parameters |= {"backend": "openai-embeddings", "endpoint": "/v1/embeddings"}
    (found, _) = scenarios([serving(client_parameters=parameters)]).values()
    assert (found.workload.api, found.workload.output_len) == ("embeddings", None)


@pytest.mark.parametrize(
    ("test", "why"),
    [
        ({"test_name": "latency_tiny", "parameters": {"model": "m"}}, "latency_tiny is not a serving test"),
        ({"test_name": "llama8B", "common_parameters": {}}, "compares several engines"),
        (serving(test_name="serving_\ud800", qps_list=[1]), "is not valid in a suite: name"),
        (client(dataset_name="sonnet"), "sends the dataset 'sonnet'"),
        (conversations(dataset_path=None), "lacks dataset_path"),
        (
            conversations(backend="openai-embeddings"),
            "sends the dataset 'sharegpt'; suites send random tokens and, for",
        ),
        (conversations(sharegpt_output_len="x"), "has sharegpt_output_len 'x', which is not a count"),
        (client(backend="openai-chat"), "uses the backend 'openai-chat'"),
        (client(endpoint="/v1/chat/completions"), "uses the endpoint '/v1/chat/completions'"),
        (client(model="org/other"), "serves 'org/tiny' and asks for 'org/other'"),
        (client(num_prompts=None), "lacks num_prompts"),
        (client(random_output_len=0), "lacks random_output_len"),
        (client(random_range_ratio=0.5), "'random_range_ratio', which suites cannot express"),
        (client(burstiness=0), "has burstiness 0, which is not a positive number"),
        (serving(qps_list=[1], client_parameters={**client()["client_parameters"], "burstiness": 1e-3}), "burstiness"),
        (timed_trace(dataset_path=None), "lacks dataset_path"),
        (timed_trace(no_self_timed=""), "sends a timed trace at a rate"),
        (timed_trace(self_timed=False), "sends a timed trace at a rate"),
        (timed_trace(num_warmups=1), "warms up with copies of a request"),
        (timed_trace(timed_trace_label_timestamp="ts"), "timed_trace_label_timestamp 'ts'; in a suite"),
        (timed_trace(timed_trace_sec_multiplier="fast"), "timed_trace_sec_multiplier 'fast', which is not"),
        ({**timed_trace(), "qps_list": [1, 2]}, "gives several rates to a timed trace"),
        (client(num_prompts="many"), "num_prompts 'many', which is not a count"),
        (client(random_output_len=8000), "8128 tokens, more than its max_model_len of 4096"),
        (serving(qps_list=[]), "has no qps_list"),
        (serving(qps_list=[0]), "0 in qps_list, which is not a rate"),
        (serving(max_concurrency_list=[1.5]), "1.5 in max_concurrency_list, which is not a count"),
        (serving(surprise=1), "has the unknown key 'surprise'"),
        (serving(server_parameters={}), "does not name the model of the server"),
        (serving(server_parameters={"model": "org/tiny", "x": None}), "no value for the server parameter 'x'"),
        (serving(test_name="serving " + "x" * 90, qps_list=[1]), "is not valid in a suite: name"),
        (5, "a test without a name is not an object with a test_name"),
    ],
)
def test_what_a_suite_cannot_express_is_named_with_the_reason(test, why):
    assert why in left_out([test])


def test_a_test_that_is_given_twice_is_kept_once():
    imported = convert_definition([serving(), serving()], "ci", "x.json")
    assert len(imported.suite["scenarios"]) == 2
    assert [reason.endswith("is given twice") for reason in imported.left_out] == [True, True]


def test_a_definition_has_only_so_many_scenarios():
    many = serving(qps_list=list(range(1, MAX_SCENARIOS + 2)), max_concurrency_list=[1])
    imported = convert_definition([many], "ci", "x.json")
    assert len(imported.suite["scenarios"]) == MAX_SCENARIOS
    assert "more than 2000 scenarios" in imported.left_out[0]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 300) | st.floats(allow_nan=True) | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@given(st.sampled_from(["qps_list", "server_parameters", "client_parameters", "test_name", "x"]), JSON)
def test_any_value_is_converted_to_a_valid_suite_or_named(key, value):
    imported = convert_definition([serving(), serving(**{"test_name": "serving_odd", key: value})], "ci", "x")
    validate_text(imported)
    assert len(imported.suite["scenarios"]) > 2 or imported.left_out


@given(st.sampled_from(["random_input_len", "temperature", "seed", "ignore_eos", "burstiness", "y"]), JSON)
def test_any_client_parameter_is_converted_or_named(key, value):
    imported = convert_definition([client(**{key: value})], "ci", "x")
    if imported.suite is not None:
        validate_text(imported)


@given(st.dictionaries(st.text(max_size=9), st.text(max_size=9) | st.integers() | st.booleans(), max_size=4))
def test_what_is_written_reads_back(values):
    assert parse_yaml(suite_text({"name": "x", "values": values}), "x").data == {"name": "x", "values": values}


def test_comments_stand_before_the_suite():
    text = suite_text(convert_definition([serving()], "ci", "x.json").suite, ["one", "two"])
    assert text.startswith("# one\n# two\nname: ci\n")
    assert json.dumps(parse_yaml(text, "x").data)
