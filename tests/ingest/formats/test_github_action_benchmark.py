"""github-action-benchmark: anybody's charts. Only what is surely one of our metrics is read."""

import json
from datetime import UTC, datetime

import pytest

from regress_gate.ingest.content import parse_content
from regress_gate.ingest.formats.github_action_benchmark import GithubActionBenchmark, known_metric
from regress_gate.ingest.interface import Certainty, Context
from regress_gate.measurement.plausibility import RefusalError
from regress_gate.text import is_valid_name
from tests.ingest.formats.gha_results import COMMIT, DATE, LATENCIES, bench, entry, history, nm_vllm, script
from tests.ingest.formats.reading import read, reading, refusal

READER = GithubActionBenchmark()
READ = {"ttft_mean": 0.05, "ttft_p99": 0.09, "tpot_median": 0.012}


def test_data_js_is_read_like_its_json():
    (result,) = READER.read(parse_content("data.js", script(history(entry(LATENCIES)))), Context())
    assert result.metrics == pytest.approx(READ)
    assert result == reading(READER, history(entry(LATENCIES)))


def test_a_commit_of_vllm_itself_is_a_version_and_its_date_makes_the_run():
    result = reading(READER, history(entry(LATENCIES)))
    assert result.metadata == {
        "vllm_version": f"commit:{COMMIT}",
        "run": "c0ffee000000-20260501T120000",
        "scenario": "Latency-chat",
    }
    assert result.started == datetime(2026, 5, 1, 12, tzinfo=UTC)
    assert result.definitions == "github-action-benchmark"


def test_a_commit_of_another_repository_is_no_version():
    metadata = reading(READER, history(entry(LATENCIES), repository="https://github.com/me/vllm-bench")).metadata
    assert "vllm_version" not in metadata
    assert metadata["run"] == "c0ffee000000-20260501T120000"


def test_each_commit_and_each_scenario_is_a_result():
    other = [bench("batch/mean_ttft_ms", 70.0, "ms")]
    results = read(READER, history(entry(LATENCIES + other), entry(LATENCIES, commit="d" * 40)))
    assert [result.position for result in results] == [0, 1, 2]
    assert [result.metadata["scenario"] for result in results] == ["Latency-chat", "Latency-batch", "Latency-chat"]


def test_nm_vllm_hides_json_in_name_and_its_version_is_not_used():
    result = reading(READER, nm_vllm())
    assert result.metrics == {"e2el_median": 0.9, "ttft_mean": 0.05}
    assert result.metadata["scenario"] == "Latency-llama-8b"
    assert result.metadata["vllm_version"] == f"commit:{COMMIT}"


def test_offline_throughput_of_nm_vllm_is_not_taken_for_a_servers():
    assert "no benchmark in it is a known metric" in refusal(READER, nm_vllm(script_name="benchmark_throughput.py"))


def test_the_actions_input_is_read_where_nothing_else_claims_it():
    content = parse_content("r.json", b'[{"name": "mean_ttft_ms", "unit": "ms", "value": 50}]')
    assert READER.recognises(content) is Certainty.LIKELY
    (result,) = READER.read(content, Context())
    assert result.metrics == {"ttft_mean": 0.05}
    assert result.metadata == {"scenario": "benchmark"}


def test_what_is_not_known_is_named_and_pointed_to_the_long_table():
    reason = refusal(READER, history(entry([bench("startup", 3.0, "s"), bench("rss", 9.0, "MB")])))
    assert "startup (s), rss (MB)" in reason
    assert "long table" in reason


def test_what_is_not_known_beside_what_is_becomes_a_note():
    result = reading(READER, history(entry([*LATENCIES, bench("chat/rss", 9.0, "MB")])))
    assert result.metrics == pytest.approx(READ)
    assert "not read: rss (MB)" in result.notes


@pytest.mark.parametrize(
    ("benches", "tool", "reason"),
    [
        ([bench("mean_ttft_ms", 5.0, "s")], "", "which is not the unit of its name"),
        ([bench("TTFT mean (ms)", 5.0, "s")], "", "in 'ms' by its name and in 's' by its unit"),
        ([bench("ttft_mean", 5.0, "furlongs")], "", "'furlongs'"),
        ([bench("request_throughput", 5.0, "ms")], "", "is in 'ms', not in one of req/s"),
        ([bench("mean_ttft_ms", 5.0, "ms")], "customBiggerIsBetter", "a chart where bigger is better: not ttft_mean"),
        ([bench("mean_ttft_ms", 5.0, "ms")] * 2, "", "ttft_mean is there twice"),
        ([bench("mean_ttft_ms", 0.0, "ms")], "", "every latency is 0"),
        ([bench("mean_ttft_ms", "5", "ms")], "", "value is '5', not a number"),
        ([], "", "has no benchmarks"),
    ],
)
def test_doubtful_values_are_refused(benches, tool, reason):
    assert reason in refusal(READER, history(entry(benches, tool)))


@pytest.mark.parametrize(
    ("name", "unit", "metric", "factor"),
    [
        ("p50_itl_ms", "ms", "itl_median", 1e-3),
        ("P99 E2EL (s)", "s", "e2el_p99", 1.0),
        ("tpot_p90", "us", "tpot_p90", 1e-6),
        ("Output token throughput (tok/s)", "tok/s", "output_throughput", 1.0),
        ("request_throughput (prompts/s)", "prompts/s", "request_throughput", 1.0),
        ("request_goodput", "req/s", "goodput", 1.0),
    ],
)
def test_names_of_vllms_clients_are_known(name, unit, metric, factor):
    found = known_metric(name, unit)
    assert (found.metric, found.factor) == (metric, factor)


@pytest.mark.parametrize("name", ["token_throughput", "latency", "mean_latency_ms", "ttft", "", "max_ttft_ms"])
def test_names_that_could_be_anything_are_not(name):
    assert known_metric(name, "ms") is None


def test_a_script_that_is_no_json_is_refused():
    content = parse_content("data.js", b"window.BENCHMARK_DATA = load();")
    with pytest.raises(RefusalError, match="is no JSON"):
        READER.read(content, Context())


def test_a_date_that_is_none_is_refused():
    wrong = entry(LATENCIES) | {"date": DATE * 10**9}
    assert "not milliseconds since 1970" in refusal(READER, history(wrong))


def test_scenarios_with_long_names_stay_distinct():
    described = "VLLM Serving - Dense; model - org/a-model-of-a-long-name; max-model-len - 4096; nr-qps-pair "
    benches = [
        bench(json.dumps({"name": name, "description": described + pair}), value, "ms")
        for pair, name, value in (("50,0.5", "mean_ttft_ms", 50.0), ("100,1", "mean_tpot_ms", 9.0))
    ]
    one, other = read(READER, history(entry(benches)))
    assert (one.metrics, other.metrics) == ({"ttft_mean": 0.05}, {"tpot_mean": pytest.approx(0.009)})
    names = {result.metadata["scenario"] for result in (one, other)}
    assert len(names) == 2
    assert all(is_valid_name(name) for name in names)
