"""inference-perf: a stage is a result of the load that was asked of it, in seconds."""

import pytest
import yaml

from regress_gate.ingest.content import parse_content
from regress_gate.ingest.formats.inference_perf import InferencePerf
from regress_gate.ingest.formats.server_manifest import server_of
from regress_gate.ingest.interface import Certainty, Context, FileOutcome, Reading, UnusedResult
from regress_gate.measurement.plausibility import RefusalError
from regress_gate.model.metric import DEFINITIONS
from tests.factories.serve_results import import_all, write

from .inference_perf_results import (
    as_json,
    as_yaml,
    config,
    later,
    manifests,
    prometheus,
    requests,
    stage,
    statistics,
    summary,
)

STAGE = "stage_0_lifecycle_metrics.json"
SUMMARY = "summary_lifecycle_metrics.json"


def read(data, name=STAGE, beside=None):
    content = parse_content(name, data)
    assert InferencePerf().recognises(content) is Certainty.SURE
    others = {other: parse_content(other, bytes_of) for other, bytes_of in (beside or {}).items()}
    (only,) = InferencePerf().read(content, Context(beside=others.get))
    return only


def reading(document, name=STAGE, beside=None) -> Reading:
    found = read(as_json(document), name, beside)
    assert isinstance(found, Reading), found
    return found


def outcome(document, name, beside=None) -> tuple[FileOutcome, str]:
    found = read(as_json(document), name, beside)
    assert isinstance(found, UnusedResult)
    return found.outcome, found.reason


def test_a_stage_is_read_in_seconds():
    found = reading(later())
    assert (found.completed, found.failed, found.duration) == (20, 1, 2.0)
    metrics = found.metrics
    families = ("ttft", "tpot", "token_gap", "e2el", "normalized_latency")
    means = {family: metrics[f"{family}_mean"] for family in families}
    assert means == {"ttft": 0.1, "tpot": 0.008, "token_gap": 0.004, "e2el": 0.5, "normalized_latency": 0.01}
    percentiles = [metrics[f"ttft_{name}"] for name in ("median", "p90", "p95", "p99")]
    assert percentiles == pytest.approx([0.1, 0.15, 0.175, 0.2])
    assert (metrics["request_throughput"], metrics["output_throughput"], metrics["total_throughput"]) == (10, 500, 2500)
    assert metrics["failed_requests"] == pytest.approx(1 / 21)
    assert not any(name.startswith("itl") for name in metrics), "its gaps are between tokens"


def test_before_times_were_of_tokens_the_time_per_token_does_not_gate():
    found = reading(stage())
    assert found.metrics["unclear_tpot_mean"] == 0.004
    assert not any(name.startswith("tpot_") for name in found.metrics)
    assert found.duration == 2.0, "20 requests at 10 a second"
    assert found.definitions != reading(later()).definitions
    assert {found.definitions, reading(later()).definitions} <= DEFINITIONS.keys()


def test_yaml_says_the_same():
    found = read(as_yaml(later()), "stage_0_lifecycle_metrics.yaml")
    assert isinstance(found, Reading)
    assert found.metrics == reading(later()).metrics


def test_the_rate_asked_for_is_the_load_and_not_the_number_of_the_stage():
    found = reading(later(requested_rate=31.4, count=63), "stage_7_lifecycle_metrics.json")
    assert found.workload["request_rate"] == 31.4
    assert found.workload["num_prompts"] == 63
    assert "stage" not in found.workload


def test_a_stage_of_fixed_concurrency_has_no_rate():
    workload = reading(later(concurrency=8, requested_rate=20.0)).workload
    assert (workload["request_rate"], workload["max_concurrency"]) == (None, 8)


def test_the_configuration_beside_it_states_the_workload():
    workload = reading(later(), beside={"config.yaml": config()}).workload
    assert workload == {
        "model": "org/tiny",
        "dataset": "random",
        "input_len": 200,
        "output_len": 50,
        "arrival": "constant",
        "request_rate": 10.0,
        "num_prompts": 21,
        "mean_input_tokens": 200.0,
        "mean_output_tokens": 50.0,
    }


def test_workloads_differ_by_the_length_of_a_shared_prefix():
    prefix = {"num_groups": 4, "num_prompts_per_group": 8, "system_prompt_len": 512, "question_len": 32}
    text = yaml.safe_dump({"data": {"type": "shared_prefix", "shared_prefix": {**prefix, "output_len": 16}}})
    workload = reading(later(), beside={"config.yaml": text.encode()}).workload
    expected = {"groups": 4, "prompts_per_group": 8, "prefix_len": 512, "input_len": 32, "output_len": 16}
    assert expected.items() <= workload.items()


def test_the_spread_of_lengths_is_part_of_the_workload():
    data = {"type": "random", "input_distribution": {"mean": 200.0, "std_dev": 30.0}}
    text = yaml.safe_dump({"data": data})
    assert reading(later(), beside={"config.yaml": text.encode()}).workload["input_len_stddev"] == 30


def test_the_configuration_gives_the_concurrency_that_early_reports_lack():
    workload = reading(stage(), beside={"config.yaml": config("concurrent")}).workload
    assert (workload["request_rate"], workload["max_concurrency"]) == (None, 8)


def test_poisson_arrivals_have_no_fixed_count():
    workload = reading(later(), beside={"config.yaml": config("poisson")}).workload
    assert workload["burstiness"] == 1.0
    assert "num_prompts" not in workload


def test_without_any_rate_the_scenario_has_to_be_given():
    made = stage()
    del made["load_summary"]["requested_rate"]
    found = reading(made)
    assert "request_rate" not in found.workload
    assert any("give --scenario" in note for note in found.notes)


def test_manifests_say_version_model_and_accelerator():
    found = reading(later(), beside={"manifests.yaml": manifests()})
    assert found.metadata == {"vllm_version": "0.11.0", "accelerator": "nvidia-h100-80gb"}
    assert found.workload["model"] == "org/served"


def test_servers_started_differently_are_not_one_scenario():
    def server(*args, image="vllm/vllm-openai:v0.11.0"):
        return reading(later(), beside={"manifests.yaml": manifests(image, args=args)}).workload.get("server")

    plain = server("--max-num-seqs=128", "--max-model-len=512")
    later_image = "vllm/vllm-openai:v0.12.0"
    assert plain == server("--max_model_len", "512", "--max-num-seqs 128", "--port=1", image=later_image)
    assert plain != server("--max-num-seqs=256", "--max-model-len=512")
    assert server() is None


def test_a_line_for_a_shell_is_taken_apart():
    line = "exec vllm serve org/other --max-num-seqs 128 --api-key s3cret"
    container = {"image": "vllm/vllm-openai:v0.11.0", "command": ["sh", "-c", line]}
    server = server_of([{"spec": {"template": {"spec": {"containers": [container]}}}}])
    assert (server.model, server.arguments) == ("org/other", ["--max-num-seqs=128"])


def test_a_note_says_how_the_server_was_started_and_no_key():
    beside = {"manifests.yaml": manifests(args=("--api-key", "s3cret", "--max-num-seqs=128"))}
    (note,) = (note for note in reading(later(), beside=beside).notes if note.startswith("server "))
    assert note.endswith(" is --max-num-seqs=128")


@pytest.mark.parametrize(
    "beside", [manifests("registry.local/other:1"), manifests("vllm/vllm-openai:latest"), manifests(copies=2)]
)
def test_manifests_of_another_or_of_two_servers_say_nothing(beside):
    assert reading(later(), beside={"manifests.yaml": beside}).metadata == {}


def test_a_broken_file_beside_it_is_noted_and_not_used():
    found = reading(later(), beside={"config.yaml": b"a: [", "manifests.yaml": b"spec: 5\na: *x"})
    assert [note.partition(":")[0] for note in found.notes if "not used" in note] == [
        "config.yaml beside it is not used",
        "the manifests beside it are not used",
    ]


def test_a_client_that_was_late_is_noted():
    found = reading(later(schedule_delay=statistics(9.25), achieved_rate=7.0))
    assert any("9.25 s late on average (7 of 10 requests/s)" in note for note in found.notes)
    assert not any(" late " in note for note in reading(later()).notes)


def test_goodput_is_read_and_retries_are_noted():
    made = later()
    made["successes"]["goodput_metrics"] = {"request_goodput": 8.0}
    made["retries"] = {"requests_retried": 2, "attempts": 3}
    found = reading(made)
    assert found.metrics["goodput"] == 8.0
    assert any("2 requests sent more than once" in note for note in found.notes)


def test_a_summary_pools_stages_and_is_not_used():
    assert outcome(summary(), SUMMARY)[0] is FileOutcome.REFUSED
    beside = {STAGE: as_json(later())}
    assert outcome(summary(), SUMMARY, beside) == (FileOutcome.SKIPPED, "a pool of all stages, which lie beside it")
    assert outcome(summary(), SUMMARY, {"config.yaml": config(stages=2)})[0] is FileOutcome.REFUSED
    swept = {"config.yaml": config(sweep={"type": "linear"})}
    assert outcome(summary(), SUMMARY, swept)[0] is FileOutcome.REFUSED


def test_the_summary_of_the_only_stage_is_that_stage():
    found = reading(summary(), SUMMARY, {"config.yaml": config(stages=1)})
    assert found.workload["request_rate"] == 10.0
    assert found.metrics == reading(later()).metrics


@pytest.mark.parametrize(
    ("document", "name", "reason"),
    [
        (prometheus(), "stage_0_prometheus_metrics.json", "the server's own metrics"),
        (requests(), "per_request_lifecycle_metrics.json", "the requests of all stages in one list"),
    ],
)
def test_other_reports_are_refused_alone_and_skipped_beside_the_stages(document, name, reason):
    alone, told = outcome(document, name)
    assert (alone, told.startswith(reason)) == (FileOutcome.REFUSED, True)
    assert outcome(document, name, {STAGE: as_json(later())})[0] is FileOutcome.SKIPPED


def test_stages_of_one_folder_are_results_of_their_own(tmp_path):
    for number, rate in enumerate((10.0, 20.0)):
        made = later(requested_rate=rate, count=21 + number)
        made["failures"] = {"count": number}
        write(tmp_path / f"stage_{number}_lifecycle_metrics.json", made)
        write(tmp_path / f"stage_{number}_prometheus_metrics.json", prometheus())
    write(tmp_path / SUMMARY, summary())
    (tmp_path / "config.yaml").write_bytes(config(stages=2, sweep={"type": "linear"}))
    intake = import_all(tmp_path)
    assert intake.complete
    assert sorted(trial.scenario for run in intake.runs for trial in run.trials) == [
        "tiny-r10-n21-dataset=random-input_len=200-output_len=50-arrival=constant",
        "tiny-r20-n22-dataset=random-input_len=200-output_len=50-arrival=constant",
    ]


def changed(document, *path_and_value):
    *path, last, value = path_and_value
    inner = document
    for key in path:
        inner = inner[key]
    inner[last] = value
    return document


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        (changed(later(), "successes", "count", 0), "no request succeeded (1 failed)"),
        (changed(later(), "successes", "count", 40), "request_throughput says 10, but 40 in 2 s is 20"),
        (changed(later(), "benchmark_time_seconds", 0.0), "duration is 0 s"),
        (changed(later(), "successes", "throughput", 7), "throughput is 7, not an object"),
        (changed(later(), "successes", "latency", "request_latency", "mean", "x"), "request_latency mean is 'x'"),
        (changed(later(), "successes", "latency", "request_latency", "mean", -1.0), "mean_e2el_ms is negative"),
        (changed(later(), "successes", "latency", "time_to_first_token", "median", 9.0), "median_ttft_ms is above p90"),
        (changed(later(), "successes", "latency", "request_latency", statistics(500.0)), "longer than the whole run"),
        (changed(later(), "load_summary", "schedule_delay", [1]), "schedule_delay is a list, not an object"),
    ],
)
def test_what_is_no_measurement_is_refused(document, reason):
    assert reason in outcome(document, STAGE)[1]


def test_text_that_is_no_yaml_is_refused():
    with pytest.raises(RefusalError, match="not valid YAML"):
        read(b"load_summary: [\nsuccesses:\n")
