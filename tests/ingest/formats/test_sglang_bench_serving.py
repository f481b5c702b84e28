"""SGLang's `bench_serving`: vLLM's keys with other clocks, many runs to a file."""

from math import isfinite

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regress_gate.ingest.content import Content, parse_content
from regress_gate.ingest.formats.sglang_bench_serving import SglangBenchServing
from regress_gate.ingest.interface import Certainty, Context, FileOutcome, Reading, UnusedResult
from regress_gate.model.metric import DEFINITIONS

from .junk import spoilt
from .sglang_results import details, lines, new_line, old_line


def read(*results, with_samples=True):
    content = parse_content("sglang_1121_4_16_5.jsonl", lines(*results))
    assert SglangBenchServing().recognises(content) is Certainty.SURE
    return SglangBenchServing().read(content, Context(with_samples=with_samples))


def reading(result, **options):
    (only,) = read(result, **options)
    assert isinstance(only, Reading), only
    return only


def refusal(result):
    (only,) = read(result)
    assert isinstance(only, UnusedResult)
    assert only.outcome is FileOutcome.REFUSED
    return only.reason


def test_an_old_line_is_read_to_seconds():
    assert reading(old_line()).metrics == pytest.approx(
        {
            "e2el_mean": 0.096,
            "e2el_median": 0.096,
            "e2el_p99": 0.1107,
            "ttft_mean": 0.055,
            "ttft_median": 0.055,
            "ttft_p99": 0.0697,
            "tpot_mean": 0.01025,
            "tpot_median": 0.01025,
            "tpot_p99": 0.01025,
            "itl_mean": 0.010,
            "itl_median": 0.010,
            "itl_p95": 0.010,
            "itl_p99": 0.010,
            "request_throughput": 16.0,
            "output_throughput": 80.0,
        }
    )


def test_a_new_line_has_more_percentiles_and_the_total_throughput():
    metrics = reading(new_line()).metrics
    assert (metrics["ttft_p90"], metrics["ttft_p95"]) == pytest.approx((0.067, 0.0685))
    assert metrics["total_throughput"] == 336.0


def test_the_workload_is_what_was_asked_for_without_limit_of_the_rate():
    assert reading(old_line()).workload == {
        "request_rate": None,
        "max_concurrency": 2,
        "mean_input_tokens": 16.0,
        "mean_output_tokens": 5.0,
        "dataset": "random",
        "input_len": 16,
        "output_len": 5,
        "range_ratio": 1.0,
    }


def test_a_dataset_of_conversations_has_no_random_lengths():
    workload = reading(old_line(dataset_name="sharegpt", sharegpt_output_len=64)).workload
    assert workload["dataset"] == "sharegpt"
    assert workload["output_len"] == 64
    assert "input_len" not in workload


def test_a_replayed_trace_has_no_rate():
    workload = reading(new_line(request_rate="trace")).workload
    assert workload["arrival"] == "trace"
    assert "request_rate" not in workload


def test_a_rate_is_a_number():
    assert reading(old_line(request_rate=4.0)).workload["request_rate"] == 4.0
    assert "request_rate is -1.0" in refusal(old_line(request_rate=-1.0))


def test_goodput_is_read():
    assert reading(new_line(request_goodput=12.0, goodput_slos_ms={"ttft": 60})).metrics["goodput"] == 12.0


def test_without_details_the_number_of_failures_is_unknown():
    made = reading(old_line())
    assert "failed_requests" not in made.metrics
    assert "does not say how many requests failed" in made.notes
    assert made.samples is None


def test_with_details_failures_and_percentiles_come_from_the_requests():
    made = reading(old_line(**details()))
    assert made.metrics["failed_requests"] == pytest.approx(0.2)
    assert made.metrics["ttft_p90"] == pytest.approx(0.067)  # 0.060 + 0.7 of 0.010
    assert made.metrics["itl_p90"] == pytest.approx(0.010)
    assert len(made.samples) == 5
    assert reading(old_line(**details()), with_samples=False).samples is None


def test_a_request_ends_with_its_stream_whether_or_not_there_are_details():
    plain, detailed = reading(old_line()), reading(old_line(**details()))
    for name in ("e2el_mean", "tpot_mean"):
        assert detailed.metrics[name] == plain.metrics[name]  # 81 ms for the first, not 80
    assert detailed.definitions == plain.definitions == "sglang-bench-serving"


def test_each_line_is_a_result():
    first, second = read(old_line(), old_line(max_concurrency=4))
    assert (first.position, second.position) == (0, 1)
    assert second.workload["max_concurrency"] == 4
    assert all("older ones may be of another server" in result.notes[-1] for result in (first, second))
    assert not any("older ones" in note for note in reading(old_line()).notes)


def test_a_line_of_another_kind_is_refused_alone():
    good, other = read(old_line(), {"model_id": "x"})
    assert isinstance(good, Reading)
    assert "unlike others in the same file" in other.reason


@pytest.mark.parametrize("backend", ["sglang", "sglang-native"])
def test_the_native_backend_states_gaps_between_tokens(backend):
    made = reading(old_line(backend=backend))
    assert made.metrics["token_gap_mean"] == pytest.approx(0.010)
    assert not [name for name in made.metrics if name.startswith("itl_")]
    assert made.definitions == "sglang-bench-serving-native"
    assert "is the server vLLM?" in made.notes[-1]


def test_speculative_decoding_spreads_a_gap_over_the_tokens_of_its_chunk():
    made = reading(new_line(backend="sglang-oai", accept_length=2.5))
    assert made.metrics["token_gap_median"] == pytest.approx(0.010)
    assert not [name for name in made.metrics if name.startswith("itl_")]
    assert made.definitions == "sglang-bench-serving-retokenised"


def test_with_details_the_gaps_between_chunks_are_known_in_spite_of_it():
    spread = new_line(backend="sglang-oai", accept_length=2.5, mean_itl_ms=4.0, median_itl_ms=4.0, **details())
    made = reading(spread)
    assert made.metrics["itl_mean"] == pytest.approx(0.010)
    assert made.definitions == "sglang-bench-serving"


def test_old_releases_do_not_tell_which_gap_it_is_with_speculative_decoding():
    made = reading(old_line(backend="sglang-oai-chat", accept_length=2.5))
    assert not [name for name in made.metrics if name.startswith(("itl_", "token_gap_"))]
    assert "itl is left out: with accept_length above 0 it may be by chunk or by token" in made.notes


def test_a_server_that_says_what_it_is_is_quoted():
    made = reading(new_line(server_info={"model_path": "org/tiny", "version": "0.5.23"}))
    assert made.workload["model"] == "org/tiny"
    assert "server_info is of an SGLang server ('0.5.23'), not of vLLM" in made.notes
    assert not made.metadata


def test_embeddings_have_neither_tokens_nor_a_first_one():
    zero = {f"{name}_{family}_ms": 0.0 for name in ("mean", "median", "p99") for family in ("ttft", "tpot", "itl")}
    made = reading(
        old_line(backend="vllm-embedding", total_output_tokens=0, output_throughput=0.0, p95_itl_ms=0.0, **zero)
    )
    assert set(made.metrics) == {"e2el_mean", "e2el_median", "e2el_p99", "request_throughput"}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"completed": 0}, "no request succeeded"),
        ({"mean_ttft_ms": "fast"}, "mean_ttft_ms is 'fast', not a number"),
        ({"request_throughput": 160.0}, "request_throughput says 160, but 4 in 0.25 s is 16"),
        ({"duration": float("nan")}, "duration is nan, not a number"),
        ({"median_ttft_ms": 70.0}, "median_ttft_ms is above p99_ttft_ms"),
        ({"mean_itl_ms": -1.0}, "mean_itl_ms is negative"),
        ({"mean_e2e_latency_ms": 96_000.0}, "longer than the whole run"),
        ({"server_info": "yes"}, "server_info is 'yes', not an object"),
        ({**details(), "mean_ttft_ms": 66.0}, "mean_ttft_ms says 66, its own samples say 55"),
        ({**details(), "mean_itl_ms": 12.0}, "mean_itl_ms says 12, its own samples say 10"),
        ({**details(), "mean_e2e_latency_ms": 80.0}, "mean_e2e_latency_ms says 80, its own samples say 95"),
        ({**details(), "completed": 5, "request_throughput": 20.0}, "the arrays hold 4 successful requests"),
    ],
)
def test_what_cannot_be_is_refused(changes, reason):
    assert reason in refusal(old_line(**changes))


def test_its_definitions_are_stated():
    for backend in ("vllm", "sglang"):
        assert reading(old_line(backend=backend)).definitions in DEFINITIONS
    assert reading(new_line(backend="sglang-oai", accept_length=2.0)).definitions in DEFINITIONS


@given(data=st.data())
@settings(max_examples=100, deadline=None)
def test_whatever_stands_in_a_line_it_is_read_or_refused(data):
    made = data.draw(spoilt(new_line(**(details() if data.draw(st.booleans()) else {}))))
    (found,) = SglangBenchServing().read(Content("x.jsonl", "0" * 64, documents=(made,)), Context())
    assert isinstance(found, UnusedResult) or all(map(isfinite, found.metrics.values()))
