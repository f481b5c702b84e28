"""Every dialect of `vllm bench serve` gives the same numbers for the same requests."""

import json
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from regress_gate.ingest.interface import FileOutcome
from regress_gate.model.metric import METRICS
from regress_gate.model.run import Trial
from tests.factories import serve_results as made_by
from tests.factories.serve_results import Pass, Request, expected_metrics, import_all, made_up, report_on, write


def only_trial(path: Path, **more: object) -> Trial:
    intake = import_all(path, **more)
    assert [(report.outcome, report.reason) for report in intake.files] == [(FileOutcome.STORED, None)]
    return intake.runs[0].trials[0]


@pytest.mark.parametrize("dialect", [made_by.detailed, made_by.script_0_6_2])
def test_arrays_give_every_statistic_whatever_the_file_itself_states(tmp_path, dialect):
    made = made_up(seed=1)
    trial = only_trial(write(tmp_path / "r.json", dialect(made)))
    assert trial.metrics == pytest.approx(expected_metrics(made))
    assert set(trial.metrics) <= set(METRICS)


@pytest.mark.parametrize(
    ("dialect", "latencies"),
    [
        (
            made_by.plain,
            {f"{family}_{name}" for family in ("ttft", "tpot", "itl") for name in ("mean", "median", "p99")},
        ),
        (made_by.script_0_6_4, {"ttft_mean", "tpot_p99", "itl_median"}),
        (made_by.pooling, {"e2el_mean", "e2el_median", "e2el_p99"}),
    ],
)
def test_without_arrays_there_is_what_the_file_states_and_nothing_else(tmp_path, dialect, latencies):
    made = made_up(seed=2)
    trial = only_trial(write(tmp_path / "r.json", dialect(made)))
    expected = expected_metrics(made)
    assert latencies <= set(trial.metrics)
    assert not {name for name in trial.metrics if name.endswith(("p90", "p95"))}
    for name in latencies:
        assert trial.metrics[name] == pytest.approx(expected[name])


def test_pooling_runs_have_no_token_latencies(tmp_path):
    trial = only_trial(write(tmp_path / "r.json", made_by.pooling(made_up())))
    assert not [name for name in trial.metrics if name.startswith(("ttft", "tpot", "itl", "output"))]


def test_mean_and_median_e2el_of_0_6_2_are_swapped_back_when_the_arrays_are_gone(tmp_path):
    made = made_up(seed=3)
    kept = {key: value for key, value in made_by.script_0_6_2(made).items() if not isinstance(value, list)}
    intake = import_all(write(tmp_path / "r.json", kept))
    metrics, expected = intake.runs[0].trials[0].metrics, expected_metrics(made)
    assert metrics["e2el_mean"] == pytest.approx(expected["e2el_mean"])
    assert metrics["e2el_median"] == pytest.approx(expected["e2el_median"])
    assert "swapped" in intake.files[0].notes[0]


@pytest.mark.parametrize(
    ("key", "dialect"), [("request_goodput:", made_by.script_0_6_4), ("request_goodput", made_by.plain)]
)
def test_goodput_is_read_with_and_without_the_colon(tmp_path, key, dialect):
    trial = only_trial(write(tmp_path / "r.json", dialect(made_up(), **{key: 0.25})))
    assert trial.metrics["goodput"] == 0.25


def test_goodput_that_was_not_asked_for_is_no_metric(tmp_path):
    assert "goodput" not in only_trial(write(tmp_path / "r.json", made_by.plain(made_up()))).metrics


def test_p50_is_the_median_and_odd_percentiles_are_left_out(tmp_path):
    result = made_by.plain(made_up())
    result["p50_ttft_ms"] = result.pop("median_ttft_ms")
    result["p99.9_ttft_ms"] = result["p99_ttft_ms"]
    trial = only_trial(write(tmp_path / "r.json", result))
    assert trial.metrics["ttft_median"] == pytest.approx(result["p50_ttft_ms"] / 1000)
    assert not [name for name in trial.metrics if "99.9" in name]


def test_the_workload_is_what_the_file_states(tmp_path):
    trial = only_trial(write(tmp_path / "r.json", made_by.plain(made_up(requests=10, tokens=8, rate=2.5))))
    assert trial.workload == {
        "model": "org/tiny",
        "request_rate": 2.5,
        "max_concurrency": 4,
        "num_prompts": 10,
        "burstiness": 1.0,
        "mean_input_tokens": 128.0,
        "mean_output_tokens": 8.0,
    }
    assert trial.started == datetime(2026, 11, 21, 10, 15, tzinfo=UTC)


def test_clients_that_know_no_limit_are_unlimited(tmp_path):
    trial = only_trial(write(tmp_path / "r.json", made_by.script_0_6_2(made_up())))
    assert trial.workload["max_concurrency"] is None
    assert trial.workload["request_rate"] is None


def test_failed_requests_keep_their_place_in_the_samples_and_count_in_nothing_else(tmp_path):
    made = made_up(seed=4, requests=10, failed=3)
    path = write(tmp_path / "r.json", made_by.detailed(made))
    trial = only_trial(path)
    assert (trial.completed, trial.failed) == (7, 3)
    assert trial.metrics == pytest.approx(expected_metrics(made))
    assert trial.samples.ok.tolist() == [False] * 3 + [True] * 7
    assert "3 of 10 requests failed" in report_on(path).notes[0]


@pytest.mark.parametrize("dialect", [made_by.script_0_6_4, made_by.pooling, made_by.script_0_6_2])
def test_failures_are_counted_where_the_client_did_not(tmp_path, dialect):
    trial = only_trial(write(tmp_path / "r.json", dialect(made_up(requests=10, failed=4))))
    assert (trial.completed, trial.failed, trial.metrics["failed_requests"]) == (6, 4, pytest.approx(0.4))


def test_a_failed_request_without_an_error_text_is_found_by_its_empty_answer(tmp_path):
    result = made_by.script_0_6_2(made_up(requests=10, failed=2))
    result["errors"] = [""] * 10
    assert only_trial(write(tmp_path / "r.json", result)).samples.ok.sum() == 8


def test_samples_are_flat_arrays_with_times_relative_to_the_first_request(tmp_path):
    made = made_up(seed=5, requests=4, tokens=3)
    samples = only_trial(write(tmp_path / "r.json", made_by.detailed(made))).samples
    assert samples.itl_start.tolist() == [0, 2, 4, 6, 8]
    assert samples.itl[samples.itl_start[2] : samples.itl_start[3]].tolist() == made.requests[2].itl
    assert samples.start.tolist() == pytest.approx([0, 0.125, 0.25, 0.375])
    assert samples.output_tokens.dtype == np.int64


def test_samples_are_left_out_on_request_but_still_used(tmp_path):
    made = made_up()
    trial = only_trial(write(tmp_path / "r.json", made_by.detailed(made)), with_samples=False)
    assert trial.samples is None
    assert trial.metrics == pytest.approx(expected_metrics(made))


def test_arrays_that_stay_although_details_were_not_asked_for_do_no_harm(tmp_path):
    made = made_up()
    left = {"latencies": [request.e2el for request in made.requests], "queue_times": [0.0] * 12}
    trial = only_trial(write(tmp_path / "r.json", made_by.plain(made, **left)))
    assert trial.samples is None
    assert "e2el_mean" not in trial.metrics


def test_requests_of_one_token_have_no_tpot(tmp_path):
    made = Pass([Request(0.05, []), Request(0.06, [0.01, 0.03])])
    trial = only_trial(write(tmp_path / "r.json", made_by.detailed(made)))
    assert trial.metrics["tpot_mean"] == pytest.approx(0.02)


def test_answers_in_one_piece_leave_tpot_and_itl_out(tmp_path):
    result = made_by.plain(made_up())
    result |= {key: 0.0 for key in result if key.endswith(("_tpot_ms", "_itl_ms"))}
    path = write(tmp_path / "r.json", result)
    assert not [name for name in only_trial(path).metrics if name.startswith(("tpot", "itl"))]
    assert "not streamed" in report_on(path).notes[0]


@pytest.mark.parametrize("indent", [None, 2])
def test_appended_results_are_read_one_by_one(tmp_path, indent):
    passes = [made_up(seed) for seed in (1, 2, 3)]
    text = "\n".join(json.dumps(made_by.plain(made), indent=indent) for made in passes)
    (run,) = import_all(write(tmp_path / "r.json", text)).runs
    assert [trial.ordinal for trial in run.trials] == [1, 2, 3]
    assert [trial.source.position for trial in run.trials] == [0, 1, 2]
    for trial, made in zip(run.trials, passes, strict=True):
        assert trial.metrics["ttft_mean"] == pytest.approx(expected_metrics(made)["ttft_mean"])


def test_one_unusable_result_of_several_is_reported_by_its_place(tmp_path):
    dead = made_by.plain(made_up(2), completed=0, failed=12)
    text = "\n".join(json.dumps(result) for result in (made_by.plain(made_up(1)), dead))
    intake = import_all(write(tmp_path / "r.json", text))
    assert [report.outcome for report in intake.files] == [FileOutcome.STORED, FileOutcome.REFUSED]
    assert intake.files[1].where.endswith("r.json (result 2)")
    assert not intake.complete


def test_the_source_says_where_the_numbers_came_from(tmp_path):
    path = write(tmp_path / "r.json", made_by.plain(made_up(), client_version="0.32.0"))
    source = only_trial(path).source
    assert (source.path, source.position, source.format, source.tool) == (
        str(path),
        0,
        "vllm-serve",
        "vllm bench serve",
    )
    assert source.client_version == "0.32.0"
    assert len(source.sha256) == 64
    assert source.imported_at.tzinfo is UTC


def test_a_byte_order_mark_is_no_obstacle(tmp_path):
    data = b"\xef\xbb\xbf" + json.dumps(made_by.plain(made_up())).encode()
    assert report_on(write(tmp_path / "r.json", data)).outcome is FileOutcome.STORED
