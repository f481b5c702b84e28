"""perf-eval's dashboard rows: seconds and rates for each GPU, back to the rates of the whole server."""

from datetime import UTC, datetime

import pytest

from regress_gate.ingest.formats.perf_eval import PerfEval
from regress_gate.ingest.formats.vllm_serve import VllmServe
from tests.factories.serve_results import made_up, plain
from tests.ingest.formats.reading import read, reading, refusal
from tests.ingest.formats.vllm_family import MODEL, dashboard, perf_row

EVAL = PerfEval()


def test_times_are_in_seconds_and_rates_are_of_all_gpus():
    found = reading(EVAL, perf_row())
    assert found.metrics == {
        "ttft_mean": 0.5,
        "ttft_median": 0.4,
        "ttft_p99": 1.5,
        "tpot_mean": 0.02,
        "output_throughput": 1000.0,
        "total_throughput": 2000.0,
    }
    assert found.workload == {
        "model": MODEL,
        "max_concurrency": 32,
        "input_len": 1024,
        "output_len": 1024,
        "gpus": 8,
        "precision": "fp8",
    }


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("vllm/vllm-openai-rocm:v0.21.0", "0.21.0"),
        ("vllm/vllm-openai:nightly-" + "a1" * 20, "commit:" + "a1" * 20),
        ("vllm/vllm-openai:v0.21.0.someone", None),
        ("registry/other:v0.21.0", None),
        (None, None),
    ],
)
def test_the_version_is_that_of_the_image(image, version):
    assert reading(EVAL, perf_row(image=image)).metadata.get("vllm_version") == version


def test_a_dashboard_has_a_result_for_each_build_of_each_configuration():
    first, second = read(EVAL, dashboard())
    assert first.metrics == {"ttft_mean": 0.5, "total_throughput": 2000.0, "failed_requests": 0.0}
    assert (second.metrics["ttft_mean"], second.metrics["total_throughput"]) == (0.6, 1920.0)
    assert (first.metadata["run"], first.metadata["vllm_version"]) == ("build-617", "commit:93d8f834dd8a")
    assert first.completed == 512
    assert any("median over repeated measurements" in note for note in first.notes)


def test_rates_of_an_unknown_number_of_gpus_are_left_out():
    found = reading(EVAL, {key: value for key, value in perf_row().items() if key != "tp"})
    assert "total_throughput" not in found.metrics
    assert any("unknown number" in note for note in found.notes)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"mean_ttft": 500.0, "median_ttft": 400.0}, "median_ttft_ms is above p99_ttft_ms"),
        ({"mean_ttft": 500.0, "median_ttft": 400.0, "p99_ttft": 1500.0}, "requests in flight, max_concurrency is 32"),
        ({"mean_tpot": -0.1}, "is negative"),
        ({"tput_per_gpu": 0}, "tput_per_gpu is 0: nothing was measured"),
        ({"tp": 0}, "the number of GPUs is 0"),
        ({"tput_per_gpu": 2000.0}, "not the sum of input and output"),
        ({"mean_tpot": 20.0}, "mean_tpot is 20 s, its inverse is said to be 50: wrong unit"),
        ({"vllm_commit": "main", "image": None}, "not a commit"),
        ({"completed_requests": 0}, "no request succeeded"),
    ],
)
def test_what_cannot_be_a_measurement_is_refused(change, why):
    assert why in refusal(EVAL, perf_row(**change))


def test_its_medians_over_repeats_are_refused_as_such():
    aggregate = plain(made_up(4), aggregation_method="median", aggregated_repetitions=3)
    assert "an aggregate over repeats ('median')" in refusal(VllmServe(), aggregate)


def test_the_date_keeps_its_zone():
    started = reading(EVAL, perf_row(date="2026-05-01T14:00:00+02:00")).started
    assert started == datetime(2026, 5, 1, 12, tzinfo=UTC)


def test_a_release_goes_before_the_commit_and_the_commit_before_a_nightly():
    nightly = "vllm/vllm-openai:nightly-" + "a1" * 20
    for image, version in (("vllm/vllm-openai:v0.21.0rc1", "0.21.0rc1"), (nightly, "commit:93d8f834dd8a")):
        row = perf_row(image=image, vllm_commit="93d8f834dd8a")
        assert reading(EVAL, row).metadata["vllm_version"] == version


def test_a_rate_without_bounds_is_refused():
    row = {key: value for key, value in perf_row(tput_per_gpu=1e308).items() if key != "input_tput_per_gpu"}
    assert "tput_per_gpu is inf" in refusal(EVAL, row)
