"""AIPerf: units are read, one artefact folder is one result, and tokens counted twice are not mixed."""

import pytest

from regress_gate.ingest.content import parse_content
from regress_gate.ingest.formats.aiperf import AiPerf
from regress_gate.ingest.interface import Certainty, Context, FileOutcome, Reading, UnusedResult
from regress_gate.measurement.plausibility import RefusalError
from regress_gate.model.metric import DEFINITIONS
from tests.factories.serve_results import import_all, write

from . import aiperf_results
from .aiperf_results import (
    AIPERF_CSV,
    START,
    as_json,
    as_lines,
    csv_text,
    distribution,
    early,
    first,
    later,
    record,
    records,
)

JSON, LINES, CSV = "profile_export_aiperf.json", "profile_export.jsonl", "profile_export_aiperf.csv"
LATENCIES = {
    "ttft_mean": 0.055,
    "ttft_median": 0.055,
    "ttft_p90": 0.067,
    "ttft_p95": 0.0685,
    "ttft_p99": 0.0697,
    "itl_mean": 0.0125,
    "itl_median": 0.010,
    "itl_p90": 0.020,
    "itl_p95": 0.020,
    "itl_p99": 0.020,
    "e2el_mean": 0.105,
    "e2el_median": 0.095,
    "e2el_p90": 0.135,
    "e2el_p95": 0.1425,
    "e2el_p99": 0.1485,
}
ENCODED = LATENCIES | {
    "tpot_mean": 0.00625,
    "tpot_median": 0.005,
    "tpot_p90": 0.0085,
    "tpot_p95": 0.00925,
    "tpot_p99": 0.00985,
    "request_throughput": 16.0,
    "output_throughput": 144.0,
    "failed_requests": 0.0,
}
BY_SERVER = LATENCIES | {
    "tpot_mean": 0.0125,
    "tpot_median": 0.010,
    "tpot_p90": 0.017,
    "tpot_p95": 0.0185,
    "tpot_p99": 0.0197,
    "request_throughput": 16.0,
    "output_throughput": 80.0,
    "total_throughput": 2128.0,
    "failed_requests": 0.0,
}


def read(name, data, beside=None, *, with_samples=True):
    content = parse_content(name, data)
    assert AiPerf().recognises(content) is Certainty.SURE
    others = {other: parse_content(other, bytes_of) for other, bytes_of in (beside or {}).items()}
    (only,) = AiPerf().read(content, Context(with_samples=with_samples, beside=others.get))
    return only


def reading(name, data, beside=None, **options) -> Reading:
    found = read(name, data, beside, **options)
    assert isinstance(found, Reading), found
    return found


def refusal(name, data, beside=None) -> str:
    found = read(name, data, beside)
    assert isinstance(found, UnusedResult)
    assert found.outcome is FileOutcome.REFUSED
    return found.reason


@pytest.mark.parametrize("made", [early, first])
def test_statistics_are_read_to_seconds_and_an_inter_token_latency_is_a_tpot(made):
    metrics = reading(JSON, as_json(made())).metrics
    expected = dict(ENCODED)
    if made is first:  # which does not say how many failed
        del expected["failed_requests"]
    assert metrics == pytest.approx(expected)


def test_a_later_summary_has_the_total_throughput_too():
    assert reading(JSON, as_json(later())).metrics == pytest.approx({**ENCODED, "total_throughput": 2192.0})


def with_objectives(made=later, good=3.0, fraction=None, failed=1, **objectives):
    export = made()
    export["input_config"]["slos" if made is later else "input"] = (
        objectives if made is later else {"goodput": objectives}
    )
    export |= {
        "goodput": {"unit": "requests/sec", "avg": 12.0},
        "good_request_count": {"unit": "requests", "avg": good},
        "error_request_count": {"unit": "requests", "avg": float(failed)},
    }
    return export if fraction is None else export | {"good_request_fraction": {"unit": "ratio", "avg": fraction}}


@pytest.mark.parametrize("made", [early, later])
def test_good_requests_are_a_fraction_of_all_attempts_by_the_name_that_aiperf_gives_it(made):
    export = with_objectives(made, time_to_first_token=60.0, output_token_throughput_per_user=20.0)
    found = reading(JSON, as_json(export))
    assert (found.metrics["goodput"], found.metrics["good_request_fraction"]) == (12.0, pytest.approx(3 / 5))
    assert "slo_attainment" not in found.metrics
    assert found.workload["slo"] == {"ttft": 0.06, "output_token_throughput_per_user": 20.0}, "times in seconds"


def test_objectives_are_those_of_the_statistics_beside_the_requests():
    export = with_objectives(failed=0, fraction=0.75, time_to_first_token=60.0)
    found = reading(LINES, as_lines(records()), {JSON: as_json(export)})
    assert (found.metrics["goodput"], found.metrics["good_request_fraction"]) == (12.0, 0.75)


@pytest.mark.parametrize(
    ("good", "fraction", "why"),
    [(5.0, None, "good_request_count is 5, of 4 requests"), (3.0, 0.75, "good_request_fraction is 0.75")],
)
def test_good_requests_that_the_counts_contradict_are_refused(good, fraction, why):
    assert why in refusal(JSON, as_json(with_objectives(good=good, fraction=fraction, request_latency=100.0)))


@pytest.mark.parametrize(("made", "spread"), [(early, {"output_len_stddev": 2}), (later, {})])
def test_the_workload_comes_from_the_configuration(made, spread):
    assert reading(JSON, as_json(made())).workload == {
        "model": "org/tiny",
        "request_rate": None,
        "max_concurrency": 2,
        "num_prompts": 4,
        "input_len": 128,
        "output_len": 5,
        "mean_input_tokens": 128.0,
        "mean_output_tokens": 9.0,
        **spread,
    }


@pytest.mark.parametrize(
    ("pattern", "fact"),
    [
        ("poisson", {"burstiness": 1.0}),
        ("constant", {"arrival": "constant"}),
        ("gamma", {"arrival": "gamma", "burstiness": 0.25}),
    ],
)
def test_a_rate_without_a_limit_and_how_requests_arrive(pattern, fact):
    loadgen = {"request_rate": 20.0, "arrival_pattern": pattern, "arrival_smoothness": 0.25}
    config = {**early()["input_config"], "loadgen": loadgen}
    workload = reading(JSON, as_json(early(input_config=config))).workload
    assert {"request_rate": 20.0, "max_concurrency": None, **fact}.items() <= workload.items()


def test_the_client_version_and_the_start_are_kept():
    found = reading(JSON, as_json(later(start_time="2026-11-21T02:45:45.25")))
    assert found.metadata == {"client_version": "aiperf 0.13.0"}
    assert found.started.isoformat() == "2026-11-21T02:45:45.250000+00:00"


@pytest.mark.parametrize(("unit", "factor"), [("ns", 1e6), ("us", 1e3), ("sec", 1e-3)])
def test_units_are_read_and_not_assumed(unit, factor):
    latency = {name: value * factor for name, value in early()["request_latency"].items() if name != "unit"}
    found = reading(JSON, as_json(early(request_latency={**latency, "unit": unit})))
    assert found.metrics["e2el_mean"] == pytest.approx(0.105)


def test_an_unknown_unit_is_refused():
    assert "'ticks' is no unit of time" in refusal(JSON, as_json(early(request_latency=distribution([1.0], "ticks"))))
    slow = {"unit": "requests/min", "avg": 960.0}
    assert "'requests/min' is no unit of request_throughput" in refusal(JSON, as_json(early(request_throughput=slow)))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"was_cancelled": True}, "the run was cancelled"),
        ({"is_complete": False}, "the run is not complete"),
        ({"metadata": {"aggregation_type": "confidence", "num_profile_runs": 3}}, "an aggregate over repeats"),
        ({"timeslices": []}, "slices of one run"),
        ({"request_count": {"unit": "requests", "avg": 0.0}}, "no request succeeded"),
        ({"request_count": {"unit": "requests", "avg": 2.5}}, "request_count is 2.5, not a count"),
        ({"request_count": {"unit": "requests", "avg": 8.0}}, "request_throughput says 16, but 8 in 0.25 s is 32"),
        ({"request_latency": distribution([0.0])}, "mean_e2el_ms is 0"),
        ({"request_latency": {"unit": "ms", "avg": 1.0, "p50": 2.0, "p90": 1.0}}, "median_e2el_ms is above p90"),
        ({"request_latency": {"unit": "ms", "avg": "fast"}}, "request_latency avg is 'fast', not a number"),
        ({"time_to_first_token": distribution([-5.0])}, "mean_ttft_ms is negative"),
        ({"request_latency": distribution([9000.0])}, "longer than the whole run"),
        ({"input_config": {"phases": [{"kind": "profiling"}] * 2}}, "it pools 2 profiling phases"),
    ],
)
def test_what_is_no_measurement_is_refused(change, reason):
    assert reason in refusal(JSON, as_json(later(**change)))


def test_an_aggregate_file_is_refused_as_one():
    metric = {"mean": 55.0, "std": 1.0, "cv": 0.02, "ci_low": 54.0, "ci_high": 56.0, "t_critical": 4.3, "unit": "ms"}
    document = {
        "schema_version": "1.0",
        "aiperf_version": "0.7.0",
        "metadata": {"aggregation_type": "confidence", "num_profile_runs": 3},
        "metrics": {"time_to_first_token_avg": metric},
    }
    assert "an aggregate over repeats" in refusal("profile_export_aiperf_aggregate.json", as_json(document))


def test_metrics_of_the_server_are_no_result():
    document = {"aiperf_version": "0.13.0", "metrics_phase": "profiling", "metrics": {}}
    assert read("server_metrics_export.json", as_json(document)).outcome is FileOutcome.SKIPPED


def test_errors_are_failures():
    failed = {"error_request_count": {"unit": "requests", "avg": 1.0}}
    found = reading(JSON, as_json(early(**failed)))
    assert (found.failed, found.metrics["failed_requests"]) == (1, 0.2)
    listed = reading(JSON, as_json(early(error_summary=[{"error_details": {}, "count": 3}])))
    assert listed.failed == 3


def test_requests_count_by_the_servers_tokens():
    found = reading(LINES, as_lines(records()), {JSON: as_json(later())})
    assert found.metrics == pytest.approx(BY_SERVER)
    assert found.definitions == "aiperf"
    assert found.workload["mean_output_tokens"] == 5.0
    assert found.duration == 0.25
    assert found.started.timestamp() == pytest.approx(START / 1e9)
    assert found.samples.itl.tolist() == pytest.approx([0.01] * 12 + [0.02] * 4)
    assert found.samples.start.tolist() == pytest.approx([0.0, 0.005, 0.1, 0.105], abs=1e-6)


def test_requests_without_the_servers_count_have_other_definitions():
    found = reading(LINES, as_lines(records(usage=False)), {JSON: as_json(early())})
    assert found.metrics == pytest.approx({**ENCODED, "total_throughput": 2192.0})
    assert found.definitions == reading(JSON, as_json(early())).definitions == "aiperf-encoded"
    one_without = as_lines([*records()[:3], record(3, usage=False)])
    assert reading(LINES, one_without).definitions == "aiperf-encoded"


def test_a_summary_made_of_the_servers_count_says_so():
    same = {"unit": "tokens", "avg": 36.0}
    assert reading(JSON, as_json(later(total_usage_completion_tokens=same))).definitions == "aiperf"


def test_requests_alone_last_from_the_first_to_the_last():
    found = reading(LINES, as_lines(records()))
    assert found.duration == pytest.approx(0.255, abs=1e-6)
    assert found.workload.keys() == {"mean_input_tokens", "mean_output_tokens"}
    assert "no statistics beside it to check it by" in found.notes


def test_the_statistics_are_read_with_the_requests_beside_them():
    with_lines = reading(JSON, as_json(later()), {LINES: as_lines(records())})
    assert with_lines.metrics == reading(LINES, as_lines(records()), {JSON: as_json(later())}).metrics
    assert len(with_lines.samples) == 4


def test_one_folder_is_one_result(tmp_path, monkeypatch):
    # Times to the nanosecond, as AIPerf writes them: coarse ones may be equal by chance.
    for name, times in (("TTFT", aiperf_results.TTFT), ("E2EL", aiperf_results.E2EL)):
        monkeypatch.setattr(aiperf_results, name, [time + 0.123457 for time in times])
    write(tmp_path / JSON, later())
    write(tmp_path / LINES, as_lines(records()))
    write(tmp_path / CSV, csv_text(AIPERF_CSV))
    intake = import_all(tmp_path)
    assert {report.path.rpartition("/")[2]: report.outcome for report in intake.files} == {
        LINES: FileOutcome.STORED,
        JSON: FileOutcome.SKIPPED,
        CSV: FileOutcome.SKIPPED,
    }
    assert [trial.completed for run in intake.runs for trial in run.trials] == [4]


def test_a_part_of_the_requests_does_not_stand_for_all():
    part = as_lines(records()[:3])
    skipped = read(LINES, part, {JSON: as_json(later())})
    assert (skipped.outcome, "holds 3 of 4 requests" in skipped.reason) == (FileOutcome.SKIPPED, True)
    found = reading(JSON, as_json(later()), {LINES: part})
    assert found.samples is None
    assert "profile_export.jsonl holds 3 of 4 requests, and is not used" in found.notes


def test_requests_that_cannot_be_read_leave_the_statistics():
    found = reading(JSON, as_json(later()), {LINES: as_lines([record(0), {"metrics": {}}])})
    assert found.metrics["request_throughput"] == 16.0
    assert any("profile_export.jsonl is not used: line 2 is no record" in note for note in found.notes)


def test_requests_and_statistics_agree_on_the_failures():
    stated = as_json(later(error_request_count={"unit": "requests", "avg": 2.0}))
    failed = record(1) | {"error": {"code": 503}, "metrics": {}}
    with pytest.raises(RefusalError, match="the statistics say that 2 requests failed, the requests 1"):
        read(LINES, as_lines([*records(), failed]), {JSON: stated})
    assert reading(LINES, as_lines([*records(), failed, failed]), {JSON: stated}).failed == 2


def test_the_median_is_held_against_the_requests_too():
    latency = {**distribution([80.0, 90.0, 100.0, 150.0]), "p50": 85.0}
    with pytest.raises(RefusalError, match=r"median e2el says 0.085 s, its own requests say 0.095 s"):
        read(LINES, as_lines(records()), {JSON: as_json(later(request_latency=latency))})


def test_requests_that_are_not_those_of_the_statistics_are_refused():
    other = as_json(later(time_to_first_token=distribution([4.0, 5.0, 6.0, 7.0])))
    with pytest.raises(RefusalError, match="its own requests say"):
        read(LINES, as_lines(records()), {JSON: other})
    assert "its own requests say" in refusal(JSON, other, {LINES: as_lines(records())})


def test_warm_up_is_left_out_errors_fail_and_cancelled_requests_are_neither():
    warm_up = record(0) | {"metadata": {**record(0)["metadata"], "benchmark_phase": "warmup"}}
    failed = record(1) | {"error": {"code": 503, "message": "overloaded"}, "metrics": {}}
    cancelled = record(2) | {"metadata": {**record(2)["metadata"], "was_cancelled": True}}
    found = reading(LINES, as_lines([warm_up, *records(), failed, cancelled]))
    assert (found.completed, found.failed, found.metrics["failed_requests"]) == (4, 1, 0.2)
    assert any("1 request that the client cancelled left out" in note for note in found.notes)
    assert found.samples.ok.tolist() == [True] * 4 + [False]


def test_an_answer_that_was_not_streamed_has_an_end_and_no_tokens_in_time():
    whole = [
        record(index, metrics={"request_latency": {"value": 100.0, "unit": "ms"}}, usage=False) for index in range(4)
    ]
    found = reading(LINES, as_lines(whole))
    assert {name.rpartition("_")[0] for name in found.metrics if name.startswith(("ttft", "tpot", "itl"))} == set()
    assert found.metrics["e2el_mean"] == pytest.approx(0.1)
    assert found.samples is None
    assert any("ttft, tpot, itl and requests left out" in note for note in found.notes)


def test_gaps_of_different_units_are_one_pool():
    odd = record(3)
    odd["metrics"]["inter_chunk_latency"] = {"value": [20_000.0] * 4, "unit": "us"}
    assert reading(LINES, as_lines([*records()[:3], odd])).metrics["itl_mean"] == pytest.approx(0.0125)


@pytest.mark.parametrize(
    ("metric", "reason"),
    [
        ({"request_latency": None}, "line 2: request_latency is missing"),
        ({"request_latency": {"value": 9.0, "unit": "m"}}, "line 2: 'm' is no unit of time"),
        (
            {"inter_chunk_latency": {"value": ["x"], "unit": "ms"}},
            "line 2: the gaps between chunks are not all numbers",
        ),
        ({"inter_chunk_latency": {"value": 5, "unit": "ms"}}, "line 2: value is 5, not a list"),
        ({"usage_completion_tokens": {"value": 1e30}}, r"line 2: usage_completion_tokens is 1e\+30, not a count"),
        ({"time_to_first_token": {"value": 500.0, "unit": "ms"}}, "request 2 ended before its first token"),
    ],
)
def test_a_bad_line_is_named(metric, reason):
    lines = records()
    lines[1]["metrics"] |= metric
    with pytest.raises(RefusalError, match=reason):
        read(LINES, as_lines(lines))


def test_a_csv_has_two_decimals_and_does_not_say_the_workload():
    found = reading(CSV, csv_text(AIPERF_CSV).encode())
    expected = {name: value for name, value in ENCODED.items() if name != "failed_requests"}
    assert found.metrics == pytest.approx(expected, abs=1e-5)
    assert found.workload == {"mean_input_tokens": 128.0, "mean_output_tokens": 9.0}
    assert "does not say how many requests failed" in found.notes


def test_an_early_csv_has_percentiles_downwards_and_a_deviation():
    text = "Metric,avg,min,max,p99,p90,p75,std\nTime to First Token (ms),18.26,11.22,106.32,68.82,27.76,16.62,12.07\n"
    text += "\nMetric,Value\nRequest Throughput (requests/sec),255.54\n"
    expected = {"ttft_mean": 0.01826, "ttft_p90": 0.02776, "ttft_p99": 0.06882, "request_throughput": 255.54}
    assert reading(CSV, text.encode()).metrics == pytest.approx(expected)


def test_a_csv_in_which_two_are_mixed_is_refused():
    twice = csv_text(AIPERF_CSV).replace("\n\nMetric", "\nRequest Latency (ms),1,1,1\n\nMetric")
    with pytest.raises(RefusalError, match="stands twice"):
        read(CSV, twice.encode())


def test_values_without_a_mark_of_either_tool_are_asked_about(tmp_path):
    bare = {tag: early()[tag] for tag in ("request_latency", "request_throughput", "request_count")}
    (report,) = import_all(write(tmp_path / "r.json", bare)).files
    assert "could be aiperf and genai-perf; say which with --from" in report.reason


def test_each_definition_is_stated():
    assert {"aiperf", "aiperf-encoded"} <= DEFINITIONS.keys()


@pytest.mark.parametrize(
    ("section", "dataset"),
    [({"public_dataset": "sharegpt"}, "sharegpt"), ({"file": "/data/mine/chats.jsonl"}, "chats.jsonl")],
)
def test_a_dataset_is_part_of_the_workload_and_the_default_length_is_not(section, dataset):
    config = early()["input_config"]
    config = {**config, "input": {**config["input"], **section}}
    workload = reading(JSON, as_json(early(input_config=config))).workload
    assert workload["dataset"] == dataset
    assert "input_len" not in workload


@pytest.mark.parametrize(
    ("source", "dataset"),
    [
        ({"type": "public", "dataset": "alpaca"}, "alpaca"),
        ({"type": "file", "path": "mine/chats.jsonl"}, "chats.jsonl"),
    ],
)
def test_so_it_is_since_0_13(source, dataset):
    config = {**later()["input_config"], "datasets": [{"name": "main", **source}]}
    assert reading(JSON, as_json(later(input_config=config))).workload["dataset"] == dataset


def test_a_csv_beside_the_requests_alone_counts_once():
    found = read(CSV, csv_text(AIPERF_CSV).encode(), {LINES: as_lines(records())})
    assert (found.outcome, LINES in found.reason) == (FileOutcome.SKIPPED, True)
