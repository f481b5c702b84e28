"""Results that must not be used, and what the refusal says. A refused file never leaves numbers behind."""

import json

import pytest

from regress_gate.ingest import content
from regress_gate.ingest.interface import FileOutcome
from tests.factories import serve_results as made_by
from tests.factories.serve_results import import_all, made_up, report_on, write


def refusal(path) -> str:
    intake = import_all(path)
    (report,) = intake.files
    assert report.outcome is FileOutcome.REFUSED
    assert intake.runs == ()
    return report.reason


def latencies(result, value):
    return {key: value for key in result if key.endswith("_ms")}


PLAIN = made_by.plain(made_up(requests=12))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"completed": 0, "failed": 12}, "no request succeeded (12 failed)"),
        (latencies(PLAIN, 0.0), "every latency is 0"),
        ({"mean_ttft_ms": 0.0}, "mean_ttft_ms is 0"),
        ({"mean_ttft_ms": -1.0}, "mean_ttft_ms is negative"),
        ({"mean_itl_ms": 0.0}, "mean_itl_ms is 0 while"),
        ({"mean_ttft_ms": "50"}, "mean_ttft_ms is '50', not a number"),
        ({"mean_ttft_ms": True}, "mean_ttft_ms is True, not a number"),
        ({"median_ttft_ms": 1e5, "p99_ttft_ms": 1e5}, "longer than the whole run"),
        ({"median_ttft_ms": PLAIN["p99_ttft_ms"] * 2}, "median_ttft_ms is above p99_ttft_ms"),
        ({"mean_ttft_ms": PLAIN["duration"] * 900}, "requests in flight, max_concurrency is 4"),
        ({"duration": 0}, "duration is 0 s"),
        ({"duration": -3.5}, "duration is -3.5 s"),
        ({"duration": None}, "duration is missing"),
        ({"duration": PLAIN["duration"] * 1000}, "request_throughput says"),
        ({"request_throughput": 0.0}, "request_throughput is 0"),
        ({"request_throughput": None}, "request_throughput is missing"),
        ({"output_throughput": -1.0}, "output_throughput is -1"),
        ({"total_token_throughput": -1.0, "total_input_tokens": None}, "total_token_throughput is -1"),
        ({"output_throughput": PLAIN["output_throughput"] / 8}, "output_throughput says"),
        ({"total_output_tokens": 0}, "no output token was produced"),
        ({"request_goodput": 1e6}, "request_goodput is 1e+06"),
        ({"completed": 13, "failed": 0}, "completed says 13, more than the 12"),
        ({"completed": 11.5}, "completed is 11.5, not a count"),
        ({"completed": None}, "completed is missing"),
        ({"request_rate": "fast"}, "request_rate is 'fast', not a number"),
        ({"request_rate": 0}, 'request_rate is 0, neither a positive number nor "inf"'),
        ({"max_concurrency": 0}, "max_concurrency is 0"),
        ({"model_id": 7}, "model_id is 7, not text"),
        ({"model_id": ["a"]}, "model_id is a list, not text"),
        ({"aggregation_method": "median"}, "an aggregate over repeats ('median')"),
        ({"median_ttft": 0.05}, "median_ttft has no unit in its name"),
    ],
)
def test_impossible_results_are_refused_with_the_reason(tmp_path, change, reason):
    assert reason in refusal(write(tmp_path / "r.json", {**PLAIN, **change}))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"mean_ttft_ms": 0.04}, "its own samples say"),
        ({"p99_itl_ms": 1.0, "median_itl_ms": 0.5}, "wrong unit, or the file was edited"),
        ({"p99_ttft_ms": 9e9}, "its own samples say"),
        ({"p99.9_ttft_ms": 9e9}, "p99.9_ttft_ms says 9e+09, its own samples say"),
        ({"p101_ttft_ms": 50.0}, "p101_ttft_ms is no percentile"),
        ({"mean_e2el_ms": 9e9}, "mean_e2el_ms says 9e+09, its own samples say"),
        ({"ttfts": [0.05]}, "the arrays have different lengths"),
        ({"ttfts": [50.0] * 12}, "ended before its first token"),
        ({"ttfts": [0.0] * 12}, "request 1 succeeded but its time to first token is 0.0 s"),
        ({"ttfts": [None] * 12}, "ttfts holds null, not only numbers"),
        ({"itls": [0.1] * 12}, "itls is not a list of lists"),
        ({"itls": [["0.1"]] * 12}, "itls holds text, not only numbers"),
        ({"itls": [[-0.001] * 7] * 12}, "request 1 has a negative gap"),
        ({"itls": [[], [0.1] * 3, [], [0.2, -0.1], *[[0.1]] * 8]}, "request 4 has a negative gap between tokens (-0.1"),
        ({"output_lens": [8.5] * 12}, "output_lens holds float, not only whole numbers"),
        ({"output_lens": [80] * 12}, "total_output_tokens says 96, its own requests sum to 960"),
        ({"errors": [1] * 12}, "errors is not a list of texts"),
        ({"errors": ["broken"] * 2 + [""] * 10}, "completed says 12, the arrays hold 10 successful requests"),
        ({"failed": 3}, "failed says 3, the arrays hold 0"),
        ({"latencies": [0.1]}, "the arrays have different lengths"),
        ({"output_lens": [10**30] * 12}, "output_lens holds"),
    ],
)
def test_a_file_whose_samples_contradict_it_is_refused(tmp_path, change, reason):
    assert reason in refusal(write(tmp_path / "r.json", {**made_by.detailed(made_up(seed=6)), **change}))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty"),
        (b" \n ", "empty"),
        (json.dumps(PLAIN).encode()[:-40], "the JSON is cut off (line 1, column"),
        (json.dumps(PLAIN).encode() + b"\n" + json.dumps(PLAIN).encode()[:99], "1 complete before it"),
        (json.dumps(PLAIN).encode() + b"trailing", "not valid JSON"),
        (b'{"note": "NaN",\n "mean_ttft_ms": NaN}', 'NaN is not a number (line 2, column 18 after "mean_ttft_ms")'),
        (b'{"mean_ttft_ms": -Infinity}', "-Infinity is not a number (line 1, column 18"),
        (b"[" * 5000, "nested too deeply"),
        (b'{"a": ' + b"9" * 5000 + b", NaN}", "a number is too long"),
        (b'{"a": "\xff\xfe"}', "not UTF-8 text"),
        ("{}".encode("utf-16"), "UTF-16 text; save it as UTF-8"),
        (b"\x1f\x8b\x08rest", "the gzip data is cut off"),
        (b"SQLite format 3\x00rest", "an SQLite database"),
        (b"\x7fELF\x00\x00", "a binary file"),
        (b"{}", "an empty JSON value"),
        (b"[]", "an empty JSON value"),
        (b"12", "not a benchmark result of a known tool"),
        (b'{"hello": "world"}', "not a benchmark result of a known tool"),
    ],
)
def test_files_that_cannot_be_read_say_why_and_where(tmp_path, data, reason):
    assert reason in refusal(write(tmp_path / "r.json", data))


def test_a_file_over_the_size_limit_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(content, "MAX_BYTES", 100)
    assert "larger than" in refusal(write(tmp_path / "r.json", PLAIN))


def test_a_missing_file_is_refused(tmp_path):
    assert refusal(tmp_path / "nowhere.json") == "does not exist"
    assert refusal(tmp_path / "no*.json") == "matches no file"


def test_a_disagreement_within_rounding_is_none(tmp_path):
    made = made_up(seed=7)
    result = made_by.detailed(made)
    result["ttfts"] = [round(value, 6) for value in result["ttfts"]]
    result["itls"] = [[round(gap, 6) for gap in gaps] for gaps in result["itls"]]
    assert report_on(write(tmp_path / "r.json", result)).outcome is FileOutcome.STORED
