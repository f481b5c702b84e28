"""GenAI-Perf: statistics of AIPerf's shape, told apart from them by the arguments and by the order of columns."""

import pytest

from regress_gate.ingest.content import parse_content
from regress_gate.ingest.formats.aiperf import AiPerf
from regress_gate.ingest.formats.genai_perf import GenAiPerf
from regress_gate.ingest.interface import Certainty, Context, FileOutcome, Reading, UnusedResult
from regress_gate.model.metric import DEFINITIONS

from .aiperf_results import GENAI_CSV, as_json, csv_text, genai, genai_sections

JSON, CSV, RAW = "profile_export_genai_perf.json", "profile_export_genai_perf.csv", "profile_export.json"
EXPECTED = {
    "ttft_mean": 0.055,
    "ttft_median": 0.055,
    "ttft_p90": 0.067,
    "ttft_p95": 0.0685,
    "ttft_p99": 0.0697,
    "tpot_mean": 0.00625,
    "tpot_median": 0.005,
    "tpot_p90": 0.0085,
    "tpot_p95": 0.00925,
    "tpot_p99": 0.00985,
    "e2el_mean": 0.105,
    "e2el_median": 0.095,
    "e2el_p90": 0.135,
    "e2el_p95": 0.1425,
    "e2el_p99": 0.1485,
    "request_throughput": 16.0,
    "output_throughput": 144.0,
}
RAW_EXPORT = {
    "service_kind": "openai",
    "endpoint": "v1/completions",
    "experiments": [{"experiment": {"mode": "concurrency", "value": 2}, "requests": []}],
}


def read(name, data, beside=None):
    content = parse_content(name, data)
    assert GenAiPerf().recognises(content) is Certainty.SURE
    assert AiPerf().recognises(content) is Certainty.NO
    others = {other: parse_content(other, bytes_of) for other, bytes_of in (beside or {}).items()}
    (only,) = GenAiPerf().read(content, Context(beside=others.get))
    return only


def reading(name, data, beside=None) -> Reading:
    found = read(name, data, beside)
    assert isinstance(found, Reading), found
    return found


def refusal(name, data, beside=None) -> str:
    found = read(name, data, beside)
    assert isinstance(found, UnusedResult)
    assert found.outcome is FileOutcome.REFUSED
    return found.reason


def test_goodput_is_no_attainment_without_the_number_of_failures():
    made = genai()
    made["request_goodput"] = {"unit": "requests/sec", "avg": 8.0}
    made["input_config"]["goodput"] = {"time_to_first_token": 60.0, "request_latency": 1500.0}
    found = reading(JSON, as_json(made))
    assert found.metrics == pytest.approx(EXPECTED | {"goodput": 8.0})
    assert found.workload["slo"] == {"ttft": 0.06, "e2el": 1.5}, "seconds"


@pytest.mark.parametrize(("made", "spread"), [(genai, {}), (genai_sections, {"input_len_stddev": 16})])
def test_both_shapes_are_read_to_seconds_and_say_the_workload(made, spread):
    found = reading(JSON, as_json(made()))
    assert found.metrics == pytest.approx(EXPECTED)
    assert found.duration == 0.25, "4 requests at 16 a second"
    assert found.workload == {
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
    assert found.definitions in DEFINITIONS


def test_an_early_export_without_a_count_of_requests_is_read():
    early = genai()
    del early["request_count"]
    found = reading(JSON, as_json(early))
    assert (found.completed, found.duration) == (None, None)
    assert found.metrics == pytest.approx(EXPECTED)


def test_it_does_not_say_how_many_failed():
    found = reading(JSON, as_json(genai()))
    assert "failed_requests" not in found.metrics
    assert "does not say how many requests failed" in found.notes


def test_a_csv_is_read_to_two_decimals():
    found = reading(CSV, csv_text(GENAI_CSV, title_case=True).encode())
    assert found.metrics == pytest.approx(EXPECTED, abs=1e-5)


def test_a_csv_separates_thousands_by_commas():
    slow = csv_text(GENAI_CSV, title_case=True).replace('"150.00"', '"1,150.00"').replace('"105.00"', '"1,105.00"')
    found = reading(CSV, slow.replace('"16.00"', '"0.80"').replace('"144.00"', '"7.20"').encode())
    assert found.metrics["e2el_mean"] == pytest.approx(1.105)


def test_a_csv_beside_its_json_is_skipped():
    found = read(CSV, csv_text(GENAI_CSV, title_case=True).encode(), {JSON: as_json(genai())})
    assert found.outcome is FileOutcome.SKIPPED


def test_the_raw_export_is_refused_alone_and_skipped_beside_its_statistics():
    assert "no counts of tokens" in refusal(RAW, as_json(RAW_EXPORT))
    assert read(RAW, as_json(RAW_EXPORT), {JSON: as_json(genai())}).outcome is FileOutcome.SKIPPED


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"request_throughput": {"unit": "requests/sec", "avg": -1.0}}, "request_throughput is -1"),
        ({"request_throughput": {"unit": "furlongs", "avg": 1.0}}, "'furlongs' is no unit of request_throughput"),
        ({"request_latency": {"unit": "ms", "avg": 9000.0}}, "longer than the whole run (0.25 s)"),
        ({"output_token_throughput": {"unit": "tokens/sec", "avg": 9.0}}, "output_throughput says 9, but 36 in 0.25 s"),
    ],
)
def test_what_is_no_measurement_is_refused(change, reason):
    assert reason in refusal(JSON, as_json(genai(**change)))


@pytest.mark.parametrize("section", [{"input_file": "data/chats.jsonl"}, {"input": {"file": "data/chats.jsonl"}}])
def test_a_file_of_prompts_is_part_of_the_workload(section):
    config = {**genai()["input_config"], **section}
    assert reading(JSON, as_json(genai(input_config=config))).workload["dataset"] == "chats.jsonl"
