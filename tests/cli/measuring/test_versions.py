"""`run VERSION` from end to end: servers are started and stopped, and what they did is stored as what it was."""

import re
import sys

import pytest

from regress_gate.bench.load import client_guards
from regress_gate.bench.load.load_client import LoadLimits
from regress_gate.bench.machine.reservation import machine_lock


@pytest.fixture(autouse=True)
def nothing_is_left_running(lab):
    yield
    assert lab.servers() == []
    assert lab.states == []


class TestMeasured:
    def test_each_run_is_a_fresh_server_with_all_that_was_seen_of_it(self, lab):
        outcome = lab("run", "v0.19.1", "--runs", 2)
        assert outcome.code == 0
        assert re.fullmatch(r"stored 2 runs of 0\.19\.1 on lab, small@1 \(\S+\)\n", outcome.out)
        first, second = lab.runs()
        for run in (first, second):
            assert (str(run.version), run.testbed.name, str(run.suite)) == ("0.19.1", "lab", "small@1")
            assert [(trial.scenario, trial.completed, trial.failed) for trial in run.trials] == [("c4", 6, 0)]
            assert {"startup_time", "peak_memory", "kv_cache_tokens"} <= run.metrics.keys()
            assert run.conditions.outside_cpu_cores is not None
            assert (run.server["version"], run.server["kv_cache_tokens"]) == ("0.19.1", 174720)
            assert run.outputs is not None
            assert run.failure is None
        assert first.trials[0].source.path != second.trials[0].source.path  # each at its own port
        assert first.outputs == second.outputs

    def test_runs_know_the_experiment_that_they_were_made_for(self, lab):
        experiment = re.search(r"\((\S+)\)", lab("run", "0.19.1", "--runs", 2).out)[1]
        places = [run.place for run in lab.runs()]
        assert [(place.experiment, place.block, place.side) for place in places] == [
            (experiment, 1, "single"),
            (experiment, 2, "single"),
        ]

    def test_trials_are_passes_within_one_run(self, lab):
        assert lab("run", "0.19.1", "--runs", 1, "--trials", 3).code == 0
        (run,) = lab.runs()
        assert [trial.ordinal for trial in run.trials] == [1, 2, 3]

    def test_a_log_says_once_what_begins_what_became_of_it_and_how_long_it_will_take(self, lab):
        lab.simulate_load()  # on a busy machine there would be notes, too
        lines = lab("run", "0.19.1", "--runs", 2).err.splitlines()
        assert lines[:4] == [
            "provisioning vLLM 0.19.1",
            "starting fake on the given command",
            "measuring 0.19.1, c4",
            "asking 0.19.1 the fixed prompts",
        ]
        assert lines[4].startswith("run:1 block 1, single 0.19.1: 1 trial in ")
        assert re.fullmatch(r"starting fake on the given command \((about .+ left|nearly done)\)", lines[5])

    def test_quiet_means_quiet(self, lab):
        outcome = lab("run", "0.19.1", "--runs", 1, "-q")
        assert (outcome.code, outcome.err) == (0, "")

    def test_requests_that_fail_are_data_of_the_version(self, lab):
        lab.behave({"0.19.1": ["--error-burst=3:3"]})  # the first two warm up
        outcome = lab("run", "0.19.1", "--runs", 1)
        assert outcome.code == 0
        assert "3 requests failed: HTTP 503" in outcome.err
        (run,) = lab.runs()
        assert run.trials[0].metrics["failed_requests"] == 0.5


class TestNotMeasured:
    def test_another_version_than_the_one_asked_for_is_not_stored(self, lab):
        lab.behave({"0.19.1": ["--vllm-version=0.20.0"]})
        outcome = lab("run", "0.19.1", "--runs", 1)
        assert outcome.code == 4
        assert "the server started for 0.19.1 is vLLM 0.20.0; nothing was measured" in outcome.err
        assert lab.runs() == []

    def test_a_launch_line_whose_program_is_not_there_says_so(self, lab):
        outcome = lab.gate(
            *("run", "0.19.1", "--suite", lab.suite, "--serve-command", "/nowhere/vllm {version} {port}")
        )
        assert outcome.code == 2
        assert "'/nowhere/vllm' is not an executable program" in outcome.err
        assert lab.runs() == []

    def test_two_measurements_at_once_would_measure_each_other(self, lab):
        with machine_lock():
            outcome = lab("run", "0.19.1", "--runs", 1)
        assert outcome.code == 4
        assert "uses the machine; wait for it to end" in outcome.error
        assert lab.runs() == []

    def test_trials_that_measured_the_client_are_no_data_and_the_run_is_made_again(self, lab, monkeypatch):
        monkeypatch.setattr(client_guards, "MAX_CPU_SHARE", 0.0)
        outcome = lab("run", "0.19.1", "--runs", 1)
        assert outcome.code == 4
        assert "the client was the bottleneck" in outcome.err
        assert "1 run void at every try" in outcome.err
        assert outcome.out.startswith("stored 0 runs")
        assert [run.trials for run in lab.runs()] == [(), (), ()]


FAILURES = {
    "at start": (["--die-at-start"], (), "died_at_start", "torch.OutOfMemoryError: CUDA out of memory"),
    "import": (["--die-at-start=import"], (), "died_at_start", "ImportError: libcudart.so.13"),
    "by a signal": (["--die-at-start=illegal"], (), "died_at_start", "SIGILL"),
    "refused flag": (["--reject-arg=enforce_eager"], (), "died_at_start", "unrecognized arguments: --enforce-eager"),
    "never ready": (["--never-ready"], ("--ready-within", "1s"), "never_ready", "not healthy within 1 s"),
    "under load": (["--die-after=4"], (), "died_under_load", "CUDA error: an illegal memory access"),
    "engine lost": (["--lose-engine-after=4"], (), "died_under_load", "EngineDeadError"),
    "hang": (["--hang-after=0"], (), "unresponsive", "no request of c4 was answered in time"),
}


class TestFailed:
    @pytest.mark.parametrize("name", FAILURES)
    def test_a_server_that_fails_is_stored_as_evidence_with_the_decisive_line(self, lab, name):
        flags, options, kind, line = FAILURES[name]
        lab.behave({"0.19.1": flags})
        lab.write_suite(timeout=0.5 if name == "hang" else 60)
        outcome = lab("run", "0.19.1", "--runs", 1, *options)
        assert outcome.code == 4
        assert "FAILED" in outcome.err
        assert line in outcome.err
        assert "1 server start failed: stored as evidence" in outcome.err
        assert outcome.out.startswith("stored 0 runs of 0.19.1")
        (run,) = lab.runs()
        assert run.failure.kind == kind
        assert line in "\n".join((run.failure.text, *run.failure.lines))
        assert (run.trials, run.metrics) == ((), {})

    def test_two_failures_in_a_row_are_enough(self, lab):
        lab.behave({"0.19.1": ["--die-at-start"]})
        assert lab("run", "0.19.1", "--runs", 5).code == 4
        assert len(lab.runs()) == 2

    def test_one_failure_among_good_runs_is_kept_beside_them(self, lab):
        lab.behave({"0.19.1": ["--die-at-start", "--faulty-start=2", "--faulty-start=3"]})
        outcome = lab("run", "0.19.1", "--runs", 3)
        assert outcome.code == 4
        assert outcome.out.startswith("stored 2 runs")
        assert [run.failure is None for run in lab.runs()] == [True, False, True]

    def test_one_start_that_fails_is_repeated_and_reported(self, lab):
        lab.behave({"0.19.1": ["--die-at-start", "--faulty-start=1"]})
        outcome = lab("run", "0.19.1", "--runs", 1)
        assert outcome.code == 0
        assert "note: a start failed before one served: the server ended" in outcome.err
        (run,) = lab.runs()
        assert run.failure is None
        assert len(run.server["failed_starts"]) == 1

    def test_what_is_not_the_versions_is_not_stored(self, lab):
        line = f"{sys.executable} -c 'raise OSError(28, \"No space left on device\")' {{version}} {{port}}"
        outcome = lab.gate("run", "0.19.1", "--suite", lab.suite, "--serve-command", line)
        assert outcome.code == 4
        assert "a disk is full: the server ended" in outcome.err
        assert "No space left on device" in outcome.err
        assert lab.runs() == []

    def test_a_launch_line_whose_program_is_not_there_is_no_evidence(self, lab):
        line = "sh -c 'no-such-vllm {version} {port}'"
        outcome = lab.gate("run", "0.19.1", "--suite", lab.suite, "--serve-command", line)
        assert outcome.code == 4
        assert "the launch line's program could not be run (exit status 127)" in outcome.err
        assert lab.runs() == []

    def test_trials_that_take_longer_than_the_tool_allows_are_no_data(self, lab, monkeypatch):
        lab.simulate_load()
        lab.behave({"0.19.1": ["--ttft=1"]})
        lab.write_suite(warmup=0)
        monkeypatch.setattr(LoadLimits.__init__, "__defaults__", (300.0, 1.7))  # four of six requests end in time
        outcome = lab("run", "0.19.1", "--runs", 1)
        assert outcome.code == 4
        assert "longer than the tool allows" in outcome.err
        assert [run.trials for run in lab.runs()] == [(), (), ()]


class TestBudget:
    def test_what_does_not_fit_is_left_for_later(self, lab):
        outcome = lab("run", "0.19.1", "--runs", 2, "--budget", "0.01s")
        assert outcome.code == 4
        assert "the budget is used up with 1 run missing; --resume goes on" in outcome.err
        assert len(lab.runs()) == 1
        resumed = lab("run", "0.19.1", "--resume")
        assert (resumed.code, len(lab.runs())) == (0, 2)

    def test_there_is_nothing_to_resume_once_all_is_done(self, lab):
        lab("run", "0.19.1", "--runs", 1)
        outcome = lab("run", "0.19.1", "--resume")
        assert outcome.code == 2
        assert "no unfinished experiment of 0.19.1 with small@1 on lab" in outcome.error
        assert len(lab.runs()) == 1

    def test_another_version_has_its_own_experiments(self, lab):
        lab("run", "0.19.1", "--runs", 2, "--budget", "0.01s")
        assert lab("run", "0.19.0", "--resume").code == 2
