"""What holds for every driver: no result without data, nothing sent that was not asked for, and a source that tells."""

import json
import math
import shlex
from hashlib import sha256
from pathlib import Path

import pytest

from regress_gate.bench.drivers import DRIVERS, DriverMeter, find_driver
from regress_gate.bench.load.dataset import Dataset, DatasetFormat
from regress_gate.bench.load.load_errors import LoadError
from regress_gate.bench.load.load_workload import Arrival, LoadWorkload, ServingApi, TurnTaking
from regress_gate.errors import ExitCode, InputError
from regress_gate.model.suite import Images
from tests.factories.serve_results import detailed, made_up

from .conftest import recorded

VLLM = {"result.json": json.dumps(detailed(made_up(requests=4, tokens=32)))}
GUIDELLM = {"benchmarks.json": recorded("guidellm.json")}
AIPERF = {"profile_export_aiperf.json": recorded("aiperf.json"), "profile_export.jsonl": recorded("aiperf.jsonl")}
WRITTEN = {"vllm-bench": VLLM, "guidellm": GUIDELLM, "aiperf": AIPERF}

every_driver = pytest.mark.parametrize("name", DRIVERS)


@every_driver
def test_a_tool_that_is_not_there_is_said_with_what_to_do(name, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LoadError, match=rf"^{DRIVERS[name].program} is not installed: pip install") as caught:
        find_driver(name)
    assert caught.value.exit_code is ExitCode.COULD_NOT_MEASURE


def test_a_pinned_executable_that_is_none_is_said(tmp_path):
    with pytest.raises(LoadError, match="no executable; give the path of aiperf"):
        find_driver("aiperf", tmp_path / "aiperf")


def test_an_unknown_driver_names_the_nearest():
    with pytest.raises(InputError, match="did you mean 'guidellm'"):
        find_driver("guidelm")


@every_driver
def test_the_trial_says_which_tool_in_which_version_measured_it_and_how(name, tool):
    made = tool(name, WRITTEN[name])
    result = made.measure()
    source = result.trial.source
    version = {"vllm-bench": "0.32.0+cpu", "guidellm": "0.8.1", "aiperf": "0.13.0"}[name]
    assert source.tool == DRIVERS[name].tool
    assert source.client_version == f"{DRIVERS[name].tool} {version}"
    assert shlex.split(source.command or "") == [str(made.path), *made.called["arguments"]]
    assert source.sha256 == sha256(result.content).hexdigest()
    assert (result.trial.scenario, result.trial.ordinal) == ("c4", 2)


@every_driver
def test_the_workload_is_described_as_the_load_client_describes_it(name, tool):
    described = tool(name, WRITTEN[name]).measure(seed=7).trial.workload
    expected = {"model": "tiny", "num_prompts": 4, "max_concurrency": 4, "input_len": 128, "output_len": 32, "seed": 7}
    assert described.items() >= expected.items()
    assert described["mean_output_tokens"] == 32


@every_driver
def test_what_the_tool_defines_otherwise_is_kept_apart_as_its_imported_files_are(name, tool):
    definitions = {"vllm-bench": None, "guidellm": "guidellm-requests", "aiperf": "aiperf"}[name]
    assert tool(name, WRITTEN[name]).measure().trial.workload.get("definitions") == definitions


@every_driver
def test_a_driver_does_not_claim_that_the_client_kept_up(name, tool):
    result = tool(name, WRITTEN[name]).measure()
    assert result.why_void is None
    assert math.isnan(result.guards.loop_lag_p99)
    assert f"measured by {DRIVERS[name].tool}: whether its client was the bottleneck is not known" in result.notes


@every_driver
def test_a_failing_tool_is_an_error_with_its_last_line(name, tool):
    broken = tool(name, WRITTEN[name], status=3, says="Traceback\nValueError: no such \x1b[31mtokenizer\n")
    with pytest.raises(LoadError, match=r"failed with status 3: ValueError: no such .*tokenizer") as caught:
        broken.measure()
    assert "\x1b" not in str(caught.value)


@every_driver
def test_a_tool_that_ends_well_without_a_result_has_measured_nothing(name, tool):
    with pytest.raises(LoadError, match="ended with status 0 but wrote no result: 0 requests processed"):
        tool(name, {}, says="0 requests processed").measure()


@every_driver
@pytest.mark.parametrize("content", ["", "{", "[]", "{}", "null", "no JSON at all", '{"benchmarks": [{}]}'])
def test_a_result_that_is_none_is_an_error_and_no_traceback(name, content, tool):
    with pytest.raises(LoadError, match="its result cannot be used"):
        tool(name, dict.fromkeys(WRITTEN[name], content)).measure()


@every_driver
def test_fewer_requests_than_asked_for_are_not_the_workload(name, tool):
    with pytest.raises(LoadError, match="sent 4 requests where 5 were asked for"):
        tool(name, WRITTEN[name]).measure(num_requests=5)


@every_driver
@pytest.mark.parametrize(
    ("workload", "named"),
    [
        ({"ignore_eos": False}, "ignore_eos"),
        ({"extra_body": {"top_k": 1}}, "extra_body"),
        ({"lora_adapters": ("a",)}, "LoRA"),
        ({"api": ServingApi.EMBEDDINGS, "output_len": 0}, "embeddings"),
        ({"api": ServingApi.CHAT}, "the chat API"),
        ({"api": ServingApi.CHAT, "images": Images(width=64, height=64)}, "the chat API, images"),
        ({"num_requests": 6, "conversation": TurnTaking(2)}, "conversations"),
        ({"together": (("other", LoadWorkload(8, 8, 9, concurrency=1)),)}, "scenarios at the same time"),
        ({"request_rate": 9.0, "arrival": Arrival.GAMMA, "burstiness": 0.5}, "bursts"),
        ({"request_rate": 9.0, "arrival": Arrival.ON_OFF, "phases": (1.0, 4.0)}, "bursts"),
        ({"dataset": Dataset(DatasetFormat.CUSTOM, Path("mine.jsonl"), "0" * 64)}, "recorded prompts"),
    ],
)
def test_a_workload_that_the_driver_does_not_know_is_refused_before_anything_runs(name, workload, named, tool):
    made = tool(name, WRITTEN[name])
    with pytest.raises(InputError, match=named):
        made.measure(**workload)
    assert not made.path.with_suffix(".called").exists()


@every_driver
def test_a_server_elsewhere_is_not_measured(name, tool):
    with pytest.raises(InputError, match="not this machine"):
        tool(name, WRITTEN[name]).measure("http://192.0.2.1:8000")


@every_driver
def test_each_pass_has_its_own_seed_and_the_same_one_again(name, tool):
    made = tool(name, WRITTEN[name])
    seen = []
    for seed in (0, 0, 1):
        made.measure(seed=seed)
        seen.append([argument for argument in made.called["arguments"] if str(made.path.parent) not in argument])
    folderless = [[word for word in line if "regress-gate-" not in word] for line in seen]
    assert folderless[0] == folderless[1] != folderless[2]


@every_driver
def test_the_tool_does_not_see_the_packages_of_this_process(name, tool, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    made = tool(name, WRITTEN[name])
    made.measure()
    assert made.called["path"] is None


@every_driver
def test_the_warm_up_is_sent_by_our_own_client_before(name, tool, start):
    server = start()
    tool(name, WRITTEN[name]).measure(server.target.url, warmup_requests=3)
    requests = server.requests
    assert [request["prompt_tokens"] for request in requests] == [128, 128, 128]


@every_driver
def test_a_tool_that_sends_in_a_burst_what_was_to_be_spread_has_measured_another_workload(name, tool):
    with pytest.raises(LoadError, match=r"requests a second where 0\.01 were asked for"):
        tool(name, WRITTEN[name]).measure(request_rate=0.01, concurrency=None)


@every_driver
def test_in_an_open_loop_it_is_said_from_when_latency_counts(name, tool):
    starts = {"vllm-bench": 8, "guidellm": 110, "aiperf": 3}  # requests a second in the files
    result = tool(name, WRITTEN[name]).measure(request_rate=starts[name], concurrency=None)
    assert any("latency counts from the moment of sending" in note for note in result.notes)


def test_as_a_meter_it_takes_each_scenarios_tokenizer_and_reports_the_end(tool):
    made = tool("aiperf", AIPERF)
    meter = DriverMeter(find_driver("aiperf", made.path), {"c4": "org/other"})
    told = []

    def progress(done: int, total: int) -> None:
        told.append((done, total))

    workload = LoadWorkload(128, 32, 4, concurrency=4)
    begun: list[bool] = []
    result = meter(
        "http://127.0.0.1:9",
        "tiny",
        workload,
        scenario="c4",
        ordinal=1,
        progress=progress,
        begins=lambda: begun.append(bool(told)),
    )
    assert begun == [False]
    assert result.trial.completed == 4
    assert told == [(4, 4)]
    assert "org/other" in made.called["arguments"]
