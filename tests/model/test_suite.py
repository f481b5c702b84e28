"""What a workload may say, for each API, and what is refused with its line."""

import pytest

from regress_gate.bench.experiment.experiment_plan import suite_digest
from regress_gate.errors import InputError
from regress_gate.model.documents import parse_yaml, validate
from regress_gate.model.suite import Suite, Workload

SUITE = """\
name: mine
version: 1
description: test
scenarios:
  - name: a
    why: because
    sees: [VLLM-28882]
    server: {model: m}
    workload:
      %s
"""


def workload(text: str) -> Workload:
    return validate(Suite, parse_yaml(SUITE % text, "file")).scenarios[0].workload


def refused(text: str) -> str:
    with pytest.raises(InputError) as raised:
        validate(Suite, parse_yaml(text, "file"))
    return str(raised.value)


def test_completions_of_exact_length_are_what_nothing_else_asks_for():
    found = workload("input_len: 8")
    assert (found.api, found.ignore_eos, found.extra_body, found.lora_adapters) == ("completions", True, {}, [])


def test_structured_output_has_the_form_of_the_request():
    found = workload("extra_body: {structured_outputs: {json: {type: object, required: [a]}}, temperature: 0.7}")
    assert found.extra_body["structured_outputs"] == {"json": {"type": "object", "required": ["a"]}}
    assert found.extra_body["temperature"] == 0.7


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("api: speech", "file:10: scenarios.0.workload.api"),
        ("api: rerank", "file:9: scenarios.0.workload: rerank needs documents"),
        ("{api: rerank, documents: 4, prefix_len: 2}", "rerank has no prefix_len"),
        ("{api: rerank, documents: 4, input_len: 1}", "a pair has a query and a document"),
        ("{api: rerank, documents: 0}", "file:10: scenarios.0.workload.documents"),
        ("documents: 3", "completions has no documents"),
        ("{api: embeddings, output_len: 3}", "embeddings has no output_len"),
        ("{api: embeddings, slo: {ttft: 1}}", "its slo can only name e2el"),
        ("{input_len: 8, prefix_len: 8}", "prefix_len is 8, must be below input_len (8)"),
        ("extra_body: {model: x, temperature: 1}", "extra_body has model, which the client sets itself"),
        ("extra_body: {stream: false, max_tokens: 3}", "extra_body has max_tokens, stream, which"),
        ("{api: embeddings, extra_body: {input: x}}", "extra_body has input, which"),
        ("{api: rerank, documents: 2, extra_body: {top_n: 1}}", "extra_body has top_n, which"),
        ("dataset: {format: sharegpt}", "file:10: key 'scenarios.0.workload.dataset.file' is missing"),
        ("dataset: {format: hf, file: a}", "workload.dataset.format: Input should be 'sharegpt' or 'custom'"),
        (
            "dataset: {format: custom, flie: a}",
            "unknown key 'flie' in scenarios.0.workload.dataset (did you mean 'file'?)",
        ),
        ("dataset: [a]", "scenarios.0.workload.dataset: Input should be a valid string"),
        ("{input_len: 8, dataset: {format: custom, file: a}}", "their own lengths: leave out input_len"),
        ("{prefix_len: 8, dataset: {format: custom, file: a}}", "their own lengths: leave out prefix_len"),
        ("{api: embeddings, dataset: {format: custom, file: a}}", "embeddings has no recorded prompts"),
        ("{arrival: gamma, request_rate: 1.0}", "arrival gamma needs burstiness"),
        ("{arrival: gamma, burstiness: 0.5}", "arrival gamma needs request_rate"),
        ("{arrival: on-off, request_rate: 1.0}", "arrival on-off needs phases"),
        ("{request_rate: 1.0, burstiness: 0.5}", "burstiness is for arrival gamma, and arrival is poisson"),
        ("{arrival: gamma, request_rate: 1.0, burstiness: 0}", "workload.burstiness"),
        ("{arrival: on-off, request_rate: 1.0, phases: {on: 1.0}}", "workload.phases.off' is missing"),
        ("trace: {format: azure}", "file:10: key 'scenarios.0.workload.trace.file' is missing"),
        ("trace: {file: a, format: burstgpt}", "workload.trace.format: Input should be 'auto'"),
        ("trace: {file: a, scale: 0}", "workload.trace.scale"),
        ("trace: {file: a, block_tokens: 0}", "workload.trace.block_tokens"),
        ("{api: embeddings, trace: {file: a}}", "embeddings has no trace"),
        (
            "{trace: {file: a}, input_len: 8, request_rate: 2.0, arrival: constant}",
            "a trace has its own times, lengths and prompts: leave out input_len, request_rate, arrival",
        ),
        (
            "{trace: {file: a}, dataset: {format: custom, file: a}}",
            "a trace has its own times, lengths and prompts: leave out dataset",
        ),
        ("extra_body: [1]", "file:10: scenarios.0.workload.extra_body"),
        ("lora_adapters: ['']", "file:10: scenarios.0.workload.lora_adapters.0"),
        ("ignore_eos: 'no'", "file:10: scenarios.0.workload.ignore_eos"),
        ("ignore_oes: false", "unknown key 'ignore_oes' in scenarios.0.workload (did you mean 'ignore_eos'?)"),
    ],
)
def test_a_workload_that_means_nothing_is_refused(text, what):
    assert what in refused(SUITE % text)


@pytest.mark.parametrize("issue", ["28882", "vllm-28882", "VLLM-", "VLLM-1; rm"])
def test_what_a_scenario_sees_has_the_shape_of_an_id(issue):
    text = (SUITE % "input_len: 8").replace("VLLM-28882", f"'{issue}'")
    assert refused(text).startswith("file:7: scenarios.0.sees.0")


def test_what_is_missing_for_measuring_depends_on_the_api():
    assert workload("concurrency: 1").missing == ["input_len", "num_requests", "output_len"]
    assert workload("{api: embeddings, input_len: 8, num_requests: 2}").missing == []
    assert workload("dataset: {format: sharegpt, file: a}").missing == ["num_requests"]
    assert workload("trace: {file: a}").missing == ["num_requests"]


def test_a_workload_that_was_written_out_whole_is_the_same_again():
    found = workload("{trace: {file: a, scale: 0.5}, num_requests: 3, concurrency: 2}")
    assert Workload.model_validate(found.model_dump()) == found
    assert found.is_open_loop
    assert workload("request_rate: 2.0").is_open_loop
    assert not workload("concurrency: 2").is_open_loop


def test_a_suite_without_recorded_prompts_keeps_its_digest():
    """Runs that are stored, and experiments that go on, know their suite by it."""
    suite = validate(Suite, parse_yaml(SUITE % "input_len: 8", "file"))
    assert suite_digest(suite) == "f53aab556c0f553f88461e5e5fca9fb5cfe6f8c1e29759e9e6f3f5b0425c8529"


def test_a_capacity_is_asked_for_by_the_share_that_must_keep_the_objectives():
    found = workload("{input_len: 8, output_len: 4, num_requests: 9, slo: {ttft: 0.5}, capacity: 0.95}")
    assert found.capacity == 0.95
    assert found.missing == []


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("{capacity: 0.95}", "capacity needs slo"),
        ("{capacity: 0.95, slo: {}}", "slo: it has no limit: name ttft, tpot or e2el"),
        ("{capacity: 1.0, slo: {ttft: 1.0}}", "capacity"),
        ("{capacity: 0.95, slo: {ttft: 1.0}, concurrency: 4}", "leave out concurrency and request_rate"),
        ("{capacity: 0.95, slo: {ttft: 1.0}, request_rate: 4}", "leave out concurrency and request_rate"),
    ],
)
def test_a_capacity_that_cannot_be_searched_is_refused(text, what):
    assert what in refused(SUITE % text)


def test_a_suite_without_a_capacity_keeps_its_digest():
    plain = validate(Suite, parse_yaml(SUITE % "{input_len: 8, slo: {ttft: 1.0}}", "file"))
    asked = validate(Suite, parse_yaml(SUITE % "{input_len: 8, slo: {ttft: 1.0}, capacity: 0.9}", "file"))
    other = validate(Suite, parse_yaml(SUITE % "{input_len: 8, slo: {ttft: 1.0}, capacity: 0.8}", "file"))
    assert suite_digest(plain) == "da86ab80edba553976c2c195006ebc87264ed46ef10bf583b895b84164564c8c"
    assert len({suite_digest(each) for each in (plain, asked, other)}) == 3
