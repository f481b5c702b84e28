"""Recorded traffic from end to end: the same requests to both versions, and never two traces in one comparison."""

import json

import pytest

SUITE = """\
name: mine
version: 1
description: The traffic of a day.
accelerator: cpu
conditions: {max_outside_cpu_cores: 1000, max_steal_cpu_cores: 1000}
gate: {metrics: [e2el_median]}
scenarios:
  - name: day
    server: {model: fake, engine_args: {enforce_eager: true}}
    workload: {num_requests: 20, warmup_requests: 2, trace: {file: %s}}
"""


@pytest.fixture
def record(lab):
    """Writes the trace: 22 requests, one each so many seconds."""
    file = lab.suite.parent / "traffic.jsonl"

    def write(gap):
        lines = [json.dumps({"time": gap * n, "input_tokens": 10 + n, "output_tokens": 4}) for n in range(22)]
        file.write_text("\n".join(lines))

    write(1.0)
    lab.suite.write_text(SUITE % file)
    lab.behave({"0.19.1": ["--ttft=0.2"]}, usual=("--ttft=0.1", "--tpot=0"))
    lab.simulate_load()
    yield write
    assert lab.servers() == []


@pytest.mark.slow
@pytest.mark.usefixtures("record")
def test_both_versions_get_the_same_requests_and_the_slower_one_is_found(lab):
    outcome = lab("compare", "v0.19.0", "v0.19.1", "--measure", "--runs", 2, "--all-blocks", "--format", "json")
    assert outcome.out, outcome
    trials = [trial for run in lab.runs() for trial in run.trials]
    assert len(trials) == 4
    assert len({trial.workload["trace_sha256"] for trial in trials}) == 1
    assert {trial.workload["mean_input_tokens"] for trial in trials} == {21.5}
    assert all(
        trial.samples is not None and trial.samples.start.max() == pytest.approx(19.0, abs=0.01) for trial in trials
    )
    (series,) = (each for each in outcome.json["series"] if each["metric"] == "e2el_median")
    assert series["change"] == pytest.approx(1.0, abs=0.02)


@pytest.mark.slow
def test_runs_of_another_trace_are_not_compared(lab, record):
    assert lab("run", "v0.19.0").code == 0
    record(0.5)
    assert lab("run", "v0.19.1").code == 0
    assert len({run.place.suite_digest for run in lab.runs()}) == 2
    outcome = lab("compare", "v0.19.0", "v0.19.1", "--format", "json")
    assert outcome.code == 3
    assert "incomparable" in {reason["code"] for reason in outcome.json["reasons"]}
    assert [difference["what"] for difference in outcome.json["testbed"]["differences"]] == ["suite's text"]


def test_a_trace_that_cannot_be_read_is_an_error_before_any_server_starts(lab, record):
    record(500.0)
    outcome = lab("run", "v0.19.0")
    assert (outcome.code, lab.runs()) == (2, [])
    assert "traffic.jsonl: the requests take 9,500 s, more than the 3,000 s of a trial" in outcome.err
