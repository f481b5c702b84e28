"""Scenarios that are sent at the same time, from end to end."""

from typing import Any

import pytest

from regress_gate.bench.load.load_client import OwnClientMeter
from regress_gate.bench.load.result import LoadResult

SUITE = """\
name: mine
version: 1
description: A chat beside a batch.
accelerator: cpu
conditions: {max_outside_cpu_cores: 1000, max_steal_cpu_cores: 1000}
gate: {metrics: [tpot_median]}
scenarios:
  - name: chat
    together: peak
    server: {model: fake, engine_args: {enforce_eager: true}}
    workload: {request_rate: 2, arrival: constant, input_len: 16, output_len: 8, num_requests: 40}
  - name: alone
    server: {model: fake, engine_args: {enforce_eager: true}}
    workload: {concurrency: 1, input_len: 16, output_len: 8, num_requests: 20}
  - name: batch
    together: peak
    server: {model: fake, engine_args: {enforce_eager: true}}
    workload: {concurrency: 4, input_len: 200, output_len: 50, num_requests: 400}
"""


@pytest.fixture
def mixed(lab):
    lab.suite.write_text(SUITE)
    lab.behave({"0.19.1": ["--batch-slowdown=0.3"]}, usual=("--ttft=0.05", "--tpot=0.01", "--run-spread=0.001"))
    lab.simulate_load()
    yield lab
    assert lab.servers() == []


@pytest.mark.slow
@pytest.mark.parametrize("way", ["--one-at-a-time", "--resident"])
def test_a_version_that_is_slow_only_under_mixed_load_fails_in_the_mix_alone(mixed, way):
    outcome = mixed("compare", "v0.19.0", "v0.19.1", "--measure", "--runs", 2, "--all-blocks", way, "--format", "json")
    assert outcome.code == 1, outcome
    verdicts = {each["scenario"]: each["verdict"] for each in outcome.json["series"] if each["metric"] == "tpot_median"}
    assert verdicts == {"chat": "regression", "batch": "regression", "alone": "within_margin"}
    for run in mixed.runs():
        trials = {trial.scenario: trial for trial in run.trials}
        assert sorted(trials) == ["alone", "batch", "chat"]
        assert (trials["chat"].requests, trials["alone"].requests) == (40, 20)
        assert 40 < trials["batch"].requests < 400
        assert trials["batch"].failed == 0


@pytest.mark.slow
def test_an_experiment_with_a_mix_that_was_interrupted_goes_on(mixed, monkeypatch):
    measure = OwnClientMeter.__call__
    calls = []

    def interrupted(*given: Any, **more: Any) -> LoadResult:
        calls.append(more["scenario"])
        if len(calls) == 3:
            raise KeyboardInterrupt
        return measure(*given, **more)

    monkeypatch.setattr(OwnClientMeter, "__call__", interrupted)
    assert mixed("run", "v0.19.0", "--runs", 2).code == 130
    assert len(mixed.runs()) == 1
    assert mixed("run", "v0.19.0", "--resume").code == 0
    assert calls == ["chat", "alone", "chat", "chat", "alone"]  # what is sent beside the chat is no call of its own
    assert [len(run.trials) for run in mixed.runs()] == [3, 3]


def test_a_mix_is_planned_and_shown_without_measuring(mixed):
    planned = mixed("compare", "v0.19.0", "v0.19.1", "--plan")
    assert (planned.code, mixed.runs()) == (0, [])
    shown = mixed.gate("suite", "show", mixed.suite)
    assert "sent at the same time as batch" in shown.out
    assert "sent at the same time as chat" in shown.out
