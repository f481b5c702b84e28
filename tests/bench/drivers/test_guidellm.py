"""GuideLLM: its requests' times by our definitions, and none of its own statistics."""

import json
from statistics import fmean, median

import pytest

from regress_gate.bench.load.load_errors import LoadError
from regress_gate.bench.load.load_workload import Arrival

from .conftest import recorded


@pytest.fixture
def document():
    return json.loads(recorded("guidellm.json"))


def measure(tool, document, **workload):
    return tool("guidellm", {"benchmarks.json": json.dumps(document)}).measure(**workload)


def test_ttft_and_tpot_are_those_that_it_has_for_each_request(tool, document):
    metrics = measure(tool, document).trial.metrics
    requests = document["benchmarks"][0]["requests"]["successful"]
    assert metrics["ttft_median"] == pytest.approx(median(one["time_to_first_token_ms"] for one in requests) / 1000)
    # What it calls inter-token latency is our TPOT, of one request; its own time per output token includes the TTFT.
    assert metrics["tpot_mean"] == pytest.approx(fmean(one["inter_token_latency_ms"] for one in requests) / 1000)


def test_itl_is_left_out_and_it_is_said(tool, document):
    result = measure(tool, document)
    assert not [name for name in result.trial.metrics if name.startswith("itl")]
    assert "guidellm keeps no gaps between chunks: itl is left out" in result.notes


def test_latency_ends_with_the_last_token_and_not_with_the_connection(tool, document):
    metrics = measure(tool, document).trial.metrics
    requests = document["benchmarks"][0]["requests"]["successful"]
    assert metrics["e2el_mean"] < fmean(one["request_latency"] for one in requests)


def test_throughput_is_counts_over_its_duration(tool, document):
    metrics = measure(tool, document).trial.metrics
    duration = document["benchmarks"][0]["duration"]
    assert metrics["request_throughput"] == pytest.approx(4 / duration)
    assert metrics["output_throughput"] == pytest.approx(4 * 32 / duration)


def test_errored_and_incomplete_requests_are_failures(tool, document):
    document["benchmarks"][0]["scheduler_metrics"]["requests_made"] |= {"errored": 1, "incomplete": 1}
    trial = measure(tool, document, num_requests=6).trial
    assert (trial.completed, trial.failed) == (4, 2)


def test_no_success_at_all_is_an_error(tool, document):
    document["benchmarks"][0]["requests"]["successful"] = []
    document["benchmarks"][0]["scheduler_metrics"]["requests_made"] = {"successful": 0, "errored": 4, "incomplete": 0}
    with pytest.raises(LoadError, match=r"no request succeeded \(4 failed\)"):
        measure(tool, document)


def test_a_sample_of_the_requests_is_not_all_of_them(tool, document):
    document["benchmarks"][0]["scheduler_metrics"]["requests_made"]["successful"] = 9
    with pytest.raises(LoadError, match="holds 4 of 9 requests"):
        measure(tool, document)


def test_a_file_without_the_requests_times_is_of_another_version(tool, document):
    del document["benchmarks"][0]["requests"]["successful"][0]["info"]["timings"]
    with pytest.raises(LoadError, match=r"not as guidellm 0\.8 writes it"):
        measure(tool, document)


@pytest.mark.parametrize(
    ("workload", "profile"),
    [
        ({"concurrency": 4}, "kind=concurrent,streams=4"),
        ({"concurrency": None}, "kind=throughput"),
        ({"concurrency": None, "request_rate": 110.0}, "kind=poisson,rate=110.0"),
        (
            {"request_rate": 110.0, "arrival": Arrival.CONSTANT, "concurrency": 4},
            "kind=constant,rate=110.0,max_concurrency=4",
        ),
    ],
)
def test_it_is_asked_for_the_whole_workload(workload, profile, tool):
    made = tool("guidellm", {"benchmarks.json": recorded("guidellm.json")})
    made.measure(**workload)
    arguments = made.called["arguments"]
    assert f"--profile={profile}" in arguments
    assert "--data=kind=synthetic_text,prompt_tokens=128,output_tokens=32" in arguments
    assert "--constraint=kind=max_requests,count=4" in arguments
    assert "--tokenizer=kind=hf_auto,model=org/model" in arguments
    assert "--backend=kind=openai_http,target=http://127.0.0.1:9,model=tiny,request_format=/v1/completions" in arguments
