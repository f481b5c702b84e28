"""GuideLLM reports: what its names mean in which generation, and which of its files hold the same run."""

from math import isfinite

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regress_gate.ingest.content import Content, parse_content
from regress_gate.ingest.formats.guidellm import GuideLlm
from regress_gate.ingest.formats.guidellm_cell import RequestedLoad, guidellm_workload
from regress_gate.ingest.interface import Certainty, Context, FileOutcome, Reading, UnusedResult
from regress_gate.measurement.plausibility import RefusalError
from regress_gate.model.metric import DEFINITIONS, METRICS

from .guidellm_results import (
    VERSIONS,
    as_json,
    as_yaml,
    early_csv,
    later_csv,
    metrics,
    report,
    request,
    without_requests,
)
from .junk import spoilt

GENERATIONS = ("0.3", "0.4", "0.5", "0.8")
LATER = ("0.4", "0.5", "0.8")
RATES = {"request_throughput": 16.0, "output_throughput": 80.0, "total_throughput": 336.0, "failed_requests": 0.0}
BY_REQUESTS = {
    "ttft_mean": 0.055,
    "ttft_median": 0.055,
    "ttft_p90": 0.067,
    "ttft_p95": 0.0685,
    "ttft_p99": 0.0697,
    **{f"tpot_{name}": 0.010 for name in ("mean", "median", "p90", "p95", "p99")},
    "e2el_mean": 0.095,
    "e2el_median": 0.095,
    "e2el_p90": 0.107,
    "e2el_p95": 0.1085,
    "e2el_p99": 0.1097,
}
BY_STATISTICS = {
    "ttft_mean": 0.055,
    "ttft_median": 0.050,
    **{f"ttft_{name}": 0.070 for name in ("p90", "p95", "p99")},
    **{f"tpot_{name}": 0.010 for name in ("mean", "median", "p90", "p95", "p99")},
    "e2el_mean": 0.096,
    "e2el_median": 0.091,
    **{f"e2el_{name}": 0.111 for name in ("p90", "p95", "p99")},
}
NORMALIZED = {
    "normalized_latency_mean": 0.019,
    "normalized_latency_median": 0.018,
    **{f"normalized_latency_{name}": 0.022 for name in ("p90", "p95", "p99")},
}
PER_TOKEN = {f"tpot_per_token_{name}": 0.008 for name in ("mean", "median", "p90", "p95", "p99")}


def read(data, name="benchmarks.json", **context):
    content = parse_content(name, data)
    assert GuideLlm().recognises(content) is Certainty.SURE
    return GuideLlm().read(content, Context(**context))


def reading(data, name="benchmarks.json", **context):
    (only,) = read(data, name, **context)
    assert isinstance(only, Reading), only
    return only


def refusal(made, **context):
    (only,) = read(as_json(made), **context)
    assert isinstance(only, UnusedResult)
    assert only.outcome is FileOutcome.REFUSED
    return only.reason


def approx(expected):
    return pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("generation", GENERATIONS)
def test_with_the_requests_times_the_statistics_are_made_by_vllms_definitions(generation):
    made = reading(as_json(report(generation)))
    assert made.metrics == approx(BY_REQUESTS | RATES)
    assert made.definitions == "guidellm-requests"
    assert len(made.samples) == 4
    assert (made.completed, made.failed, made.duration) == (4, 0, 0.25)


@pytest.mark.parametrize("generation", GENERATIONS)
def test_yaml_is_read_to_the_same_numbers(generation):
    made = report(generation)
    assert reading(as_yaml(made), "benchmarks.yaml").metrics == reading(as_json(made)).metrics


@pytest.mark.parametrize("generation", LATER)
def test_from_0_4_on_its_own_time_per_output_token_includes_the_first(generation):
    made = reading(as_json(without_requests(report(generation))))
    assert made.metrics == approx(BY_STATISTICS | NORMALIZED | RATES)
    assert made.definitions == "guidellm"
    assert "holds the times of 0 of 4 requests: the statistics are GuideLLM's own" in made.notes


def test_up_to_0_3_its_own_time_per_output_token_leaves_out_the_first():
    made = reading(as_json(without_requests(report("0.3"))))
    assert made.metrics == approx(BY_STATISTICS | PER_TOKEN | RATES)


def test_samples_are_kept_only_where_they_are_wanted():
    assert reading(as_json(report()), with_samples=False).samples is None


def test_a_sample_of_the_requests_is_not_all_of_them():
    made = report()
    del made["benchmarks"][0]["requests"]["successful"][2:]
    found = reading(as_json(made))
    assert found.metrics["ttft_p99"] == pytest.approx(0.070)  # of all four, by GuideLLM
    assert "holds the times of 2 of 4 requests: the statistics are GuideLLM's own" in found.notes
    assert found.samples is None


@pytest.mark.parametrize("generation", LATER)
def test_requests_of_the_warm_up_are_left_out(generation):
    made = report(generation)
    warm_up = request(generation, 0)
    warm_up["request_end_time"] = made["benchmarks"][0]["start_time"] - 1
    warm_up["request_start_time"] = made["benchmarks"][0]["start_time"] - 2
    made["benchmarks"][0]["requests"]["successful"].insert(0, warm_up)
    assert reading(as_json(made)).metrics == approx(BY_REQUESTS | RATES)


def test_between_warm_up_and_cool_down_the_rates_are_those_of_the_file():
    made = report("0.8")
    made["benchmarks"][0]["warmup_duration"] = 0.05
    made["benchmarks"][0]["metrics"]["requests_per_second"]["successful"]["mean"] = 14.0
    found = reading(as_json(made)).metrics
    assert found["request_throughput"] == 14.0  # not 4 in 0.25 s: some of the four began before
    assert found["output_throughput"] == 80.0


def test_up_to_0_7_token_rates_are_made_from_counts():
    made = report("0.5")
    stated = made["benchmarks"][0]["metrics"]["output_tokens_per_second"]["successful"]["mean"]
    assert stated == 96.0  # without the wait for the first token
    assert reading(as_json(made)).metrics["output_throughput"] == 80.0


def test_only_requests_that_succeeded_count():
    assert reading(as_json(without_requests(report()))).metrics["ttft_mean"] == pytest.approx(0.055)  # total says 99


def test_goodput_is_read_where_objectives_were_set():
    made = report()
    made["benchmarks"][0]["metrics"]["request_goodput"] = {"successful": {"mean": 12.0, "count": 3}}
    assert reading(as_json(made)).metrics["goodput"] == 12.0
    made["benchmarks"][0]["metrics"]["request_goodput"] = None
    assert "goodput" not in reading(as_json(made)).metrics


def with_objectives(attainment, determined, **slo):
    made = report()
    made["benchmarks"][0]["config"]["slo"] = slo
    made["benchmarks"][0]["metrics"] |= {
        "slo_attainment": attainment,
        "slo_determined_requests": determined,
        "request_goodput": {"successful": {"mean": 8.0, "count": 2}},
    }
    return made


def test_attainment_of_the_determined_requests_has_a_name_of_its_own():
    found = reading(as_json(with_objectives(2 / 3, 3, ttft_ms=60.0, tpot_ms=None, e2el_ms=1500.0)))
    assert found.metrics["determined_attainment"] == pytest.approx(2 / 3)
    assert "slo_attainment" not in found.metrics
    assert found.workload["slo"] == {"ttft": 0.06, "e2el": 1.5}, "seconds"
    assert "1 request without a value for an objective: neither met nor missed in determined_attainment" in found.notes


def test_failed_requests_are_determined():
    made = with_objectives(0.5, 4, ttft_ms=60.0)
    made["benchmarks"][0]["metrics"]["request_totals"] |= {"errored": 1}
    assert reading(as_json(made)).metrics["determined_attainment"] == 0.5


@pytest.mark.parametrize(
    ("attainment", "determined", "errored", "why"),
    [
        (1.5, 4, 0, "slo_attainment is 1.5"),
        (0.5, 5, 0, "slo_determined_requests is 5, of 4 requests"),
        (0.5, 1, 2, "slo_determined_requests is 1, of 6 requests"),
        (1.0, 6, 2, "slo_attainment is 1, but 2 of 6 requests failed"),
    ],
)
def test_an_attainment_that_its_counts_contradict_is_refused(attainment, determined, errored, why):
    made = with_objectives(attainment, determined, ttft_ms=60.0)
    made["benchmarks"][0]["metrics"]["request_totals"] |= {"errored": errored}
    assert why in refusal(made)


def test_a_csv_report_says_the_attainment_and_not_its_requests():
    lines = later_csv("0.8").decode().splitlines()
    more = ("Server Throughput,Server Throughput", "Successful Goodput/Sec,SLO Attainment", "mean,", "8.0,0.5")
    text = "".join(f"{line},{end}\n" for line, end in zip(lines, more, strict=True))
    found = reading(text.encode(), name="benchmarks.csv")
    assert (found.metrics["goodput"], found.metrics["determined_attainment"]) == (8.0, 0.5)
    assert "does not say of how many requests its attainment is" in found.notes


def test_embeddings_have_no_output_tokens():
    made = without_requests(report())
    for key in ("output_token_count", "output_tokens_per_second", "time_per_output_token_ms"):
        made["benchmarks"][0]["metrics"][key] = None
    assert "output_throughput" not in reading(as_json(made)).metrics


def test_errors_are_failures_and_requests_cut_off_at_the_end_are_none():
    made = report()
    made["benchmarks"][0]["metrics"]["request_totals"] |= {"errored": 1, "incomplete": 2}
    found = reading(as_json(made))
    assert (found.completed, found.failed) == (4, 1)
    assert found.metrics["failed_requests"] == pytest.approx(0.2)
    assert "2 requests cut off at the end: in no number, and no failures" in found.notes


def test_answers_that_were_not_streamed_have_no_first_token():
    made = without_requests(report())
    for key in ("time_to_first_token_ms", "inter_token_latency_ms"):
        zeros = made["benchmarks"][0]["metrics"][key]["successful"]
        zeros |= {"mean": 0.0, "median": 0.0, "percentiles": dict.fromkeys(zeros["percentiles"], 0.0)}
    found = reading(as_json(made))
    assert not [name for name in found.metrics if name.startswith(("ttft", "tpot"))]
    assert "no time to first token: answers were not streamed" in found.notes


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize(
    ("strategy", "workload"),
    [
        ({"type_": "synchronous"}, {"request_rate": None, "max_concurrency": 1}),
        ({"type_": "concurrent", "streams": 4}, {"request_rate": None, "max_concurrency": 4}),
        ({"type_": "throughput"}, {"request_rate": None, "max_concurrency": None}),
        ({"type_": "poisson", "rate": 2.0}, {"request_rate": 2.0, "max_concurrency": None}),
        ({"type_": "constant", "rate": 2.0}, {"request_rate": 2.0, "max_concurrency": None, "arrival": "constant"}),
    ],
)
def test_the_strategy_is_the_workload(generation, strategy, workload):
    made = report(generation, strategy)
    for benchmark in made["benchmarks"]:
        benchmark["duration"] = 0.4  # so that one at a time is possible
        for key in ("requests_per_second", "output_tokens_per_second"):
            benchmark["metrics"][key]["successful"]["mean"] /= 1.6
    assert reading(as_json(made)).workload == {
        "model": "org/tiny",
        **workload,
        "num_prompts": 4,
        "input_len": 16,
        "output_len": 5,
        "mean_input_tokens": 16.0,
        "mean_output_tokens": 5.0,
    }


def test_each_step_of_a_sweep_is_a_result_whose_rate_is_its_own():
    made = report("0.5", {"type_": "throughput"}, {"type_": "constant", "rate": 13.7})
    for benchmark in made["benchmarks"]:
        benchmark["config"]["profile"] = {"type_": "sweep"}
    first, second = read(as_json(made))
    assert (first.position, second.position) == (0, 1)
    assert second.workload["request_rate"] == 13.7
    assert "its rate was chosen by a sweep from what the server could do: another run has other rates" in second.notes
    assert not first.notes


def test_a_model_that_was_found_out_by_the_tool_is_not_in_the_file():
    made = report("0.5")
    made["benchmarks"][0]["config"]["backend"]["model"] = None
    assert "model" not in reading(as_json(made)).workload


def test_the_end_by_time_and_a_dataset_by_name_are_read():
    made = report("0.8")
    made["config"]["spec"]["data"] = [{"kind": "json_file", "path": "/data/sharegpt.json"}]
    made["benchmarks"][0]["config"]["constraints"] = {
        "max_seconds": {"args": {"seconds": [30, 60]}, "current_index": 1}
    }
    workload = reading(as_json(made)).workload
    assert (workload["dataset"], workload["seconds"]) == ("sharegpt.json", 60)
    assert "num_prompts" not in workload


def test_the_release_is_the_clients_version():
    assert reading(as_json(report("0.5"))).metadata == {"client_version": "guidellm 0.5.4"}
    assert not reading(as_json(report("0.4"))).metadata


def test_a_benchmark_in_a_file_is_refused_alone():
    made = report("0.8", {"type_": "synchronous"}, {"type_": "concurrent", "streams": 2})
    made["benchmarks"][0]["duration"] = 0
    bad, good = read(as_json(made))
    assert bad.reason == "its duration is 0 s"
    assert isinstance(good, Reading)


def unclear():
    """A layout between the generations, which says of neither what it is."""
    made = without_requests(report("0.3"))
    del made["benchmarks"][0]["worker"]
    return made


def test_time_per_output_token_of_an_unknown_generation_does_not_gate():
    found = reading(as_json(unclear()))
    assert found.metrics["unclear_tpot_mean"] == pytest.approx(0.008)
    assert METRICS["unclear_tpot_mean"].is_descriptive
    assert any("--client-version" in note for note in found.notes)


@pytest.mark.parametrize(
    ("version", "name"), [("0.3.1", "tpot_per_token_mean"), ("guidellm 0.4.0", "normalized_latency_mean")]
)
def test_the_clients_version_clears_it(version, name):
    found = reading(as_json(unclear()), client_version=version)
    assert found.metrics[name] == pytest.approx(0.008)
    assert not any("--client-version" in note for note in found.notes)


def test_a_client_version_that_contradicts_the_layout_is_refused():
    reason = refusal(report("0.4"), client_version="0.3.1")
    assert reason == "--client-version is '0.3.1', but this is the layout of 0.4 and later"
    # What the file says itself goes before, and another tool's version says nothing.
    assert reading(as_json(report("0.8")), client_version="0.3.1").metadata["client_version"] == "guidellm 0.8.1"
    assert reading(as_json(report("0.4")), client_version="vllm 0.32.0").metrics


def changed(generation="0.8", requests=True, **values):
    """A report in which values of its benchmark are changed, by path with `__` for steps."""
    made = report(generation) if requests else without_requests(report(generation))
    for path, value in values.items():
        *steps, last = path.split("__")
        place = made["benchmarks"][0]
        for step in steps:
            place = place[int(step)] if isinstance(place, list) else place[step]
        place[int(last) if isinstance(place, list) else last] = value
    return made


TOTALS = "metrics__request_totals__successful"
TTFT = "metrics__time_to_first_token_ms__successful"


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (changed(**{TOTALS: 0}), "no request succeeded"),
        (changed(**{TOTALS: None}), "how many requests succeeded is not stated"),
        (changed(duration=None), "duration is missing"),
        (changed(duration=2.5), "requests_per_second says 16, but 4 in 2.5 s is 1.6"),
        (changed(metrics=7), "metrics is 7, not an object"),
        (changed(requests__successful=7), "successful is 7, not a list"),
        (changed(requests__successful__1=7), "requests.successful is not a list of objects"),
        (changed(requests__successful__1__info__timings="x"), "timings is 'x', not an object"),
        (changed(requests__successful__0__info__timings__first_token_iteration=1.0), "time to first token is"),
        (changed(**{f"{TTFT}__mean": 66.0}), "time to first token is 66 ms, of its own requests 55 ms"),
        (changed(metrics__inter_token_latency_ms__successful__mean=12.0), "inter-token latency is 12 ms"),
        (changed(metrics__request_latency__successful__mean=0.05), "request latency is 50 ms"),
        (changed(requests=False, **{f"{TTFT}__median": 80.0}), "median_ttft_ms is above p90_ttft_ms"),
        (changed(requests=False, **{f"{TTFT}__mean": -1.0}), "mean_ttft_ms is negative"),
        (changed(requests=False, metrics__request_latency__successful__mean=96.0), "longer than the whole run"),
        (changed(requests=False, metrics__request_latency__successful__mean=0.2), "requests in flight"),
        (changed(start_time=1e300, end_time=1e301), "is no time"),
        (changed(start_time=1e300), "end_time is 1e+300 s before start_time"),
        (changed(requests=False, metrics__output_token_count__successful__mean=-5.0), "output_token_count is -5"),
        (changed(warmup_duration=1.0, metrics__requests_per_second__successful__mean=-1.0), "request_throughput is -1"),
        (changed(metrics__request_goodput={"successful": {"mean": 17.0}}), "request_goodput is 17, throughput 16"),
        (changed("0.3", False, duration=1e-310, request_totals__errored=1), "longer than the whole run"),
        (changed(config__strategy__streams=0), "streams is 0"),
    ],
)
def test_what_cannot_be_is_refused(made, reason):
    assert reason in refusal(made)


def test_a_report_without_a_benchmark_is_refused():
    with pytest.raises(RefusalError, match="no benchmark in it"):
        read(as_json({"metadata": {"guidellm_version": "0.8.1"}, "benchmarks": []}))


def test_other_files_are_not_its_own():
    for name, data in (
        ("a.json", b'{"benchmarks": [{"name": "x"}]}'),
        ("a.yaml", b"benchmarks:\n- name: x\n"),
        ("a.csv", b"Type,Size\n1,2\n"),
        ("a.json", b'{"benchmarks": "all"}'),
    ):
        assert GuideLlm().recognises(parse_content(name, data)) is Certainty.NO


@pytest.mark.parametrize("lines", [1, 3])
def test_a_yaml_report_that_was_cut_off_is_refused(lines):
    whole = as_yaml(report("0.3"))
    kept = b"".join(whole.splitlines(keepends=True)[: -lines - 4])  # before `type_`, which is behind all numbers
    (only,) = read(kept, "benchmarks.yaml")
    assert only.reason == "type_ is missing: the file was cut off, or edited"
    with pytest.raises(RefusalError, match="its last line does not end"):
        read(whole[:-lines], "benchmarks.yaml")
    with pytest.raises(RefusalError, match="not a whole report of GuideLLM"):
        read(whole[: whole.index(b"  run_id:")], "benchmarks.yaml")


def test_a_yaml_report_with_an_alias_is_refused():
    text = as_yaml(report("0.5")).replace(b"model: org/tiny", b"model: *other")
    with pytest.raises(RefusalError, match="aliases are not supported"):
        read(text, "benchmarks.yaml")


@pytest.mark.parametrize("generation", LATER)
def test_a_csv_report_with_three_rows_of_headings_holds_the_statistics(generation):
    made = reading(later_csv(generation), "benchmarks.csv")
    assert made.metrics == approx(BY_STATISTICS | NORMALIZED | RATES)
    assert made.workload == reading(as_json(report(generation))).workload
    assert made.metadata == ({"client_version": f"guidellm {VERSIONS[generation]}"} if generation in VERSIONS else {})


def test_a_csv_report_with_one_row_of_headings_is_of_0_2_or_0_3():
    made = reading(early_csv(), "benchmarks.csv")
    assert made.metrics == approx(BY_STATISTICS | PER_TOKEN | RATES)
    assert made.workload == reading(as_json(report("0.3"))).workload


@pytest.mark.parametrize("generation", LATER)
def test_each_row_is_a_benchmark_with_its_own_number_of_streams(generation):
    strategies = ({"type_": "concurrent", "streams": 2}, {"type_": "concurrent", "streams": 4})
    found = read(later_csv(generation, *strategies), "benchmarks.csv")
    assert [one.workload["max_concurrency"] for one in found] == [2, 4]


def test_a_row_that_does_not_fit_the_headings_is_refused():
    lines = early_csv().decode().splitlines()
    (only,) = read("\n".join((lines[0], lines[1] + ",1")).encode(), "benchmarks.csv")
    assert "GuideLLM writes those of the first benchmark alone; import the JSON report" in only.reason


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (b",0.25,", b",soon,", "Timings Duration Sec is 'soon', not a number"),
        (b",0.25,", b",,", "Duration is missing"),
        (b",55.0,", b",inf,", "is 'inf', not a number"),
        (b'"[40.0,', b'"{40.0,', "is not valid JSON"),
        (b'"[40.0, 40.0,', b'"[40.0,', "is not a list of 11 numbers"),
    ],
)
def test_a_csv_field_that_is_no_number_is_refused(old, new, reason):
    data = later_csv()
    assert old in data
    (only,) = read(data.replace(old, new, 1), "benchmarks.csv")
    assert reason in only.reason


def test_a_csv_report_that_was_cut_off_is_refused():
    with pytest.raises(RefusalError, match="not valid CSV, or cut off"):
        read(later_csv()[:-9], "benchmarks.csv")


@pytest.mark.parametrize(("name", "poorer"), [("benchmarks.csv", later_csv()), ("benchmarks.yaml", as_yaml(report()))])
def test_the_same_run_in_a_poorer_file_is_skipped(name, poorer):
    beside = {"benchmarks.json": parse_content("benchmarks.json", as_json(report()))}
    (only,) = read(poorer, name, beside=beside.get)
    assert only.outcome is FileOutcome.SKIPPED
    assert only.reason == "the same run as benchmarks.json beside it"


def test_another_run_beside_it_does_not_matter():
    beside = {"benchmarks.json": parse_content("benchmarks.json", as_json(report("0.5")))}
    assert reading(later_csv("0.8"), "benchmarks.csv", beside=beside.get)


def test_its_definitions_are_stated():
    assert {"guidellm", "guidellm-requests"} <= DEFINITIONS.keys()
    assert metrics("0.3").keys() == metrics("0.8").keys()


@pytest.mark.parametrize("generation", GENERATIONS)
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_whatever_stands_in_a_report_it_is_read_or_refused(generation, data):
    made = report(generation)
    made = data.draw(spoilt(made if data.draw(st.booleans()) else without_requests(made)))
    content = Content("benchmarks.json", "0" * 64, documents=(made,))
    try:
        results = GuideLlm().read(content, Context())
    except RefusalError:
        return
    for found in results:
        assert isinstance(found, UnusedResult) or all(map(isfinite, found.metrics.values()))


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_whatever_stands_in_a_csv_report_it_is_read_or_refused(data):
    whole = data.draw(st.sampled_from([early_csv(), later_csv("0.5"), later_csv("0.8")])).decode()
    at = data.draw(st.integers(0, len(whole)))
    end = data.draw(st.integers(at, min(len(whole), at + 20)))
    text = whole[:at] + data.draw(st.text(max_size=8)) + whole[end:]
    content = Content("benchmarks.csv", "0" * 64, text=text)
    try:
        results = GuideLlm().read(content, Context())
    except RefusalError:
        return
    for found in results:
        assert isinstance(found, UnusedResult) or all(map(isfinite, found.metrics.values()))


@pytest.mark.parametrize(
    "data",
    [
        "prompt_tokens=16,prompt_tokens_stdev=4,output_tokens=5,output_tokens_stdev=0",
        '{"prompt_tokens": 16, "prompt_tokens_stdev": 4, "output_tokens": 5}',
        [{"kind": "synthetic_text", "prompt_tokens": 16, "prompt_tokens_stdev": 4, "output_tokens": 5}],
    ],
)
def test_the_spread_of_lengths_is_part_of_the_workload(data):
    workload, _ = guidellm_workload(RequestedLoad(strategy={"type_": "synchronous"}, profile={}, model=None, data=data))
    lengths = {name: value for name, value in workload.items() if "_len" in name}
    assert lengths == {"input_len": 16, "input_len_stddev": 4, "output_len": 5}
