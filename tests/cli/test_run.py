"""Measuring a running server from the command line: real processes on loopback, one of them the server."""

import json
import re
import subprocess
import sys
import urllib.request
from contextlib import ExitStack

import pytest

from regress_gate.bench import external_servers
from regress_gate.bench.fixed_prompts import sanity_prompts
from regress_gate.bench.load.load_client import OwnClientMeter
from regress_gate.bench.machine.reservation import DIRECTORY_VARIABLE, machine_lock
from regress_gate.bench.server import metrics_watch
from tests.cli.conftest import ROOT
from tests.fake_vllm.idle_machine import pretend_idle
from tests.fake_vllm.simulation import SimulatedMeter, fetch_simulated_metrics

SUITE = """\
name: small
version: 1
description: Two small scenarios.
conditions: {{max_outside_cpu_cores: 1000, max_steal_cpu_cores: 1000}}
gate: {{metrics: [tpot_median, output_throughput, failed_requests], margins: {{"*": {margin}, failed_requests: 0.1}}}}
scenarios:
  - name: c2
    server: {{model: tiny}}
    workload: {{input_len: 16, output_len: 12, concurrency: 2, num_requests: 10, warmup_requests: 2}}
  - name: rate
    server: {{model: tiny}}
    workload: {{input_len: 24, output_len: 4, request_rate: 50, num_requests: 10, prefix_len: 8, slo: {{ttft: 5}}}}
"""


@pytest.fixture
def server():
    """Starts a fake vLLM with the given flags and gives its URL."""
    with ExitStack() as stack:

        def start(version="0.19.1", *flags):
            command = [sys.executable, "-m", "tests.fake_vllm", "--port", "0", "--vllm-version", version, *flags]
            # Fixed prompts are answered at once: their answers are compared, not their times.
            command += ["--served-model-name", "tiny", "--whole-at-once"]
            command += [] if "--tpot" in flags else ["--tpot", "0.01"]
            process = stack.enter_context(
                subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            )
            stack.callback(process.kill)
            url = f"http://127.0.0.1:{process.stdout.readline().strip().partition('=')[2]}"
            while True:
                try:
                    urllib.request.urlopen(f"{url}/health", timeout=30).close()
                except OSError:
                    assert process.poll() is None
                else:
                    return url

        yield start


@pytest.fixture(autouse=True)
def no_busy_machine(monkeypatch, gate):
    """Nor one on which others measure."""
    monkeypatch.setenv(DIRECTORY_VARIABLE, str(gate.directory))
    pretend_idle(monkeypatch.setattr)


@pytest.fixture
def suite(gate):
    path = gate.directory / "small.yaml"
    path.write_text(SUITE.format(margin=0.5))
    return path


def measure(gate, url, suite, *more, version="v0.19.1"):
    return gate("run", version, "--url", url, "--suite", suite, "--testbed", "lab", *more)


def held(gate):
    return gate("baseline", "list", "--testbed", "lab", "--format", "json").json["baselines"]


def test_a_running_server_is_measured_and_stored_as_one_run(gate, server, suite):
    outcome = measure(gate, server(), suite, "--trials", "2")
    assert outcome.code == 0
    assert "stored 4 trials of 0.19.1 on lab, small@1, as run:1" in outcome.out
    (holding,) = held(gate)
    assert (holding["version"], holding["runs"], holding["trials"], holding["scenarios"]) == ("0.19.1", 1, 4, 2)


def test_the_same_server_measured_again_adds_trials_to_its_run_and_a_restarted_one_is_a_new_run(gate, server, suite):
    url = server()
    measure(gate, url, suite)
    assert "as more of run:1" in measure(gate, url, suite).out
    measure(gate, server(), suite)
    (holding,) = held(gate)
    assert (holding["runs"], holding["trials"]) == (2, 6)


def test_another_version_than_the_one_that_was_asked_for_is_not_measured(gate, server, suite):
    outcome = measure(gate, server("0.20.0"), suite)
    assert outcome.code == 4
    assert "is vLLM 0.20.0, not 0.19.1" in outcome.error
    assert held(gate) == []


def test_no_server_could_not_be_measured(gate, suite):
    outcome = measure(gate, "http://127.0.0.1:9", suite)
    assert outcome.code == 4
    assert "does not answer" in outcome.error


@pytest.mark.parametrize("option", [("--runs", "2"), ("--resume",), ("--resident",), ("--budget", "45m")])
def test_a_server_that_runs_already_is_one_run_and_no_experiment(gate, suite, option):
    outcome = measure(gate, "http://127.0.0.1:9", suite, *option)
    assert outcome.code == 2
    assert "a server that already runs is one run; leave --runs, --resume" in outcome.error


@pytest.mark.parametrize("option", [("--testbed-fact", "accelerator=H200"), ("--run", "monday"), ("--allow-remote",)])
def test_what_is_meant_for_servers_that_run_already_is_refused_without_one(gate, suite, option):
    outcome = gate("run", "v0.19.1", "--suite", suite, *option)
    assert outcome.code == 2
    assert outcome.error.startswith(f"{option[0]} is for servers that already run; give --url too")


def test_a_server_elsewhere_is_refused_unless_it_is_asked_for(gate, suite):
    outcome = measure(gate, "http://192.0.2.1:8000", suite)
    assert outcome.code == 2
    assert "not this machine" in outcome.error


def test_a_workload_that_is_not_complete_is_refused_before_anything_is_sent(gate, suite):
    suite.write_text(SUITE.format(margin=0.5).replace("output_len: 4, ", ""))
    outcome = measure(gate, "http://127.0.0.1:9", suite)
    assert outcome.code == 2
    assert "scenario rate: the workload does not say output_len" in outcome.error


RECORDED = """\
name: recorded
version: 1
description: Recorded prompts.
conditions: {max_outside_cpu_cores: 1000, max_steal_cpu_cores: 1000}
scenarios:
  - name: chat
    server: {model: tiny}
    workload: {dataset: {format: sharegpt, file: chat.json}, ignore_eos: false, concurrency: 2, num_requests: 6}
  - name: mine
    server: {model: tiny}
    workload: {dataset: {format: custom, file: mine.jsonl}, concurrency: 2, num_requests: 6}
"""


def test_recorded_prompts_are_measured_and_another_file_is_another_workload(gate, suite, server, monkeypatch):
    monkeypatch.chdir(gate.directory)
    suite.write_text(RECORDED)
    turns = [{"value": "so many words as these are"}, {"value": "and these for an answer"}]
    (gate.directory / "chat.json").write_text(json.dumps([{"conversations": turns}] * 20))
    mine = [json.dumps({"prompt": f"prompt {number}", "output_tokens": 4}) for number in range(20)]
    (gate.directory / "mine.jsonl").write_text("\n".join(mine))
    assert measure(gate, server(), suite).code == 0
    (gate.directory / "mine.jsonl").write_text("\n".join(reversed(mine)))
    assert measure(gate, server("0.20.0"), suite, version="v0.20.0").code == 0
    compared = gate("compare", "v0.19.1", "v0.20.0", "--suite", suite, "--testbed", "lab", "--format", "json")
    notes = {reason["text"][:60] for reason in compared.json["reasons"] if reason["code"] == "incomparable"}
    assert notes == {"scenario mine: the file of recorded prompts differs: SHA-256"}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "chat.json: cannot be read (No such file or directory); a suite's file is looked for in the folder"),
        ("[]", "chat.json: holds no conversation of two turns; give a file in the format sharegpt"),
        (
            json.dumps([{"conversations": [{"value": "a"}, {"value": "b"}]}] * 5),
            "chat.json: holds 5 prompts, 6 are needed",
        ),
    ],
)
def test_recorded_prompts_that_cannot_be_used_are_reported_before_anything_is_sent(
    gate, suite, monkeypatch, content, says
):
    monkeypatch.chdir(gate.directory)
    suite.write_text(RECORDED)
    if content is not None:
        (gate.directory / "chat.json").write_text(content)
    outcome = measure(gate, "http://127.0.0.1:9", suite)
    assert outcome.code == 2
    assert says in outcome.error


def test_an_answer_that_is_longer_than_the_model_allows_is_reported_before_anything_is_sent(gate, suite, monkeypatch):
    monkeypatch.chdir(gate.directory)
    limited = "server: {model: tiny, engine_args: {max-model-len: 64}}"
    suite.write_text(
        RECORDED.replace("server: {model: tiny}", limited)
        .replace("chat.json", "mine.jsonl")
        .replace("sharegpt", "custom")
    )
    lines = [{"prompt": "a", "output_tokens": 63}] * 7 + [{"prompt": "b", "output_tokens": 64}]
    (gate.directory / "mine.jsonl").write_text("\n".join(map(json.dumps, lines)))
    outcome = measure(gate, "http://127.0.0.1:9", suite)
    assert outcome.code == 2
    assert "mine.jsonl: prompt 8 asks for 64 tokens, and max_model_len is 64; leave it out" in outcome.error


def test_a_dataset_that_is_only_a_name_is_for_results_that_are_imported(gate, suite):
    suite.write_text(SUITE.format(margin=0.5).replace("input_len: 16, ", "input_len: 16, dataset: sonnet, "))
    outcome = measure(gate, "http://127.0.0.1:9", suite)
    assert outcome.code == 2
    assert "scenario c2: dataset 'sonnet' cannot be sent; use random, or a file" in outcome.error


def test_a_suite_that_is_not_there_and_one_that_is_misspelt_are_named(gate):
    assert "no.yaml: cannot be read" in measure(gate, "http://127.0.0.1:9", "no.yaml").error
    assert "did you mean 'cpu-demo'?" in measure(gate, "http://127.0.0.1:9", "cpu-dem").error


def test_a_trial_that_measured_the_client_is_not_stored(gate, server, suite, monkeypatch):
    monkeypatch.setattr("regress_gate.bench.load.client_guards.MAX_CPU_SHARE", 0.0)
    outcome = measure(gate, server(), suite)
    assert outcome.code == 4
    assert "the client was the bottleneck" in outcome.err
    assert held(gate) == []


class TestFailing:
    @pytest.fixture(autouse=True)
    def impatience(self, monkeypatch):
        monkeypatch.setattr(external_servers, "RECOVERY_WITHIN", 0.5)

    @pytest.mark.parametrize("fault", ["--die-after", "--unhealthy-after"])
    def test_a_server_that_stops_serving_has_a_failed_run_and_no_numbers(self, gate, server, suite, fault):
        outcome = measure(gate, server("0.19.1", fault, "15"), suite)
        assert outcome.code == 4
        assert "was healthy, but is not any more" in outcome.err
        assert "stored a failure of 0.19.1 on lab, small@1, as run:1" in outcome.out
        (holding,) = held(gate)
        assert (holding["runs"], holding["trials"]) == (1, 0)

    def test_one_that_answers_no_request_of_a_trial_hangs(self, gate, server, suite):
        suite.write_text("request_timeout: 0.5\n" + suite.read_text())
        outcome = measure(gate, server("0.19.1", "--hang-after", "4"), suite)
        assert outcome.code == 4
        assert "no request of rate was answered in time" in outcome.err
        assert "stored a failure" in outcome.out

    def test_a_start_that_failed_says_no_more(self, gate, server, suite):
        url = server("0.19.1", "--unhealthy-after", "15")
        measure(gate, url, suite)
        again = measure(gate, url, suite)
        assert again.code == 4
        assert re.search(r"run started-\S+ has failed already \(.+\); start the server again", again.error)

    def test_a_server_that_dies_beside_one_that_serves_fails_the_comparison(self, gate, server, suite):
        urls = server("0.19.0"), server("0.19.1", "--die-after", "15")
        given = ("--suite", suite, "--testbed", "lab", "--url", urls[0], "--url", urls[1], "--format", "json")
        outcome = gate("compare", "v0.19.0", "v0.19.1", "--measure", *given)
        assert (outcome.code, outcome.json["decision"]) == (1, "fail")
        assert "1 of 1 server starts of 0.19.1 failed" in str(outcome.json["reasons"])
        assert "stored 2 trials of 0.19.0" in outcome.err


def test_where_nothing_could_be_used_nothing_is_decided_from_what_was_stored_before(gate, server, suite, monkeypatch):
    urls = server("0.19.0"), server("0.19.1")
    for version, url in zip(("0.19.0", "0.19.1"), urls, strict=True):
        assert measure(gate, url, suite, version=version).code == 0
    monkeypatch.setattr("regress_gate.bench.load.client_guards.MAX_CPU_SHARE", 0.0)
    given = ("--suite", suite, "--testbed", "lab", "--url", urls[0], "--url", urls[1], "-q")
    outcome = gate("compare", "v0.19.0", "v0.19.1", "--measure", *given)
    assert (outcome.code, outcome.out) == (4, "")
    assert "0.19.0 could not be measured: no trial could be used" in outcome.err


def test_a_server_here_is_not_measured_beside_another_measurement(gate, server, suite):
    url = server()
    with machine_lock():
        outcome = measure(gate, url, suite)
    assert outcome.code == 4
    assert "uses the machine; wait for it to end" in outcome.error
    assert held(gate) == []


def test_failing_requests_are_data_of_the_version_and_not_an_error_of_the_tool(gate, server, suite):
    url = server("0.19.1", "--cut-every", "3")
    outcome = measure(gate, url, suite)
    assert outcome.code == 0
    assert "requests failed" in outcome.err
    shown = gate("baseline", "show", "v0.19.1", "--testbed", "lab").out
    assert re.search(r"\b2 +13 +7\b", shown.splitlines()[1])  # trials, completed, failed


@pytest.fixture
def in_virtual_time(monkeypatch):
    """Servers of the named versions are measured by simulated ones with these flags, however busy the machine is."""

    def behave(flags):
        meter = SimulatedMeter(flags)
        monkeypatch.setattr(metrics_watch, "fetch_metrics", fetch_simulated_metrics)
        monkeypatch.setattr(OwnClientMeter, "__call__", lambda *given, **more: meter.measure(*given, **more))

    return behave


def test_measured_runs_of_two_versions_are_compared_under_the_suites_own_margins(gate, server, suite, in_virtual_time):
    in_virtual_time({version: ["--tpot=0.01"] for version in ("0.19.0", "0.19.1")})
    for seed, version in enumerate(("0.19.0", "0.19.1") * 3):
        url = server(version, "--run-spread=0.01", f"--seed={seed}")
        assert measure(gate, url, suite, version=version).code == 0
    compared = gate("compare", "v0.19.0", "v0.19.1", "--suite", suite, "--format", "json")
    result = json.loads(compared.out)
    assert result["suite"]["name"] == "small"
    assert {series["margin"] for series in result["series"] if series["metric"] == "tpot_median"} == {0.5}
    assert result["baseline"]["runs"] == result["candidate"]["runs"] == 3
    assert result["decision"] == "pass"


def test_a_slower_version_is_found(gate, server, suite, in_virtual_time):
    suite.write_text(SUITE.format(margin=0.2))
    in_virtual_time({"0.19.0": ["--tpot=0.01"], "0.19.1": ["--tpot=0.03"]})
    for seed, version in enumerate(("0.19.0", "0.19.1") * 3):
        url = server(version, "--run-spread=0.01", f"--seed={seed}")
        assert measure(gate, url, suite, version=version).code == 0
    result = gate("compare", "v0.19.0", "v0.19.1", "--suite", suite, "--format", "json").json
    assert result["decision"] == "fail", result["series"]
    assert result["suite"]["file"] == str(suite)
    page = gate("compare", "v0.19.0", "v0.19.1", "--suite", suite, "--format", "markdown").out
    assert f"--suite {suite} --testbed lab" in page, "the command for finding the build can be run as it stands"
    worse = {f"{s['scenario']}/{s['metric']}" for s in result["series"] if s["gated"] and s["verdict"] == "regression"}
    assert "c2/tpot_median" in worse


def test_two_running_servers_take_turns_and_are_compared(gate, server, suite):
    urls = [server(version) for version in ("0.19.0", "0.19.1")]
    given = ("--suite", suite, "--testbed", "lab", "--url", urls[0], "--url", urls[1], "--format", "json")
    outcome = gate("compare", "v0.19.0", "v0.19.1", "--measure", *given)
    assert (outcome.code, outcome.json["decision"]) == (3, "inconclusive"), "one run a side decides nothing"
    assert outcome.json["baseline"]["runs"] == outcome.json["candidate"]["runs"] == 1
    assert outcome.err.count("stored 2 trials") == 2

    assert gate("compare", "v0.19.0", "v0.19.1", "--url", urls[0]).error == "--url is for measuring; give --measure too"
    assert "--url was given 1 time;" in gate("compare", "v0.19.0", "v0.19.1", "--measure", *given[:6]).error


ACCURATE = re.sub(r"metrics: \[.*?\]", 'metrics: ["accuracy_*"]', SUITE)
"""Gates nothing that takes time: a busy machine must not decide."""


@pytest.mark.parametrize(("noise", "decision"), [("0", "pass"), ("1", "fail")])
def test_a_running_server_is_asked_the_fixed_prompts_and_other_answers_are_found(gate, server, suite, noise, decision):
    suite.write_text(ACCURATE.format(margin=0.9))
    for _ in range(2):
        measure(gate, server("0.19.0"), suite, version="v0.19.0")
        measure(gate, server("0.19.1", "--output-noise", noise), suite)
    found = gate("compare", "v0.19.0", "v0.19.1", "--testbed", "lab", "--suite", suite, "--format", "json").json
    gated = {series["metric"]: series for series in found["series"] if series["gated"]}
    assert gated["accuracy_agreement"]["baseline"]["runs"] == 2
    assert found["decision"] == decision


def test_a_server_is_asked_the_fixed_prompts_once(gate, server, suite):
    """And not again when the same server is measured again, whose run has its answers."""

    def asked():
        with urllib.request.urlopen(f"{url}/fake/requests") as answer:
            return len(json.load(answer)["requests"])

    url = server()
    measure(gate, url, suite)
    first = asked()
    measure(gate, url, suite)
    assert first - (asked() - first) == len(sanity_prompts())
