"""`vllm bench serve`: what it is asked, and its numbers."""

import json

import pytest

from regress_gate.bench.load.load_errors import LoadError
from regress_gate.bench.load.load_workload import Arrival, RequestSlo
from tests.factories.serve_results import detailed, expected_metrics, made_up


def options(made) -> dict[str, str]:
    return dict(word[2:].split("=", 1) for word in made.called["arguments"] if "=" in word)


def test_its_numbers_are_those_of_its_requests(tool):
    made = made_up(requests=6, tokens=32)
    result = tool("vllm-bench", {"result.json": json.dumps(detailed(made))}).measure(num_requests=6)
    assert dict(result.trial.metrics) == pytest.approx(expected_metrics(made))
    assert result.trial.samples is not None
    assert len(result.trial.samples) == 6


def test_failed_requests_are_data(tool):
    made = made_up(requests=6, tokens=32, failed=2)
    trial = tool("vllm-bench", {"result.json": json.dumps(detailed(made))}).measure(num_requests=6).trial
    assert (trial.completed, trial.failed, trial.metrics["failed_requests"]) == (4, 2, pytest.approx(2 / 6))


def test_no_success_at_all_is_an_error_although_the_file_has_numbers(tool):
    result = detailed(made_up(requests=4, tokens=32), completed=0, failed=4, errors=["refused"] * 4)
    with pytest.raises(LoadError, match="no request succeeded"):
        tool("vllm-bench", {"result.json": json.dumps(result)}).measure()


def test_it_is_asked_for_the_whole_workload(tool):
    made = tool("vllm-bench", {"result.json": json.dumps(detailed(made_up(requests=4, tokens=32)))})
    made.measure(prefix_len=28, slo=RequestSlo(ttft=0.5, tpot=0.05))
    arguments = made.called["arguments"]
    assert arguments[:2] == ["bench", "serve"]
    assert (
        options(made).items()
        >= {
            "backend": "openai",
            "endpoint": "/v1/completions",
            "base-url": "http://127.0.0.1:9",
            "served-model-name": "tiny",
            "model": "org/model",
            "random-input-len": "100",
            "random-prefix-len": "28",
            "random-output-len": "32",
            "num-prompts": "4",
            "max-concurrency": "4",
            "request-rate": "inf",
            "temperature": "0",
            "ready-check-timeout-sec": "0",
        }.items()
    )
    assert {"--ignore-eos", "--save-detailed"} <= set(arguments)
    assert arguments[arguments.index("--goodput") + 1 :] == ["ttft:500", "tpot:50"]


def test_a_constant_rate_has_gaps_that_do_not_vary_and_a_result_that_is_json(tool):
    made = tool("vllm-bench", {"result.json": json.dumps(detailed(made_up(requests=4, tokens=32)))})
    made.measure(request_rate=8.0, arrival=Arrival.CONSTANT)
    burstiness = float(options(made)["burstiness"])
    assert 1 / burstiness**0.5 <= 0.001  # the coefficient of variation of its gamma-distributed gaps
    assert burstiness != float("inf")  # goes into the file as a bare word


def test_answers_of_another_length_are_said(tool):
    files = {"result.json": json.dumps(detailed(made_up(requests=4, tokens=8)))}
    assert "4 answers had other than the 32 tokens asked for" in tool("vllm-bench", files).measure().notes
