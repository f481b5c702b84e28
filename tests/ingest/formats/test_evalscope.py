"""evalscope: the unit is in the key and changed; three files make one result; the database is never opened."""

import pytest

from regress_gate.ingest.content import parse_content
from regress_gate.ingest.formats.evalscope import Evalscope
from regress_gate.measurement.plausibility import RefusalError
from tests.ingest.formats.evalscope_results import arguments, columns, milliseconds, rows, seconds
from tests.ingest.formats.reading import read, reading, refusal

RATES = {"request_throughput": 8.0, "output_throughput": 256.0, "total_throughput": 1280.0, "failed_requests": 0.0}
LATENCIES = {
    "ttft_mean": 0.06,
    "ttft_median": 0.055,
    "ttft_p99": 0.15,
    "tpot_mean": 0.014,
    "tpot_median": 0.0138,
    "tpot_p99": 0.019,
    "itl_mean": 0.013,
    "itl_median": 0.0125,
    "itl_p99": 0.029,
    "e2el_mean": 0.5,
    "e2el_median": 0.49,
    "e2el_p99": 0.6,
}


def of(summary, percentiles=None, arguments=None):
    beside = {"benchmark_percentile.json": percentiles, "benchmark_args.json": arguments}
    files = {name: data for name, data in beside.items() if data is not None}
    return reading(Evalscope(), summary, "benchmark_summary.json", beside=files)


@pytest.mark.parametrize(
    ("summary", "percentiles", "definitions"),
    [(milliseconds(), rows(), "evalscope-1.14"), (seconds(), columns(), "evalscope-1.0")],
)
def test_both_generations_read_to_seconds_by_the_unit_in_the_key(summary, percentiles, definitions):
    result = of(summary, percentiles, arguments())
    assert result.metrics == pytest.approx(LATENCIES | RATES)
    assert (result.completed, result.failed, result.duration) == (40, 0, 5.0)
    assert result.definitions == definitions
    assert result.workload == {
        "model": "tiny",
        "request_rate": None,
        "max_concurrency": 4,
        "num_prompts": 40,
        "mean_input_tokens": 128.0,
        "mean_output_tokens": 32.0,
        "dataset": "random",
        "input_len": 128,
        "output_len": 32,
    }


def test_percentiles_may_be_rows_of_seconds_or_columns_of_milliseconds():
    in_rows = of(milliseconds(), rows()).metrics
    as_columns = {key: [row[key] for row in rows()] for key in rows()[0]}
    assert of(milliseconds(), as_columns).metrics == in_rows


def test_a_summary_alone_has_means_and_says_so():
    result = of(milliseconds())
    assert {name for name in result.metrics if name.endswith("_p99")} == set()
    assert result.metrics["ttft_mean"] == pytest.approx(0.06)
    assert "no benchmark_percentile.json beside it: means only" in result.notes
    assert "model" not in result.workload


def test_the_time_per_chunk_of_0_17_is_no_tpot():
    result = of(seconds(**{"Average package latency (s)": 0.013}))
    assert "tpot_mean" not in result.metrics
    assert result.metrics["unclear_tpot_mean"] == pytest.approx(0.014)
    assert result.definitions == "evalscope-0.17"


def test_a_ttft_of_0_means_that_no_text_was_seen_and_takes_tpot_with_it():
    result = of(milliseconds(), rows(lowest={"e2el": 0.4, "ttft": 0.0, "tpot": 0.01, "itl": 0.007}))
    families = {name.rpartition("_")[0] for name in result.metrics}
    assert families == {"itl", "e2el", "request", "output", "total", "failed"}
    assert any("saw no text in some answers" in note for note in result.notes)


@pytest.mark.parametrize(
    ("summary", "said"), [(milliseconds(**{"Stream Requests": 0}), None), (seconds(), arguments(stream=False))]
)
def test_answers_that_were_not_streamed_have_no_first_token(summary, said):
    result = of(summary, arguments=said)
    assert "ttft_mean" not in result.metrics
    assert result.metrics["e2el_mean"] == 0.5


def test_a_rate_of_minus_one_is_unlimited_and_others_are_themselves():
    assert of(milliseconds(**{"Request Rate (req/s)": 2.5})).workload["request_rate"] == 2.5
    assert "neither positive nor -1" in refused(milliseconds(**{"Request Rate (req/s)": -2}))


def test_an_open_loop_has_no_limit_of_concurrency_and_a_run_by_time_no_number_of_prompts():
    assert "max_concurrency" not in of(milliseconds(), arguments=arguments(open_loop=True)).workload
    assert "num_prompts" not in of(milliseconds(), arguments=arguments(duration=60)).workload


@pytest.mark.parametrize(
    ("change", "facts"),
    [
        ({}, {"input_len": 128, "output_len": 32}),
        ({"min_tokens": None}, {"input_len": 128, "max_output_len": 32}),
        ({"max_prompt_length": 256}, {"min_input_len": 128, "max_input_len": 256, "output_len": 32}),
        ({"dataset": "openqa", "max_prompt_length": 131072}, {"output_len": 32}),
        ({"prefix_length": 64}, {"input_len": 128, "output_len": 32, "prefix_len": 64}),
    ],
)
def test_the_lengths_asked_for_are_part_of_the_workload(change, facts):
    workload = of(milliseconds(), arguments=arguments(**change)).workload
    assert {name: value for name, value in workload.items() if name.endswith("_len")} == facts


def test_failures_are_counted_and_said():
    result = of(milliseconds(**{"Total Requests": 50, "Failed Requests": 10}))
    assert result.metrics["failed_requests"] == 0.2
    assert any("10 of 50 requests failed" in note for note in result.notes)


@pytest.mark.parametrize("name", ["benchmark_args.json", "benchmark_percentile.json", "workload_throughput.json"])
def test_companions_are_skipped_beside_their_summary_and_refused_alone(name):
    data = {
        "benchmark_args.json": arguments(),
        "benchmark_percentile.json": rows(),
        "workload_throughput.json": {"n_samples": 40, "wall_time_s": 5.0, "rows": []},
    }[name]
    (skipped,) = read(Evalscope(), data, name, beside={"benchmark_summary.json": milliseconds()})
    assert (skipped.outcome, "is read with it" in skipped.reason) == ("skipped", True)
    assert "without the benchmark_summary.json" in refusal(Evalscope(), data, name)


def test_the_database_with_pickles_is_not_even_looked_into():
    content = parse_content("benchmark_data.db", b"SQLite format 3\x00" + bytes(100))
    assert not Evalscope().recognises(content)
    assert "SQLite" in content.problem


def refused(summary, percentiles=None) -> str:
    with pytest.raises(RefusalError) as caught:
        of(summary, percentiles)
    return str(caught.value)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"Success Requests": 0, "Failed Requests": 40}, "no request succeeded (40 failed)"),
        ({"Success Requests": None}, "Success Requests is missing"),
        ({"Avg TTFT (ms)": -1}, "mean_ttft_ms is negative"),
        ({"Avg Latency (us)": 500000.0}, "in an unknown unit"),
        ({"Req Throughput (req/s)": 80.0}, "request_throughput says 80, but 40 in 5 s is 8"),
        ({"Output Throughput (tok/s)": 32.0}, "output_throughput says 32"),
        ({"Avg Latency (s)": 4.0}, "requests in flight, max_concurrency is 4"),
        ({"Avg TTFT (ms)": "60"}, "Avg TTFT (ms) is '60', not a number"),
        ({"Test Duration (s)": 0}, "duration is 0 s"),
    ],
)
def test_what_cannot_be_true_is_refused(change, reason):
    assert reason in refused(milliseconds(**change))


def test_all_zero_latencies_are_refused():
    zeros = {"Avg Latency (s)": 0.0, "Avg TTFT (ms)": 0.0, "Avg TPOT (ms)": 0.0, "Avg ITL (ms)": 0.0}
    assert "every latency is 0" in refused(milliseconds(**zeros))


def test_percentiles_out_of_order_are_refused():
    swapped = rows()
    swapped[1]["Latency (s)"] = 0.9
    assert "median_e2el_ms is above p99_e2el_ms" in refused(milliseconds(), swapped)


def test_nan_of_an_empty_percentile_is_left_out():
    empty = rows()
    empty[2]["TPOT (ms)"] = float("nan")
    assert "tpot_p99" not in of(milliseconds(), empty).metrics
